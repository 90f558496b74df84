//! Asks a server that has Prometheus' query API: one request for each query of a batch, a few at a time.
//!
//! Invariants:
//! - A query that hangs costs its own timeout: the batch ends before the poller would drop it, and what is answered by
//!   then counts.
//! - At most [`IN_FLIGHT`] requests are in flight, and at most as many connections wait for the next batch.
//! - What a server sends is bounded and never followed, decompressed or shown.
//!
//! The request is a POST of a form with `query`, so that its length and characters do not matter. `namespace` and the
//! trigger's own parameters are in the URL, where proxies that decide by them look for them. `time` is left out: the
//! server's own now is right even where the two clocks differ.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use chrono::DateTime;
use futures_util::{StreamExt, stream};
use reqwest::{
    Method, RequestBuilder, StatusCode,
    header::{AUTHORIZATION, CONTENT_ENCODING, DATE, HeaderMap, HeaderValue},
};
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout_at};

use super::{Address, Query, pairs, reply, selector, settings::Scheme, settings::Settings};
use crate::{
    clock::SharedClock,
    credentials::Credentials,
    http::{BODY_LIMIT, HttpClient, read_body},
    metadata::{CredentialSource, Parameters},
    oauth::TokenSource,
    sampler::{Data, Environment, Query as AnyQuery, Sample, SampleError, Sampler, Subject},
    tenant::TenantId,
};

/// Requests at once. A connection is sometimes opened where another is just becoming free, so that this is half of the
/// eight connections that an endpoint may have.
const IN_FLIGHT: usize = 4;

/// The whole batch; the poller's deadline is 8 s.
const BATCH: Duration = Duration::from_millis(7500);

/// Prometheus' look-back: a plain selector finds samples up to this old, and one that is older is no measurement.
const MAX_AGE: f64 = 300.0;

/// The client of one server.
pub struct PrometheusSampler {
    http: HttpClient,
    settings: Settings,
    tokens: Option<TokenSource>,
    clock: SharedClock,
    /// The queries of the last batch that timed out. They are asked last, so that they delay no others.
    slow: HashSet<Arc<AnyQuery>>,
}

impl PrometheusSampler {
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
            .expect("nothing is still to be read");
        let http =
            HttpClient::new(tenant, &settings.url, &settings.tls, environment).map_err(SampleError::Misconfigured)?;
        let tokens = match &settings.scheme {
            Scheme::OAuth(grant) => Some(
                TokenSource::new(tenant, grant.clone(), &settings.tls, environment)
                    .map_err(SampleError::Misconfigured)?,
            ),
            Scheme::None | Scheme::Bearer(_) | Scheme::Basic(_) => None,
        };
        Ok(Self { http, settings, tokens, clock: environment.clock.clone(), slow: HashSet::new() })
    }

    /// The value of `Authorization`, where it is not in the request already.
    async fn bearer(&mut self) -> Result<Option<HeaderValue>, SampleError> {
        let token = match (&self.settings.scheme, &mut self.tokens) {
            (Scheme::Bearer(token), _) => token.expose_secret().to_owned(),
            (_, Some(tokens)) => tokens.token().await?.expose().to_owned(),
            _ => return Ok(None),
        };
        pairs::header_value("bearerToken", &format!("Bearer {token}")).map(Some).map_err(SampleError::Misconfigured)
    }

    async fn ask(&self, query: &Query, bearer: Option<&HeaderValue>, until: Instant) -> Result<Sample, SampleError> {
        let until = until.min(Instant::now() + self.settings.timeout);
        timeout_at(until, self.answer(query, bearer)).await.unwrap_or(Err(SampleError::TimedOut))
    }

    async fn answer(&self, query: &Query, bearer: Option<&HeaderValue>) -> Result<Sample, SampleError> {
        let taken = self.clock.boot();
        let response = self.http.send(self.request(query, bearer)).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        // Also an error's body is read, or its connection could not be used again.
        let body = read_body(response, BODY_LIMIT).await;
        if !status.is_success() {
            return Err(self.refusal(status));
        }
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(SampleError::Malformed("it is compressed, which was not asked for"));
        }
        let answer = reply::read(&body?)?;
        let old = selector::is_plain(&query.expression)
            && answer.value.timestamp.is_some_and(|at| (self.server_time(&headers) - at).abs() > MAX_AGE);
        let partial = answer.partial.or(old.then_some("the sample's time is more than 5 minutes from the server's"));
        let missing = partial.map(|reason| Arc::new(SampleError::NotReady(reason)));
        Ok(Sample { taken, data: Data::Prometheus(answer.value), missing })
    }

    fn request(&self, query: &Query, bearer: Option<&HeaderValue>) -> RequestBuilder {
        let mut url = self.settings.url.clone();
        let namespace = query.namespace.iter().map(|namespace| ("namespace", &**namespace));
        let own = self.settings.parameters.iter().map(|(name, value)| (name.as_str(), value.expose_secret()));
        let mut parameters = namespace.chain(own).peekable();
        if parameters.peek().is_some() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let mut request = self.http.request(Method::POST, url).headers(self.settings.headers.clone());
        if let Scheme::Basic(login) = &self.settings.scheme {
            request = request.basic_auth(login.username.expose_secret(), Some(login.password.expose_secret()));
        }
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        request.form(&[("query", &*query.expression)])
    }

    /// The server's own time, in seconds of Unix time; ours where it does not tell.
    fn server_time(&self, headers: &HeaderMap) -> f64 {
        let date = headers.get(DATE).and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
        let now = date.map_or_else(|| self.clock.wall(), SystemTime::from);
        now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
    }

    /// What a status that is no success means.
    fn refusal(&self, status: StatusCode) -> SampleError {
        match status.as_u16() {
            401 => SampleError::Unauthorized { mechanism: self.settings.mechanism, cause: None },
            403 => SampleError::Forbidden(Subject::QueryApi),
            404 => SampleError::NotFound(Subject::QueryApi),
            400 => SampleError::RefusedQuery("bad PromQL or parameters (HTTP 400)"),
            405 => SampleError::RefusedQuery("the server takes no POST (HTTP 405)"),
            422 => SampleError::RefusedQuery("it cannot be evaluated (HTTP 422)"),
            _ if status.is_redirection() => {
                SampleError::RefusedQuery("the server redirects, and redirects are not followed (HTTP 3xx)")
            }
            408 | 499 => SampleError::NotReady("the query took too long (HTTP 408 or 499)"),
            429 => SampleError::NotReady("too many requests (HTTP 429)"),
            503 => SampleError::NotReady("the server is overloaded or the query took too long (HTTP 503)"),
            _ if status.is_server_error() => SampleError::NotReady("the server or a proxy failed (HTTP 5xx)"),
            _ if status.is_client_error() => SampleError::RefusedQuery("the server refused the request (HTTP 4xx)"),
            _ => SampleError::Malformed("its HTTP status is none of Prometheus'"),
        }
    }
}

impl Sampler for PrometheusSampler {
    async fn sample(&mut self, queries: &[Arc<AnyQuery>]) -> Vec<Result<Sample, SampleError>> {
        let until = Instant::now() + BATCH;
        let bearer = match timeout_at(until, self.bearer()).await.unwrap_or(Err(SampleError::TimedOut)) {
            Ok(bearer) => bearer,
            Err(error) => return queries.iter().map(|_| Err(error.without_cause())).collect(),
        };
        let slow = std::mem::take(&mut self.slow);
        let mut order: Vec<usize> = (0..queries.len()).collect();
        order.sort_by_key(|n| slow.contains(&queries[*n]));
        let (client, bearer) = (&*self, bearer.as_ref());
        let mut answers: Vec<_> = stream::iter(order)
            .map(|n| async move {
                let AnyQuery::Prometheus(query) = &*queries[n] else {
                    unreachable!("a trigger's address and query are of one kind")
                };
                (n, client.ask(query, bearer, until).await)
            })
            .buffer_unordered(IN_FLIGHT)
            .collect()
            .await;
        answers.sort_by_key(|(n, _)| *n);
        for (n, answer) in &answers {
            match answer {
                Err(SampleError::TimedOut) => drop(self.slow.insert(queries[*n].clone())),
                Err(SampleError::Unauthorized { .. }) => {
                    if let Some(tokens) = &mut self.tokens {
                        tokens.forget();
                    }
                }
                _ => {}
            }
        }
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

#[cfg(test)]
mod tests;
