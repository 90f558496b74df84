//! Measures the groups of one Kafka cluster: topics, then commits, then ends, then starts, each for all queries at once.
//!
//! Invariants:
//! - Commits are read before ends, so that a lag is never under-counted by what is consumed meanwhile.
//! - A partition that could not be read makes its queries' samples partial; it never counts as one without lag.
//! - A sample is over before the poller's patience is, so that one dead broker fails no query that does not need it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Address, History, Offsets, PartitionOffsets, Query,
    client::{
        Client,
        commits::{Ask, Commits},
        fault::{Fault, malformed, owned},
        handshake::{Dialer, Peer},
        log::{Found, Point, Target},
        metadata::Topic,
    },
    settings::Settings,
};
use crate::{
    clock::BootInstant,
    credentials::Credentials,
    metadata::{CredentialSource, ParameterError, Parameters},
    sampler::{Data, Environment, Limits, Query as AnyQuery, Sample, SampleError, Sampler, Subject},
    tenant::TenantId,
};

/// Until when topics and commits are read. What is left of the sample is enough for the ends on brokers that answer.
const COMMITS_BY: Duration = Duration::from_millis(4500);
/// Until when everything is read: a second before the poller drops the sample (safety.md E5).
const ALL_BY: Duration = Duration::from_secs(7);
/// Topics of one query (safety.md E4).
const MAX_TOPICS: usize = 64;

/// The client of one Kafka cluster.
pub struct KafkaSampler {
    client: Client,
    environment: Environment,
}

impl KafkaSampler {
    /// A client that connects when it is first asked.
    pub fn new(
        tenant: &TenantId,
        address: &Address,
        credentials: Option<&Credentials>,
        environment: &Environment,
    ) -> Result<Self, SampleError> {
        let source = credentials.map_or(CredentialSource::None, CredentialSource::Given);
        let settings = Settings::read(Parameters::new(address.metadata(), source))
            .map_err(SampleError::Misconfigured)?
            .ok_or_else(|| SampleError::Misconfigured(ParameterError::new("bootstrapServers", "missing")))?;
        Self::with_settings(tenant, settings, environment)
    }

    /// A client of known settings.
    pub fn with_settings(
        tenant: &TenantId,
        settings: Settings,
        environment: &Environment,
    ) -> Result<Self, SampleError> {
        let tls = settings.tls.map(|tls| tls.client_config()).transpose().map_err(SampleError::Misconfigured)?;
        let bootstrap = settings.bootstrap.into_iter().map(|(host, port)| Peer { host: host.into(), port });
        let bootstrap = bootstrap.collect();
        let dialer = Dialer { tenant: tenant.clone(), environment: environment.clone(), tls, sasl: settings.sasl };
        Ok(Self { client: Client::new(dialer, bootstrap), environment: environment.clone() })
    }
}

impl Sampler for KafkaSampler {
    async fn sample(&mut self, queries: &[Arc<AnyQuery>]) -> Vec<Result<Sample, SampleError>> {
        let taken = self.environment.clock.boot();
        let started = Instant::now();
        let (commits_by, all_by) = (started + COMMITS_BY, started + ALL_BY);
        let mut plans: Vec<_> = queries
            .iter()
            .map(|query| {
                let AnyQuery::Kafka(query) = &**query;
                Plan::new(query)
            })
            .collect();
        let groups: HashSet<_> = plans.iter().map(|plan| &*plan.query.group).collect();
        self.client.next_sample(|group| groups.contains(group));
        drop(groups);

        self.find_topics(&mut plans, commits_by).await;
        self.read_commits(&mut plans, commits_by).await;
        let unused = idle_groups(&plans);
        let no_group = self.client.share_groups(unused, commits_by).await;
        for plan in &mut plans {
            if let Some(fault) = no_group.get(&plan.query.group) {
                plan.fail(Arc::clone(fault));
            }
        }
        let ends = self.client.log_offsets(targets(&plans, |plan, _| Some(plan.end())), all_by).await;
        let starts = targets(&plans, |plan, part| plan.needs_start(part, &ends).then_some(Point::Start));
        let starts = self.client.log_offsets(starts, all_by).await;
        plans.into_iter().map(|plan| plan.sample(taken, &ends, &starts)).collect()
    }
}

impl KafkaSampler {
    /// The partitions of the topics that queries name.
    async fn find_topics(&mut self, plans: &mut [Plan<'_>], until: Instant) {
        let names: BTreeSet<_> =
            plans.iter().filter(|plan| plan.is_open()).flat_map(|plan| &plan.query.topics).cloned().collect();
        self.client.refresh(&names, until).await;
        for plan in plans {
            plan.take_topics(&self.client, &self.environment.limits);
        }
    }

    /// What the groups committed, and so the topics of the queries that name none.
    async fn read_commits(&mut self, plans: &mut [Plan<'_>], until: Instant) {
        let asks = asks(plans);
        let commits = self.client.commits(&asks, until).await;
        let by_group: HashMap<_, _> =
            asks.iter().zip(&commits).map(|(ask, commits)| ((&*ask.group, ask.topics.is_none()), commits)).collect();
        let mut names = BTreeSet::new();
        for plan in plans.iter_mut().filter(|plan| plan.is_open()) {
            match by_group.get(&(&*plan.query.group, plan.is_of_all())) {
                Some(Ok(commits)) => names.extend(plan.take_commits(commits)),
                Some(Err(fault)) => plan.fail(Arc::clone(fault)),
                None => {}
            }
        }
        self.client.refresh(&names, until).await;
        for plan in plans.iter_mut().filter(|plan| plan.is_of_all()) {
            plan.take_topics(&self.client, &self.environment.limits);
        }
    }
}

/// One partition of a query.
struct Part {
    topic: Arc<str>,
    id: Option<u128>,
    partition: i32,
    committed: Option<i64>,
}

/// What becomes of one query.
struct Plan<'a> {
    query: &'a Query,
    /// The topics found, in the order of their names.
    topics: BTreeMap<Arc<str>, Arc<Topic>>,
    /// The commits of a query that names no topic.
    commits: Commits,
    parts: Vec<Part>,
    /// Why a part is missing.
    missing: Option<Fault>,
    /// Why there is nothing.
    failed: Option<Fault>,
}

impl<'a> Plan<'a> {
    fn new(query: &'a Query) -> Self {
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

    fn is_open(&self) -> bool {
        self.failed.is_none()
    }

    /// Whether the query is of all topics that the group has commits for.
    fn is_of_all(&self) -> bool {
        self.query.topics.is_empty()
    }

    fn fail(&mut self, fault: Fault) {
        self.failed.get_or_insert(fault);
    }

    fn miss(&mut self, fault: &Fault) {
        self.missing.get_or_insert_with(|| Arc::clone(fault));
    }

    fn end(&self) -> Point {
        Point::End(self.query.isolation)
    }

    /// Takes the topics from the metadata: those that the query names, or those of the group's commits.
    fn take_topics(&mut self, client: &Client, limits: &Limits) {
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
    fn take_commits(&mut self, commits: &Commits) -> Vec<Arc<str>> {
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
    fn needs_start(&self, part: &Part, ends: &Found) -> bool {
        match ends.get(&part.target(self.end())) {
            Some(Ok(end)) => *end != part.committed.unwrap_or(0),
            _ => false,
        }
    }

    fn sample(mut self, taken: BootInstant, ends: &Found, starts: &Found) -> Result<Sample, SampleError> {
        if let Some(fault) = &self.failed {
            return Err(owned(fault));
        }
        let mut partitions = Vec::with_capacity(self.parts.len());
        for part in std::mem::take(&mut self.parts) {
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
    fn target(&self, point: Point) -> Target {
        Target { topic: Arc::clone(&self.topic), partition: self.partition, point }
    }
}

/// What is asked of each group: once for the topics that its queries name, and once for all that it committed.
fn asks(plans: &[Plan<'_>]) -> Vec<Ask> {
    let mut named: BTreeMap<&Arc<str>, BTreeMap<Arc<str>, usize>> = BTreeMap::new();
    let mut all: BTreeSet<&Arc<str>> = BTreeSet::new();
    for plan in plans.iter().filter(|plan| plan.is_open()) {
        if plan.is_of_all() {
            all.insert(&plan.query.group);
        } else if !plan.topics.is_empty() {
            let topics = plan.topics.iter().map(|(name, topic)| (Arc::clone(name), topic.leaders.len()));
            named.entry(&plan.query.group).or_default().extend(topics);
        }
    }
    let named = named.into_iter().map(|(group, topics)| Ask { group: Arc::clone(group), topics: Some(topics) });
    named.chain(all.into_iter().map(|group| Ask { group: Arc::clone(group), topics: None })).collect()
}

/// The groups that have no commit anywhere, as far as their queries see.
fn idle_groups(plans: &[Plan<'_>]) -> HashSet<Arc<str>> {
    let mut groups = HashMap::new();
    for plan in plans.iter().filter(|plan| plan.is_open()) {
        let idle = plan.parts.iter().all(|part| part.committed.is_none());
        let known = !plan.parts.is_empty() || plan.missing.is_none();
        *groups.entry(&plan.query.group).or_insert(true) &= idle && known;
    }
    groups.into_iter().filter(|(_, idle)| *idle).map(|(group, _)| Arc::clone(group)).collect()
}

fn targets(plans: &[Plan<'_>], point: impl Fn(&Plan<'_>, &Part) -> Option<Point>) -> Vec<Target> {
    let mut targets = HashSet::new();
    for plan in plans.iter().filter(|plan| plan.is_open()) {
        targets.extend(plan.parts.iter().filter_map(|part| Some(part.target(point(plan, part)?))));
    }
    targets.into_iter().collect()
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

#[cfg(test)]
mod tests;
