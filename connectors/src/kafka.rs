//! Kafka triggers: the lag of a consumer group.
//!
//! What is asked of a cluster is a [`Query`]; what comes out are [`Offsets`], plain data; what they mean for a trigger
//! is its [`Threshold`]'s to say. Nothing but the sampler does I/O.

mod client;
mod lag;
mod offsets;
mod sampler;
pub mod sasl;
pub mod settings;
mod threshold;
mod trigger;

use std::sync::Arc;

use crate::metadata::Connection;

pub use lag::{OffsetResetPolicy, PartitionLag, Rules};
pub use offsets::{History, Offsets, PartitionOffsets};
pub use sampler::KafkaSampler;
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
