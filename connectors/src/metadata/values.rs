//! The spelling of single values: what Go's `strconv`, `time.ParseDuration` and JSON accept, as KEDA uses them.

use std::{collections::BTreeSet, time::Duration};

type Parsed<T> = Result<T, &'static str>;

pub(super) fn boolean(text: &str) -> Parsed<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("must be true or false"),
    }
}

/// JSON's integers: no sign `+`, no leading zero, no fraction, no exponent.
pub(super) fn integer(text: &str) -> Parsed<i64> {
    const PROBLEM: &str = "must be an integer";
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { text.parse().map_err(|_| PROBLEM) } else { Err(PROBLEM) }
}

pub(super) fn float(text: &str) -> Parsed<f64> {
    const PROBLEM: &str = "must be a number";
    match serde_json::from_str::<serde_json::Number>(text).map_err(|_| PROBLEM)?.as_f64() {
        Some(number) if number.is_finite() => Ok(number),
        _ => Err(PROBLEM),
    }
}

/// Go's `time.ParseDuration`, else an integer of milliseconds.
pub(super) fn duration(text: &str) -> Parsed<Duration> {
    const PROBLEM: &str = "must be a duration like 30s or 1m30s, or an integer of milliseconds, and not negative";
    if let Ok(millis) = integer(text) {
        return u64::try_from(millis).map(Duration::from_millis).map_err(|_| PROBLEM);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(PROBLEM);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(PROBLEM)?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(PROBLEM),
        };
        total += number.parse::<f64>().map_err(|_| PROBLEM)? * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).map_err(|_| PROBLEM)
}

/// KEDA's list with ranges: trimmed items, `a-b` inclusive, a reversed range is an error here (cases.md B24).
pub(super) fn ranges(text: &str, at_most: usize) -> Parsed<Vec<i32>> {
    const PROBLEM: &str = "must be a list of partitions and ranges like 1,2,10-20";
    let number = |text: &str| -> Parsed<i32> {
        integer(text.trim()).ok().and_then(|n| i32::try_from(n).ok()).filter(|n| *n >= 0).ok_or(PROBLEM)
    };
    let mut numbers = BTreeSet::new();
    for item in text.split(',').map(str::trim) {
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(item)?, number(item)?),
        };
        if first > last {
            return Err("has a range whose end is before its start");
        }
        for n in first..=last {
            numbers.insert(n);
            if numbers.len() > at_most {
                return Err("names more partitions than the limit allows");
            }
        }
    }
    Ok(numbers.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_gos() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        for text in ["yes", "on", "tRUE", "2"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn integers_are_jsons() {
        assert_eq!(integer("-5"), Ok(-5));
        assert_eq!(integer("10"), Ok(10));
        assert_eq!(integer("0"), Ok(0));
        for text in ["10.0", "1e3", "+5", "010", "0x10", "1_000", "-", "9223372036854775808", "null"] {
            assert!(integer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_jsons() {
        for (text, number) in [("100", 100.0), ("0.5", 0.5), ("-1", -1.0), ("1e3", 1000.0)] {
            assert_eq!(float(text), Ok(number));
        }
        for text in [".5", "+1", "NaN", "Inf", "01", "0x1p3", "1e999", "null"] {
            assert!(float(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_gos_or_milliseconds() {
        let millis = Duration::from_millis;
        for (text, expected) in [
            ("1000", millis(1000)),
            ("30s", millis(30_000)),
            ("1m30s", millis(90_000)),
            ("0", millis(0)),
            ("1.5h", millis(5_400_000)),
            ("250ms", millis(250)),
        ] {
            assert_eq!(duration(text), Ok(expected), "{text}");
        }
        for text in ["-10", "-30s", "1.5", "abc", "30 s", "s", "+"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn b24_partition_lists() {
        for (text, expected) in [
            ("1", vec![1]),
            (" 1 , 2 , 3 ", vec![1, 2, 3]),
            ("3-3", vec![3]),
            (" 1 - 4 ", vec![1, 2, 3, 4]),
            (" 1, 3 - 5 ", vec![1, 3, 4, 5]),
            ("1-4,8,10-12", vec![1, 2, 3, 4, 8, 10, 11, 12]),
        ] {
            assert_eq!(ranges(text, 100), Ok(expected), "{text}");
        }
        for text in ["a,b,c", "1-2-3", "a-3", "1-b", "5-3", "a", "1,", "-1", "0-2147483647"] {
            assert!(ranges(text, 100).is_err(), "{text}");
        }
    }
}
