//! Time zones as tables of offsets, made once for each zone that a trigger uses and shared by all of its triggers.
//!
//! Invariants:
//! - The data is compiled in; nothing of the machine's is read.
//! - Spans are in order and leave no time out: the first starts, and the last ends, beyond every time that is asked for.
//! - No span starts before the time that its predecessor repeated has passed (tested for every zone).

use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    sync::{LazyLock, OnceLock},
};

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

/// Seconds since 1970-01-01 00:00 UTC.
pub(super) type Seconds = i64;

/// Every time asked for is at least this far within the first and the last span.
const FAR: Seconds = 1 << 42;

/// What the compiled data covers: changes of offset from 1970 to 2099.
const COVERED: Range<Seconds> = 0..4_102_444_800;

/// Shorter than any time that an offset was in force in the covered years (the shortest is 7 days), so that looking
/// once in each step misses none.
const STEP: Seconds = 3 * 24 * 3600;

/// One time zone. Two names of one clock are equal.
pub(super) struct Zone {
    tz: Tz,
    changes: Box<[Change]>,
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.changes == other.changes
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tz.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    at: Seconds,
    offset: i64,
}

/// A time in which one offset is in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Its first second.
    pub(super) begin: Seconds,
    /// The second after its last.
    pub(super) end: Seconds,
    /// Local time minus UTC, in seconds.
    pub(super) offset: i64,
    /// The offset of the span before it.
    pub(super) offset_before: i64,
}

impl Zone {
    /// The zone of an IANA name, written as IANA writes it.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        static ZONES: LazyLock<HashMap<Tz, OnceLock<Zone>>> =
            LazyLock::new(|| TZ_VARIANTS.iter().map(|tz| (*tz, OnceLock::new())).collect());
        let tz: Tz = name.parse().ok()?;
        Some(ZONES.get(&tz)?.get_or_init(|| Self::new(tz)))
    }

    fn new(tz: Tz) -> Self {
        let mut changes = vec![Change { at: -FAR, offset: offset(tz, COVERED.start) }];
        let mut offset_before = changes[0].offset;
        for after in COVERED.step_by(usize::try_from(STEP).expect("a few days")).skip(1) {
            let offset_after = offset(tz, after);
            if offset_after != offset_before {
                changes.push(Change { at: first_with(tz, offset_after, after - STEP..after), offset: offset_after });
                offset_before = offset_after;
            }
        }
        Self { tz, changes: changes.into() }
    }

    /// The span that holds `time`, and those after it.
    pub(super) fn spans_from(&self, time: Seconds) -> impl Iterator<Item = Span> {
        (self.index(time)..self.changes.len()).map(|index| self.span(index))
    }

    /// The span that holds `time`, and those before it, latest first.
    pub(super) fn spans_until(&self, time: Seconds) -> impl Iterator<Item = Span> {
        (0..=self.index(time)).rev().map(|index| self.span(index))
    }

    fn index(&self, time: Seconds) -> usize {
        self.changes.partition_point(|change| change.at <= time).saturating_sub(1)
    }

    fn span(&self, index: usize) -> Span {
        let Change { at, offset } = self.changes[index];
        Span {
            begin: at,
            end: self.changes.get(index + 1).map_or(FAR, |next| next.at),
            offset,
            offset_before: self.changes[index.saturating_sub(1)].offset,
        }
    }
}

/// The first second at which `offset_after` is in force, which it is at the end of `range`, but not at its start.
fn first_with(tz: Tz, offset_after: i64, range: Range<Seconds>) -> Seconds {
    let (mut before, mut after) = (range.start, range.end);
    while after - before > 1 {
        let middle = i64::midpoint(before, after);
        if offset(tz, middle) == offset_after {
            after = middle;
        } else {
            before = middle;
        }
    }
    after
}

fn offset(tz: Tz, time: Seconds) -> i64 {
    let time = DateTime::from_timestamp(time, 0).expect("the covered years are within chrono's").naive_utc();
    tz.offset_from_utc_datetime(&time).fix().local_minus_utc().into()
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn the_table_of_every_zone_is_what_the_data_says() {
        let mut random = StdRng::seed_from_u64(1);
        for tz in TZ_VARIANTS {
            let zone = Zone::named(tz.name()).unwrap();
            let found = |time| zone.spans_from(time).next().unwrap();
            for time in (0..50).map(|_| random.random_range(COVERED)) {
                assert_eq!(found(time).offset, offset(tz, time), "{tz} {time}");
            }
            for span in zone.spans_from(-1).skip(1) {
                assert_eq!(span.offset, offset(tz, span.begin), "{tz} {span:?}");
                assert_eq!(span.offset_before, offset(tz, span.begin - 1), "{tz} {span:?}");
                assert!(span.end - span.begin > 2 * STEP, "{tz} {span:?}");
                assert!(span.begin + span.offset_before < span.end + span.offset, "{tz} {span:?}");
            }
        }
    }

    #[test]
    fn names_are_those_of_iana() {
        for name in ["UTC", "Etc/UTC", "GMT", "Europe/Berlin", "US/Eastern", "Asia/Calcutta", "Asia/Kolkata"] {
            assert!(Zone::named(name).is_some(), "{name}");
        }
        for name in ["", "Local", "local", "Mars/Phobos", "europe/berlin", "CET/", "+01:00", "../etc/passwd"] {
            assert!(Zone::named(name).is_none(), "{name}");
        }
    }
}
