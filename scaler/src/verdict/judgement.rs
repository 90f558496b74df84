//! What is known of one trigger: a fold over the outcomes of its query's polls.

use std::{sync::Arc, time::Duration};

use tidegate_connectors::{
    clock::BootInstant,
    sampler::{Reading, SampleError},
};

use super::Rules;
use crate::{
    answer::{Refusal, Verdict},
    time::Now,
};

/// What one poll means for one trigger.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Everything was measured.
    Complete {
        /// What the trigger reads in the sample.
        reading: Reading,
        /// When the sample was taken.
        taken: BootInstant,
        /// How old the source's own numbers may be: a sample that confirms this one is taken that much later.
        settles: Duration,
    },
    /// A part is missing.
    Partial {
        /// What the trigger reads in the part that is there.
        reading: Reading,
        /// When the sample was taken.
        taken: BootInstant,
        /// Why the rest is missing.
        missing: Arc<SampleError>,
    },
    /// Nothing was measured.
    Failed(Arc<SampleError>),
}

/// The last thing that was proven.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Standing {
    #[default]
    Unknown,
    Active {
        value: f64,
        taken: BootInstant,
    },
    Inactive {
        value: f64,
        taken: BootInstant,
    },
}

/// What is known of one trigger.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    standing: Standing,
    /// The newest sample of an unbroken run of complete ones at or under the threshold.
    run: Option<BootInstant>,
    /// How long after the run's newest sample one more proves inactivity, where that is longer than the rules' time.
    settles: Duration,
    /// The newest complete sample: when it was taken, and its value.
    complete: Option<(BootInstant, f64)>,
    /// Why the last poll was not complete.
    failure: Option<Arc<SampleError>>,
}

impl Judgement {
    /// What is known after one more poll.
    #[must_use]
    pub fn observe(mut self, outcome: Outcome, rules: &Rules, now: Now) -> Self {
        match outcome {
            Outcome::Complete { reading, taken, settles } => {
                self.failure = None;
                self.complete = Some((taken, reading.value));
                self.observe_complete(reading, taken, settles, rules, now);
            }
            Outcome::Partial { reading, taken, missing } => {
                self.run = None;
                self.failure = Some(missing);
                if reading.active {
                    let before = self.complete.filter(|(at, _)| taken.since(*at) <= rules.fresh().max(rules.hold));
                    let value = before.map_or(reading.value, |(_, value)| reading.value.max(value));
                    self.standing = Standing::Active { value, taken };
                }
            }
            Outcome::Failed(error) => {
                self.run = None;
                self.failure = Some(error);
            }
        }
        self
    }

    fn observe_complete(&mut self, reading: Reading, taken: BootInstant, settles: Duration, rules: &Rules, now: Now) {
        if reading.active {
            self.run = None;
            self.standing = Standing::Active { value: reading.value, taken };
            return;
        }
        match self.run {
            // Too early to prove anything: the source may not have moved since.
            Some(first) if taken.since(first) < rules.confirm_after.max(self.settles) && !self.confirmed(first) => {
                self.settles = self.settles.max(settles);
            }
            Some(first) if first >= now.jumped && taken.since(first) <= rules.fresh() => {
                self.run = Some(taken);
                self.standing = Standing::Inactive { value: reading.value, taken };
            }
            _ => {
                self.run = Some(taken);
                self.settles = settles;
            }
        }
    }

    fn confirmed(&self, run: BootInstant) -> bool {
        matches!(self.standing, Standing::Inactive { taken, .. } if taken == run)
    }

    /// When a second sample would confirm a first one that would turn the verdict; `None` where none is waited for.
    pub fn confirms_at(&self, rules: &Rules) -> Option<BootInstant> {
        self.run.filter(|run| !self.confirmed(*run)).map(|run| run + rules.confirm_after.max(self.settles))
    }

    /// Whether nothing is known, and nothing has failed either.
    pub fn is_pending(&self) -> bool {
        matches!(self.standing, Standing::Unknown) && self.failure.is_none()
    }

    /// Whether the last thing proven is activity.
    pub fn is_active(&self) -> bool {
        matches!(self.standing, Standing::Active { .. })
    }

    /// Whether a caller that waits, or a stream, would be told something else by `other`.
    pub fn turns(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.standing) != std::mem::discriminant(&other.standing)
            || self.failure.is_none() != other.failure.is_none()
    }

    /// How old the newest complete sample is.
    pub fn age(&self, now: Now) -> Option<Duration> {
        self.complete.map(|(taken, _)| now.boot.since(taken))
    }

    /// What KEDA is told now.
    pub fn verdict(&self, rules: &Rules, now: Now) -> Result<Verdict, Refusal> {
        match self.standing {
            Standing::Active { value, taken } => {
                let held = !now.fresh(taken, rules.fresh());
                if held && now.boot.since(taken) > rules.hold {
                    return Err(self.refusal(now));
                }
                Ok(Verdict { active: true, value, age: self.age(now) })
            }
            Standing::Inactive { value, taken } if now.fresh(taken, rules.fresh()) => {
                Ok(Verdict { active: false, value, age: self.age(now) })
            }
            Standing::Inactive { .. } | Standing::Unknown => Err(self.refusal(now)),
        }
    }

    fn refusal(&self, now: Now) -> Refusal {
        match (&self.failure, self.age(now)) {
            (Some(error), age) => Refusal::Source { error: error.clone(), age },
            (None, Some(age)) => Refusal::Stale(age),
            (None, None) => Refusal::NotMeasured,
        }
    }
}
