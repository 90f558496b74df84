//! Logs on standard error: text for a terminal, a JSON object a line elsewhere.
//!
//! Invariants:
//! - Below `info` only Tidegate's own code is heard, whatever filter is asked for: what others trace (whole replies,
//!   statuses with their metadata, handshakes) may hold a tenant's secrets. The `log` crate is not listened to at all.
//! - A field is at most 256 bytes, and what is not printable in it is escaped: no text from outside starts a line, moves
//!   a cursor or fills a disk.
//! - Spans are not written, so that nothing of theirs needs the same care.
//! - Of a panic only the place is written: its message may quote what it failed on.

mod line;

use std::{
    env,
    io::{IsTerminal, stderr},
    panic,
};

use tracing::{Level, Metadata, subscriber::SetGlobalDefaultError};
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{ParseError, filter_fn},
    fmt::{self, MakeWriter},
    layer::SubscriberExt,
};

use self::line::Line;

/// The filter, unless `--log-level` gives one.
const VARIABLE: &str = "TIDEGATE_LOG";

/// What is heard of others unless the filter names them: they report as an event what here is an ordinary answer.
const QUIET: &str = "axum=warn,h2=warn,hyper=warn,hyper_util=warn,lapin=off,reqwest=warn,rustls=warn,tokio_util=warn,tonic=warn,\
                     tower=warn,info";

/// Tidegate's crates begin so.
const OWN: &str = "tidegate";

/// Why there are no logs.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error("the log filter (--log-level, TIDEGATE_LOG) is wrong: {0}")]
    Filter(#[from] ParseError),
    /// This process has logs already.
    #[error(transparent)]
    Started(#[from] SetGlobalDefaultError),
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Text { colour: bool },
    Json,
}

/// Starts the logs of this process, and reports its panics there. `filter` has the syntax of [`EnvFilter`]; without it
/// `TIDEGATE_LOG` counts, and without that `default`.
pub fn start(filter: Option<&str>, default: Level) -> Result<(), LogsError> {
    let variable = env::var(VARIABLE).ok();
    let filter = filter.or(variable.as_deref()).unwrap_or(default.as_str());
    let style =
        if stderr().is_terminal() { Style::Text { colour: env::var_os("NO_COLOR").is_none() } } else { Style::Json };
    tracing::subscriber::set_global_default(subscriber(filter, style, stderr)?)?;
    panic::set_hook(Box::new(report_panic));
    Ok(())
}

fn subscriber<W>(filter: &str, style: Style, writer: W) -> Result<impl tracing::Subscriber + Send + Sync, ParseError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // Of two directives for the same target the later one counts.
    let filter = EnvFilter::builder().parse(format!("{QUIET},{filter}"))?;
    let lines = fmt::layer().with_writer(writer).event_format(Line { style });
    Ok(Registry::default().with(lines.with_filter(filter).with_filter(filter_fn(is_fit_to_print))))
}

/// The rule that no filter can lift.
fn is_fit_to_print(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO || metadata.target().starts_with(OWN)
}

fn report_panic(panic: &panic::PanicHookInfo<'_>) {
    let (file, line) = panic.location().map_or(("", 0), |place| (place.file(), place.line()));
    tracing::error!(file, line, "panicked");
}

#[cfg(test)]
mod tests;
