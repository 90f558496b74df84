//! What is told from memory: of partial samples, to many at once, by two servers, after a password changed.

use futures_util::future::join_all;
use tidegate_connectors::{tenant::TenantId, trigger::Kind};

use super::*;
use crate::credentials::NoCredentials;

#[tokio::test(start_paused = true)]
async fn a_partial_sample_never_lowers_an_active_trigger() {
    let source = Source::new();
    source.say("g", Says::Lag(9));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    for (says, value) in [
        (Says::Lag(9), 9.0),
        (Says::Partial(0), 9.0),
        (Says::Partial(3), 9.0),
        (Says::Partial(12), 12.0), // as much as that is there for sure
        (Says::Partial(0), 12.0),
        (Says::Lag(2), 2.0),
    ] {
        source.say("g", says);
        for _ in 0..3 {
            sleep(seconds(5.1)).await;
            assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(value), "{says:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_partial_sample_never_proves_that_a_trigger_is_inactive() {
    let source = Source::new();
    let scaler = source.scaler();
    let (cold, idle) = (Named::kafka("a", "cold", &[]), Named::kafka("a", "idle", &[]));
    source.say("cold", Says::Partial(0));
    assert_eq!(scaler.verdict(idle.reference()).await.ok().map(said), INACTIVE);
    source.say("idle", Says::Partial(0));
    sleep(seconds(16.0)).await; // the last complete sample is not fresh any more
    for _ in 0..5 {
        for trigger in [&cold, &idle] {
            let refusal = scaler.verdict(trigger.reference()).await.expect_err("nothing is proven");
            assert!(refusal.to_string().starts_with("source not ready: leader moved"), "{refusal}");
        }
        sleep(seconds(5.0)).await;
    }
    source.say("cold", Says::Partial(2));
    source.say("idle", Says::Lag(0));
    sleep(seconds(6.0)).await;
    assert_eq!(scaler.verdict(cold.reference()).await.ok().map(said), ACTIVE(2.0));
    assert_eq!(scaler.verdict(idle.reference()).await.ok().map(said), INACTIVE);
}

/// Time is paused: an answer that takes any was not told from memory.
#[tokio::test(start_paused = true)]
async fn b140_1500_triggers_are_read_at_once_from_memory() {
    let source = Source::new();
    let mut settings = Settings::default();
    settings.tenant.triggers = 1500;
    let scaler = source.scaler_with(Arc::new(NoCredentials), settings);
    let triggers: Vec<_> = (0..1500).map(|n| Named::kafka("a", &format!("group-{n}"), &[])).collect();
    for n in 0..1500 {
        source.say(&format!("group-{n}"), Says::Lag(n));
    }
    join_all(triggers.iter().map(|trigger| scaler.verdict(trigger.reference()))).await;
    sleep(seconds(1.0)).await;
    let (started, batches) = (Instant::now(), source.batches().len());
    let verdicts = join_all(triggers.iter().map(|trigger| scaler.verdict(trigger.reference()))).await;
    assert_eq!((started.elapsed(), source.batches().len()), (Duration::ZERO, batches));
    for (n, verdict) in (0_u32..).zip(verdicts) {
        assert_eq!(verdict.ok().map(said), Some((n > 0, f64::from(n))));
    }
}

/// Of KEDA's three calls each may meet another replica.
#[tokio::test(start_paused = true)]
async fn a21_2_two_servers_of_the_same_source_tell_the_same() {
    let source = Source::new();
    let servers = [source.scaler(), source.scaler()];
    let trigger = Named::kafka("a", "g", &[("lagThreshold", "7")]);
    for (says, expected) in [(Says::Lag(9), ACTIVE(9.0)), (Says::Lag(0), INACTIVE), (Says::Lag(3), ACTIVE(3.0))] {
        source.say("g", says);
        sleep(seconds(6.0)).await;
        let specs = servers.each_ref().map(|server| server.spec(trigger.reference()).unwrap());
        assert_eq!(specs[0], specs[1]);
        for server in [&servers[0], &servers[1], &servers[0]] {
            assert_eq!(server.verdict(trigger.reference()).await.ok().map(said), expected, "{says:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a21_5_a_changed_password_is_used_at_once_and_the_old_one_goes() {
    let source = Source::new();
    let scaler = source.scaler();
    let mut tasks = JoinSet::new();
    let keeper = scaler.clone();
    tasks.spawn(async move { keeper.keep().await });
    let with =
        |password| Named::kafka("a", "g", &[("sasl", "plaintext"), ("username", "u"), ("passwordFromEnv", password)]);
    let (old, new) = (with("old"), with("new"));
    source.say("g", Says::Rejected);
    assert!(scaler.verdict(old.reference()).await.unwrap_err().to_string().contains("credentials rejected"));
    source.say("g", Says::Lag(3));
    // The old one waits for 30 s after its rejection; the new one has nothing to wait for.
    let retried = Instant::now();
    assert_eq!(scaler.verdict(new.reference()).await.ok().map(said), ACTIVE(3.0));
    assert!(retried.elapsed() < seconds(0.1), "{:?}", retried.elapsed());
    assert_eq!(source.sessions().len(), 2, "a session for each password");
    assert_eq!(scaler.counts().endpoints.get(&Kind::Kafka), Some(&2));
    for _minute in 0..11 {
        sleep(seconds(60.0)).await;
        scaler.verdict(new.reference()).await.unwrap();
    }
    assert_eq!(scaler.counts().endpoints.get(&Kind::Kafka), Some(&1), "nobody asks with the old password");
    assert_eq!(scaler.counts().triggers.get(&Kind::Kafka), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_calls_too_often_is_refused_and_no_other() {
    let source = Source::new();
    let mut settings = Settings::default();
    settings.tenant.calls = 100;
    let scaler = source.scaler_with(Arc::new(NoCredentials), settings);
    let (a, b) = (TenantId::local("a"), TenantId::local("b"));
    let admitted = |tenant| (0..300).filter(|_| scaler.admit(tenant).is_ok()).count();
    assert_eq!(admitted(&a), 100);
    let refusal = scaler.admit(&a).unwrap_err();
    assert_eq!(refusal.to_string(), "callsPerSecondPerTenant is at its limit of 100");
    assert_eq!(admitted(&b), 100);
    advance(seconds(0.5)).await;
    assert_eq!((admitted(&a), admitted(&b)), (50, 50));
}
