//! SASL, and TLS where there is none, over real connections.

use secrecy::SecretString;

use super::*;
use crate::{kafka::settings::Login, tls::TlsSettings};

async fn cluster() -> ScriptedKafka {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[10]);
    cluster.group("workers", 1, "orders", &[4]);
    cluster.state().login = Some(("user".into(), "right".into()));
    cluster
}

fn login(password: &str) -> Login {
    Login { username: SecretString::from("user"), password: SecretString::from(password) }
}

fn with_sasl(cluster: &ScriptedKafka, sasl: Sasl) -> KafkaSampler {
    with(Settings { sasl, ..settings(cluster) }, Limits::default())
}

#[tokio::test]
async fn the_right_password_is_accepted() {
    let cluster = cluster().await;
    let outcome = one(&mut with_sasl(&cluster, Sasl::Plain(login("right"))), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, Some(4), 10)]);
}

#[tokio::test]
async fn b29_refused_credentials_name_the_mechanism_and_are_not_tried_again_at_once() {
    let cluster = cluster().await;
    for (sasl, mechanism) in
        [(Sasl::Plain(login("wrong")), "plaintext"), (Sasl::ScramSha512(login("right")), "scram_sha512")]
    {
        let mut sampler = with_sasl(&cluster, sasl);
        for _ in 0..3 {
            let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
            assert_eq!(error.to_string(), format!("credentials rejected ({mechanism})"));
            assert!(!format!("{error:?}").contains("wrong"));
        }
    }
    assert_eq!(total(&cluster.count(ApiKey::SaslHandshake)), 2, "one for each sampler");
}

#[tokio::test]
async fn b29_a_listener_without_sasl_refuses_every_mechanism() {
    let cluster = cluster().await;
    cluster.state().login = None;
    let error =
        failure(one(&mut with_sasl(&cluster, Sasl::Plain(login("right"))), query("workers", &["orders"])).await);
    assert_eq!(error.to_string(), "credentials rejected (plaintext)");
}

#[tokio::test]
async fn a_broker_that_wants_credentials_closes_on_a_client_without() {
    let cluster = cluster().await;
    let error = failure(one(&mut sampler(&cluster), query("workers", &["orders"])).await);
    assert!(matches!(error, SampleError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_session_is_left_before_it_ends() {
    let cluster = cluster().await;
    cluster.state().session_lifetime = 1;
    let mut sampler = with_sasl(&cluster, Sasl::Plain(login("right")));
    // However fast the samples are, a connection serves those of a millisecond only.
    while cluster.state().connections.values().sum::<usize>() < 3 {
        let outcome = one(&mut sampler, query("workers", &["orders"])).await;
        assert_eq!(complete(&outcome), [("orders", 0, Some(4), 10)]);
    }
}

#[tokio::test]
async fn b28_a_port_without_tls_is_said_to_be_one() {
    let cluster = cluster().await;
    let tls = Some(TlsSettings { insecure: true, ..TlsSettings::default() });
    let mut sampler = with(Settings { tls, ..settings(&cluster) }, Limits::default());
    let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
    assert!(error.to_string().contains("does this port speak TLS?"), "{error}");
    let broker = cluster.state().brokers[&1].to_string();
    let cause = std::error::Error::source(&error).expect("the log is told more").to_string();
    assert!(cause.contains(&broker), "{cause}");
}
