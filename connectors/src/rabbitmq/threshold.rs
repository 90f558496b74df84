//! How a trigger judges queues: the composition of several, the modes, the activity.
//!
//! Invariants:
//! - A value is finite, not negative and at most 2^53.
//! - A counter that is not known is never taken for 0: it is an error, but where the rest proves activity already.

use super::{Queue, Queues};
use crate::{
    sampler::{Reading, SampleError},
    trigger::Detail,
};

/// The greatest value: every integer up to it is exact as `f64`.
const MAX_VALUE: f64 = 9_007_199_254_740_992.0;

/// What a trigger measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Messages.
    #[default]
    QueueLength,
    /// Messages published per second; messages in the queue count for the activity.
    MessageRate,
    /// Messages delivered or got per second.
    DeliverGetRate,
    /// The one rate divided by the other.
    PublishedToDeliveredRatio,
    /// Seconds until the queue is empty, as the rates are now.
    ExpectedQueueConsumptionTime,
}

/// How several queues become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Their sum.
    #[default]
    Sum,
    /// The greatest, counter by counter.
    Max,
    /// Their mean, which is no integer.
    Avg,
}

/// How queues are judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// `mode`.
    pub mode: Mode,
    /// `activationValue`.
    pub activation: f64,
    /// `excludeUnacknowledged`: ready messages only.
    pub ready_only: bool,
    /// `operation`.
    pub operation: Operation,
    /// `trustReadyOnly`: over AMQP, a queue without ready messages is idle, also while it has consumers. They may hold
    /// messages that AMQP does not tell of, so without it the Worker stays awake (safety.md, section 2).
    pub trust_ready_only: bool,
}

/// All queues as one. `None` is a counter that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Composed {
    messages: Option<f64>,
    publish: Option<f64>,
    deliver: Option<f64>,
    /// Consumers that may hold messages.
    held_by_consumers: bool,
}

const UNKNOWN: SampleError = SampleError::NotReady("the broker does not know this queue's counters yet");

impl Threshold {
    /// The value and the activity that `queues` mean.
    pub fn reading(&self, queues: &Queues) -> Result<Reading, SampleError> {
        let all = self.compose(queues);
        let (value, active) = self.judge(all)?;
        let value = if value.is_finite() { value.clamp(0.0, MAX_VALUE) } else { MAX_VALUE };
        Ok(Reading { value, active: active || all.held_by_consumers && !self.trust_ready_only })
    }

    fn judge(&self, all: Composed) -> Result<(f64, bool), SampleError> {
        let over = |value: f64| value > self.activation;
        Ok(match self.mode {
            Mode::QueueLength => {
                let m = all.messages.ok_or(UNKNOWN)?;
                (m, over(m))
            }
            Mode::MessageRate => {
                let waiting = all.messages.is_some_and(over);
                match all.publish {
                    Some(p) if over(p) || all.messages.is_some() => (p, over(p) || waiting),
                    None if waiting => (0.0, true),
                    _ => return Err(UNKNOWN),
                }
            }
            Mode::DeliverGetRate => {
                let d = all.deliver.ok_or(UNKNOWN)?;
                (d, over(d))
            }
            Mode::PublishedToDeliveredRatio => {
                let (p, d) = all.publish.zip(all.deliver).ok_or(UNKNOWN)?;
                let undelivered = p > 0.0 && d == 0.0;
                let ratio = if undelivered {
                    self.activation
                } else if p > 0.0 {
                    p / d
                } else {
                    0.0
                };
                (ratio, undelivered || over(ratio))
            }
            Mode::ExpectedQueueConsumptionTime => {
                let m = all.messages.ok_or(UNKNOWN)?;
                let (p, d) = all.publish.zip(all.deliver).ok_or(UNKNOWN)?;
                let seconds = if m == 0.0 {
                    0.0
                } else if d == 0.0 {
                    self.activation
                } else {
                    (p - d) / d + m / d
                };
                (seconds, over(seconds) || d == 0.0 && m > 0.0)
            }
        })
    }

    fn compose(&self, queues: &Queues) -> Composed {
        let queues = &queues.queues;
        #[expect(clippy::cast_precision_loss, reason = "no queue has 2^53 messages")]
        let messages = |queue: &Queue| self.length(queue).map(|length| length as f64);
        Composed {
            messages: self.combine(queues.iter().map(messages)),
            publish: self.combine(queues.iter().map(|queue| queue.publish_rate)),
            deliver: self.combine(queues.iter().map(|queue| queue.deliver_rate)),
            held_by_consumers: queues.iter().any(|queue| queue.consumers.is_some_and(|consumers| consumers > 0)),
        }
    }

    /// The length of a queue; over AMQP the ready messages are all that is known.
    fn length(&self, queue: &Queue) -> Option<u64> {
        if self.ready_only || queue.consumers.is_some() { queue.ready } else { queue.messages }
    }

    /// A sum and a maximum of the known counters are bounds from below, which a partial sample may prove activity with; a
    /// mean is none.
    fn combine(&self, counters: impl Iterator<Item = Option<f64>>) -> Option<f64> {
        let (mut known, mut unknown) = (Vec::new(), 0_usize);
        for counter in counters {
            match counter {
                Some(counter) => known.push(counter),
                None => unknown += 1,
            }
        }
        if unknown > 0 && (known.is_empty() || self.operation == Operation::Avg) {
            return None;
        }
        let sum: f64 = known.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a sample has at most some thousand queues")]
        Some(match self.operation {
            Operation::Sum => sum,
            Operation::Avg if known.is_empty() => 0.0,
            Operation::Avg => sum / known.len() as f64,
            Operation::Max => known.into_iter().fold(0.0, f64::max),
        })
    }

    /// The queues, one line each.
    pub fn detail(&self, queues: &Queues) -> Vec<Detail> {
        if queues.matched && queues.queues.is_empty() {
            return vec![vec![("matched", 0.into()), ("note", "no queue matches the pattern".into())]];
        }
        queues.queues.iter().map(|queue| self.line(queue)).collect()
    }

    fn line(&self, queue: &Queue) -> Detail {
        let mut line: Detail = vec![("queue", queue.name.as_ref().into()), ("ready", queue.ready.into())];
        if let Some(consumers) = queue.consumers {
            line.push(("consumers", consumers.into()));
            let note = if consumers == 0 || self.trust_ready_only {
                "AMQP tells of ready messages only"
            } else {
                "AMQP tells of ready messages only; its consumers may hold more, so it counts as active (trustReadyOnly)"
            };
            line.push(("note", note.into()));
            return line;
        }
        line.push(("messages", queue.messages.into()));
        if self.mode != Mode::QueueLength {
            line.push(("publishRate", queue.publish_rate.into()));
            line.push(("deliverGetRate", queue.deliver_rate.into()));
        }
        line
    }
}

#[cfg(test)]
mod tests;
