//! Measures the groups of one Kafka cluster: topics, then commits, then ends, then starts, each for all queries at once.
//!
//! Invariants:
//! - Commits are read before ends, so that a lag is never under-counted by what is consumed meanwhile.
//! - A partition that could not be read makes its queries' samples partial; it never counts as one without lag.
//! - A sample is over before the poller's patience is, so that one dead broker fails no query that does not need it.

mod plan;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use self::plan::{Part, Plan};
use super::{
    Address,
    client::{
        Client,
        commits::Ask,
        handshake::{Dialer, Peer},
        log::{Point, Target},
    },
    settings::{Sasl, Settings},
};
use crate::{
    credentials::Credentials,
    http,
    metadata::{CredentialSource, ParameterError, Parameters},
    oauth::{Grant, TokenSource},
    sampler::{Environment, Query as AnyQuery, Sample, SampleError, Sampler},
    tenant::TenantId,
    tls::TlsSettings,
};

/// Until when topics and commits are read. What is left of the sample is enough for the ends on brokers that answer.
const COMMITS_BY: Duration = Duration::from_millis(4500);
/// Until when everything is read: a second before the poller drops the sample (safety.md E5).
const ALL_BY: Duration = Duration::from_secs(7);
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
        let tokens = tokens(tenant, &settings, environment).map_err(SampleError::Misconfigured)?;
        let tls = settings.tls.map(|tls| tls.client_config()).transpose().map_err(SampleError::Misconfigured)?;
        let bootstrap = settings.bootstrap.into_iter().map(|(host, port)| Peer { host: host.into(), port });
        let bootstrap = bootstrap.collect();
        let dialer = Dialer { tenant: tenant.clone(), environment: environment.clone(), tls, sasl: settings.sasl };
        Ok(Self { client: Client::new(dialer, tokens, bootstrap), environment: environment.clone() })
    }
}

/// Where OAUTHBEARER's tokens come from. The `ca` is trusted there too; `unsafeSsl` and the client certificate are for
/// the brokers alone.
fn tokens(
    tenant: &TenantId,
    settings: &Settings,
    environment: &Environment,
) -> Result<Option<TokenSource>, ParameterError> {
    let Sasl::OAuthBearer(oauth) = &settings.sasl else { return Ok(None) };
    let grant = Grant {
        endpoint: http::url("oauthTokenEndpointUri", &oauth.token_endpoint)?,
        client_id: oauth.login.username.clone(),
        client_secret: oauth.login.password.clone(),
        scopes: oauth.scopes.clone(),
        parameters: Vec::new(),
        mechanism: "oauthbearer",
    };
    let ca = settings.tls.as_ref().and_then(|tls| tls.ca.clone());
    TokenSource::new(tenant, grant, &TlsSettings { ca, ..TlsSettings::default() }, environment).map(Some)
}

impl Sampler for KafkaSampler {
    async fn sample(&mut self, queries: &[Arc<AnyQuery>]) -> Vec<Result<Sample, SampleError>> {
        let taken = self.environment.clock.boot();
        let started = Instant::now();
        let (commits_by, all_by) = (started + COMMITS_BY, started + ALL_BY);
        let mut plans: Vec<_> = queries
            .iter()
            .map(|query| {
                let AnyQuery::Kafka(query) = &**query else {
                    unreachable!("a trigger's address and query are of one kind")
                };
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
        let starts = self.client.log_starts(&starts, &ends, all_by).await;
        plans.into_iter().map(|plan| plan.sample(&self.client, taken, &ends, &starts)).collect()
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

#[cfg(test)]
mod tests;
