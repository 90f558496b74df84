//! What a session with the real broker rests on: keys with a password, rights that are withdrawn, credentials that change
//! under it, and listeners that are not what the trigger says.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::{LineEnding, PrivateKeyInfo, SecretDocument};
use tidegate_tests::services::{
    ExclusiveKafka, KafkaCluster, Listener, SASL_PASSWORD, SASL_USER, SASL_USER_WITHOUT_RIGHTS, SharedKafka,
};
use tidegate_tests::tidegate::{Tidegate, Trigger};
use tidegate_tests::{Result, kafka_client::KafkaClient, trials};
use tokio::time::sleep;
use tonic::Code;

/// A change of a credential is seen within 15 s (issue 2), and then there is a poll.
const CREDENTIAL: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(50);

pub fn trials() -> Vec<Trial> {
    trials![
        a_credential_holds_a_client_certificate_and_an_encrypted_key,
        b27_none_and_disable_are_words,
        b28_a_listener_with_tls_that_is_asked_without,
        b29_sasl_on_a_listener_without_it,
        b30_withdrawn_rights_hold_the_replicas_and_then_err_by_name,
        b132_a_new_credential_opens_a_session_and_closes_the_old_one,
        a_credential_that_is_gone_is_not_used_any_more,
        refused_mechanisms_of_a_credential_are_named,
        a_credential_that_names_its_servers_is_sent_to_no_others,
    ]
}

/// A topic with a lag of 6 for the group of its name.
async fn lagging(kafka: &KafkaCluster, name: &str) -> Result<KafkaClient> {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic(name, 1, 3).await?;
    client.produce(name, 0, 10).await?;
    client.commit(name, name, 0, 4).await?;
    Ok(client)
}

fn write(tidegate: &Tidegate, name: &str, content: &[(&str, &str)]) -> Result {
    content.iter().try_for_each(|(key, value)| tidegate.write_credential("tenant", name, key, value))
}

async fn a_credential_holds_a_client_certificate_and_an_encrypted_key(kafka: SharedKafka) -> Result {
    lagging(&kafka, "key-password").await?;
    let identity = kafka.client();
    let (_, der) = SecretDocument::from_pem(&identity.key)?;
    let by = Parameters::pbkdf2_sha256_aes256cbc(2048, b"saltsalt", &[7; 16]).map_err(|error| error.to_string())?;
    let encrypted = PrivateKeyInfo::try_from(der.as_bytes())?.encrypt_with_params(by, "open sesame")?;
    let encrypted = encrypted.to_pem("ENCRYPTED PRIVATE KEY", LineEnding::LF)?;
    let tidegate = Tidegate::start().await?;
    let ca = kafka.ca_pem();
    for (name, password) in [("good", "open sesame\n"), ("bad", "open barley")] {
        let tls = [("tls", "enable"), ("ca", ca.as_str()), ("cert", &identity.certificate), ("key", &encrypted)];
        write(&tidegate, name, &tls)?;
        write(&tidegate, name, &[("keyPassword", password)])?;
    }
    let bootstrap = kafka.bootstrap_of(Listener::MutualTls);
    let trigger = |name| Trigger::kafka(&bootstrap, "key-password", "key-password").with("credentialsRef", name);
    tidegate.keda("tenant", "good", &trigger("good")).await?.answers(6.0, true).await?;
    let status = tidegate.keda("tenant", "bad", &trigger("bad")).await?.fails(Duration::ZERO).await?;
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "keyPassword: does not decrypt the key"));
    Ok(())
}

async fn b27_none_and_disable_are_words(kafka: SharedKafka) -> Result {
    lagging(&kafka, "b27").await?;
    let tidegate = Tidegate::start().await?;
    let trigger = Trigger::kafka(&kafka.bootstrap(), "b27", "b27").with("sasl", " none\n").with("tls", "disable ");
    tidegate.keda("tenant", "worker", &trigger).await?.answers(6.0, true).await?;
    write(&tidegate, "words", &[("sasl", "none"), ("tls", "disable")])?;
    let trigger = Trigger::kafka(&kafka.bootstrap(), "b27", "b27").with("credentialsRef", "words");
    tidegate.keda("tenant", "other", &trigger).await?.answers(6.0, true).await?;
    Ok(())
}

async fn b28_a_listener_with_tls_that_is_asked_without(kafka: SharedKafka) -> Result {
    let tidegate = Tidegate::start().await?;
    for listener in [Listener::Ssl, Listener::SaslSsl, Listener::SaslPlaintext] {
        let trigger = Trigger::kafka(&kafka.bootstrap_of(listener), "b28", "b28");
        let mut keda = tidegate.keda("tenant", &format!("{listener:?}").to_lowercase(), &trigger).await?;
        let status = keda.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::Unavailable, "{listener:?}: {status}");
    }
    Ok(())
}

/// The mechanism is wrong, and not the broker away.
async fn b29_sasl_on_a_listener_without_it(kafka: SharedKafka) -> Result {
    let tidegate = Tidegate::start().await?;
    let trigger = Trigger::kafka(&kafka.bootstrap(), "b29", "b29").with("sasl", "scram_sha512");
    let trigger = trigger.with("username", SASL_USER).with("passwordFromEnv", SASL_PASSWORD);
    let status = tidegate.keda("tenant", "worker", &trigger).await?.fails(Duration::ZERO).await?;
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "credentials rejected (scram_sha512)"),
        "{status}"
    );
    Ok(())
}

/// The credential becomes one of a user without any right, while the trigger is active.
async fn b30_withdrawn_rights_hold_the_replicas_and_then_err_by_name(kafka: SharedKafka) -> Result {
    lagging(&kafka, "b30-withdrawn").await?;
    let tidegate = Tidegate::start().await?;
    write(&tidegate, "kafka", &[("sasl", "plaintext"), ("username", SASL_USER), ("password", SASL_PASSWORD)])?;
    let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "b30-withdrawn", "b30-withdrawn");
    let trigger = trigger.with("credentialsRef", "kafka").with("pollInterval", "500ms");
    let mut holding = tidegate.keda("tenant", "holding", &trigger).await?;
    let mut failing = tidegate.keda("tenant", "failing", &trigger.with("holdSeconds", "0")).await?;
    holding.answers(6.0, true).await?;
    failing.answers(6.0, true).await?;
    write(&tidegate, "kafka", &[("username", SASL_USER_WITHOUT_RIGHTS)])?;
    let status = failing.fails(Duration::from_secs(45)).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().starts_with("not authorised to read topic b30-withdrawn"), "{status}");
    let held = holding.keda.tick().await?;
    assert_eq!((held.value, held.active), (6.0, true));
    Ok(())
}

async fn b132_a_new_credential_opens_a_session_and_closes_the_old_one(kafka: ExclusiveKafka) -> Result {
    let client = lagging(&kafka, "b132-session").await?;
    let tidegate = Tidegate::start().await?;
    write(&tidegate, "kafka", &[("sasl", "plaintext"), ("username", SASL_USER), ("password", SASL_PASSWORD)])?;
    let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "b132-session", "b132-session");
    let trigger = trigger.with("credentialsRef", "kafka").with("pollInterval", "500ms");
    let mut keda = tidegate.keda("tenant", "worker", &trigger).await?;
    keda.answers(6.0, true).await?;
    let old = connections(&kafka)?;
    assert!(!old.is_empty());
    write(&tidegate, "kafka", &[("sasl", "scram_sha512")])?;
    let until = Instant::now() + CREDENTIAL;
    let new = loop {
        let tick = keda.keda.tick().await?;
        assert_eq!((tick.value, tick.active), (6.0, true));
        let now = connections(&kafka)?;
        if !now.is_empty() && now.is_disjoint(&old) {
            break now;
        }
        assert!(Instant::now() < until, "connections before: {old:?}, now: {now:?}");
        sleep(LOOK).await;
    };
    // The new session measures, and stays.
    client.produce("b132-session", 0, 1).await?;
    keda.answers(7.0, true).await?;
    assert!(!connections(&kafka)?.is_disjoint(&new));
    Ok(())
}

/// The local ports of the connections to the listener with SASL. No other test runs meanwhile.
fn connections(kafka: &KafkaCluster) -> Result<BTreeSet<String>> {
    const ESTABLISHED: &str = "01";
    let brokers = kafka.running().into_iter().map(|id| kafka.address(id, Listener::SaslPlaintext));
    let ports: BTreeSet<u16> = brokers.filter_map(|address| address.rsplit_once(':')?.1.parse().ok()).collect();
    let table = std::fs::read_to_string("/proc/self/net/tcp")?;
    let connection = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, local, remote, state, ..] = fields.as_slice() else { return None };
        let port = u16::from_str_radix(remote.rsplit_once(':')?.1, 16).ok()?;
        (state == ESTABLISHED && ports.contains(&port)).then(|| local.to_owned())
    };
    Ok(table.lines().filter_map(connection).collect())
}

async fn a_credential_that_is_gone_is_not_used_any_more(kafka: SharedKafka) -> Result {
    lagging(&kafka, "gone").await?;
    let tidegate = Tidegate::start().await?;
    write(&tidegate, "kafka", &[("sasl", "plaintext"), ("username", SASL_USER), ("password", SASL_PASSWORD)])?;
    let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "gone", "gone").with("credentialsRef", "kafka");
    let trigger = trigger.with("pollInterval", "500ms").with("holdSeconds", "0");
    let mut keda = tidegate.keda("tenant", "worker", &trigger).await?;
    keda.answers(6.0, true).await?;
    tidegate.remove_credential("tenant", "kafka")?;
    let status = keda.fails(Duration::from_secs(45)).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().starts_with("credential kafka not found in this namespace"), "{status}");
    Ok(())
}

async fn refused_mechanisms_of_a_credential_are_named() -> Result {
    let tidegate = Tidegate::start().await?;
    for (name, content) in [
        ("gssapi", &[("sasl", "gssapi"), ("username", "u"), ("realm", "EXAMPLE.COM")][..]),
        ("aws-msk-iam", &[("sasl", "aws_msk_iam"), ("awsRegion", "eu-west-1")]),
        ("aws-token", &[("sasl", "oauthbearer"), ("saslTokenProvider", "aws_msk_iam")]),
    ] {
        write(&tidegate, name, content)?;
        let trigger = Trigger::kafka("kafka.example:9092", "group", "topic").with("credentialsRef", name);
        let status = tidegate.keda("tenant", name, &trigger).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::FailedPrecondition, "{name}: {status}");
        let mechanism = if name == "gssapi" { "gssapi" } else { "aws_msk_iam" };
        assert!(status.message().contains(mechanism) && status.message().contains("not supported"), "{status}");
    }
    Ok(())
}

async fn a_credential_that_names_its_servers_is_sent_to_no_others(kafka: SharedKafka) -> Result {
    lagging(&kafka, "bound").await?;
    let tidegate = Tidegate::start().await?;
    write(&tidegate, "bound", &[("sasl", "plaintext"), ("username", SASL_USER), ("password", SASL_PASSWORD)])?;
    write(&tidegate, "bound", &[("bootstrapServers", &kafka.sasl_bootstrap())])?;
    let mut trigger = Trigger::kafka("elsewhere.example:9092", "bound", "bound").with("credentialsRef", "bound");
    let status = tidegate.keda("tenant", "elsewhere", &trigger).await?.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().starts_with("bootstrapServers: differs"), "{status}");
    trigger.0.remove("bootstrapServers");
    tidegate.keda("tenant", "worker", &trigger).await?.answers(6.0, true).await?;
    Ok(())
}
