//! Kafka triggers: the lag of a consumer group.
//!
//! What is asked of a cluster is a [`Query`]; what comes out are [`Offsets`], plain data; what they mean for a trigger
//! is its [`Threshold`]'s to say. Nothing but the sampler does I/O.

mod lag;
mod offsets;
pub mod sasl;
pub mod settings;
mod threshold;
mod trigger;

use std::sync::Arc;

use crate::{
    credentials::Credentials,
    metadata::Connection,
    sampler::{Environment, Query as AnyQuery, Sample, SampleError, Sampler},
    tenant::TenantId,
};

pub use lag::{OffsetResetPolicy, PartitionLag, Rules};
pub use offsets::{History, Offsets, PartitionOffsets};
pub use threshold::{Cap, Threshold};
pub use trigger::{CONNECTION_KEYS, KEYS, parse};

/// The parameters that decide how a client connects.
pub type Address = Connection;

/// What is asked of a Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The consumer group.
    pub group: Arc<str>,
    /// The topics, sorted, each once; none means every topic that the group has commits for.
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
