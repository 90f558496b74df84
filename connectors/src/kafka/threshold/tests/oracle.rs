//! The rules once more, written down from the design as plainly as can be, in 128-bit integers, and compared.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// What the rules look at: seconds are ages.
#[derive(Clone, Debug)]
struct Facts {
    committed: Option<i64>,
    start: i64,
    end: i64,
    first_end: i64,
    commit_age: u64,
    end_age: u64,
}

fn facts() -> impl Strategy<Value = Facts> {
    let age = || select(vec![0_u64, 1, 299, 300, 301, 5000]);
    (option::of(0_i64..60), 0_i64..40, 0_i64..40, 0_i64..60, age(), age()).prop_map(
        |(committed, start, size, first_end, commit_age, end_age)| {
            let end = start + size;
            Facts { committed, start, end, first_end: first_end.min(end), commit_age, end_age }
        },
    )
}

fn thresholds() -> impl Strategy<Value = Threshold> {
    let caps = vec![Cap::None, Cap::Partitions, Cap::PartitionsWithLag, Cap::EvenDistribution];
    let persistent = option::of(Just(Duration::from_secs(300)));
    (select(vec![Latest, Earliest]), any::<bool>(), persistent, 1_u64..30, 0_u64..60, select(caps)).prop_map(
        |(reset, zero_on_invalid_offset, persistent_after, target, activation, cap)| Threshold {
            rules: Rules { reset, zero_on_invalid_offset, persistent_after },
            activation,
            ..threshold(target, cap)
        },
    )
}

fn sample(facts: &[Facts]) -> Offsets {
    let rows: Vec<Row> = facts.iter().map(|facts| (facts.committed, facts.start, facts.end)).collect();
    let mut offsets = offsets(&rows, true);
    for (partition, facts) in offsets.partitions.iter_mut().zip(facts) {
        partition.history = History {
            first_end: facts.first_end,
            commit_moved: at(NOW - facts.commit_age),
            end_moved: at(NOW - facts.end_age),
        };
    }
    offsets
}

/// What a consumer of the group would still read.
fn expected_lag(facts: &Facts, rules: Rules) -> i128 {
    let (start, end) = (i128::from(facts.start), i128::from(facts.end));
    if start == end {
        return 0;
    }
    match facts.committed.map(i128::from) {
        Some(committed) if committed >= start && committed <= end => end - committed,
        // The commit is still known, and all of the log came after it.
        Some(committed) if committed < start && rules.zero_on_invalid_offset => end - start,
        _ if rules.zero_on_invalid_offset => end - i128::from(facts.first_end).max(start),
        _ if rules.reset == Earliest => end - start,
        _ => 1,
    }
}

fn expected(facts: &[Facts], threshold: &Threshold) -> (i128, bool) {
    let target = i128::from(threshold.target.get());
    let exclude = threshold.rules.persistent_after.is_some();
    let (mut value, mut activity, mut partitions, mut lagging) = (0, 0, 0, 0);
    for facts in facts {
        let lag = expected_lag(facts, threshold.rules);
        let commit_stands = exclude && facts.commit_age >= 300;
        let end_stands = facts.end_age >= 300;
        partitions += 1;
        if !commit_stands {
            value += lag;
            lagging += i128::from(lag > 0);
        }
        if !(commit_stands && end_stands) {
            activity += lag;
        }
    }
    let capped = match threshold.cap {
        Cap::None => value,
        Cap::Partitions => value.min(partitions * target),
        Cap::PartitionsWithLag => value.min(lagging * target),
        Cap::EvenDistribution if value == 0 => 0,
        Cap::EvenDistribution => {
            let divisors: Vec<i128> = (1..=partitions).filter(|n| partitions % n == 0).collect();
            divisors.into_iter().find(|n| n * target >= value).unwrap_or(partitions) * target
        }
    };
    (capped, activity > i128::from(threshold.activation))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn readings_follow_the_rules(facts in vec(facts(), 0..14), threshold in thresholds()) {
        let reading = threshold.reading(&sample(&facts), at(NOW)).expect("a reading");
        let (value, active) = expected(&facts, &threshold);
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let value = value as f64;
        prop_assert_eq!(reading, Reading { value, active });
    }

    #[test]
    fn a_limitation_is_the_reading_of_its_partitions(
        facts in vec(facts(), 1..14), threshold in thresholds(), picks: u16,
    ) {
        let only: Vec<i32> = (0..).take(facts.len()).filter(|n| picks & (1 << n) != 0).collect();
        let some: Vec<Facts> = only.iter().map(|n| facts[usize::try_from(*n).expect("small")].clone()).collect();
        let limited = Threshold { partitions: Some(only.into()), ..threshold.clone() };
        let reading = limited.reading(&sample(&facts), at(NOW)).expect("a reading");
        prop_assert_eq!(reading, threshold.reading(&sample(&some), at(NOW)).expect("a reading"));
    }

    #[test]
    fn any_bytes_of_a_broker_give_a_sane_value(
        rows in vec((any::<Option<i64>>(), any::<i64>(), any::<i64>()), 0..20), threshold in thresholds(),
        target in 1_u64..=u64::MAX,
    ) {
        let threshold = Threshold { target: NonZeroU64::new(target).expect("from 1"), ..threshold };
        let value = threshold.reading(&offsets(&rows, true), at(NOW)).expect("a reading").value;
        prop_assert!((0.0..=9_007_199_254_740_992.0).contains(&value));
    }

    #[test]
    fn a_record_more_is_never_less(
        facts in vec(facts(), 1..14), threshold in thresholds(), which: prop::sample::Index,
    ) {
        let mut more = facts.clone();
        let grown = &mut more[which.index(facts.len())];
        // A commit past the end that becomes valid tells more than before, and its lag is less.
        prop_assume!(grown.committed.is_none_or(|committed| committed <= grown.end));
        grown.end += 1;
        let before = threshold.reading(&sample(&facts), at(NOW)).expect("a reading");
        let after = threshold.reading(&sample(&more), at(NOW)).expect("a reading");
        prop_assert!(after.value >= before.value);
        prop_assert!(after.active >= before.active);
    }
}
