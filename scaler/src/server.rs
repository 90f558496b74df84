//! The listeners: gRPC and HTTP, from binding to the end of the drain.
//!
//! Invariants:
//! - Whatever a connection does, the accept loop goes on.
//! - Every connection is in a `JoinSet`, has a handshake deadline and an age, and there are at most so many.
//! - Every push stream ends with OK before its connection is told to go away: KEDA's wait between two attempts to open
//!   one grows after any other end.
//! - After the signal the process is not ready at once, and [`Server::run`] returns within [`DRAIN`] and a second.

mod accept;
mod connection;
mod health;
mod reflection;
#[cfg(test)]
mod tests;

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tracing::{info, warn};

pub use self::connection::Timing;
use self::{
    accept::accept,
    connection::{Grpc, Http},
};
use crate::{
    http::{self, Pages},
    metrics::Metrics,
    service::{Core, Service},
};

/// How long streams and calls have to end after the signal. With [`SHUT_DOWN`] it stays under 10 s.
pub const DRAIN: Duration = Duration::from_secs(8);

/// How long the core has to end after the drain.
const SHUT_DOWN: Duration = Duration::from_secs(1);

/// Connections of gRPC clients: KEDA opens one per distinct address and TLS parameters.
const GRPC_CONNECTIONS: usize = 512;

/// Connections to the HTTP pages: probes and a scraper or two.
const HTTP_CONNECTIONS: usize = 64;

/// How often histograms are moved to their buckets.
const UPKEEP: Duration = Duration::from_secs(5);

/// Where the server listens, and its times.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The gRPC listener.
    pub grpc: SocketAddr,
    /// The HTTP listener.
    pub http: SocketAddr,
    /// The times of a connection.
    pub timing: Timing,
}

impl Default for Settings {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self { grpc: loopback(9090), http: loopback(8080), timing: Timing::default() }
    }
}

/// A server that is bound, and accepts once it runs.
pub struct Server {
    grpc: TcpListener,
    http: TcpListener,
    timing: Timing,
}

impl Server {
    /// Binds both listeners.
    pub async fn bind(settings: &Settings) -> io::Result<Self> {
        let bind = async |address: SocketAddr| {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
            TcpListener::bind(address).await.map_err(named)
        };
        let (grpc, http) = (bind(settings.grpc).await?, bind(settings.http).await?);
        Ok(Self { grpc, http, timing: settings.timing.clone() })
    }

    /// The address of the gRPC listener.
    pub fn grpc_address(&self) -> io::Result<SocketAddr> {
        self.grpc.local_addr()
    }

    /// The address of the HTTP listener.
    pub fn http_address(&self) -> io::Result<SocketAddr> {
        self.http.local_addr()
    }

    /// Serves until `stop` resolves, then drains.
    pub async fn run<C: Core>(self, core: Arc<C>, metrics: Arc<Metrics>, stop: impl Future<Output = ()>) {
        let (reporter, health) = health::service().await;
        let service = Service::server(Arc::clone(&core), Arc::clone(&metrics));
        let routes = reflection::add(Routes::new(service).add_service(health)).prepare();
        let stopping = CancellationToken::new();
        let draining = CancellationToken::new();
        let never = CancellationToken::new(); // the pages answer until all else is over
        let pages = http::routes(Pages::new(Arc::clone(&core), Arc::clone(&metrics), stopping.clone()));
        let grpc = Arc::new(Grpc::new(routes, self.timing.clone()));
        let http = Arc::new(Http::new(pages, self.timing));
        let stopped = async {
            stop.await;
            info!("draining");
            stopping.cancel();
            health::stop(&reporter).await;
            draining.cancel();
            sleep(DRAIN).await;
        };
        tokio::select! {
            // Ends when it drains and the last connection has ended; what is in its `JoinSet` ends with it.
            () = accept(self.grpc, GRPC_CONNECTIONS, &draining, |io, drain| Arc::clone(&grpc).serve(io, drain)) => {}
            () = accept(self.http, HTTP_CONNECTIONS, &never, |io, drain| Arc::clone(&http).serve(io, drain)) => {}
            () = upkeep(&metrics) => {}
            () = stopped => warn!("connections are cut, since they did not end in time"),
        }
        if timeout(SHUT_DOWN, core.shut_down()).await.is_err() {
            warn!("pollers are cut, since they did not end in time");
        }
    }
}

/// Listens for SIGTERM and SIGINT from now on; the future waits for the first.
pub fn signalled() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn upkeep(metrics: &Metrics) {
    loop {
        sleep(UPKEEP).await;
        metrics.upkeep();
    }
}
