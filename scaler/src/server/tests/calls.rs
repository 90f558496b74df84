//! Unary calls, health, reflection and the pages.

use prost::Message;
use tidegate_proto::externalscaler::{GetMetricsRequest, MetricValue, ScaledObjectRef};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};

use super::{Client, Running};
use crate::service::{MESSAGE_LIMIT, NAME, testing::object};

async fn value(client: &mut Client, object: ScaledObjectRef, name: &str) -> Result<MetricValue, Status> {
    let request = GetMetricsRequest { scaled_object_ref: Some(object), metric_name: name.into() };
    let mut values = client.get_metrics(request).await?.into_inner().metric_values;
    assert_eq!(values.len(), 1);
    Ok(values.remove(0))
}

/// With row 12: old versions of KEDA read the integers.
#[tokio::test]
#[allow(deprecated)]
async fn a21_1_one_tick() {
    let server = Running::start().await;
    let mut client = server.client().await;
    for (target, whole_target, measured, whole, active) in
        [("5", 5, "20", 20, true), ("2.5", 3, "0.2", 1, true), ("0.001", 1, "0", 0, false)]
    {
        let object = object(&[("topic", "orders"), ("target", target), ("value", measured)]);
        let specs = client.get_metric_spec(object.clone()).await.unwrap().into_inner().metric_specs;
        let [spec] = &specs[..] else { panic!("{specs:?}") };
        assert_eq!((spec.metric_name.as_str(), spec.target_size), ("kafka-orders", whole_target));
        assert_eq!(spec.target_size_float.to_string(), target);
        let value = value(&mut client, object.clone(), &spec.metric_name).await.unwrap();
        assert_eq!((value.metric_name.as_str(), value.metric_value), ("kafka-orders", whole));
        assert_eq!(value.metric_value_float.to_string(), measured);
        assert_eq!(client.is_active(object).await.unwrap().into_inner().result, active);
    }
}

#[tokio::test]
async fn a21_3_a_metric_that_is_not_ours() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let object = object(&[("topic", "orders"), ("value", "3")]);
    for name in ["", "kafka-other", "kafka-orders\n"] {
        let status = value(&mut client, object.clone(), name).await.unwrap_err();
        let text = "this trigger publishes the metric kafka-orders and no other";
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text));
    }
    assert_eq!(*server.core.verdicts.borrow(), 0, "nothing is measured for it");
    value(&mut client, object, "s1-Kafka-Orders").await.unwrap();
}

#[tokio::test]
async fn a21_4_the_source_is_down() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let object = object(&[("topic", "orders"), ("answer", "unreachable")]);
    client.get_metric_spec(object.clone()).await.unwrap();
    for _retry in 0..2 {
        let status = value(&mut client, object.clone(), "kafka-orders").await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unavailable, "source unreachable"), "and no cause");
    }
    assert_eq!(client.is_active(object).await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn a21_13_two_triggers_of_one_object() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let (busy, idle) = (object(&[("topic", "a"), ("value", "7")]), object(&[("topic", "b")]));
    for _ in 0..2 {
        assert!(client.is_active(busy.clone()).await.unwrap().into_inner().result);
        assert!(!client.is_active(idle.clone()).await.unwrap().into_inner().result);
    }
}

#[tokio::test]
async fn a21_14_a_parameter_that_was_dropped() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let object = object(&[("password", "hunter2")]);
    let expected = (Code::InvalidArgument, "topic: missing required parameter".to_owned());
    let check = |status: Status| assert_eq!((status.code(), status.message().to_owned()), expected);
    check(client.get_metric_spec(object.clone()).await.unwrap_err());
    check(value(&mut client, object.clone(), "kafka-orders").await.unwrap_err());
    check(client.stream_is_active(object.clone()).await.unwrap_err());
    check(client.stream_metric_spec(object).await.unwrap_err());
}

/// KEDA would take each of these for 0.
#[tokio::test]
async fn a_value_or_target_that_is_no_number_is_an_error() {
    let server = Running::start().await;
    let mut client = server.client().await;
    for bad in ["NaN", "inf", "-inf", "-1", "9007199254740994"] {
        let wrong = object(&[("topic", "a"), ("value", bad)]);
        assert_eq!(value(&mut client, wrong.clone(), "kafka-a").await.unwrap_err().code(), Code::Internal, "{bad}");
        assert_eq!(client.is_active(wrong).await.unwrap_err().code(), Code::Internal, "{bad}");
    }
    for bad in ["NaN", "inf", "0", "-1"] {
        let wrong = object(&[("topic", "a"), ("target", bad)]);
        assert_eq!(client.get_metric_spec(wrong).await.unwrap_err().code(), Code::Internal, "{bad}");
    }
}

/// `safety.md` A9: before anything else, and without an echo.
#[tokio::test]
async fn hostile_names_reach_nothing() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let good = object(&[("topic", "a")]);
    for (namespace, name, text) in [
        ("team-a\nx", "orders", "namespace: not a DNS-1123 label of at most 63 characters"),
        ("../etc", "orders", "namespace: not a DNS-1123 label of at most 63 characters"),
        ("team-a", "оrders", "name: not a DNS-1123 subdomain of at most 253 characters"),
        ("team-a", "a/b", "name: not a DNS-1123 subdomain of at most 253 characters"),
    ] {
        let hostile = ScaledObjectRef { namespace: namespace.into(), name: name.into(), ..good.clone() };
        let status = client.is_active(hostile).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, text));
    }
    let nothing = GetMetricsRequest { scaled_object_ref: None, metric_name: "kafka-a".into() };
    assert_eq!(client.get_metrics(nothing).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(*server.core.verdicts.borrow(), 0);
}

#[tokio::test]
async fn a_request_has_at_most_256_kib() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let (kib64, room) = ("x".repeat(64 * 1024), "x".repeat(60 * 1024));
    let mut message = object(&[("topic", "a"), ("k1", &kib64), ("k2", &kib64), ("k3", &kib64), ("k4", &room)]);
    let missing = MESSAGE_LIMIT - message.encoded_len();
    message.scaler_metadata.get_mut("k4").unwrap().push_str(&"x".repeat(missing));
    assert_eq!(message.encoded_len(), MESSAGE_LIMIT);
    client.is_active(message.clone()).await.unwrap();
    message.scaler_metadata.get_mut("k4").unwrap().push('x');
    assert_eq!(client.is_active(message).await.unwrap_err().code(), Code::OutOfRange);
    client.is_active(object(&[("topic", "a")])).await.expect("the connection goes on");
}

#[tokio::test]
async fn health_and_reflection_answer() {
    let server = Running::start().await;
    let channel = Channel::from_shared(format!("http://{}", server.grpc)).unwrap().connect().await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", NAME] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    assert_eq!(health.check(HealthCheckRequest { service: "x".into() }).await.unwrap_err().code(), Code::NotFound);

    macro_rules! services {
        ($version:ident) => {{
            use $version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
            };
            let ask = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(MessageRequest::ListServices(String::new())),
            };
            let asked = futures_util::stream::iter([ask]);
            let mut client = ServerReflectionClient::new(channel.clone());
            let answer = client.server_reflection_info(asked).await.unwrap().into_inner().message().await.unwrap();
            let Some(MessageResponse::ListServicesResponse(list)) = answer.unwrap().message_response else { panic!() };
            list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
        }};
    }
    for services in [services!(v1), services!(v1alpha)] {
        assert!(services.iter().any(|name| name == NAME), "{services:?}");
        assert!(services.iter().any(|name| name == "grpc.health.v1.Health"), "{services:?}");
    }
}

#[tokio::test]
async fn pages_answer() {
    let server = Running::start().await;
    server.client().await.is_active(object(&[("topic", "a")])).await.unwrap();
    for page in ["/livez", "/readyz"] {
        let (head, body) = server.page(page).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{page}: {head}");
        assert_eq!(body, "ok\n");
    }
    let (head, body) = server.page("/metrics").await;
    assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
    for line in [
        "tidegate_calls_total{method=\"IsActive\",code=\"OK\"} 1",
        "tidegate_triggers{kind=\"kafka\"} 42", // asked of the core when scraped
        "tidegate_endpoints{kind=\"kafka\"} 7",
        "tidegate_sample_age_seconds_sum 2",
    ] {
        assert!(body.lines().any(|shown| shown == line), "no line {line} in\n{body}");
    }
    assert!(server.page("/").await.0.starts_with("HTTP/1.1 404 "));
}
