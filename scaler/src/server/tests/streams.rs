//! Push streams.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tidegate_proto::externalscaler::external_scaler_client::ExternalScalerClient;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::{Running, SOON, Timing, client_of, proxy, rest};
use crate::service::testing::{object, until};

#[tokio::test]
async fn a21_6_true_at_once_when_active_and_nothing_when_not() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let mut active = client.stream_is_active(object(&[("topic", "a"), ("active", "true")])).await.unwrap().into_inner();
    assert!(active.message().await.unwrap().unwrap().result);
    let idle = client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner();
    server.stop.cancel();
    assert_eq!(rest(active).await, [] as [bool; 0]);
    assert_eq!(rest(idle).await, [] as [bool; 0], "B121: never false");
}

#[tokio::test]
async fn an_activation_reaches_every_stream() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let mut one = client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner();
    let mut other = client.stream_is_active(object(&[("topic", "b")])).await.unwrap().into_inner();
    for _ in 0..3 {
        server.core.activate();
        assert!(one.message().await.unwrap().unwrap().result);
        assert!(other.message().await.unwrap().unwrap().result);
    }
}

/// The reader's window has room for two messages of seven bytes (five of frame, two of body). Whatever comes after those is one message.
#[tokio::test]
async fn a21_7_a_reader_that_stalls_gets_the_latest_state_only() {
    let server = Running::start().await;
    let channel = Channel::from_shared(format!("http://{}", server.grpc)).unwrap().initial_stream_window_size(14);
    let mut client = ExternalScalerClient::new(channel.connect().await.unwrap());
    let stalled = client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner();
    let mut other = server.client().await;
    for _ in 0..1000 {
        server.core.activate();
        other.is_active(object(&[("topic", "a")])).await.unwrap(); // gives the stream the time to send
    }
    // Two were sent, one waits for the window. What was asked for after that is not awaited before it is sent.
    let asked = *server.core.asked_next.borrow();
    assert!(asked <= 4, "{asked}");
    server.stop.cancel();
    let received = rest(stalled).await;
    assert!((2..=4).contains(&received.len()) && received.iter().all(|active| *active), "{received:?}");
}

/// The client is there and silent: its packets and ours are lost.
#[tokio::test]
async fn a21_9_a_client_that_vanishes() {
    let timing =
        Timing { keepalive_interval: SOON, keepalive_timeout: Duration::from_millis(300), ..Timing::default() };
    let server = Running::with(timing).await;
    let frozen = CancellationToken::new();
    let proxy = proxy::freezing(server.grpc, frozen.clone()).await;
    let mut client = client_of(proxy.address).await;
    let _stream = client.stream_is_active(object(&[("topic", "a")])).await.unwrap().into_inner();
    until(&server.core.watchers, 1).await;
    frozen.cancel();
    until(&server.core.watchers, 0).await;
}

#[tokio::test]
async fn a21_10_ten_thousand_streams_and_calls_on_one_connection() {
    const STREAMS: usize = 10_000;
    let server = Running::start().await;
    let client = server.client().await;
    let open =
        async |_| client.clone().stream_is_active(object(&[("topic", "a")])).await.map(tonic::Response::into_inner);
    let streams: Vec<_> = stream::iter(0..STREAMS).map(open).buffer_unordered(200).try_collect().await.unwrap();
    assert_eq!(*server.core.watchers.borrow(), STREAMS);
    assert!(server.metrics.render().lines().any(|line| line == "tidegate_streams 10000"));
    let mut client = client;
    assert!(client.is_active(object(&[("topic", "a"), ("value", "1")])).await.unwrap().into_inner().result);
    server.stop.cancel();
    for stream in streams {
        assert_eq!(rest(stream).await, [] as [bool; 0]);
    }
    server.stopped().await;
}

/// With B125: at once, equal to `GetMetricSpec`; then silence, and OK at the end.
#[tokio::test]
async fn a21_11_stream_metric_spec() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let object = object(&[("topic", "a"), ("target", "2.5"), ("answer", "unreachable")]);
    let spec = client.get_metric_spec(object.clone()).await.unwrap().into_inner();
    let mut stream = client.stream_metric_spec(object).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap(), spec);
    server.core.activate();
    server.stop.cancel();
    assert_eq!(stream.message().await.unwrap(), None);
}

#[tokio::test]
async fn b122_streams_that_are_cancelled_leave_nothing() {
    let server = Running::start().await;
    let mut client = server.client().await;
    for _ in 0..10 {
        let mut streams = Vec::new();
        for _ in 0..100 {
            streams.push(client.stream_is_active(object(&[("topic", "a"), ("active", "true")])).await.unwrap());
        }
        drop(streams);
        until(&server.core.watchers, 0).await;
    }
    assert!(client.is_active(object(&[("topic", "a"), ("value", "1")])).await.unwrap().into_inner().result);
    assert!(server.metrics.render().lines().any(|line| line == "tidegate_streams 0"));
}
