//! One query: its last samples, and the triggers that are judged by them.
//!
//! Invariant: a failed poll never erases a sample; a partial one never replaces the history of a complete one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_connectors::{
    clock::BootInstant,
    sampler::{Query, Sample, SampleError},
};
use tokio::time::Instant;

use super::Watched;
use crate::{time::Now, trigger::Polled, verdict::Outcome};

/// After a failure that may pass, the next poll is due by then: a source that is back is measured again within 10 s, also
/// where the poll interval is longer. A source that is away is spared by the poller's back-off.
const RETRY: Duration = Duration::from_secs(5);

/// One query of an endpoint.
pub(super) struct Slot {
    pub(super) query: Arc<Query>,
    state: Mutex<State>,
}

struct State {
    watchers: Vec<Arc<Watched>>,
    /// The last two samples, as long as no poll failed after them: a new trigger starts with them.
    recent: Vec<Arc<Sample>>,
    /// The sample that the next one takes its history from.
    history: Option<Arc<Sample>>,
    failure: Option<Arc<SampleError>>,
    /// When the query was last polled, and when it is due.
    polled: Option<Instant>,
    due: Instant,
}

impl Slot {
    /// A query that is due at once.
    pub(super) fn new(query: Arc<Query>) -> Self {
        let state = State {
            watchers: Vec::new(),
            recent: Vec::new(),
            history: None,
            failure: None,
            polled: None,
            due: Instant::now(),
        };
        Self { query, state: Mutex::new(state) }
    }

    /// Judges one more trigger by this query, starting with the samples that are still fresh for it.
    pub(super) fn join(&self, watched: Arc<Watched>, now: Now) {
        let mut state = self.lock();
        if let Some(polled) = watched.polled() {
            for sample in &state.recent {
                if now.fresh(sample.taken, polled.rules.fresh()) {
                    watched.observe(polled, outcome(polled, sample), now);
                }
            }
            if let Some(failure) = &state.failure {
                watched.observe(polled, Outcome::Failed(failure.clone()), now);
            }
        }
        let confirms = watched.polled().and_then(|polled| watched.judgement.borrow().confirms_at(&polled.rules));
        state.confirm(confirms, now);
        state.watchers.push(watched);
        state.hasten();
    }

    /// Stops judging `watched`; whether nobody is left.
    pub(super) fn leave(&self, watched: &Watched) -> bool {
        let mut state = self.lock();
        state.watchers.retain(|other| !std::ptr::eq(&raw const **other, watched));
        state.watchers.is_empty()
    }

    /// Takes a changed cadence into account.
    pub(super) fn reschedule(&self) {
        self.lock().hasten();
    }

    pub(super) fn due(&self) -> Instant {
        self.lock().due
    }

    /// Takes in the result of the poll that began at `polled`; the next one is due on the grid that starts at `phase`.
    pub(super) fn publish(&self, result: Result<Sample, SampleError>, polled: Instant, phase: Instant, now: Now) {
        let mut state = self.lock();
        let result = result.map_err(Arc::new).map(|sample| state.remember(sample));
        state.failure = result.as_ref().err().cloned();
        if result.is_err() {
            state.recent.clear();
        }
        let mut confirms = None;
        for watched in &state.watchers {
            let Some(rules) = watched.polled() else { continue };
            let seen = match &result {
                Ok(sample) => outcome(rules, sample),
                Err(error) => Outcome::Failed(error.clone()),
            };
            watched.observe(rules, seen, now);
            let at = watched.judgement.borrow().confirms_at(&rules.rules);
            confirms = confirms.into_iter().chain(at).min();
        }
        state.polled = Some(polled);
        let retry = result.as_ref().is_err_and(|error| !error.is_for_tenant());
        let interval = if retry { state.interval().min(RETRY) } else { state.interval() };
        state.due = match confirms.map(|at| at.since(now.boot)) {
            // A sample in between would prove nothing.
            Some(wait) if wait <= interval => Instant::now() + wait,
            _ => next_on_grid(phase, interval),
        };
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

impl State {
    fn remember(&mut self, mut sample: Sample) -> Arc<Sample> {
        if let Some(before) = &self.history {
            sample.data.follow(&before.data);
        }
        let sample = Arc::new(sample);
        if sample.missing.is_none() || self.history.as_ref().is_none_or(|before| before.missing.is_some()) {
            self.history = Some(sample.clone());
        }
        if self.recent.len() == 2 {
            self.recent.remove(0);
        }
        self.recent.push(sample.clone());
        sample
    }

    /// The shortest interval that a trigger of this query wants. While the tenant must act, none is in a hurry.
    fn interval(&self) -> Duration {
        let for_tenant = self.failure.as_ref().is_some_and(|failure| failure.is_for_tenant());
        let wanted = self.watchers.iter().filter_map(|watched| {
            let polled = watched.polled()?;
            Some(if for_tenant { polled.rules.interval } else { watched.interval(polled) })
        });
        wanted.min().unwrap_or(Duration::from_secs(60))
    }

    /// Brings the due time forward to the sample that confirms an earlier one.
    fn confirm(&mut self, at: Option<BootInstant>, now: Now) {
        if let Some(at) = at {
            self.due = self.due.min(Instant::now() + at.since(now.boot));
        }
    }

    /// Brings the due time forward if a trigger wants it sooner.
    fn hasten(&mut self) {
        if let Some(polled) = self.polled {
            self.due = self.due.min(polled + self.interval());
        }
    }
}

fn outcome(polled: &Polled, sample: &Sample) -> Outcome {
    let taken = sample.taken;
    match (polled.threshold.reading(sample), &sample.missing) {
        (Ok(reading), None) => Outcome::Complete { reading, taken, settles: sample.data.settles() },
        (Ok(reading), Some(missing)) => Outcome::Partial { reading, taken, missing: missing.clone() },
        (Err(error), _) => Outcome::Failed(Arc::new(error)),
    }
}

/// The first moment after now on the grid of `interval` that starts at `phase`: queries of one endpoint with one
/// interval are due together and travel in one batch, and endpoints have different phases.
fn next_on_grid(phase: Instant, interval: Duration) -> Instant {
    let (nanos, step) = (phase.elapsed().as_nanos(), interval.as_nanos().max(1));
    phase + Duration::from_nanos(u64::try_from((nanos / step + 1) * step).unwrap_or(u64::MAX / 4))
}
