//! The rule once more, as plainly as it can be written: walk every minute of a year and look at the clock on the wall.
//!
//! Shares nothing with the code it checks but the text of the schedules: times come from chrono-tz, fields are sets.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Datelike, Duration as Span, NaiveDateTime, TimeZone, Timelike};
use chrono_tz::Tz;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{WindowState, cases::window};

/// What a clock and a calendar on the wall show: minute, hour, day, month, weekday.
type Shown = [u8; 5];

/// A minute as an observer of one clock sees it.
struct Seen {
    utc: i64,
    local: Shown,
    /// Whether the clock shows this minute for the first time.
    first: bool,
    /// The minutes that the clock left out just before.
    skipped: Vec<Shown>,
}

fn shown(at: NaiveDateTime) -> Shown {
    [at.minute(), at.hour(), at.day(), at.month(), at.weekday().num_days_from_sunday()]
        .map(|value| u8::try_from(value).unwrap())
}

fn walk(tz: Tz) -> Vec<Seen> {
    let start = DateTime::parse_from_rfc3339("2025-11-20T00:00:00Z").unwrap().timestamp();
    let mut latest: Option<NaiveDateTime> = None;
    let minute = |utc: i64| {
        let local = tz.from_utc_datetime(&DateTime::from_timestamp(utc, 0).unwrap().naive_utc()).naive_local();
        let first = latest.is_none_or(|latest| local > latest);
        let mut skipped = Vec::new();
        while let Some(between) = latest.map(|latest| latest + Span::minutes(1)).filter(|between| *between < local) {
            skipped.push(shown(between));
            latest = Some(between);
        }
        latest = latest.max(Some(local));
        Seen { utc, local: shown(local), first, skipped }
    };
    (0..400 * 24 * 60).map(|n| start + n * 60).map(minute).collect()
}

struct Field {
    text: String,
    matches: [bool; 60],
    star: bool,
}

impl Field {
    fn new(text: String, values: impl IntoIterator<Item = usize>) -> Self {
        let mut matches = [false; 60];
        values.into_iter().for_each(|value| matches[value] = true);
        let star = matches!(text.as_str(), "*" | "?" | "*/1");
        Self { text, matches, star }
    }
}

/// A field with `chance` of a star, else a list, a range, or a step.
fn field(random: &mut StdRng, min: usize, max: usize, chance: f64) -> Field {
    if random.random_bool(chance) {
        return Field::new(["*", "?"].choose(random).unwrap().to_string(), min..=max);
    }
    let low = random.random_range(min..=max);
    let high = random.random_range(low..=max);
    let step = random.random_range(1..=max / 2);
    match random.random_range(0..6) {
        0 | 1 => Field::new(format!("{low}"), [low]),
        2 => Field::new(format!("{low},{high}"), [low, high]),
        3 => Field::new(format!("{low}-{high}"), low..=high),
        4 => {
            Field::new(format!("{low}-{high}/{step}"), (low..=high).filter(|value| (value - low).is_multiple_of(step)))
        }
        _ => Field::new(format!("*/{step}"), (min..=max).filter(|value| (value - min).is_multiple_of(step))),
    }
}

struct Schedule {
    fields: [Field; 5],
    interval: bool,
}

impl Schedule {
    fn random(random: &mut StdRng) -> Self {
        let mut hour = field(random, 0, 23, 0.2);
        if random.random_bool(0.5) {
            let value = random.random_range(0..=3); // the hours in which clocks change
            hour = Field::new(value.to_string(), [value]);
        }
        let minute = field(random, 0, 59, 0.1);
        let [day, month, weekday] = [(1, 31, 0.7), (1, 12, 0.9), (0, 6, 0.7)].map(|(a, b, c)| field(random, a, b, c));
        let interval = [&minute, &hour].iter().any(|field| field.text.contains(['*', '?']));
        Self { fields: [minute, hour, day, month, weekday], interval }
    }

    fn text(&self) -> String {
        self.fields.each_ref().map(|field| field.text.as_str()).join(" ")
    }

    fn matches(&self, shown: Shown) -> bool {
        let field = |n: usize| self.fields[n].matches[usize::from(shown[n])];
        let either = !self.fields[2].star && !self.fields[4].star;
        field(0) && field(1) && field(3) && if either { field(2) || field(4) } else { field(2) && field(4) }
    }

    fn fires(&self, seen: &Seen) -> bool {
        if self.interval {
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
