//! One event as one line.

use std::fmt::{self, Write};

use serde_json::{Map, Value, json};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

use super::Style;

/// The longest text of one field, in bytes.
const MAX_BYTES: usize = 256;

/// The field that `tracing`'s macros give the text to.
const MESSAGE: &str = "message";

/// Writes events one a line.
pub(super) struct Line {
    pub(super) style: Style,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _spans: &FmtContext<'_, S, N>, to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        match self.style {
            Style::Text { colour } => text(to, event, fields, colour),
            Style::Json => object(to, event, fields),
        }
    }
}

fn text(mut to: Writer<'_>, event: &Event<'_>, fields: Fields, colour: bool) -> fmt::Result {
    let level = *event.metadata().level();
    SystemTime.format_time(&mut to)?;
    match colour_of(level).filter(|_| colour) {
        Some(code) => write!(to, " \x1b[{code}m{level:>5}\x1b[0m")?,
        None => write!(to, " {level:>5}")?,
    }
    write!(to, " {}: {}", event.metadata().target(), fields.message)?;
    for (name, value) in fields.others {
        match value {
            // In quotes wherever it could be taken for more than one field.
            Value::String(text) if text.is_empty() || text.contains([' ', '"', '=']) => {
                write!(to, " {name}=\"{}\"", text.replace('"', "\\\""))?;
            }
            Value::String(text) => write!(to, " {name}={text}")?,
            other => write!(to, " {name}={other}")?,
        }
    }
    writeln!(to)
}

fn colour_of(level: Level) -> Option<u8> {
    match level {
        Level::ERROR => Some(31),
        Level::WARN => Some(33),
        _ => None,
    }
}

fn object(mut to: Writer<'_>, event: &Event<'_>, fields: Fields) -> fmt::Result {
    let mut timestamp = String::new();
    SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
    let others: Map<_, _> = fields.others.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let line = json!({
        "timestamp": timestamp,
        "level": event.metadata().level().as_str(),
        "target": event.metadata().target(),
        "message": fields.message,
        "fields": others,
    });
    writeln!(to, "{line}")
}

/// What an event says, ready to print.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.others.push((field.name(), value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = bounded(format_args!("{value:?}"));
        if field.name() == MESSAGE {
            self.message = text;
        } else {
            self.put(field, text.into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record_debug(field, &value);
    }
}

/// `text` without what is not printable, and cut at [`MAX_BYTES`].
fn bounded(text: fmt::Arguments<'_>) -> String {
    let mut bounded = Bounded(String::new());
    // The only error is that it is full, and then what is in it is the answer.
    let _ = bounded.write_fmt(text);
    bounded.0
}

struct Bounded(String);

impl Bounded {
    const CUT: char = '…';

    fn push(&mut self, piece: impl fmt::Display, length: usize) -> fmt::Result {
        if self.0.len() + length > MAX_BYTES - Self::CUT.len_utf8() {
            self.0.push(Self::CUT);
            return Err(fmt::Error);
        }
        write!(self.0, "{piece}")
    }
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c {
            '"' | '\'' | '\\' => self.push(c, 1),
            // Controls, line and paragraph separators, marks of direction, and what has no glyph.
            c => {
                let escaped = c.escape_debug();
                let length = escaped.clone().map(char::len_utf8).sum();
                self.push(escaped, length)
            }
        })
    }
}
