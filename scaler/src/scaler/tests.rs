//! The core on a scripted source, with paused time.

mod memory;

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, advance, sleep, timeout},
};

use super::{
    Settings,
    scripted::{Named, Says, Source, Vault},
};
use crate::answer::{Refusal, Verdict};

const ACTIVE: fn(f64) -> Option<(bool, f64)> = |value| Some((true, value));
const INACTIVE: Option<(bool, f64)> = Some((false, 0.0));

fn said(verdict: Verdict) -> (bool, f64) {
    (verdict.active, verdict.value)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[tokio::test(start_paused = true)]
async fn s40_a_cold_idle_trigger_is_proven_inactive_by_its_first_call() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "idle", &[]));
    let started = Instant::now();
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), INACTIVE);
    assert!(started.elapsed() < seconds(0.7), "{:?}", started.elapsed());
    assert_eq!(source.batches().len(), 2, "the sample and the one that confirms it");
}

#[tokio::test(start_paused = true)]
async fn a_cold_busy_trigger_is_active_after_one_sample() {
    let source = Source::new();
    source.say("busy", Says::Lag(42));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "busy", &[]));
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(42.0));
    assert_eq!(source.batches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn b128_a_source_that_was_never_reached_is_an_error_and_never_zero() {
    let source = Source::new();
    source.say("g", Says::Unreachable);
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    for _ in 0..5 {
        let refusal = scaler.verdict(trigger.reference()).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Source { age: None, .. }), "{refusal}");
        sleep(seconds(3.0)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_source_costs_the_first_call_two_and_a_half_seconds_and_later_ones_nothing() {
    let source = Source::new();
    source.say("g", Says::Hangs);
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let started = Instant::now();
    assert!(matches!(scaler.verdict(trigger.reference()).await, Err(Refusal::NotMeasured)));
    assert_eq!(started.elapsed(), seconds(2.5));
    assert!(scaler.verdict(trigger.reference()).await.is_err());
    assert_eq!(started.elapsed(), seconds(2.5));
    sleep(seconds(6.0)).await; // the batch's own deadline of 8 s has passed
    let refusal = scaler.verdict(trigger.reference()).await.unwrap_err();
    assert!(refusal.to_string().contains("timed out"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn triggers_of_one_endpoint_travel_in_one_batch_and_share_queries() {
    let source = Source::new();
    let scaler = source.scaler();
    let triggers: Vec<_> = (0..30)
        .map(|n| Named::kafka("a", &format!("group-{}", n % 10), &[("lagThreshold", if n < 10 { "5" } else { "7" })]))
        .map(|mut trigger| {
            trigger.name = format!("worker-{}", trigger.metadata["lagThreshold"]);
            trigger
        })
        .collect();
    for trigger in &triggers {
        scaler.verdict(trigger.reference()).await.unwrap();
    }
    sleep(seconds(6.0)).await;
    let before = source.batches().len();
    sleep(seconds(5.0)).await;
    let batches = source.batches().split_off(before);
    assert_eq!(batches.len(), 1, "one batch an interval");
    assert_eq!(batches[0].2.len(), 10, "one query a group, whatever the thresholds");
}

#[tokio::test(start_paused = true)]
async fn b136_phases_of_endpoints_are_spread() {
    let source = Source::new();
    let scaler = source.scaler();
    for n in 0..40 {
        scaler.verdict(Named::kafka(&format!("tenant-{n}"), "g", &[]).reference()).await.unwrap();
    }
    sleep(seconds(10.0)).await;
    let mut moments: Vec<_> = source.batches().into_iter().rev().take(40).map(|(at, ..)| at).collect();
    moments.sort_unstable();
    moments.dedup();
    assert!(moments.len() > 30, "{} moments for 40 endpoints", moments.len());
}

#[tokio::test(start_paused = true)]
async fn f2_two_tenants_share_nothing() {
    let source = Source::new();
    let scaler = source.scaler();
    let (a, b) = (Named::kafka("a", "g", &[]), Named::kafka("b", "g", &[]));
    scaler.verdict(a.reference()).await.unwrap();
    scaler.verdict(b.reference()).await.unwrap();
    assert_eq!(source.sessions().len(), 2, "a client each, for the same address and group");
    let tenants: std::collections::HashSet<_> = source.batches().into_iter().map(|(_, tenant, _)| tenant).collect();
    assert_eq!(tenants.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn s01_an_outage_while_active_is_held_then_an_error_and_recovers() {
    let source = Source::new();
    source.say("g", Says::Lag(9));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[("holdSeconds", "60")]));
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(9.0));
    source.say("g", Says::Unreachable);
    sleep(seconds(50.0)).await;
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(9.0));
    sleep(seconds(20.0)).await;
    assert!(scaler.verdict(trigger.reference()).await.is_err());
    source.say("g", Says::Lag(3));
    sleep(seconds(18.0)).await; // a quarter of the outage, at most
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(3.0));
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_seconds_is_over_within_five() {
    let source = Source::new();
    source.say("g", Says::Lag(9));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    scaler.verdict(trigger.reference()).await.unwrap();
    source.say("g", Says::Unreachable);
    sleep(seconds(10.0)).await;
    source.say("g", Says::Lag(4));
    sleep(seconds(5.0)).await;
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(4.0));
}

/// Issue 3: the right value again within 10 s, also where the poll interval is longer.
#[tokio::test(start_paused = true)]
async fn a_long_poll_interval_does_not_lengthen_an_outage() {
    let source = Source::new();
    source.say("g", Says::Lag(9));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[("pollInterval", "15s")]));
    scaler.verdict(trigger.reference()).await.unwrap();
    source.say("g", Says::Unreachable);
    sleep(seconds(16.0)).await;
    source.say("g", Says::Lag(4));
    sleep(seconds(10.0)).await;
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(4.0));
}

#[tokio::test(start_paused = true)]
async fn one_query_that_fails_does_not_slow_the_others() {
    let source = Source::new();
    source.say("missing", Says::NotFound);
    source.say("g", Says::Lag(1));
    let scaler = source.scaler();
    let (good, bad) = (Named::kafka("a", "g", &[]), Named::kafka("a", "missing", &[]));
    assert!(scaler.verdict(bad.reference()).await.is_err());
    assert_eq!(scaler.verdict(good.reference()).await.ok().map(said), ACTIVE(1.0));
    sleep(seconds(30.0)).await;
    source.say("g", Says::Lag(2));
    source.say("missing", Says::Lag(8)); // cases.md B35: the topic is there now
    sleep(seconds(5.1)).await;
    assert_eq!(scaler.verdict(good.reference()).await.ok().map(said), ACTIVE(2.0));
    assert_eq!(scaler.verdict(bad.reference()).await.ok().map(said), ACTIVE(8.0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_sleeping_trigger_wakes_within_a_second() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let mut stream = scaler.watch(trigger.reference()).unwrap();
    assert!(timeout(seconds(20.0), stream.next()).await.is_err(), "no true while idle");
    source.say("g", Says::Lag(1));
    let produced = Instant::now();
    stream.next().await;
    assert!(produced.elapsed() <= seconds(0.6), "{:?}", produced.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_repeats_its_true_at_5_and_30_seconds_and_then_is_silent() {
    let source = Source::new();
    source.say("g", Says::Lag(1));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let mut stream = scaler.watch(trigger.reference()).unwrap();
    stream.next().await;
    let edge = Instant::now();
    stream.next().await;
    assert_eq!(edge.elapsed(), seconds(5.0));
    stream.next().await;
    assert_eq!(edge.elapsed(), seconds(30.0));
    assert!(timeout(seconds(300.0), stream.next()).await.is_err());
    source.say("g", Says::Lag(0));
    assert!(timeout(seconds(10.0), stream.next()).await.is_err());
    source.say("g", Says::Lag(5));
    assert!(timeout(seconds(1.0), stream.next()).await.is_ok(), "a new rising edge");
}

#[tokio::test(start_paused = true)]
async fn s61_a_stream_that_nobody_reads_sends_no_stale_true() {
    let source = Source::new();
    source.say("g", Says::Lag(1));
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let mut stream = scaler.watch(trigger.reference()).unwrap();
    scaler.verdict(trigger.reference()).await.unwrap();
    source.say("g", Says::Lag(0));
    sleep(seconds(20.0)).await; // active, then inactive, while nobody asked the stream
    assert!(timeout(seconds(20.0), stream.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn b127_other_metadata_under_the_same_name_is_another_trigger() {
    let source = Source::new();
    source.say("old", Says::Lag(9));
    let scaler = source.scaler();
    assert_eq!(scaler.verdict(Named::kafka("a", "old", &[]).reference()).await.ok().map(said), ACTIVE(9.0));
    assert_eq!(scaler.verdict(Named::kafka("a", "new", &[]).reference()).await.ok().map(said), INACTIVE);
}

#[tokio::test(start_paused = true)]
async fn s47_a_changed_threshold_inherits_no_hold() {
    let source = Source::new();
    source.say("g", Says::Lag(9));
    let scaler = source.scaler();
    scaler.verdict(Named::kafka("a", "g", &[]).reference()).await.unwrap();
    source.say("g", Says::Unreachable);
    sleep(seconds(30.0)).await;
    let changed = Named::kafka("a", "g", &[("lagThreshold", "3")]);
    assert!(scaler.verdict(changed.reference()).await.is_err(), "the old trigger holds, the new one knows nothing");
}

#[tokio::test(start_paused = true)]
async fn f6_a_trigger_that_nobody_asks_for_is_dropped_and_its_endpoint_closes() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let mut tasks = JoinSet::new();
    let keeper = scaler.clone();
    tasks.spawn(async move { keeper.keep().await });
    scaler.verdict(trigger.reference()).await.unwrap();
    sleep(seconds(580.0)).await;
    assert_eq!(scaler.counts().endpoints.len(), 1);
    sleep(seconds(60.0)).await;
    assert_eq!(scaler.counts().endpoints.len(), 0);
    assert!(scaler.counts().triggers.is_empty());
    let polls = source.batches().len();
    sleep(seconds(60.0)).await;
    assert_eq!(source.batches().len(), polls);
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_keeps_its_trigger() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    let mut tasks = JoinSet::new();
    let keeper = scaler.clone();
    tasks.spawn(async move { keeper.keep().await });
    let stream = scaler.watch(trigger.reference()).unwrap();
    sleep(seconds(3600.0)).await;
    assert_eq!((scaler.counts().endpoints.len(), scaler.counts().streams), (1, 1));
    drop(stream);
    sleep(seconds(700.0)).await;
    assert_eq!((scaler.counts().endpoints.len(), scaler.counts().streams), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn b132_a_changed_credential_opens_a_new_session() {
    let (source, vault) = (Source::new(), Arc::new(Vault::default()));
    vault.put("a", "kafka", "old");
    source.say("g", Says::Lag(1));
    let scaler = source.scaler_with(vault.clone(), Settings::default());
    let trigger = Named::kafka("a", "g", &[("credentialsRef", "kafka")]);
    scaler.verdict(trigger.reference()).await.unwrap();
    vault.put("a", "kafka", "new");
    sleep(seconds(5.1)).await;
    assert_eq!(source.sessions(), [Some("old".to_owned()), Some("new".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn s03_a_rejected_credential_waits_30_s_but_a_new_one_is_tried_within_5() {
    let (source, vault) = (Source::new(), Arc::new(Vault::default()));
    vault.put("a", "kafka", "old");
    source.say("g", Says::Rejected);
    let scaler = source.scaler_with(vault.clone(), Settings::default());
    let trigger = Named::kafka("a", "g", &[("credentialsRef", "kafka")]);
    assert!(scaler.verdict(trigger.reference()).await.unwrap_err().to_string().contains("credentials rejected"));
    sleep(seconds(29.0)).await;
    assert_eq!(source.batches().len(), 1, "no second try");
    vault.put("a", "kafka", "new");
    source.say("g", Says::Lag(1));
    sleep(seconds(5.1)).await;
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(1.0));
}

#[tokio::test(start_paused = true)]
async fn s06_a_deleted_credential_is_not_used_any_more() {
    let (source, vault) = (Source::new(), Arc::new(Vault::default()));
    vault.put("a", "kafka", "old");
    source.say("g", Says::Lag(1));
    let scaler = source.scaler_with(vault.clone(), Settings::default());
    let trigger = Named::kafka("a", "g", &[("credentialsRef", "kafka"), ("holdSeconds", "20")]);
    scaler.verdict(trigger.reference()).await.unwrap();
    vault.clear();
    let before = source.batches().len();
    sleep(seconds(10.0)).await;
    assert_eq!(source.batches().len(), before, "no poll without the credential");
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), ACTIVE(1.0), "held");
    sleep(seconds(15.0)).await;
    let refusal = scaler.verdict(trigger.reference()).await.unwrap_err();
    assert!(refusal.to_string().contains("credential kafka not found"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn s56_over_a_limit_the_new_trigger_is_refused_and_the_old_one_lives() {
    let source = Source::new();
    let mut settings = Settings::default();
    settings.tenant.triggers = 1;
    let scaler = source.scaler_with(Arc::new(crate::credentials::NoCredentials), settings);
    let old = Named::kafka("a", "g", &[]);
    scaler.verdict(old.reference()).await.unwrap();
    assert!(matches!(scaler.verdict(Named::kafka("a", "h", &[]).reference()).await, Err(Refusal::Limit { .. })));
    assert_eq!(scaler.verdict(old.reference()).await.ok().map(said), INACTIVE);
    assert!(scaler.verdict(Named::kafka("b", "h", &[]).reference()).await.is_ok(), "another tenant has its own");
}

#[tokio::test(start_paused = true)]
async fn s37_after_a_wall_clock_jump_an_idle_trigger_is_measured_anew() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    scaler.verdict(trigger.reference()).await.unwrap();
    source.clock.set_wall(std::time::UNIX_EPOCH + seconds(1_700_000_000.0));
    assert!(scaler.verdict(trigger.reference()).await.is_err());
    sleep(seconds(6.0)).await;
    assert_eq!(scaler.verdict(trigger.reference()).await.ok().map(said), INACTIVE);
}

#[tokio::test(start_paused = true)]
async fn b11_the_spec_needs_no_source() {
    let source = Source::new();
    source.say("g", Says::Hangs);
    let scaler = source.scaler();
    let spec = scaler.spec(Named::kafka("a", "g", &[]).reference()).unwrap();
    assert_eq!((spec.metric_name.as_str(), spec.target), ("kafka-orders", 10.0));
    advance(seconds(1.0)).await;
    assert!(source.batches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_poller() {
    let source = Source::new();
    let (scaler, trigger) = (source.scaler(), Named::kafka("a", "g", &[]));
    scaler.verdict(trigger.reference()).await.unwrap();
    scaler.shut_down().await;
    let polls = source.batches().len();
    sleep(seconds(60.0)).await;
    assert_eq!(source.batches().len(), polls);
}
