use super::*;

#[derive(Debug, PartialEq)]
enum Expected {
    Number(f64),
    Nothing,
    Error(&'static str),
}
use Expected::{Error, Nothing, Number};

fn outcome(body: &str) -> (Expected, bool) {
    match read(body.as_bytes()) {
        Ok(Answer { value, partial }) => (value.number.map_or(Nothing, Number), partial.is_some()),
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() <= 200 && !text.contains("hunter2"), "{text}");
            (Error(text.leak()), false)
        }
    }
}

#[track_caller]
fn check(body: &str, expected: Expected) {
    assert_eq!(outcome(body), (expected, false), "{}", &body[..body.len().min(200)]);
}

fn vector(elements: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{elements}]}}}}"#)
}

#[track_caller]
fn check_value(value: &str, expected: Expected) {
    check(&vector(&format!(r#"{{"metric":{{"job":"a"}},"value":{value}}}"#)), expected);
}

const JSON: Expected = Error("source sent a malformed reply: it is not the JSON of Prometheus' query API");
const NO_NUMBER: Expected = Error("source sent a malformed reply: its value has no number");
const NAN: Expected = Error("source sent a malformed reply: its value is not a number");

/// keda.md C.7: KEDA's own rows, which have neither `status` nor `resultType`.
#[test]
fn kedas_replies() {
    let result = |elements: &str| format!(r#"{{"data":{{"result":[{elements}]}}}}"#);
    check(&result(""), Nothing);
    check(&result(r#"{"value":[]}"#), Nothing);
    check(&result(r#"{"value":["1","2"]}"#), Number(2.0));
    check(&result(r#"{"value":["1"]}"#), NO_NUMBER);
    check(&result(r#"{"value":["1","2"]},{"value":["1","2"]}"#), Error("the query returned 2 series, and not one"));
    for word in ["+Inf", "-Inf", "NaN"] {
        check(&result(&format!(r#"{{"value":["1","{word}"]}}"#)), Nothing);
    }
    check(&result(r#"{"value":[1686063687,"777"]}"#), Number(777.0));
}

/// KEDA makes a 0 of these; they say nothing, so that nothing follows from them.
#[test]
fn replies_that_say_nothing_are_no_zero() {
    for body in ["{}", r#"{"status":"success"}"#, r#"{"status":"success","data":{}}"#, r#"{"data":null}"#] {
        check(body, JSON);
    }
    check(r#"{"status":"success","data":{"resultType":"vector","result":null}}"#, JSON);
}

#[test]
fn b94_no_series() {
    check(&vector(""), Nothing);
}

#[test]
fn b95_nan_and_infinities() {
    for word in ["NaN", "+Inf", "-Inf", "Inf"] {
        check_value(&format!(r#"[1,"{word}"]"#), Nothing);
    }
}

#[test]
fn b96_values_that_are_short() {
    check_value("[]", Nothing);
    check_value("[1]", NO_NUMBER);
    check_value("[1,null]", Nothing);
    check_value("null", Nothing);
    check(&vector(r#"{"metric":{}}"#), Nothing);
    check_value(r#"[1,"2","3"]"#, Error("source sent a malformed reply: its value has more than a time and a number"));
}

#[test]
fn b97_series_are_counted() {
    let series = r#"{"metric":{"job":"hunter2"},"value":[1,"5"]}"#;
    for (count, text) in
        [(2, "the query returned 2 series, and not one"), (700, "the query returned 700 series, and not one")]
    {
        check(&vector(&vec![series; count].join(",")), Error(text));
    }
}

#[test]
fn b98_scalars_are_numbers_and_strings_are_not() {
    let data = |kind: &str, result: &str| {
        format!(r#"{{"status":"success","data":{{"result":{result},"resultType":"{kind}"}}}}"#)
    };
    check(&data("scalar", r#"[1435781451.781,"5"]"#), Number(5.0));
    check(&data("scalar", r#"[1435781451.781,"NaN"]"#), Nothing);
    check(
        &data("string", r#"[1435781451.781,"5"]"#),
        Error("query refused: it returns a string; it must return a number"),
    );
    let ranges = Error("query refused: it returns ranges; it must return one instant value");
    check(&data("matrix", r#"[{"metric":{},"values":[[1,"1"]]}]"#), ranges);
    check(&data("streams", "[]"), Error("source sent a malformed reply: its resultType is unknown"));
    check(r#"{"data":{"result":[1435781451.781,"5"]}}"#, JSON);
}

#[test]
fn what_is_no_instant_number_is_no_zero() {
    let text = "query refused: it returns ranges or histograms; it must return one instant value";
    for element in [r#"{"metric":{},"histogram":[1,{"count":"3","sum":"1"}]}"#, r#"{"values":[[1,"1"]]}"#] {
        check(&vector(element), Error(text));
    }
}

#[test]
fn b112_numbers_as_servers_write_them() {
    for (written, number) in [
        (r#""0.25""#, 0.25),
        (r#""0.0004""#, 0.0004),
        (r#""9.3e15""#, 9.3e15),
        (r#""1e+19""#, 1e19),
        (r#""-0.5""#, -0.5),
        (r#""+5""#, 5.0),
        ("5", 5.0),
        ("-5", -5.0),
        ("5.5", 5.5),
        ("18446744073709551615", 18_446_744_073_709_551_615.0),
    ] {
        check_value(&format!("[1435781451.781,{written}]"), Number(number));
    }
    for written in [r#""""#, r#""five""#, r#""1e999""#, r#""0x10""#, r#""5 ""#] {
        check_value(&format!("[1,{written}]"), NAN);
    }
    for written in ["[]", "{}", "true", r#"{"value":[1,"2"]}"#] {
        check_value(&format!("[1,{written}]"), NO_NUMBER);
    }
    check_value("[1,1e400]", JSON);
}

#[test]
fn times_are_numbers_or_strings_or_unknown() {
    for (written, expected) in [
        ("1435781451.781", Some(1_435_781_451.781)),
        (r#""1435781451""#, Some(1_435_781_451.0)),
        ("null", None),
        (r#""now""#, None),
        (r#""NaN""#, None),
    ] {
        let body = vector(&format!(r#"{{"value":[{written},"1"]}}"#));
        assert_eq!(read(body.as_bytes()).unwrap().value.timestamp, expected, "{written}");
    }
}

/// safety.md, rows 34 and 35.
#[test]
fn status_warnings_and_is_partial_are_respected() {
    let ended = |end: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"value":[1,"5"]}}]}}{end}}}"#)
    };
    for (end, partial) in [
        ("", false),
        (r#","warnings":[]"#, false),
        (r#","warnings":null"#, false),
        (r#","infos":["PromQL info: metric might not be a counter"]"#, false),
        (r#","isPartial":false"#, false),
        (r#","warnings":["hunter2"]"#, true),
        (r#","warnings":["a","b","c"]"#, true),
        (r#","isPartial":true"#, true),
    ] {
        assert_eq!(outcome(&ended(end)), (Number(5.0), partial), "{end}");
    }
    for (body, text) in [
        (r#"{"status":"error","errorType":"bad_data","error":"hunter2"}"#, "query refused: bad PromQL or parameters"),
        (r#"{"status":"error","errorType":"execution","error":"hunter2"}"#, "query refused: it cannot be evaluated"),
        (r#"{"status":"error","errorType":"timeout"}"#, "source not ready: the reply is an error"),
        (r#"{"status":"error","data":{"result":[]}}"#, "source not ready: the reply is an error"),
    ] {
        check(body, Error(text));
    }
    check(r#"{"status":"hunter2","data":{"result":[]}}"#, JSON);
}

/// safety.md, row 35 and section 8.
#[test]
fn what_is_no_reply() {
    for body in [
        "",
        "<html><body>Sign in</body></html>",
        "[]",
        "5",
        "null",
        r#"{"status":"success","data":{"resultType":"vector","result":"#,
        r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[5]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[]}} trailing"#,
        r#"{"status":"success","status":"success","data":{"result":[]}}"#,
    ] {
        check(body, JSON);
    }
    check("\u{1f}\u{8b}\u{8}", JSON);
}

#[test]
fn e6_depth_is_bounded() {
    let deep = |depth: usize| {
        let label = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        vector(&format!(r#"{{"metric":{label},"value":[1,"5"]}}"#))
    };
    check(&deep(12), Number(5.0)); // under data, result and the series
    check(&deep(13), Error("source sent a malformed reply: its JSON is nested too deeply"));
    check(&deep(10_000), Error("source sent a malformed reply: its JSON is nested too deeply"));
    check(&vector(r#"{"metric":{"a":"[[[[[[[[[[[[[[[[[[\"[["},"value":[1,"5"]}"#), Number(5.0));
}
