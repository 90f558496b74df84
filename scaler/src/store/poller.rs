//! Keeps the queries of one endpoint measured for as long as someone asks for them.
//!
//! Invariants:
//! - At most one batch is in flight, and it has a deadline.
//! - A failure is an outcome for each query that was due; it never erases a sample.
//! - A changed credential opens a new session and closes the old one before the next batch.

use std::{sync::Arc, time::Duration};

use rand::{Rng, SeedableRng, rngs::SmallRng};
use tidegate_connectors::{
    credentials::Credentials,
    sampler::{Query, Sample, SampleError, Sampler},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout},
};

use super::{Endpointed, OnPoll, Store, slot::Slot};
use crate::{backoff::Backoff, connect::Connect, credentials::Provider, tenants::Tenant, time::Timekeeper};

/// The whole sample of a batch, from the first connection to the last reply (safety.md, E5).
const SAMPLE_DEADLINE: Duration = Duration::from_secs(8);

/// How often a poller that waits out a failure looks whether its credential has changed.
const CREDENTIAL_CHECK: Duration = Duration::from_secs(5);

/// Phases of endpoints are spread over this; longer intervals are whole multiples of shorter ones on the same grid.
const PHASES: Duration = Duration::from_secs(5);

type Results = Vec<Result<Sample, SampleError>>;

pub(super) struct Poller<C: Connect> {
    shared: Arc<Endpointed>,
    tenant: Arc<Tenant>,
    polls: Arc<Semaphore>,
    connect: Arc<C>,
    credentials: Arc<dyn Provider>,
    time: Arc<Timekeeper>,
    on_poll: OnPoll,
    session: Option<Session<C::Sampler>>,
    backoff: Backoff,
    not_before: Instant,
    /// Where the endpoint's grid of due times starts.
    phase: Instant,
    random: SmallRng,
}

/// A client, and the credential that it was made with.
struct Session<S> {
    sampler: S,
    credentials: Option<Arc<Credentials>>,
}

impl<C: Connect> Poller<C> {
    pub(super) fn new(shared: Arc<Endpointed>, tenant: Arc<Tenant>, store: &Store<C>) -> Self {
        let mut random = SmallRng::from_rng(&mut rand::rng());
        let not_before = Instant::now();
        let phase = not_before + random.random_range(Duration::ZERO..PHASES) - PHASES;
        Self {
            shared,
            tenant,
            polls: store.polls.clone(),
            connect: store.connect.clone(),
            credentials: store.credentials.clone(),
            time: store.time.clone(),
            on_poll: store.on_poll.clone(),
            session: None,
            backoff: Backoff::default(),
            not_before,
            phase,
            random,
        }
    }

    /// Polls for ever; the store ends it.
    pub(super) async fn run(mut self) {
        loop {
            let due = self.next_due().await;
            self.poll(due).await;
        }
    }

    /// Waits until a query is due, and a failure is waited out; all that are due.
    async fn next_due(&mut self) -> Vec<Arc<Slot>> {
        loop {
            let shared = self.shared.clone();
            let changed = shared.changed.notified();
            let at = self.earliest().map(|due| due.max(self.not_before));
            let now = Instant::now();
            if at.is_some_and(|at| at <= now) {
                return self.due(now);
            }
            let waits_out = self.not_before > now && shared.endpoint.credentials.is_some();
            let wake = at.unwrap_or(now + Duration::from_secs(3600));
            let wake = if waits_out { wake.min(now + CREDENTIAL_CHECK) } else { wake };
            tokio::select! {
                () = changed => {}
                () = sleep_until(wake) => {}
            }
            if waits_out && self.credential_changed().await {
                self.backoff.reset();
                self.not_before = Instant::now();
                return self.due_in(CREDENTIAL_CHECK);
            }
        }
    }

    fn earliest(&self) -> Option<Instant> {
        self.slots().values().map(|slot| slot.due()).min()
    }

    fn due(&self, now: Instant) -> Vec<Arc<Slot>> {
        self.slots().values().filter(|slot| slot.due() <= now).cloned().collect()
    }

    fn due_in(&self, ahead: Duration) -> Vec<Arc<Slot>> {
        self.due(Instant::now() + ahead)
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<Arc<Query>, Arc<Slot>>> {
        self.shared.slots.lock().expect("nothing panics under this lock")
    }

    /// One batch: the tenant's permit, the global one, the credential, the sample, the slots.
    async fn poll(&mut self, due: Vec<Arc<Slot>>) {
        let (tenant, polls) = (self.tenant.clone(), self.polls.clone());
        let _tenants = tenant.polls.acquire().await.expect("never closed");
        let _global = polls.acquire().await.expect("never closed");
        let started = Instant::now();
        let results = self.sample(&due).await;
        self.judge_endpoint(&results);
        let now = self.time.now();
        let kind = self.shared.endpoint.address.kind();
        (self.on_poll)(kind, &results, started.elapsed());
        for (slot, result) in due.iter().zip(results) {
            if let Err(error) = &result {
                tracing::debug!(tenant = %self.shared.endpoint.tenant, kind = kind.name(), %error, "a query failed");
            }
            slot.publish(result, started, self.phase, now);
        }
    }

    async fn sample(&mut self, due: &[Arc<Slot>]) -> Results {
        let queries: Vec<_> = due.iter().map(|slot| slot.query.clone()).collect();
        let session = match self.session().await {
            Ok(session) => session,
            Err(error) => return repeat(error, queries.len()),
        };
        match timeout(SAMPLE_DEADLINE, session.sampler.sample(&queries)).await {
            Ok(results) => results,
            Err(_elapsed) => queries.iter().map(|_| Err(SampleError::TimedOut)).collect(),
        }
    }

    /// The session of the present credential: the one there is, or a new one.
    async fn session(&mut self) -> Result<&mut Session<C::Sampler>, SampleError> {
        let credentials = match self.current_credentials().await {
            Ok(credentials) => credentials,
            Err(error) => {
                self.session = None; // a credential that is gone is not used any more
                return Err(error);
            }
        };
        if let Some(session) =
            self.session.take().filter(|session| same(session.credentials.as_ref(), credentials.as_ref()))
        {
            Ok(self.session.insert(session))
        } else {
            let sampler = self.connect.connect(&self.shared.endpoint, credentials.as_deref())?;
            Ok(self.session.insert(Session { sampler, credentials }))
        }
    }

    async fn current_credentials(&self) -> Result<Option<Arc<Credentials>>, SampleError> {
        let endpoint = &self.shared.endpoint;
        let Some(name) = &endpoint.credentials else { return Ok(None) };
        let content = self.credentials.get(&endpoint.tenant, name).await;
        content.map(Some).map_err(|error| SampleError::Credential(error.to_string()))
    }

    async fn credential_changed(&self) -> bool {
        let used = self.session.as_ref().and_then(|session| session.credentials.as_ref());
        self.current_credentials().await.is_ok_and(|current| !same(used, current.as_ref()))
    }

    /// Backs off if no query got through to the source.
    fn judge_endpoint(&mut self, results: &Results) {
        let now = self.time.now().boot;
        let rejected = results.iter().any(|r| matches!(r, Err(SampleError::Unauthorized { .. })));
        if !results.iter().all(|result| matches!(result, Err(error) if error.is_of_endpoint())) {
            self.backoff.reset();
            return;
        }
        let wait = if rejected {
            self.backoff.after_rejection(now, &mut self.random)
        } else {
            self.backoff.after_failure(now, &mut self.random)
        };
        self.not_before = Instant::now() + wait;
    }
}

fn same(a: Option<&Arc<Credentials>>, b: Option<&Arc<Credentials>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// The same error for each of `count` queries: the first keeps the cause.
fn repeat(error: SampleError, count: usize) -> Results {
    let copies = (1..count).map(|_| Err(error.without_cause())).collect::<Vec<_>>();
    std::iter::once(Err(error)).chain(copies).collect()
}
