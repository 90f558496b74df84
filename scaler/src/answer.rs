//! What the edge asks of the core, and what it is told. No protobuf, no transport.

use std::{collections::HashMap, time::Duration};

use tidegate_connectors::{metadata::ParameterError, sampler::SampleError, tenant::TenantId};

/// One trigger as a caller names it. Everything in it but the tenant is hostile; `metadata` may hold secrets.
#[derive(Clone, Copy)]
pub struct Reference<'a> {
    /// Who owns it: the caller's cluster and the namespace that the caller may speak for.
    pub tenant: &'a TenantId,
    /// The ScaledObject or ScaledJob, a DNS-1123 subdomain.
    pub name: &'a str,
    /// The trigger's metadata as KEDA sends it.
    pub metadata: &'a HashMap<String, String>,
}

/// The metric that a trigger publishes: a function of its metadata alone.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    /// Lower-case `[a-z0-9-]`.
    pub metric_name: String,
    /// What one replica stands for; greater than 0.
    pub target: f64,
}

/// What KEDA is told of a trigger at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the Worker must run.
    pub active: bool,
    /// The metric's value: finite, at least 0, at most 2^53.
    pub value: f64,
    /// How old the newest complete sample is; `None` where nothing is measured, as for cron.
    pub age: Option<Duration>,
}

/// Why there is no verdict. The texts are safe for the tenant.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// The tenant must fix the trigger.
    #[error("{0}")]
    Trigger(#[from] ParameterError),
    /// The trigger publishes no metric of that name.
    #[error("this trigger publishes the metric {0} and no other")]
    MetricName(String),
    /// The source could not be measured, and what was known is too old.
    #[error("{error}{}", last_sample(*.age))]
    Source {
        /// Why the last poll failed.
        error: std::sync::Arc<SampleError>,
        /// How old the last complete sample is.
        age: Option<Duration>,
    },
    /// Nothing is known yet.
    #[error("not measured yet")]
    NotMeasured,
    /// The last sample is too old to tell, and no poll has failed since.
    #[error("the last sample is {} s old", .0.as_secs())]
    Stale(Duration),
    /// A limit is reached; what exists goes on.
    #[error("{what} is at its limit of {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// The service is draining.
    #[error("shutting down")]
    Draining,
}

fn last_sample(age: Option<Duration>) -> String {
    age.map(|age| format!("; the last sample is {} s old", age.as_secs())).unwrap_or_default()
}
