//! The one place where a connection to a source is opened: from a resolved address, under a deadline.
//!
//! Invariant: what is bound to a credential's hosts reaches no other, whoever names it: a trigger, a broker that
//! advertises another, a URL.

mod hosts;

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

pub use self::hosts::{ALLOWED_HOSTS, AllowedHosts};
use crate::{credentials::Credentials, metadata::ParameterError, sampler::SampleError, tenant::TenantId};

/// Opens every connection of every source, so that one rule can meet them all.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// The only hosts; `None` for no such rule.
    only: Option<AllowedHosts>,
}

/// Why no connection was opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("no address")]
    NoAddress,
    /// The host, or every address of it, is one that must not be connected to.
    #[error("destination not allowed")]
    NotAllowed,
    /// Name resolution or every address took too long.
    #[error("timed out")]
    TimedOut,
    /// The network said no.
    #[error("connection failed")]
    Io(#[from] io::Error),
}

impl From<ConnectError> for SampleError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NotAllowed => Self::Refused,
            ConnectError::TimedOut => Self::TimedOut,
            ConnectError::NoAddress | ConnectError::Io(_) => Self::Unreachable(Some(error.into())),
        }
    }
}

impl Egress {
    /// Allows every destination.
    pub fn open() -> Self {
        Self::default()
    }

    /// The same, but for a session that uses `credentials`: if they name the hosts that they may be sent to, no other
    /// is connected to.
    pub fn bound_to(&self, credentials: Option<&Credentials>) -> Result<Self, ParameterError> {
        match credentials.and_then(Credentials::allowed_hosts) {
            Some(list) => Ok(Self { only: Some(AllowedHosts::parse(list)?) }),
            None => Ok(self.clone()),
        }
    }

    /// The addresses of `host` that `tenant` may connect to.
    pub async fn resolve(&self, tenant: &TenantId, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        if self.only.as_ref().is_some_and(|only| !only.allow(host, port)) {
            return Err(ConnectError::NotAllowed);
        }
        let all: Vec<_> = lookup_host((host, port)).await?.collect();
        let allowed: Vec<_> = all.iter().copied().filter(|address| self.allows(tenant, *address)).collect();
        match (all.is_empty(), allowed.is_empty()) {
            (true, _) => Err(ConnectError::NoAddress),
            (false, true) => Err(ConnectError::NotAllowed),
            (false, false) => Ok(allowed),
        }
    }

    /// A connection to the first address of `host` that accepts one; `within` bounds the whole.
    pub async fn connect(
        &self,
        tenant: &TenantId,
        host: &str,
        port: u16,
        within: Duration,
    ) -> Result<TcpStream, ConnectError> {
        timeout(within, async {
            let mut failure = ConnectError::NoAddress;
            for address in self.resolve(tenant, host, port).await? {
                match TcpStream::connect(address).await {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(stream);
                    }
                    Err(error) => failure = error.into(),
                }
            }
            Err(failure)
        })
        .await
        .unwrap_or(Err(ConnectError::TimedOut))
    }

    /// The rule, on the address that is about to be connected to. Every destination is allowed so far.
    #[expect(clippy::unused_self, reason = "profiles come with the tenants' limits")]
    fn allows(&self, _tenant: &TenantId, _address: SocketAddr) -> bool {
        true
    }
}
