//! Reads the metadata of a RabbitMQ trigger.
//!
//! What KEDA accepts is accepted, but for what could only fail later or would not do what it says: see the differences in
//! each function.

use super::{
    Mode, Needs, Operation, Pattern, Protocol, Query, Selection, Threshold, address, escape, settings::Settings,
};
use crate::{
    metadata::{Metadata, ParameterError, Parameters},
    sampler, trigger,
    trigger::{Source, Spec},
};

/// The parameters that decide how a client connects. `vhostName` and `timeout` are among them: an endpoint is one virtual
/// host, and its queries travel in one request.
pub const CONNECTION_KEYS: &[&str] = &[
    "host",
    "protocol",
    "vhostName",
    "timeout",
    "username",
    "password",
    "tls",
    "unsafeSsl",
    "ca",
    "cert",
    "key",
    "keyPassword",
    "oauthTokenURI",
    "clientID",
    "clientSecret",
    "scopes",
    "scope",
    "endpointParams",
    // Known, so that the refusal names it.
    "workloadIdentityResource",
];

/// The parameters that say what to measure and how to judge it.
const QUERY_KEYS: &[&str] = &[
    "queueName",
    "mode",
    "value",
    "activationValue",
    "queueLength",
    "useRegex",
    "operation",
    "excludeUnacknowledged",
    "pageSize",
    "trustReadyOnly",
];

/// The keys of a RabbitMQ trigger.
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

/// AMQP's limit of a queue's name (a short string), in bytes.
const MAX_QUEUE_LENGTH: usize = 255;
/// `queueLength` where a trigger says nothing of the kind.
const DEFAULT_LENGTH: f64 = 20.0;

const MODES: &[(&str, Mode)] = &[
    ("QueueLength", Mode::QueueLength),
    ("MessageRate", Mode::MessageRate),
    ("DeliverGetRate", Mode::DeliverGetRate),
    ("PublishedToDeliveredRatio", Mode::PublishedToDeliveredRatio),
    ("ExpectedQueueConsumptionTime", Mode::ExpectedQueueConsumptionTime),
];
const OPERATIONS: &[(&str, Operation)] = &[("sum", Operation::Sum), ("max", Operation::Max), ("avg", Operation::Avg)];

/// Reads the parameters of a RabbitMQ trigger.
pub fn parse(metadata: &Metadata, parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    Settings::read(parameters)?;
    let protocol = address::protocol(parameters.text("protocol"), parameters.text("host"));
    let name = queue_name(parameters)?;
    let (mode, target) = goal(parameters)?;
    let ready_only = parameters.boolean("excludeUnacknowledged", false)?;
    let use_regex = parameters.boolean("useRegex", false)?;
    let threshold = Threshold {
        mode,
        activation: parameters.float("activationValue")?.unwrap_or(0.0),
        ready_only,
        operation: parameters.choice("operation", OPERATIONS, Operation::default())?,
        trust_ready_only: parameters.boolean("trustReadyOnly", false)?,
    };
    if parameters.integer("pageSize", 100)? < 1 {
        return Err(ParameterError::new("pageSize", "must be 1 or more"));
    }
    let queues = if use_regex {
        Selection::Matching(Pattern::new(name).map_err(|problem| ParameterError::new("queueName", problem))?)
    } else {
        Selection::Named(name.into())
    };
    let needs = match (mode, ready_only) {
        (Mode::QueueLength, true) => Needs::Ready,
        (Mode::QueueLength, false) => Needs::Lengths,
        _ => Needs::Rates,
    };
    let query = Query { queues, needs };
    if protocol == Some(Protocol::Amqp) {
        check_amqp(&query)?;
    }
    Ok(Spec {
        metric_name: trigger::metric_name(&format!("rabbitmq-{}", escape::segment(name).replace("%20", "+"))),
        target,
        source: Source::Measured {
            address: sampler::Address::RabbitMq(metadata.connection(CONNECTION_KEYS)),
            query: sampler::Query::RabbitMq(query),
            threshold: trigger::Threshold::RabbitMq(threshold),
        },
    })
}

/// What AMQP cannot tell. It is checked again where the protocol is known only with the credential.
pub(super) fn check_amqp(query: &Query) -> Result<(), ParameterError> {
    let refuse = |key: &'static str| Err(ParameterError::new(key, "needs the http protocol"));
    match query {
        Query { queues: Selection::Matching(_), .. } => refuse("useRegex"),
        Query { needs: Needs::Rates, .. } => refuse("mode"),
        Query { needs: Needs::Ready, .. } => refuse("excludeUnacknowledged"),
        Query { queues: Selection::Named(_), needs: Needs::Lengths } => Ok(()),
    }
}

fn queue_name(parameters: Parameters<'_>) -> Result<&str, ParameterError> {
    let name = parameters.required("queueName")?;
    if name.len() > MAX_QUEUE_LENGTH || name.chars().any(char::is_control) {
        return Err(ParameterError::new("queueName", "must be at most 255 bytes without control characters"));
    }
    Ok(name)
}

/// The mode and the target: `queueLength`, or `mode` and `value`, or neither.
fn goal(parameters: Parameters<'_>) -> Result<(Mode, f64), ParameterError> {
    let length = parameters.float("queueLength")?.filter(|length| *length != 0.0);
    let value = parameters.float("value")?.filter(|value| *value != 0.0);
    let mode = parameters.text("mode").map(|_| parameters.choice("mode", MODES, Mode::QueueLength)).transpose()?;
    let (key, mode, target) = match (length, mode, value) {
        (None, None, None) => ("queueLength", Mode::QueueLength, DEFAULT_LENGTH),
        (Some(length), None, None) => ("queueLength", Mode::QueueLength, length),
        (Some(_), ..) => {
            return Err(ParameterError::new("queueLength", "cannot be combined with mode and value; remove it"));
        }
        (None, Some(mode), Some(value)) => ("value", mode, value),
        (None, Some(_), None) => return Err(ParameterError::new("value", "missing: mode needs it, and not 0")),
        (None, None, Some(_)) => return Err(ParameterError::new("mode", "missing: value needs it")),
    };
    // KEDA accepts a negative one, and then the HPA divides by it.
    if target > 0.0 { Ok((mode, target)) } else { Err(ParameterError::new(key, "must be greater than 0")) }
}

#[cfg(test)]
mod tests;
