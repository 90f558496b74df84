//! Which broker coordinates a group.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use kafka_protocol::{messages::FindCoordinatorRequest, protocol::StrBytes};
use tokio::time::{Instant, timeout_at};

use super::{
    code,
    connection::Connection,
    fault::{Fault, malformed, not_ready, timed_out},
    handshake::Peer,
    peers::Peers,
};
use crate::sampler::{SampleError, Subject};

/// The first version that asks for many groups at once.
const BATCHED: i16 = 4;
/// Groups of one request.
const GROUPS_PER_REQUEST: usize = 1000;

/// The coordinators of the groups that are asked for.
#[derive(Default)]
pub(crate) struct Coordinators(HashMap<Arc<str>, Peer>);

impl Coordinators {
    /// Forgets where a group was, because a broker said that it moved, or cannot be reached.
    pub(super) fn forget(&mut self, group: &str) {
        self.0.remove(group);
    }

    /// Forgets the groups that are not asked for any more.
    pub(super) fn keep(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|group, _| wanted(group));
    }

    /// The coordinator of each of `groups`, or why there is none.
    pub(super) async fn find(
        &mut self,
        peers: &mut Peers,
        groups: Vec<Arc<str>>,
        until: Instant,
    ) -> HashMap<Arc<str>, Result<Peer, Fault>> {
        let unknown: Vec<_> = groups.iter().filter(|group| !self.0.contains_key(*group)).cloned().collect();
        let mut found = self.ask(peers, &unknown, until).await;
        for (group, result) in &found {
            if let Ok(peer) = result {
                self.0.insert(Arc::clone(group), peer.clone());
            }
        }
        for group in groups {
            if let Some(peer) = self.0.get(&group) {
                found.insert(group, Ok(peer.clone()));
            }
        }
        found
    }

    async fn ask(
        &self,
        peers: &mut Peers,
        groups: &[Arc<str>],
        until: Instant,
    ) -> HashMap<Arc<str>, Result<Peer, Fault>> {
        if groups.is_empty() {
            return HashMap::new();
        }
        let all = |fault: Fault| groups.iter().map(|group| (Arc::clone(group), Err(Arc::clone(&fault)))).collect();
        let connection = match peers.any(until).await {
            Ok(connection) => connection,
            Err(fault) => return all(fault),
        };
        let version = match connection.versions.of::<FindCoordinatorRequest>() {
            Ok(version) => version,
            Err(fault) => return all(fault),
        };
        let size = if version >= BATCHED { GROUPS_PER_REQUEST } else { 1 };
        let requests = groups.chunks(size).map(|some| ask_some(&connection, version, some, until));
        join_all(requests).await.into_iter().flatten().collect()
    }
}

type Answers = Vec<(Arc<str>, Result<Peer, Fault>)>;

async fn ask_some(connection: &Connection, version: i16, groups: &[Arc<str>], until: Instant) -> Answers {
    let name = |group: &Arc<str>| StrBytes::from_string(group.to_string());
    let request = FindCoordinatorRequest::default();
    let request = match groups {
        [group] if version < BATCHED => request.with_key(name(group)),
        _ => request.with_coordinator_keys(groups.iter().map(name).collect()),
    };
    let reply = timeout_at(until, connection.call_version(&request, version)).await;
    let reply = match reply.unwrap_or_else(|_| Err(timed_out())) {
        Ok(reply) => reply,
        Err(fault) => return groups.iter().map(|group| (Arc::clone(group), Err(Arc::clone(&fault)))).collect(),
    };
    if version < BATCHED {
        let answer = |group| answer(group, reply.error_code, &reply.host, reply.port);
        return groups.iter().map(|group| (Arc::clone(group), answer(group))).collect();
    }
    let found: HashMap<&[u8], _> = reply.coordinators.iter().map(|found| (found.key.as_bytes(), found)).collect();
    let answer = |group: &Arc<str>| match found.get(group.as_bytes()) {
        Some(found) => answer(group, found.error_code, &found.host, found.port),
        None => Err(malformed("a group is missing from it")),
    };
    groups.iter().map(|group| (Arc::clone(group), answer(group))).collect()
}

fn answer(group: &Arc<str>, error: i16, host: &str, port: i32) -> Result<Peer, Fault> {
    match error {
        code::NONE => Peer::advertised(host, port).ok_or_else(|| malformed("a coordinator without an address")),
        other => Err(group_fault(group, other)),
    }
}

/// What an error code about a group means for its queries.
pub(super) fn group_fault(group: &Arc<str>, error: i16) -> Fault {
    let subject = || Subject::ConsumerGroup(Arc::clone(group));
    match error {
        code::COORDINATOR_LOAD_IN_PROGRESS => not_ready("the group's coordinator is loading"),
        code::COORDINATOR_NOT_AVAILABLE => not_ready("the group's coordinator is not available"),
        code::NOT_COORDINATOR => not_ready("the group's coordinator is moving"),
        code::GROUP_AUTHORIZATION_FAILED => Arc::new(SampleError::Forbidden(subject())),
        code::INVALID_GROUP_ID => Arc::new(SampleError::NotFound(subject())),
        _ => not_ready("the group's coordinator is in error"),
    }
}
