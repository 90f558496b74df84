//! Where logs start and end: one request per leader for all partitions of one kind.
//!
//! Brokers refuse a request that names a partition twice, and a request has one isolation level, so that starts and
//! ends are asked for apart; starts seldom, since they are remembered. A partition missing from a reply is an error.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::future::join_all;
use kafka_protocol::{
    messages::{
        BrokerId, ListOffsetsRequest, ListOffsetsResponse, TopicName,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        list_offsets_response::ListOffsetsPartitionResponse,
    },
    protocol::StrBytes,
};
use tokio::time::{Instant, timeout_at};

use super::{
    Client, code,
    connection::Connection,
    fault::{Fault, is_passing, malformed, not_ready, timed_out},
    handshake::Peer,
    metadata::Leader,
    retry::Retry,
    starts::Reign,
};
use crate::{
    kafka::IsolationLevel,
    sampler::{SampleError, Subject},
};

/// A consumer's id, where a replica has its own.
const CONSUMER: BrokerId = BrokerId(-1);
/// Partitions of one request, so that its reply stays under the limits of one.
const PARTITIONS_PER_REQUEST: usize = 50_000;
/// The first version that tells the leader which epoch the client believes in (KIP-320).
const WITH_EPOCH: i16 = 4;

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Point {
    /// Log start offset.
    Start,
    /// Log end offset.
    End(IsolationLevel),
}

/// What is asked of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) point: Point,
}

/// What came out, partition by partition.
pub(crate) type Found = HashMap<Target, Result<i64, Fault>>;

impl Client {
    /// The offset of each target.
    pub(crate) async fn log_offsets(&mut self, targets: Vec<Target>, until: Instant) -> Found {
        let mut found = Found::new();
        let mut left = targets;
        let mut retry = Retry::until(until);
        loop {
            let topics: BTreeSet<_> = left.iter().map(|target| Arc::clone(&target.topic)).collect();
            self.metadata.read_stale(&mut self.peers, &topics, until).await;
            let (batches, failed) = self.batches(left, until).await;
            found.extend(failed);
            let asked = batches.into_iter().map(|batch| batch.ask(until));
            for (target, result) in join_all(asked).await.into_iter().flatten() {
                let result = result.and_then(|end| self.watch(&target, end));
                found.insert(target, result);
            }
            left = found.iter().filter(|(_, r)| r.as_ref().is_err_and(is_passing)).map(|(t, _)| t.clone()).collect();
            for target in &left {
                self.metadata.suspect(&target.topic);
            }
            if left.is_empty() || !retry.pause().await {
                return found;
            }
        }
    }

    /// The starts of the logs that end at `ends`: of the partitions of `needed`, and of all of them as soon as one is not
    /// known, so that they get old together and are asked for together.
    pub(crate) async fn log_starts(&mut self, needed: &[Target], ends: &Found, until: Instant) -> Found {
        let mut lowest: HashMap<Target, i64> = HashMap::new();
        for (target, end) in ends {
            if let Ok(end) = end {
                let start = Target { point: Point::Start, ..target.clone() };
                lowest.entry(start).and_modify(|lowest| *lowest = (*lowest).min(*end)).or_insert(*end);
            }
        }
        let known = |target: &Target| Some((target.clone(), Ok(self.known_start(target, *lowest.get(target)?)?)));
        match needed.iter().map(known).collect() {
            Some(known) => known,
            None => self.log_offsets(lowest.into_keys().collect(), until).await,
        }
    }

    fn known_start(&self, target: &Target, end: i64) -> Option<i64> {
        self.starts.get(&(Arc::clone(&target.topic), target.partition), self.reign(target), end)
    }

    /// The topic and the leader that an offset of the target is of, as far as the metadata knows.
    fn reign(&self, target: &Target) -> Option<Reign> {
        let (_, leader) = self.leader(target).ok()?;
        Reign::new(self.metadata.topic(&target.topic).ok()?.id, leader.epoch)
    }

    /// Sorts targets by their leaders; those without one come back with the reason.
    async fn batches(&mut self, targets: Vec<Target>, until: Instant) -> (Vec<Batch>, Found) {
        let mut found = Found::new();
        let mut sorted: HashMap<(Peer, Point), Vec<(Target, Leader)>> = HashMap::new();
        for target in targets {
            match self.leader(&target) {
                Ok((peer, leader)) => sorted.entry((peer, target.point)).or_default().push((target, leader)),
                Err(fault) => {
                    found.insert(target, Err(fault));
                }
            }
        }
        let connections = self.peers.connect(sorted.keys().map(|(peer, _)| peer.clone()), until).await;
        let mut batches = Vec::new();
        for ((peer, point), targets) in sorted {
            match &connections[&peer] {
                Ok(to) => batches.extend(targets.chunks(PARTITIONS_PER_REQUEST).map(|some| Batch {
                    to: Arc::clone(to),
                    point,
                    targets: some.to_vec(),
                })),
                Err(fault) => found.extend(targets.into_iter().map(|(target, _)| (target, Err(Arc::clone(fault))))),
            }
        }
        (batches, found)
    }

    fn leader(&self, target: &Target) -> Result<(Peer, Leader), Fault> {
        let topic = self.metadata.topic(&target.topic)?;
        let leader = usize::try_from(target.partition).ok().and_then(|number| topic.leaders.get(number));
        let leader = leader.ok_or_else(|| not_ready("a partition has gone"))?.clone()?;
        Ok((self.metadata.broker(leader.broker)?, leader))
    }

    /// Remembers a start. Refuses an end that went back within one epoch: it is an old one.
    fn watch(&mut self, target: &Target, end: Offset) -> Result<i64, Fault> {
        let Point::End(isolation) = target.point else {
            // The request told the metadata's epoch, and the broker agreed: it is the leader of that epoch.
            let reign = self.reign(target);
            self.starts.put((Arc::clone(&target.topic), target.partition), reign, end.offset);
            return Ok(end.offset);
        };
        let id = self.metadata.topic(&target.topic)?.id;
        let topic = Arc::clone(&target.topic);
        if self.watermarks.advance((topic, target.partition, isolation), (id, end.epoch), end.offset) {
            Ok(end.offset)
        } else {
            Err(not_ready("a log end offset went back"))
        }
    }
}

/// An offset, and the leader epoch in which it was read.
#[derive(Clone, Copy)]
struct Offset {
    offset: i64,
    epoch: i32,
}

/// The targets of one request.
struct Batch {
    to: Arc<Connection>,
    point: Point,
    targets: Vec<(Target, Leader)>,
}

type Answers = Vec<(Target, Result<Offset, Fault>)>;

impl Batch {
    async fn ask(self, until: Instant) -> Answers {
        let outcome = match self.to.versions.of::<ListOffsetsRequest>() {
            Ok(version) => {
                let request = self.request(version);
                timeout_at(until, self.to.call_version(&request, version)).await.unwrap_or_else(|_| Err(timed_out()))
            }
            Err(fault) => Err(fault),
        };
        match outcome {
            Ok(reply) => self.read(&reply),
            Err(fault) => self.targets.into_iter().map(|(target, _)| (target, Err(Arc::clone(&fault)))).collect(),
        }
    }

    fn request(&self, version: i16) -> ListOffsetsRequest {
        let timestamp = if self.point == Point::Start { -2 } else { -1 };
        let isolation = i8::from(self.point == Point::End(IsolationLevel::ReadCommitted));
        let mut topics: HashMap<&Arc<str>, Vec<ListOffsetsPartition>> = HashMap::new();
        for (target, leader) in &self.targets {
            let epoch = if version >= WITH_EPOCH { leader.epoch } else { -1 };
            let partition = ListOffsetsPartition::default()
                .with_partition_index(target.partition)
                .with_current_leader_epoch(epoch)
                .with_timestamp(timestamp);
            topics.entry(&target.topic).or_default().push(partition);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            let name = TopicName(StrBytes::from_string(name.to_string()));
            ListOffsetsTopic::default().with_name(name).with_partitions(partitions)
        });
        ListOffsetsRequest::default()
            .with_replica_id(CONSUMER)
            .with_isolation_level(isolation)
            .with_topics(topics.collect())
    }

    fn read(self, reply: &ListOffsetsResponse) -> Answers {
        let mut replies: HashMap<(&[u8], i32), Vec<&ListOffsetsPartitionResponse>> = HashMap::new();
        for topic in &reply.topics {
            for partition in &topic.partitions {
                replies.entry((topic.name.as_bytes(), partition.partition_index)).or_default().push(partition);
            }
        }
        let read = |(target, _): (Target, Leader)| {
            let replies = replies.get(&(target.topic.as_bytes(), target.partition));
            let result = match replies.map(Vec::as_slice) {
                Some([reply]) => offset(&target, reply),
                Some(_) => Err(malformed("a partition that appears twice")),
                None => Err(malformed("a partition is missing from it")),
            };
            (target, result)
        };
        self.targets.into_iter().map(read).collect()
    }
}

fn offset(target: &Target, reply: &ListOffsetsPartitionResponse) -> Result<Offset, Fault> {
    match reply.error_code {
        code::NONE if reply.offset < 0 => Err(malformed("a negative offset")),
        code::NONE => Ok(Offset { offset: reply.offset, epoch: reply.leader_epoch }),
        code::TOPIC_AUTHORIZATION_FAILED => {
            Err(Arc::new(SampleError::Forbidden(Subject::Topic(Arc::clone(&target.topic)))))
        }
        code::UNKNOWN_TOPIC_OR_PARTITION | code::NOT_LEADER_OR_FOLLOWER => {
            Err(not_ready("a partition has another leader"))
        }
        code::LEADER_NOT_AVAILABLE => Err(not_ready("a partition has no leader")),
        code::FENCED_LEADER_EPOCH | code::UNKNOWN_LEADER_EPOCH => Err(not_ready("a partition changes its leader")),
        _ => Err(not_ready("a partition's leader is in error")),
    }
}
