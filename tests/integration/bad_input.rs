//! What KEDA rejects is rejected: each such row of KEDA's own tests for Kafka, Apache Kafka and cron, through the gRPC API.
//! The words are ours; the key that they name is the row's.

use std::collections::HashMap;

use libtest_mimic::Trial;
use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tidegate_tests::{Result, harness::step, tidegate::Tidegate, trials};
use tonic::{Code, Status, transport::Channel};

pub fn trials() -> Vec<Trial> {
    trials![
        what_keda_accepts_is_accepted,
        what_keda_rejects_of_a_kafka_trigger_names_the_key,
        what_keda_rejects_of_an_apache_kafka_trigger_names_the_key,
        what_keda_rejects_of_a_login_names_the_key,
        what_keda_rejects_of_a_cron_trigger_names_the_key,
        what_is_no_trigger_names_the_key,
    ]
}

/// Changes to a trigger: a new value, or none.
type Changes<'a> = &'a [(&'a str, Option<&'a str>)];

/// A row: changes, and the key that the status must name.
type Row<'a> = (Changes<'a>, &'a str);

const KAFKA: &[(&str, &str)] = &[
    ("triggerType", "kafka"),
    ("bootstrapServers", "foobar:9092"),
    ("consumerGroup", "my-group"),
    ("topic", "my-topic"),
];

const CRON: &[(&str, &str)] = &[
    ("triggerType", "cron"),
    ("timezone", "Etc/UTC"),
    ("start", "0 0 * * Thu"),
    ("end", "59 23 * * Thu"),
    ("desiredReplicas", "10"),
];

fn object(base: &[(&str, &str)], changes: Changes<'_>) -> ScaledObjectRef {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let mut metadata: HashMap<_, _> = base.iter().map(owned).collect();
    for (key, value) in changes {
        match value {
            Some(value) => metadata.insert((*key).to_owned(), (*value).to_owned()),
            None => metadata.remove(*key),
        };
    }
    ScaledObjectRef { name: "orders".into(), namespace: "team-a".into(), scaler_metadata: metadata }
}

/// What each of the five calls says. Those that the metadata alone decides.
async fn all_calls(channel: &Channel, object: &ScaledObjectRef) -> [Result<(), Status>; 5] {
    let mut client = ExternalScalerClient::new(channel.clone());
    let metrics = GetMetricsRequest { scaled_object_ref: Some(object.clone()), metric_name: "any".into() };
    [
        client.get_metric_spec(object.clone()).await.map(drop),
        client.get_metrics(metrics).await.map(drop),
        client.is_active(object.clone()).await.map(drop),
        client.stream_is_active(object.clone()).await.map(drop),
        client.stream_metric_spec(object.clone()).await.map(drop),
    ]
}

/// Asks about each row and checks that all calls refuse it alike.
async fn reject(base: &[(&str, &str)], rows: &[Row<'_>]) -> Result {
    let server = Tidegate::start().await?;
    let channel = server.channel().await?;
    for (changes, key) in rows {
        step(format!("{changes:?}"));
        let answers = all_calls(&channel, &object(base, changes)).await;
        let texts: Vec<_> = answers
            .into_iter()
            .map(|answer| {
                let status = answer.expect_err("it is refused");
                assert_eq!(status.code(), Code::InvalidArgument, "{}", status.message());
                status.message().to_owned()
            })
            .collect();
        assert!(texts[0].starts_with(&format!("{key}: ")), "{} instead of {key}", texts[0]);
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        // The words of these are in the texts, which list what is right.
        let listed = |key: &str| matches!(key, "sasl" | "saslTokenProvider");
        for value in changes.iter().filter(|(key, _)| !listed(key)).filter_map(|(_, value)| *value) {
            assert!(value.len() < 7 || !texts[0].contains(value), "{}", texts[0]);
        }
    }
    Ok(())
}

/// Guards the tables below: the triggers that they change are right as they stand.
async fn what_keda_accepts_is_accepted() -> Result {
    let server = Tidegate::start().await?;
    let mut client = ExternalScalerClient::new(server.channel().await?);
    let rows: [(_, Changes<'_>, _); 12] = [
        (KAFKA, &[], "kafka-my-topic"),
        (KAFKA, &[("topic", None)], "kafka-my-group-topics"),
        (KAFKA, &[("topic", None), ("partitionLimitation", Some("1,2,3,4,5,6"))], "kafka-my-group-topics"),
        (KAFKA, &[("version", Some("1.0.0")), ("lagThreshold", Some("1000000"))], "kafka-my-topic"),
        (KAFKA, &[("partitionLimitation", Some("1-4,8,10-12"))], "kafka-my-topic"),
        (KAFKA, &[("allowIdleConsumers", Some("true")), ("limitToPartitionsWithLag", Some("false"))], "kafka-my-topic"),
        (KAFKA, &[("ensureEvenDistributionOfPartitions", Some("true"))], "kafka-my-topic"),
        (KAFKA, &[("fullMetadata", Some("false"))], "kafka-my-topic"),
        (KAFKA, &[("sasl", Some("none")), ("tls", Some("disable"))], "kafka-my-topic"),
        (
            KAFKA,
            &[("sasl", Some("plaintext\n")), ("username", Some("u")), ("passwordFromEnv", Some("p"))],
            "kafka-my-topic",
        ),
        (KAFKA, &[("triggerType", Some("apache-kafka")), ("topic", Some("my-topics"))], "kafka-my-topics"),
        (CRON, &[], "cron-etc-utc-00xxthu-5923xxthu"),
    ];
    for (base, changes, name) in rows {
        step(format!("{changes:?}"));
        let spec = client.get_metric_spec(object(base, changes)).await?.into_inner();
        assert_eq!(spec.metric_specs[0].metric_name, name);
    }
    Ok(())
}

/// KEDA's `kafka_scaler_test.go`, each row without and with a login.
async fn what_keda_rejects_of_a_kafka_trigger_names_the_key() -> Result {
    const LOGIN: &[(&str, &str)] = &[("sasl", "plaintext"), ("username", "admin"), ("passwordFromEnv", "admin")];
    reject(KAFKA, KAFKA_ROWS).await?;
    reject(&[KAFKA, LOGIN].concat(), KAFKA_ROWS).await
}

const KAFKA_ROWS: &[Row<'_>] = &[
    (&[("bootstrapServers", None), ("consumerGroup", None), ("topic", None)], "bootstrapServers"),
    (&[("consumerGroup", None)], "consumerGroup"),
    (&[("version", Some("1.2.3.4"))], "version"),
    (&[("lagThreshold", Some("-1"))], "lagThreshold"),
    (&[("lagThreshold", Some("0"))], "lagThreshold"),
    (&[("activationLagThreshold", Some("AA"))], "activationLagThreshold"),
    (&[("partitionLimitation", Some("a,b,c,d"))], "partitionLimitation"),
    (&[("partitionLimitation", Some("a,b,c"))], "partitionLimitation"),
    (&[("partitionLimitation", Some("1-2-3"))], "partitionLimitation"),
    (&[("partitionLimitation", Some("a-3"))], "partitionLimitation"),
    (&[("partitionLimitation", Some("1-b"))], "partitionLimitation"),
    (&[("offsetResetPolicy", Some("foo"))], "offsetResetPolicy"),
    (&[("allowIdleConsumers", Some("notvalid"))], "allowIdleConsumers"),
    (&[("excludePersistentLag", Some("notvalid"))], "excludePersistentLag"),
    (&[("limitToPartitionsWithLag", Some("notvalid"))], "limitToPartitionsWithLag"),
    (&[("allowIdleConsumers", Some("true")), ("limitToPartitionsWithLag", Some("true"))], "limitToPartitionsWithLag"),
    (&[("topic", None), ("limitToPartitionsWithLag", Some("true"))], "limitToPartitionsWithLag"),
    (
        &[("limitToPartitionsWithLag", Some("true")), ("ensureEvenDistributionOfPartitions", Some("true"))],
        "ensureEvenDistributionOfPartitions",
    ),
    (&[("topic", None), ("fullMetadata", Some("false"))], "fullMetadata"),
    (&[("fullMetadata", Some("notabool"))], "fullMetadata"),
];

/// KEDA's `apache_kafka_scaler_test.go`: what differs from the rows above, and its own way of MSK.
async fn what_keda_rejects_of_an_apache_kafka_trigger_names_the_key() -> Result {
    let apache = [&KAFKA[1..], &[("triggerType", "apache-kafka")]].concat();
    reject(&apache, KAFKA_ROWS).await?;
    let even = ("ensureEvenDistributionOfPartitions", Some("true"));
    let iam = ("sasl", Some("aws_msk_iam"));
    reject(
        &apache,
        &[
            (&[("topic", None), even, ("limitToPartitionsWithLag", Some("true"))], "limitToPartitionsWithLag"),
            (&[("sasl", Some("plaintext"))], "username"),
            (&[("tls", Some("yes"))], "tls"),
            (&[iam, ("tls", Some("enable"))], "sasl"),
            (&[iam, ("tls", Some("disable")), ("awsRegion", Some("us-east-1"))], "sasl"),
            (
                &[iam, ("tls", Some("enable")), ("awsRegion", Some("us-east-1")), ("awsAccessKeyID", Some("key"))],
                "sasl",
            ),
        ],
    )
    .await
}

/// KEDA reads these from a `TriggerAuthentication`; here they come with the metadata, or with a credential.
async fn what_keda_rejects_of_a_login_names_the_key() -> Result {
    let (user, password) = (("username", Some("admin")), ("passwordFromEnv", Some("admin")));
    let tls = ("tls", Some("enable"));
    let (oauth, endpoint) = (("sasl", Some("oauthbearer")), ("oauthTokenEndpointUri", Some("https://website.com")));
    let gssapi = ("sasl", Some("gssapi"));
    reject(
        KAFKA,
        &[
            (&[("sasl", Some("foo")), user, password], "sasl"),
            (&[("sasl", Some("plaintext")), password], "username"),
            (&[("sasl", Some("plaintext")), user], "password"),
            (&[("sasl", Some("scram_sha256")), user], "password"),
            (&[("sasl", Some("scram_sha512")), password], "username"),
            (&[tls, ("ca", Some("caaa")), ("key", Some("keey"))], "cert"),
            (&[tls, ("ca", Some("caaa")), ("cert", Some("ceert"))], "key"),
            (&[("tls", Some("yes"))], "tls"),
            (&[("tls", Some("foo"))], "tls"),
            (&[("tls", Some("random"))], "tls"),
            (&[oauth, user, password], "oauthTokenEndpointUri"),
            (&[oauth, user, password, ("oauthTokenEndpointUri", Some(""))], "oauthTokenEndpointUri"),
            (&[oauth, endpoint, password], "username"),
            (&[oauth, endpoint, user], "password"),
            (
                &[oauth, endpoint, user, password, ("oauthExtensions", Some("extension_foo=bar,extension_bazbaz"))],
                "oauthExtensions",
            ),
            (&[oauth, tls, ("saslTokenProvider", Some("aws_msk_iam"))], "saslTokenProvider"),
            (&[oauth, ("tls", Some("disable")), ("saslTokenProvider", Some("aws_msk_iam"))], "saslTokenProvider"),
            (&[gssapi, user], "sasl"),
            (&[gssapi, user, password, ("keytab", Some("keytab")), ("realm", Some("tst.com"))], "sasl"),
            (&[gssapi, user, password, ("kerberosDisableFAST", Some("notabool"))], "sasl"),
        ],
    )
    .await
}

/// KEDA's `cron_scaler_test.go`, and what follows from its grammar.
async fn what_keda_rejects_of_a_cron_trigger_names_the_key() -> Result {
    let rows: &[Row<'_>] = &[
        (&[("desiredReplicas", None)], "desiredReplicas"),
        (&[("desiredReplicas", Some("0"))], "desiredReplicas"),
        (&[("desiredReplicas", Some("10.5"))], "desiredReplicas"),
        (&[("timezone", None)], "timezone"),
        (&[("start", None)], "start"),
        (&[("end", None)], "end"),
        (&[("start", Some("-30 * * * *"))], "start"),
        (&[("end", Some("-50 * * * *"))], "end"),
        (&[("end", Some("50 * * -3 *"))], "end"),
        (&[("start", Some("30 * * * *")), ("end", Some("30 * * * *"))], "end"),
        (&[("start", Some("@daily"))], "start"),
        (&[("start", Some("0 0 * * 7"))], "start"),
        (&[("start", Some("0 0 0 * * *"))], "start"),
        // KEDA finds out when it is asked for the value, or never.
        (&[("timezone", Some("Mars/Phobos"))], "timezone"),
        (&[("start", Some("0 0 30 2 *"))], "start"),
        (&[("end", Some("0 0 30 2 *"))], "end"),
    ];
    reject(CRON, rows).await
}

async fn what_is_no_trigger_names_the_key() -> Result {
    reject(
        KAFKA,
        &[
            (&[("triggerType", None)], "triggerType"),
            (&[("triggerType", Some("mysql-of-somebody"))], "triggerType"),
            (&[("lagTreshold", Some("5"))], "lagTreshold"),
            (&[("credentialsRef", Some("../other-team/secret"))], "credentialsRef"),
            (&[("pollInterval", Some("-5s"))], "pollInterval"),
            (&[("holdSeconds", Some("3601"))], "holdSeconds"),
        ],
    )
    .await
}
