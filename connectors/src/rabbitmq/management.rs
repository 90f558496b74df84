//! The management API's client: GET only, of two fixed paths.
//!
//! Invariants:
//! - The virtual host and the names are encoded once, by one function, as a segment or as the value of a parameter.
//! - All pages or an error, or a listing that says it is not whole.
//! - No text and no URL of the server's is in an error.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    address::Host,
    escape,
    listing::{self, Listing, PAGE_SIZE, Page, View},
    settings::{Auth, Settings},
};
use crate::{
    http::{HttpClient, Reply, Url},
    metadata::ParameterError,
    oauth::{Grant, TokenSource},
    sampler::{Environment, SampleError, Subject},
    tenant::TenantId,
};

/// A page of 500 queues has some 200 KiB, and 1.5 MiB from a server that does not know `columns`.
const BODY_LIMIT: usize = 4 << 20;
/// How often pages are read that turn out not to agree.
const ATTEMPTS: usize = 2;

/// The client of one virtual host.
pub(super) struct Management {
    client: HttpClient,
    host: Host,
    auth: HttpAuth,
    timeout: Duration,
    /// Queues of the virtual host, when it was last listed.
    total: Option<usize>,
}

enum HttpAuth {
    None,
    Basic { username: secrecy::SecretString, password: secrecy::SecretString },
    OAuth(Box<TokenSource>),
}

impl Management {
    /// A client that connects when it is first asked.
    pub(super) fn new(
        tenant: &TenantId,
        settings: Settings,
        environment: &Environment,
    ) -> Result<Self, ParameterError> {
        let url = parsed(&settings.host.url("/"))?;
        let client = HttpClient::new(tenant, &url, &settings.tls, environment)?;
        let auth = match settings.auth {
            Auth::None | Auth::External => HttpAuth::None,
            Auth::Login { username, password } => HttpAuth::Basic { username, password },
            Auth::OAuth(oauth) => {
                let grant = Grant {
                    endpoint: oauth.endpoint,
                    client_id: oauth.client_id,
                    client_secret: oauth.client_secret,
                    scopes: oauth.scopes,
                    parameters: oauth.parameters,
                    mechanism: "oauth",
                };
                HttpAuth::OAuth(Box::new(TokenSource::new(tenant, grant, &settings.tls, environment)?))
            }
        };
        let timeout = settings.timeout.unwrap_or(environment.limits.request);
        Ok(Self { client, host: settings.host, auth, timeout, total: None })
    }

    /// Lists the queues of the virtual host. With `filters`, which name all queues that are wanted, only these: if that
    /// takes no more requests than the pages of all queues, and with as few bytes as there are.
    pub(super) async fn list(
        &mut self,
        view: View,
        filters: Option<Vec<String>>,
        until: Instant,
    ) -> Result<Listing, SampleError> {
        let pages = self.total.map_or(1, |total| total.div_ceil(PAGE_SIZE).max(1));
        let Some(filters) = filters.filter(|filters| filters.len() <= pages) else {
            return self.agreeing(view, None, until).await;
        };
        let mut all = Listing { whole: true, ..Listing::default() };
        for filter in filters {
            let listing = self.agreeing(view, Some(&filter), until).await?;
            all.queues.extend(listing.queues);
            all.whole &= listing.whole;
        }
        Ok(all)
    }

    /// Reads the pages, and once more if queues came or went meanwhile.
    async fn agreeing(&mut self, view: View, filter: Option<&str>, until: Instant) -> Result<Listing, SampleError> {
        let mut listing = Listing::default();
        for _ in 0..ATTEMPTS {
            listing = self.pages(view, filter, until).await?;
            if listing.whole {
                break;
            }
        }
        Ok(listing)
    }

    async fn pages(&mut self, view: View, filter: Option<&str>, until: Instant) -> Result<Listing, SampleError> {
        let mut listing = Listing { whole: true, ..Listing::default() };
        let (mut number, mut count) = (1, None);
        loop {
            let Some(page) = self.page(view, filter, number, until).await? else {
                listing.whole = false;
                return Ok(listing);
            };
            self.total = Some(page.total_count);
            let (pages, counted) = (page.pages(), page.filtered_count);
            listing.whole &= *count.get_or_insert(counted) == counted;
            page.take_into(view, &mut listing.queues);
            if number >= pages {
                listing.whole &= listing.queues.len() == counted;
                return Ok(listing);
            }
            number += 1;
        }
    }

    /// One page; `None` if it is past the end.
    async fn page(
        &mut self,
        view: View,
        filter: Option<&str>,
        number: usize,
        until: Instant,
    ) -> Result<Option<Page>, SampleError> {
        let vhost = escape::segment(&self.host.vhost);
        let filter = filter.map(|filter| format!("&use_regex=true&name={filter}")).unwrap_or_default();
        let paging = format!("page={number}&page_size={PAGE_SIZE}&sort=name");
        let path = format!("/api/queues/{vhost}?{paging}&{}{filter}", view.parameters());
        let reply = self.get(&path, until).await?;
        if reply.status == StatusCode::BAD_REQUEST && number > 1 {
            return Ok(None);
        }
        self.check(&reply)?;
        listing::decode(&reply.body).map(Some)
    }

    /// Whether the broker makes no rates at all.
    pub(super) async fn rates_are_off(&mut self, until: Instant) -> Result<bool, SampleError> {
        #[derive(Deserialize)]
        struct Overview {
            rates_mode: Option<String>,
            disable_stats: Option<bool>,
        }
        let reply = self.get("/api/overview?columns=rates_mode,disable_stats", until).await?;
        self.check(&reply)?;
        let overview: Overview =
            serde_json::from_slice(&reply.body).map_err(|_| SampleError::Malformed("it is not an overview"))?;
        Ok(overview.disable_stats == Some(true) || overview.rates_mode.as_deref() == Some("none"))
    }

    async fn get(&mut self, path: &str, until: Instant) -> Result<Reply, SampleError> {
        let reply = self.send(path, until).await?;
        if reply.status == StatusCode::UNAUTHORIZED
            && let HttpAuth::OAuth(tokens) = &mut self.auth
        {
            tokens.forget();
            return self.send(path, until).await;
        }
        Ok(reply)
    }

    async fn send(&mut self, path: &str, until: Instant) -> Result<Reply, SampleError> {
        let url = parsed(&self.host.url(path)).map_err(SampleError::Misconfigured)?;
        let request = self.client.request(Method::GET, url).header("accept", "application/json");
        let request = match &mut self.auth {
            HttpAuth::None => request,
            HttpAuth::Basic { username, password } => {
                request.basic_auth(username.expose_secret(), Some(password.expose_secret()))
            }
            HttpAuth::OAuth(tokens) => request.bearer_auth(tokens.token().await?.expose()),
        };
        let within = self.timeout.min(until.saturating_duration_since(Instant::now()));
        self.client.fetch(request, within, BODY_LIMIT).await
    }

    /// What a status means. Of the body only the server's own words for it are looked at.
    fn check(&self, reply: &Reply) -> Result<(), SampleError> {
        let says = |words: &str| reply.body.windows(words.len()).any(|part| part == words.as_bytes());
        let cause = || Some(format!("management API: {}", reply.status).into());
        let vhost = || Subject::VirtualHost(self.host.vhost.as_str().into());
        Err(match reply.status.as_u16() {
            200 => return Ok(()),
            401 | 403 if says("virtual host") => SampleError::Forbidden(vhost()),
            401 | 403 if says("Not management user") => SampleError::Forbidden(Subject::ManagementTag),
            401 | 403 => SampleError::Unauthorized { mechanism: self.mechanism(), cause: cause() },
            404 if says("Object Not Found") => SampleError::NotFound(vhost()),
            429 => SampleError::NotReady("the management API limits requests"),
            // Another server's, or RabbitMQ's for a path that is not the API's (406 on 3.10).
            400..=499 => SampleError::NotFound(Subject::ManagementApi),
            500..=599 => SampleError::Unreachable(cause()),
            300..=399 => SampleError::Malformed("it is a redirect, which is not followed"),
            _ => SampleError::Malformed("its status is not one of the management API"),
        })
    }

    fn mechanism(&self) -> &'static str {
        match self.auth {
            HttpAuth::None => "none given",
            HttpAuth::Basic { .. } => "basic",
            HttpAuth::OAuth(_) => "oauth",
        }
    }
}

fn parsed(url: &str) -> Result<Url, ParameterError> {
    Url::parse(url).map_err(|_| ParameterError::new("host", "must name a host that a URL can have"))
}
