//! Reads the body of a successful reply of the query API.
//!
//! Invariants:
//! - A number comes out only of a reply that says so: exactly one series, or a scalar. A reply that says nothing is an
//!   error, and never "no value".
//! - The body is bounded in depth before it is decoded, and series after the first are counted, not kept.
//! - Nothing that the server sent is in an error but the number of series.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::Value;
use crate::sampler::SampleError;

/// Nesting of a reply: real ones have six.
const MAX_DEPTH: usize = 16;

const NOT_A_REPLY: SampleError = SampleError::Malformed("it is not the JSON of Prometheus' query API");

/// What a reply says.
#[derive(Debug)]
pub struct Answer {
    /// The value.
    pub value: Value,
    /// Why a part of the data behind it may be missing.
    pub partial: Option<&'static str>,
}

/// Reads the body of a reply whose HTTP status is a success.
pub fn read(body: &[u8]) -> Result<Answer, SampleError> {
    if !is_shallow(body) {
        return Err(SampleError::Malformed("its JSON is nested too deeply"));
    }
    let envelope: Envelope = serde_json::from_slice(body).map_err(|_| NOT_A_REPLY)?;
    match envelope.status.as_deref() {
        Some("error") => return Err(server_error(envelope.error_type.as_deref())),
        // Some servers that only resemble Prometheus leave it out; the result tells.
        Some("success") | None => {}
        Some(_) => return Err(NOT_A_REPLY),
    }
    let data = envelope.data.unwrap_or_default();
    let result = data.result.ok_or(NOT_A_REPLY)?;
    let value = match data.result_type.as_deref() {
        Some("vector") | None => vector(result)?,
        Some("scalar") => number(&result)?,
        Some("matrix") => return Err(SampleError::RefusedQuery("it returns ranges; it must return one instant value")),
        Some("string") => return Err(SampleError::RefusedQuery("it returns a string; it must return a number")),
        Some(_) => return Err(SampleError::Malformed("its resultType is unknown")),
    };
    let warned = envelope.warnings.is_some_and(|warnings| warnings.count > 0);
    let partial = if warned {
        Some("the reply has warnings, so that a part may be missing")
    } else {
        envelope.is_partial.unwrap_or_default().then_some("the reply is partial")
    };
    Ok(Answer { value, partial })
}

/// A reply that is an error with a successful HTTP status.
fn server_error(kind: Option<&str>) -> SampleError {
    match kind {
        Some("bad_data") => SampleError::RefusedQuery("bad PromQL or parameters"),
        Some("execution") => SampleError::RefusedQuery("it cannot be evaluated"),
        _ => SampleError::NotReady("the reply is an error"),
    }
}

/// The value of the only series.
fn vector(result: Few<Element>) -> Result<Value, SampleError> {
    let series = match (result.count, result.first) {
        (0, _) | (_, None) => return Ok(Value { number: None, timestamp: None }),
        (_, Some(Element::Plain(_))) => return Err(NOT_A_REPLY),
        (1, Some(Element::Series(series))) => series,
        (count, Some(Element::Series(_))) => return Err(SampleError::ManySeries(count)),
    };
    match series.value {
        Some(pair) => number(&pair),
        None if series.other => {
            Err(SampleError::RefusedQuery("it returns ranges or histograms; it must return one instant value"))
        }
        None => Ok(Value { number: None, timestamp: None }),
    }
}

/// `[timestamp, "number"]`.
fn number(pair: &Few<Element>) -> Result<Value, SampleError> {
    let (Some(timestamp), Some(value)) = (&pair.first, &pair.second) else {
        return if pair.count == 0 {
            Ok(Value { number: None, timestamp: None })
        } else {
            Err(SampleError::Malformed("its value has no number"))
        };
    };
    let timestamp = match timestamp {
        Element::Plain(Plain::Number(seconds)) => Some(*seconds),
        Element::Plain(Plain::Text(seconds)) => seconds.parse().ok(),
        _ => None,
    };
    let number = match value {
        Element::Plain(Plain::Null) => None,
        Element::Plain(Plain::Number(number)) => Some(*number),
        Element::Plain(Plain::Text(text)) => finite(text)?,
        _ => return Err(SampleError::Malformed("its value has no number")),
    };
    if pair.count > 2 {
        return Err(SampleError::Malformed("its value has more than a time and a number"));
    }
    Ok(Value { number, timestamp: timestamp.filter(|seconds: &f64| seconds.is_finite()) })
}

/// A number as Go writes it; `None` for NaN and the infinities, which mean that there is none.
fn finite(text: &str) -> Result<Option<f64>, SampleError> {
    let unreadable = SampleError::Malformed("its value is not a number");
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        // 1e999 is no infinity that the server meant.
        Ok(_) if !text.bytes().any(|b| b.is_ascii_digit()) => Ok(None),
        Ok(_) | Err(_) => Err(unreadable),
    }
}

/// Whether brackets outside strings are nested at most [`MAX_DEPTH`] deep.
fn is_shallow(body: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return false;
        }
    }
    true
}

#[derive(Deserialize)]
struct Envelope {
    status: Option<String>,
    data: Option<Payload>,
    #[serde(rename = "errorType")]
    error_type: Option<String>,
    warnings: Option<Few<IgnoredAny>>,
    /// VictoriaMetrics' cluster says it.
    #[serde(rename = "isPartial")]
    is_partial: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Payload {
    #[serde(rename = "resultType")]
    result_type: Option<String>,
    result: Option<Few<Element>>,
}

/// A list of which the first two are kept, and all are counted.
struct Few<T> {
    first: Option<T>,
    second: Option<T>,
    count: usize,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
                let first = list.next_element()?;
                let second = if first.is_some() { list.next_element()? } else { None };
                let mut count = usize::from(first.is_some()) + usize::from(second.is_some());
                if second.is_some() {
                    while list.next_element::<IgnoredAny>()?.is_some() {
                        count += 1;
                    }
                }
                Ok(Few { first, second, count })
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// What is in `result`, or in a `value`: a series or a plain value.
enum Element {
    Series(Box<Series>),
    Plain(Plain),
}

enum Plain {
    Null,
    Number(f64),
    Text(String),
    Other,
}

/// One series of a vector.
#[derive(Default)]
struct Series {
    value: Option<Few<Element>>,
    /// Whether it has `values` or `histogram`, which are no instant number.
    other: bool,
}

impl<'de> Deserialize<'de> for Element {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnElement)
    }
}

struct AnElement;

impl<'de> Visitor<'de> for AnElement {
    type Value = Element;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series or a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Element, A::Error> {
        let mut series = Series::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "value" => series.value = map.next_value()?,
                "values" | "histogram" | "histograms" => {
                    map.next_value::<IgnoredAny>()?;
                    series.other = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Element::Series(Box::new(series)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Element, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Element::Plain(Plain::Other))
    }

    fn visit_unit<E>(self) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Null))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Other))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Number(number)))
    }

    #[expect(clippy::cast_precision_loss, reason = "a value over 2^53 saturates, and a time is not near it")]
    fn visit_u64<E>(self, number: u64) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Number(number as f64)))
    }

    #[expect(clippy::cast_precision_loss, reason = "a value under 0 is only compared")]
    fn visit_i64<E>(self, number: i64) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Number(number as f64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Element, E> {
        Ok(Element::Plain(Plain::Text(text.to_owned())))
    }
}

#[cfg(test)]
mod tests;
