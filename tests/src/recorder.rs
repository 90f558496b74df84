//! A client that ticks like KEDA, only much more often, and remembers every answer: what it never saw was not there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};
use tonic::Status;

use crate::{
    Result,
    tidegate::{Client, Keda, Tick},
};

/// Between two ticks.
const PERIOD: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(20);

/// One answer, and when it came.
#[derive(Clone, Debug)]
pub struct Answer {
    /// When the tick began.
    pub asked: Instant,
    /// How long it took.
    pub took: Duration,
    /// What came.
    pub tick: Result<Tick, Status>,
}

impl Answer {
    /// Whether it says that the Worker is to run, with this value.
    pub fn is(&self, value: f64) -> bool {
        self.tick.as_ref().is_ok_and(|tick| tick.active && (tick.value - value).abs() < 1e-9)
    }

    /// Whether it says that the Worker may sleep.
    pub fn is_idle(&self) -> bool {
        self.tick.as_ref().is_ok_and(|tick| !tick.active)
    }
}

/// Ticks until it is dropped.
pub struct Recorder {
    answers: Arc<Mutex<Vec<Answer>>>,
    _ticking: JoinSet<()>,
}

impl Recorder {
    /// Ticks every 100 ms from now on.
    pub fn start(client: Client) -> Self {
        let answers = Arc::default();
        let mut ticking = JoinSet::new();
        ticking.spawn(tick(client.keda, Arc::clone(&answers)));
        Self { answers, _ticking: ticking }
    }

    /// All answers so far.
    pub fn answers(&self) -> Vec<Answer> {
        lock(&self.answers).clone()
    }

    /// Waits for the first answer to a question asked from now on that is as wanted; how long it took to come.
    pub async fn until(&self, within: Duration, wanted: impl Fn(&Answer) -> bool) -> Result<Duration> {
        let begun = Instant::now();
        loop {
            let answers = self.answers();
            if let Some(found) = answers.iter().find(|answer| answer.asked >= begun && wanted(answer)) {
                return Ok(found.asked + found.took - begun);
            }
            if begun.elapsed() > within {
                return Err(format!("not within {within:?}; the last answer is {:?}", answers.last()).into());
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until the Worker is to run with this value.
    pub async fn value(&self, within: Duration, value: f64) -> Result<Duration> {
        self.until(within, |answer| answer.is(value)).await.map_err(|error| format!("{value}: {error}").into())
    }

    /// Every answer was that the Worker is to run, with one of these values; no error, and so no zero.
    pub fn held(&self, values: &[f64]) -> Result {
        self.all("held", |answer| values.iter().any(|value| answer.is(*value)))
    }

    /// Every answer was an error, or that the Worker is to run with one of these values.
    pub fn held_or_erred(&self, values: &[f64]) -> Result {
        self.all("held or erred", |answer| answer.tick.is_err() || values.iter().any(|value| answer.is(*value)))
    }

    /// Every answer was an error, or that the Worker may sleep.
    pub fn slept_or_erred(&self) -> Result {
        self.all("slept or erred", |answer| answer.tick.is_err() || answer.is_idle())
    }

    fn all(&self, what: &str, right: impl Fn(&Answer) -> bool) -> Result {
        let answers = self.answers();
        let wrong: Vec<_> = answers.iter().filter(|answer| !right(answer)).collect();
        match wrong.first() {
            None if answers.is_empty() => Err("nothing was asked".into()),
            None => Ok(()),
            Some(first) => {
                Err(format!("{} of {} answers are not {what}, first {first:?}", wrong.len(), answers.len()).into())
            }
        }
    }

    /// The longest tick.
    pub fn slowest(&self) -> Duration {
        self.answers().iter().map(|answer| answer.took).max().unwrap_or_default()
    }

    /// How often each value or error was seen, for people.
    pub fn describe(&self) -> String {
        let mut counts = BTreeMap::<String, usize>::new();
        for answer in self.answers() {
            let text = match answer.tick {
                Ok(tick) => format!("{}{}", tick.value, if tick.active { "" } else { " (inactive)" }),
                Err(status) => format!("{:?}: {}", status.code(), status.message()),
            };
            *counts.entry(text).or_default() += 1;
        }
        let counts: Vec<_> = counts.into_iter().map(|(text, count)| format!("{count} x {text}")).collect();
        counts.join(", ")
    }
}

fn lock(answers: &Mutex<Vec<Answer>>) -> MutexGuard<'_, Vec<Answer>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tick(mut keda: Keda, answers: Arc<Mutex<Vec<Answer>>>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = Instant::now();
        let tick = keda.tick().await;
        lock(&answers).push(Answer { asked, took: asked.elapsed(), tick });
    }
}
