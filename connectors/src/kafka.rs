//! Kafka triggers: the lag of a consumer group.

pub mod settings;

use std::sync::Arc;

use crate::{
    clock::BootInstant,
    credentials::Credentials,
    metadata::{Connection, Metadata, ParameterError, Parameters},
    sampler::{Environment, Query as AnyQuery, Reading, Sample, SampleError, Sampler},
    tenant::TenantId,
    trigger::Spec,
};

/// The keys of a Kafka trigger.
pub const KEYS: &[&str] = &[];

/// The parameters that decide how a client connects.
pub type Address = Connection;

/// What is asked of a Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The consumer group.
    pub group: Arc<str>,
    /// The topics; none means every topic that the group has commits for.
    pub topics: Vec<Arc<str>>,
    /// Which end of the log counts.
    pub isolation: IsolationLevel,
}

/// Which end of the log a consumer sees (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// The high watermark.
    #[default]
    ReadUncommitted,
    /// The last stable offset.
    ReadCommitted,
}

/// The offsets of a group on the partitions of its topics.
#[derive(Clone, Debug, Default)]
pub struct Offsets {
    /// One for each partition that could be read, in the order of topic and partition.
    pub partitions: Vec<PartitionOffsets>,
}

/// What is known of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionOffsets {
    /// The topic.
    pub topic: Arc<str>,
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
    /// Log end when this scaler first looked, or the last offset that the group had committed before its commits expired.
    pub first_end: i64,
    /// When `committed` last moved, as far as this scaler saw.
    pub commit_moved: BootInstant,
    /// When `log_end` last moved, as far as this scaler saw.
    pub end_moved: BootInstant,
}

impl Offsets {
    /// Carries the histories over from the sample before.
    pub fn follow(&mut self, _before: &Self) {
        unimplemented!()
    }
}

/// How the lag of a group is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {}

impl Threshold {
    /// The value and the activity that `offsets` mean.
    pub fn reading(&self, _offsets: &Offsets) -> Result<Reading, SampleError> {
        unimplemented!()
    }
}

/// Reads the parameters of a Kafka trigger.
pub fn parse(_metadata: &Metadata, _parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    unimplemented!()
}

/// The client of one Kafka cluster.
pub struct KafkaSampler {}

impl KafkaSampler {
    /// A client that connects when it is first asked.
    pub fn new(
        _tenant: &TenantId,
        _address: &Address,
        _credentials: Option<&Credentials>,
        _environment: &Environment,
    ) -> Result<Self, SampleError> {
        unimplemented!()
    }
}

impl Sampler for KafkaSampler {
    async fn sample(&mut self, _queries: &[Arc<AnyQuery>]) -> Vec<Result<Sample, SampleError>> {
        unimplemented!()
    }
}
