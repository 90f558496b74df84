//! Log ends never go back within one leader epoch; one that does comes from a broker that is behind (safety.md 4, 23).

use std::{collections::HashMap, sync::Arc};

use crate::kafka::IsolationLevel;

/// A topic, a partition of it, and which end counts.
type Key = (Arc<str>, i32, IsolationLevel);
/// The topic's id and the leader's epoch. Offsets of different ones do not compare.
type Epoch = (Option<u128>, i32);

struct Mark {
    epoch: Epoch,
    end: i64,
    /// The sample that saw a lower end.
    doubted: Option<u64>,
}

/// The log ends that were seen last.
#[derive(Default)]
pub(super) struct Watermarks {
    marks: HashMap<Key, Mark>,
    sample: u64,
}

impl Watermarks {
    /// A new sample begins; what is of no topic in `wanted` is forgotten.
    pub(super) fn next_sample(&mut self, wanted: impl Fn(&str) -> bool) {
        self.sample += 1;
        self.marks.retain(|(topic, ..), _| wanted(topic));
    }

    /// Whether `end` may be believed. A lower end is believed when a second sample sees it too: without topic ids
    /// nothing else tells that a topic was deleted and made again.
    pub(super) fn advance(&mut self, key: Key, epoch: Epoch, end: i64) -> bool {
        let sample = self.sample;
        let mark = self.marks.entry(key).or_insert(Mark { epoch, end, doubted: None });
        let lower = mark.epoch == epoch && end < mark.end && epoch.1 >= 0;
        if lower && mark.doubted.is_none_or(|doubted| doubted == sample) {
            mark.doubted = Some(sample);
            return false;
        }
        *mark = Mark { epoch, end, doubted: None };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        ("orders".into(), 0, IsolationLevel::ReadUncommitted)
    }

    /// Feeds (epoch, end) pairs, one a sample; the last one's answer is what counts.
    #[track_caller]
    fn check(ends: &[(Epoch, i64)], believed: bool) {
        let mut marks = Watermarks::default();
        let mut last = true;
        for &(epoch, end) in ends {
            marks.next_sample(|_| true);
            last = marks.advance(key(), epoch, end);
        }
        assert_eq!(last, believed, "{ends:?}");
    }

    #[test]
    fn an_end_goes_back_only_with_its_epoch_or_when_it_is_seen_twice() {
        check(&[((None, 3), 100), ((None, 3), 101)], true);
        check(&[((None, 3), 100), ((None, 3), 90)], false);
        check(&[((None, 3), 100), ((None, 4), 90)], true);
        check(&[((Some(1), 0), 100), ((Some(2), 0), 90)], true);
        check(&[((None, -1), 100), ((None, -1), 90)], true);
        check(&[((None, 3), 100), ((None, 3), 90), ((None, 3), 91)], true);
        check(&[((None, 3), 100), ((None, 3), 90), ((None, 3), 105), ((None, 3), 104)], false);
    }

    #[test]
    fn a_retry_within_a_sample_is_not_a_second_sample() {
        let mut marks = Watermarks::default();
        marks.next_sample(|_| true);
        assert!(marks.advance(key(), (None, 3), 100));
        assert!(!marks.advance(key(), (None, 3), 90));
        assert!(!marks.advance(key(), (None, 3), 90));
    }
}
