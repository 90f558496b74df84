//! RabbitMQ triggers: the length and the rates of queues.
//!
//! What is asked of a virtual host is a [`Query`]; what comes out are [`Queues`], plain data; what they mean for a trigger
//! is its [`Threshold`]'s to say. One endpoint is one virtual host: one connection over AMQP, one listing over the
//! management API.

mod address;
mod amqp;
mod errors;
mod escape;
mod listing;
mod management;
mod pattern;
mod queues;
mod sampler;
pub mod settings;
mod stream;
mod threshold;
mod trigger;

use std::sync::Arc;

use crate::metadata::{Connection, Metadata};

pub use address::Protocol;
pub use pattern::Pattern;
pub use queues::{Queue, Queues};
pub use sampler::RabbitMqSampler;
pub use threshold::{Mode, Operation, Threshold};
pub use trigger::{CONNECTION_KEYS, KEYS, parse};

/// The parameters that decide how a client connects.
pub type Address = Connection;

/// What is asked of a virtual host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The queues.
    pub queues: Selection,
    /// What is needed of them.
    pub needs: Needs,
}

/// The queues that a trigger names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// One queue.
    Named(Arc<str>),
    /// All queues whose name matches.
    Matching(Pattern),
}

/// What is needed of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// How many messages are ready; what AMQP tells, too.
    Ready,
    /// How many messages there are, ready and unacknowledged. AMQP tells of the ready ones only.
    Lengths,
    /// Lengths, and the rates that only the management API's statistics have.
    Rates,
}

/// The protocol, as far as a trigger's own metadata tells it.
pub fn protocol(metadata: &Metadata) -> Option<Protocol> {
    address::protocol(metadata.get("protocol"), metadata.get("host"))
}

/// Where it is, for people: scheme, host, port and virtual host, never a user name.
pub fn shown(metadata: &Metadata) -> String {
    address::shown(metadata.get("host"), metadata.get("vhostName"))
}
