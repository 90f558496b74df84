//! The pauses between the attempts of one sample.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Pauses between attempts. A leader election takes some hundred milliseconds; what takes longer is for the next poll.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400), Duration::from_millis(800)];

/// How often one thing may still be tried in one sample.
pub(super) struct Retry {
    pauses: std::slice::Iter<'static, Duration>,
    until: Instant,
}

impl Retry {
    /// Tries until `until`, and a bounded number of times.
    pub(super) fn until(until: Instant) -> Self {
        Self { pauses: PAUSES.iter(), until }
    }

    /// Waits before the next attempt; `false` where there is none.
    pub(super) async fn pause(&mut self) -> bool {
        match self.pauses.next() {
            Some(&pause) if Instant::now() + pause < self.until => {
                sleep(pause).await;
                true
            }
            _ => false,
        }
    }
}
