//! From an address to a connection that is ready: TCP, TLS, versions, SASL.

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    messages::{ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest},
    protocol::StrBytes,
};
use rustls::ClientConfig;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::client::TlsStream;

use super::{
    code,
    connection::Connection,
    fault::{Fault, malformed, timed_out, unreachable},
    versions::Versions,
};
use crate::{
    egress::ConnectError,
    kafka::{sasl::Exchange, settings::Sasl},
    oauth::Token,
    sampler::{Environment, SampleError},
    tenant::TenantId,
    tls,
};

/// TLS, versions and SASL together (safety.md E5).
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The most SASL messages of one exchange; SCRAM has two each way.
const MAX_SASL_STEPS: usize = 8;

/// A broker's host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Peer {
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
}

impl Peer {
    /// `None` where a broker sent what cannot be an address.
    pub(super) fn advertised(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        (1..=255).contains(&host.len()).then(|| Self { host: host.into(), port })
    }
}

/// How connections of one endpoint are made.
pub(crate) struct Dialer {
    pub(crate) tenant: TenantId,
    pub(crate) environment: Environment,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) sasl: Sasl,
}

impl Dialer {
    /// A connection to `peer` that is ready for requests. OAUTHBEARER needs the `token`.
    pub(super) async fn dial(&self, peer: &Peer, token: Option<&Token>) -> Result<Connection, Fault> {
        let limits = self.environment.limits;
        let stream = self.environment.egress.connect(&self.tenant, &peer.host, peer.port, limits.connect).await;
        let stream = stream.map_err(|error| match error {
            ConnectError::NoAddress | ConnectError::Io(_) => Self::fault(peer, error),
            ConnectError::NotAllowed | ConnectError::TimedOut => Arc::new(error.into()),
        })?;
        timeout(HANDSHAKE, self.ready(peer, stream, token)).await.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn ready(&self, peer: &Peer, stream: TcpStream, token: Option<&Token>) -> Result<Connection, Fault> {
        let request = self.environment.limits.request;
        let mut connection = match &self.tls {
            None => Connection::new(stream, request),
            Some(config) => Connection::new(secure(config, peer, stream).await?, request),
        };
        let reply = connection.call_version(&ApiVersionsRequest::default(), 0).await?;
        if reply.error_code != code::NONE {
            return Err(malformed("it does not tell its versions"));
        }
        connection.versions = Versions::read(&reply);
        let lifetime = self.authenticate(&connection, token).await?;
        // A little early, so that no request meets the end.
        connection.expires = lifetime.map(|lifetime| Instant::now() + lifetime.mul_f64(0.8));
        Ok(connection)
    }

    /// How long the session lives, where the broker limits it.
    async fn authenticate(&self, connection: &Connection, token: Option<&Token>) -> Result<Option<Duration>, Fault> {
        let exchange =
            Exchange::start(&self.sasl, token).map_err(|error| Arc::new(SampleError::Misconfigured(error)))?;
        let Some(mut exchange) = exchange else { return Ok(None) };
        let keda_mechanism = exchange.keda_mechanism();
        let unauthorized = |cause: &'static str| {
            Err(Arc::new(SampleError::Unauthorized { mechanism: keda_mechanism, cause: Some(cause.into()) }))
        };
        let mechanism = StrBytes::from_static_str(exchange.mechanism());
        let reply = connection.call(&SaslHandshakeRequest::default().with_mechanism(mechanism)).await?;
        match reply.error_code {
            code::NONE => {}
            code::UNSUPPORTED_SASL_MECHANISM => return unauthorized("the broker does not offer the mechanism"),
            code::ILLEGAL_SASL_STATE => return unauthorized("the broker's listener has no SASL"),
            _ => return Err(malformed("it refuses SASL for no known reason")),
        }
        let mut message = exchange.initial();
        for _ in 0..MAX_SASL_STEPS {
            let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
            let reply = connection.call(&request).await?;
            match reply.error_code {
                code::NONE => {}
                code::SASL_AUTHENTICATION_FAILED => return unauthorized("the broker refused the credentials"),
                _ => return Err(malformed("it refuses SASL for no known reason")),
            }
            match exchange.respond(&reply.auth_bytes) {
                Ok(Some(next)) => message = next,
                Ok(None) => {
                    let lifetime = u64::try_from(reply.session_lifetime_ms).ok().filter(|lifetime| *lifetime > 0);
                    return Ok(lifetime.map(Duration::from_millis));
                }
                Err(error) => return Err(Arc::new(error.into_sample_error(keda_mechanism))),
            }
        }
        Err(malformed("a SASL exchange without an end"))
    }

    fn fault(peer: &Peer, error: impl std::fmt::Display) -> Fault {
        unreachable(format!("{}:{}: {error}", peer.host, peer.port))
    }
}

async fn secure(config: &Arc<ClientConfig>, peer: &Peer, stream: TcpStream) -> Result<TlsStream<TcpStream>, Fault> {
    tls::connect(stream, &peer.host, config).await.map_err(|error| {
        Arc::new(match error {
            SampleError::Tls(reason, cause) => {
                let cause = cause.map_or_else(String::new, |cause| cause.to_string());
                SampleError::Tls(reason, Some(format!("{}:{}: {cause}", peer.host, peer.port).into()))
            }
            other => other,
        })
    })
}
