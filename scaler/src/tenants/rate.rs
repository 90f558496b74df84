//! How often a tenant may call: a bucket of calls that fills steadily and holds those of one second.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_connectors::clock::BootInstant;

/// What the bucket holds, in nanoseconds.
const BURST: u64 = 1_000_000_000;

/// The bucket, in one word, so that two calls at once need no lock: the moment at which it will be full.
pub(super) struct Rate {
    /// Nanoseconds that one call takes out.
    call: u64,
    full_at: AtomicU64,
}

impl Rate {
    /// A full bucket of `a_second` calls, which must not be 0.
    pub(super) fn new(a_second: usize) -> Self {
        let call = BURST / u64::try_from(a_second.max(1)).unwrap_or(u64::MAX);
        Self { call, full_at: AtomicU64::new(0) }
    }

    /// Takes one call out at `now`; whether there was one.
    pub(super) fn take(&self, now: BootInstant) -> bool {
        let now = u64::try_from(now.since(BootInstant::default()).as_nanos()).unwrap_or(u64::MAX);
        let taken = |full_at: u64| {
            let full_at = full_at.max(now).saturating_add(self.call);
            (full_at - now <= BURST).then_some(full_at)
        };
        self.full_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(3_600_000 + millis))
    }

    /// How many of a thousand calls at `now` are let through.
    fn through(rate: &Rate, now: BootInstant) -> usize {
        (0..1000).filter(|_| rate.take(now)).count()
    }

    #[test]
    fn a_burst_is_one_seconds_calls_and_the_bucket_fills_steadily() {
        for a_second in [1, 3, 7, 100, 999] {
            let rate = Rate::new(a_second);
            assert_eq!(through(&rate, at(0)), a_second, "a burst");
            assert_eq!(through(&rate, at(0)), 0);
            assert_eq!(through(&rate, at(1000)), a_second, "a second later");
            assert_eq!(through(&rate, at(1_000_000)), a_second, "never more than a second's");
        }
        let rate = Rate::new(100);
        through(&rate, at(0));
        assert_eq!(through(&rate, at(10)), 1);
        assert_eq!(through(&rate, at(510)), 50);
        assert_eq!(through(&rate, at(515)), 0);
    }

    #[test]
    fn two_threads_get_no_more_than_one() {
        let rate = Rate::new(500);
        let count = || through(&rate, at(0));
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(count);
            (count(), other.join().unwrap())
        });
        assert_eq!(one + other, 500);
    }
}
