//! One trigger that someone asks for.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use tidegate_connectors::{clock::BootInstant, tenant::TenantId};
use tokio::{sync::watch, time::Instant};

use crate::{
    answer::Reference,
    trigger::{Polled, Source, Trigger},
    verdict::{Judgement, Outcome},
};

/// The first call of a new trigger waits at most this long for its first sample.
const FIRST_SAMPLE: Duration = Duration::from_millis(2500);

/// A trigger as its caller named it, what is known of it, and who still asks.
pub struct Watched {
    tenant: TenantId,
    name: Box<str>,
    /// As the caller sent it, secrets included: it is compared, never printed.
    metadata: HashMap<String, String>,
    /// The trigger, parsed.
    pub trigger: Trigger,
    /// What is known.
    pub judgement: watch::Sender<Judgement>,
    /// Until when a call waits for the first sample.
    pub first_sample_by: Instant,
    /// When it was last asked for: milliseconds of the boot-time clock.
    asked: AtomicU64,
    streams: AtomicUsize,
}

impl Watched {
    /// A trigger that was asked for at `now`.
    pub fn new(reference: Reference<'_>, trigger: Trigger, now: BootInstant) -> Self {
        let watched = Self {
            tenant: reference.tenant.clone(),
            name: reference.name.into(),
            metadata: reference.metadata.clone(),
            trigger,
            judgement: watch::Sender::new(Judgement::default()),
            first_sample_by: Instant::now() + FIRST_SAMPLE,
            asked: AtomicU64::new(0),
            streams: AtomicUsize::new(0),
        };
        watched.touch(now);
        watched
    }

    /// Whether it is what `reference` names.
    pub fn is(&self, reference: Reference<'_>) -> bool {
        self.tenant == *reference.tenant && *self.name == *reference.name && self.metadata == *reference.metadata
    }

    /// Whose it is.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Someone asked for it.
    pub fn touch(&self, now: BootInstant) {
        self.asked.store(millis(now), Ordering::Relaxed);
    }

    /// How long nobody has asked for it; zero while a stream is open.
    pub fn idle(&self, now: BootInstant) -> Duration {
        if self.streams.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(millis(now).saturating_sub(self.asked.load(Ordering::Relaxed)))
    }

    pub(super) fn polled(&self) -> Option<&Polled> {
        match &self.trigger.source {
            Source::Polled(polled) => Some(polled),
            Source::Cron(_) => None,
        }
    }

    /// How often its query must be polled now.
    pub(super) fn interval(&self, polled: &Polled) -> Duration {
        if self.streams.load(Ordering::Acquire) > 0 && !self.judgement.borrow().is_active() {
            polled.waking
        } else {
            polled.rules.interval
        }
    }

    /// A push stream was opened.
    pub fn open_stream(&self) {
        self.streams.fetch_add(1, Ordering::AcqRel);
    }

    /// A push stream was closed.
    pub fn close_stream(&self, now: BootInstant) {
        self.touch(now);
        self.streams.fetch_sub(1, Ordering::AcqRel);
    }

    /// One more poll of its query.
    pub(super) fn observe(&self, polled: &Polled, outcome: Outcome, now: crate::time::Now) {
        self.judgement.send_if_modified(|known| {
            let before = known.clone();
            *known = before.clone().observe(outcome, &polled.rules, now);
            before.turns(known)
        });
    }
}

fn millis(now: BootInstant) -> u64 {
    u64::try_from(now.since(BootInstant::default()).as_millis()).unwrap_or(u64::MAX)
}
