//! What the service needs of the core, so that tests can put a scripted one in its place.

use std::{collections::BTreeMap, future::Future};

use tidegate_connectors::{
    tenant::TenantId,
    trigger::{KINDS, Kind},
};

use crate::{
    activations,
    answer::{MetricSpec, Reference, Refusal, Verdict},
    connect::Connect,
    metrics::Metrics,
    scaler::Scaler,
};

/// The core: everything about triggers that is not transport.
pub trait Core: Send + Sync + 'static {
    /// The activations of one push stream.
    type Activations: Activations;

    /// Counts one call of `tenant`, before it is looked at any further; an error if it calls too often.
    fn admit(&self, tenant: &TenantId) -> Result<(), Refusal>;

    /// The metric of a trigger. A function of the metadata.
    fn spec(&self, reference: Reference<'_>) -> Result<MetricSpec, Refusal>;

    /// What KEDA is told now.
    fn verdict(&self, reference: Reference<'_>) -> impl Future<Output = Result<Verdict, Refusal>> + Send;

    /// The activations of a trigger, for one push stream.
    fn watch(&self, reference: Reference<'_>) -> Result<Self::Activations, Refusal>;

    /// Sets the gauges of what there is now; called before every scrape.
    fn census(&self, _metrics: &Metrics) {}

    /// Ends all work.
    fn shut_down(&self) -> impl Future<Output = ()> + Send;
}

/// When one push stream sends `true`.
pub trait Activations: Send + 'static {
    /// Waits for the next moment to send `true`; moments that pass between two calls are one.
    fn next(&mut self) -> impl Future<Output = ()> + Send;
}

impl<C: Connect> Core for Scaler<C> {
    type Activations = activations::Activations;

    fn admit(&self, tenant: &TenantId) -> Result<(), Refusal> {
        self.admit(tenant)
    }

    fn spec(&self, reference: Reference<'_>) -> Result<MetricSpec, Refusal> {
        self.spec(reference)
    }

    fn verdict(&self, reference: Reference<'_>) -> impl Future<Output = Result<Verdict, Refusal>> + Send {
        self.verdict(reference)
    }

    fn watch(&self, reference: Reference<'_>) -> Result<Self::Activations, Refusal> {
        self.watch(reference)
    }

    fn census(&self, metrics: &Metrics) {
        let counts = self.counts();
        for (_, kind) in KINDS {
            let of = |counts: &BTreeMap<Kind, usize>| counts.get(kind).copied().unwrap_or_default();
            metrics.census(*kind, of(&counts.triggers), of(&counts.endpoints));
        }
    }

    fn shut_down(&self) -> impl Future<Output = ()> + Send {
        self.shut_down()
    }
}

impl Activations for activations::Activations {
    fn next(&mut self) -> impl Future<Output = ()> + Send {
        self.next()
    }
}
