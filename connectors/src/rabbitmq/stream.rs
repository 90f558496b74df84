//! The stream under lapin: one that [`Egress`](crate::egress::Egress) opened, with our own TLS, that can be cut.
//!
//! lapin takes a stream of any type through `Connection::connector`, if a reactor has that type; so there is a reactor
//! here, which opens none itself. lapin reads and writes it on a thread of its own, one for each connection. The thread
//! ends when the stream does, and [`Cord`] sees to that also where the broker does not answer.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::{Stream as Items, stream};
use lapin::AsyncTcpStream;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

/// A connection, with or without TLS.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection as lapin wants it.
pub(super) type Wire = Compat<Box<dyn Duplex>>;

/// Tokio's tasks and time, and no way to connect.
pub(super) type Kit = RuntimeParts<Tokio, Offline>;

/// The present runtime, as lapin wants it.
pub(super) fn runtime() -> Runtime<Kit> {
    Runtime::new(RuntimeParts::new(Tokio::current(), Offline))
}

/// Gives lapin `stream`, once: lapin would connect again, and reconnecting is not its business here.
pub(super) fn once(stream: impl Duplex + 'static) -> impl AsyncFn() -> io::Result<AsyncTcpStream<Wire>> + Send + Sync {
    let stream: Box<dyn Duplex> = Box::new(stream);
    let slot = Mutex::new(Some(stream));
    async move || {
        let stream = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        stream.map(|stream| AsyncTcpStream::Plain(stream.compat())).ok_or_else(offline)
    }
}

/// Ends a connection when it is dropped.
pub(super) struct Cord(std::net::TcpStream);

impl Cord {
    /// A second handle of `stream`.
    pub(super) fn of(stream: TcpStream) -> io::Result<(TcpStream, Self)> {
        let stream = stream.into_std()?;
        let cord = Self(stream.try_clone()?);
        Ok((TcpStream::from_std(stream)?, cord))
    }
}

impl Drop for Cord {
    fn drop(&mut self) {
        // It fails only if the connection has ended already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A reactor that has time, and no connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offline;

fn offline() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "only the egress opens connections")
}

#[expect(refining_impl_trait_internal, reason = "an error needs no hidden type")]
impl Reactor for Offline {
    type TcpStream = Wire;
    type Sleep = time::Sleep;

    fn register<H: Read + Write + Send + 'static>(&self, _socket: H) -> io::Result<Wire> {
        Err(offline())
    }

    fn sleep(&self, time: Duration) -> time::Sleep {
        time::sleep(time)
    }

    fn interval(&self, period: Duration) -> impl Items<Item = Instant> + Send + 'static {
        stream::unfold(time::interval(period), |mut ticks| async move { Some((ticks.tick().await.into_std(), ticks)) })
    }

    fn tcp_connect_addr(&self, _address: SocketAddr) -> impl Future<Output = io::Result<Wire>> + Send + 'static {
        std::future::ready(Err(offline()))
    }
}
