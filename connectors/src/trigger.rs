//! What a trigger's metadata says: what to measure, and how to judge it.

use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::{
    cron, kafka,
    metadata::{CredentialSource, Metadata, ParameterError, Parameters},
    prometheus, rabbitmq,
    sampler::{Address, Data, Query, Reading, Sample, SampleError},
};

/// A parsed trigger, but for what all kinds have in common.
#[derive(Clone, Debug)]
pub struct Spec {
    /// KEDA's name for the built-in trigger's metric, without `sN-`, in lower-case `[a-z0-9-]`.
    pub metric_name: String,
    /// The target of one replica; greater than 0.
    pub target: f64,
    /// Where the value comes from.
    pub source: Source,
}

/// Where a trigger's value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A query of an endpoint.
    Measured {
        /// Where to measure.
        address: Address,
        /// What to ask.
        query: Query,
        /// How to judge the answer.
        threshold: Threshold,
    },
    /// The clock.
    Cron(cron::Window),
}

/// How a measured trigger is judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Threshold {
    /// Lag of a consumer group.
    Kafka(kafka::Threshold),
    /// Length or rates of queues.
    RabbitMq(rabbitmq::Threshold),
    /// Value of a PromQL expression.
    Prometheus(prometheus::Threshold),
}

impl Threshold {
    /// What the trigger reads in `sample`. A pure function.
    pub fn reading(&self, sample: &Sample) -> Result<Reading, SampleError> {
        match (self, &sample.data) {
            (Self::Kafka(threshold), Data::Kafka(offsets)) => threshold.reading(offsets, sample.taken),
            (Self::RabbitMq(threshold), Data::RabbitMq(queues)) => threshold.reading(queues),
            (Self::Prometheus(threshold), Data::Prometheus(value)) => threshold.reading(value),
            _ => Err(SampleError::Malformed("a sample of another kind")),
        }
    }
}

/// The kinds of trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Lag of a Kafka consumer group.
    Kafka,
    /// Length or rates of RabbitMQ queues.
    RabbitMq,
    /// A window of time.
    Cron,
    /// Value of a PromQL expression.
    Prometheus,
}

/// `triggerType`'s words. `apache-kafka` is KEDA's other Kafka scaler; `kafka` accepts what it does.
pub const KINDS: &[(&str, Kind)] =
    &[("kafka", Kind::Kafka), ("rabbitmq", Kind::RabbitMq), ("cron", Kind::Cron), ("prometheus", Kind::Prometheus)];

impl Kind {
    /// The keys that this kind knows, besides those of every trigger.
    pub const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Kafka => kafka::KEYS,
            Self::RabbitMq => rabbitmq::KEYS,
            Self::Cron => cron::KEYS,
            Self::Prometheus => prometheus::KEYS,
        }
    }

    /// `triggerType`'s word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::RabbitMq => "rabbitmq",
            Self::Cron => "cron",
            Self::Prometheus => "prometheus",
        }
    }
}

/// Reads the parameters of one trigger. `with_credential` tells whether it names a credential that is not read yet.
pub fn parse(kind: Kind, metadata: &Metadata, with_credential: bool) -> Result<Spec, ParameterError> {
    let credentials = if with_credential { CredentialSource::Later } else { CredentialSource::None };
    let parameters = Parameters::new(metadata, credentials);
    match kind {
        Kind::Kafka => kafka::parse(metadata, parameters),
        Kind::RabbitMq => rabbitmq::parse(metadata, parameters),
        Kind::Cron => cron::parse(parameters),
        Kind::Prometheus => prometheus::parse(metadata, parameters),
    }
}

/// A metric name of lower-case `[a-z0-9-]` made from KEDA's name; every other character becomes `-`.
pub fn metric_name(keda: &str) -> String {
    keda.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// One line of what a trigger was measured to be, for people: names and values in the order to show them.
pub type Detail = Vec<(&'static str, serde_json::Value)>;

impl Threshold {
    /// What `sample` holds, partition by partition or queue by queue.
    pub fn detail(&self, sample: &Sample) -> Vec<Detail> {
        match (self, &sample.data) {
            (Self::Kafka(threshold), Data::Kafka(offsets)) => threshold.detail(offsets, sample.taken),
            (Self::RabbitMq(threshold), Data::RabbitMq(queues)) => threshold.detail(queues),
            (Self::Prometheus(threshold), Data::Prometheus(value)) => threshold.detail(value),
            _ => Vec::new(),
        }
    }
}

/// What a window is at `now`, for people.
pub fn window_detail(window: &cron::Window, now: SystemTime) -> Detail {
    let time = |at: SystemTime| DateTime::<Utc>::from(at).to_rfc3339_opts(SecondsFormat::Secs, true);
    let state = window.at(now);
    vec![("open", state.open.into()), ("now", time(now).into()), ("changes", state.changes.map(time).into())]
}
