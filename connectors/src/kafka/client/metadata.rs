//! Topics, their partitions and leaders: read every few seconds, and only for topics that are asked for.
//!
//! Invariants:
//! - No request creates a topic, and none asks for all topics.
//! - What could not be read is asked for again by the next sample, and so is what a broker contradicted.
//! - What is merely getting old is believed for a minute, so that one broker that hangs fails no sample.
//! - The partitions of a topic are numbered without a gap, so that none is forgotten in a sum.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use kafka_protocol::{
    messages::{
        MetadataRequest, MetadataResponse, TopicName,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
    },
    protocol::StrBytes,
};
use tokio::time::{Instant, timeout_at};

use super::{
    code,
    fault::{Fault, is_passing, malformed, not_ready, timed_out},
    handshake::Peer,
    peers::{MAX_BROKERS, Peers},
    retry::Retry,
};
use crate::sampler::{SampleError, Subject};

/// When it is read again: a new partition, and a topic that was made again, are noticed by the first poll after it. With
/// the poll interval it stays under 5 s, or each poll knows them.
const RENEWED_AFTER: Duration = Duration::from_secs(2);
/// How old it may get where it cannot be read again.
const MAX_AGE: Duration = Duration::from_secs(60);
/// How long a sample waits for what it could do without.
const RENEWAL: Duration = Duration::from_secs(1);
/// How long what nobody asks for is kept.
const KEEP: Duration = Duration::from_secs(120);
/// Topics of one request, so that its reply stays under the limits of one.
const TOPICS_PER_REQUEST: usize = 256;

/// The part of a cluster's metadata that is asked for.
#[derive(Default)]
pub(crate) struct Metadata {
    brokers: HashMap<i32, Peer>,
    topics: HashMap<Arc<str>, Entry>,
}

struct Entry {
    read: Instant,
    /// When it was last asked for; later than `read` where there was no answer.
    asked: Instant,
    /// A broker contradicted it.
    suspect: bool,
    topic: Result<Arc<Topic>, Fault>,
}

impl Entry {
    fn is_believed(&self) -> bool {
        !self.suspect && self.topic.is_ok() && Instant::now() < self.read + MAX_AGE
    }
}

/// A topic.
#[derive(Debug)]
pub(crate) struct Topic {
    /// `None` where the broker knows none (before 2.8).
    pub(crate) id: Option<u128>,
    /// The leader of each partition, by its number.
    pub(crate) leaders: Vec<Result<Leader, Fault>>,
}

/// The leader of a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader {
    pub(crate) broker: i32,
    /// -1 where the broker tells none (before 2.2).
    pub(crate) epoch: i32,
}

impl Metadata {
    /// The topic, or why it could not be read. Asking for what was not refreshed before is the caller's mistake.
    pub(crate) fn topic(&self, name: &str) -> Result<Arc<Topic>, Fault> {
        match self.topics.get(name) {
            Some(entry) => entry.topic.clone(),
            None => Err(not_ready("a topic was not read yet")),
        }
    }

    /// Whether anything is known of the topic.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.topics.contains_key(name)
    }

    /// The address of a broker.
    pub(super) fn broker(&self, id: i32) -> Result<Peer, Fault> {
        self.brokers.get(&id).cloned().ok_or_else(|| not_ready("a partition's leader is not a known broker"))
    }

    /// Notes that a broker contradicted what is known of the topic.
    pub(super) fn suspect(&mut self, name: &str) {
        if let Some(entry) = self.topics.get_mut(name) {
            entry.suspect = true;
        }
    }

    /// Reads those of `names` that are not known for sure; tries again while the cluster cannot tell.
    pub(super) async fn refresh(&mut self, peers: &mut Peers, names: &BTreeSet<Arc<str>>, until: Instant) {
        let now = Instant::now();
        self.topics.retain(|name, entry| names.contains(name) || now < entry.read + KEEP);
        let mut retry = Retry::until(until);
        while self.read_stale(peers, names, until).await && retry.pause().await {}
    }

    /// One attempt of [`Self::refresh`]; whether another one may tell more.
    pub(super) async fn read_stale(&mut self, peers: &mut Peers, names: &BTreeSet<Arc<str>>, until: Instant) -> bool {
        let stale = names.iter().filter(|name| self.is_stale(name)).cloned();
        let (old, unknown): (Vec<_>, Vec<_>) =
            stale.partition(|name| self.topics.get(name).is_some_and(Entry::is_believed));
        // What is old travels with what must be read; alone it is not waited for long.
        let until = if unknown.is_empty() { until.min(Instant::now() + RENEWAL) } else { until };
        let mut unsettled = false;
        for some in [unknown, old].concat().chunks(TOPICS_PER_REQUEST) {
            unsettled |= self.read(peers, some, until).await;
        }
        unsettled
    }

    fn is_stale(&self, name: &str) -> bool {
        self.topics.get(name).is_none_or(|entry| !entry.is_believed() || Instant::now() >= entry.asked + RENEWED_AFTER)
    }

    /// One request; whether its reply is worth another attempt.
    async fn read(&mut self, peers: &mut Peers, names: &[Arc<str>], until: Instant) -> bool {
        let reply = timeout_at(until, async { peers.any(until).await?.call(&request(names)).await }).await;
        let outcome = reply.unwrap_or_else(|_| Err(timed_out())).and_then(|reply| self.take(names, reply));
        match outcome {
            Ok(unsettled) => unsettled,
            Err(fault) => {
                let mut lost = false;
                for name in names {
                    if let Some(entry) = self.topics.get_mut(name).filter(|entry| entry.is_believed()) {
                        entry.asked = Instant::now();
                    } else {
                        self.put(name, Err(Arc::clone(&fault)));
                        lost = true;
                    }
                }
                lost && is_passing(&fault)
            }
        }
    }

    fn put(&mut self, name: &Arc<str>, topic: Result<Arc<Topic>, Fault>) {
        // A partition without a leader is looked at again by the next attempt, and by the next sample.
        let suspect = topic.as_ref().is_ok_and(|topic| topic.leaders.iter().any(Result::is_err));
        let now = Instant::now();
        self.topics.insert(Arc::clone(name), Entry { read: now, asked: now, suspect, topic });
    }

    fn take(&mut self, names: &[Arc<str>], reply: MetadataResponse) -> Result<bool, Fault> {
        if reply.brokers.len() > MAX_BROKERS {
            return Err(Arc::new(SampleError::OverLimit { what: "brokers", limit: MAX_BROKERS }));
        }
        self.brokers = reply
            .brokers
            .iter()
            .filter_map(|broker| Some((broker.node_id.0, Peer::advertised(&broker.host, broker.port)?)))
            .collect();
        let mut replies: HashMap<StrBytes, MetadataResponseTopic> = HashMap::new();
        for topic in reply.topics {
            let name = topic.name.clone().map(|name| name.0).unwrap_or_default();
            if replies.insert(name, topic).is_some() {
                return Err(malformed("a topic that appears twice"));
            }
        }
        let mut unsettled = false;
        for name in names {
            let topic = match replies.remove(name.as_bytes()) {
                Some(reply) => topic(name, reply).map(Arc::new),
                None => Err(malformed("a topic is missing from it")),
            };
            unsettled |= topic.as_ref().is_err_and(is_passing);
            self.put(name, topic);
        }
        Ok(unsettled)
    }
}

fn request(names: &[Arc<str>]) -> MetadataRequest {
    let topics = names.iter().map(|name| {
        MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_string(name.to_string()))))
    });
    MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false)
}

fn topic(name: &Arc<str>, reply: MetadataResponseTopic) -> Result<Topic, Fault> {
    let subject = || Subject::Topic(Arc::clone(name));
    match reply.error_code {
        code::NONE => {}
        code::UNKNOWN_TOPIC_OR_PARTITION | code::INVALID_TOPIC => {
            return Err(Arc::new(SampleError::NotFound(subject())));
        }
        code::TOPIC_AUTHORIZATION_FAILED => return Err(Arc::new(SampleError::Forbidden(subject()))),
        code::LEADER_NOT_AVAILABLE => return Err(not_ready("the topic's leaders are being elected")),
        _ => return Err(not_ready("the topic's metadata is in error")),
    }
    let mut partitions = reply.partitions;
    partitions.sort_unstable_by_key(|partition| partition.partition_index);
    let numbered = (0..).zip(&partitions).all(|(number, partition)| partition.partition_index == number);
    if !numbered || partitions.is_empty() {
        return Err(malformed("partitions that are not numbered from 0 on"));
    }
    let id = reply.topic_id.as_u128();
    Ok(Topic { id: (id != 0).then_some(id), leaders: partitions.iter().map(leader).collect() })
}

fn leader(partition: &MetadataResponsePartition) -> Result<Leader, Fault> {
    match partition.error_code {
        code::NONE | code::REPLICA_NOT_AVAILABLE if partition.leader_id.0 >= 0 => {
            Ok(Leader { broker: partition.leader_id.0, epoch: partition.leader_epoch })
        }
        _ => Err(not_ready("a partition has no leader")),
    }
}
