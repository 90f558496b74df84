//! Counts what a client sends to Kafka brokers: a proxy before each broker that reads the API key of every request frame
//! and passes all bytes on unchanged.
//!
//! Brokers advertise the proxy's port on a listener of its own, so a client that bootstraps from it stays on it.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinSet};

use crate::Result;

/// A broker's id.
pub type BrokerId = i32;
/// A request's API key, as `kafka_protocol::messages::ApiKey` numbers them.
pub type ApiKey = i16;

#[derive(Debug, Default)]
struct Counts {
    /// Frames by broker, connection and API key.
    requests: HashMap<(BrokerId, u64, ApiKey), usize>,
    /// Connections accepted since the last reset.
    accepted: HashMap<BrokerId, usize>,
    open: HashMap<BrokerId, HashSet<u64>>,
    next_connection: u64,
}

/// The proxies of one cluster, and what they have seen. Dropping it ends them.
#[derive(Debug, Default)]
pub struct WireCount {
    counts: Arc<Mutex<Counts>>,
    proxies: HashMap<BrokerId, (u16, AbortHandle)>,
}

impl WireCount {
    /// Puts a proxy before the broker that listens on `target`, and returns the proxy's port.
    pub(crate) fn add(&mut self, runtime: &Runtime, broker: BrokerId, target: u16) -> Result<u16> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let counts = Arc::clone(&self.counts);
        let task = runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("it is bound and does not block");
            accept(&listener, broker, target, &counts).await;
        });
        if let Some((_, previous)) = self.proxies.insert(broker, (port, task.abort_handle())) {
            previous.abort();
        }
        Ok(port)
    }

    /// The port of a broker's proxy.
    ///
    /// # Panics
    /// If there is no proxy before that broker.
    pub fn port(&self, broker: BrokerId) -> u16 {
        self.proxies[&broker].0
    }

    /// Requests since the last reset, by broker and API key.
    pub fn counts(&self) -> HashMap<(BrokerId, ApiKey), usize> {
        let mut sums = HashMap::new();
        for (&(broker, _, key), count) in &lock(&self.counts).requests {
            *sums.entry((broker, key)).or_default() += count;
        }
        sums
    }

    /// Requests since the last reset, by connection and API key, of one broker. Connections are numbered as they came.
    pub fn counts_by_connection(&self, broker: BrokerId) -> HashMap<(u64, ApiKey), usize> {
        let counts = lock(&self.counts);
        let of_broker = counts.requests.iter().filter(|((of, ..), _)| *of == broker);
        of_broker.map(|(&(_, connection, key), &count)| ((connection, key), count)).collect()
    }

    /// Connections to a broker that were accepted since the last reset.
    pub fn connections(&self, broker: BrokerId) -> usize {
        lock(&self.counts).accepted.get(&broker).copied().unwrap_or_default()
    }

    /// Connections to a broker that are open now.
    pub fn open_connections(&self, broker: BrokerId) -> usize {
        lock(&self.counts).open.get(&broker).map_or(0, HashSet::len)
    }

    /// Forgets what was counted. Open connections stay open and keep counting.
    pub fn reset(&self) {
        let mut counts = lock(&self.counts);
        counts.requests.clear();
        counts.accepted.clear();
    }
}

impl Drop for WireCount {
    fn drop(&mut self) {
        for (_, task) in self.proxies.values() {
            task.abort();
        }
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: &TcpListener, broker: BrokerId, target: u16, counts: &Arc<Mutex<Counts>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let connection = Connection::open(broker, counts);
        connections.spawn(async move {
            // A broker that is down is a closed connection to the client, as it would be without the proxy.
            let _ = relay(client, target, &connection).await;
        });
    }
}

/// One counted connection, open until dropped.
struct Connection {
    broker: BrokerId,
    number: u64,
    counts: Arc<Mutex<Counts>>,
}

impl Connection {
    fn open(broker: BrokerId, counts: &Arc<Mutex<Counts>>) -> Self {
        let mut locked = lock(counts);
        locked.next_connection += 1;
        let number = locked.next_connection;
        *locked.accepted.entry(broker).or_default() += 1;
        locked.open.entry(broker).or_default().insert(number);
        drop(locked);
        Self { broker, number, counts: Arc::clone(counts) }
    }

    fn count(&self, key: ApiKey) {
        *lock(&self.counts).requests.entry((self.broker, self.number, key)).or_default() += 1;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(open) = lock(&self.counts).open.get_mut(&self.broker) {
            open.remove(&self.number);
        }
    }
}

async fn relay(client: TcpStream, target: u16, connection: &Connection) -> std::io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let mut frames = Frames::default();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                return to_server.shutdown().await;
            }
            frames.feed(&buffer[..read], |key| connection.count(key));
            to_server.write_all(&buffer[..read]).await?;
        }
    };
    // When one side is closed the connection is over: neither side of Kafka half-closes.
    tokio::select! {
        done = requests => done,
        done = copy(&mut from_server, &mut to_client) => done.map(|_| ()),
    }
}

/// Finds the API key of each request in a stream of bytes: a frame is a 4-byte length, then that many bytes, which begin
/// with the key.
#[derive(Debug, Default)]
struct Frames {
    /// Length and key, as far as they have arrived.
    head: Vec<u8>,
    /// Bytes of the frame after its key that have not passed yet.
    body_left: usize,
}

impl Frames {
    const HEAD: usize = 6;
    const KEY: usize = 2;

    fn feed(&mut self, mut bytes: &[u8], mut on_key: impl FnMut(ApiKey)) {
        while !bytes.is_empty() {
            if self.body_left > 0 {
                let passed = self.body_left.min(bytes.len());
                self.body_left -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            let taken = (Self::HEAD - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let Ok([a, b, c, d, high, low]) = <[u8; Self::HEAD]>::try_from(self.head.as_slice()) {
                let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("usize has at least 32 bits");
                self.body_left = length.saturating_sub(Self::KEY);
                self.head.clear();
                on_key(ApiKey::from_be_bytes([high, low]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(key: ApiKey, body: usize) -> Vec<u8> {
        let length = u32::try_from(Frames::KEY + body).unwrap();
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(key.to_be_bytes());
        bytes.resize(bytes.len() + body, 0xff);
        bytes
    }

    #[test]
    fn keys_are_found_however_the_bytes_arrive() {
        let stream = [frame(18, 30), frame(3, 0), frame(2, 1000), frame(9, 7)].concat();
        for chunk in [1, 2, 3, 5, 6, 7, 64, 1000, stream.len()] {
            let mut frames = Frames::default();
            let mut keys = Vec::new();
            for bytes in stream.chunks(chunk) {
                frames.feed(bytes, |key| keys.push(key));
            }
            assert_eq!(keys, [18, 3, 2, 9], "in chunks of {chunk}");
        }
    }
}
