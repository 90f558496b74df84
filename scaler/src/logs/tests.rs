//! What is written, and what never is.

use std::{
    io,
    sync::{Arc, Mutex},
};

use super::*;

/// A writer that keeps what it gets.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is written while `act` runs.
fn logged(filter: &str, style: Style, act: impl FnOnce()) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let subscriber = subscriber(filter, style, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, act);
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

const TEXT: Style = Style::Text { colour: false };

/// The line without its time.
fn text(act: impl FnOnce()) -> String {
    let line = logged("trace", TEXT, act);
    line.split_once(' ').unwrap().1.to_owned()
}

#[test]
fn a_line_of_text_has_the_facts_as_fields() {
    let line = text(|| tracing::warn!(tenant = "local/a", polls = 3, held = true, ratio = 0.5, "a query failed"));
    assert_eq!(line, " WARN tidegate::logs::tests: a query failed tenant=local/a polls=3 held=true ratio=0.5\n");
}

#[test]
fn a_line_of_json_is_one_object() {
    let line = logged("", Style::Json, || tracing::info!(tenant = "a\nb", polls = 3, "he said \"no\""));
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line.matches('\n').count(), 1);
    assert_eq!(object["level"], "INFO");
    assert_eq!(object["target"], "tidegate::logs::tests");
    assert_eq!(object["message"], "he said \"no\"");
    assert_eq!(object["fields"], serde_json::json!({ "tenant": "a\\nb", "polls": 3 }));
    assert!(object["timestamp"].as_str().unwrap().ends_with('Z'), "{object}");
}

#[test]
fn g4_text_from_outside_forges_no_line_and_no_field() {
    for (value, shown) in [
        ("a\nb", "a\\nb"),
        ("\x1b[2J", "\\u{1b}[2J"),
        ("\u{9b}31m", "\\u{9b}31m"),
        ("a\r\0", "a\\r\\0"),
        ("\u{2028}\u{202e}", "\\u{2028}\\u{202e}"),
        ("a level=ERROR", "\"a level=ERROR\""),
        ("a\" b=\"c", "\"a\\\" b=\\\"c\""),
        ("", "\"\""),
    ] {
        let expected = format!(" INFO tidegate::logs::tests: m value={shown}\n");
        assert_eq!(text(|| tracing::info!(value, "m")), expected);
        assert_eq!(text(|| tracing::info!(value = %value, "m")), expected);
    }
    assert_eq!(text(|| tracing::info!("{}", "a\nb")), " INFO tidegate::logs::tests: a\\nb\n");
    assert_eq!(
        text(|| tracing::info!(value = ?"a\nb", "m")),
        " INFO tidegate::logs::tests: m value=\"\\\"a\\nb\\\"\"\n"
    );
}

#[test]
fn g4_a_field_is_at_most_256_bytes() {
    for (unit, kept) in [("x", 253), ("é", 126), ("\n", 126), ("\u{202e}", 31)] {
        let long = unit.repeat(300);
        let line = logged("", Style::Json, || tracing::info!(value = %long, "{long}"));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        for text in [&object["message"], &object["fields"]["value"]] {
            let text = text.as_str().unwrap();
            let shown = unit.escape_debug().to_string();
            assert_eq!(text, shown.repeat(kept) + "…");
            assert!(text.len() <= 256);
        }
    }
    let fits = "x".repeat(253);
    assert_eq!(text(|| tracing::info!("{fits}")), format!(" INFO tidegate::logs::tests: {fits}\n"));
}

/// Whether an event of h2 at `level` is written.
macro_rules! heard {
    ($filter:expr, $level:ident) => {
        !logged($filter, TEXT, || tracing::$level!(target: "h2::proto::connection", "frame")).is_empty()
    };
}

#[test]
fn others_are_never_heard_below_info() {
    for filter in ["trace", "h2=trace", "trace,h2=trace", "h2::proto=trace", "[{message}]=trace"] {
        assert!(!heard!(filter, trace), "{filter}");
        assert!(!heard!(filter, debug), "{filter}");
    }
    assert!(!logged("trace", TEXT, || tracing::trace!(target: "tidegate_connectors::kafka", "own")).is_empty());
}

#[test]
fn others_that_are_noisy_are_heard_when_they_warn_or_are_named() {
    for filter in ["", "info", "trace"] {
        assert!(heard!(filter, warn), "{filter}");
        assert!(!heard!(filter, info), "{filter}");
    }
    assert!(heard!("h2=info", info));
    assert!(!heard!("h2=off", error));
    assert!(logged("warn", TEXT, || tracing::info!("own")).is_empty());
    assert!(logged("", TEXT, || tracing::debug!("own")).is_empty());
}

#[test]
fn spans_are_not_written() {
    let line = text(|| tracing::info_span!("call", password = "hunter2").in_scope(|| tracing::info!("inside")));
    assert_eq!(line, " INFO tidegate::logs::tests: inside\n");
}

#[test]
fn of_a_panic_only_the_place_is_written() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(report_panic));
    let line = text(|| drop(panic::catch_unwind(|| panic!("hunter2"))));
    panic::set_hook(before);
    assert!(line.starts_with("ERROR tidegate::logs: panicked file="), "{line}");
    assert!(line.contains("tests.rs") && !line.contains("hunter2"), "{line}");
}

#[test]
fn a_filter_that_is_none_is_refused() {
    for filter in ["tidegate=loud", "a=b=c"] {
        assert!(subscriber(filter, TEXT, io::sink).is_err(), "{filter}");
    }
}
