//! One reading of the clocks for one decision, and the watch over jumps of the wall clock.
//!
//! Invariant: a sample taken before the last jump is never fresh again.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tidegate_connectors::clock::{BootInstant, SharedClock};
use tokio::sync::watch;

/// A larger step of the wall clock against the boot-time clock makes samples stale (design.md, section 4).
const JUMP: Duration = Duration::from_secs(5);

/// How often [`Timekeeper::keep`] looks at the clocks; what it sees late is a cron window's edge after a jump.
const TICK: Duration = Duration::from_secs(1);

/// The clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The boot-time clock.
    pub boot: BootInstant,
    /// The wall clock.
    pub wall: SystemTime,
    /// When the wall clock last jumped; what was measured before is stale.
    pub jumped: BootInstant,
}

impl Now {
    /// How old what happened at `taken` is, as long as it is no older than `limit` and no jump lies between.
    pub fn fresh(&self, taken: BootInstant, limit: Duration) -> bool {
        taken >= self.jumped && self.boot.since(taken) <= limit
    }
}

/// Reads the clocks and remembers the last jump.
pub struct Timekeeper {
    clock: SharedClock,
    /// Wall minus boot when last looked at, in nanoseconds from the first look.
    offset: Mutex<i128>,
    /// Nanoseconds of the boot-time clock at the last jump.
    jumped: AtomicU64,
    jumps: watch::Sender<()>,
}

impl Timekeeper {
    /// Takes the clocks' present distance as the right one.
    pub fn new(clock: SharedClock) -> Self {
        let offset = Mutex::new(offset(clock.boot(), clock.wall()));
        Self { clock, offset, jumped: AtomicU64::new(0), jumps: watch::Sender::new(()) }
    }

    /// The clocks now. Notices a jump.
    pub fn now(&self) -> Now {
        let (boot, wall) = (self.clock.boot(), self.clock.wall());
        let offset = offset(boot, wall);
        let step = {
            let mut known = self.offset.lock().expect("nothing panics under this lock");
            let step = offset.abs_diff(*known);
            *known = offset;
            step
        };
        if step > JUMP.as_nanos() {
            tracing::warn!(seconds = u64::try_from(step / 1_000_000_000).unwrap_or(u64::MAX), "the wall clock jumped");
            let nanos = boot.since(BootInstant::default()).as_nanos();
            self.jumped.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Release);
            self.jumps.send_replace(());
        }
        let jumped = Duration::from_nanos(self.jumped.load(Ordering::Acquire));
        Now { boot, wall, jumped: BootInstant::from_boot(jumped) }
    }

    /// Changes at every jump, and when the machine was suspended: timers that follow the wall clock must be set anew.
    pub fn jumps(&self) -> watch::Receiver<()> {
        self.jumps.subscribe()
    }

    /// Looks at the clocks once a second, for ever.
    pub async fn keep(&self) {
        let mut before = self.now().boot;
        loop {
            tokio::time::sleep(TICK).await;
            let boot = self.now().boot;
            if boot.since(before) > TICK + JUMP {
                self.jumps.send_replace(()); // suspended: tokio's timers did not count the time
            }
            before = boot;
        }
    }
}

fn offset(boot: BootInstant, wall: SystemTime) -> i128 {
    let nanos = |d: Duration| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX);
    let wall = match wall.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => nanos(after),
        Err(before) => -nanos(before.duration()),
    };
    wall - nanos(boot.since(BootInstant::default()))
}
