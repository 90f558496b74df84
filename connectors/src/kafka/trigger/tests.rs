use super::*;
use crate::{
    metadata::CredentialSource,
    trigger::{KINDS, Kind},
};

/// KEDA's base row, changed: an empty value removes the key.
fn metadata(changes: &[(&str, &str)]) -> Metadata {
    let base = [("bootstrapServers", "foobar:9092"), ("consumerGroup", "my-group"), ("topic", "my-topic")];
    let kept = base.into_iter().filter(|(key, _)| !changes.iter().any(|(changed, _)| changed == key));
    Metadata::new(kept.chain(changes.iter().copied()))
}

fn read(changes: &[(&str, &str)]) -> Result<Spec, ParameterError> {
    let metadata = metadata(changes);
    parse(&metadata, Parameters::new(&metadata, CredentialSource::None))
}

#[track_caller]
fn spec(changes: &[(&str, &str)]) -> (Spec, sampler::Address, Query, Threshold) {
    let spec = read(changes).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
    let Source::Measured { address, query, threshold } = spec.source.clone() else { panic!("a measured source") };
    let (sampler::Query::Kafka(query), trigger::Threshold::Kafka(threshold)) = (query, threshold) else {
        panic!("Kafka's own")
    };
    (spec, address, query, threshold)
}

#[track_caller]
fn rejects(changes: &[(&str, &str)], key: &str) {
    let error = read(changes).expect_err(&format!("{changes:?}"));
    assert_eq!(error.key, key, "{changes:?}: {error}");
    assert!(error.to_string().len() <= 200, "{error}");
}

#[test]
fn defaults_are_kedas() {
    let (spec, _, query, threshold) = spec(&[]);
    assert_eq!(spec.metric_name, "kafka-my-topic");
    assert!((spec.target - 10.0).abs() < f64::EPSILON);
    assert_eq!(&*query.group, "my-group");
    assert_eq!(query.topics, ["my-topic".into()]);
    assert_eq!(query.isolation, IsolationLevel::ReadUncommitted);
    assert_eq!(threshold.activation, 0);
    assert_eq!(threshold.cap, Cap::Partitions);
    assert_eq!(threshold.rules, Rules::default());
    assert_eq!(threshold.rules.reset, OffsetResetPolicy::Latest);
    assert_eq!(threshold.partitions, None);
}

#[test]
fn what_keda_accepts_is_accepted() {
    for changes in [
        &[("topic", "")][..],
        &[("topic", ""), ("fullMetadata", "true")],
        &[("fullMetadata", "true")],
        &[("fullMetadata", "false")],
        &[("version", "1.0.0")],
        &[("version", "0.11.0.0")],
        &[("version", "2.8.1")],
        &[("lagThreshold", "1000000")],
        &[("activationLagThreshold", "0")],
        &[("bootstrapServers", "foobar:9092,foobar:9093")],
        &[("offsetResetPolicy", "latest")],
        &[("offsetResetPolicy", "earliest")],
        &[("allowIdleConsumers", "true")],
        &[("excludePersistentLag", "true")],
        &[("limitToPartitionsWithLag", "true")],
        &[("allowIdleConsumers", "true"), ("limitToPartitionsWithLag", "false")],
        &[("ensureEvenDistributionOfPartitions", "true")],
        &[("ensureEvenDistributionOfPartitions", "true"), ("topic", "")],
        &[("ensureEvenDistributionOfPartitions", "true"), ("allowIdleConsumers", "true")],
        &[("scaleToZeroOnInvalidOffset", "true")],
        &[("persistentLagSeconds", "1")],
        &[("persistentLagSeconds", "86400")],
        &[("isolationLevel", "read_committed")],
        &[("saslTokenProvider", "aws_msk_iam"), ("awsRegion", "eu-west-1"), ("realm", "EXAMPLE.COM")],
    ] {
        spec(changes);
    }
}

#[test]
fn what_keda_rejects_is_rejected_by_name() {
    for (changes, key) in [
        (&[("bootstrapServers", "")][..], "bootstrapServers"),
        (&[("consumerGroup", "")], "consumerGroup"),
        (&[("consumerGroup", " \t ")], "consumerGroup"),
        (&[("version", "1.2.3.4")], "version"),
        (&[("version", "2.8")], "version"),
        (&[("version", "0.11.0")], "version"),
        (&[("version", "1..0")], "version"),
        (&[("lagThreshold", "-1")], "lagThreshold"),
        (&[("lagThreshold", "0")], "lagThreshold"),
        (&[("lagThreshold", "AA")], "lagThreshold"),
        (&[("lagThreshold", "1.5")], "lagThreshold"),
        (&[("activationLagThreshold", "AA")], "activationLagThreshold"),
        (&[("activationLagThreshold", "-1")], "activationLagThreshold"),
        (&[("offsetResetPolicy", "foo")], "offsetResetPolicy"),
        (&[("allowIdleConsumers", "notvalid")], "allowIdleConsumers"),
        (&[("excludePersistentLag", "notvalid")], "excludePersistentLag"),
        (&[("scaleToZeroOnInvalidOffset", "notvalid")], "scaleToZeroOnInvalidOffset"),
        (&[("limitToPartitionsWithLag", "notvalid")], "limitToPartitionsWithLag"),
        (&[("ensureEvenDistributionOfPartitions", "yes")], "ensureEvenDistributionOfPartitions"),
        (&[("allowIdleConsumers", "true"), ("limitToPartitionsWithLag", "true")], "limitToPartitionsWithLag"),
        (&[("topic", ""), ("limitToPartitionsWithLag", "true")], "limitToPartitionsWithLag"),
        (
            &[("ensureEvenDistributionOfPartitions", "true"), ("limitToPartitionsWithLag", "true")],
            "ensureEvenDistributionOfPartitions",
        ),
        (
            &[("topic", ""), ("ensureEvenDistributionOfPartitions", "true"), ("limitToPartitionsWithLag", "true")],
            "limitToPartitionsWithLag",
        ),
        (&[("topic", ""), ("fullMetadata", "false")], "fullMetadata"),
        (&[("fullMetadata", "notabool")], "fullMetadata"),
        (&[("persistentLagSeconds", "0")], "persistentLagSeconds"),
        (&[("persistentLagSeconds", "86401")], "persistentLagSeconds"),
        (&[("isolationLevel", "committed")], "isolationLevel"),
        (&[("sasl", "plaintext")], "username"),
    ] {
        rejects(changes, key);
    }
}

#[test]
fn hostile_names_are_rejected() {
    for topic in ["a,,b", "a,", ".", "..", "a b", "ünïcode", "a\nb", &"x".repeat(250), &vec!["t"; 65].join(",")] {
        rejects(&[("topic", topic)], "topic");
    }
    spec(&[("topic", &"x".repeat(249))]);
    rejects(&[("consumerGroup", "a\u{0}b")], "consumerGroup");
    rejects(&[("consumerGroup", &"x".repeat(1025))], "consumerGroup");
    spec(&[("consumerGroup", "a group: with anything / else")]);
}

#[test]
fn b24_partition_limitation() {
    for (text, expected) in [
        ("1,2,3,4", vec![1, 2, 3, 4]),
        ("1-4", vec![1, 2, 3, 4]),
        ("1-4,8,10-12", vec![1, 2, 3, 4, 8, 10, 11, 12]),
        (" 1, 3 - 5 ", vec![1, 3, 4, 5]),
    ] {
        assert_eq!(spec(&[("partitionLimitation", text)]).3.partitions.as_deref(), Some(&expected[..]), "{text}");
    }
    for text in ["a,b,c,d", "5-3", "a", "1-2-3", "0-10000"] {
        rejects(&[("partitionLimitation", text)], "partitionLimitation");
        rejects(&[("partitionLimitation", text), ("topic", "")], "partitionLimitation");
    }
    for text in ["1,2,3,4,5,6", "   ", ""] {
        assert_eq!(spec(&[("partitionLimitation", text), ("topic", "")]).3.partitions, None, "{text}");
    }
}

#[test]
fn metric_names_are_kedas() {
    for (changes, name) in [
        (&[][..], "kafka-my-topic"),
        (&[("topic", "")], "kafka-my-group-topics"),
        (&[("topic", "my-topics")], "kafka-my-topics"),
        (&[("topic", "b.Two, a_one")], "kafka-b-two-a-one"),
    ] {
        assert_eq!(spec(changes).0.metric_name, name);
    }
}

#[test]
fn triggers_on_the_same_topics_share_a_query() {
    let query = |topics| spec(&[("topic", topics)]).2;
    assert_eq!(query("a, b"), query("b,a,b"));
    let with = |changes| (spec(changes).1, spec(changes).2);
    let base = with(&[]);
    for same in [&[("lagThreshold", "3")][..], &[("version", "2.8.0")], &[("fullMetadata", "false")]] {
        assert_eq!(with(same), base, "{same:?}");
    }
    for other in [&[("isolationLevel", "read_committed")][..], &[("unsafeSsl", "true")], &[("consumerGroup", "g")]] {
        assert_ne!(with(other), base, "{other:?}");
    }
}

#[test]
fn flags_reach_the_threshold() {
    let threshold = spec(&[
        ("lagThreshold", "7"),
        ("activationLagThreshold", "3"),
        ("offsetResetPolicy", "earliest"),
        ("excludePersistentLag", "true"),
        ("persistentLagSeconds", "60"),
        ("scaleToZeroOnInvalidOffset", "true"),
        ("allowIdleConsumers", "true"),
    ])
    .3;
    let rules = Rules {
        reset: OffsetResetPolicy::Earliest,
        zero_on_invalid_offset: true,
        persistent_after: Some(Duration::from_secs(60)),
    };
    assert_eq!(threshold.rules, rules);
    assert_eq!((threshold.target.get(), threshold.activation, threshold.cap), (7, 3, Cap::None));
    let cap = |changes| spec(changes).3.cap;
    assert_eq!(cap(&[("limitToPartitionsWithLag", "true")]), Cap::PartitionsWithLag);
    assert_eq!(cap(&[("ensureEvenDistributionOfPartitions", "true")]), Cap::EvenDistribution);
    let default = spec(&[("excludePersistentLag", "true")]).3.rules;
    assert_eq!(default.persistent_after, Some(Duration::from_secs(300)));
    assert_eq!(spec(&[("persistentLagSeconds", "60")]).3.rules.persistent_after, None);
}

#[test]
fn a_trigger_with_a_credential_is_read_without_it() {
    let metadata = metadata(&[("bootstrapServers", ""), ("sasl", "scram_sha512")]);
    parse(&metadata, Parameters::new(&metadata, CredentialSource::Later)).expect("the credential has the rest");
}

#[test]
fn b141_keys_are_known_by_name() {
    assert!(KINDS.contains(&("kafka", Kind::Kafka)));
    let unknown = Metadata::new([("lagTreshold", "5")]).reject_unknown(&[KEYS]).expect_err("misspelt");
    assert_eq!(unknown.problem, "unknown key; did you mean lagThreshold?");
    let mut sorted = KEYS.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), KEYS.len(), "each key once");
    assert!(CONNECTION_KEYS.iter().chain(QUERY_KEYS).all(|key| KEYS.contains(key)));
}
