//! What needs no connection: the time limit of an answer, and a caller that no listener knows.

use std::{sync::Arc, time::Duration};

use tidegate_proto::externalscaler::{GetMetricsRequest, ScaledObjectRef, external_scaler_server::ExternalScaler};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request};

use super::{
    Caller, Connection, Service, is_name_of,
    testing::{Scripted, object},
};
use crate::metrics::Metrics;

mod hostile;

fn service() -> Service<Scripted> {
    Service { core: Arc::default(), metrics: Arc::default() }
}

fn from_a_caller(object: ScaledObjectRef) -> Request<ScaledObjectRef> {
    let mut request = Request::new(object);
    request.extensions_mut().insert(Connection::new(Caller::local(), CancellationToken::new()));
    request
}

#[tokio::test(start_paused = true)]
async fn every_call_is_answered_in_time() {
    for (given, code, after) in [
        (None, Code::Unavailable, Duration::from_millis(2750)),
        (Some(Duration::from_secs(60)), Code::Unavailable, Duration::from_millis(2750)),
        (Some(Duration::from_millis(400)), Code::DeadlineExceeded, Duration::from_millis(400)),
    ] {
        let mut request = from_a_caller(object(&[("topic", "a"), ("answer", "never")]));
        if let Some(given) = given {
            request.set_timeout(given);
        }
        let started = Instant::now();
        let status = service().is_active(request).await.unwrap_err();
        assert_eq!((status.code(), started.elapsed()), (code, after));
    }
}

#[tokio::test]
async fn a_caller_that_no_listener_knows_is_refused() {
    let status = service().is_active(Request::new(object(&[("topic", "a")]))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "caller unknown"));
}

#[tokio::test]
async fn a_call_is_counted_with_its_code() {
    let service = service();
    service.is_active(from_a_caller(object(&[("topic", "a")]))).await.unwrap();
    service.is_active(from_a_caller(object(&[("answer", "unreachable")]))).await.unwrap_err();
    let text = service.metrics.render();
    for code in ["OK", "UNAVAILABLE"] {
        assert!(text.contains(&format!("tidegate_calls_total{{method=\"IsActive\",code=\"{code}\"}} 1")), "{text}");
    }
}

/// A stream counts when it is opened.
#[tokio::test]
async fn a_call_too_many_is_refused_whatever_it_asks() {
    let service = service();
    service.core.too_many.send_replace(true);
    let asked = || from_a_caller(object(&[("topic", "a")]));
    let mut get_metrics = Request::new(GetMetricsRequest {
        scaled_object_ref: Some(object(&[("topic", "a")])),
        metric_name: "kafka-a".into(),
    });
    *get_metrics.extensions_mut() = asked().extensions().clone();
    for status in [
        service.get_metric_spec(asked()).await.err(),
        service.get_metrics(get_metrics).await.err(),
        service.is_active(asked()).await.err(),
        service.stream_is_active(asked()).await.err(),
        service.stream_metric_spec(asked()).await.err(),
    ] {
        let status = status.expect("one too many");
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "calls is at its limit of 7"));
    }
    assert_eq!((*service.core.verdicts.borrow(), *service.core.watchers.borrow()), (0, 0));
}

#[test]
fn metric_names_are_compared_as_keda_sends_them() {
    for asked in ["kafka-orders", "KAFKA-Orders", "s0-kafka-orders", "s12-kafka-orders", "S3-Kafka-Orders"] {
        assert!(is_name_of("kafka-orders", asked), "{asked}");
    }
    for asked in ["", "kafka", "kafka-orders-2", "s-kafka-orders", "sx-kafka-orders", "s0-s0-kafka-orders", "s0-"] {
        assert!(!is_name_of("kafka-orders", asked), "{asked}");
    }
    assert!(is_name_of("s3-events", "s3-events"), "a name that looks prefixed is still a name");
    assert!(is_name_of("s3-events", "s0-s3-events"));
}

/// The metrics of two servers in one process are not one.
#[test]
fn metrics_are_not_global() {
    let (one, other) = (Metrics::new(), Metrics::new());
    let _open = one.stream();
    assert!(one.render().contains("tidegate_streams 1") && other.render().contains("tidegate_streams 0"));
}
