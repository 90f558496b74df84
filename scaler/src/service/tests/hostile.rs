//! Metadata that nobody would write, asked of the whole service: every call is answered, with one and the same status
//! where it is wrong, and no status repeats a value.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, sample::select};
use tidegate_connectors::trigger::KINDS;
use tokio::runtime::{Builder, Runtime};
use tonic::Status;

use super::*;
use crate::{
    credentials::NoCredentials,
    scaler::{
        Scaler, Settings,
        scripted::{Named, Source},
    },
    trigger::{COMMON_KEYS, KEDA_KEYS},
};

/// A part of every value that is not a word of ours. As it has capitals, it is in no credential's name, the one value
/// that a text may repeat here.
const CANARY: &str = "cAnArY7f3aQ";

/// Words that some key takes.
const WORDS: &[&str] = &[
    "kafka",
    "apache-kafka",
    "cron",
    "kafka.example:9092",
    "orders",
    "a,b",
    "true",
    "false",
    "enable",
    "disable",
    "plaintext",
    "scram_sha512",
    "oauthbearer",
    "https://token.example/",
    "earliest",
    "1-4,8",
    "0 8 * * 1-5",
    "0 18 * * *",
    "Europe/Berlin",
    "UTC",
    "10",
    "0",
    "-1",
    "30s",
    "team-secret",
];

/// What number parsers trip over.
const NUMBERS: &[&str] = &[
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e999",
    "NaN",
    "-Infinity",
    "0x10",
    "1_000",
    "+5",
    "0-2147483647",
    "2147483647-0",
    "99999999999h",
    "-0",
    "٣",
];

/// Names of librdkafka's properties that run code, read or write files, leak secrets, switch checks off or connect
/// elsewhere (CONFIGURATION.md): none of them is a parameter, in whatever way it is written.
const LIBRDKAFKA: &[&str] = &[
    "plugin.library.paths",
    "builtin.features",
    "metadata.broker.list",
    "bootstrap.servers",
    "client.id",
    "client.rack",
    "debug",
    "log_level",
    "log_cb",
    "socket_cb",
    "open_cb",
    "opaque",
    "interceptors",
    "statistics.interval.ms",
    "enable.random.seed",
    "allow.auto.create.topics",
    "receive.message.max.bytes",
    "message.max.bytes",
    "socket.timeout.ms",
    "topic.blacklist",
    "security.protocol",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl_key",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl_certificate",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl_ca",
    "ssl.ca.certificate.stores",
    "ssl.crl.location",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.engine.location",
    "ssl.engine.id",
    "ssl_engine_callback_data",
    "ssl.cipher.suites",
    "enable.ssl.certificate.verification",
    "ssl.endpoint.identification.algorithm",
    "ssl.certificate.verify_cb",
    "sasl.mechanisms",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "sasl.kerberos.principal",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.keytab",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.config",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.file",
    "https.ca.location",
    "https.ca.pem",
    "group.instance.id",
    "group.protocol.type",
    "enable.auto.commit",
    "offset.store.path",
    "offset.store.method",
    "auto.offset.reset",
    "transactional.id",
    "resolve_cb",
    "connect_cb",
    "closesocket_cb",
    "background_event_cb",
];

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// The answers to all five calls, and the metric's name where there is one.
async fn all_calls(metadata: &HashMap<String, String>) -> (Option<String>, [Result<(), Status>; 5]) {
    let settings = Settings::default();
    let core: Arc<Scaler<Source>> = Source::new().scaler_with(Arc::new(NoCredentials), settings);
    let service = Service { core, metrics: Arc::default() };
    let mut object = object(&[]);
    object.scaler_metadata.clone_from(metadata);
    let asked = || from_a_caller(object.clone());
    let spec = service.get_metric_spec(asked()).await;
    let name = spec.as_ref().ok().map(|spec| spec.get_ref().metric_specs[0].metric_name.clone());
    let metric_name = name.clone().unwrap_or_else(|| "any".into());
    let mut get_metrics = Request::new(GetMetricsRequest { scaled_object_ref: Some(object.clone()), metric_name });
    *get_metrics.extensions_mut() = asked().extensions().clone();
    let answers = [
        spec.map(drop),
        service.get_metrics(get_metrics).await.map(drop),
        service.is_active(asked()).await.map(drop),
        service.stream_is_active(asked()).await.map(drop),
        service.stream_metric_spec(asked()).await.map(drop),
    ];
    (name, answers)
}

/// What is wrong is said of every call alike, in the same words.
fn check(metadata: &HashMap<String, String>) -> Result<(), TestCaseError> {
    let (name, answers) = runtime().block_on(all_calls(metadata));
    for status in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let text = status.message();
        prop_assert!(!text.is_empty() && text.chars().count() <= 200, "{}", text);
        prop_assert!(!text.chars().any(char::is_control) && !text.contains('\u{202e}'), "{:?}", text);
        prop_assert!(!text.contains(CANARY), "{}", text);
    }
    match name {
        None => {
            let said = answers.map(|answer| answer.map_err(|status| (status.code(), status.message().to_owned())));
            let [Err((Code::InvalidArgument, _)), others @ ..] = &said else { panic!("{said:?}") };
            prop_assert!(others.iter().all(|other| *other == said[0]), "{:?}", said);
        }
        Some(name) => {
            prop_assert!(!name.is_empty());
            prop_assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", name);
        }
    }
    Ok(())
}

fn key() -> impl Strategy<Value = String> {
    let known: Vec<_> = KINDS.iter().flat_map(|(_, kind)| kind.keys()).chain(COMMON_KEYS).chain(KEDA_KEYS).collect();
    let known = (select(known), prop_oneof![9 => Just(""), 1 => Just("FromEnv"), 1 => Just(" ")]);
    prop_oneof![
        8 => known.prop_map(|(key, end)| format!("{key}{end}")),
        1 => select(LIBRDKAFKA).prop_map(str::to_owned),
        1 => vec(any::<char>(), 0..140).prop_map(String::from_iter),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let around = |text: String| {
        let half = text.chars().count() / 2;
        let (before, after): (String, String) = (text.chars().take(half).collect(), text.chars().skip(half).collect());
        format!("{before}{CANARY}{after}")
    };
    prop_oneof![
        6 => select(WORDS).prop_map(str::to_owned),
        2 => select(NUMBERS).prop_map(str::to_owned),
        2 => select(WORDS).prop_map(move |word| around(word.to_owned())),
        3 => vec(any::<char>(), 0..80).prop_map(move |text| around(text.into_iter().collect())),
        1 => (1..70_000usize).prop_map(|n| CANARY.repeat(n / CANARY.len() + 1)),
        1 => (select(vec!["[", "{\"a\":", "(", "*/", "1,", "a.", "%25", "\u{202e}\0\n"]), 1..2000usize)
            .prop_map(move |(part, n)| around(part.repeat(n))),
    ]
}

fn metadata() -> impl Strategy<Value = HashMap<String, String>> {
    let pairs = |pairs: &[(&str, &str)]| -> HashMap<_, _> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let cron = pairs(&[
        ("triggerType", "cron"),
        ("timezone", "UTC"),
        ("start", "0 8 * * *"),
        ("end", "0 18 * * *"),
        ("desiredReplicas", "3"),
    ]);
    let bases = vec![HashMap::new(), Named::kafka("team-a", "g", &[]).metadata, cron];
    (select(bases), vec((key(), value()), 0..6)).prop_map(|(mut base, more)| {
        base.extend(more);
        base
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn c12_any_metadata_is_answered_and_no_value_is_repeated(metadata in metadata()) {
        check(&metadata)?;
    }
}

#[test]
fn a_trigger_that_is_right_has_no_status_at_all() {
    let (name, answers) = runtime().block_on(all_calls(&Named::kafka("team-a", "g", &[]).metadata));
    assert_eq!(name.as_deref(), Some("kafka-orders"));
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// safety.md, section 6: no property of a Kafka client is reached by its name.
#[test]
fn no_property_of_librdkafka_is_a_parameter() {
    for property in LIBRDKAFKA {
        for key in [(*property).to_owned(), format!("{property}FromEnv"), property.to_uppercase()] {
            let shown = key.strip_suffix("FromEnv").unwrap_or(&key).to_owned();
            let (_, answers) = runtime().block_on(all_calls(&Named::kafka("team-a", "g", &[(&key, CANARY)]).metadata));
            for answer in answers {
                let status = answer.expect_err(&key);
                assert_eq!(status.code(), Code::InvalidArgument, "{key}");
                assert!(status.message().starts_with(&format!("{shown}: unknown key")), "{}", status.message());
            }
        }
    }
}
