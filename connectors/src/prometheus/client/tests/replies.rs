//! What comes back: statuses, hostile bodies, silence.

use super::*;

async fn answered(script: impl Fn() -> Answer + Send + Sync + 'static) -> Result<(f64, bool, bool), String> {
    let server = Server::new(move |_| script()).await;
    read(&server, &[], CREDENTIAL).await
}

fn vector(elements: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{elements}]}}}}"#)
}

#[tokio::test]
async fn values_are_read_and_judged() {
    for (written, expected) in
        [("20.5", (20.5, true)), ("0", (0.0, false)), ("-0.5", (0.0, false)), ("1e19", (9_007_199_254_740_992.0, true))]
    {
        let (value, active, partial) = answered(move || value(written)).await.unwrap();
        assert_eq!(((value, active), partial), (expected, false), "{written}");
    }
}

#[tokio::test]
async fn b94_b95_no_value_is_zero_or_an_error() {
    let nan = r#"{"value":[1,"NaN"]}"#;
    for elements in ["", nan, r#"{"value":[]}"#] {
        let server = Server::new(move |_| reply(200, "", &vector(elements))).await;
        assert_eq!(read(&server, &[], CREDENTIAL).await, Ok((0.0, false, false)), "{elements}");
        let strict = read(&server, &[("ignoreNullValues", "false")], CREDENTIAL).await;
        assert_eq!(strict, Err("the query returned no value, and ignoreNullValues is false".to_owned()), "{elements}");
    }
}

#[tokio::test]
async fn b97_two_series_are_counted() {
    let two = vector(r#"{"value":[1,"1"]},{"value":[1,"2"]}"#);
    let outcome = answered(move || reply(200, "", &two)).await;
    assert_eq!(outcome, Err("the query returned 2 series, and not one".to_owned()));
}

#[tokio::test]
async fn statuses_tell_who_must_act() {
    let api = "the query API (/api/v1/query) under serverAddress";
    for (status, expected) in [
        (301, "query refused: the server redirects, and redirects are not followed (HTTP 3xx)".to_owned()),
        (302, "query refused: the server redirects, and redirects are not followed (HTTP 3xx)".to_owned()),
        (400, "query refused: bad PromQL or parameters (HTTP 400)".to_owned()),
        (401, "credentials rejected (no authModes)".to_owned()),
        (403, format!("not authorised to read {api}")),
        (404, format!("{api} not found")),
        (405, "query refused: the server takes no POST (HTTP 405)".to_owned()),
        (422, "query refused: it cannot be evaluated (HTTP 422)".to_owned()),
        (418, "query refused: the server refused the request (HTTP 4xx)".to_owned()),
        (429, "source not ready: too many requests (HTTP 429)".to_owned()),
        (500, "source not ready: the server or a proxy failed (HTTP 5xx)".to_owned()),
        (503, "source not ready: the server is overloaded or the query took too long (HTTP 503)".to_owned()),
        (600, "source sent a malformed reply: its HTTP status is none of Prometheus'".to_owned()),
    ] {
        // A body that would be a value with a status of success.
        let body = vector(r#"{"metric":{"a":"hunter2"},"value":[1,"5"]}"#);
        let outcome = answered(move || reply(status, "location: http://169.254.169.254/hunter2\r\n", &body)).await;
        assert_eq!(outcome, Err(expected), "{status}");
    }
}

/// A page that says so in a successful reply (safety.md, row 35).
#[tokio::test]
async fn a_login_page_is_no_zero() {
    let page = "<!doctype html><title>Sign in</title>hunter2";
    let outcome = answered(|| reply(200, "content-type: text/html\r\n", page)).await;
    let text = "source sent a malformed reply: it is not the JSON of Prometheus' query API";
    assert_eq!(outcome, Err(text.to_owned()));
}

#[tokio::test]
async fn e6_hostile_bodies_end_at_the_limit() {
    let over = "bytes in the source's reply over the limit of 1048576";
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000)).into_bytes();
    let endless =
        move || Answer::Endless(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(), chunk.clone());
    assert_eq!(answered(endless).await, Err(over.to_owned()));
    let announced = || Answer::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec());
    assert_eq!(answered(announced).await, Err(over.to_owned()));
    let many = vector(&vec![r#"{"value":[1,"5"]}"#; 100_000].join(","));
    assert_eq!(answered(move || reply(200, "", &many)).await, Err(over.to_owned()));
    // A status of failure stays the reason, whatever its body is.
    let failed = || Answer::Bytes(b"HTTP/1.1 503 No\r\ncontent-length: 10737418240\r\n\r\n".to_vec());
    assert!(answered(failed).await.unwrap_err().contains("HTTP 503"));
}

#[tokio::test]
async fn e6_nothing_is_decompressed() {
    let body = vector(r#"{"value":[1,"5"]}"#);
    let outcome = answered(move || reply(200, "content-encoding: gzip\r\n", &body)).await;
    assert_eq!(outcome, Err("source sent a malformed reply: it is compressed, which was not asked for".to_owned()));
    let server = Server::new(|_| value("1")).await;
    read(&server, &[], CREDENTIAL).await.unwrap();
    assert_eq!(server.take_requests()[0].header("accept-encoding"), None);
}

#[tokio::test]
async fn heads_without_end_are_refused() {
    let line = format!("x-a: {}\r\n", "a".repeat(0x10000)).into_bytes();
    let outcome = answered(move || Answer::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), line.clone())).await;
    assert_eq!(outcome, Err("source unreachable".to_owned()));
}

#[tokio::test]
async fn e6_deep_json_is_refused() {
    let deep = vector(&format!(r#"{{"metric":{},"value":[1,"5"]}}"#, "[".repeat(10_000)));
    let outcome = answered(move || reply(200, "", &deep)).await;
    assert_eq!(outcome, Err("source sent a malformed reply: its JSON is nested too deeply".to_owned()));
}

/// safety.md, row 34: a part that is missing proves no inactivity.
#[tokio::test]
async fn warnings_make_a_sample_partial() {
    for (end, partial) in [(r#","warnings":["hunter2"]"#, true), (r#","isPartial":true"#, true), ("", false)] {
        let body = vector(r#"{"value":[1,"5"]}"#).replace("]}}", &format!("]}}{end}}}"));
        assert_eq!(answered(move || reply(200, "", &body)).await, Ok((5.0, true, partial)), "{end}");
    }
}

/// safety.md, row 32, and section 8: a time an hour old, or in the future. The server's own clock tells, where it does.
#[tokio::test]
async fn a_plain_selectors_old_sample_is_partial() {
    const DATE: &str = "date: Wed, 01 Jul 2015 20:10:51 GMT\r\n"; // 1435781451
    for (expression, time, date, partial) in [
        ("up", 1_435_781_451, DATE, false),
        ("up", 1_435_781_451 - 299, DATE, false),
        ("up", 1_435_781_451 - 3600, DATE, true),
        ("up", 1_435_781_451 + 3600, DATE, true),
        ("up{job=\"a\"}", 1_435_781_451 - 3600, DATE, true),
        ("up", 1_435_781_451, "", true), // our own clock is later than 2015
        ("sum(up)", 1_435_781_451 - 3600, DATE, false),
        ("max_over_time(up[1h] offset 1h)", 1, DATE, false),
    ] {
        let body = vector(&format!(r#"{{"value":[{time},"5"]}}"#));
        let server = Server::new(move |_| reply(200, date, &body)).await;
        let outcome = read(&server, &[("query", expression)], CREDENTIAL).await;
        assert_eq!(outcome, Ok((5.0, true, partial)), "{expression} {time} {date}");
    }
}

#[tokio::test]
async fn b102_a_server_slower_than_the_timeout() {
    let silent = Server::new(|_| Answer::Silence).await;
    let outcome = read(&silent, &[("timeout", "50")], CREDENTIAL).await;
    assert_eq!(outcome, Err("source timed out".to_owned()));
    // A reply that never ends is as slow.
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n".to_vec();
    let half = Server::new(move |_| Answer::Bytes(head.clone())).await;
    let outcome = read(&half, &[("timeout", "50")], CREDENTIAL).await;
    assert_eq!(outcome, Err("source timed out".to_owned()));
}

#[tokio::test]
async fn a_query_that_hangs_delays_no_other() {
    let server = Server::new(|request| if request.body.contains("slow") { Answer::Silence } else { value("1") }).await;
    let (mut client, _, _) = trigger(&server, &[("timeout", "1s")], CREDENTIAL);
    let names = ["slow1", "slow2", "slow3", "slow4", "fast1", "fast2"];
    let queries: Vec<_> = names.iter().map(|name| query(name)).collect();
    for batch in 0..2 {
        let answers = client.sample(&queries).await;
        for (name, answer) in names.iter().zip(answers) {
            match answer {
                Ok(_) => assert!(name.starts_with("fast")),
                Err(SampleError::TimedOut) => assert!(name.starts_with("slow")),
                Err(error) => panic!("{name}: {error:?}"),
            }
        }
        let asked = server.take_requests();
        let fast_first = asked[..2].iter().all(|request| request.body.contains("fast"));
        assert_eq!(fast_first, batch == 1, "what was slow is asked last");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let server = Server::new(|_| value("1")).await;
    let (mut client, query, _) = trigger(&server, &[], CREDENTIAL);
    assert!(client.sample(std::slice::from_ref(&query)).await.remove(0).is_ok());
    drop(server);
    let error = client.sample(&[query]).await.remove(0).unwrap_err();
    assert!(matches!(error, SampleError::Unreachable(_)), "{error:?}");
}
