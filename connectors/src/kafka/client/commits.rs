//! What groups committed: one request for all groups of a coordinator where it can (KIP-709), else one for each.
//!
//! A partition that was asked for and is missing from a reply is an error, never "no commit". Stable offsets are not
//! asked for: a pending transaction would turn a known commit into an error (cases.md B13).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use futures_util::future::join_all;
use kafka_protocol::{
    messages::{
        GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    },
    protocol::StrBytes,
};
use tokio::time::{Instant, timeout_at};

use super::{
    Client, by_connection, code,
    connection::Connection,
    coordinators::group_fault,
    fault::{Fault, is_passing, malformed, not_ready, timed_out},
    retry::Retry,
};
use crate::sampler::{SampleError, Subject};

/// The first version that asks for many groups at once.
const BATCHED: i16 = 8;
/// Partitions of one request, so that its reply stays under the limits of one.
const PARTITIONS_PER_REQUEST: usize = 50_000;

/// What is asked of one group.
pub(crate) struct Ask {
    pub(crate) group: Arc<str>,
    /// How many partitions each topic has; `None` asks for all that the group committed.
    pub(crate) topics: Option<BTreeMap<Arc<str>, usize>>,
}

/// What a group committed, by topic and partition.
pub(crate) type Commits = BTreeMap<Arc<str>, BTreeMap<i32, Result<Option<i64>, Fault>>>;

impl Client {
    /// The commits of each ask, in their order. No two asks may be for the same group and both, or neither, for all.
    pub(crate) async fn commits(&mut self, asks: &[Ask], until: Instant) -> Vec<Result<Commits, Fault>> {
        let mut results: Vec<_> = asks.iter().map(|_| Err(timed_out())).collect();
        let mut left: Vec<usize> = (0..asks.len()).collect();
        let mut retry = Retry::until(until);
        loop {
            let groups = left.iter().map(|&index| Arc::clone(&asks[index].group)).collect();
            let connections = self.coordinate(groups, until).await;
            let mut reached = Vec::new();
            for &index in &left {
                match &connections[&asks[index].group] {
                    Ok(to) => reached.push((Arc::clone(to), index)),
                    Err(fault) => results[index] = Err(Arc::clone(fault)),
                }
            }
            let fetches = by_connection(reached).into_iter().map(|(to, indexes)| fetch(to, asks, indexes, until));
            for (index, result) in join_all(fetches).await.into_iter().flatten() {
                results[index] = result;
            }
            left.retain(|&index| {
                if results[index].as_ref().is_err_and(is_passing) {
                    self.coordinators.forget(&asks[index].group);
                }
                worth_another_attempt(&results[index])
            });
            if left.is_empty() || !retry.pause().await {
                return results;
            }
        }
    }

    /// A connection to the coordinator of each of `groups`.
    pub(super) async fn coordinate(
        &mut self,
        groups: Vec<Arc<str>>,
        until: Instant,
    ) -> HashMap<Arc<str>, Result<Arc<Connection>, Fault>> {
        let found = self.coordinators.find(&mut self.peers, groups, until).await;
        let connections = self.peers.connect(found.values().filter_map(|peer| peer.clone().ok()), until).await;
        let connected = found.into_iter().map(|(group, peer)| {
            let connection = peer.and_then(|peer| connections[&peer].clone());
            (group, connection)
        });
        connected.collect()
    }
}

fn worth_another_attempt(result: &Result<Commits, Fault>) -> bool {
    match result {
        Ok(commits) => commits.values().flat_map(BTreeMap::values).any(|commit| commit.as_ref().is_err_and(is_passing)),
        Err(fault) => is_passing(fault),
    }
}

type Answers = Vec<(usize, Result<Commits, Fault>)>;

/// Asks one coordinator, in as few requests as its version allows.
async fn fetch(to: Arc<Connection>, asks: &[Ask], indexes: Vec<usize>, until: Instant) -> Answers {
    let version = match to.versions.of::<OffsetFetchRequest>() {
        Ok(version) => version,
        Err(fault) => return indexes.into_iter().map(|index| (index, Err(Arc::clone(&fault)))).collect(),
    };
    let batches = if version >= BATCHED { pack(asks, indexes) } else { indexes.into_iter().map(|i| vec![i]).collect() };
    let requests = batches.into_iter().map(|batch| {
        let to = &to;
        async move {
            let request = if version >= BATCHED { request(asks, &batch) } else { single_request(&asks[batch[0]]) };
            let reply = timeout_at(until, to.call_version(&request, version)).await;
            match reply.unwrap_or_else(|_| Err(timed_out())) {
                Ok(reply) if version >= BATCHED => read(asks, &batch, reply),
                Ok(reply) => vec![(batch[0], read_single(&asks[batch[0]], reply))],
                Err(fault) => batch.into_iter().map(|index| (index, Err(Arc::clone(&fault)))).collect(),
            }
        }
    });
    join_all(requests).await.into_iter().flatten().collect()
}

/// Splits asks into requests: no group twice in one, and not too many partitions.
fn pack(asks: &[Ask], indexes: Vec<usize>) -> Vec<Vec<usize>> {
    let mut batches: Vec<(HashSet<&str>, usize, Vec<usize>)> = Vec::new();
    for index in indexes {
        let ask = &asks[index];
        let size = ask.topics.as_ref().map_or(1, |topics| topics.values().sum());
        let fits = |batch: &&mut (HashSet<&str>, usize, Vec<usize>)| {
            batch.1 + size <= PARTITIONS_PER_REQUEST && !batch.0.contains(&*ask.group)
        };
        match batches.iter_mut().find(fits) {
            Some(batch) => {
                batch.0.insert(&ask.group);
                batch.1 += size;
                batch.2.push(index);
            }
            None => batches.push((HashSet::from([&*ask.group]), size, vec![index])),
        }
    }
    batches.into_iter().map(|batch| batch.2).collect()
}

fn text(text: &Arc<str>) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

/// The numbers of a topic's partitions. Topics have been checked to have fewer than 2^31 of them.
fn numbers(count: usize) -> Vec<i32> {
    (0..).take(count).collect()
}

fn request(asks: &[Ask], batch: &[usize]) -> OffsetFetchRequest {
    let groups = batch.iter().map(|&index| {
        let topics = asks[index].topics.as_ref().map(|topics| {
            let topics = topics.iter().map(|(name, &count)| {
                OffsetFetchRequestTopics::default()
                    .with_name(TopicName(text(name)))
                    .with_partition_indexes(numbers(count))
            });
            topics.collect()
        });
        OffsetFetchRequestGroup::default().with_group_id(GroupId(text(&asks[index].group))).with_topics(topics)
    });
    OffsetFetchRequest::default().with_groups(groups.collect()).with_require_stable(false)
}

fn single_request(ask: &Ask) -> OffsetFetchRequest {
    let topics = ask.topics.as_ref().map(|topics| {
        let topics = topics.iter().map(|(name, &count)| {
            OffsetFetchRequestTopic::default().with_name(TopicName(text(name))).with_partition_indexes(numbers(count))
        });
        topics.collect()
    });
    OffsetFetchRequest::default().with_group_id(GroupId(text(&ask.group))).with_topics(topics)
}

/// One partition of a reply.
struct Committed {
    topic: StrBytes,
    partition: i32,
    offset: i64,
    error: i16,
}

fn read(asks: &[Ask], batch: &[usize], reply: OffsetFetchResponse) -> Answers {
    let mut groups: HashMap<StrBytes, _> = HashMap::new();
    for group in reply.groups {
        groups.insert(group.group_id.0.clone(), group);
    }
    let read = |&index: &usize| {
        let ask = &asks[index];
        let Some(group) = groups.remove(ask.group.as_bytes()) else {
            return (index, Err(malformed("a group is missing from it")));
        };
        let commits = group.topics.into_iter().flat_map(|topic| {
            topic.partitions.into_iter().map(move |partition| Committed {
                topic: topic.name.0.clone(),
                partition: partition.partition_index,
                offset: partition.committed_offset,
                error: partition.error_code,
            })
        });
        (index, commits_of(ask, group.error_code, commits))
    };
    batch.iter().map(read).collect()
}

fn read_single(ask: &Ask, reply: OffsetFetchResponse) -> Result<Commits, Fault> {
    let commits = reply.topics.into_iter().flat_map(|topic| {
        topic.partitions.into_iter().map(move |partition| Committed {
            topic: topic.name.0.clone(),
            partition: partition.partition_index,
            offset: partition.committed_offset,
            error: partition.error_code,
        })
    });
    commits_of(ask, reply.error_code, commits)
}

fn commits_of(ask: &Ask, error: i16, reply: impl Iterator<Item = Committed>) -> Result<Commits, Fault> {
    if error != code::NONE {
        return Err(group_fault(&ask.group, error));
    }
    let missing = |count: &usize| {
        let missing = || Err(malformed("a partition is missing from it"));
        numbers(*count).into_iter().map(|partition| (partition, missing())).collect()
    };
    let mut commits: Commits =
        ask.topics.iter().flatten().map(|(name, count)| (Arc::clone(name), missing(count))).collect();
    let mut seen = HashSet::new();
    for committed in reply {
        let known = commits.contains_key(&*committed.topic);
        if ask.topics.is_some() && !known {
            continue;
        }
        let offset = if seen.insert((committed.topic.clone(), committed.partition)) {
            offset(ask, &committed)?
        } else {
            Err(malformed("a partition that appears twice"))
        };
        if !known {
            commits.insert((&*committed.topic).into(), BTreeMap::new());
        }
        let partitions = commits.get_mut(&*committed.topic).expect("it was there or was inserted");
        if ask.topics.is_none() || partitions.contains_key(&committed.partition) {
            partitions.insert(committed.partition, offset);
        }
    }
    Ok(commits)
}

/// The outer error is one of the whole group, which some brokers report partition by partition.
fn offset(ask: &Ask, committed: &Committed) -> Result<Result<Option<i64>, Fault>, Fault> {
    let subject = || match &ask.topics {
        Some(_) => Subject::Topic((&*committed.topic).into()),
        None => Subject::TopicOfGroup,
    };
    Ok(match committed.error {
        code::NONE => match committed.offset {
            -1 => Ok(None),
            offset if offset >= 0 => Ok(Some(offset)),
            _ => Err(malformed("a negative offset")),
        },
        error @ (code::COORDINATOR_LOAD_IN_PROGRESS
        | code::COORDINATOR_NOT_AVAILABLE
        | code::NOT_COORDINATOR
        | code::GROUP_AUTHORIZATION_FAILED) => return Err(group_fault(&ask.group, error)),
        code::TOPIC_AUTHORIZATION_FAILED => Err(Arc::new(SampleError::Forbidden(subject()))),
        code::UNSTABLE_OFFSET_COMMIT => Err(not_ready("a commit is part of a transaction that is not over")),
        code::UNKNOWN_TOPIC_OR_PARTITION => Err(not_ready("the coordinator does not know a partition yet")),
        _ => Err(not_ready("a commit cannot be read")),
    })
}
