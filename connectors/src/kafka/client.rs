//! A client that reads groups' commits and logs' ends from one Kafka cluster, and writes nothing.
//!
//! Invariants:
//! - Only [`Egress`](crate::egress::Egress) opens connections: to bootstrap servers, to coordinators of groups and to
//!   leaders of partitions that are asked for.
//! - Every failure of a broker, a group or a partition is a value, for those it concerns.
//! - Nothing a broker sends is believed before it is bounded: frames, arrays, brokers, partitions, time.
//! - All state is here, so that a caller may be dropped at any await.

mod api;
mod code;
pub(super) mod commits;
mod connection;
mod coordinators;
pub(super) mod fault;
mod frame;
pub(super) mod handshake;
pub(super) mod log;
pub(super) mod metadata;
mod peers;
mod retry;
mod shape;
mod share;
mod starts;
mod versions;
mod watermarks;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

use self::{
    connection::Connection,
    coordinators::Coordinators,
    handshake::{Dialer, Peer},
    metadata::Metadata,
    peers::Peers,
    share::ShareGroups,
    starts::Starts,
    watermarks::Watermarks,
};
use crate::oauth::TokenSource;

/// A client of one cluster.
pub(super) struct Client {
    peers: Peers,
    pub(super) metadata: Metadata,
    coordinators: Coordinators,
    share_groups: ShareGroups,
    starts: Starts,
    watermarks: Watermarks,
}

impl Client {
    /// A client that connects when it is first asked.
    pub(super) fn new(dialer: Dialer, tokens: Option<TokenSource>, bootstrap: Vec<Peer>) -> Self {
        Self {
            peers: Peers::new(dialer, tokens, bootstrap),
            metadata: Metadata::default(),
            coordinators: Coordinators::default(),
            share_groups: ShareGroups::default(),
            starts: Starts::default(),
            watermarks: Watermarks::default(),
        }
    }

    /// A new sample begins: what its `groups` do not need is forgotten.
    pub(super) fn next_sample(&mut self, groups: impl Fn(&str) -> bool) {
        self.peers.next_sample();
        self.coordinators.keep(groups);
        self.starts.next_sample(|topic| self.metadata.knows(topic));
        self.watermarks.next_sample(|topic| self.metadata.knows(topic));
    }

    /// Reads the metadata of `topics` that are not known for sure.
    pub(super) async fn refresh(&mut self, topics: &BTreeSet<Arc<str>>, until: Instant) {
        self.metadata.refresh(&mut self.peers, topics, until).await;
    }
}

/// Sorts things by the connection that each is to be asked on.
fn by_connection<T>(things: impl IntoIterator<Item = (Arc<Connection>, T)>) -> Vec<(Arc<Connection>, Vec<T>)> {
    let mut sorted: HashMap<usize, (Arc<Connection>, Vec<T>)> = HashMap::new();
    for (to, thing) in things {
        sorted.entry(Arc::as_ptr(&to).addr()).or_insert_with(|| (to, Vec::new())).1.push(thing);
    }
    sorted.into_values().collect()
}

#[cfg(test)]
mod tests;
