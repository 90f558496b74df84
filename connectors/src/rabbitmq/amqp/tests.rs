//! Peers that are no broker: what they send is an error, costs its connection, and is never a queue of no messages.

use std::time::SystemTime;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;
use crate::{
    clock::TokioClock,
    egress::Egress,
    metadata::{CredentialSource, Metadata, Parameters},
    sampler::Limits,
};

/// What the peer says in the handshake, and instead of its first answer to a declare.
#[derive(Clone, Default)]
struct Script {
    tune: (u16, u32, u16),
    instead: Option<Vec<u8>>,
}

/// What the peer was told: `channel_max`, `frame_max` and `heartbeat` as agreed, by connection; and how many have ended.
#[derive(Default)]
struct Told {
    tuned: Vec<(u16, u32, u16)>,
    ended: usize,
}

struct Peer {
    port: u16,
    told: Arc<Mutex<Told>>,
    _serving: JoinSet<()>,
}

impl Peer {
    /// The first connection gets `script`; later ones are a broker's.
    async fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Arc::<Mutex<Told>>::default();
        let mut serving = JoinSet::new();
        let shared = told.clone();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            let mut scripts = vec![script];
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, told) = (scripts.pop().unwrap_or_default(), shared.clone());
                open.spawn(async move {
                    serve(stream, script, &told).await;
                    told.lock().unwrap().ended += 1;
                });
            }
        });
        Self { port, told, _serving: serving }
    }

    fn client(&self) -> AmqpClient {
        let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
        let environment = Environment { clock, egress: Egress::open(), limits: Limits::default() };
        let host = format!("amqp://u:p@127.0.0.1:{}/shop", self.port);
        let metadata = Metadata::new([("host", host.as_str())]);
        let settings = Settings::read(Parameters::new(&metadata, CredentialSource::None)).unwrap().unwrap();
        AmqpClient::new(&TenantId::local("team-a"), settings, &environment).unwrap()
    }
}

/// A frame: a method of a class with its arguments.
fn method(channel: u16, class: u16, method: u16, arguments: &[u8]) -> Vec<u8> {
    let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
    frame(1, channel, &payload)
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind], &channel.to_be_bytes()[..], &size, payload, &[0xCE]].concat()
}

fn long(text: &str) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat()
}

/// A queue of 7 messages and no consumers.
fn declared(channel: u16) -> Vec<u8> {
    method(channel, 50, 11, &[0, 0, 0, 0, 7, 0, 0, 0, 0])
}

/// Until the client's end.
async fn serve(mut stream: TcpStream, mut script: Script, told: &Mutex<Told>) {
    let mut header = [0; 8];
    stream.read_exact(&mut header).await.unwrap();
    let start = [&[0, 9, 0, 0, 0, 0][..], &long("PLAIN"), &long("en_US")].concat();
    stream.write_all(&method(0, 10, 10, &start)).await.unwrap();
    loop {
        let mut head = [0; 7];
        if stream.read_exact(&mut head).await.is_err() {
            return;
        }
        let channel = u16::from_be_bytes([head[1], head[2]]);
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        let mut payload = vec![0; size as usize + 1];
        if stream.read_exact(&mut payload).await.is_err() {
            return;
        }
        let number = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
        let answer = match (head[0], number(0), number(2)) {
            (1, 10, 11) => {
                let (channels, frames, heartbeat) = script.tune;
                let tune = [&channels.to_be_bytes()[..], &frames.to_be_bytes(), &heartbeat.to_be_bytes()].concat();
                method(0, 10, 30, &tune)
            }
            (1, 10, 31) => {
                let frame_max = u32::from(number(6)) << 16 | u32::from(number(8));
                told.lock().unwrap().tuned.push((number(4), frame_max, number(10)));
                continue;
            }
            (1, 10, 40) => method(0, 10, 41, &[0]),
            (1, 10, 50) => method(0, 10, 51, &[]),
            (1, 20, 10) => method(channel, 20, 11, &[0, 0, 0, 0]),
            (1, 50, 10) => script.instead.take().unwrap_or_else(|| declared(channel)),
            _ => continue,
        };
        if answer.is_empty() || stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn names(count: usize) -> Vec<Arc<str>> {
    (0..count).map(|n| format!("queue-{n}").into()).collect()
}

const SEVEN: Declared = Declared { messages: 7, consumers: 0 };

/// safety.md C8, E12. lapin's least is what we ask for.
#[tokio::test]
async fn e12_whatever_a_peer_proposes_frames_stay_small() {
    for (tune, agreed) in [
        ((0, 0, 0), (2047, 8192, 10)),
        ((2047, u32::MAX, 60), (2047, 8192, 10)),
        ((2047, 131_072, 1), (2047, 8192, 1)),
        ((u16::MAX, 4096, 0), (2047, 8192, 10)),
        ((2047, 1, 60), (2047, 8192, 10)),
        ((1, 131_072, 60), (1, 8192, 10)),
    ] {
        let peer = Peer::new(Script { tune, instead: None }).await;
        let mut client = peer.client();
        let answers = client.declare(&names(40), Instant::now() + Duration::from_secs(5)).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(SEVEN))), "{tune:?}: {answers:?}");
        assert_eq!(peer.told.lock().unwrap().tuned, [agreed], "{tune:?}");
    }
}

/// Each row takes the first answer's place; the connection after it is a broker's.
#[tokio::test]
async fn e12_what_is_no_answer_is_an_error_and_costs_its_connection() {
    let close = [&320_u16.to_be_bytes()[..], &[4], b"gone", &[0, 0, 0, 0]].concat();
    let hang = Duration::from_millis(300);
    let soon = Duration::from_secs(5);
    let rows: [(&str, Vec<u8>, Duration); 9] = [
        ("its end", Vec::new(), soon),
        ("an unknown frame", frame(99, 1, b"x"), soon),
        ("a frame without its end", [1, 0, 1, 0, 0, 0, 1, b'x', 0xFF].to_vec(), soon),
        ("a head of 4 GiB", [1, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF].to_vec(), hang),
        ("more than frames may have", frame(1, 1, &vec![0; 100_000]), soon),
        ("a channel that is not open", declared(u16::MAX), soon),
        ("a close", method(0, 10, 50, &close), soon),
        ("a block for ever", method(0, 10, 60, &[0]), hang),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n".to_vec(), soon),
    ];
    for (name, instead, within) in rows {
        let peer = Peer::new(Script { tune: (0, 0, 0), instead: Some(instead) }).await;
        let mut client = peer.client();
        let answers = client.declare(&names(1), Instant::now() + within).await;
        assert!(answers[0].is_err(), "{name}: {answers:?}");
        let text = answers[0].as_ref().unwrap_err().to_string();
        assert!(text.starts_with("source "), "{name}: {text}");
        // The stream is cut, whatever lapin waits for.
        tokio::time::timeout(soon, async {
            while peer.told.lock().unwrap().ended == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{name}: the connection stays open"));
        let answers = client.declare(&names(1), Instant::now() + soon).await;
        assert!(matches!(answers[0], Ok(SEVEN)), "{name}: {answers:?}");
    }
}

/// A peer that accepts, and is silent or is no broker.
#[tokio::test]
async fn e5_a_handshake_ends_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let told = Arc::default();
    let peer = Peer { port: listener.local_addr().unwrap().port(), told, _serving: JoinSet::new() };
    let answers = peer.client().declare(&names(3), Instant::now() + Duration::from_millis(300)).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(SampleError::TimedOut))), "{answers:?}");
    for said in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"", b"AMQP\0\0\x09\x01"] {
        let mut client = peer.client();
        let until = Instant::now() + Duration::from_secs(2);
        let names = names(2);
        let (answers, ()) = tokio::join!(client.declare(&names, until), async {
            // The first in the row is the one that timed out, or a client that has ended.
            for _ in 0..2 {
                let accepted = tokio::time::timeout(Duration::from_millis(500), listener.accept()).await;
                let Ok(Ok((mut stream, _))) = accepted else { return };
                let _ = stream.write_all(said).await;
            }
        });
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
    }
}

/// safety.md D4.
#[test]
fn nothing_prints_the_password() {
    let uri = format!("{:?}", Sasl::plain("us", "hunter2").response);
    assert!(!uri.contains("hunter2"), "{uri}");
}
