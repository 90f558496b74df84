//! Cron triggers: a window of time.
//!
//! Invariants:
//! - A window is a pure function of the time that it is given: a clock that jumps gets the answer of its new time.
//! - Active iff the last start is not before the last end; a tie is open. A start counts, an end does not (`[start, end)`).
//! - Every schedule fires, and every zone exists: what does not is an error while the trigger is read.
//! - Searches are bounded, so that no schedule costs more than some microseconds.

mod calendar;
mod grammar;
mod schedule;
mod zone;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod clock_changes;
#[cfg(test)]
mod oracle;

use std::time::{Duration, SystemTime};

use schedule::{HORIZON, Schedule};
use zone::{Seconds, Zone};

use crate::{
    metadata::{ParameterError, Parameters},
    sampler::Reading,
    trigger::{Source, Spec, metric_name},
};

/// The keys of a cron trigger.
pub const KEYS: &[&str] = &["timezone", "start", "end", "desiredReplicas"];

/// Kubernetes counts replicas in 32 bits.
const MAX_REPLICAS: u32 = i32::MAX.unsigned_abs();

/// How many ends in a row may coincide with a start before a search gives up. Only ends in another zone than the
/// starts, or of the other kind (fixed, interval), come one by one; the rest are skipped at once.
const MAX_TIES: usize = 100;

/// Times after this one (in the year 36812) are taken for it, so that no arithmetic overflows.
const LAST: Seconds = 1 << 40;

/// A window of time, open from each start to the next end.
#[derive(Clone, Debug)]
pub struct Window {
    start: Schedule,
    end: Schedule,
    desired_replicas: u32,
}

/// What a window is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowState {
    /// Whether the last start is later than the last end; a tie is open.
    pub open: bool,
    /// The next moment at which `open` changes; `None` if it does not within 12 years. Where a hundred ends in a row
    /// coincide with starts of another zone or kind, the moment of the last of them: `open` may stay, look again.
    pub changes: Option<SystemTime>,
}

impl Window {
    /// What the window is at `now`. A time before 1970 is taken for 1970.
    pub fn at(&self, now: SystemTime) -> WindowState {
        let now = seconds(now);
        let start = self.start.previous(now);
        let open = start.is_some() && start >= self.end.previous(now);
        let changes = if open { self.closes_after(now) } else { self.start.next(now, now + HORIZON, None) };
        WindowState { open, changes: changes.and_then(system_time) }
    }

    /// What the trigger reads in `state`: the replicas asked for, or 0 (target 1).
    pub fn reading(&self, state: WindowState) -> Reading {
        Reading { value: if state.open { self.desired_replicas.into() } else { 0.0 }, active: state.open }
    }

    /// The next end that no start coincides with.
    fn closes_after(&self, now: Seconds) -> Option<Seconds> {
        let mut end = now;
        for _ in 0..MAX_TIES {
            end = self.end.next(end, now + HORIZON, Some(&self.start))?;
            if self.start.previous(end) != Some(end) {
                break;
            }
        }
        Some(end)
    }
}

/// Reads the parameters of a cron trigger.
pub fn parse(parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    let timezone = parameters.required("timezone")?;
    let zone = Zone::named(timezone).ok_or_else(|| ParameterError::new("timezone", unknown_zone(timezone)))?;
    let start = schedule(parameters, "start", zone)?;
    let end = schedule(parameters, "end", zone)?;
    if start == end {
        return Err(ParameterError::new("end", "is the same schedule as start"));
    }
    let keda_name = format!(
        "cron-{timezone}-{}-{}",
        name_part(parameters.required("start")?),
        name_part(parameters.required("end")?)
    );
    Ok(Spec {
        metric_name: metric_name(&keda_name),
        target: 1.0,
        source: Source::Cron(Window { start, end, desired_replicas: desired_replicas(parameters)? }),
    })
}

fn schedule(parameters: Parameters<'_>, key: &'static str, zone: &'static Zone) -> Result<Schedule, ParameterError> {
    Schedule::parse(parameters.required(key)?, zone).map_err(|problem| ParameterError::new(key, problem))
}

fn desired_replicas(parameters: Parameters<'_>) -> Result<u32, ParameterError> {
    const KEY: &str = "desiredReplicas";
    parameters.required(KEY)?;
    let replicas = parameters.integer(KEY, 0)?;
    if replicas <= 0 {
        let problem = "must be greater than 0: a window with no replicas never wakes a Worker";
        return Err(ParameterError::new(KEY, problem));
    }
    u32::try_from(replicas)
        .ok()
        .filter(|replicas| *replicas <= MAX_REPLICAS)
        .ok_or_else(|| ParameterError::new(KEY, "must be at most 2147483647"))
}

fn unknown_zone(name: &str) -> &'static str {
    if name == "Local" {
        "must be an IANA name like Europe/Berlin: Local would be the zone of the scaler's machine"
    } else {
        "must be an IANA name like Europe/Berlin, in IANA's spelling; this one is unknown"
    }
}

/// KEDA's `parseCronTimeFormat`.
fn name_part(schedule: &str) -> String {
    schedule.replace(' ', "").replace('*', "x").replace('/', "Sl").replace('?', "Qm").replace(',', "Cm")
}

fn seconds(time: SystemTime) -> Seconds {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Seconds::try_from(since_1970.as_secs()).map_or(LAST, |seconds| seconds.min(LAST))
}

fn system_time(time: Seconds) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(time).ok()?))
}
