//! The lag of one partition: what a consumer of the group would still read.
//!
//! KEDA's arithmetic (`pkg/scalers/kafka_scaler.go`) with its faults mended: a lag is never negative, never counts
//! records that retention has deleted, and an empty partition has none.

use std::time::Duration;

use super::PartitionOffsets;
use crate::clock::BootInstant;

/// `offsetResetPolicy`: where a consumer without a valid commit starts (`auto.offset.reset`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetResetPolicy {
    /// At the end of the log.
    #[default]
    Latest,
    /// At its start.
    Earliest,
}

/// What decides the lag of a partition, besides its offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `offsetResetPolicy`.
    pub reset: OffsetResetPolicy,
    /// `scaleToZeroOnInvalidOffset`: without a valid commit only records count that came since the first look.
    pub zero_on_invalid_offset: bool,
    /// `persistentLagSeconds`, if `excludePersistentLag`.
    pub persistent_after: Option<Duration>,
}

/// The lag of one partition, and what it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// Records.
    pub records: u64,
    /// Whether they count for the value.
    pub in_value: bool,
    /// Whether they count for the activity.
    pub in_activity: bool,
    /// What is special about the partition.
    pub note: Option<&'static str>,
}

/// The lag that keeps one consumer alive until it commits.
const KEEPER: u64 = 1;

impl Rules {
    /// The lag of `offsets` in a sample that was taken at `taken`.
    pub fn lag(&self, offsets: &PartitionOffsets, taken: BootInstant) -> PartitionLag {
        let (records, note) = self.records(offsets);
        let unmoved = |since| self.persistent_after.is_some_and(|limit| taken.since(since) >= limit);
        let stuck = unmoved(offsets.history.commit_moved);
        let dormant = stuck && unmoved(offsets.history.end_moved);
        PartitionLag {
            records,
            in_value: !stuck,
            in_activity: !dormant,
            note: match (stuck, dormant) {
                _ if records == 0 => note,
                (_, true) => Some("persistent lag, not counted"),
                (true, false) => Some("persistent lag, counts only for the activation"),
                (false, false) => note,
            },
        }
    }

    fn records(&self, offsets: &PartitionOffsets) -> (u64, Option<&'static str>) {
        let PartitionOffsets { committed, log_start, log_end, history, .. } = *offsets;
        if let Some(committed) = offsets.valid_commit() {
            return (distance(committed, log_end), None);
        }
        let (behind, note) = match committed.filter(|committed| *committed >= 0) {
            None => (false, "no committed offset"),
            Some(committed) if committed < log_start => (true, "committed offset is before the log start"),
            Some(_) => (false, "committed offset is past the log end"),
        };
        let in_log = distance(log_start, log_end);
        let records = match self.reset {
            // The last commit is known: all that is left of the log came after it.
            _ if self.zero_on_invalid_offset && behind => in_log,
            _ if self.zero_on_invalid_offset => distance(history.first_end.max(log_start), log_end),
            OffsetResetPolicy::Earliest => in_log,
            OffsetResetPolicy::Latest => in_log.min(KEEPER),
        };
        (records, Some(note))
    }
}

/// The records between two offsets; none if `to` is not after `from`.
fn distance(from: i64, to: i64) -> u64 {
    if to > from { to.abs_diff(from) } else { 0 }
}

#[cfg(test)]
mod tests;
