//! The one place where a connection to a source is opened: from a resolved address, under a deadline.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::tenant::TenantId;

/// Opens every connection of every source, so that one rule can meet them all.
#[derive(Clone, Debug, Default)]
pub struct Egress {}

/// Why no connection was opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address that may be connected to.
    #[error("no usable address")]
    NoAddress,
    /// Name resolution or every address took too long.
    #[error("timed out")]
    TimedOut,
    /// The network said no.
    #[error("connection failed")]
    Io(#[from] io::Error),
}

impl Egress {
    /// Allows every destination.
    pub fn open() -> Self {
        Self {}
    }

    /// The addresses of `host` that `tenant` may connect to.
    pub async fn resolve(&self, tenant: &TenantId, host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
        let allowed: Vec<_> =
            lookup_host((host, port)).await?.filter(|address| self.allows(tenant, *address)).collect();
        if allowed.is_empty() { Err(ConnectError::NoAddress) } else { Ok(allowed) }
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
