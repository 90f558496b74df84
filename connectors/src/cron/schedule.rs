//! The instants at which one schedule fires: a calendar on the clock of a time zone.
//!
//! Invariants:
//! - A fixed time that the clock skips fires at the first instant after the gap; one that it repeats fires once, the
//!   first time. An interval fires whenever the clock shows one of its minutes (as in Debian's cron).
//! - Searches are pure, and end at a horizon.

use std::ops::Range;

use super::{
    calendar::{Calendar, LocalMinute, Timing},
    zone::{Seconds, Span, Zone},
};

/// How far a search goes. Nothing is rarer than 29 February, which is missing for 8 years around 2100: a day of the
/// month and a day of the week are alternatives, so that no schedule asks for both at once.
pub(super) const HORIZON: Seconds = 12 * 366 * 24 * 3600;

/// One parsed schedule.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    calendar: Calendar,
    timing: Timing,
    zone: &'static Zone,
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        self.calendar == other.calendar && self.timing == other.timing && self.zone == other.zone
    }
}

/// No list of every value of every field is longer than 355.
const MAX_LENGTH: usize = 512;

impl Schedule {
    /// Reads `text`: five fields, in `zone` unless the prefix `TZ=` or `CRON_TZ=` names another.
    pub(super) fn parse(text: &str, zone: &'static Zone) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("is longer than {MAX_LENGTH} bytes"));
        }
        let (zone, fields) = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
            Some(prefixed) => {
                let (name, fields) = prefixed.split_once(' ').ok_or("must have five fields after TZ=")?;
                (Zone::named(name).ok_or("names an unknown time zone after TZ=")?, fields)
            }
            None => (zone, text),
        };
        let (calendar, timing) = Calendar::parse(fields)?;
        Ok(Self { calendar, timing, zone })
    }

    /// The last instant at or before `now` at which it fires.
    pub(super) fn previous(&self, now: Seconds) -> Option<Seconds> {
        let horizon = now - HORIZON;
        self.zone.spans_until(now).take_while(|span| span.end > horizon).find_map(|span| {
            let minutes = self.local_minutes(span, horizon, now);
            self.calendar.last_in(minutes).map(|minute| fires_at(minute, span))
        })
    }

    /// The first instant after `now`, and before `until`, at which it fires, but for what `except` has on the same clock.
    pub(super) fn next(&self, now: Seconds, until: Seconds, except: Option<&Self>) -> Option<Seconds> {
        let except = except.filter(|except| self.same_clock(except)).map(|except| &except.calendar);
        self.zone.spans_from(now).take_while(|span| span.begin < until).find_map(|span| {
            let minutes = self.local_minutes(span, now + 1, until - 1);
            self.calendar.first_in(minutes, except).map(|minute| fires_at(minute, span))
        })
    }

    /// Whether a local minute means the same instant to both.
    fn same_clock(&self, other: &Self) -> bool {
        self.timing == other.timing && std::ptr::eq(self.zone, other.zone)
    }

    /// The local minutes that fire in `span`, from `first` to `last`.
    fn local_minutes(&self, span: Span, first: Seconds, last: Seconds) -> Range<LocalMinute> {
        // A fixed time goes on where the span before ended: that covers the minutes skipped, and leaves out those repeated.
        let begin = match self.timing {
            Timing::Fixed => span.begin + span.offset_before,
            Timing::Interval => span.begin + span.offset,
        };
        let from = if first > span.begin { begin.max(first + span.offset) } else { begin };
        let to = span.end.min(last + 1) + span.offset;
        minute_at_or_after(from)..minute_at_or_after(to)
    }
}

/// When `minute` fires in `span`: skipped minutes at its begin.
fn fires_at(minute: LocalMinute, span: Span) -> Seconds {
    (minute * 60 - span.offset).max(span.begin)
}

fn minute_at_or_after(local: Seconds) -> LocalMinute {
    (local + 59).div_euclid(60)
}
