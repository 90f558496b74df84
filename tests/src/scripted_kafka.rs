//! A small Kafka cluster that does what a test says: real sockets, plain data, no log and no disk.
//!
//! It answers what a client that only reads asks, remembers who asked what, and can be told to answer otherwise.

// The path is told because the unit tests of the Kafka client include this file by its path.
#[path = "scripted_kafka/answers.rs"]
mod answers;

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, RequestHeader},
    protocol::Decodable,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

pub use answers::Reply;

/// The largest request that a broker reads, in bytes; what is larger is no request of ours, but perhaps TLS.
const MAX_REQUEST: usize = 1 << 20;

/// A cluster. Dropping it closes everything.
pub struct ScriptedKafka {
    state: Arc<Mutex<State>>,
    _listeners: JoinSet<()>,
}

/// What the cluster holds, and how it behaves.
#[derive(Default)]
pub struct State {
    /// Where each broker listens; what metadata tells.
    pub brokers: BTreeMap<i32, SocketAddr>,
    /// The topics.
    pub topics: BTreeMap<String, Topic>,
    /// The groups.
    pub groups: BTreeMap<String, Group>,
    /// The newest version of an API that the brokers speak; a negative one means none.
    pub newest: BTreeMap<i16, i16>,
    /// The user and password of PLAIN, where brokers ask for one.
    pub login: Option<(String, String)>,
    /// How long a session lives, in milliseconds.
    pub session_lifetime: i64,
    /// Every request so far.
    pub requests: Vec<Seen>,
    /// Connections opened so far, by broker.
    pub connections: BTreeMap<i32, usize>,
    scripts: VecDeque<Script>,
}

/// A topic.
#[derive(Clone, Default)]
pub struct Topic {
    /// Its id; 0 for none.
    pub id: u128,
    /// Its partitions.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Clone, Copy, Default)]
pub struct Partition {
    /// The broker that leads it.
    pub leader: i32,
    /// The leader's epoch.
    pub epoch: i32,
    /// Log start offset.
    pub start: i64,
    /// Last stable offset.
    pub stable: i64,
    /// High watermark.
    pub end: i64,
}

/// A consumer group.
#[derive(Clone, Default)]
pub struct Group {
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// What it committed.
    pub commits: BTreeMap<(String, i32), i64>,
    /// Whether it is a share group.
    pub share: bool,
}

/// A request that a broker got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The broker.
    pub broker: i32,
    /// The API.
    pub api: ApiKey,
    /// The version.
    pub version: i16,
}

/// What a broker does instead of answering.
#[derive(Clone)]
pub enum Act {
    /// Changes the answer.
    Edit(Arc<dyn Fn(&mut Reply) + Send + Sync>),
    /// Reads on and says nothing.
    Silence,
    /// Closes the connection.
    Close,
    /// Sends these bytes after the correlation id.
    Body(Vec<u8>),
    /// Sends these bytes, whatever they are.
    Raw(Vec<u8>),
    /// Answers under another correlation id.
    WrongCorrelation,
    /// Answers twice.
    Twice,
}

struct Script {
    broker: Option<i32>,
    api: ApiKey,
    times: usize,
    act: Act,
}

impl ScriptedKafka {
    /// A cluster of `brokers` brokers, numbered from 1 on.
    pub async fn start(brokers: i32) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let mut listeners = JoinSet::new();
        for id in 1..=brokers {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
            let address = listener.local_addr().expect("it is bound");
            state.lock().expect("no holder panics").brokers.insert(id, address);
            listeners.spawn(accept(id, listener, Arc::clone(&state)));
        }
        Self { state, _listeners: listeners }
    }

    /// What the cluster holds.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Adds a topic, whose partitions are led by the brokers in turn and end where `ends` says.
    pub fn topic(&self, name: &str, ends: &[i64]) {
        let mut state = self.state();
        let brokers: Vec<_> = state.brokers.keys().copied().collect();
        let id = state.topics.len() as u128 + 1;
        let partitions = ends.iter().zip(brokers.iter().cycle());
        let partitions = partitions.map(|(&end, &leader)| Partition { leader, epoch: 0, start: 0, stable: end, end });
        let partitions = partitions.collect();
        state.topics.insert(name.to_owned(), Topic { id, partitions });
    }

    /// Adds a group that has committed `commits` on the first partitions of `topic`; a negative one means none.
    pub fn group(&self, name: &str, coordinator: i32, topic: &str, commits: &[i64]) {
        let mut state = self.state();
        let group = state.groups.entry(name.to_owned()).or_default();
        group.coordinator = coordinator;
        for (partition, &commit) in (0..).zip(commits) {
            if commit >= 0 {
                group.commits.insert((topic.to_owned(), partition), commit);
            }
        }
    }

    /// The next `times` requests of `api` are met with `act`.
    pub fn script(&self, api: ApiKey, times: usize, act: Act) {
        self.state().scripts.push_back(Script { broker: None, api, times, act });
    }

    /// The next `times` requests of `api` to `broker` are met with `act`.
    pub fn script_on(&self, broker: i32, api: ApiKey, times: usize, act: Act) {
        self.state().scripts.push_back(Script { broker: Some(broker), api, times, act });
    }

    /// The next `times` answers to `api` are changed by `edit`.
    pub fn edit(&self, api: ApiKey, times: usize, edit: impl Fn(&mut Reply) + Send + Sync + 'static) {
        self.script(api, times, Act::Edit(Arc::new(edit)));
    }

    /// The bootstrap servers.
    pub fn bootstrap(&self) -> Vec<(String, u16)> {
        self.state().brokers.values().map(|address| (address.ip().to_string(), address.port())).collect()
    }

    /// How often each broker was asked `api` so far.
    pub fn count(&self, api: ApiKey) -> BTreeMap<i32, usize> {
        let mut counts = BTreeMap::new();
        for seen in self.state().requests.iter().filter(|seen| seen.api == api) {
            *counts.entry(seen.broker).or_default() += 1;
        }
        counts
    }

    /// Forgets what was asked so far.
    pub fn forget(&self) {
        self.state().requests.clear();
    }
}

impl State {
    fn act(&mut self, broker: i32, api: ApiKey) -> Option<Act> {
        let fits = |script: &&mut Script| {
            script.times > 0 && script.api == api && script.broker.is_none_or(|only| only == broker)
        };
        let script = self.scripts.iter_mut().find(fits)?;
        script.times -= 1;
        Some(script.act.clone())
    }
}

async fn accept(id: i32, listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        *state.lock().expect("no holder panics").connections.entry(id).or_default() += 1;
        let state = Arc::clone(&state);
        connections.spawn(async move {
            // A client that goes, or a script that closes, ends it.
            let _ = serve(id, stream, &state).await;
        });
    }
}

async fn serve(id: i32, mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut authenticated = false;
    loop {
        let size = stream.read_u32().await? as usize;
        if size > MAX_REQUEST {
            return Ok(());
        }
        let mut body = vec![0; size];
        stream.read_exact(&mut body).await?;
        let mut body = Bytes::from(body);
        let api = ApiKey::try_from((&body[..]).get_i16()).map_err(|()| std::io::Error::other("unknown API"))?;
        let version = (&body[2..]).get_i16();
        let header = RequestHeader::decode(&mut body, api.request_header_version(version));
        let header = header.map_err(std::io::Error::other)?;
        let (act, reply) = {
            let mut state = state.lock().expect("no holder panics");
            state.requests.push(Seen { broker: id, api, version });
            let act = state.act(id, api);
            (act, answers::answer(&state, id, api, version, body, &mut authenticated))
        };
        let Some(mut reply) = reply else { return Ok(()) };
        let answer = |correlation: i32, reply: &Reply| {
            let mut frame = BytesMut::new();
            frame.put_i32(correlation);
            if api.response_header_version(version) > 0 {
                frame.put_u8(0);
            }
            reply.encode(&mut frame, version);
            framed(&frame)
        };
        let bytes = match act {
            None => answer(header.correlation_id, &reply),
            Some(Act::Edit(edit)) => {
                edit(&mut reply);
                answer(header.correlation_id, &reply)
            }
            Some(Act::Silence) => continue,
            Some(Act::Close) => return Ok(()),
            Some(Act::Body(bytes)) => framed(&[&header.correlation_id.to_be_bytes()[..], &bytes].concat()),
            Some(Act::Raw(bytes)) => bytes,
            Some(Act::WrongCorrelation) => answer(header.correlation_id + 1, &reply),
            Some(Act::Twice) => answer(header.correlation_id, &reply).repeat(2),
        };
        stream.write_all(&bytes).await?;
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len()).expect("a test's answer is small");
    [&size.to_be_bytes()[..], body].concat()
}
