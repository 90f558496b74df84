//! Reads the metadata of a Kafka trigger: KEDA's `kafka` and `apache-kafka` in one.
//!
//! What both accept is accepted. Where only one does: several topics and an even distribution over all topics of a
//! group are accepted, as `apache-kafka` does; `limitToPartitionsWithLag` with an even distribution is not, as `kafka`
//! does. `version` and `fullMetadata` are checked and have no effect: the client asks the broker for its versions, and
//! for no other topic's metadata.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use super::{Cap, IsolationLevel, OffsetResetPolicy, Query, Rules, Threshold, settings::Settings};
use crate::{
    metadata::{Metadata, ParameterError, Parameters},
    sampler, trigger,
    trigger::{Source, Spec},
};

/// The parameters that decide how a client connects.
pub const CONNECTION_KEYS: &[&str] = &[
    "bootstrapServers",
    "tls",
    "unsafeSsl",
    "ca",
    "cert",
    "key",
    "keyPassword",
    "sasl",
    "username",
    "password",
    "saslTokenProvider",
    "oauthTokenEndpointUri",
    "scopes",
    "oauthExtensions",
    // Of mechanisms that are refused (`gssapi`, `aws_msk_iam`): known, so that the refusal names the mechanism.
    "keytab",
    "realm",
    "kerberosConfig",
    "kerberosServiceName",
    "kerberosDisableFAST",
    "awsRegion",
    "awsRoleArn",
    "awsAccessKeyID",
    "awsAccessKeyId",
    "awsSecretAccessKey",
    "awsSessionToken",
    "identityOwner",
];

/// The parameters that say what to measure and how to judge it.
const QUERY_KEYS: &[&str] = &[
    "consumerGroup",
    "topic",
    "partitionLimitation",
    "lagThreshold",
    "activationLagThreshold",
    "offsetResetPolicy",
    "allowIdleConsumers",
    "excludePersistentLag",
    "persistentLagSeconds",
    "scaleToZeroOnInvalidOffset",
    "limitToPartitionsWithLag",
    "ensureEvenDistributionOfPartitions",
    "isolationLevel",
    "fullMetadata",
    "version",
];

/// The keys of a Kafka trigger.
pub const KEYS: &[&str] = &all_keys();

const fn all_keys() -> [&'static str; CONNECTION_KEYS.len() + QUERY_KEYS.len()] {
    let mut keys = [""; CONNECTION_KEYS.len() + QUERY_KEYS.len()];
    let mut n = 0;
    while n < keys.len() {
        keys[n] = if n < CONNECTION_KEYS.len() { CONNECTION_KEYS[n] } else { QUERY_KEYS[n - CONNECTION_KEYS.len()] };
        n += 1;
    }
    keys
}

/// The most partitions that `partitionLimitation` names; as many as a sample may have.
const MAX_PARTITIONS: usize = 10_000;
/// The most topics of one trigger.
const MAX_TOPICS: usize = 64;
/// Kafka's own limit (`org.apache.kafka.common.internals.Topic`).
const MAX_TOPIC_LENGTH: usize = 249;
/// Kafka has no limit of its own; what is longer is no name.
const MAX_GROUP_LENGTH: usize = 1024;

/// Reads the parameters of a Kafka trigger.
pub fn parse(metadata: &Metadata, parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    Settings::read(parameters)?;
    let group = group(parameters)?;
    let topics = topics(parameters)?;
    check_parity(parameters, &topics)?;
    let metric_name = if topics.is_empty() {
        trigger::metric_name(&format!("kafka-{group}-topics"))
    } else {
        trigger::metric_name(&format!("kafka-{}", topics.join(",")))
    };
    let threshold = threshold(parameters, &topics)?;
    let mut topics: Vec<Arc<str>> = topics.into_iter().map(Arc::from).collect();
    topics.sort_unstable();
    topics.dedup();
    let isolations =
        [("read_uncommitted", IsolationLevel::ReadUncommitted), ("read_committed", IsolationLevel::ReadCommitted)];
    let isolation = parameters.choice("isolationLevel", &isolations, IsolationLevel::default())?;
    #[expect(clippy::cast_precision_loss, reason = "KEDA's own conversion; a target over 2^53 is never reached")]
    let target = threshold.target.get() as f64;
    Ok(Spec {
        metric_name,
        target,
        source: Source::Measured {
            address: sampler::Address::Kafka(metadata.connection(CONNECTION_KEYS)),
            query: sampler::Query::Kafka(Query { group: group.into(), topics, isolation }),
            threshold: trigger::Threshold::Kafka(threshold),
        },
    })
}

fn group(parameters: Parameters<'_>) -> Result<&str, ParameterError> {
    let group = parameters.required("consumerGroup")?;
    if group.len() > MAX_GROUP_LENGTH {
        return Err(ParameterError::new("consumerGroup", format!("is longer than {MAX_GROUP_LENGTH} bytes")));
    }
    if group.chars().any(char::is_control) {
        return Err(ParameterError::new("consumerGroup", "holds a control character"));
    }
    Ok(group)
}

/// The topics as the tenant lists them; none means all topics of the group.
fn topics(parameters: Parameters<'_>) -> Result<Vec<&str>, ParameterError> {
    let topics = parameters.list("topic");
    if topics.len() > MAX_TOPICS {
        return Err(ParameterError::new("topic", format!("names more than {MAX_TOPICS} topics")));
    }
    let legal = |name: &&str| {
        (1..=MAX_TOPIC_LENGTH).contains(&name.len())
            && !matches!(*name, "." | "..")
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    if topics.iter().all(legal) {
        Ok(topics)
    } else {
        Err(ParameterError::new("topic", "must be a list of names of 1 to 249 letters, digits, '.', '_' and '-'"))
    }
}

/// Checks what KEDA checks and what has no effect here.
fn check_parity(parameters: Parameters<'_>, topics: &[&str]) -> Result<(), ParameterError> {
    if !parameters.boolean("fullMetadata", true)? && topics.is_empty() {
        return Err(ParameterError::new("fullMetadata", "cannot be false without topic"));
    }
    match parameters.text("version") {
        Some(version) if !is_version(version) => {
            Err(ParameterError::new("version", "must be a version like 1.0.0 or 0.11.0.0"))
        }
        _ => Ok(()),
    }
}

/// Whether `sarama.ParseKafkaVersion` reads `version`: `0.x.y.z`, or `x.y.z` from 1 on.
fn is_version(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    let numbers = parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok());
    let old = version.starts_with('0');
    numbers && if old { parts.len() == 4 && parts[0] == "0" } else { parts.len() == 3 }
}

fn threshold(parameters: Parameters<'_>, topics: &[&str]) -> Result<Threshold, ParameterError> {
    let target = u64::try_from(parameters.integer("lagThreshold", 10)?).ok().and_then(NonZeroU64::new);
    let activation = u64::try_from(parameters.integer("activationLagThreshold", 0)?);
    let partitions = parameters.ranges("partitionLimitation", MAX_PARTITIONS)?;
    Ok(Threshold {
        rules: rules(parameters)?,
        target: target.ok_or_else(|| ParameterError::new("lagThreshold", "must be greater than 0"))?,
        activation: activation.map_err(|_| ParameterError::new("activationLagThreshold", "must not be negative"))?,
        partitions: partitions.filter(|_| !topics.is_empty()).map(Arc::from),
        cap: cap(parameters, topics)?,
    })
}

fn rules(parameters: Parameters<'_>) -> Result<Rules, ParameterError> {
    let policies = [("latest", OffsetResetPolicy::Latest), ("earliest", OffsetResetPolicy::Earliest)];
    let exclude_persistent = parameters.boolean("excludePersistentLag", false)?;
    let seconds = u64::try_from(parameters.integer("persistentLagSeconds", 300)?)
        .ok()
        .filter(|seconds| (1..=86_400).contains(seconds))
        .ok_or_else(|| ParameterError::new("persistentLagSeconds", "must be from 1 to 86400"))?;
    Ok(Rules {
        reset: parameters.choice("offsetResetPolicy", &policies, OffsetResetPolicy::default())?,
        zero_on_invalid_offset: parameters.boolean("scaleToZeroOnInvalidOffset", false)?,
        persistent_after: exclude_persistent.then(|| Duration::from_secs(seconds)),
    })
}

fn cap(parameters: Parameters<'_>, topics: &[&str]) -> Result<Cap, ParameterError> {
    const LIMIT: &str = "limitToPartitionsWithLag";
    const EVEN: &str = "ensureEvenDistributionOfPartitions";
    let idle = parameters.boolean("allowIdleConsumers", false)?;
    let limit = parameters.boolean(LIMIT, false)?;
    let even = parameters.boolean(EVEN, false)?;
    match (limit, even, idle) {
        (true, _, true) => Err(ParameterError::new(LIMIT, "cannot be combined with allowIdleConsumers")),
        (true, _, _) if topics.is_empty() => Err(ParameterError::new(LIMIT, "needs topic")),
        (true, true, _) => Err(ParameterError::new(EVEN, "cannot be combined with limitToPartitionsWithLag")),
        (true, false, false) => Ok(Cap::PartitionsWithLag),
        (false, true, _) => Ok(Cap::EvenDistribution),
        (false, false, true) => Ok(Cap::None),
        (false, false, false) => Ok(Cap::Partitions),
    }
}

#[cfg(test)]
mod tests;
