//! What becomes of one query: its topics, its partitions, what they have, and what is missing.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    clock::BootInstant,
    kafka::{
        History, Offsets, PartitionOffsets, Query,
        client::{
            Client,
            commits::Commits,
            fault::{Fault, malformed, not_ready, owned},
            log::{Found, Point, Target},
            metadata::Topic,
        },
    },
    sampler::{Data, Limits, Sample, SampleError, Subject},
};

/// Topics of one query (safety.md E4).
const MAX_TOPICS: usize = 64;

/// One partition of a query.
pub(super) struct Part {
    topic: Arc<str>,
    id: Option<u128>,
    partition: i32,
    pub(super) committed: Option<i64>,
}

/// What becomes of one query.
pub(super) struct Plan<'a> {
    pub(super) query: &'a Query,
    /// The topics found, in the order of their names.
    pub(super) topics: BTreeMap<Arc<str>, Arc<Topic>>,
    /// The commits of a query that names no topic.
    commits: Commits,
    pub(super) parts: Vec<Part>,
    /// Why a part is missing.
    pub(super) missing: Option<Fault>,
    /// Why there is nothing.
    failed: Option<Fault>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        let mut plan = Self {
            query,
            topics: BTreeMap::new(),
            commits: Commits::new(),
            parts: Vec::new(),
            missing: None,
            failed: None,
        };
        if query.topics.len() > MAX_TOPICS {
            plan.fail(over_limit("topics", MAX_TOPICS));
        }
        plan
    }

    pub(super) fn is_open(&self) -> bool {
        self.failed.is_none()
    }

    /// Whether the query is of all topics that the group has commits for.
    pub(super) fn is_of_all(&self) -> bool {
        self.query.topics.is_empty()
    }

    pub(super) fn fail(&mut self, fault: Fault) {
        self.failed.get_or_insert(fault);
    }

    fn miss(&mut self, fault: &Fault) {
        self.missing.get_or_insert_with(|| Arc::clone(fault));
    }

    pub(super) fn end(&self) -> Point {
        Point::End(self.query.isolation)
    }

    /// Takes the topics from the metadata: those that the query names, or those of the group's commits.
    pub(super) fn take_topics(&mut self, client: &Client, limits: &Limits) {
        if !self.is_open() {
            return;
        }
        let of_all = self.is_of_all();
        let names: Vec<_> = if of_all { self.commits.keys().cloned().collect() } else { self.query.topics.clone() };
        for name in names {
            match client.metadata.topic(&name) {
                Ok(topic) => {
                    self.topics.insert(name, topic);
                }
                // Its commits are left over from before it was deleted (cases.md B37).
                Err(fault) if of_all && matches!(*fault, SampleError::NotFound(_)) => {}
                Err(fault) => self.miss(&if of_all { unnamed(&fault) } else { fault }),
            }
        }
        if self.topics.values().map(|topic| topic.leaders.len()).sum::<usize>() > limits.partitions {
            return self.fail(over_limit("partitions", limits.partitions));
        }
        if of_all {
            let commits = std::mem::take(&mut self.commits);
            self.take_parts(&commits);
        }
    }

    /// Takes the group's commits; the topics that are still to be read, where the query names none.
    pub(super) fn take_commits(&mut self, commits: &Commits) -> Vec<Arc<str>> {
        if !self.is_of_all() {
            self.take_parts(commits);
            return Vec::new();
        }
        let used = commits.iter().filter(|(_, partitions)| partitions.values().any(|c| !matches!(c, Ok(None))));
        self.commits = used.map(|(name, partitions)| (Arc::clone(name), partitions.clone())).collect();
        if self.commits.len() > MAX_TOPICS {
            self.fail(over_limit("topics", MAX_TOPICS));
            return Vec::new();
        }
        self.commits.keys().cloned().collect()
    }

    fn take_parts(&mut self, commits: &Commits) {
        // Of a query that names no topic, what was not in the reply has no commit: it was not asked for by name.
        let absent = if self.is_of_all() { Ok(None) } else { Err(malformed("a partition is missing from it")) };
        for (name, topic) in std::mem::take(&mut self.topics) {
            for (partition, _) in (0..).zip(&topic.leaders) {
                match commits.get(&name).and_then(|commits| commits.get(&partition)).unwrap_or(&absent) {
                    Ok(committed) => self.parts.push(Part {
                        topic: Arc::clone(&name),
                        id: topic.id,
                        partition,
                        committed: *committed,
                    }),
                    Err(fault) => self.miss(fault),
                }
            }
        }
    }

    /// The log's start changes the lag only where something is left to consume, or the commit is not in the log.
    pub(super) fn needs_start(&self, part: &Part, ends: &Found) -> bool {
        match ends.get(&part.target(self.end())) {
            Some(Ok(end)) => *end != part.committed.unwrap_or(0),
            _ => false,
        }
    }

    /// What is known now that everything is read.
    pub(super) fn sample(
        mut self,
        client: &Client,
        taken: BootInstant,
        ends: &Found,
        starts: &Found,
    ) -> Result<Sample, SampleError> {
        if let Some(fault) = &self.failed {
            return Err(owned(fault));
        }
        let mut partitions = Vec::with_capacity(self.parts.len());
        for part in std::mem::take(&mut self.parts) {
            let now = client.metadata.topic(&part.topic);
            if now.is_ok_and(|topic| topic.id != part.id) {
                // Its commits may be those of the topic before.
                self.miss(&not_ready("the topic was deleted and made again"));
                continue;
            }
            match self.offsets(&part, taken, ends, starts) {
                Ok(offsets) => partitions.push(offsets),
                Err(fault) => self.miss(&if self.is_of_all() { unnamed(&fault) } else { fault }),
            }
        }
        match self.missing {
            Some(fault) if partitions.is_empty() => Err(owned(&fault)),
            missing => Ok(Sample { taken, data: Data::Kafka(Offsets::new(partitions, missing.is_none())), missing }),
        }
    }

    fn offsets(
        &self,
        part: &Part,
        taken: BootInstant,
        ends: &Found,
        starts: &Found,
    ) -> Result<PartitionOffsets, Fault> {
        let unread = || malformed("a partition is missing from it");
        let log_end = ends.get(&part.target(self.end())).ok_or_else(unread)?.clone()?;
        let log_start = if self.needs_start(part, ends) {
            // It is read after the end, and may have overtaken it.
            starts.get(&part.target(Point::Start)).ok_or_else(unread)?.clone()?.min(log_end)
        } else {
            log_end
        };
        Ok(PartitionOffsets {
            topic: Arc::clone(&part.topic),
            topic_id: part.id,
            partition: part.partition,
            committed: part.committed,
            log_start,
            log_end,
            history: History::starting(log_end, taken),
        })
    }
}

impl Part {
    pub(super) fn target(&self, point: Point) -> Target {
        Target { topic: Arc::clone(&self.topic), partition: self.partition, point }
    }
}

/// The fault without the name of a topic, which came from the broker and not from the tenant.
fn unnamed(fault: &Fault) -> Fault {
    match &**fault {
        SampleError::NotFound(_) => Arc::new(SampleError::NotFound(Subject::TopicOfGroup)),
        SampleError::Forbidden(Subject::Topic(_)) => Arc::new(SampleError::Forbidden(Subject::TopicOfGroup)),
        _ => Arc::clone(fault),
    }
}

fn over_limit(what: &'static str, limit: usize) -> Fault {
    Arc::new(SampleError::OverLimit { what, limit })
}
