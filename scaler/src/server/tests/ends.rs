//! How connections end: by drain, by age, by their own fault.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use super::{Running, SOON, Timing, client_of, proxy, rest};
use crate::{
    server::{accept::accept, signalled},
    service::testing::{object, until},
};

const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const GOAWAY: u8 = 7;

#[tokio::test]
async fn a21_8_drain() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let stream = client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner();
    let mut specs = client.stream_metric_spec(object(&[("topic", "a")])).await.unwrap().into_inner();
    assert!(specs.message().await.unwrap().is_some());
    let channel = Channel::from_shared(format!("http://{}", server.grpc)).unwrap().connect().await.unwrap();
    let watch = HealthClient::new(channel).watch(HealthCheckRequest::default()).await;
    let mut watch = watch.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    let mut calls = JoinSet::new();
    let mut caller = client.clone();
    calls.spawn(async move { caller.is_active(object(&[("topic", "a"), ("value", "1"), ("answer", "gate")])).await });
    until(&server.core.verdicts, 1).await;

    server.stop.cancel();
    assert_eq!(rest(stream).await, [] as [bool; 0]);
    assert_eq!(specs.message().await.unwrap(), None);
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert_eq!(watch.message().await.unwrap(), None);
    assert!(server.page("/livez").await.0.starts_with("HTTP/1.1 200 "));
    assert!(server.page("/readyz").await.0.starts_with("HTTP/1.1 503 "));
    assert!(TcpStream::connect(server.grpc).await.is_err(), "the listener is closed");
    assert!(!*server.core.ended.borrow(), "calls in flight still need the core");

    server.core.open_gate();
    assert!(calls.join_next().await.unwrap().unwrap().expect("a call in flight is answered").into_inner().result);
    assert!(*server.stopped().await.ended.borrow());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_end_with_ok_before_goaway() {
    const STREAMS: usize = 500;
    let server = Running::start().await;
    let (proxy, mut frames) = proxy::reading(server.grpc).await;
    let mut client = client_of(proxy.address).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner());
    }
    server.stop.cancel();
    for stream in streams {
        assert_eq!(rest(stream).await, [] as [bool; 0]);
    }
    server.stopped().await;
    let mut ended_before_goaway = None;
    let mut ended = 0;
    while let Some(frame) = frames.recv().await {
        match frame.kind {
            HEADERS if frame.flags & END_STREAM != 0 => ended += 1,
            GOAWAY => ended_before_goaway = ended_before_goaway.or(Some(ended)),
            _ => {}
        }
    }
    assert_eq!((ended_before_goaway, ended), (Some(STREAMS), STREAMS));
}

#[tokio::test]
async fn a_connection_ends_at_its_age_and_the_client_comes_back() {
    let server = Running::with(Timing { age: Duration::from_millis(400), ..Timing::default() }).await;
    let mut client = server.client().await;
    for _ in 0..2 {
        let stream = client.stream_is_active(object(&[("topic", "a"), ("active", "true")])).await.unwrap();
        assert_eq!(rest(stream.into_inner()).await, [true], "not cut, but ended with OK");
        client = server.client().await;
        assert!(client.is_active(object(&[("topic", "a"), ("value", "1")])).await.unwrap().into_inner().result);
    }
    until(&server.core.watchers, 0).await;
}

#[tokio::test]
async fn a_call_that_outlives_the_grace_period_is_cut() {
    let server = Running::with(Timing { grace: SOON, ..Timing::default() }).await;
    let mut client = server.client().await;
    let mut calls = JoinSet::new();
    calls.spawn(async move { client.is_active(object(&[("topic", "a"), ("answer", "gate")])).await });
    until(&server.core.verdicts, 1).await;
    server.stop.cancel();
    server.stopped().await;
    assert_ne!(calls.join_next().await.unwrap().unwrap().unwrap_err().code(), Code::Ok);
}

/// `safety.md` E8.
#[tokio::test]
async fn bad_connections_leave_the_listener_alone() {
    let server = Running::with(Timing { handshake: Duration::from_millis(200), ..Timing::default() }).await;
    for address in [server.grpc, server.http] {
        for bytes in
            [&b""[..], b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]
        {
            let mut io = TcpStream::connect(address).await.unwrap();
            io.write_all(bytes).await.unwrap();
            let _closed = io.read_to_end(&mut Vec::new()).await; // with or without a reset
        }
    }
    let mut io = TcpStream::connect(server.grpc).await.unwrap();
    io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff").await.unwrap();
    let _closed = io.read_to_end(&mut Vec::new()).await;
    server.client().await.is_active(object(&[("topic", "a")])).await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_closed_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let hold = async |mut io: TcpStream, _| {
            let _ = io.read_u8().await;
        };
        accept(listener, 1, &CancellationToken::new(), hold).await;
    });
    let first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    assert_eq!(second.read(&mut [0]).await.unwrap_or_default(), 0);
    drop(first);
}

#[tokio::test]
async fn sigterm_is_heard() {
    let heard = signalled().unwrap();
    let kill = format!("kill -TERM {}", std::process::id());
    assert!(tokio::process::Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    heard.await;
}
