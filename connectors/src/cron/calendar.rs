//! Five cron fields as bit sets, and the search for the local minutes that they match.
//!
//! Our own, because croner 4.0.3 cannot be bent to KEDA's rules (tried):
//! - it takes lists and ranges for intervals: `0,30 2 * * *` is lost on the day that has no 2 o'clock, and its
//!   classification is not ours to set;
//! - it rejects what KEDA accepts (`0/15`, `MON/2`, `?`, `+5`, `TZ=`), and accepts what KEDA rejects (7, `L`, `W`, `#`,
//!   `@daily`); it combines `*/2` and a day of the week in another way;
//! - it holds 5.5 KB a schedule, 11 KB a trigger (24 bytes here), and walks to the year 5000 for `0 0 30 2 *`.
//!
//! Invariants:
//! - Searches step by month and by day, never by minute, and stay within the range asked for.
//! - Two calendars that match the same days and times, however written, are equal.

use std::ops::Range;

use chrono::{Datelike, Days, Months, NaiveDate};

use super::grammar::{self, Values};

const MINUTES_OF_HOUR: i64 = 60;
const MINUTES_OF_DAY: i64 = 24 * MINUTES_OF_HOUR;
const ALL_DAYS_OF_MONTH: u32 = !1;
const ALL_DAYS_OF_WEEK: u8 = 0x7f;

/// The fields of one schedule. Bit `n` of a field is value `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    minutes: u64,
    hours: u32,
    days_of_month: u32,
    months: u16,
    days_of_week: u8,
    /// Whether both day fields must match; else one of them is enough.
    both_days: bool,
}

/// How the minutes of a schedule relate to a clock that is put forward or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// No star in minute and hour: what is skipped is made up for, what is repeated happens once.
    Fixed,
    /// A star in minute or hour: the wall clock alone decides.
    Interval,
}

/// A minute of a local clock, counted from 1970-01-01 00:00 on that clock.
pub(super) type LocalMinute = i64;

impl Calendar {
    /// Reads five fields.
    pub(super) fn parse(text: &str) -> Result<(Self, Timing), String> {
        let fields: Vec<_> = text.split_whitespace().take(7).collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(match fields.len() {
                1 if text.trim().starts_with('@') => "must be five fields: names like @daily are not supported".into(),
                6 => "must be five fields: seconds are not supported".into(),
                _ => "must be five fields: minute, hour, day of month, month, day of week".into(),
            });
        };
        let minute = grammar::MINUTE.parse(minute)?;
        let hour = grammar::HOUR.parse(hour)?;
        let month = grammar::MONTH.parse(month)?;
        let (days_of_month, days_of_week, both_days) =
            days(grammar::DAY_OF_MONTH.parse(day)?, grammar::DAY_OF_WEEK.parse(weekday)?);
        let calendar = Self {
            minutes: minute.bits,
            hours: low_u32(hour),
            days_of_month,
            months: u16::try_from(month.bits).expect("a month is at most 12"),
            days_of_week,
            both_days,
        };
        let timing = if minute.wildcard || hour.wildcard { Timing::Interval } else { Timing::Fixed };
        if calendar.never_matches() { Err("never fires: no day has this date".into()) } else { Ok((calendar, timing)) }
    }

    /// Whether no date and time matches. Weekdays and leap years repeat after 28 years.
    fn never_matches(&self) -> bool {
        const YEARS: Range<i32> = 2000..2028;
        let minutes = |year| NaiveDate::from_ymd_opt(year, 1, 1).map_or(0, start_of);
        self.first_in(minutes(YEARS.start)..minutes(YEARS.end), None).is_none()
    }

    /// The first minute of `range` that matches, and that `except` does not match.
    pub(super) fn first_in(&self, range: Range<LocalMinute>, except: Option<&Self>) -> Option<LocalMinute> {
        if range.is_empty() {
            return None;
        }
        let from = date_of(range.start)?;
        let mut month = first_of_month(from);
        let mut days = self.days_in(month) & (u32::MAX << from.day());
        while start_of(month) < range.end {
            let except_days = except.map_or(0, |except| except.days_in(month));
            if except.is_some_and(|except| self.same_times_as_part_of(except)) {
                days &= !except_days;
            }
            for day in ones(days) {
                let midnight = start_of(month) + i64::from(day - 1) * MINUTES_OF_DAY;
                let except = except.filter(|_| except_days & 1 << day != 0);
                if let Some(time) = self.first_time(range.start - midnight, except) {
                    return Some(midnight + time).filter(|found| *found < range.end);
                }
            }
            month = month.checked_add_months(Months::new(1))?;
            days = self.days_in(month);
        }
        None
    }

    /// The last minute of `range` that matches.
    pub(super) fn last_in(&self, range: Range<LocalMinute>) -> Option<LocalMinute> {
        if range.is_empty() {
            return None;
        }
        let last = range.end - 1;
        let until = date_of(last)?;
        let mut month = first_of_month(until);
        let mut days = self.days_in(month) & !(u32::MAX << 1 << until.day());
        loop {
            while let Some(day) = days.checked_ilog2() {
                days &= !(1 << day);
                let midnight = start_of(month) + i64::from(day - 1) * MINUTES_OF_DAY;
                if let Some(time) = self.last_time(last - midnight) {
                    return Some(midnight + time).filter(|found| *found >= range.start);
                }
            }
            if start_of(month) <= range.start {
                return None;
            }
            month = month.checked_sub_months(Months::new(1))?;
            days = self.days_in(month);
        }
    }

    /// The days that match in the month that starts at `first`, as bits 1 to 31.
    fn days_in(&self, first: NaiveDate) -> u32 {
        if self.months & 1 << first.month() == 0 {
            return 0;
        }
        // Turn the week so that bit 0 is the weekday of the month's first day, then repeat it five times.
        let turn = first.weekday().num_days_from_sunday();
        let week = u64::from(self.days_of_week);
        let week = (week >> turn | week << (7 - turn)) & u64::from(ALL_DAYS_OF_WEEK);
        let weeks = (week * (1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28)) << 1;
        let by_week = u32::try_from(weeks & u64::from(u32::MAX)).expect("masked to 32 bits");
        let days = if self.both_days { self.days_of_month & by_week } else { self.days_of_month | by_week };
        days & !(u32::MAX << 1 << first.num_days_in_month())
    }

    /// The first minute of a day, at or after `from`, at which this calendar's times match and those of `except` do not.
    fn first_time(&self, from: i64, except: Option<&Self>) -> Option<i64> {
        let (from_hour, from_minute) = hour_and_minute(from.max(0))?;
        ones(self.hours & (u32::MAX << from_hour)).find_map(|hour| {
            let mut minutes = self.minutes;
            if hour == from_hour {
                minutes &= u64::MAX << from_minute;
            }
            if let Some(except) = except.filter(|except| except.hours & 1 << hour != 0) {
                minutes &= !except.minutes;
            }
            let minute = (minutes != 0).then(|| minutes.trailing_zeros())?;
            Some(i64::from(hour) * MINUTES_OF_HOUR + i64::from(minute))
        })
    }

    /// The last minute of a day, at or before `until`, at which this calendar's times match.
    fn last_time(&self, until: i64) -> Option<i64> {
        let (until_hour, until_minute) = hour_and_minute(until.min(MINUTES_OF_DAY - 1))?;
        let last = |hour: u32, minutes: u64| {
            let minute = minutes.checked_ilog2()?;
            Some(i64::from(hour) * MINUTES_OF_HOUR + i64::from(minute))
        };
        let this_hour = (self.hours & 1 << until_hour != 0)
            .then(|| last(until_hour, self.minutes & !(u64::MAX << 1 << until_minute)))
            .flatten();
        this_hour.or_else(|| last((self.hours & !(u32::MAX << until_hour)).checked_ilog2()?, self.minutes))
    }

    fn same_times_as_part_of(&self, other: &Self) -> bool {
        self.hours & !other.hours == 0 && self.minutes & !other.minutes == 0
    }
}

/// How the two day fields combine: both must match if one has a star with step 1, else one is enough. Fields that
/// match every day get one form.
fn days(of_month: Values, of_week: Values) -> (u32, u8, bool) {
    let both = of_month.every || of_week.every;
    let (of_month, of_week) = (low_u32(of_month), u8::try_from(of_week.bits).expect("a day of the week is at most 6"));
    if !both && (of_month == ALL_DAYS_OF_MONTH || of_week == ALL_DAYS_OF_WEEK) {
        return (ALL_DAYS_OF_MONTH, ALL_DAYS_OF_WEEK, true);
    }
    (of_month, of_week, both)
}

fn low_u32(values: Values) -> u32 {
    u32::try_from(values.bits).expect("the field's values are at most 31")
}

fn ones(mut bits: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(lowest)
    })
}

fn date_of(minute: LocalMinute) -> Option<NaiveDate> {
    NaiveDate::from_epoch_days(i32::try_from(minute.div_euclid(MINUTES_OF_DAY)).ok()?)
}

fn first_of_month(date: NaiveDate) -> NaiveDate {
    date - Days::new(u64::from(date.day0()))
}

fn start_of(date: NaiveDate) -> LocalMinute {
    i64::from(date.to_epoch_days()) * MINUTES_OF_DAY
}

/// Hour and minute of a minute of the day; `None` outside the day.
fn hour_and_minute(minute: i64) -> Option<(u32, u32)> {
    let minute = u32::try_from(minute).ok().filter(|minute| i64::from(*minute) < MINUTES_OF_DAY)?;
    Some((minute / 60, minute % 60))
}
