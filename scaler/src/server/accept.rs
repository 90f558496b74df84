//! The accept loop: nothing that one connection does ends it.

use std::{future::Future, io, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// How long to wait when the process has no file descriptor left, or the like.
const BREATH: Duration = Duration::from_millis(100);

/// Accepts until `drain`, then closes the listener and waits for the connections, which see `drain` themselves. When
/// there are `limit` of them, a new one is closed at once. To cut them, drop the future.
pub async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limit: usize,
    drain: &CancellationToken,
    serve: impl Fn(TcpStream, CancellationToken) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((_, peer)) if connections.len() >= limit => debug!(%peer, limit, "too many connections"),
                Ok((io, peer)) => {
                    if let Err(error) = io.set_nodelay(true) {
                        debug!(%peer, %error, "connection lost");
                    }
                    connections.spawn(serve(io, drain.clone()));
                }
                Err(error) if of_one_connection(&error) => debug!(%error, "connection lost"),
                Err(error) => {
                    warn!(%error, "cannot accept");
                    sleep(BREATH).await;
                }
            },
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    warn!(%error, "connection failed");
                }
            }
            () = drain.cancelled() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
