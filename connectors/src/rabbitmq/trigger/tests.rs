use super::*;
use crate::{
    metadata::CredentialSource,
    trigger::{KINDS, Kind},
};

const AMQP: &str = "amqp://user:sercet@somehost.com:5236/vhost";

/// KEDA's base row, changed: an empty value removes the key.
fn read(changes: &[(&str, &str)]) -> Result<Spec, ParameterError> {
    let base = [("queueName", "sample"), ("host", AMQP)];
    let kept = base.into_iter().filter(|(key, _)| !changes.iter().any(|(changed, _)| changed == key));
    let metadata = Metadata::new(kept.chain(changes.iter().copied()));
    metadata.reject_unknown(&[KEYS])?;
    parse(&metadata, Parameters::new(&metadata, CredentialSource::None))
}

#[track_caller]
fn spec(changes: &[(&str, &str)]) -> (Spec, Query, Threshold) {
    let spec = read(changes).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
    let Source::Measured { query, threshold, .. } = spec.source.clone() else { panic!("a measured source") };
    let (sampler::Query::RabbitMq(query), trigger::Threshold::RabbitMq(threshold)) = (query, threshold) else {
        panic!("RabbitMQ's own")
    };
    (spec, query, threshold)
}

#[track_caller]
fn rejects(changes: &[(&str, &str)], key: &str) {
    let error = read(changes).expect_err(&format!("{changes:?}"));
    assert_eq!(error.key, key, "{changes:?}: {error}");
    assert!(error.to_string().len() <= 200 && !error.to_string().contains("sercet"), "{error}");
}

#[track_caller]
fn goal(changes: &[(&str, &str)], mode: Mode, target: f64) {
    let (spec, _, threshold) = spec(changes);
    assert_eq!((threshold.mode, spec.target), (mode, target), "{changes:?}");
}

#[test]
fn defaults_are_kedas() {
    let (spec, query, threshold) = spec(&[]);
    assert_eq!(spec.metric_name, "rabbitmq-sample");
    assert_eq!(query, Query { queues: Selection::Named("sample".into()), needs: Needs::Lengths });
    let expected = Threshold {
        mode: Mode::QueueLength,
        activation: 0.0,
        ready_only: false,
        operation: Operation::Sum,
        trust_ready_only: false,
    };
    assert_eq!((spec.target, threshold), (20.0, expected));
    assert!(KINDS.contains(&("rabbitmq", Kind::RabbitMq)));
}

const HTTP: (&str, &str) = ("host", "http://rmq:15672/vhost");

#[test]
fn the_goal_is_a_length_or_a_mode_and_its_value() {
    goal(&[HTTP], Mode::QueueLength, 20.0);
    goal(&[("queueLength", "10")], Mode::QueueLength, 10.0);
    goal(&[("queueLength", "0")], Mode::QueueLength, 20.0);
    goal(&[("mode", "QueueLength"), ("value", "20.5"), ("host", "amqps://rmq")], Mode::QueueLength, 20.5);
    goal(&[HTTP, ("mode", "MessageRate"), ("value", "100")], Mode::MessageRate, 100.0);
    goal(&[HTTP, ("mode", "DeliverGetRate"), ("value", "100")], Mode::DeliverGetRate, 100.0);
    goal(&[HTTP, ("mode", "PublishedToDeliveredRatio"), ("value", "0.5")], Mode::PublishedToDeliveredRatio, 0.5);
    goal(&[HTTP, ("mode", "ExpectedQueueConsumptionTime"), ("value", "1")], Mode::ExpectedQueueConsumptionTime, 1.0);
    rejects(&[("queueLength", "AA")], "queueLength");
    rejects(&[("queueLength", "10"), ("mode", "QueueLength")], "queueLength");
    rejects(&[("queueLength", "10"), ("value", "20")], "queueLength");
    rejects(&[("queueLength", "10"), ("value", "20"), ("mode", "QueueLength")], "queueLength");
    rejects(&[("mode", "QueueLength")], "value");
    rejects(&[("mode", "QueueLength"), ("value", "0")], "value");
    rejects(&[("value", "20")], "mode");
    rejects(&[("mode", "Feelings"), ("value", "20")], "mode");
    rejects(&[("mode", "QueueLength"), ("value", "lots")], "value");
    // KEDA accepts these, and the HPA divides by them.
    rejects(&[("queueLength", "-1")], "queueLength");
    rejects(&[("mode", "QueueLength"), ("value", "-1")], "value");
}

#[test]
fn amqp_tells_only_the_length_of_one_queue() {
    for host in ["amqp://rmq", "amqps://rmq"] {
        rejects(&[("host", host), ("mode", "MessageRate"), ("value", "1")], "mode");
        rejects(&[("host", host), ("mode", "DeliverGetRate"), ("value", "1")], "mode");
        rejects(&[("host", host), ("mode", "PublishedToDeliveredRatio"), ("value", "1")], "mode");
        rejects(&[("host", host), ("mode", "ExpectedQueueConsumptionTime"), ("value", "1")], "mode");
        rejects(&[("host", host), ("useRegex", "true")], "useRegex");
        rejects(&[("host", host), ("excludeUnacknowledged", "true")], "excludeUnacknowledged");
        // d20: KEDA accepts it in this form.
        rejects(&[("host", host), ("timeout", "10")], "timeout");
        rejects(&[("host", host), ("timeout", "10"), ("mode", "QueueLength"), ("value", "1")], "timeout");
    }
}

#[test]
fn what_keda_accepts_is_accepted() {
    for changes in [
        &[("queueLength", "10"), ("host", ""), ("hostFromEnv", AMQP)][..],
        &[HTTP, ("protocol", "http"), ("queueLength", "10")],
        &[("queueName", "namespace/name")],
        &[("vhostName", "myVhost")],
        &[("vhostName", "")],
        &[HTTP, ("useRegex", "true"), ("mode", "MessageRate"), ("value", "1")],
        &[HTTP, ("useRegex", "true"), ("operation", "avg")],
        &[HTTP, ("timeout", "1000")],
        &[HTTP, ("pageSize", "100")],
        &[("activationValue", "10")],
        &[("activationValue", "-1.5")],
        &[HTTP, ("excludeUnacknowledged", "true")],
        &[("host", "https://rmq"), ("unsafeSsl", "true")],
        &[("trustReadyOnly", "true")],
    ] {
        assert!(read(changes).is_ok(), "{changes:?}: {:?}", read(changes).err());
    }
}

#[test]
fn what_keda_rejects_is_rejected() {
    rejects(&[("host", "")], "host");
    rejects(&[("queueName", "")], "queueName");
    rejects(&[("host", "something://rmq")], "host");
    rejects(&[HTTP, ("pageSize", "-1")], "pageSize");
    rejects(&[HTTP, ("pageSize", "0")], "pageSize");
    rejects(&[HTTP, ("pageSize", "a")], "pageSize");
    rejects(&[("activationValue", "AA")], "activationValue");
    rejects(&[("unsafeSsl", "random")], "unsafeSsl");
    rejects(&[("useRegex", "yes"), HTTP], "useRegex");
    // KEDA finds out when a pattern has matched a queue.
    rejects(&[HTTP, ("useRegex", "true"), ("operation", "median")], "operation");
    rejects(&[("queueName", "a\u{7}b")], "queueName");
    rejects(&[("queueName", &"q".repeat(256))], "queueName");
    rejects(&[("queuename", "x")], "queuename");
}

#[test]
fn e10_patterns_are_bounded() {
    let pattern = |text: &str| read(&[HTTP, ("useRegex", "true"), ("queueName", text)]);
    for text in ["^evaluate_trials$", "^q\\d{1,3}$", "(?i)a|b", "[[:alpha:]]+"] {
        assert!(pattern(text).is_ok(), "{text}");
    }
    let nested = "((((a{50}){50}){50}){50})";
    for text in ["(", "(?=x)", "(a)\\1", nested, "\\w{900}", &"a".repeat(257)] {
        assert_eq!(pattern(text).expect_err(text).key, "queueName");
    }
    let matches = |text: &str, name: &str| Pattern::new(text).unwrap().matches(name);
    // As in the management API: anywhere in the name, and in either case.
    assert!(matches("orders", "team.Orders.eu") && !matches("^orders", "team.orders"));
}

#[test]
fn metric_names_are_kedas_in_lower_case() {
    for (queue, name) in [
        ("sample", "rabbitmq-sample"),
        ("namespace/name", "rabbitmq-namespace-2fname"),
        ("Two Words", "rabbitmq-two-words"),
        ("a+b", "rabbitmq-a-2bb"),
        ("ü", "rabbitmq--c3-bc"),
        ("^evaluate_trials$", "rabbitmq--5eevaluate-trials-24"),
    ] {
        assert_eq!(spec(&[("queueName", queue)]).0.metric_name, name);
    }
}

#[test]
fn triggers_share_an_endpoint_unless_they_connect_differently() {
    let address = |changes: &[(&str, &str)]| match read(changes).unwrap().source {
        Source::Measured { address, .. } => address,
        Source::Cron(_) => panic!("a measured source"),
    };
    let base = address(&[HTTP]);
    assert_eq!(base, address(&[HTTP, ("queueName", "other"), ("queueLength", "5"), ("pageSize", "500")]));
    assert_ne!(base, address(&[HTTP, ("vhostName", "other")]));
    assert_ne!(base, address(&[("host", "http://u:p@rmq:15672/vhost")]));
    let later = Metadata::new([("queueName", "q"), ("timeout", "2s")]);
    let later = parse(&later, Parameters::new(&later, CredentialSource::Later));
    assert!(later.is_ok(), "the host may be in the credential");
}
