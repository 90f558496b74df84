//! One connection, from its first byte to its last.
//!
//! tonic's own server ends a connection at its age too, but knows no jitter and lets open streams run into the end of
//! the grace period, where they break. Here they end with OK first.

use std::{
    io::Cursor,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, http::Request};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulConnection},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::TcpStream,
    task::yield_now,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tower::Service;
use tracing::debug;

use crate::service::{Caller, Connection};

/// What an HTTP/2 client sends first (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Streams of one connection. KEDA has two for each push trigger, all on one connection, and once the limit is reached
/// its calls wait without a deadline.
const STREAMS: u32 = 1 << 20;

/// Bytes of one stream's and one connection's receive window, of a stream's send buffer, of a request's headers.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
const SEND_BUFFER: usize = 32 * 1024;
const HEADERS: u32 = 8 * 1024;

/// Streams that we reset because of what the client sent, before the connection is closed (CVE-2025-8671).
const LOCAL_RESETS: usize = 256;

/// Bytes and number of the headers of an HTTP/1 request.
const HTTP1_BUFFER: usize = 16 * 1024;
const HTTP1_HEADERS: usize = 64;

/// The times of a connection.
#[derive(Clone, Debug)]
pub struct Timing {
    /// A client that sends nothing is pinged this often: KEDA's never pings, and its streams are silent for hours.
    pub keepalive_interval: Duration,
    /// A client that does not answer a ping in this time is gone.
    pub keepalive_timeout: Duration,
    /// A connection ends at this age, give or take a tenth, so that clients spread over new replicas.
    pub age: Duration,
    /// How long what is in flight may take after that.
    pub grace: Duration,
    /// A client's first bytes must come in this time.
    pub handshake: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            age: Duration::from_secs(30 * 60),
            grace: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
        }
    }
}

/// Serves gRPC connections.
pub struct Grpc {
    routes: Routes,
    timing: Timing,
    builder: auto::Builder<TokioExecutor>,
}

impl Grpc {
    /// The tasks that hyper starts for requests end with their connection: a request's task waits for the reset that a
    /// lost connection gives.
    pub fn new(routes: Routes, timing: Timing) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(timing.keepalive_interval)
            .keep_alive_timeout(timing.keepalive_timeout)
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEADERS)
            .max_local_error_reset_streams(LOCAL_RESETS);
        Self { routes, timing, builder }
    }

    /// One connection, to its end.
    pub async fn serve(self: Arc<Self>, io: TcpStream, drain: CancellationToken) {
        let io = match timeout(self.timing.handshake, expect_http2(io)).await {
            Ok(Ok(io)) => TokioIo::new(io),
            Ok(Err(error)) => return debug!(%error, "not an HTTP/2 client"),
            Err(_elapsed) => return debug!("handshake timed out"),
        };
        let connection = Connection::new(Caller::local(), drain.child_token());
        let routes = RoutesOf { routes: self.routes.clone(), connection: connection.clone() };
        let served = self.builder.serve_connection(io, TowerToHyperService::new(routes));
        live(served, &connection, &self.timing, &drain).await;
    }
}

/// The routes, where every request knows its connection.
#[derive(Clone)]
struct RoutesOf {
    routes: Routes,
    connection: Connection,
}

impl<B> Service<Request<B>> for RoutesOf
where
    Routes: Service<Request<B>>,
{
    type Response = <Routes as Service<Request<B>>>::Response;
    type Error = <Routes as Service<Request<B>>>::Error;
    type Future = <Routes as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.routes.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.connection.clone());
        self.routes.call(request)
    }
}

/// Serves HTTP/1 connections.
pub struct Http {
    pages: Router,
    timing: Timing,
    builder: auto::Builder<TokioExecutor>,
}

impl Http {
    /// A connection of a scraper has the same age as one of KEDA.
    pub fn new(pages: Router, timing: Timing) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(timing.handshake)
            .max_buf_size(HTTP1_BUFFER)
            .max_headers(HTTP1_HEADERS);
        Self { pages, timing, builder }
    }

    /// One connection, to its end.
    pub async fn serve(self: Arc<Self>, io: TcpStream, drain: CancellationToken) {
        let service = TowerToHyperService::new(self.pages.clone());
        let served = self.builder.serve_connection(TokioIo::new(io), service);
        let connection = Connection::new(Caller::local(), drain.child_token());
        live(served, &connection, &self.timing, &drain).await;
    }
}

/// hyper waits for the preface for ever, so it is read here and put back.
async fn expect_http2(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
) -> std::io::Result<impl AsyncRead + AsyncWrite + Unpin> {
    let mut first = [0; PREFACE.len()];
    io.read_exact(&mut first).await?;
    if first != *PREFACE {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let (read, write) = tokio::io::split(io);
    Ok(tokio::io::join(Cursor::new(first).chain(read), write))
}

/// Drives a connection until it ends by itself, or its age or the drain ends it: first its streams, with OK, then the
/// connection, with GOAWAY, then, after the grace period, what is left.
async fn live<C: GracefulConnection>(served: C, connection: &Connection, timing: &Timing, drain: &CancellationToken)
where
    C::Error: std::fmt::Display,
{
    let mut served = pin!(served);
    let age = timing.age.mul_f64(rand::random_range(0.9..1.1));
    let over = tokio::select! {
        ended = served.as_mut() => Some(ended),
        () = sleep(age) => None,
        () = drain.cancelled() => None,
    };
    if let Some(ended) = over {
        return log(ended);
    }
    connection.ends.cancel();
    let cut = Instant::now() + timing.grace;
    let streams_ended = async {
        tokio::select! {
            () = connection.streams_ended() => yield_now().await, // once more around, so that their ends are sent
            () = sleep_until(cut) => {}
        }
    };
    let over = tokio::select! {
        biased;
        ended = served.as_mut() => Some(ended),
        () = streams_ended => None,
    };
    if let Some(ended) = over {
        return log(ended);
    }
    served.as_mut().graceful_shutdown();
    tokio::select! {
        ended = served => log(ended),
        () = sleep_until(cut) => debug!("connection cut"),
    }
}

fn log<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        debug!(%error, "connection failed");
    }
}
