//! The offsets of a group, and what only a sequence of samples can tell of them.
//!
//! Invariants:
//! - A partition that a partial sample lacks keeps its history: a failed broker never moves a baseline.
//! - The history of one topic is never used for another of the same name.
//! - A baseline (`first_end`) is never above the end of the log.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::clock::BootInstant;

/// The most partitions remembered beyond those of the newest sample; what is over it starts a new history.
const MAX_UNSEEN: usize = 10_000;

/// The offsets of a group on the partitions of its topics.
#[derive(Clone, Debug)]
pub struct Offsets {
    /// One for each partition that could be read, in the order of topic and partition.
    pub partitions: Vec<PartitionOffsets>,
    /// Whether these are all partitions of the query: what is not here is not there.
    complete: bool,
    /// Partitions of earlier samples that this one, being partial, lacks. They count for nothing but their history.
    unseen: Vec<PartitionOffsets>,
}

/// What is known of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOffsets {
    /// The topic.
    pub topic: Arc<str>,
    /// The topic's id (KIP-516); `None` where the broker knows none (before 2.8).
    pub topic_id: Option<u128>,
    /// The partition's number.
    pub partition: i32,
    /// The offset that the group committed.
    pub committed: Option<i64>,
    /// Log start offset.
    pub log_start: i64,
    /// Log end offset: the high watermark or the last stable offset, by isolation level.
    pub log_end: i64,
    /// What only time can tell.
    pub history: History,
}

/// What only a sequence of samples can tell of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    /// Where the log ended when this scaler first looked at the group, or the last offset that the group had committed
    /// before its commits expired. What lies behind it was appended, or left over, since.
    pub first_end: i64,
    /// When `committed` last moved, or the group last had nothing left to commit, as far as this scaler saw.
    pub commit_moved: BootInstant,
    /// When `log_end` last moved, as far as this scaler saw.
    pub end_moved: BootInstant,
}

impl History {
    /// The history of a partition that is looked at for the first time.
    pub fn starting(log_end: i64, taken: BootInstant) -> Self {
        Self { first_end: log_end, commit_moved: taken, end_moved: taken }
    }
}

impl Offsets {
    /// The offsets of one sample, each partition with a [`History::starting`] in it. `complete` tells whether these are
    /// all partitions of the query; it is what `Sample::missing` says.
    pub fn new(partitions: Vec<PartitionOffsets>, complete: bool) -> Self {
        Self { partitions, complete, unseen: Vec::new() }
    }

    /// Whether these are all partitions of the query.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Carries the histories over from the sample before.
    pub fn follow(&mut self, before: &Self) {
        let known: HashMap<_, _> = before.known().map(|earlier| (earlier.key(), earlier)).collect();
        let topics: HashSet<_> = before.known().map(|earlier| &*earlier.topic).collect();
        for now in &mut self.partitions {
            if let Some(earlier) = known.get(&now.key()) {
                now.follow(earlier);
            } else if before.complete && topics.contains(&*now.topic) {
                // The topic was there without this partition: every record in it came since.
                now.history.first_end = now.log_start.min(now.log_end);
            }
        }
        if !self.complete {
            let seen: HashSet<_> = self.partitions.iter().map(PartitionOffsets::key).collect();
            let unseen = before.known().filter(|earlier| !seen.contains(&earlier.key()));
            self.unseen = unseen.take(MAX_UNSEEN).cloned().collect();
        }
    }

    fn known(&self) -> impl Iterator<Item = &PartitionOffsets> {
        self.partitions.iter().chain(&self.unseen)
    }
}

impl PartitionOffsets {
    /// The committed offset, if a consumer could start at it: it is neither before the log's start nor past its end.
    pub fn valid_commit(&self) -> Option<i64> {
        self.committed.filter(|committed| (self.log_start..=self.log_end).contains(committed))
    }

    fn key(&self) -> (&str, i32) {
        (&self.topic, self.partition)
    }

    fn follow(&mut self, before: &Self) {
        if self.recreated_since(before) {
            self.history.first_end = self.log_start.min(self.log_end);
            return;
        }
        let expired = before.committed.filter(|last| self.committed.is_none() && (0..=before.log_end).contains(last));
        // An end that went back was truncated: what is appended from there on is new.
        self.history.first_end = expired.unwrap_or(before.history.first_end).min(self.log_end);
        if self.committed == before.committed && !before.caught_up() {
            self.history.commit_moved = before.history.commit_moved;
        }
        if self.log_end == before.log_end {
            self.history.end_moved = before.history.end_moved;
        }
    }

    /// Whether the topic was deleted and made again since. Without ids an end that went back says so; with them it may
    /// as well be an unclean leader election.
    fn recreated_since(&self, before: &Self) -> bool {
        match (self.topic_id, before.topic_id) {
            (Some(now), Some(then)) => now != then,
            _ => self.log_end < before.log_end,
        }
    }

    /// Whether the group had nothing left to commit.
    fn caught_up(&self) -> bool {
        self.log_start >= self.log_end || self.committed == Some(self.log_end)
    }
}

#[cfg(test)]
mod tests;
