//! One trigger, parsed: the outside text becomes types here, once.

use std::{sync::Arc, time::Duration};

use tidegate_connectors::{
    credentials::CredentialName,
    cron,
    metadata::{CredentialSource, Metadata, ParameterError, Parameters},
    rabbitmq::{self, Protocol},
    sampler::{Address, Endpoint, Query},
    tenant::TenantId,
    trigger::{self as spec, KINDS, Kind, Threshold},
};

use crate::{answer::MetricSpec, verdict::Rules};

/// The keys of every trigger.
pub const COMMON_KEYS: &[&str] = &["triggerType", "credentialsRef", "pollInterval", "holdSeconds"];

/// KEDA's own keys of an external trigger: they arrive with the rest and mean nothing here.
pub const KEDA_KEYS: &[&str] =
    &["scalerAddress", "enableTLS", "unsafeSsl", "caCert", "tlsClientCert", "tlsClientKey", "tlsCertFile"];

const HOLD_DEFAULT: i64 = 600;
const HOLD_MOST: i64 = 3600;

/// The platform's bounds of `pollInterval`. A value outside is moved to the nearer bound, so that a platform can
/// tighten them without breaking the triggers that exist.
#[derive(Clone, Copy, Debug)]
pub struct PollBounds {
    /// No query is polled more often.
    pub min: Duration,
    /// No query is polled less often.
    pub max: Duration,
}

impl Default for PollBounds {
    fn default() -> Self {
        Self { min: Duration::from_millis(500), max: Duration::from_secs(300) }
    }
}

/// How often a kind of source is polled where the trigger does not say.
#[derive(Clone, Copy, Debug)]
struct Cadence {
    base: Duration,
    /// With an open push stream and no active verdict.
    waking: Duration,
    /// How far apart two samples must be to prove inactivity.
    confirm_after: Duration,
}

/// Where numbers are older than half a second, the samples say so themselves ([`Data::settles`]).
///
/// [`Data::settles`]: tidegate_connectors::sampler::Data::settles
fn cadence(address: &Address) -> Cadence {
    let half = Duration::from_millis(500);
    let five = Duration::from_secs(5);
    match address {
        Address::Kafka(_) => Cadence { base: five, waking: half, confirm_after: half },
        // Only where it is known before the credential is read: to list a virtual host costs more than to declare.
        Address::RabbitMq(address) if rabbitmq::protocol(address.metadata()) == Some(Protocol::Amqp) => {
            Cadence { base: five, waking: half, confirm_after: half }
        }
        Address::RabbitMq(_) => Cadence { base: five, waking: five, confirm_after: half },
        Address::Prometheus(_) => Cadence { base: Duration::from_secs(15), waking: five, confirm_after: half },
    }
}

/// One trigger: what to measure and how to judge it.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// Its kind.
    pub kind: Kind,
    /// The metric that it publishes.
    pub metric: MetricSpec,
    /// Where its value comes from.
    pub source: Source,
}

/// Where a trigger's value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// An endpoint that is polled.
    Polled(Polled),
    /// The clock.
    Cron(cron::Window),
}

/// A trigger that is measured.
#[derive(Clone, Debug)]
pub struct Polled {
    /// Where to measure.
    pub endpoint: Endpoint,
    /// What to ask.
    pub query: Arc<Query>,
    /// How to judge a sample.
    pub threshold: Threshold,
    /// How to judge in time.
    pub rules: Rules,
    /// The poll interval while a push stream waits for an activation.
    pub waking: Duration,
}

impl Trigger {
    /// Reads the metadata of a trigger of `tenant`.
    pub fn parse(tenant: &TenantId, metadata: &Metadata, bounds: PollBounds) -> Result<Self, ParameterError> {
        let parameters = Parameters::new(metadata, CredentialSource::None);
        parameters.required("triggerType")?;
        let words: Vec<_> = KINDS.iter().copied().chain([("apache-kafka", Kind::Kafka)]).collect();
        let kind = parameters.choice("triggerType", &words, Kind::Cron)?;
        Self::parse_as(kind, tenant, metadata, bounds)
    }

    /// Reads the metadata of a trigger whose kind is known otherwise, as of KEDA's built-in triggers.
    pub fn parse_as(
        kind: Kind,
        tenant: &TenantId,
        metadata: &Metadata,
        bounds: PollBounds,
    ) -> Result<Self, ParameterError> {
        metadata.reject_unknown(&[COMMON_KEYS, kind.keys(), KEDA_KEYS])?;
        let parameters = Parameters::new(metadata, CredentialSource::None);
        let credentials = parameters.text("credentialsRef").map(credential_name).transpose()?;
        let spec = spec::parse(kind, metadata, credentials.is_some())?;
        let source = match spec.source {
            spec::Source::Cron(window) => Source::Cron(window),
            spec::Source::Measured { address, query, threshold } => {
                let (rules, waking) = rules(parameters, cadence(&address), bounds)?;
                let endpoint = Endpoint { tenant: tenant.clone(), credentials, address };
                Source::Polled(Polled { endpoint, query: Arc::new(query), threshold, rules, waking })
            }
        };
        Ok(Self { kind, metric: MetricSpec { metric_name: spec.metric_name, target: spec.target }, source })
    }
}

fn credential_name(text: &str) -> Result<CredentialName, ParameterError> {
    CredentialName::new(text).ok_or_else(|| {
        ParameterError::new("credentialsRef", "must be the name of a credential of this namespace, a DNS-1123 label")
    })
}

fn rules(
    parameters: Parameters<'_>,
    cadence: Cadence,
    bounds: PollBounds,
) -> Result<(Rules, Duration), ParameterError> {
    let chosen = parameters.duration("pollInterval")?;
    if chosen == Some(Duration::ZERO) {
        return Err(ParameterError::new("pollInterval", "must be greater than 0"));
    }
    let hold = parameters.integer("holdSeconds", HOLD_DEFAULT)?;
    let hold = u64::try_from(hold)
        .ok()
        .filter(|_| hold <= HOLD_MOST)
        .ok_or_else(|| ParameterError::new("holdSeconds", "must be from 0 to 3600"))?;
    let bounded = |interval: Duration| interval.clamp(bounds.min, bounds.max);
    let interval = bounded(chosen.unwrap_or(cadence.base));
    let waking = chosen.map_or_else(|| bounded(cadence.waking), bounded);
    Ok((Rules { interval, hold: Duration::from_secs(hold), confirm_after: cadence.confirm_after }, waking))
}
