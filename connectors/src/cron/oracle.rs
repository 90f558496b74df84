//! The rule once more, as plainly as it can be written: walk every minute of a year and look at the clock on the wall.
//!
//! Shares nothing with the code it checks but the text of the schedules: times come from chrono-tz, fields are sets.

use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Datelike, Duration as Span, NaiveDateTime, TimeZone, Timelike};
use chrono_tz::Tz;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{WindowState, cases::window};

/// A minute as an observer of one clock sees it.
struct Seen {
    utc: i64,
    local: NaiveDateTime,
    /// Whether the clock shows this minute for the first time.
    first: bool,
    /// The minutes that the clock left out just before.
    skipped: Vec<NaiveDateTime>,
}

fn walk(tz: Tz) -> Vec<Seen> {
    let start = DateTime::parse_from_rfc3339("2025-11-20T00:00:00Z").unwrap().timestamp();
    let mut shown = HashSet::new();
    let mut last: Option<NaiveDateTime> = None;
    let minute = |utc: i64| {
        let local = tz.from_utc_datetime(&DateTime::from_timestamp(utc, 0).unwrap().naive_utc()).naive_local();
        let mut skipped = Vec::new();
        while let Some(between) = last.map(|last| last + Span::minutes(1)).filter(|between| *between < local) {
            skipped.push(between);
            last = Some(between);
        }
        last = Some(local);
        Seen { utc, local, first: shown.insert(local), skipped }
    };
    (0..400 * 24 * 60).map(|n| start + n * 60).map(minute).collect()
}

struct Field {
    text: String,
    values: BTreeSet<u32>,
    star: bool,
}

/// A field with `chance` of a star, else a list, a range, or a step.
fn field(random: &mut StdRng, min: u32, max: u32, chance: f64) -> Field {
    if random.random_bool(chance) {
        return Field {
            text: ["*", "?"].choose(random).unwrap().to_string(),
            values: (min..=max).collect(),
            star: true,
        };
    }
    let low = random.random_range(min..=max);
    let high = random.random_range(low..=max);
    let step = random.random_range(1..=max / 2);
    let stepped = |from: u32, to: u32| (from..=to).filter(|value| (value - from) % step == 0).collect();
    let (text, values) = match random.random_range(0..6) {
        0 | 1 => (format!("{low}"), BTreeSet::from([low])),
        2 => (format!("{low},{high}"), BTreeSet::from([low, high])),
        3 => (format!("{low}-{high}"), (low..=high).collect()),
        4 => (format!("{low}-{high}/{step}"), stepped(low, high)),
        _ => (format!("*/{step}"), stepped(min, max)),
    };
    let star = text == "*/1";
    Field { text, values, star }
}

struct Schedule {
    fields: [Field; 5],
}

impl Schedule {
    fn random(random: &mut StdRng) -> Self {
        // Most hours are among those that clocks change in.
        let mut hour = field(random, 0, 23, 0.2);
        if random.random_bool(0.5) {
            let value = random.random_range(0..=3);
            hour = Field { text: value.to_string(), values: BTreeSet::from([value]), star: false };
        }
        let minute = field(random, 0, 59, 0.1);
        let [day, month, weekday] = [(1, 31, 0.7), (1, 12, 0.9), (0, 6, 0.7)].map(|(a, b, c)| field(random, a, b, c));
        Self { fields: [minute, hour, day, month, weekday] }
    }

    fn text(&self) -> String {
        self.fields.each_ref().map(|field| field.text.as_str()).join(" ")
    }

    fn matches(&self, at: NaiveDateTime) -> bool {
        let [minute, hour, day, month, weekday] = &self.fields;
        minute.values.contains(&at.minute())
            && hour.values.contains(&at.hour())
            && month.values.contains(&at.month())
            && {
                let by_day = day.values.contains(&at.day());
                let by_weekday = weekday.values.contains(&at.weekday().num_days_from_sunday());
                if day.star || weekday.star { by_day && by_weekday } else { by_day || by_weekday }
            }
    }

    fn fires(&self, seen: &Seen) -> bool {
        let interval = self.fields[..2].iter().any(|field| field.text.contains(['*', '?']));
        if interval {
            self.matches(seen.local)
        } else {
            seen.first && self.matches(seen.local) || seen.skipped.iter().any(|skipped| self.matches(*skipped))
        }
    }
}

/// The minutes at which the window turns, with what it turns to, after the first start and the first end.
fn turns(minutes: &[Seen], start: &Schedule, end: &Schedule) -> Vec<(i64, bool)> {
    let (mut last_start, mut last_end) = (None, None);
    let mut turns: Vec<(i64, bool)> = Vec::new();
    for seen in minutes {
        if start.fires(seen) {
            last_start = Some(seen.utc);
        }
        if end.fires(seen) {
            last_end = Some(seen.utc);
        }
        if last_start.is_some() && last_end.is_some() {
            let open = last_start >= last_end;
            if turns.last().is_none_or(|(_, before)| *before != open) {
                turns.push((seen.utc, open));
            }
        }
    }
    turns
}

fn check(random: &mut StdRng, tz: Tz, minutes: &[Seen]) -> usize {
    let (start, end) = (Schedule::random(random), Schedule::random(random));
    let turns = turns(minutes, &start, &end);
    let (start, end) = (start.text(), end.text());
    let window = window(tz.name(), &start, &end);
    let time = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap());
    for pair in turns.windows(2) {
        let [(from, open), (to, _)] = [pair[0], pair[1]];
        let expected = WindowState { open, changes: Some(time(to)) };
        for at in [from, random.random_range(from..to), to - 1] {
            assert_eq!(window.at(time(at)), expected, "{tz} start `{start}` end `{end}` at {at}");
        }
    }
    turns.len()
}

fn check_zone(tz: Tz) {
    let minutes = walk(tz);
    let mut random = StdRng::seed_from_u64(u64::try_from(tz.name().len()).unwrap());
    let turns: usize = (0..16).map(|_| check(&mut random, tz, &minutes)).sum();
    assert!(turns > 1000, "{turns} turns are too few to tell");
}

#[test]
fn a_year_in_new_york() {
    check_zone(chrono_tz::America::New_York);
}

#[test]
fn a_year_in_berlin() {
    check_zone(chrono_tz::Europe::Berlin);
}

#[test]
fn a_year_on_lord_howe() {
    check_zone(chrono_tz::Australia::Lord_Howe);
}
