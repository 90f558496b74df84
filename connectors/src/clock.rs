//! The two clocks: ages come from one that counts suspension, cron windows from the wall.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A moment of the boot-time clock (`CLOCK_BOOTTIME`): it never jumps, and it counts the time that the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The moment `since_boot` after the machine's start.
    pub const fn from_boot(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Now, on the boot-time clock.
    fn boot(&self) -> BootInstant;
    /// Now, on the wall clock.
    fn wall(&self) -> SystemTime;
}

/// A clock that many parts share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn boot(&self) -> BootInstant {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(now.tv_nsec).unwrap_or_default();
        BootInstant(Duration::new(seconds, nanos))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that follows tokio's, so that a test with paused time moves it; the wall can be set apart from it.
#[derive(Clone, Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    wall_at_start: Arc<std::sync::Mutex<SystemTime>>,
}

impl TokioClock {
    /// A clock that shows `wall` now.
    pub fn starting_at(wall: SystemTime) -> Self {
        Self {
            start: tokio::time::Instant::now() - Duration::from_secs(1),
            wall_at_start: Arc::new(std::sync::Mutex::new(wall - Duration::from_secs(1))),
        }
    }

    /// Steps the wall clock to `wall`, as NTP or an operator does.
    pub fn set_wall(&self, wall: SystemTime) {
        *self.wall_at_start.lock().expect("no holder panics") = wall - self.start.elapsed();
    }
}

impl Clock for TokioClock {
    fn boot(&self) -> BootInstant {
        BootInstant(Duration::from_secs(3600) + self.start.elapsed())
    }

    fn wall(&self) -> SystemTime {
        *self.wall_at_start.lock().expect("no holder panics") + self.start.elapsed()
    }
}
