//! One connection against a peer that a test plays byte by byte, in paused time.

use std::{sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiVersionsRequest, ApiVersionsResponse},
    protocol::Encodable,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, advance, sleep, timeout},
};

use super::{connection::Connection, fault::Fault};
use crate::sampler::SampleError;

const REQUEST: Duration = Duration::from_secs(5);

fn pair() -> (Arc<Connection>, DuplexStream) {
    let (ours, theirs) = duplex(64 << 10);
    (Arc::new(Connection::new(ours, REQUEST)), theirs)
}

async fn call(connection: &Connection) -> Result<ApiVersionsResponse, Fault> {
    connection.call_version(&ApiVersionsRequest::default(), 0).await
}

fn reply(correlation: i32, error: i16) -> Bytes {
    let mut body = BytesMut::new();
    body.put_i32(correlation);
    let reply = ApiVersionsResponse::default().with_error_code(error);
    reply.encode(&mut body, 0).expect("it is of this version");
    let mut frame = BytesMut::new();
    frame.put_u32(u32::try_from(body.len()).expect("it is small"));
    frame.put(body);
    frame.freeze()
}

/// Reads a request; its correlation id.
async fn request(peer: &mut DuplexStream) -> i32 {
    let size = peer.read_u32().await.expect("a request comes");
    let mut body = vec![0; size as usize];
    peer.read_exact(&mut body).await.expect("all of it comes");
    i32::from_be_bytes(body[4..8].try_into().expect("a header has a correlation id"))
}

#[tokio::test(start_paused = true)]
async fn many_requests_are_in_flight() {
    let (connection, mut peer) = pair();
    let calls = async { tokio::join!(call(&connection), call(&connection), call(&connection)) };
    let answers = async {
        let ids = [request(&mut peer).await, request(&mut peer).await, request(&mut peer).await];
        for (id, error) in ids.into_iter().zip([1, 2, 3]) {
            peer.write_all(&reply(id, error)).await.expect("it is read");
        }
    };
    let ((first, second, third), ()) = tokio::join!(calls, answers);
    let codes = [first, second, third].map(|reply| reply.expect("it was answered").error_code);
    assert_eq!(codes, [1, 2, 3]);
    assert!(connection.is_settled());
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_is_dropped_leaves_the_connection_usable() {
    let (connection, mut peer) = pair();
    let gone = timeout(Duration::from_secs(1), call(&connection)).await;
    assert!(gone.is_err());
    assert!(!connection.is_settled());
    let first = request(&mut peer).await;
    let answers = async {
        let second = request(&mut peer).await;
        peer.write_all(&reply(first, 1)).await.expect("it is read");
        peer.write_all(&reply(second, 2)).await.expect("it is read");
    };
    let (second, ()) = tokio::join!(call(&connection), answers);
    assert_eq!(second.expect("it was answered").error_code, 2);
    assert!(connection.is_usable());
}

/// A peer that dribbles `bytes`, one a second, is left when the request's time is over.
#[tokio::test(start_paused = true)]
async fn a_dribble_is_not_waited_for() {
    let (connection, mut peer) = pair();
    let started = Instant::now();
    let dribble = async {
        let mut frame = reply(request(&mut peer).await, 0);
        while !frame.is_empty() {
            sleep(Duration::from_secs(1)).await;
            if peer.write_all(&frame.split_to(1)).await.is_err() {
                return;
            }
        }
    };
    let (answer, ()) = tokio::join!(call(&connection), dribble);
    assert!(matches!(*answer.expect_err("it takes too long"), SampleError::TimedOut));
    assert!(!connection.is_usable());
    assert!(started.elapsed() >= REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_not_waited_for() {
    let (ours, _theirs) = duplex(8);
    let connection = Connection::new(ours, REQUEST);
    assert!(matches!(*call(&connection).await.expect_err("it is stuck"), SampleError::TimedOut));
    assert!(!connection.is_usable());
}

#[tokio::test(start_paused = true)]
async fn the_requests_in_flight_are_bounded_and_all_fail_with_their_connection() {
    let (connection, mut peer) = pair();
    let calls = (0..200).map(|_| call(&connection));
    let calls = futures_util::future::join_all(calls);
    let close = async {
        request(&mut peer).await;
        drop(peer);
    };
    let (answers, ()) = tokio::join!(calls, close);
    assert!(
        answers.iter().all(|answer| matches!(answer, Err(fault) if matches!(**fault, SampleError::Unreachable(_))))
    );
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_no_request_or_to_another_ends_the_connection() {
    let (connection, mut peer) = pair();
    peer.write_all(&reply(0, 0)).await.expect("it is read");
    let mut end = Vec::new();
    peer.read_to_end(&mut end).await.expect("it is closed");
    assert!(!connection.is_usable());

    let (connection, mut peer) = pair();
    let answer = async {
        let id = request(&mut peer).await;
        peer.write_all(&reply(id + 1, 0)).await.expect("it is read");
    };
    let (answer, ()) = tokio::join!(call(&connection), answer);
    assert!(matches!(*answer.expect_err("it is another's"), SampleError::Malformed(_)));
    assert!(!connection.is_usable());
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_closes_after_a_minute_and_a_used_one_does_not() {
    let (connection, mut peer) = pair();
    for _ in 0..30 {
        let answer = async {
            let id = request(&mut peer).await;
            peer.write_all(&reply(id, 0)).await.expect("it is read");
        };
        let (answer, ()) = tokio::join!(call(&connection), answer);
        answer.expect("it was answered");
        sleep(Duration::from_secs(5)).await;
    }
    assert!(connection.is_usable());
    let mut end = Vec::new();
    peer.read_to_end(&mut end).await.expect("it is closed");
    assert!(!connection.is_usable());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_is_closed() {
    let (connection, mut peer) = pair();
    drop(connection);
    let mut end = Vec::new();
    peer.read_to_end(&mut end).await.expect("it is closed");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_over_when_the_broker_says() {
    let (ours, _theirs) = duplex(64);
    let mut connection = Connection::new(ours, REQUEST);
    connection.expires = Some(Instant::now() + Duration::from_secs(10));
    assert!(connection.is_usable());
    advance(Duration::from_secs(10)).await;
    assert!(!connection.is_usable());
}
