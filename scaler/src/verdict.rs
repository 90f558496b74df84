//! What KEDA is told, and when. Pure: outcomes of polls go in, a verdict comes out.
//!
//! Invariants (design.md, section 4):
//! - Never inactive without two consecutive complete samples at or under the activation threshold, the newest fresh.
//! - A partial sample may prove activity; it never proves inactivity and never lowers the value.
//! - A failure never changes what is known; only age makes it unusable: active is held, inactive is an error.

mod judgement;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use judgement::{Judgement, Outcome};

/// A sample is fresh while younger than this many poll intervals, or [`FRESH_AT_LEAST`] if that is longer.
const FRESH_INTERVALS: u32 = 3;
const FRESH_AT_LEAST: Duration = Duration::from_secs(15);

/// How one trigger is judged in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The poll interval of the trigger.
    pub interval: Duration,
    /// How old the last sample of an active trigger may grow before the verdict is an error.
    pub hold: Duration,
    /// How long after a first sample at or under the threshold a second one confirms it.
    pub confirm_after: Duration,
}

impl Rules {
    /// How long a sample is fresh.
    pub fn fresh(&self) -> Duration {
        (self.interval * FRESH_INTERVALS).max(FRESH_AT_LEAST)
    }
}
