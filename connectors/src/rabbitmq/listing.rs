//! What the management API says of queues: pages of JSON, decoded and put together.
//!
//! Invariants:
//! - A counter that is not in a reply is not known; it is never 0.
//! - A listing is whole only if its pages agree with each other and hold as many queues as they say.
//! - How old the numbers may be is told with them: it depends on the kind of queue and of listing.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;

use super::{Query, Selection};
use crate::sampler::SampleError;

/// Queues a page; the server's own limit.
pub(super) const PAGE_SIZE: usize = 500;
/// Queues of a listing.
pub(super) const MAX_QUEUES: usize = 50_000;

/// How often a broker collects what its statistics show (`collect_statistics_interval`, 5 s), and a second more.
const STATISTICS_AGE: Duration = Duration::from_secs(6);
/// How often a quorum queue or a stream publishes its own counters (`quorum_tick_interval`, 5 s), and a second more. A
/// classic queue is asked by each listing of totals.
const TICK_AGE: Duration = Duration::from_secs(6);

/// Which numbers a listing shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Lengths, without statistics.
    Totals,
    /// Lengths and rates, as old as the broker's statistics.
    Statistics,
}

impl View {
    /// The part of the query string that asks for it.
    pub(super) const fn parameters(self) -> &'static str {
        match self {
            Self::Totals => {
                "disable_stats=true&enable_queue_totals=true&columns=name,type,state,messages,messages_ready"
            }
            Self::Statistics => {
                "columns=name,type,state,messages,messages_ready,message_stats.publish,message_stats.deliver_get,\
                 message_stats.publish_details.rate,message_stats.deliver_get_details.rate"
            }
        }
    }
}

/// One page.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) total_count: usize,
    pub(super) filtered_count: usize,
    #[serde(rename = "page_size")]
    pub(super) size: usize,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    state: Option<String>,
    messages: Option<u64>,
    messages_ready: Option<u64>,
    message_stats: Option<MessageStats>,
}

/// Erlang writes an object without members as a list without items.
#[derive(Deserialize)]
#[serde(untagged)]
enum MessageStats {
    Some(Rates),
    None([(); 0]),
}

#[derive(Deserialize)]
struct Rates {
    publish: Option<u64>,
    deliver_get: Option<u64>,
    publish_details: Option<Rate>,
    deliver_get_details: Option<Rate>,
}

#[derive(Deserialize)]
struct Rate {
    rate: Option<f64>,
}

/// What is known of one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) ready: Option<u64>,
    pub(super) messages: Option<u64>,
    pub(super) publish_rate: Option<f64>,
    pub(super) deliver_rate: Option<f64>,
    /// It has counted messages, but has no rates: the broker does not make any.
    pub(super) rates_off: bool,
    /// It serves: a queue that is down shows the last numbers, or none.
    pub(super) running: bool,
    /// How old the numbers may be.
    pub(super) settles: Duration,
}

impl Found {
    /// Takes from `other` what is not known.
    pub(super) fn complete_with(&mut self, other: &Self) {
        if self.messages.is_none() || self.ready.is_none() {
            (self.messages, self.ready) = (other.messages, other.ready);
            self.settles = self.settles.max(other.settles);
        }
        self.publish_rate = self.publish_rate.or(other.publish_rate);
        self.deliver_rate = self.deliver_rate.or(other.deliver_rate);
        self.rates_off |= other.rates_off;
    }

    pub(super) fn has_lengths(&self) -> bool {
        self.messages.is_some() && self.ready.is_some()
    }
}

/// The queues of a virtual host, or those of them that were asked for.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) queues: BTreeMap<String, Found>,
    /// Whether no queue is missing.
    pub(super) whole: bool,
}

/// Reads one page.
pub(super) fn decode(body: &[u8]) -> Result<Page, SampleError> {
    let page: Page = serde_json::from_slice(body).map_err(|_| SampleError::Malformed("it is not a page of queues"))?;
    if page.items.len() > PAGE_SIZE || !(1..=PAGE_SIZE).contains(&page.size) {
        return Err(SampleError::Malformed("a page of queues has another size than it was asked for"));
    }
    if page.filtered_count > MAX_QUEUES {
        return Err(SampleError::OverLimit { what: "queues in the virtual host", limit: MAX_QUEUES });
    }
    Ok(page)
}

impl Page {
    pub(super) fn pages(&self) -> usize {
        self.filtered_count.div_ceil(self.size)
    }

    pub(super) fn take_into(self, view: View, queues: &mut BTreeMap<String, Found>) {
        queues.extend(self.items.into_iter().map(|item| found(item, view)));
    }
}

fn found(item: Item, view: View) -> (String, Found) {
    // States of queues that answer; what else there is (down, stopped, crashed, minority, ...) differs by version.
    let running = item.state.is_none_or(|state| matches!(state.as_str(), "running" | "live" | "idle" | "flow"));
    let classic = item.kind.as_deref() == Some("classic");
    let settles = match (view, classic) {
        (View::Totals, true) => Duration::ZERO,
        (View::Totals, false) => TICK_AGE,
        (View::Statistics, true) => STATISTICS_AGE,
        (View::Statistics, false) => STATISTICS_AGE + TICK_AGE,
    };
    let mut found = Found { ready: item.messages_ready, messages: item.messages, running, settles, ..Found::default() };
    if view == View::Statistics && found.has_lengths() {
        let rates = match item.message_stats {
            Some(MessageStats::Some(rates)) => rates,
            // It has statistics, and among them no message yet (cases.md B61).
            Some(MessageStats::None(_)) | None => {
                Rates { publish: None, deliver_get: None, publish_details: None, deliver_get_details: None }
            }
        };
        found.publish_rate = rate(rates.publish, rates.publish_details);
        found.deliver_rate = rate(rates.deliver_get, rates.deliver_get_details);
        found.rates_off = found.publish_rate.is_none() || found.deliver_rate.is_none();
    }
    (item.name, found)
}

/// The rate of a counter: 0 if nothing was counted yet, and not known if something was and there is no rate.
fn rate(counted: Option<u64>, details: Option<Rate>) -> Option<f64> {
    match (counted, details.and_then(|details| details.rate)) {
        (_, Some(rate)) => Some(rate).filter(|rate| *rate >= 0.0),
        (None | Some(0), None) => Some(0.0),
        (Some(_), None) => None,
    }
}

/// The names that `queries` want, if they want no pattern: each group fits in the query string of one request, as a
/// pattern for the server that matches these names (and, since it ignores case, perhaps more).
pub(super) fn filters<'a>(queries: impl Iterator<Item = &'a Query>) -> Option<Vec<String>> {
    /// Of the encoded names; servers take 4 KiB of a request's first line at least.
    const LONGEST: usize = 2_000;
    let mut names = std::collections::BTreeSet::new();
    for query in queries {
        match &query.queues {
            Selection::Named(name) => names.insert(name.as_ref()),
            Selection::Matching(_) => return None,
        };
    }
    let mut groups: Vec<String> = Vec::new();
    let mut room = 0;
    for name in names {
        let encoded = super::escape::segment(&regex::escape(name));
        if let Some(group) = groups.last_mut().filter(|_| room > encoded.len()) {
            group.push_str("%7C");
            group.push_str(&encoded);
            room = room.saturating_sub(encoded.len() + 3);
        } else {
            room = LONGEST.saturating_sub(encoded.len());
            groups.push(encoded);
        }
    }
    Some(groups.into_iter().map(|group| format!("%5E(%3F:{group})%24")).collect())
}

#[cfg(test)]
mod tests;
