//! What was measured: counters per queue.

use std::{sync::Arc, time::Duration};

/// The counters of one queue. What is not known is absent, and never 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name: the tenant's own, or one that the tenant's pattern matches.
    pub name: Arc<str>,
    /// Messages that wait for a consumer.
    pub ready: Option<u64>,
    /// Ready messages and those that consumers hold; AMQP does not tell.
    pub messages: Option<u64>,
    /// Messages published per second.
    pub publish_rate: Option<f64>,
    /// Messages delivered or got per second.
    pub deliver_rate: Option<f64>,
    /// Consumers, where `messages` cannot be known: each may hold messages.
    pub consumers: Option<u32>,
}

/// The queues of one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Queues {
    /// In the order of their names.
    pub queues: Vec<Queue>,
    /// Whether a pattern chose them: then there may be any number of them.
    pub matched: bool,
    /// How long the broker may take until a change shows in these counters.
    pub settles: Duration,
}

impl Queues {
    /// Whether they were asked for over AMQP, which tells of ready messages only.
    pub fn are_ready_only(&self) -> bool {
        self.queues.iter().any(|queue| queue.consumers.is_some())
    }
}
