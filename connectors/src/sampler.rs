//! The words of measuring: an endpoint is polled, a query is measured, a sample is what came out.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use crate::{
    clock::{BootInstant, SharedClock},
    credentials::CredentialName,
    egress::Egress,
    kafka, prometheus, rabbitmq,
    tenant::TenantId,
    trigger::Kind,
};

/// The cause of an error, for logs only: it may hold what a source sent.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Where to measure. One client, one task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// First, so that no lookup can forget it.
    pub tenant: TenantId,
    /// The credential that the client uses, from the tenant's own namespace.
    pub credentials: Option<CredentialName>,
    /// The source.
    pub address: Address,
}

/// The source of an [`Endpoint`]: the parameters of a trigger that decide how its client connects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Kafka cluster.
    Kafka(kafka::Address),
    /// A virtual host of a RabbitMQ cluster.
    RabbitMq(rabbitmq::Address),
    /// A server with Prometheus' query API.
    Prometheus(prometheus::Address),
}

/// What is asked of an endpoint. Thresholds are not in it, so that triggers share polls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// A consumer group and its topics.
    Kafka(kafka::Query),
    /// A queue, or the queues that match a pattern.
    RabbitMq(rabbitmq::Query),
    /// A PromQL expression.
    Prometheus(prometheus::Query),
}

/// One measurement of one query.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When it was taken: the moment before the first request was sent.
    pub taken: BootInstant,
    /// What was measured.
    pub data: Data,
    /// Why a part of it is missing. A partial sample may prove activity, never inactivity.
    pub missing: Option<Arc<SampleError>>,
}

/// What was measured, by kind of source.
#[derive(Clone, Debug)]
pub enum Data {
    /// Offsets per partition.
    Kafka(kafka::Offsets),
    /// Counters per queue.
    RabbitMq(rabbitmq::Queues),
    /// The value of an expression.
    Prometheus(prometheus::Value),
}

impl Address {
    /// The kind of source.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Kafka(_) => Kind::Kafka,
            Self::RabbitMq(_) => Kind::RabbitMq,
            Self::Prometheus(_) => Kind::Prometheus,
        }
    }

    /// Where it is, for people: hosts and ports, without user names and secrets.
    pub fn shown(&self) -> String {
        match self {
            Self::Kafka(address) => address.metadata().get("bootstrapServers").unwrap_or("by credential").to_owned(),
            Self::RabbitMq(address) => rabbitmq::shown(address.metadata()),
            Self::Prometheus(address) => prometheus::shown(address.metadata()),
        }
    }
}

impl Data {
    /// Carries over what only time can tell (when an offset last moved, where it was first) from the sample before.
    pub fn follow(&mut self, previous: &Self) {
        if let (Self::Kafka(offsets), Self::Kafka(before)) = (self, previous) {
            offsets.follow(before);
        }
    }

    /// How long after this sample another must be taken for the two to prove inactivity, where the source's own numbers
    /// may be as old as that. It only ever adds to what the trigger's kind waits for.
    pub fn settles(&self) -> Duration {
        match self {
            Self::Kafka(_) | Self::Prometheus(_) => Duration::ZERO,
            Self::RabbitMq(queues) => queues.settles,
        }
    }
}

/// What one trigger reads in a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The metric's value: finite, at least 0, at most 2^53.
    pub value: f64,
    /// Whether it is over the activation threshold.
    pub active: bool,
}

/// Measures a batch of queries of one endpoint; the answers are in the order of the questions.
///
/// A sampler connects when it is first asked, not when it is made. The poller gives the batch a deadline by dropping
/// the future, so an implementation must stay usable after that.
pub trait Sampler: Send + Sync {
    /// One answer for each query, in the order of the queries.
    fn sample(&mut self, queries: &[Arc<Query>]) -> impl Future<Output = Vec<Result<Sample, SampleError>>> + Send;
}

/// What every sampler needs from its surroundings.
#[derive(Clone)]
pub struct Environment {
    /// The time of samples.
    pub clock: SharedClock,
    /// Opens every connection.
    pub egress: Egress,
    /// The bounds of one sample.
    pub limits: Limits,
}

/// The bounds of one sample.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// TCP connect, by address.
    pub connect: Duration,
    /// One request to its reply.
    pub request: Duration,
    /// Partitions of one query.
    pub partitions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(3), request: Duration::from_secs(5), partitions: 10_000 }
    }
}

/// A thing that a tenant named in a trigger. Never a name that a source sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Kafka topic.
    Topic(Arc<str>),
    /// A topic that the group has commits for; its name came from the broker.
    TopicOfGroup,
    /// A Kafka consumer group.
    ConsumerGroup(Arc<str>),
    /// Partitions of `partitionLimitation` that the topic does not have.
    Partitions(Arc<str>),
    /// A queue of a RabbitMQ virtual host.
    Queue(Arc<str>),
    /// A RabbitMQ virtual host.
    VirtualHost(Arc<str>),
    /// RabbitMQ's management API, under the trigger's `host`.
    ManagementApi,
    /// The same, for a user without the tag.
    ManagementTag,
    /// Prometheus' query API under the trigger's `serverAddress`.
    QueryApi,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::TopicOfGroup => f.write_str("a topic that the consumer group has commits for"),
            Self::ConsumerGroup(name) => write!(f, "consumer group {name}"),
            Self::Partitions(ids) => write!(f, "partitions {ids} of partitionLimitation"),
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::VirtualHost(name) => write!(f, "virtual host {name}"),
            Self::ManagementApi => f.write_str("the management API under host"),
            Self::ManagementTag => f.write_str("the management API: the user lacks the tag management"),
            Self::QueryApi => f.write_str("the query API (/api/v1/query) under serverAddress"),
        }
    }
}

/// Why a query could not be measured. The texts are safe for the tenant; the causes are for logs only.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The tenant must fix the credential: the source refused it. `mechanism` is the trigger's own (`scram_sha512`).
    #[error("credentials rejected ({mechanism})")]
    Unauthorized {
        /// How it authenticated.
        mechanism: &'static str,
        /// What the source said.
        #[source]
        cause: Option<Cause>,
    },
    /// The tenant must create the credential, or make it readable: the text is the provider's.
    #[error("{0}")]
    Credential(String),
    /// The tenant must fix the credential or the trigger: the two together do not tell how to connect.
    #[error("{0}")]
    Misconfigured(crate::metadata::ParameterError),
    /// The tenant must create the thing or fix its name.
    #[error("{0} not found")]
    NotFound(Subject),
    /// The tenant must allow the credential to read the thing.
    #[error("not authorised to read {0}")]
    Forbidden(Subject),
    /// The tenant must name a consumer group: share groups have no lag.
    #[error("{0} is a share group, which has no committed offsets")]
    ShareGroup(Subject),
    /// The tenant must have statistics switched on: a RabbitMQ broker without them has no rates.
    #[error("the broker's management statistics are off, and without them there are no rates")]
    NoStatistics,
    /// The tenant must fix the query: the source does not answer it.
    #[error("query refused: {0}")]
    RefusedQuery(&'static str),
    /// The tenant must fix the query: it must return one series.
    #[error("the query returned {0} series, and not one")]
    ManySeries(usize),
    /// The tenant must fix the query, or set `ignoreNullValues`.
    #[error("the query returned no value, and ignoreNullValues is false")]
    NoValue,
    /// The tenant must ask for less: more than a limit allows.
    #[error("{what} over the limit of {limit}")]
    OverLimit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// The platform does not allow this destination.
    #[error("destination not allowed")]
    Refused,
    /// The tenant must fix the TLS parameters or the server its certificate.
    #[error("TLS handshake with the source failed: {0}")]
    Tls(&'static str, #[source] Option<Cause>),
    /// Nobody must act yet: the next poll may succeed.
    #[error("source unreachable")]
    Unreachable(#[source] Option<Cause>),
    /// Nobody must act yet: the source is there, but moves a leader or loads a coordinator.
    #[error("source not ready: {0}")]
    NotReady(&'static str),
    /// The source did not answer in time.
    #[error("source timed out")]
    TimedOut,
    /// The source answered with what its protocol does not allow, or with more than a limit allows.
    #[error("source sent a malformed reply: {0}")]
    Malformed(&'static str),
}

impl SampleError {
    /// Whether it concerns the whole endpoint, so that asking for something else would not help either.
    pub fn is_of_endpoint(&self) -> bool {
        match self {
            Self::Unauthorized { .. }
            | Self::Credential(_)
            | Self::Misconfigured(_)
            | Self::Refused
            | Self::Tls(..)
            | Self::Unreachable(_)
            | Self::TimedOut => true,
            Self::NotFound(_)
            | Self::Forbidden(_)
            | Self::ShareGroup(_)
            | Self::NoStatistics
            | Self::RefusedQuery(_)
            | Self::ManySeries(_)
            | Self::NoValue
            | Self::OverLimit { .. }
            | Self::NotReady(_)
            | Self::Malformed(_) => false,
        }
    }

    /// Whether it lasts until the tenant acts: asking sooner would not help.
    pub fn is_for_tenant(&self) -> bool {
        match self {
            Self::Unauthorized { .. }
            | Self::Credential(_)
            | Self::Misconfigured(_)
            | Self::NotFound(_)
            | Self::Forbidden(_)
            | Self::ShareGroup(_)
            | Self::NoStatistics
            | Self::RefusedQuery(_)
            | Self::ManySeries(_)
            | Self::NoValue
            | Self::OverLimit { .. }
            | Self::Refused => true,
            Self::Tls(..) | Self::Unreachable(_) | Self::NotReady(_) | Self::TimedOut | Self::Malformed(_) => false,
        }
    }

    /// The same error without its cause, which cannot be copied.
    #[must_use]
    pub fn without_cause(&self) -> Self {
        match self {
            Self::Unauthorized { mechanism, .. } => Self::Unauthorized { mechanism, cause: None },
            Self::Credential(text) => Self::Credential(text.clone()),
            Self::Misconfigured(error) => Self::Misconfigured(error.clone()),
            Self::NotFound(subject) => Self::NotFound(subject.clone()),
            Self::Forbidden(subject) => Self::Forbidden(subject.clone()),
            Self::ShareGroup(subject) => Self::ShareGroup(subject.clone()),
            Self::NoStatistics => Self::NoStatistics,
            Self::RefusedQuery(reason) => Self::RefusedQuery(reason),
            Self::ManySeries(count) => Self::ManySeries(*count),
            Self::NoValue => Self::NoValue,
            Self::OverLimit { what, limit } => Self::OverLimit { what, limit: *limit },
            Self::Refused => Self::Refused,
            Self::Tls(reason, _) => Self::Tls(reason, None),
            Self::Unreachable(_) => Self::Unreachable(None),
            Self::NotReady(reason) => Self::NotReady(reason),
            Self::TimedOut => Self::TimedOut,
            Self::Malformed(reason) => Self::Malformed(reason),
        }
    }
}
