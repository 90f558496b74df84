//! Reads the metadata of a Prometheus trigger.
//!
//! `metricName` is known and has no effect, as in KEDA since 2.10.

use super::{
    Query, Threshold,
    settings::{REFUSED_KEYS, Settings},
};
use crate::{
    metadata::{Metadata, ParameterError, Parameters},
    sampler, trigger,
    trigger::{Source, Spec},
};

/// The parameters that decide how a client asks, but for those that are refused by name.
const ASKING_KEYS: &[&str] = &[
    "serverAddress",
    "unsafeSsl",
    "timeout",
    "ca",
    "cert",
    "key",
    "keyPassword",
    "authModes",
    "authMode",
    "bearerToken",
    "token",
    "username",
    "password",
    "customAuthHeader",
    "customAuthValue",
    "oauthTokenURI",
    "clientID",
    "clientSecret",
    "scopes",
    "scope",
    "endpointParams",
    "apiKey",
    "method",
    "keyParamName",
    "customHeaders",
    "queryParameters",
];

/// The parameters that decide how a client asks.
pub const CONNECTION_KEYS: &[&str] = &connection_keys();

const fn connection_keys() -> [&'static str; ASKING_KEYS.len() + REFUSED_KEYS.len()] {
    let mut keys = [""; ASKING_KEYS.len() + REFUSED_KEYS.len()];
    let mut n = 0;
    while n < keys.len() {
        keys[n] = if n < ASKING_KEYS.len() { ASKING_KEYS[n] } else { REFUSED_KEYS[n - ASKING_KEYS.len()].0 };
        n += 1;
    }
    keys
}

/// The parameters that say what to measure and how to judge it.
const QUERY_KEYS: &[&str] =
    &["query", "namespace", "threshold", "activationThreshold", "ignoreNullValues", "metricName"];

/// The keys of a Prometheus trigger.
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

/// The least target: KEDA hands targets to the HPA with three decimals, and a target of 0 is none.
const LEAST_TARGET: f64 = 0.001;

/// Reads the parameters of a Prometheus trigger.
pub fn parse(metadata: &Metadata, parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    Settings::read(parameters)?;
    let expression = parameters.required("query")?.into();
    let namespace = parameters.text("namespace").map(Into::into);
    parameters.required("threshold")?;
    let target = parameters
        .float("threshold")?
        .filter(|target| *target >= LEAST_TARGET)
        .ok_or_else(|| ParameterError::new("threshold", "must be at least 0.001: KEDA rounds what is less to 0"))?;
    let threshold = Threshold {
        activation: parameters.float("activationThreshold")?.unwrap_or_default(),
        ignore_null_values: parameters.boolean("ignoreNullValues", true)?,
    };
    Ok(Spec {
        metric_name: trigger::metric_name("prometheus"),
        target,
        source: Source::Measured {
            address: sampler::Address::Prometheus(metadata.connection(CONNECTION_KEYS)),
            query: sampler::Query::Prometheus(Query { expression, namespace }),
            threshold: trigger::Threshold::Prometheus(threshold),
        },
    })
}

#[cfg(test)]
mod tests;
