//! The core: triggers, their samples, and the answers. What the gRPC service calls.
//!
//! Invariants:
//! - A call does no I/O; the first call of a new trigger waits for its first sample, at most 2.5 s.
//! - Reads change nothing but when a trigger was last asked for.

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tidegate_connectors::{clock::SharedClock, metadata::Metadata, sampler::Reading, tenant::TenantId, trigger::Kind};
use tokio::time::{sleep, timeout_at};

use crate::{
    activations::Activations,
    answer::{MetricSpec, Reference, Refusal, Verdict},
    connect::{Connect, Connectors},
    credentials::Provider,
    registry::Registry,
    store::{OnPoll, Store, Watched},
    tenants::{TenantLimits, Tenants},
    time::Timekeeper,
    trigger::{PollBounds, Source, Trigger},
};

/// A trigger that nobody asked for this long, and that no stream watches, is dropped.
const IDLE: Duration = Duration::from_secs(600);

/// How often idle triggers are looked for.
const SWEEP: Duration = Duration::from_secs(15);

/// The platform's settings of the core.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The bounds of `pollInterval`.
    pub poll: PollBounds,
    /// What each tenant may use.
    pub tenant: TenantLimits,
    /// Batches in flight, of all tenants.
    pub polls: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { poll: PollBounds::default(), tenant: TenantLimits::default(), polls: 256 }
    }
}

/// All triggers of all tenants.
pub struct Scaler<C = Connectors> {
    settings: Settings,
    time: Arc<Timekeeper>,
    tenants: Tenants,
    registry: Registry,
    store: Arc<Store<C>>,
    streams: Arc<AtomicUsize>,
}

impl<C: Connect> Scaler<C> {
    /// A core without triggers.
    pub fn new(
        connect: C,
        credentials: Arc<dyn Provider>,
        clock: SharedClock,
        settings: Settings,
        on_poll: OnPoll,
    ) -> Self {
        let time = Arc::new(Timekeeper::new(clock));
        let store = Arc::new(Store::new(connect, credentials, time.clone(), settings.polls, on_poll));
        Self {
            settings,
            time,
            tenants: Tenants::new(settings.tenant),
            registry: Registry::default(),
            store,
            streams: Arc::default(),
        }
    }

    /// Counts one call of `tenant`; an error if it calls too often.
    pub fn admit(&self, tenant: &TenantId) -> Result<(), Refusal> {
        self.tenants.admit(tenant, self.time.now().boot)
    }

    /// The metric of a trigger. No I/O, no state: works with every source down.
    pub fn spec(&self, reference: Reference<'_>) -> Result<MetricSpec, Refusal> {
        match self.registry.get(reference) {
            Some(watched) => Ok(watched.trigger.metric.clone()),
            None => Ok(self.parse(reference)?.metric),
        }
    }

    /// What KEDA is told now. Waits for the first sample of a query that nobody asked before, at most 2.5 s.
    pub async fn verdict(&self, reference: Reference<'_>) -> Result<Verdict, Refusal> {
        let watched = self.watched(reference)?;
        let polled = match &watched.trigger.source {
            Source::Polled(polled) => polled,
            Source::Cron(window) => {
                let Reading { value, active } = window.reading(window.at(self.time.now().wall));
                return Ok(Verdict { active, value, age: None });
            }
        };
        if watched.judgement.borrow().is_pending() {
            let mut known = watched.judgement.subscribe();
            // What is known in time is told below; what is not is an error there.
            let _ = timeout_at(watched.first_sample_by, known.wait_for(|known| !known.is_pending())).await;
        }
        watched.judgement.borrow().verdict(&polled.rules, self.time.now())
    }

    /// The activations of a trigger, for one push stream.
    pub fn watch(&self, reference: Reference<'_>) -> Result<Activations, Refusal> {
        let watched = self.watched(reference)?;
        let tenant = self.tenants.get(watched.tenant());
        tenant.add_stream()?;
        watched.open_stream();
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.store.recadence(&watched);
        let (closed, streams, time) = (watched.clone(), self.streams.clone(), self.time.clone());
        let on_close = move || {
            closed.close_stream(time.now().boot);
            tenant.remove_stream();
            streams.fetch_sub(1, Ordering::Relaxed);
        };
        Ok(Activations::new(watched, self.time.clone(), Box::new(on_close)))
    }

    /// Drops what nobody asks for and follows the clocks, for ever.
    pub async fn keep(&self) {
        let sweeps = async {
            loop {
                sleep(SWEEP).await;
                self.sweep();
            }
        };
        tokio::join!(sweeps, self.time.keep());
    }

    /// Ends every poller; waits until all have ended.
    pub async fn shut_down(&self) {
        self.store.shut_down().await;
    }

    /// Triggers by kind, endpoints, open streams: for metrics.
    pub fn counts(&self) -> Counts {
        let mut triggers = BTreeMap::new();
        self.registry.for_each(|watched| *triggers.entry(watched.trigger.kind).or_default() += 1);
        Counts { triggers, endpoints: self.store.endpoints(), streams: self.streams.load(Ordering::Relaxed) }
    }

    fn sweep(&self) {
        let now = self.time.now().boot;
        self.registry.retain(|watched| {
            let keep = watched.idle(now) < IDLE;
            if !keep {
                self.store.detach(watched);
                self.tenants.get(watched.tenant()).remove_trigger();
            }
            keep
        });
        self.store.tend();
        self.tenants.sweep();
    }

    fn watched(&self, reference: Reference<'_>) -> Result<Arc<Watched>, Refusal> {
        let now = self.time.now().boot;
        if let Some(watched) = self.registry.get(reference) {
            watched.touch(now);
            return Ok(watched);
        }
        let trigger = self.parse(reference)?;
        self.registry.get_or_insert(reference, || {
            let tenant = self.tenants.get(reference.tenant);
            tenant.add_trigger()?;
            let watched = Arc::new(Watched::new(reference, trigger, now));
            self.store.attach(&watched, &tenant).inspect_err(|_| tenant.remove_trigger())?;
            Ok(watched)
        })
    }

    fn parse(&self, reference: Reference<'_>) -> Result<Trigger, Refusal> {
        let metadata = Metadata::new(reference.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        Ok(Trigger::parse(reference.tenant, &metadata, self.settings.poll)?)
    }
}

/// How much there is.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Triggers that are asked for, by kind.
    pub triggers: BTreeMap<Kind, usize>,
    /// Endpoints that are polled, by kind.
    pub endpoints: BTreeMap<Kind, usize>,
    /// Open push streams.
    pub streams: usize,
}
