//! How a trigger judges the offsets of its group: the partitions that count, the total, the caps.
//!
//! Invariants:
//! - A value is finite, not negative and at most 2^53.
//! - The caps bound the value and never the activity: a lag over the activation threshold is never capped away.
//! - A partition that a partial sample lacks is never said not to exist.

use std::{collections::HashSet, fmt::Write as _, num::NonZeroU64, sync::Arc};

use super::{Offsets, PartitionLag, PartitionOffsets, Rules};
use crate::{
    clock::BootInstant,
    sampler::{Reading, SampleError, Subject},
    trigger::Detail,
};

/// The greatest value: every integer up to it is exact as `f64`.
const MAX_VALUE: u64 = 1 << 53;

/// The most ranges that an error names.
const MAX_RANGES: usize = 8;

/// How the lag of a group is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// What decides the lag of a partition.
    pub rules: Rules,
    /// `lagThreshold`: the lag that one replica stands for.
    pub target: NonZeroU64,
    /// `activationLagThreshold`.
    pub activation: u64,
    /// `partitionLimitation`: the only partitions that count, sorted.
    pub partitions: Option<Arc<[i32]>>,
    /// What bounds the value.
    pub cap: Cap,
}

/// What bounds the value, as a number of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cap {
    /// The number of partitions: a consumer more would be idle.
    #[default]
    Partitions,
    /// `limitToPartitionsWithLag`: the number of partitions that have a lag.
    PartitionsWithLag,
    /// `ensureEvenDistributionOfPartitions`: rounded up to a number that divides the partitions evenly.
    EvenDistribution,
    /// `allowIdleConsumers`: nothing.
    None,
}

impl Threshold {
    /// The value and the activity that `offsets`, taken at `taken`, mean.
    pub fn reading(&self, offsets: &Offsets, taken: BootInstant) -> Result<Reading, SampleError> {
        self.check_limitation(offsets)?;
        let (mut value, mut activity, mut partitions, mut lagging) = (0_u64, 0_u64, 0_u64, 0_u64);
        for (_, lag) in self.lags(offsets, taken) {
            partitions += 1;
            if lag.in_value {
                value = value.saturating_add(lag.records);
                lagging += u64::from(lag.records > 0);
            }
            if lag.in_activity {
                activity = activity.saturating_add(lag.records);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "integers up to 2^53 are exact")]
        let value = self.capped(value, partitions, lagging).min(MAX_VALUE) as f64;
        Ok(Reading { value, active: activity > self.activation })
    }

    /// The partitions that count, each with its lag.
    pub fn lags<'a>(
        &'a self,
        offsets: &'a Offsets,
        taken: BootInstant,
    ) -> impl Iterator<Item = (&'a PartitionOffsets, PartitionLag)> {
        let counted = offsets.partitions.iter().filter(|offsets| self.counts(offsets.partition));
        counted.map(move |offsets| (offsets, self.rules.lag(offsets, taken)))
    }

    /// The partitions that count, one line each.
    pub fn detail(&self, offsets: &Offsets, taken: BootInstant) -> Vec<Detail> {
        let line = |(partition, lag): (&PartitionOffsets, PartitionLag)| {
            let mut line: Detail = vec![
                ("topic", partition.topic.as_ref().into()),
                ("partition", partition.partition.into()),
                ("committed", partition.committed.into()),
                ("logStart", partition.log_start.into()),
                ("logEnd", partition.log_end.into()),
                ("lag", lag.records.into()),
            ];
            line.extend(lag.note.map(|note| ("note", note.into())));
            line
        };
        self.lags(offsets, taken).map(line).collect()
    }

    fn counts(&self, partition: i32) -> bool {
        self.partitions.as_ref().is_none_or(|only| only.binary_search(&partition).is_ok())
    }

    fn capped(&self, lag: u64, partitions: u64, lagging: u64) -> u64 {
        let replicas = match self.cap {
            Cap::None => return lag,
            Cap::Partitions => partitions,
            Cap::PartitionsWithLag => lagging,
            Cap::EvenDistribution => return self.evenly(lag, partitions),
        };
        lag.min(replicas.saturating_mul(self.target.get()))
    }

    /// The smallest number of replicas that divides the partitions and is enough for the lag, or one per partition.
    fn evenly(&self, lag: u64, partitions: u64) -> u64 {
        let wanted = lag.div_ceil(self.target.get());
        if wanted == 0 {
            return 0;
        }
        let even = (wanted..partitions).find(|replicas| partitions.is_multiple_of(*replicas));
        even.unwrap_or(partitions).saturating_mul(self.target.get())
    }

    /// Refuses a `partitionLimitation` that names partitions which no topic of the trigger has.
    fn check_limitation(&self, offsets: &Offsets) -> Result<(), SampleError> {
        let Some(only) = self.partitions.as_ref().filter(|_| offsets.is_complete()) else { return Ok(()) };
        let present: HashSet<_> = offsets.partitions.iter().map(|offsets| offsets.partition).collect();
        let absent: Vec<_> = only.iter().copied().filter(|id| !present.contains(id)).collect();
        if absent.is_empty() {
            return Ok(());
        }
        Err(SampleError::NotFound(Subject::Partitions(as_ranges(&absent).into())))
    }
}

/// Sorted partitions as `partitionLimitation` writes them: `1,3-5`; cut after [`MAX_RANGES`].
fn as_ranges(ids: &[i32]) -> String {
    let mut text = String::new();
    for (n, run) in ids.chunk_by(|a, b| a + 1 == *b).enumerate() {
        if n == MAX_RANGES {
            text.push_str(",...");
            break;
        }
        let comma = if n == 0 { "" } else { "," };
        let written = match run {
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [only] => write!(text, "{comma}{only}"),
            [] => Ok(()),
        };
        written.expect("a String takes every write");
    }
    text
}

#[cfg(test)]
mod tests;
