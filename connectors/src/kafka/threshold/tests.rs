mod oracle;

use std::time::Duration;

use super::*;
use crate::kafka::{
    History,
    OffsetResetPolicy::{Earliest, Latest},
};

fn at(seconds: u64) -> BootInstant {
    BootInstant::from_boot(Duration::from_secs(seconds))
}

const NOW: u64 = 10_000;

/// Committed, log start, log end.
type Row = (Option<i64>, i64, i64);

fn offsets(rows: &[Row], complete: bool) -> Offsets {
    let partition = |(partition, &(committed, log_start, log_end)): (i32, &Row)| PartitionOffsets {
        topic: "orders".into(),
        topic_id: None,
        partition,
        committed,
        log_start,
        log_end,
        history: History::starting(log_end, at(NOW)),
    };
    Offsets::new((0..).zip(rows).map(partition).collect(), complete)
}

/// A partition with this lag.
fn lag(lag: i64) -> Row {
    (Some(0), 0, lag)
}

fn threshold(target: u64, cap: Cap) -> Threshold {
    let target = NonZeroU64::new(target).expect("a target");
    Threshold { rules: Rules::default(), target, activation: 0, partitions: None, cap }
}

#[track_caller]
fn check(threshold: &Threshold, rows: &[Row], value: f64, active: bool) {
    let reading = threshold.reading(&offsets(rows, true), at(NOW)).expect("a reading");
    assert_eq!(reading, Reading { value, active });
}

#[test]
fn b01_b02_b03_b07_b39_partitions_without_a_commit() {
    let judge = |reset, zero_on_invalid_offset, rows: &[Row], value, active| {
        let rules = Rules { reset, zero_on_invalid_offset, persistent_after: None };
        check(&Threshold { rules, ..threshold(10, Cap::None) }, rows, value, active);
    };
    judge(Latest, false, &[(None, 0, 0), (None, 0, 0)], 0.0, false);
    judge(Latest, true, &[(None, 0, 100); 3], 0.0, false);
    judge(Latest, false, &[(None, 0, 100); 3], 3.0, true);
    judge(Latest, false, &[(None, 100, 100); 3], 0.0, false);
    judge(Earliest, true, &[(None, 0, 50)], 0.0, false);
    judge(Earliest, false, &[(None, 7, 7); 100], 0.0, false);
    let exclude = Rules { persistent_after: Some(Duration::from_secs(300)), ..Rules::default() };
    check(
        &Threshold { rules: exclude, ..threshold(10, Cap::None) },
        &[(Some(10), 0, 10), (None, 500, 500)],
        0.0,
        false,
    );
}

#[test]
fn no_topic_and_no_commits_is_zero() {
    for cap in [Cap::None, Cap::Partitions, Cap::PartitionsWithLag, Cap::EvenDistribution] {
        check(&threshold(10, cap), &[], 0.0, false);
    }
}

#[test]
fn b20_b43_the_cap_is_exact() {
    let capped = threshold(10, Cap::Partitions);
    for (total, value) in [(30, 30.0), (31, 30.0), (35, 30.0), (39, 30.0), (40, 30.0), (1000, 30.0), (7, 7.0)] {
        check(&capped, &[lag(total), lag(0), lag(0)], value, true);
    }
    check(&threshold(10, Cap::None), &[lag(1000), lag(0), lag(0)], 1000.0, true);
    let mut skewed = vec![lag(0); 63];
    skewed.push(lag(450_000));
    check(&capped, &skewed, 640.0, true);
}

#[test]
fn b21_the_cap_of_partitions_with_lag() {
    let limited = threshold(10, Cap::PartitionsWithLag);
    let mut rows = vec![lag(0); 8];
    rows.extend([lag(500), lag(500)]);
    check(&limited, &rows, 20.0, true);
    check(&limited, &[lag(25), lag(0)], 10.0, true);
    check(&limited, &[lag(15), lag(0)], 10.0, true);
    check(&limited, &[lag(5), lag(0)], 5.0, true);
    check(&limited, &[lag(0), lag(0)], 0.0, false);
}

#[test]
fn b22_b23_even_distribution() {
    let check_even = |partitions: usize, total, value| {
        let mut rows = vec![lag(0); partitions - 1];
        rows.push(lag(total));
        check(&threshold(10, Cap::EvenDistribution), &rows, value, total > 0);
    };
    for (total, value) in [(0, 0.0), (1, 10.0), (10, 10.0), (11, 20.0), (20, 20.0), (21, 50.0), (35, 50.0), (50, 50.0)]
    {
        check_even(10, total, value);
    }
    for (total, value) in [(51, 100.0), (100, 100.0), (1000, 100.0)] {
        check_even(10, total, value);
    }
    // KEDA's own rows: the next factor of 100 partitions.
    for (total, factor) in [(10, 1.0), (20, 2.0), (40, 4.0), (50, 5.0), (99, 10.0), (100, 10.0), (101, 20.0)] {
        check_even(100, total, factor * 10.0);
    }
    check_even(13, 11, 130.0);
    check_even(17, 11, 170.0);
    check_even(25, 51, 250.0);
    check_even(1, 11, 10.0);
}

#[test]
fn b17_a_lag_is_clamped_before_it_is_summed() {
    check(&threshold(10, Cap::None), &[(Some(105), 0, 100), lag(20)], 21.0, true);
    let earliest = Rules { reset: Earliest, ..Rules::default() };
    check(&Threshold { rules: earliest, ..threshold(10, Cap::None) }, &[(Some(105), 99, 100), lag(20)], 21.0, true);
}

#[test]
fn b24_the_limitation_filters_and_names_what_is_not_there() {
    let only = |ids: &[i32]| Threshold { partitions: Some(ids.into()), ..threshold(10, Cap::Partitions) };
    let rows = [lag(1), lag(2), lag(4), lag(8), lag(16), lag(32)];
    check(&only(&[1, 3, 4, 5]), &rows, 40.0, true);
    check(&only(&[1, 2]), &rows, 6.0, true);
    check(&only(&[0]), &[lag(0), lag(9)], 0.0, false);
    for (ids, absent) in [
        (vec![1, 6], "6"),
        (vec![0, 6, 7, 8, 10], "6-8,10"),
        ((0..10_000).collect(), "6-9999"),
        (vec![i32::MAX - 1, i32::MAX], "2147483646-2147483647"),
        ((10..200).step_by(2).collect(), "10,12,14,16,18,20,22,24,..."),
    ] {
        let error = only(&ids).reading(&offsets(&rows, true), at(NOW)).expect_err("not there");
        let SampleError::NotFound(Subject::Partitions(named)) = error else { panic!("{error}") };
        assert_eq!(&*named, absent);
        only(&ids).reading(&offsets(&rows, false), at(NOW)).expect("a partial sample may lack it");
    }
}

#[test]
fn b26_activation_is_strict() {
    for (total, activation, active) in [(0, 0, false), (1, 0, true), (5, 5, false), (6, 5, true), (4, 5, false)] {
        let judge = Threshold { activation, ..threshold(10, Cap::Partitions) };
        #[expect(clippy::cast_precision_loss, reason = "small")]
        check(&judge, &[lag(total)], total as f64, active);
    }
}

#[test]
fn the_cap_never_hides_activity() {
    let judge = Threshold { activation: 100, ..threshold(10, Cap::Partitions) };
    check(&judge, &[lag(101)], 10.0, true);
}

#[test]
fn b42_lag_grows_while_nobody_commits() {
    for seconds in 0..5 {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        check(&threshold(10, Cap::None), &[(Some(7), 0, 7 + 10 * seconds)], (10 * seconds) as f64, seconds > 0);
    }
}

#[test]
fn persistent_lag_counts_as_activity_while_its_end_moves() {
    let rules = Rules { persistent_after: Some(Duration::from_secs(300)), ..Rules::default() };
    let judge = Threshold { rules, ..threshold(10, Cap::PartitionsWithLag) };
    let mut sample = offsets(&[lag(500), lag(7)], true);
    sample.partitions[0].history.commit_moved = at(NOW - 300);
    let reading = judge.reading(&sample, at(NOW)).expect("a reading");
    assert_eq!(reading, Reading { value: 7.0, active: true });
    sample.partitions.truncate(1);
    let reading = judge.reading(&sample, at(NOW)).expect("a reading");
    assert_eq!(reading, Reading { value: 0.0, active: true });
    sample.partitions[0].history.end_moved = at(NOW - 300);
    let reading = judge.reading(&sample, at(NOW)).expect("a reading");
    assert_eq!(reading, Reading { value: 0.0, active: false });
}

#[test]
fn values_saturate() {
    let rows = [lag(i64::MAX), lag(i64::MAX), lag(i64::MAX)];
    check(&threshold(10, Cap::None), &rows, 9_007_199_254_740_992.0, true);
    for cap in [Cap::Partitions, Cap::PartitionsWithLag, Cap::EvenDistribution] {
        check(&threshold(i64::MAX as u64, cap), &rows, 9_007_199_254_740_992.0, true);
    }
}

#[test]
fn the_detail_names_every_partition_that_counts() {
    let judge = Threshold { partitions: Some([1, 2].into()), ..threshold(10, Cap::Partitions) };
    let sample = offsets(&[lag(1), (None, 0, 9), lag(4)], true);
    let lines: Vec<_> = judge.lags(&sample, at(NOW)).map(|(p, lag)| (p.partition, lag.records, lag.note)).collect();
    assert_eq!(lines, [(1, 1, Some("no committed offset")), (2, 4, None)]);
}
