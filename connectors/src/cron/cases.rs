//! What users of KEDA reported, and what KEDA's own tests say.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use proptest::prelude::*;

use super::*;
use crate::metadata::{CredentialSource, Metadata};

pub(super) fn read(parameters: &[(&str, &str)]) -> Result<Spec, ParameterError> {
    let metadata = Metadata::new(parameters.iter().copied());
    parse(Parameters::new(&metadata, CredentialSource::None))
}

fn spec(timezone: &str, start: &str, end: &str, desired: &str) -> Result<Spec, ParameterError> {
    read(&[("timezone", timezone), ("start", start), ("end", end), ("desiredReplicas", desired)])
}

#[track_caller]
pub(super) fn window(timezone: &str, start: &str, end: &str) -> Window {
    match spec(timezone, start, end, "10").unwrap().source {
        Source::Cron(window) => window,
        Source::Measured { .. } => panic!("a cron trigger is not measured"),
    }
}

pub(super) fn time(text: &str) -> SystemTime {
    DateTime::parse_from_rfc3339(text).unwrap().into()
}

pub(super) fn is_open(window: &Window, at: &str) -> bool {
    window.at(time(at)).open
}

/// The window opens and closes at these moments, in turn, and at no other between the first and the last.
#[track_caller]
pub(super) fn turns(timezone: &str, start: &str, end: &str, expected: &[&str]) {
    const SECOND: Duration = Duration::from_secs(1);
    let window = window(timezone, start, end);
    let times: Vec<_> = expected.iter().map(|at| time(at)).collect();
    for (turn, at) in times.iter().enumerate() {
        let open = turn % 2 == 0;
        assert_eq!(window.at(*at).open, open, "at {}", expected[turn]);
        assert_eq!(window.at(*at - SECOND).open, !open, "a second before {}", expected[turn]);
        assert_eq!(window.at(*at - SECOND).changes, Some(*at), "a second before {}", expected[turn]);
        if let Some(next) = times.get(turn + 1) {
            assert_eq!(window.at(*at).changes, Some(*next), "after {}", expected[turn]);
        }
    }
}

/// `start` is rejected as a start, and as an end, by that name.
#[track_caller]
fn rejected(schedule: &str) {
    assert_eq!(spec("UTC", schedule, "7 7 7 7 *", "1").unwrap_err().key, "start", "{schedule}");
    assert_eq!(spec("UTC", "7 7 7 7 *", schedule, "1").unwrap_err().key, "end", "{schedule}");
}

#[track_caller]
fn accepted(schedule: &str) {
    assert!(spec("UTC", schedule, "7 7 7 7 *", "1").is_ok(), "{schedule}");
}

#[test]
fn what_keda_accepts_and_rejects() {
    let rows = [
        (&[][..], Some("timezone")),
        (&[("start", "0 0 * * *"), ("end", "1 0 * * *"), ("desiredReplicas", "10")], Some("timezone")),
        (&[("timezone", "UTC"), ("end", "1 0 * * *"), ("desiredReplicas", "10")], Some("start")),
        (&[("timezone", "UTC"), ("start", "1 0 * * *"), ("desiredReplicas", "10")], Some("end")),
        (&[("timezone", "UTC"), ("start", "0 0 * * *"), ("end", "1 0 * * *")], Some("desiredReplicas")),
        (&[("timezone", "UTC"), ("start", "0 0 * * *"), ("end", "1 0 * * *"), ("desiredReplicas", "10")], None),
    ];
    for (parameters, key) in rows {
        assert_eq!(read(parameters).err().map(|error| error.key), key.map(Into::into), "{parameters:?}");
    }
    for (start, end, key) in [
        ("0 0 * * Thu", "59 23 * * Thu", None),
        ("0 */2 * * *", "0 1-23/2 * * *", None),
        ("0,30 * * * *", "15,45 * * * *", None),
        ("30-33 * * * *", "45 * * * *", None),
        ("30 * * * *", "45-50 * * * *", None),
        ("-30 * * * *", "45 * * * *", Some("start")),
        ("30 * * * *", "-50 * * * *", Some("end")),
        ("30 * * * *", "50 * * -3 *", Some("end")),
        ("30 * * * *", "30 * * * *", Some("end")),
        ("@daily", "30 * * * *", Some("start")),
        ("0 0 30 2 *", "30 * * * *", Some("start")),
        ("30 * * * *", "0 0 30 2 *", Some("end")),
    ] {
        assert_eq!(
            spec("Etc/UTC", start, end, "10").err().map(|error| error.key),
            key.map(Into::into),
            "{start} {end}"
        );
    }
}

#[test]
fn metric_names_are_kedas_in_lower_case() {
    for (timezone, start, end, name) in [
        ("Etc/UTC", "0 0 * * Thu", "59 23 * * Thu", "cron-etc-utc-00xxthu-5923xxthu"),
        ("Etc/UTC", "0 */2 * * *", "0 1-23/2 * * *", "cron-etc-utc-0xsl2xxx-01-23sl2xxx"),
        ("Etc/UTC", "0,30 * * * *", "15,45 * * * *", "cron-etc-utc-0cm30xxxx-15cm45xxxx"),
        ("Etc/UTC", "0 8 ? * *", "0 9 * * *", "cron-etc-utc-08qmxx-09xxx"),
    ] {
        let spec = spec(timezone, start, end, "10").unwrap();
        assert_eq!((spec.metric_name.as_str(), spec.target), (name, 1.0));
    }
}

#[test]
fn thursdays_and_even_hours() {
    turns(
        "Etc/UTC",
        "0 0 * * Thu",
        "59 23 * * Thu",
        &["2026-01-01T00:00:00Z", "2026-01-01T23:59:00Z", "2026-01-08T00:00:00Z"],
    );
    turns(
        "Etc/UTC",
        "0 */2 * * *",
        "0 1-23/2 * * *",
        &["2026-01-01T22:00:00Z", "2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z", "2026-01-02T01:00:00Z"],
    );
}

#[test]
fn weekends_stay_closed_after_the_first_end() {
    turns(
        "UTC",
        "30 6 * * 1-5",
        "10 22 * * *",
        &["2026-01-09T06:30:00Z", "2026-01-09T22:10:00Z", "2026-01-12T06:30:00Z", "2026-01-12T22:10:00Z"],
    );
    turns(
        "UTC",
        "0 8 * * *",
        "0 20 * * 1-5",
        &["2026-01-10T08:00:00Z", "2026-01-12T20:00:00Z", "2026-01-13T08:00:00Z"],
    );
}

#[test]
fn a_prefix_overrides_the_zone_of_one_schedule() {
    for start in ["TZ=Asia/Tokyo 0 8 * * *", "CRON_TZ=Asia/Tokyo   0 8 * * *"] {
        turns(
            "Europe/Berlin",
            start,
            "0 9 * * *",
            &["2026-01-05T08:00:00+09:00", "2026-01-05T09:00:00+01:00", "2026-01-06T08:00:00+09:00"],
        );
    }
    for schedule in ["TZ=Mars/Phobos 0 8 * * *", "TZ= 0 8 * * *", "TZ=Local 0 8 * * *", "TZ=UTC", "tz=UTC 0 8 * * *"] {
        rejected(schedule);
    }
    rejected("0 8 * * * TZ=UTC");
}

#[test]
fn leap_days_are_found_across_2100() {
    turns(
        "UTC",
        "0 0 29 2 *",
        "0 12 29 2 *",
        &["2096-02-29T00:00:00Z", "2096-02-29T12:00:00Z", "2104-02-29T00:00:00Z", "2104-02-29T12:00:00Z"],
    );
}

#[test]
fn ends_that_are_starts_do_not_close() {
    let state = |start, end| window("Europe/Berlin", start, end).at(time("2026-01-05T09:00:30Z"));
    for (start, end) in [("* * * * *", "*/5 * * * *"), ("0 0-12 * * *", "0 7 1 * *"), ("0 0 * * *", "0 0 29 2 *")] {
        assert_eq!(state(start, end), WindowState { open: true, changes: None }, "{start} {end}");
    }
    // Over a thousand ends are starts, and the one that is not closes.
    turns(
        "UTC",
        "* 1-23 * * *",
        "* * * * *",
        &["2026-01-05T01:00:00Z", "2026-01-06T00:00:00Z", "2026-01-06T01:00:00Z"],
    );
    // A fixed end at every start of an interval: the answer is a moment to look again.
    let WindowState { open, changes } = state("* * * * *", "0 0 * * *");
    assert!(open && changes > Some(time("2026-03-01T00:00:00Z")));
}

/// safety.md row 37: a clock that jumps gets the answer of its new time, and no time is refused.
#[test]
fn any_time_has_an_answer() {
    let window = window("America/New_York", "0 8 * * 1-5", "0 20 * * 1-5");
    for (at, open) in [("2026-01-05T13:00:00Z", true), ("2031-01-04T13:00:00Z", false), ("2026-01-05T13:00:00Z", true)]
    {
        assert_eq!(is_open(&window, at), open, "{at}");
    }
    let first = window.at(SystemTime::UNIX_EPOCH);
    assert_eq!(window.at(SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 40)), first);
    assert_eq!(first, WindowState { open: true, changes: Some(time("1969-12-31T20:00:00-05:00")) });
    for seconds in [1 << 35, 1 << 40, i64::MAX as u64] {
        window.at(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
    }
}

#[test]
fn one_trigger_is_small() {
    assert!(size_of::<Window>() <= 128, "{} bytes", size_of::<Window>());
}

#[test]
fn b72_start_and_end_are_compared_as_schedules() {
    for (start, end) in [
        ("0 8 * * *", "0 8 * * *"),
        ("0 8 * * *", "00  08 * * ?"),
        ("0 8 * * 1-5", "0 8 * * MON-FRI"),
        ("0 8 * * 1-5", "TZ=Etc/UTC 0 8 ? * fri,MON-THU"),
        ("0 8 * * *", "0 8 1-31 1-12 *"),
        ("0 8 */1 * *", "0 8 1/1 * 0-6"),
        ("0,30 8 * * *", "0/30,,30 8 * * *"),
    ] {
        assert_eq!(spec("UTC", start, end, "1").unwrap_err().key, "end", "{start} {end}");
    }
    assert!(spec("UTC", "0 8 * * *", "TZ=Asia/Tokyo 0 8 * * *", "1").is_ok());
}

#[test]
fn b74_days_of_the_week_by_number_and_by_name() {
    for start in ["0 9 * * 1-5", "0 9 * * MON-FRI", "0 9 * * mon-Fri"] {
        turns("UTC", start, "0 17 * * *", &["2026-01-09T09:00:00Z", "2026-01-09T17:00:00Z", "2026-01-12T09:00:00Z"]);
    }
}

#[test]
fn b76_the_first_of_several_starts_opens() {
    const START: &str = "0 8 28,29,30,31 * *";
    const END: &str = "0 20 1 * *";
    for (first, end) in [("2026-01-28", "2026-02-01"), ("2026-02-28", "2026-03-01"), ("2026-04-28", "2026-05-01")] {
        turns("UTC", START, END, &[&format!("{first}T08:00:00Z"), &format!("{end}T20:00:00Z")]);
    }
    let window = window("UTC", START, END);
    for (at, open) in [
        ("2026-01-29T12:00:00Z", true),
        ("2026-01-31T09:00:00Z", true),
        ("2026-02-01T19:59:59Z", true),
        ("2026-02-01T20:00:00Z", false),
    ] {
        assert_eq!(is_open(&window, at), open, "{at}");
    }
}

#[test]
fn b77_one_clock_reading_decides_around_a_boundary() {
    let window = window("UTC", "0 8 * * *", "0 20 * * *");
    let start = time("2026-01-05T08:00:00Z");
    let before = window.at(start - Duration::from_millis(1));
    assert_eq!(before, WindowState { open: false, changes: Some(start) });
    for after in [0, 1, 100] {
        assert!(window.at(start + Duration::from_millis(after)).open, "{after} ms");
    }
    assert_eq!(window.at(start - Duration::from_millis(1)), before);
}

#[test]
fn b84_a_zone_must_be_known_when_the_trigger_is_read() {
    for zone in ["Mars/Phobos", "Local", "", "  ", "localtime", "Europe/berlin", "UTC+1"] {
        let error = spec(zone, "0 8 * * *", "0 20 * * *", "1").unwrap_err();
        assert_eq!(error.key, "timezone", "{zone}");
        assert!(error.to_string().len() <= 200);
    }
}

#[test]
fn b85_the_value_outside_the_window_is_0() {
    let window = window("UTC", "0 8 * * *", "0 20 * * *");
    let reading = |at| window.reading(window.at(time(at)));
    assert_eq!(reading("2026-01-05T07:59:59Z"), Reading { value: 0.0, active: false });
    assert_eq!(reading("2026-01-05T08:00:00Z"), Reading { value: 10.0, active: true });
    assert_eq!(reading("2026-01-05T20:00:00Z"), Reading { value: 0.0, active: false });
}

#[test]
fn b86_desired_replicas_of_0_are_rejected_with_an_explanation() {
    for wrong in ["0", "-1", "10.5", "1e3", "+5", "2147483648", "9223372036854775808", "ten"] {
        assert_eq!(spec("UTC", "0 8 * * *", "0 20 * * *", wrong).unwrap_err().key, "desiredReplicas", "{wrong}");
    }
    assert!(spec("UTC", "0 8 * * *", "0 20 * * *", "0").unwrap_err().problem.contains("never wakes"));
    for right in ["1", "2147483647"] {
        assert!(spec("UTC", "0 8 * * *", "0 20 * * *", right).is_ok(), "{right}");
    }
}

#[test]
fn b87_no_text_of_the_user_spoils_the_metric_name() {
    for (timezone, start) in [
        ("America/Argentina/Buenos_Aires", "0,15,,30 8-10 * * MON,TUE"),
        ("Etc/GMT+5", "TZ=Asia/Tokyo 0\t8\u{a0}? * *"),
        ("UTC", "+5 */2 1/1 JAN-DEC sun"),
    ] {
        let name = spec(timezone, start, "7 7 * * *", "1").unwrap().metric_name;
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
    }
}

#[test]
fn b88_only_five_fields_of_kedas_grammar() {
    for schedule in [
        "0 0 * * 7",
        "0 0 * * * *",
        "0 0 0 * * * *",
        "* * * *",
        "*",
        "@daily",
        "@every 1h",
        "@hourly 0 0 0 0",
        "0 8 L * *",
        "0 8 15W * *",
        "0 8 * * 5L",
        "0 8 * * 1#2",
        "0 22-2 * * *",
        "*/0 * * * *",
        "0 8 31 4,6 *",
        ", * * * *",
        "0 0 , * *",
    ] {
        rejected(schedule);
    }
    rejected(&format!("0{} * * * *", ",0".repeat(300)));
    for schedule in ["0 8 ? * MON-FRI", "0/15 * * * *", "0 0 , * 1", "\t0  8 * * *", "0 0 31 2,3 *", "0 0 31 2 1"] {
        accepted(schedule);
    }
    let error = spec("UTC", "0 0 * * * *", "0 0 * * *", "1").unwrap_err();
    assert_eq!(error.to_string(), "start: must be five fields: seconds are not supported");
}

#[test]
fn b89_either_day_field_is_enough_unless_one_has_a_star() {
    // 2026: 5 January is a Monday, 31 January a Saturday.
    let starts = |start| {
        let window = window("UTC", start, "0 9 * * *");
        (1..=31).filter(|day| is_open(&window, &format!("2026-01-{day:02}T08:30:00Z"))).collect::<Vec<_>>()
    };
    assert_eq!(starts("0 8 28-31 * 1"), [5, 12, 19, 26, 28, 29, 30, 31]);
    assert_eq!(starts("0 8 * * 1"), [5, 12, 19, 26]);
    assert_eq!(starts("0 8 28-31 * *"), [28, 29, 30, 31]);
    assert_eq!(starts("0 8 */15 * 1"), [1, 5, 12, 16, 19, 26, 31]);
    assert_eq!(starts("0 8 28-31 * */3"), [3, 4, 7, 10, 11, 14, 17, 18, 21, 24, 25, 28, 29, 30, 31]);
}

#[test]
fn b90_a_window_never_lowers_what_others_ask_for() {
    let window = window("UTC", "0 8 * * *", "0 20 * * *");
    for (at, wanted) in [("2026-01-05T09:00:00Z", 10.0), ("2026-01-05T21:00:00Z", 5.0)] {
        let queue = 5.0_f64;
        assert!(queue.max(window.reading(window.at(time(at))).value).total_cmp(&wanted).is_eq(), "{at}");
    }
}

#[test]
fn b91_overlapping_windows_are_separate_metrics() {
    let specs = [spec("UTC", "0 8 * * *", "0 20 * * *", "3"), spec("UTC", "0 9 * * *", "0 10 * * *", "5")];
    let specs = specs.map(Result::unwrap);
    assert_ne!(specs[0].metric_name, specs[1].metric_name);
    for (spec, value) in specs.into_iter().zip([3.0, 5.0]) {
        let Source::Cron(window) = spec.source else { panic!("a cron trigger is not measured") };
        let reading = window.reading(window.at(time("2026-01-05T09:30:00Z")));
        assert_eq!(reading, Reading { value, active: true });
    }
}

proptest! {
    #[test]
    fn no_text_panics(
        timezone in "UTC|Europe/Berlin|Africa/Cairo|\\PC*",
        texts in proptest::array::uniform2("((CRON_)?TZ=[A-Z]{0,3} )?[0-9*?,/a-z#@LW -]{0,24}|[0-9*?,/-]{1,5}( [0-9*?,/-]{1,3}){4}|\\PC*"),
        desired in "[0-9-]{0,11}",
        at in any::<u64>(),
    ) {
        let result = spec(&timezone, &texts[0], &texts[1], &desired);
        if let Err(error) = &result {
            prop_assert!(error.to_string().len() <= 200);
        }
        if let Ok(Spec { source: Source::Cron(window), .. }) = result {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(at >> 1);
            prop_assert!(window.at(at).changes.is_none_or(|changes| changes > at || at > SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)));
        }
    }
}
