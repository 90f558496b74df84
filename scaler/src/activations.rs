//! When a push stream sends `true`: on opening if active, on each rising edge, and again 5 s and 30 s after it, since
//! KEDA drops a `true` that comes before it knows the metric's name.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    store::Watched,
    time::{Now, Timekeeper},
    trigger::Source,
    verdict::Judgement,
};

/// When a `true` is repeated, from the rising edge on.
const REPEATS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(30)];

/// Called once, when the stream is dropped.
pub type OnClose = Box<dyn FnOnce() + Send + Sync>;

/// The activations of one trigger, for one push stream: one latest state, no queue.
pub struct Activations {
    watched: Arc<Watched>,
    time: Arc<Timekeeper>,
    known: watch::Receiver<Judgement>,
    jumps: watch::Receiver<()>,
    /// The last rising edge, and how many of its repeats were sent.
    edge: Option<(Instant, usize)>,
    on_close: Option<OnClose>,
}

impl Activations {
    /// The activations of `watched`.
    pub fn new(watched: Arc<Watched>, time: Arc<Timekeeper>, on_close: OnClose) -> Self {
        let (known, jumps) = (watched.judgement.subscribe(), time.jumps());
        Self { watched, time, known, jumps, edge: None, on_close: Some(on_close) }
    }

    /// Waits for the next moment to send `true`. Never ends; to stop, drop it.
    pub async fn next(&mut self) {
        loop {
            let now = self.time.now();
            self.known.mark_unchanged();
            self.jumps.mark_unchanged();
            let (active, turns) = self.state(now);
            let repeat = match self.edge.filter(|_| active) {
                None => {
                    self.edge = active.then(|| (Instant::now(), 0));
                    if active {
                        return;
                    }
                    None
                }
                Some((edge, sent)) => match REPEATS.get(sent).map(|after| edge + *after) {
                    Some(at) if at <= Instant::now() => {
                        self.edge = Some((edge, sent + 1));
                        return;
                    }
                    at => at,
                },
            };
            let turns = turns.map(|at| Instant::now() + at.duration_since(now.wall).unwrap_or_default());
            tokio::select! {
                _ = self.known.changed() => {}
                _ = self.jumps.changed() => {}
                () = at(turns) => {}
                () = at(repeat) => {}
            }
        }
    }

    /// Whether the trigger is active, and when the clock alone will change that.
    fn state(&self, now: Now) -> (bool, Option<SystemTime>) {
        match &self.watched.trigger.source {
            Source::Cron(window) => {
                let state = window.at(now.wall);
                (state.open, state.changes)
            }
            Source::Polled(polled) => {
                let verdict = self.known.borrow().verdict(&polled.rules, now);
                (verdict.is_ok_and(|verdict| verdict.active), None)
            }
        }
    }
}

impl Drop for Activations {
    fn drop(&mut self) {
        if let Some(on_close) = self.on_close.take() {
            on_close();
        }
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
