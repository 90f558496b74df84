//! How a trigger judges the value that a server answered.
//!
//! Invariants:
//! - A metric's value is finite, not negative and at most 2^53; activity compares the server's own number.
//! - Where there is no number, `ignoreNullValues` decides between 0 and an error; nothing else makes a 0.

use super::Value;
use crate::{
    sampler::{Reading, SampleError},
    trigger::Detail,
};

/// The greatest value: every integer up to it is exact as `f64`.
const MAX_VALUE: f64 = 9_007_199_254_740_992.0; // 2^53

/// How a value is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// `activationThreshold`; it may be negative.
    pub activation: f64,
    /// `ignoreNullValues`: no number is 0.
    pub ignore_null_values: bool,
}

impl Threshold {
    /// The value and the activity that `value` means.
    pub fn reading(&self, value: &Value) -> Result<Reading, SampleError> {
        let number = match value.number {
            Some(number) => number,
            None if self.ignore_null_values => 0.0,
            None => return Err(SampleError::NoValue),
        };
        // `max` may give the other zero, `-0`.
        Ok(Reading { value: number.clamp(0.0, MAX_VALUE) + 0.0, active: number > self.activation })
    }

    /// What the server answered.
    pub fn detail(&self, value: &Value) -> Vec<Detail> {
        let note = value.number.is_none().then_some(if self.ignore_null_values {
            "no value, which ignoreNullValues makes 0"
        } else {
            "no value"
        });
        let mut line: Detail = vec![("number", value.number.into()), ("timestamp", value.timestamp.into())];
        line.extend(note.map(|note| ("note", note.into())));
        vec![line]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: Option<f64>, activation: f64, ignore_null_values: bool, expected: Option<(f64, bool)>) {
        let threshold = Threshold { activation, ignore_null_values };
        let reading = threshold.reading(&Value { number, timestamp: None });
        match (reading, expected) {
            (Ok(Reading { value, active }), Some(expected)) => {
                assert_eq!((value, active), expected, "{number:?}");
                assert!(value.is_sign_positive());
            }
            (Err(SampleError::NoValue), None) => {}
            (other, _) => panic!("{number:?}: {other:?}"),
        }
    }

    #[test]
    fn active_is_over_the_threshold() {
        check(Some(20.0), 20.0, true, Some((20.0, false)));
        check(Some(20.5), 20.0, true, Some((20.5, true)));
        check(Some(0.0), 0.0, true, Some((0.0, false)));
    }

    #[test]
    fn b94_no_series_is_zero_or_an_error() {
        check(None, 0.0, true, Some((0.0, false)));
        check(None, 0.0, false, None);
        check(None, -1.0, true, Some((0.0, true))); // 0 is over -1
    }

    #[test]
    fn b112_floats_are_exact_and_saturate() {
        check(Some(0.25), 0.0, true, Some((0.25, true)));
        check(Some(0.0004), 0.0, true, Some((0.0004, true))); // KEDA rounds it to 0, and the Worker is active
        check(Some(9.0e15), 0.0, true, Some((9.0e15, true)));
        check(Some(9.3e15), 0.0, true, Some((MAX_VALUE, true)));
        check(Some(1e19), 0.0, true, Some((MAX_VALUE, true)));
    }

    #[test]
    fn b113_negatives_are_active_and_zero() {
        check(Some(-0.5), -1.0, true, Some((0.0, true)));
        check(Some(-1.0), -1.0, true, Some((0.0, false)));
        check(Some(-0.0), 0.0, true, Some((0.0, false)));
    }
}
