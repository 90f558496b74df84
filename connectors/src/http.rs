//! HTTP to sources: one way to build a client, one way to send, one way to read a body.
//!
//! Invariants:
//! - A client belongs to one tenant and one origin (scheme, host, port), and a request to another is not sent: not by a
//!   redirect, not by a proxy, not by mistake.
//! - Every address is one that [`Egress`] gives out, also where the host is an address already.
//! - A reply is read up to a limit and never decompressed; its text and the request's URL are in no error.

use std::{error::Error as StdError, net::IpAddr, time::Duration};

use bytes::{Bytes, BytesMut};
use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
    retry,
};
use tokio::time::timeout;

pub use reqwest::Url;

use crate::{
    egress::{ConnectError, Egress},
    metadata::ParameterError,
    sampler::{Environment, SampleError},
    tenant::TenantId,
    tls::{self, TlsSettings},
};

/// What a reply may have unless its reader says otherwise, in bytes.
pub const BODY_LIMIT: usize = 1 << 20;

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
/// Longer than the time between two polls, or every poll would open a connection.
const POOL_IDLE: Duration = Duration::from_secs(90);
/// Requests that a batch has in flight at once; an endpoint has one batch in flight.
const POOL_SIZE: usize = 4;

/// A client of one origin.
pub struct HttpClient {
    client: Client,
    tenant: TenantId,
    egress: Egress,
    origin: Url,
}

/// A reply that has been read to its end.
pub struct Reply {
    /// The status. Nothing is decided by it yet.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

/// Reads a URL parameter: `http` or `https`, with a host.
pub fn url(key: &'static str, text: &str) -> Result<Url, ParameterError> {
    Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| ParameterError::new(key, "must be a URL that starts with https:// or http://"))
}

impl HttpClient {
    /// A client for the origin of `url`, which [`url()`] has read. It connects when it is first used.
    pub fn new(
        tenant: &TenantId,
        url: &Url,
        tls: &TlsSettings,
        environment: &Environment,
    ) -> Result<Self, ParameterError> {
        let config = if url.scheme() == "https" { tls.client_config()? } else { tls::unused() };
        let resolver = Resolver {
            tenant: tenant.clone(),
            egress: environment.egress.clone(),
            port: url.port_or_known_default().unwrap_or_default(),
        };
        let client = build(&config, resolver, environment.limits.connect);
        Ok(Self { client, tenant: tenant.clone(), egress: environment.egress.clone(), origin: url.clone() })
    }

    /// A request to be filled in and given to [`HttpClient::fetch`].
    pub fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// Sends a request and reads the whole reply, of at most `limit` bytes, `within` a time that bounds all of it.
    pub async fn fetch(&self, request: RequestBuilder, within: Duration, limit: usize) -> Result<Reply, SampleError> {
        timeout(within, async {
            let response = self.send(request).await?;
            Ok(Reply { status: response.status(), body: read_body(response, limit).await? })
        })
        .await
        .unwrap_or(Err(SampleError::TimedOut))
    }

    /// Sends a request; the caller has the deadline.
    pub async fn send(&self, request: RequestBuilder) -> Result<Response, SampleError> {
        let request = request.build().map_err(failure)?;
        if request.url().origin() != self.origin.origin() {
            return Err(SampleError::Refused);
        }
        // A resolver is not asked about a host that is an address.
        if let Some((address, port)) = literal(request.url()) {
            self.egress.resolve(&self.tenant, &address.to_string(), port).await?;
        }
        self.client.execute(request).await.map_err(failure)
    }
}

fn build(tls: &rustls::ClientConfig, resolver: Resolver, connect: Duration) -> Client {
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_proxy()
        .user_agent(USER_AGENT)
        .connect_timeout(connect)
        .pool_idle_timeout(POOL_IDLE)
        .pool_max_idle_per_host(POOL_SIZE)
        .build()
        .expect("TLS is configured, and the user agent is a legal header")
}

/// Reads a body of at most `limit` bytes, without ever holding more than one chunk besides them. The caller has the
/// deadline.
pub async fn read_body(mut response: Response, limit: usize) -> Result<Bytes, SampleError> {
    let over = || SampleError::OverLimit { what: "bytes in the source's reply", limit };
    let announced = response.content_length().unwrap_or_default();
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(over());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(failure)? {
        if body.len() + chunk.len() > limit {
            return Err(over());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The host and port of `url` where the host is an IP address: `http://127.1` has become one when it was parsed.
fn literal(url: &Url) -> Option<(IpAddr, u16)> {
    let host = url.host_str()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.parse().ok()?, url.port_or_known_default()?))
}

/// What an error of a request or of a body means.
fn failure(error: reqwest::Error) -> SampleError {
    let error = error.without_url();
    if error.is_timeout() {
        return SampleError::TimedOut;
    }
    if let Some(reason) = tls::failure(&error) {
        return SampleError::Tls(reason, Some(error.into()));
    }
    match resolver_error(&error) {
        Some(ConnectError::TimedOut) => SampleError::TimedOut,
        Some(ConnectError::NotAllowed) => SampleError::Refused,
        _ => SampleError::Unreachable(Some(error.into())),
    }
}

/// What [`Resolver`] said, if it is at the root of `error`.
fn resolver_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a ConnectError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}

/// Name resolution by the tenant's rules.
struct Resolver {
    tenant: TenantId,
    egress: Egress,
    port: u16,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (tenant, egress, port) = (self.tenant.clone(), self.egress.clone(), self.port);
        Box::pin(async move {
            let addresses = egress.resolve(&tenant, name.as_str(), port).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
pub(crate) mod scripted;
#[cfg(test)]
mod tests;
