//! Measures the queues of one virtual host: by one listing over the management API, or by one connection over AMQP.
//!
//! Invariants:
//! - A listing that fails fails all queries; a queue that is missing or not running fails only those that want it.
//! - What a pattern matches and cannot be read makes a sample partial; it never counts as an empty queue.
//! - A sample is over before the poller's patience is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Address, Needs, Protocol, Query, Queue, Queues, Selection,
    amqp::{AmqpClient, Declared},
    listing::{self, Found, Listing, View},
    management::Management,
    settings::Settings,
    trigger::check_amqp,
};
use crate::{
    clock::BootInstant,
    credentials::Credentials,
    metadata::{CredentialSource, ParameterError, Parameters},
    sampler::{Data, Environment, Query as AnyQuery, Sample, SampleError, Sampler, Subject},
    tenant::TenantId,
};

/// Until when everything is read: a second before the poller drops the sample (safety.md E5).
const ALL_BY: Duration = Duration::from_secs(7);
/// A quorum queue without a leader answers a passive declare with no messages and no consumers, as an empty one does; an
/// election takes up to 5 s from the leader's end, and a second more.
const ELECTION: Duration = Duration::from_secs(6);

const UNKNOWN: &str = "the broker does not know the queue's counters yet";
const NOT_RUNNING: &str = "a queue is not running";
const MOVING: &str = "queues came or went while they were listed";

/// The client of one virtual host.
pub struct RabbitMqSampler {
    client: Client,
    environment: Environment,
}

enum Client {
    Amqp(AmqpClient),
    Http(HttpClient),
}

struct HttpClient {
    management: Management,
    /// Whether the server lists totals. One that does not is asked for statistics at once.
    totals: bool,
}

impl RabbitMqSampler {
    /// A client that connects when it is first asked.
    pub fn new(
        tenant: &TenantId,
        address: &Address,
        credentials: Option<&Credentials>,
        environment: &Environment,
    ) -> Result<Self, SampleError> {
        let source = credentials.map_or(CredentialSource::None, CredentialSource::Given);
        let settings = Settings::read(Parameters::new(address.metadata(), source))
            .map_err(SampleError::Misconfigured)?
            .ok_or_else(|| SampleError::Misconfigured(ParameterError::new("host", "missing")))?;
        let client = match settings.protocol() {
            Protocol::Amqp => AmqpClient::new(tenant, settings, environment).map(Client::Amqp),
            Protocol::Http => Management::new(tenant, settings, environment)
                .map(|management| Client::Http(HttpClient { management, totals: true })),
        };
        Ok(Self { client: client.map_err(SampleError::Misconfigured)?, environment: environment.clone() })
    }
}

impl Sampler for RabbitMqSampler {
    async fn sample(&mut self, queries: &[Arc<AnyQuery>]) -> Vec<Result<Sample, SampleError>> {
        let taken = self.environment.clock.boot();
        let until = Instant::now() + ALL_BY;
        let queries: Vec<_> = queries
            .iter()
            .map(|query| {
                let AnyQuery::RabbitMq(query) = &**query else {
                    unreachable!("a trigger's address and query are of one kind")
                };
                query
            })
            .collect();
        match &mut self.client {
            Client::Amqp(client) => declare(client, &queries, taken, until).await,
            Client::Http(client) => client.sample(&queries, taken, until).await,
        }
    }
}

/// Asks for each named queue once.
async fn declare(
    client: &mut AmqpClient,
    queries: &[&Query],
    taken: BootInstant,
    until: Instant,
) -> Vec<Result<Sample, SampleError>> {
    let checked: Vec<Result<&Arc<str>, SampleError>> = queries
        .iter()
        .map(|query| match (&query.queues, check_amqp(query)) {
            (Selection::Named(name), Ok(())) => Ok(name),
            (_, Err(error)) => Err(SampleError::Misconfigured(error)),
            (Selection::Matching(_), Ok(())) => {
                Err(SampleError::Misconfigured(ParameterError::new("useRegex", "needs the http protocol")))
            }
        })
        .collect();
    let mut names: Vec<_> = checked.iter().filter_map(|name| name.as_ref().ok().map(|name| Arc::clone(name))).collect();
    names.sort_unstable();
    names.dedup();
    let answers = client.declare(&names, until).await;
    let answers: BTreeMap<_, _> = names.iter().zip(answers).collect();
    let sample = |name: &Arc<str>| match answers.get(name) {
        Some(Ok(declared)) => Ok(declared_sample(name, *declared, taken)),
        Some(Err(error)) => Err(error.without_cause()),
        None => Err(SampleError::TimedOut),
    };
    checked.into_iter().map(|name| name.and_then(sample)).collect()
}

fn declared_sample(name: &Arc<str>, declared: Declared, taken: BootInstant) -> Sample {
    let queue = Queue {
        name: Arc::clone(name),
        ready: Some(u64::from(declared.messages)),
        messages: None,
        publish_rate: None,
        deliver_rate: None,
        consumers: Some(declared.consumers),
    };
    let settles = if (declared.messages, declared.consumers) == (0, 0) { ELECTION } else { Duration::ZERO };
    let queues = Queues { queues: vec![queue], matched: false, settles };
    Sample { taken, data: Data::RabbitMq(queues), missing: None }
}

impl HttpClient {
    async fn sample(
        &mut self,
        queries: &[&Query],
        taken: BootInstant,
        until: Instant,
    ) -> Vec<Result<Sample, SampleError>> {
        let listing = match self.list(queries, until).await {
            Ok(listing) => listing,
            Err(error) => {
                let copies: Vec<_> = (1..queries.len()).map(|_| Err(error.without_cause())).collect();
                return std::iter::once(Err(error)).chain(copies).collect();
            }
        };
        let rates_off = self.rates_off(queries, &listing, until).await;
        queries.iter().map(|query| Asked { query, listing: &listing, rates_off }.sample(taken)).collect()
    }

    /// One listing for all queries; a second one only for lengths that the first lacks.
    async fn list(&mut self, queries: &[&Query], until: Instant) -> Result<Listing, SampleError> {
        let filters = || listing::filters(queries.iter().copied());
        let rates = queries.iter().any(|query| query.needs == Needs::Rates);
        let (first, second) =
            if rates || !self.totals { (View::Statistics, View::Totals) } else { (View::Totals, View::Statistics) };
        let mut listing = self.management.list(first, filters(), until).await?;
        let lacks = |listing: &Listing| {
            listing.queues.iter().any(|(name, found)| {
                found.running && !found.has_lengths() && queries.iter().any(|query| query.wants(name))
            })
        };
        if !lacks(&listing) || second == View::Totals && !self.totals {
            return Ok(listing);
        }
        // Without it the queues that lack their lengths are not known, and the others are.
        let Ok(other) = self.management.list(second, filters(), until).await else { return Ok(listing) };
        let totals = if first == View::Totals { &listing } else { &other };
        self.totals = totals.queues.is_empty() || totals.queues.values().any(Found::has_lengths);
        for (name, found) in other.queues {
            if let Some(known) = listing.queues.get_mut(&name) {
                known.complete_with(&found);
            }
        }
        Ok(listing)
    }

    /// Whether the broker makes no rates. It is asked only if a queue lacks them that a query wants them of.
    async fn rates_off(&mut self, queries: &[&Query], listing: &Listing, until: Instant) -> bool {
        match lacking_rates(queries, listing) {
            None => false,
            Some(true) => true,
            Some(false) => self.management.rates_are_off(until).await.unwrap_or(false),
        }
    }
}

/// Whether a queue lacks rates that a query wants of it, and if so whether one of them tells that there are none.
fn lacking_rates(queries: &[&Query], listing: &Listing) -> Option<bool> {
    let mut lacking = None;
    for (name, found) in &listing.queues {
        let lacks = found.publish_rate.is_none() || found.deliver_rate.is_none();
        if lacks && queries.iter().any(|query| query.needs == Needs::Rates && query.wants(name)) {
            lacking = Some(lacking.unwrap_or(false) || found.rates_off);
        }
    }
    lacking
}

impl Query {
    fn wants(&self, name: &str) -> bool {
        match &self.queues {
            Selection::Named(wanted) => **wanted == *name,
            Selection::Matching(pattern) => pattern.matches(name),
        }
    }
}

/// One query, and what was listed.
struct Asked<'a> {
    query: &'a Query,
    listing: &'a Listing,
    rates_off: bool,
}

impl Asked<'_> {
    fn sample(&self, taken: BootInstant) -> Result<Sample, SampleError> {
        let (queues, missing) = match &self.query.queues {
            Selection::Named(name) => (self.named(name)?, None),
            Selection::Matching(_) => self.matching()?,
        };
        Ok(Sample { taken, data: Data::RabbitMq(queues), missing: missing.map(Arc::new) })
    }

    fn named(&self, name: &Arc<str>) -> Result<Queues, SampleError> {
        let Some(found) = self.listing.queues.get(name.as_ref()) else {
            let gone = self.listing.whole;
            return Err(if gone {
                SampleError::NotFound(Subject::Queue(Arc::clone(name)))
            } else {
                SampleError::NotReady(MOVING)
            });
        };
        self.check(found)?;
        Ok(Queues { queues: vec![queue(Arc::clone(name), found)], matched: false, settles: found.settles })
    }

    fn matching(&self) -> Result<(Queues, Option<SampleError>), SampleError> {
        let mut missing = (!self.listing.whole).then_some(SampleError::NotReady(MOVING));
        let mut queues = Queues { queues: Vec::new(), matched: true, settles: Duration::ZERO };
        for (name, found) in self.listing.queues.iter().filter(|(name, _)| self.query.wants(name)) {
            match self.check(found) {
                Ok(()) => {}
                Err(error @ SampleError::NoStatistics) => return Err(error),
                Err(error) => missing = Some(error),
            }
            queues.settles = queues.settles.max(found.settles);
            queues.queues.push(queue(name.as_str().into(), found));
        }
        Ok((queues, missing))
    }

    /// Whether what the query needs is known.
    fn check(&self, found: &Found) -> Result<(), SampleError> {
        let rates = found.publish_rate.is_some() && found.deliver_rate.is_some();
        if self.query.needs == Needs::Rates && !rates && self.rates_off {
            return Err(SampleError::NoStatistics);
        }
        if !found.running {
            return Err(SampleError::NotReady(NOT_RUNNING));
        }
        if !found.has_lengths() || self.query.needs == Needs::Rates && !rates {
            return Err(SampleError::NotReady(UNKNOWN));
        }
        Ok(())
    }
}

/// What a queue that is down shows is not known to be so still.
fn queue(name: Arc<str>, found: &Found) -> Queue {
    Queue {
        name,
        ready: found.ready.filter(|_| found.running),
        messages: found.messages.filter(|_| found.running),
        publish_rate: found.publish_rate.filter(|_| found.running),
        deliver_rate: found.deliver_rate.filter(|_| found.running),
        consumers: None,
    }
}

#[cfg(test)]
mod tests;
