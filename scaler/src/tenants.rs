//! What each tenant uses, and how much it may.

mod rate;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;
use tidegate_connectors::{clock::BootInstant, tenant::TenantId};
use tokio::sync::Semaphore;

use self::rate::Rate;
use crate::answer::Refusal;

/// The limits of one tenant. A new thing over a limit is refused; nothing changes for what exists.
#[derive(Clone, Copy, Debug)]
pub struct TenantLimits {
    /// Triggers that are asked for.
    pub triggers: usize,
    /// Endpoints that are polled.
    pub endpoints: usize,
    /// Open push streams.
    pub streams: usize,
    /// Batches in flight.
    pub polls: usize,
    /// Calls in one second; a stream is a call when it is opened.
    pub calls: usize,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self { triggers: 1000, endpoints: 64, streams: 2000, polls: 8, calls: 2000 }
    }
}

/// What one tenant uses.
pub struct Tenant {
    limits: TenantLimits,
    triggers: AtomicUsize,
    endpoints: AtomicUsize,
    streams: AtomicUsize,
    calls: Rate,
    /// A batch in flight holds one permit.
    pub polls: Semaphore,
}

impl Tenant {
    fn new(limits: TenantLimits) -> Self {
        let polls = Semaphore::new(limits.polls);
        let calls = Rate::new(limits.calls);
        Self { limits, triggers: 0.into(), endpoints: 0.into(), streams: 0.into(), calls, polls }
    }

    fn admit(&self, now: BootInstant) -> Result<(), Refusal> {
        let limit = self.limits.calls;
        if self.calls.take(now) { Ok(()) } else { Err(Refusal::Limit { what: "callsPerSecondPerTenant", limit }) }
    }

    /// Counts one more trigger.
    pub fn add_trigger(&self) -> Result<(), Refusal> {
        add(&self.triggers, self.limits.triggers, "triggersPerTenant")
    }

    /// Counts one trigger less.
    pub fn remove_trigger(&self) {
        self.triggers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts one more endpoint.
    pub fn add_endpoint(&self) -> Result<(), Refusal> {
        add(&self.endpoints, self.limits.endpoints, "endpointsPerTenant")
    }

    /// Counts one endpoint less.
    pub fn remove_endpoint(&self) {
        self.endpoints.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts one more stream.
    pub fn add_stream(&self) -> Result<(), Refusal> {
        add(&self.streams, self.limits.streams, "streamsPerTenant")
    }

    /// Counts one stream less.
    pub fn remove_stream(&self) {
        self.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

fn add(count: &AtomicUsize, limit: usize, what: &'static str) -> Result<(), Refusal> {
    count
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < limit).then_some(n + 1))
        .map(|_| ())
        .map_err(|_| Refusal::Limit { what, limit })
}

/// All tenants that have a trigger, or called lately.
pub struct Tenants {
    limits: TenantLimits,
    known: DashMap<TenantId, Arc<Tenant>>,
}

impl Tenants {
    /// No tenants; each that comes has `limits`.
    pub fn new(limits: TenantLimits) -> Self {
        Self { limits, known: DashMap::new() }
    }

    /// The account of one tenant.
    pub fn get(&self, id: &TenantId) -> Arc<Tenant> {
        if let Some(tenant) = self.known.get(id) {
            return tenant.clone();
        }
        self.known.entry(id.clone()).or_insert_with(|| Arc::new(Tenant::new(self.limits))).clone()
    }

    /// Counts one call of a tenant, or refuses it.
    pub fn admit(&self, id: &TenantId, now: BootInstant) -> Result<(), Refusal> {
        if let Some(tenant) = self.known.get(id) {
            return tenant.admit(now);
        }
        self.get(id).admit(now)
    }

    /// Forgets the tenants that use nothing. One that called all the same starts with a full second's calls again.
    pub fn sweep(&self) {
        self.known.retain(|_, tenant| Arc::strong_count(tenant) > 1 || tenant.triggers.load(Ordering::Acquire) > 0);
    }
}
