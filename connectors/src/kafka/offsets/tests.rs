use std::time::Duration;

use super::*;
use crate::kafka::{OffsetResetPolicy, Rules};

fn at(seconds: u64) -> BootInstant {
    BootInstant::from_boot(Duration::from_secs(seconds))
}

/// Partition, committed (-1: none), log start, log end.
type Row = (i32, i64, i64, i64);

fn topic(id: Option<u128>, taken: u64, rows: &[Row]) -> Vec<PartitionOffsets> {
    let partition = |&(partition, committed, log_start, log_end): &Row| PartitionOffsets {
        topic: "orders".into(),
        topic_id: id,
        partition,
        committed: (committed >= 0).then_some(committed),
        log_start,
        log_end,
        history: History::starting(log_end, at(taken)),
    };
    rows.iter().map(partition).collect()
}

/// What is left of a sequence of samples: each follows the one before.
fn follow(samples: impl IntoIterator<Item = Offsets>) -> Offsets {
    let follow = |before: Offsets, mut now: Offsets| {
        now.follow(&before);
        now
    };
    samples.into_iter().reduce(follow).expect("a sample")
}

fn complete(taken: u64, rows: &[Row]) -> Offsets {
    Offsets::new(topic(Some(1), taken, rows), true)
}

fn partial(taken: u64, rows: &[Row]) -> Offsets {
    Offsets::new(topic(Some(1), taken, rows), false)
}

fn history(offsets: &Offsets) -> History {
    offsets.partitions[0].history
}

/// The lag of the first partition with `scaleToZeroOnInvalidOffset`.
fn lag_on_invalid_offset(offsets: &Offsets) -> u64 {
    for reset in [OffsetResetPolicy::Latest, OffsetResetPolicy::Earliest] {
        let rules = Rules { reset, zero_on_invalid_offset: true, persistent_after: None };
        let other = Rules { reset: OffsetResetPolicy::Latest, ..rules };
        assert_eq!(
            rules.lag(&offsets.partitions[0], at(0)).records,
            other.lag(&offsets.partitions[0], at(0)).records,
            "the policy makes no difference"
        );
    }
    let rules = Rules { zero_on_invalid_offset: true, ..Rules::default() };
    rules.lag(&offsets.partitions[0], at(0)).records
}

#[test]
fn moves_are_dated_by_the_first_sample_that_shows_them() {
    let samples = |commit, end| follow([complete(10, &[(0, 3, 0, 9)]), complete(20, &[(0, commit, 0, end)])]);
    let moved = |offsets: Offsets| (history(&offsets).commit_moved, history(&offsets).end_moved);
    assert_eq!(moved(samples(3, 9)), (at(10), at(10)));
    assert_eq!(moved(samples(4, 9)), (at(20), at(10)));
    assert_eq!(moved(samples(3, 10)), (at(10), at(20)));
    assert_eq!(moved(samples(2, 8)), (at(20), at(20)));
}

#[test]
fn a_group_that_caught_up_is_not_stuck_when_the_next_record_comes() {
    let idle = [complete(10, &[(0, 9, 0, 9)]), complete(5000, &[(0, 9, 0, 9)])];
    let woken = follow(idle.into_iter().chain([complete(5010, &[(0, 9, 0, 12)])]));
    assert_eq!(history(&woken).commit_moved, at(5010));
    let later = follow([woken, complete(5020, &[(0, 9, 0, 12)])]);
    assert_eq!(history(&later).commit_moved, at(5010));
    let empty = follow([complete(10, &[(0, -1, 7, 7)]), complete(20, &[(0, -1, 7, 8)])]);
    assert_eq!(history(&empty).commit_moved, at(20));
}

#[test]
fn the_baseline_is_the_first_end() {
    let samples = [complete(1, &[(0, -1, 0, 100)]), complete(2, &[(0, -1, 0, 100)]), complete(3, &[(0, -1, 0, 130)])];
    assert_eq!(lag_on_invalid_offset(&follow(samples.clone().into_iter().take(2))), 0);
    assert_eq!(lag_on_invalid_offset(&follow(samples)), 30);
}

#[test]
fn expired_commits_leave_the_last_one_as_the_baseline() {
    let look = |last: i64, start, end| {
        follow([
            complete(1, &[(0, last, 0, 100)]),
            complete(2, &[(0, -1, start, end)]),
            complete(3, &[(0, -1, start, end)]),
        ])
    };
    assert_eq!(lag_on_invalid_offset(&look(100, 0, 100)), 0);
    assert_eq!(lag_on_invalid_offset(&look(100, 0, 140)), 40);
    assert_eq!(lag_on_invalid_offset(&look(60, 0, 100)), 40);
    assert_eq!(lag_on_invalid_offset(&look(60, 90, 100)), 10);
    // It was behind the log start already.
    let behind = follow([complete(1, &[(0, 5, 50, 100)]), complete(2, &[(0, -1, 50, 100)])]);
    assert_eq!(lag_on_invalid_offset(&behind), 50);
    // It was past the end, so it told nothing.
    let past = follow([complete(1, &[(0, 900, 0, 100)]), complete(2, &[(0, -1, 0, 103)])]);
    assert_eq!(lag_on_invalid_offset(&past), 3);
}

#[test]
fn a_truncated_log_lowers_the_baseline() {
    let samples = [complete(1, &[(0, -1, 0, 100)]), complete(2, &[(0, -1, 0, 90)]), complete(3, &[(0, -1, 0, 95)])];
    assert_eq!(lag_on_invalid_offset(&follow(samples)), 5);
}

#[test]
fn a_topic_made_again_starts_a_new_history() {
    let made_again = |old, new, end| {
        let first = Offsets::new(topic(old, 1, &[(0, -1, 0, 100)]), true);
        follow([first, Offsets::new(topic(new, 2, &[(0, -1, 0, end)]), true)])
    };
    // Every record in it came since the first look, even where it is longer than the old one.
    for (old, new, end, expected) in [
        (Some(1), Some(2), 7, 7),
        (Some(1), Some(2), 100, 100),
        (Some(1), Some(2), 120, 120),
        (None, None, 7, 7),
        (None, Some(1), 7, 7),
        (None, Some(1), 120, 20),
        (None, None, 120, 20),
    ] {
        let offsets = made_again(old, new, end);
        assert_eq!(lag_on_invalid_offset(&offsets), expected, "{old:?} {new:?} {end}");
    }
    assert_eq!(history(&made_again(Some(1), Some(2), 100)).end_moved, at(2));
    assert_eq!(history(&made_again(Some(1), Some(2), 100)).commit_moved, at(2));
}

#[test]
fn a_partition_that_was_added_holds_only_new_records() {
    let samples = [complete(1, &[(1, -1, 0, 9)]), complete(2, &[(0, -1, 0, 4), (1, -1, 0, 9)])];
    assert_eq!(lag_on_invalid_offset(&follow(samples)), 4);
    // After a partial sample it may have been there.
    let samples = [partial(1, &[(1, -1, 0, 9)]), complete(2, &[(0, -1, 0, 4), (1, -1, 0, 9)])];
    assert_eq!(lag_on_invalid_offset(&follow(samples)), 0);
}

#[test]
fn a_partial_sample_keeps_the_history_of_what_it_lacks() {
    let first = complete(1, &[(0, -1, 0, 100), (1, 5, 0, 9)]);
    let gap = [partial(2, &[(1, 5, 0, 9)]), partial(3, &[])];
    let last = complete(4, &[(0, -1, 0, 130), (1, 5, 0, 9)]);
    let offsets = follow([first].into_iter().chain(gap).chain([last]));
    assert_eq!(lag_on_invalid_offset(&offsets), 30);
    assert_eq!(offsets.partitions[1].history.commit_moved, at(1));
    assert!(offsets.unseen.is_empty());
}

#[test]
fn a_complete_sample_forgets_what_is_gone() {
    let samples = [complete(1, &[(0, 3, 0, 9), (1, 5, 0, 9)]), complete(2, &[(0, 3, 0, 9)]), partial(3, &[])];
    assert_eq!(follow(samples).unseen.len(), 1);
}

#[test]
fn what_is_remembered_is_bounded() {
    let rows = |from: i32| -> Vec<Row> { (from..from + 8000).map(|partition| (partition, 0, 0, 0)).collect() };
    let samples = [partial(1, &rows(0)), partial(2, &rows(8000)), partial(3, &rows(16_000)), partial(4, &rows(24_000))];
    assert_eq!(follow(samples).unseen.len(), MAX_UNSEEN);
}
