//! What is measured, for whom: `(endpoint, query) -> slot`, and one poller for each endpoint.
//!
//! Invariants:
//! - An endpoint has one poller, so at most one batch of it is ever in flight.
//! - A poller is a task of the store's `JoinSet`; an endpoint without queries has none.
//! - Locks: registry before store before slot; none is held across an await.

mod poller;
mod slot;
mod watched;

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_connectors::{
    sampler::{Endpoint, Query, Sample, SampleError},
    trigger::Kind,
};
use tokio::{
    sync::{Notify, Semaphore},
    task::{AbortHandle, JoinSet},
};

pub use self::watched::Watched;
use self::{poller::Poller, slot::Slot};
use crate::{
    answer::Refusal,
    connect::Connect,
    credentials::Provider,
    tenants::Tenant,
    time::Timekeeper,
    trigger::{Polled, Source},
};

/// Told of every batch: the kind of source, the results, how long it took.
pub type OnPoll = Arc<dyn Fn(Kind, &[Result<Sample, SampleError>], Duration) + Send + Sync>;

/// The queries of one endpoint, shared between its poller and the store.
struct Endpointed {
    endpoint: Endpoint,
    slots: Mutex<HashMap<Arc<Query>, Arc<Slot>>>,
    /// A query came, or one is due earlier than it was.
    changed: Notify,
}

struct Running {
    shared: Arc<Endpointed>,
    tenant: Arc<Tenant>,
    task: AbortHandle,
}

/// Everything that is measured.
pub struct Store<C> {
    connect: Arc<C>,
    credentials: Arc<dyn Provider>,
    time: Arc<Timekeeper>,
    polls: Arc<Semaphore>,
    on_poll: OnPoll,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    endpoints: HashMap<Endpoint, Running>,
    pollers: JoinSet<()>,
}

impl<C: Connect> Store<C> {
    /// A store that polls at most `polls` endpoints at once, and tells `on_poll` of each batch.
    pub fn new(
        connect: C,
        credentials: Arc<dyn Provider>,
        time: Arc<Timekeeper>,
        polls: usize,
        on_poll: OnPoll,
    ) -> Self {
        let (connect, polls) = (Arc::new(connect), Arc::new(Semaphore::new(polls)));
        Self { connect, credentials, time, polls, on_poll, inner: Mutex::default() }
    }

    /// Measures what `watched` asks for, from now on.
    pub fn attach(&self, watched: &Arc<Watched>, tenant: &Arc<Tenant>) -> Result<(), Refusal> {
        let Source::Polled(polled) = &watched.trigger.source else { return Ok(()) };
        let mut inner = self.inner.lock().expect("nothing panics under this lock");
        let Inner { endpoints, pollers } = &mut *inner;
        let running = match endpoints.entry(polled.endpoint.clone()) {
            Entry::Occupied(running) => running.into_mut(),
            Entry::Vacant(vacant) => {
                tenant.add_endpoint()?;
                let shared = Arc::new(Endpointed {
                    endpoint: polled.endpoint.clone(),
                    slots: Mutex::default(),
                    changed: Notify::new(),
                });
                let task = pollers.spawn(self.new_poller(shared.clone(), tenant.clone()).run());
                vacant.insert(Running { shared, tenant: tenant.clone(), task })
            }
        };
        let mut slots = running.shared.slots.lock().expect("nothing panics under this lock");
        let slot = slots.entry(polled.query.clone()).or_insert_with_key(|query| Arc::new(Slot::new(query.clone())));
        slot.join(watched.clone(), self.time.now());
        running.shared.changed.notify_one();
        Ok(())
    }

    /// Looks at the cadence of `watched` again: its streams changed.
    pub fn recadence(&self, watched: &Watched) {
        let Source::Polled(polled) = &watched.trigger.source else { return };
        let inner = self.inner.lock().expect("nothing panics under this lock");
        let Some(running) = inner.endpoints.get(&polled.endpoint) else { return };
        let slots = running.shared.slots.lock().expect("nothing panics under this lock");
        if let Some(slot) = slots.get(&polled.query) {
            slot.reschedule();
            running.shared.changed.notify_one();
        }
    }

    /// Stops measuring for `watched`. A query that nobody asks for is dropped; an endpoint without queries closes.
    pub fn detach(&self, watched: &Watched) {
        let Source::Polled(polled) = &watched.trigger.source else { return };
        let mut inner = self.inner.lock().expect("nothing panics under this lock");
        if inner.endpoints.get(&polled.endpoint).is_some_and(|running| running.leave(polled, watched))
            && let Some(running) = inner.endpoints.remove(&polled.endpoint)
        {
            running.task.abort();
            running.tenant.remove_endpoint();
        }
    }

    /// Starts again the pollers that ended by a panic, and forgets the ones that have ended.
    pub fn tend(&self) {
        let mut inner = self.inner.lock().expect("nothing panics under this lock");
        let Inner { endpoints, pollers } = &mut *inner;
        while pollers.try_join_next().is_some() {}
        for running in endpoints.values_mut().filter(|running| running.task.is_finished()) {
            tracing::error!(tenant = %running.shared.endpoint.tenant, "a poller ended by itself and is started again");
            running.task = pollers.spawn(self.new_poller(running.shared.clone(), running.tenant.clone()).run());
        }
    }

    /// The number of endpoints, by kind.
    pub fn endpoints(&self) -> BTreeMap<Kind, usize> {
        let inner = self.inner.lock().expect("nothing panics under this lock");
        let mut counts = BTreeMap::new();
        inner.endpoints.keys().for_each(|endpoint| *counts.entry(endpoint.address.kind()).or_default() += 1);
        counts
    }

    /// Ends every poller, and waits until they have ended.
    pub async fn shut_down(&self) {
        let mut pollers = {
            let mut inner = self.inner.lock().expect("nothing panics under this lock");
            inner.endpoints.clear();
            std::mem::take(&mut inner.pollers)
        };
        pollers.shutdown().await;
    }

    fn new_poller(&self, shared: Arc<Endpointed>, tenant: Arc<Tenant>) -> Poller<C> {
        Poller::new(shared, tenant, self)
    }
}

impl Running {
    /// Takes `watched` out of its query; whether the endpoint has no query left.
    fn leave(&self, polled: &Polled, watched: &Watched) -> bool {
        let mut slots = self.shared.slots.lock().expect("nothing panics under this lock");
        if slots.get(&polled.query).is_some_and(|slot| slot.leave(watched)) {
            slots.remove(&polled.query);
        }
        slots.is_empty()
    }
}
