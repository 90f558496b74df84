use proptest::prelude::*;

use super::{
    OffsetResetPolicy::{Earliest, Latest},
    *,
};
use crate::kafka::History;

const NOW: BootInstant = BootInstant::from_boot(Duration::from_secs(10_000));

fn offsets(committed: Option<i64>, log_start: i64, log_end: i64) -> PartitionOffsets {
    let history = History::starting(log_end, NOW);
    PartitionOffsets { topic: "t".into(), topic_id: None, partition: 0, committed, log_start, log_end, history }
}

fn rules(reset: OffsetResetPolicy, zero_on_invalid_offset: bool) -> Rules {
    Rules { reset, zero_on_invalid_offset, persistent_after: None }
}

#[track_caller]
fn check(committed: impl Into<Option<i64>>, log: (i64, i64), reset: OffsetResetPolicy, zero: bool, expected: u64) {
    assert_eq!(rules(reset, zero).lag(&offsets(committed.into(), log.0, log.1), NOW).records, expected);
}

#[test]
fn lag_is_what_is_left_to_consume() {
    for (reset, zero) in [(Latest, false), (Latest, true), (Earliest, false), (Earliest, true)] {
        check(10, (0, 15), reset, zero, 5);
        check(100, (0, 150), reset, zero, 50);
        check(15, (0, 15), reset, zero, 0);
        check(0, (0, 0), reset, zero, 0);
        check(500, (500, 500), reset, zero, 0);
        check(None, (0, 0), reset, zero, 0);
        check(None, (500, 500), reset, zero, 0);
    }
}

#[test]
fn b02_b03_without_a_commit_the_policy_decides() {
    check(None, (0, 100), Latest, false, 1);
    check(None, (0, 100), Latest, true, 0);
    check(None, (0, 50), Earliest, false, 50);
    check(None, (0, 50), Earliest, true, 0);
    check(None, (0, 150), Latest, true, 0);
}

#[test]
fn b18_a_missing_commit_is_not_offset_zero() {
    check(None, (0, 1_234_234), Latest, false, 1);
    check(None, (1_234_234, 1_234_234), Earliest, false, 0);
    check(None, (1_234_200, 1_234_234), Earliest, false, 34);
}

#[test]
fn retention_past_the_commit_leaves_what_is_in_the_log() {
    check(100, (150, 200), Earliest, false, 50);
    check(100, (150, 200), Latest, false, 1);
    check(100, (200, 200), Earliest, false, 0);
    check(100, (200, 200), Latest, false, 0);
    // The last commit is known, so all that is left came after it.
    check(100, (150, 200), Latest, true, 50);
    check(100, (150, 200), Earliest, true, 50);
}

#[test]
fn a_commit_past_the_end_is_no_commit() {
    check(900, (0, 5), Earliest, false, 5);
    check(900, (0, 5), Latest, false, 1);
    check(900, (0, 0), Earliest, false, 0);
    check(900, (0, 5), Latest, true, 0);
}

#[test]
fn records_since_the_first_look_count_on_an_invalid_offset() {
    let mut later = offsets(None, 0, 130);
    later.history.first_end = 100;
    assert_eq!(rules(Latest, true).lag(&later, NOW).records, 30);
    assert_eq!(rules(Earliest, true).lag(&later, NOW).records, 30);
    later.log_start = 120;
    assert_eq!(rules(Latest, true).lag(&later, NOW).records, 10);
}

/// Seconds since the commit moved, since the end moved; then whether it counts for value and activity.
#[test]
fn persistent_lag_leaves_the_value_and_a_silent_end_the_activity() {
    let limit = Duration::from_secs(300);
    for committed in [Some(5), None] {
        for (commit, end, value, activity) in [
            (0, 0, true, true),
            (299, 299, true, true),
            (300, 0, false, true),
            (300, 299, false, true),
            (300, 300, false, false),
            (5000, 5000, false, false),
            (0, 5000, true, true),
        ] {
            let mut offsets = offsets(committed, 0, 10);
            offsets.history.commit_moved = BootInstant::from_boot(Duration::from_secs(10_000 - commit));
            offsets.history.end_moved = BootInstant::from_boot(Duration::from_secs(10_000 - end));
            let exclude = Rules { reset: Earliest, persistent_after: Some(limit), ..Rules::default() };
            let lag = exclude.lag(&offsets, NOW);
            assert_eq!((lag.in_value, lag.in_activity), (value, activity), "{commit} s, {end} s");
            let lag = Rules { persistent_after: None, ..exclude }.lag(&offsets, NOW);
            assert_eq!((lag.in_value, lag.in_activity), (true, true));
        }
    }
}

#[test]
fn notes_say_what_is_special() {
    let note = |committed, start, end| rules(Latest, false).lag(&offsets(committed, start, end), NOW).note;
    assert_eq!(note(Some(1), 0, 2), None);
    assert_eq!(note(None, 0, 2), Some("no committed offset"));
    assert_eq!(note(Some(1), 5, 9), Some("committed offset is before the log start"));
    assert_eq!(note(Some(10), 5, 9), Some("committed offset is past the log end"));
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (prop::bool::ANY, prop::bool::ANY).prop_map(|(latest, zero)| rules(if latest { Latest } else { Earliest }, zero))
}

proptest! {
    #[test]
    fn any_bytes_of_a_broker_give_a_lag(committed: Option<i64>, start: i64, end: i64, first: i64, rules in any_rules()) {
        let mut offsets = offsets(committed, start, end);
        offsets.history.first_end = first;
        let lag = rules.lag(&offsets, NOW);
        prop_assert!(start < end || lag.records == 0, "an empty log has no lag");
        prop_assert!(i128::from(lag.records) <= (i128::from(end) - i128::from(start)).max(0), "no more than the log holds");
    }

    #[test]
    fn lag_grows_with_the_log(start in 0_i64..100, size in 0_i64..100, more in 0_i64..100, at in 0_i64..100,
                              with_commit: bool, first in 0_i64..200, rules in any_rules()) {
        // A commit at or before the first end, so that it stays valid.
        let committed = with_commit.then_some((start + at).min(start + size));
        let mut offsets = offsets(committed, start, start + size);
        offsets.history.first_end = first;
        let before = rules.lag(&offsets, NOW).records;
        offsets.log_end += more;
        prop_assert!(rules.lag(&offsets, NOW).records >= before);
    }

    #[test]
    fn earliest_is_never_less_than_latest(committed: Option<i64>, start in 0_i64..100, size in 0_i64..100, zero: bool) {
        let offsets = offsets(committed, start, start + size);
        let lag = |reset| rules(reset, zero).lag(&offsets, NOW).records;
        prop_assert!(lag(Earliest) >= lag(Latest));
    }
}
