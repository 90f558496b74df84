//! Counts what a client sends to an HTTP server: a proxy that passes all bytes on unchanged and notes the first line of each
//! request without a body.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Result;

/// How often [`HttpCount::cycles`] looks.
const LOOK: Duration = Duration::from_millis(20);

/// A proxy, and the requests that it has seen. Dropping it ends it.
pub struct HttpCount {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
    _serving: JoinSet<()>,
}

impl HttpCount {
    /// A proxy before the server that listens on a loopback port.
    pub async fn new(target: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (requests, connections) = (Arc::default(), Arc::default());
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, target, Arc::clone(&requests), Arc::clone(&connections)));
        Ok(Self { port, requests, connections, _serving: serving })
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The first lines of `count` cycles of requests: those of one are at most `quiet` apart.
    pub async fn cycles(&self, count: usize, quiet: Duration) -> Vec<Vec<String>> {
        let (mut cycles, mut cycle, mut last) = (Vec::new(), Vec::new(), Instant::now());
        while cycles.len() < count {
            let (new, _) = self.take();
            if !new.is_empty() {
                last = Instant::now();
                cycle.extend(new);
            } else if !cycle.is_empty() && last.elapsed() > quiet {
                cycles.push(std::mem::take(&mut cycle));
            }
            sleep(LOOK).await;
        }
        cycles
    }

    /// The requests since the last call, and the connections since the start.
    pub fn take(&self) -> (Vec<String>, usize) {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner));
        (requests, *self.connections.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn accept(listener: TcpListener, target: u16, requests: Arc<Mutex<Vec<String>>>, connections: Arc<Mutex<usize>>) {
    let mut open = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        *connections.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        open.spawn(pass(client, target, Arc::clone(&requests)));
    }
}

async fn pass(client: TcpStream, target: u16, requests: Arc<Mutex<Vec<String>>>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let count = async {
        let (mut chunk, mut head) = (vec![0; 8192], Vec::new());
        while let Ok(read @ 1..) = from_client.read(&mut chunk).await {
            head.extend_from_slice(&chunk[..read]);
            while let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&head[..end]).into_owned();
                let line = text.lines().next().unwrap_or_default().to_owned();
                requests.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                head.drain(..end + 4);
            }
            if to_server.write_all(&chunk[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = count => {}
        _ = copy(&mut from_server, &mut to_client) => {}
    }
}
