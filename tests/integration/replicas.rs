//! Rows 2 and 5 of the contract's scenarios: KEDA's calls meet different servers, and a retry comes with a new password.

use std::collections::HashMap;

use kafka_protocol::messages::ApiKey;
use libtest_mimic::Trial;
use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tidegate_tests::{Result, harness::step, scripted_kafka::ScriptedKafka, tidegate::Tidegate, trials};
use tonic::{Code, Status, transport::Channel};

pub fn trials() -> Vec<Trial> {
    trials![a21_2_three_calls_to_different_servers_tell_the_same, a21_5_a_changed_password_in_the_retry_is_used_at_once,]
}

type Client = ExternalScalerClient<Channel>;

fn object(kafka: &ScriptedKafka, group: &str, more: &[(&str, &str)]) -> ScaledObjectRef {
    let bootstrap: Vec<_> = kafka.bootstrap().into_iter().map(|(host, port)| format!("{host}:{port}")).collect();
    let mut metadata: HashMap<_, _> = [
        ("triggerType", "kafka"),
        ("bootstrapServers", &bootstrap.join(",")),
        ("consumerGroup", group),
        ("topic", "orders"),
        ("lagThreshold", "5"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    metadata.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    ScaledObjectRef { name: "worker".into(), namespace: "team-a".into(), scaler_metadata: metadata }
}

async fn value(client: &mut Client, object: &ScaledObjectRef, metric_name: &str) -> Result<f64, Status> {
    let request = GetMetricsRequest { scaled_object_ref: Some(object.clone()), metric_name: metric_name.to_owned() };
    let values = client.get_metrics(request).await?.into_inner().metric_values;
    assert_eq!(values.len(), 1);
    Ok(values[0].metric_value_float)
}

async fn a21_2_three_calls_to_different_servers_tell_the_same() -> Result {
    let kafka = ScriptedKafka::start(2).await;
    kafka.topic("orders", &[10, 20]);
    let (one, other) = (Tidegate::start().await?, Tidegate::start().await?);
    let (mut one, mut other) = (Client::new(one.channel().await?), Client::new(other.channel().await?));
    for (group, commits, lag) in [("behind", [4, 20], 6.0), ("done", [10, 20], 0.0), ("far-behind", [0, 18], 10.0)] {
        step(group);
        kafka.group(group, 1, "orders", &commits);
        // Two partitions with a lag, at 5 a replica, are at most 10.
        let object = object(&kafka, group, &[]);
        let spec = one.get_metric_spec(object.clone()).await?.into_inner();
        assert_eq!(other.get_metric_spec(object.clone()).await?.into_inner(), spec);
        let name = &spec.metric_specs[0].metric_name;
        for _tick in 0..2 {
            assert_eq!(value(&mut other, &object, name).await?.to_bits(), f64::to_bits(lag));
            assert_eq!(one.is_active(object.clone()).await?.into_inner().result, lag > 0.0);
            assert_eq!(value(&mut one, &object, name).await?.to_bits(), f64::to_bits(lag));
            assert_eq!(other.is_active(object.clone()).await?.into_inner().result, lag > 0.0);
        }
    }
    Ok(())
}

/// KEDA resolves the variable again when a scaler errs, and asks at once.
async fn a21_5_a_changed_password_in_the_retry_is_used_at_once() -> Result {
    let kafka = ScriptedKafka::start(1).await;
    kafka.topic("orders", &[10]);
    kafka.group("workers", 1, "orders", &[7]);
    kafka.state().login = Some(("user".into(), "new".into()));
    let server = Tidegate::start().await?;
    let mut client = Client::new(server.channel().await?);
    let login = |password| {
        let login = [("sasl", "plaintext"), ("username", "user"), ("passwordFromEnv", password)];
        object(&kafka, "workers", &login)
    };
    for _retry in 0..3 {
        let status = value(&mut client, &login("old"), "kafka-orders").await.expect_err("the password is wrong");
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "credentials rejected (plaintext)"));
    }
    assert_eq!(kafka.count(ApiKey::SaslAuthenticate)[&1], 1, "a refused password is not tried again at once");
    assert_eq!(value(&mut client, &login("new"), "kafka-orders").await?.to_bits(), 3_f64.to_bits());
    assert!(client.is_active(login("new")).await?.into_inner().result);
    let status = client.is_active(login("old")).await.expect_err("what one password reads is not told to another");
    assert_eq!(status.code(), Code::FailedPrecondition);
    Ok(())
}
