//! Windows on the days on which clocks are put forward and back.

use super::cases::{is_open, time, turns, window};

/// KEDA is open for 24 hours in the first row, never opens in the second, and takes the second pass in the others.
#[test]
fn clocks_put_forward_and_back_in_new_york() {
    const ZONE: &str = "America/New_York";
    turns(
        ZONE,
        "30 2 * * *",
        "0 8 * * *",
        &[
            "2026-03-07T02:30:00-05:00",
            "2026-03-07T08:00:00-05:00",
            "2026-03-08T03:00:00-04:00",
            "2026-03-08T08:00:00-04:00",
            "2026-03-09T02:30:00-04:00",
        ],
    );
    turns(
        ZONE,
        "0 1 * * *",
        "30 2 * * *",
        &["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T01:00:00-04:00"],
    );
    turns(
        ZONE,
        "0 23 * * *",
        "30 1 * * *",
        &["2026-10-31T23:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T23:00:00-05:00"],
    );
    turns(
        ZONE,
        "30 1 * * *",
        "0 6 * * *",
        &["2026-11-01T01:30:00-04:00", "2026-11-01T06:00:00-05:00", "2026-11-02T01:30:00-05:00"],
    );
}

#[test]
fn lists_and_ranges_are_fixed_times() {
    const ZONE: &str = "America/New_York";
    for start in ["0,30 2 * * *", "30 2,3 * * *", "30 2-3 * * *", "0/30 2 * * *", "00-59 2 8 3 *"] {
        let window = window(ZONE, start, "0 22 * * *");
        assert_eq!(window.at(time("2026-03-07T23:00:00-05:00")).changes, Some(time("2026-03-08T03:00:00-04:00")));
        assert!(is_open(&window, "2026-03-08T03:00:00-04:00"), "{start}");
    }
    // Both are skipped, and made up for at one instant: a tie, which is open until the next end.
    turns(
        ZONE,
        "15 2 * * *",
        "45 2 * * *",
        &[
            "2026-03-07T02:15:00-05:00",
            "2026-03-07T02:45:00-05:00",
            "2026-03-08T03:00:00-04:00",
            "2026-03-09T02:45:00-04:00",
        ],
    );
}

#[test]
fn intervals_follow_the_wall_clock() {
    const ZONE: &str = "America/New_York";
    // The hours 2 (skipped) and 1 (repeated).
    turns(
        ZONE,
        "0 * * * *",
        "30 * * * *",
        &[
            "2026-03-08T01:00:00-05:00",
            "2026-03-08T01:30:00-05:00",
            "2026-03-08T03:00:00-04:00",
            "2026-03-08T03:30:00-04:00",
        ],
    );
    turns(
        ZONE,
        "0 * * * *",
        "30 * * * *",
        &[
            "2026-11-01T01:00:00-04:00",
            "2026-11-01T01:30:00-04:00",
            "2026-11-01T01:00:00-05:00",
            "2026-11-01T01:30:00-05:00",
            "2026-11-01T02:00:00-05:00",
        ],
    );
    let skipped = window(ZONE, "*/15 2 * * *", "0 22 * * *");
    assert_eq!(skipped.at(time("2026-03-07T23:00:00-05:00")).changes, Some(time("2026-03-09T02:00:00-04:00")));
}

#[test]
fn clocks_change_at_midnight_by_half_an_hour_and_by_a_day() {
    turns(
        "Africa/Cairo",
        "0 0 * * *",
        "30 0 * * *",
        &[
            "2026-04-23T00:00:00+02:00",
            "2026-04-23T00:30:00+02:00",
            "2026-04-24T01:00:00+03:00", // both were skipped
            "2026-04-25T00:30:00+03:00",
        ],
    );
    turns(
        "Australia/Lord_Howe",
        "10 2 * * *",
        "40 2 * * *",
        &["2026-10-04T02:30:00+11:00", "2026-10-04T02:40:00+11:00", "2026-10-05T02:10:00+11:00"],
    );
    turns(
        "Australia/Lord_Howe",
        "45 1 * * *",
        "0 2 * * *",
        &["2026-04-05T01:45:00+11:00", "2026-04-05T02:00:00+10:30", "2026-04-06T01:45:00+10:30"],
    );
    turns("Pacific/Apia", "0 8 30 12 *", "0 20 31 12 *", &["2011-12-31T00:00:00+14:00", "2011-12-31T20:00:00+14:00"]);
}
