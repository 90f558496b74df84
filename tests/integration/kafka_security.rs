//! How a trigger authenticates to the real broker: SASL, TLS, credentials from a directory and from the metadata.

use std::time::{Duration, SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use libtest_mimic::Trial;
use tidegate_tests::{
    Result,
    kafka_admin::{self, Operation, Resource},
    kafka_client::KafkaClient,
    services::{Listener, SASL_PASSWORD, SASL_USER, SASL_USER_WITHOUT_RIGHTS, SharedKafka},
    tidegate::{Tidegate, Trigger},
    trials,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tonic::Code;

pub fn trials() -> Vec<Trial> {
    trials![
        every_sasl_mechanism_by_credential_and_by_environment,
        oauthbearer_with_client_credentials,
        tls_with_own_ca_client_certificate_and_without_verification,
        b28_a_port_without_tls_is_named,
        b29_a_wrong_password_names_the_mechanism_and_no_secret,
        b30_describe_on_one_group_and_one_topic_is_enough,
        b132_a_rotated_password_is_used_without_a_restart,
        refused_mechanisms_are_named,
    ]
}

/// A topic with a lag of 6 for the group of its name.
async fn lagging(kafka: &SharedKafka, name: &str) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic(name, 1, 3).await?;
    client.produce(name, 0, 10).await?;
    client.commit(name, name, 0, 4).await
}

async fn every_sasl_mechanism_by_credential_and_by_environment(kafka: SharedKafka) -> Result {
    lagging(&kafka, "sasl").await?;
    let tidegate = Tidegate::start().await?;
    for (number, mechanism) in ["plaintext", " scram_sha256\n", "scram_sha512 "].into_iter().enumerate() {
        let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "sasl", "sasl").with("tls", "disable");
        let name = format!("kafka-{number}");
        for (key, value) in [("sasl", mechanism), ("username", SASL_USER), ("password", SASL_PASSWORD)] {
            tidegate.write_credential("tenant", &name, key, &format!("{value}\n"))?;
        }
        let by_credential = trigger.clone().with("credentialsRef", &name);
        tidegate.keda("tenant", &name, &by_credential).await?.answers(6.0, true).await?;
        let by_environment = trigger.with("sasl", mechanism).with("usernameFromEnv", SASL_USER);
        let by_environment = by_environment.with("passwordFromEnv", SASL_PASSWORD);
        tidegate.keda("tenant", &format!("env-{number}"), &by_environment).await?.answers(6.0, true).await?;
        // The credential of one namespace is not there for another.
        let status = tidegate.keda("other", &name, &by_credential).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    }
    Ok(())
}

/// A token endpoint that gives every client an unsigned token for `subject`, as the cluster's validator takes them.
async fn token_endpoint(subject: &str) -> Result<(String, JoinSet<()>)> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    let claims = format!(r#"{{"sub":"{subject}","iat":{now},"exp":{}}}"#, now + 300);
    let token = format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(claims));
    let body = format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":300}}"#);
    let reply = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/token", listener.local_addr()?);
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let _ = stream.read(&mut request).await; // whatever it asks, it gets a token
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    Ok((url, task))
}

async fn oauthbearer_with_client_credentials(kafka: SharedKafka) -> Result {
    lagging(&kafka, "oauth").await?;
    let tidegate = Tidegate::start().await?;
    let (url, _serving) = token_endpoint(SASL_USER).await?;
    let credential =
        [("sasl", "oauthbearer"), ("username", "client"), ("password", "secret"), ("oauthTokenEndpointUri", &url)];
    for (key, value) in credential {
        tidegate.write_credential("tenant", "kafka", key, value)?;
    }
    let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "oauth", "oauth").with("credentialsRef", "kafka");
    tidegate.keda("tenant", "worker", &trigger).await?.answers(6.0, true).await?;
    Ok(())
}

async fn tls_with_own_ca_client_certificate_and_without_verification(kafka: SharedKafka) -> Result {
    lagging(&kafka, "tls").await?;
    let tidegate = Tidegate::start().await?;
    let ca = kafka.ca_pem();
    let identity = kafka.client().clone();
    let over = |listener| Trigger::kafka(&kafka.bootstrap_of(listener), "tls", "tls").with("tls", "enable");
    let trusted = |listener| over(listener).with("ca", &ca);
    let accepted = [
        ("own-ca", trusted(Listener::Ssl)),
        ("unsafe", over(Listener::Ssl).with("unsafeSsl", "true")),
        ("mutual", trusted(Listener::MutualTls).with("cert", &identity.certificate).with("keyFromEnv", &identity.key)),
        (
            "scram-over-tls",
            trusted(Listener::SaslSsl)
                .with("sasl", "scram_sha512")
                .with("username", SASL_USER)
                .with("passwordFromEnv", SASL_PASSWORD),
        ),
    ];
    for (name, trigger) in accepted {
        let answered = tidegate.keda("tenant", name, &trigger).await?.answers(6.0, true).await;
        answered.map_err(|error| format!("{name}: {error}"))?;
    }
    for (name, trigger) in [("unknown-ca", over(Listener::Ssl)), ("no-certificate", trusted(Listener::MutualTls))] {
        let status = tidegate.keda("tenant", name, &trigger).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::Unavailable, "{name}: {status}");
        assert!(status.message().contains("TLS"), "{name}: {status}");
    }
    Ok(())
}

async fn b28_a_port_without_tls_is_named(kafka: SharedKafka) -> Result {
    let tidegate = Tidegate::start().await?;
    let trigger = Trigger::kafka(&kafka.bootstrap(), "b28", "b28").with("tls", "enable");
    let status = tidegate.keda("tenant", "worker", &trigger).await?.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("does this port speak TLS?"), "{status}");
    Ok(())
}

async fn b29_a_wrong_password_names_the_mechanism_and_no_secret(kafka: SharedKafka) -> Result {
    let tidegate = Tidegate::start().await?;
    for (name, mechanism) in [("plain", "plaintext"), ("scram-256", "scram_sha256"), ("scram-512", "scram_sha512")] {
        let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "b29", "b29").with("sasl", mechanism);
        let trigger = trigger.with("username", SASL_USER).with("passwordFromEnv", "not-the-password-7c1");
        let status = tidegate.keda("tenant", name, &trigger).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("credentials rejected"), "{status}");
        assert!(status.message().contains(mechanism), "{status}");
        assert!(!status.message().contains("7c1"), "{status}");
    }
    Ok(())
}

async fn b30_describe_on_one_group_and_one_topic_is_enough(kafka: SharedKafka) -> Result {
    lagging(&kafka, "b30").await?;
    lagging(&kafka, "b30-denied").await?;
    let bootstrap = kafka.bootstrap();
    for resource in [Resource::Topic("b30"), Resource::Group("b30")] {
        kafka_admin::allow(&bootstrap, SASL_USER_WITHOUT_RIGHTS, Operation::Describe, resource).await?;
    }
    let tidegate = Tidegate::start().await?;
    let trigger = |group, topic| {
        let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), group, topic).with("sasl", "scram_sha256");
        trigger.with("username", SASL_USER_WITHOUT_RIGHTS).with("passwordFromEnv", SASL_PASSWORD)
    };
    tidegate.keda("tenant", "allowed", &trigger("b30", "b30")).await?.answers(6.0, true).await?;
    for (group, topic, named) in
        [("b30-denied", "b30", "consumer group b30-denied"), ("b30", "b30-denied", "topic b30-denied")]
    {
        let status = tidegate.keda("tenant", "denied", &trigger(group, topic)).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains(&format!("not authorised to read {named}")), "{status}");
    }
    Ok(())
}

async fn b132_a_rotated_password_is_used_without_a_restart(kafka: SharedKafka) -> Result {
    lagging(&kafka, "b132").await?;
    let tidegate = Tidegate::start().await?;
    for (key, value) in [("sasl", "plaintext"), ("username", SASL_USER), ("password", "the old password")] {
        tidegate.write_credential("tenant", "kafka", key, value)?;
    }
    let trigger = Trigger::kafka(&kafka.sasl_bootstrap(), "b132", "b132").with("credentialsRef", "kafka");
    let mut keda = tidegate.keda("tenant", "worker", &trigger).await?;
    let status = keda.fails(Duration::ZERO).await?;
    assert!(status.message().contains("credentials rejected"), "{status}");
    tidegate.write_credential("tenant", "kafka", "password", SASL_PASSWORD)?;
    keda.answers_within(Duration::from_secs(16), 6.0, true).await?;
    tidegate.write_credential("tenant", "kafka", "password", "revoked")?;
    // Held, since it was busy; and no poll succeeds with the old password, so a new lag is not seen.
    let polls = Duration::from_secs(16);
    let seen = keda.until(polls, |seen| seen.as_ref().is_ok_and(|tick| !tick.active)).await;
    assert!(seen.is_err(), "a rejected credential is never inactive: {seen:?}");
    KafkaClient::new(&kafka.bootstrap()).produce("b132", 0, 1).await?;
    assert!(keda.keda.tick().await?.shows(6.0, true), "held");
    Ok(())
}

async fn refused_mechanisms_are_named() -> Result {
    let tidegate = Tidegate::start().await?;
    let trigger = || Trigger::kafka("kafka.example:9092", "group", "topic");
    let refused = [
        ("gssapi", trigger().with("sasl", "gssapi")),
        ("aws_msk_iam", trigger().with("sasl", "aws_msk_iam")),
        ("aws_msk_iam", trigger().with("sasl", "oauthbearer").with("saslTokenProvider", "aws_msk_iam")),
    ];
    for (name, trigger) in refused {
        let status = tidegate.keda("tenant", "worker", &trigger).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(name), "{status}");
    }
    Ok(())
}
