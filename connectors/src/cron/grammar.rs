//! The text of one cron field, by the rules of robfig/cron v3, which KEDA uses.
//!
//! Invariants:
//! - Whatever robfig/cron rejects is rejected: reversed ranges, a step of 0, 7 as a day of the week, `L`, `W`, `#`.
//! - Empty items of a list are skipped, so that a lone comma is a field that never matches.
//! - One thing that robfig/cron accepts is rejected: `*-5`, which it takes for `*`, whatever follows the hyphen.
//! - A problem's text never holds what the tenant wrote.

/// One of the five fields of a schedule.
pub(super) struct Field {
    name: &'static str,
    min: u8,
    max: u8,
    /// Names of the values from `min` on.
    words: &'static [&'static str],
    bounds: &'static str,
}

pub(super) const MINUTE: Field = Field { name: "minute", min: 0, max: 59, words: &[], bounds: "must be within 0-59" };
pub(super) const HOUR: Field = Field { name: "hour", min: 0, max: 23, words: &[], bounds: "must be within 0-23" };
pub(super) const DAY_OF_MONTH: Field =
    Field { name: "day of month", min: 1, max: 31, words: &[], bounds: "must be within 1-31" };
pub(super) const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    bounds: "must be within 1-12 or JAN-DEC",
};
pub(super) const DAY_OF_WEEK: Field = Field {
    name: "day of week",
    min: 0,
    max: 6,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    bounds: "must be within 0-6 or SUN-SAT; Sunday is 0, not 7",
};

/// The values that a field matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// Bit `n` is value `n`.
    pub(super) bits: u64,
    /// Whether an item is `*` or `?` with a step of 1: it decides how the two day fields combine.
    pub(super) every: bool,
    /// Whether an item is `*` or `?` with any step: it tells an interval from a fixed time.
    pub(super) wildcard: bool,
}

const SYNTAX: &str = "must be made of numbers, names, ranges, lists and steps; L, W and # are not supported";

impl Field {
    /// Reads `text`.
    pub(super) fn parse(&self, text: &str) -> Result<Values, String> {
        let mut values = Values::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let item = self.item(item).map_err(|problem| format!("{} {problem}", self.name))?;
            values.bits |= item.bits;
            values.every |= item.every;
            values.wildcard |= item.wildcard;
        }
        Ok(values)
    }

    fn item(&self, text: &str) -> Result<Values, &'static str> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (text, None),
        };
        let wildcard = matches!(range, "*" | "?");
        let (low, high) = if wildcard {
            (self.min, self.max)
        } else if let Some((low, high)) = range.split_once('-') {
            (self.value(low)?, self.value(high)?)
        } else {
            let value = self.value(range)?;
            (value, if step.is_some() { self.max } else { value })
        };
        if low > high {
            return Err("has a range whose end is before its start");
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
        if step == 0 {
            return Err("has a step of 0");
        }
        let bits = (low..=high).step_by(step).fold(0, |bits, value| bits | 1 << value);
        Ok(Values { bits, every: wildcard && step == 1, wildcard })
    }

    fn value(&self, text: &str) -> Result<u8, &'static str> {
        if let Some(value) = (self.min..).zip(self.words).find(|(_, word)| text.eq_ignore_ascii_case(word)) {
            return Ok(value.0);
        }
        let number = number(text)?;
        u8::try_from(number).ok().filter(|value| (self.min..=self.max).contains(value)).ok_or(self.bounds)
    }
}

/// Go's `strconv.Atoi` without the minus sign.
fn number(text: &str) -> Result<i64, &'static str> {
    text.parse().ok().filter(|number| *number >= 0).ok_or(SYNTAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn values(field: &Field, text: &str, expected: &[u8]) {
        let bits = expected.iter().fold(0, |bits, value| bits | 1 << value);
        assert_eq!(field.parse(text).map(|values| values.bits), Ok(bits), "{text}");
    }

    #[test]
    fn fields_are_read_as_in_robfig_cron() {
        values(&MINUTE, "5", &[5]);
        values(&MINUTE, "05", &[5]);
        values(&MINUTE, "+5", &[5]);
        values(&MINUTE, "5,6,7", &[5, 6, 7]);
        values(&MINUTE, "1,5-7/2,3", &[1, 3, 5, 7]);
        values(&MINUTE, "5-6/2", &[5]);
        values(&MINUTE, "50/3", &[50, 53, 56, 59]);
        values(&MINUTE, "*/1000", &[0]);
        values(&MINUTE, "0/15", &[0, 15, 30, 45]);
        values(&HOUR, "?", &(0..24).collect::<Vec<_>>());
        values(&HOUR, "*/6", &[0, 6, 12, 18]);
        values(&DAY_OF_MONTH, "*/10", &[1, 11, 21, 31]);
        values(&MONTH, "Jan,JUN-aug", &[1, 6, 7, 8]);
        values(&DAY_OF_WEEK, "MON-FRI", &[1, 2, 3, 4, 5]);
        values(&DAY_OF_WEEK, "Mon/2", &[1, 3, 5]);
        values(&DAY_OF_WEEK, "sun-2", &[0, 1, 2]);
    }

    #[test]
    fn empty_items_of_a_list_are_skipped() {
        values(&MINUTE, "0,,5", &[0, 5]);
        values(&MINUTE, ",5,", &[5]);
        values(&MINUTE, ",", &[]);
    }

    #[test]
    fn stars_are_told_apart() {
        for (text, every, wildcard) in [
            ("*", true, true),
            ("?", true, true),
            ("*/1", true, true),
            ("5,*", true, true),
            ("*/2", false, true),
            ("0-59", false, false),
            ("0/1", false, false),
        ] {
            let values = MINUTE.parse(text).unwrap();
            assert_eq!((values.every, values.wildcard), (every, wildcard), "{text}");
        }
    }

    #[test]
    fn what_robfig_cron_rejects_is_rejected() {
        for (field, text) in [
            (&MINUTE, "60"),
            (&MINUTE, "-5"),
            (&MINUTE, "5-"),
            (&MINUTE, "5-1"),
            (&MINUTE, "1-2-3"),
            (&MINUTE, "1/2/3"),
            (&MINUTE, "*/0"),
            (&MINUTE, "*/"),
            (&MINUTE, "*/-1"),
            (&MINUTE, "/5"),
            (&MINUTE, "**"),
            (&MINUTE, "1.5"),
            (&MINUTE, "0x5"),
            (&MINUTE, "99999999999999999999"),
            (&MINUTE, "H"),
            (&HOUR, "24"),
            (&HOUR, "22-2"),
            (&DAY_OF_MONTH, "0"),
            (&DAY_OF_MONTH, "32"),
            (&DAY_OF_MONTH, "L"),
            (&DAY_OF_MONTH, "15W"),
            (&MONTH, "13"),
            (&MONTH, "january"),
            (&DAY_OF_WEEK, "7"),
            (&DAY_OF_WEEK, "5L"),
            (&DAY_OF_WEEK, "1#2"),
            (&DAY_OF_WEEK, "fri-mon"),
            (&DAY_OF_WEEK, "jan"),
        ] {
            assert!(field.parse(text).is_err(), "{} {text}", field.name);
        }
        assert!(MINUTE.parse("*-5").is_err(), "robfig/cron reads it as a star");
    }
}
