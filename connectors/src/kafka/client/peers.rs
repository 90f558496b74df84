//! The connections of one endpoint: one for each broker, and a rest for those that cannot be connected to.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream, stream::FuturesUnordered};
use rand::{Rng, seq::SliceRandom};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    connection::Connection,
    fault::{Fault, timed_out, unreachable},
    handshake::{Dialer, Peer},
};
use crate::{
    oauth::{Token, TokenSource},
    sampler::SampleError,
};

/// The brokers of one cluster (safety.md E4); a cluster has some tens at most.
pub(super) const MAX_BROKERS: usize = 256;
/// Connections that are opened at the same time.
const DIALS: usize = 16;
/// How long one bootstrap server gets before the next is tried too.
const HEAD_START: Duration = Duration::from_millis(500);
/// The first pause after a failed connect.
const FIRST_REST: Duration = Duration::from_millis(500);
/// The longest pause after a failed connect.
const LONGEST_REST: Duration = Duration::from_secs(15);
/// A pause is at most this part of the outage so far, so that a broker that was away for 20 s is found within 2.5 s.
const PART_OF_OUTAGE: u32 = 8;
/// The pause after refused credentials (safety.md E11): asking again changes nothing, but may lock an account.
const REFUSED_REST: Duration = Duration::from_secs(30);

/// The connections of one endpoint.
pub(crate) struct Peers {
    dialer: Arc<Dialer>,
    tokens: Option<TokenSource>,
    bootstrap: Vec<Peer>,
    open: HashMap<Peer, Arc<Connection>>,
    resting: HashMap<Peer, Rest>,
}

/// A peer that could not be connected to, and until when it is left alone.
struct Rest {
    since: Instant,
    until: Instant,
    fault: Fault,
}

impl Rest {
    /// After one more failure `now`: with jitter, and longer the longer it lasts.
    fn after(before: Option<&Self>, now: Instant, fault: Fault) -> Self {
        let since = before.map_or(now, |before| before.since);
        let refused = matches!(*fault, SampleError::Unauthorized { .. });
        let pause = ((now - since) / PART_OF_OUTAGE).clamp(FIRST_REST, LONGEST_REST);
        let pause = if refused { REFUSED_REST } else { pause };
        Self { since, until: now + pause.mul_f64(rand::rng().random_range(0.5..1.0)), fault }
    }
}

impl Peers {
    pub(crate) fn new(dialer: Dialer, tokens: Option<TokenSource>, bootstrap: Vec<Peer>) -> Self {
        Self { dialer: Arc::new(dialer), tokens, bootstrap, open: HashMap::new(), resting: HashMap::new() }
    }

    /// A new sample begins. A connection that still owes an answer to an earlier one would keep this one waiting.
    pub(super) fn next_sample(&mut self) {
        self.open.retain(|_, connection| connection.is_settled());
    }

    /// A connection to each of `peers`, or why there is none.
    pub(super) async fn connect(
        &mut self,
        peers: impl IntoIterator<Item = Peer>,
        until: Instant,
    ) -> HashMap<Peer, Result<Arc<Connection>, Fault>> {
        self.tidy();
        let mut results = HashMap::new();
        let mut wanted = Vec::new();
        for peer in peers.into_iter().collect::<HashSet<_>>() {
            if let Some(connection) = self.open.get(&peer) {
                results.insert(peer, Ok(Arc::clone(connection)));
            } else if let Some(fault) = self.rest_of(&peer) {
                results.insert(peer, Err(fault));
            } else if self.open.len() + wanted.len() < MAX_BROKERS {
                wanted.push(peer);
            } else {
                results.insert(peer, Err(Arc::new(SampleError::OverLimit { what: "brokers", limit: MAX_BROKERS })));
            }
        }
        if wanted.is_empty() {
            return results;
        }
        let (dialer, token) = (Arc::clone(&self.dialer), self.token(until).await);
        let mut dials = stream::iter(wanted)
            .map(|peer| dial(Arc::clone(&dialer), peer, token.clone(), until))
            .buffer_unordered(DIALS);
        while let Some((peer, result)) = dials.next().await {
            let result = self.note(&peer, result);
            results.insert(peer, result);
        }
        results
    }

    /// A connection to any broker: an open one, or one to a bootstrap server, in random order.
    pub(super) async fn any(&mut self, until: Instant) -> Result<Arc<Connection>, Fault> {
        self.tidy();
        if let Some(open) = self.any_open() {
            return Ok(open);
        }
        let mut candidates = self.bootstrap.clone();
        candidates.shuffle(&mut rand::rng());
        let mut last = unreachable("there is no bootstrap server");
        candidates.retain(|peer| match self.rest_of(peer) {
            Some(fault) => {
                last = fault;
                false
            }
            None => true,
        });
        if candidates.is_empty() {
            return Err(last);
        }
        let token = self.token(until).await;
        let mut dials = FuturesUnordered::new();
        loop {
            match candidates.pop() {
                Some(next) => dials.push(dial(Arc::clone(&self.dialer), next, token.clone(), until)),
                None if dials.is_empty() => return Err(last),
                None => {}
            }
            tokio::select! {
                Some((peer, result)) = dials.next() => match self.note(&peer, result) {
                    Ok(connection) => return Ok(connection),
                    Err(fault) => last = fault,
                },
                () = sleep(HEAD_START), if !candidates.is_empty() => {}
            }
        }
    }

    /// A broker that is known to be one is preferred, so that a bootstrap address gets idle and closes.
    fn any_open(&self) -> Option<Arc<Connection>> {
        let mut open: Vec<_> = self.open.iter().collect();
        open.shuffle(&mut rand::rng());
        let best = open.iter().min_by_key(|(peer, _)| self.bootstrap.contains(peer))?;
        Some(Arc::clone(best.1))
    }

    async fn token(&mut self, until: Instant) -> MaybeToken {
        match &mut self.tokens {
            None => Ok(None),
            Some(tokens) => match timeout_at(until, tokens.token()).await {
                Ok(token) => token.map(Some).map_err(Arc::new),
                Err(_) => Err(timed_out()),
            },
        }
    }

    fn tidy(&mut self) {
        let now = Instant::now();
        self.open.retain(|_, connection| connection.is_usable());
        self.resting.retain(|_, rest| now < rest.until + LONGEST_REST);
    }

    fn rest_of(&self, peer: &Peer) -> Option<Fault> {
        self.resting.get(peer).filter(|rest| Instant::now() < rest.until).map(|rest| Arc::clone(&rest.fault))
    }

    /// Keeps what came of an attempt. One that ran out of the sample's time says nothing about the peer.
    fn note(&mut self, peer: &Peer, result: Option<Result<Connection, Fault>>) -> Result<Arc<Connection>, Fault> {
        match result {
            Some(Ok(connection)) => {
                self.resting.remove(peer);
                let connection = Arc::new(connection);
                self.open.insert(peer.clone(), Arc::clone(&connection));
                Ok(connection)
            }
            Some(Err(fault)) => {
                let refused = matches!(*fault, SampleError::Unauthorized { .. });
                if let Some(tokens) = self.tokens.as_mut().filter(|_| refused) {
                    tokens.forget();
                }
                let rest = Rest::after(self.resting.get(peer), Instant::now(), Arc::clone(&fault));
                self.resting.insert(peer.clone(), rest);
                Err(fault)
            }
            None => Err(timed_out()),
        }
    }
}

/// An access token, where there is a source of them.
type MaybeToken = Result<Option<Token>, Fault>;

/// `None` where `until` came first.
async fn dial(
    dialer: Arc<Dialer>,
    peer: Peer,
    token: MaybeToken,
    until: Instant,
) -> (Peer, Option<Result<Connection, Fault>>) {
    let result = match token {
        Ok(token) => timeout_at(until, dialer.dial(&peer, token.as_ref())).await.ok(),
        Err(fault) => Some(Err(fault)),
    };
    (peer, result)
}
