//! How long a failing endpoint is left alone.

use std::time::Duration;

use rand::Rng;
use tidegate_connectors::clock::BootInstant;

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// A wait is at most this part of the outage so far, so that an outage of a minute is noticed to be over within 15 s
/// and one of 20 s within 5 s, while a long one costs a request a minute.
const PART_OF_OUTAGE: u32 = 4;

/// A rejected credential is not tried again sooner, unless it changes: sources count and lock (safety.md, row 3).
const REJECTED: Duration = Duration::from_secs(30);

/// Decorrelated jitter from 0.5 s to 60 s, and never longer than a part of the outage so far.
#[derive(Debug, Default)]
pub struct Backoff {
    failing_since: Option<BootInstant>,
    last: Duration,
}

impl Backoff {
    /// The source answered.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// How long to wait after one more failure.
    pub fn after_failure(&mut self, now: BootInstant, random: &mut impl Rng) -> Duration {
        let since = *self.failing_since.get_or_insert(now);
        let longest = (now.since(since) / PART_OF_OUTAGE).clamp(SHORTEST, LONGEST);
        let upper = (self.last * 3).clamp(SHORTEST, longest);
        self.last = if upper > SHORTEST { random.random_range(SHORTEST..=upper) } else { SHORTEST };
        self.last
    }

    /// How long to wait after the source rejected the credential.
    pub fn after_rejection(&mut self, now: BootInstant, random: &mut impl Rng) -> Duration {
        self.failing_since.get_or_insert(now);
        self.last = REJECTED + REJECTED.mul_f64(random.random_range(0.0..0.2));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cases.md B32: an outage of five minutes is no connection storm.
    #[test]
    fn b32_attempts_in_five_minutes_are_bounded() {
        let (mut backoff, mut random) = (Backoff::default(), rand::rng());
        let (mut now, mut attempts) = (BootInstant::default(), 0);
        while now.since(BootInstant::default()) < Duration::from_secs(300) {
            let wait = backoff.after_failure(now, &mut random);
            assert!((SHORTEST..=LONGEST).contains(&wait));
            now = now + wait;
            attempts += 1;
        }
        assert!(attempts < 100, "{attempts}");
    }

    #[test]
    fn a_wait_is_at_most_a_quarter_of_the_outage() {
        let (mut backoff, mut random) = (Backoff::default(), rand::rng());
        let mut now = BootInstant::default();
        while now.since(BootInstant::default()) < Duration::from_secs(20) {
            let wait = backoff.after_failure(now, &mut random);
            assert!(wait <= Duration::from_secs(5));
            now = now + wait;
        }
    }
}
