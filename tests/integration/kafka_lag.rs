//! More of the reported cases and of KEDA's end-to-end rows: what becomes of a value over time, and what is asked of the
//! brokers for it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;
use libtest_mimic::Trial;
use tidegate_tests::services::{ExclusiveKafka, Listener, SharedKafka};
use tidegate_tests::tidegate::{Tidegate, Trigger};
use tidegate_tests::{Result, kafka_client::KafkaClient, trials};
use tonic::Code;

use super::kafka_cases::Setting;

/// A poll interval, a confirming sample and some time for two cores that do other things too.
const SOON: Duration = Duration::from_secs(10);

pub fn trials() -> Vec<Trial> {
    trials![
        keda_scale_to_zero_on_invalid_offset,
        keda_even_distribution_of_the_documentation,
        keda_persistent_lag_keeps_one_replica_while_records_come,
        b21_b24_what_cannot_be_meant_is_refused,
        b40_the_first_value_comes_at_once_and_only_offsets_are_asked_for,
        b43_one_busy_partition_of_many,
        s16_s17_commits_outside_the_log_with_scale_to_zero,
        s18_s19_a_topic_deleted_and_made_again_is_an_error_and_then_new,
        s20_partitions_added_count,
    ]
}

async fn keda_scale_to_zero_on_invalid_offset(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-invalid", 3).await?;
    setting.produce(1, 1).await?;
    let flag = |policy, value: &str| {
        let trigger = setting.capped().with("lagThreshold", "1").with("offsetResetPolicy", policy);
        trigger.with("scaleToZeroOnInvalidOffset", value)
    };
    for policy in ["latest", "earliest"] {
        setting.check(flag(policy, "true"), 0.0, false).await?;
    }
    let mut clients = Vec::new();
    for policy in ["latest", "earliest"] {
        let mut keda = setting.keda(flag(policy, "false")).await?;
        keda.answers(1.0, true).await?;
        clients.push(keda);
    }
    setting.commit(1, 1).await?;
    for keda in &mut clients {
        keda.answers_within(SOON, 0.0, false).await?;
    }
    Ok(())
}

/// Ten partitions and a threshold of 10: one replica for 1 to 10, two for 11 to 20, five for 21 to 50, ten for the rest.
async fn keda_even_distribution_of_the_documentation(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-even", 10).await?;
    setting.produce(0, 101).await?;
    for partition in 0..10 {
        setting.commit(partition, 0).await?;
    }
    for (lag, value) in
        [(1, 10.0), (10, 10.0), (11, 20.0), (20, 20.0), (21, 50.0), (50, 50.0), (51, 100.0), (101, 100.0)]
    {
        setting.commit(0, 101 - lag).await?;
        // A tenant of its own, so that no row starts with what another measured.
        let even = setting.capped().with("ensureEvenDistributionOfPartitions", "true");
        let mut keda = setting.tidegate.keda(&format!("lag-{lag}"), "worker", &even).await?;
        keda.answers(value, true).await.map_err(|error| format!("lag {lag}: {error}"))?;
    }
    Ok(())
}

/// KEDA's row: a stuck group stays at one replica, however many records come.
async fn keda_persistent_lag_keeps_one_replica_while_records_come(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-stuck", 3).await?;
    for partition in 0..3 {
        setting.commit(partition, 0).await?;
    }
    setting.produce(0, 5).await?;
    let trigger = setting.capped().with("lagThreshold", "1").with("pollInterval", "500ms");
    let trigger = trigger.with("excludePersistentLag", "true").with("persistentLagSeconds", "3");
    let mut keda = setting.keda(trigger).await?;
    keda.answers(3.0, true).await?;
    let until = Instant::now() + Duration::from_secs(30);
    let mut excluded = 0;
    while excluded < 10 {
        assert!(Instant::now() < until, "the lag of the stuck partition is still in the value");
        setting.produce(0, 1).await?;
        let tick = keda.keda.tick().await?;
        assert!(tick.active, "records come and nobody consumes them: {tick:?}");
        excluded = if tick.value == 0.0 { excluded + 1 } else { 0 };
    }
    // Another partition's lag is not a persistent one.
    setting.produce(1, 2).await?;
    keda.until(SOON, |seen| seen.as_ref().is_ok_and(|tick| tick.shows(2.0, true))).await?;
    Ok(())
}

async fn b21_b24_what_cannot_be_meant_is_refused(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b24-refused", 1).await?;
    let no_topic = Trigger::kafka(&setting.kafka.bootstrap(), setting.name, "");
    for (key, trigger) in [
        ("limitToPartitionsWithLag", no_topic.with("limitToPartitionsWithLag", "true")),
        ("partitionLimitation", setting.trigger().with("partitionLimitation", "5-3")),
        ("partitionLimitation", setting.trigger().with("partitionLimitation", "a")),
        ("partitionLimitation", setting.trigger().with("partitionLimitation", "1-2-3")),
    ] {
        let status = setting.keda(trigger).await?.fails(Duration::ZERO).await?;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(&format!("{key}: ")), "{status}");
    }
    Ok(())
}

async fn b40_the_first_value_comes_at_once_and_only_offsets_are_asked_for(kafka: ExclusiveKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic("b40", 6, 3).await?;
    for partition in 0..6 {
        client.produce("b40", partition, 4).await?;
    }
    client.commit("b40", "b40", 0, 1).await?;
    let tidegate = Tidegate::start().await?;
    kafka.wire().reset();
    let trigger = Trigger::kafka(&kafka.bootstrap_of(Listener::Counted), "b40", "b40");
    let mut keda = tidegate.keda("tenant", "worker", &trigger).await?;
    let first = keda.keda.tick().await?;
    assert_eq!((first.value, first.active), (8.0, true)); // 3 records, and 5 keepers
    // Twice more, and a group that nobody ever saw, which might be a share group.
    let unknown = Trigger::kafka(&kafka.bootstrap_of(Listener::Counted), "b40-unknown", "b40");
    tidegate.keda("tenant", "other", &unknown).await?.answers(6.0, true).await?;
    let asked: BTreeSet<i16> = kafka.wire().counts().keys().map(|&(_, key)| key).collect();
    let offsets = [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::OffsetFetch,
        ApiKey::ListOffsets,
        ApiKey::ShareGroupDescribe,
    ];
    let allowed: BTreeSet<i16> = offsets.into_iter().map(|key| key as i16).collect();
    assert!(asked.is_subset(&allowed), "more than offsets is asked for: {asked:?}");
    Ok(())
}

async fn b43_one_busy_partition_of_many(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b43", 64).await?;
    setting.produce(17, 5000).await?;
    setting.commit(17, 0).await?;
    setting.check(setting.capped(), 640.0, true).await?;
    setting.check(setting.trigger(), 5000.0, true).await
}

/// The last commit before the log's start is known, so that the log came after it; one past the end tells nothing.
async fn s16_s17_commits_outside_the_log_with_scale_to_zero(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "s16-zero", 2).await?;
    setting.produce(0, 30).await?;
    setting.commit(0, 5).await?;
    setting.client.delete_records("s16-zero", 0, 10).await?;
    setting.produce(1, 3).await?;
    setting.commit(1, 50).await?;
    for policy in ["latest", "earliest"] {
        let trigger = setting.trigger().with("offsetResetPolicy", policy).with("scaleToZeroOnInvalidOffset", "true");
        setting.check(trigger.clone().with("partitionLimitation", "0"), 20.0, true).await?;
        setting.check(trigger.with("partitionLimitation", "1"), 0.0, false).await?;
    }
    Ok(())
}

async fn s18_s19_a_topic_deleted_and_made_again_is_an_error_and_then_new(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "s18", 2).await?;
    setting.produce(0, 9).await?;
    setting.commit(0, 2).await?;
    setting.commit(1, 0).await?;
    let trigger = setting.trigger().with("pollInterval", "500ms");
    let mut holding = setting.keda(trigger.clone()).await?;
    let mut failing = setting.keda(trigger.with("holdSeconds", "0")).await?;
    holding.answers(7.0, true).await?;
    failing.answers(7.0, true).await?;
    setting.client.delete_topic("s18").await?;
    // Not fresh any more after 15 s; until then it is the sample that answers.
    let status = failing.fails(Duration::from_secs(30)).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("topic s18 not found"), "{status}");
    let held = holding.keda.tick().await?;
    assert_eq!((held.value, held.active), (7.0, true));
    setting.client.create_topic("s18", 1, 3).await?;
    setting.produce(0, 4).await?;
    setting.commit(0, 1).await?;
    holding.answers_within(SOON, 3.0, true).await?;
    failing.answers_within(SOON, 3.0, true).await?;
    Ok(())
}

async fn s20_partitions_added_count(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "s20", 1).await?;
    setting.commit(0, 0).await?;
    let flag = setting.trigger().with("scaleToZeroOnInvalidOffset", "true").with("pollInterval", "500ms");
    let mut keda = setting.keda(flag).await?;
    keda.answers(0.0, false).await?;
    setting.client.create_partitions("s20", 3).await?;
    setting.produce(2, 6).await?;
    // Metadata is at most a minute old.
    keda.answers_within(Duration::from_secs(75), 6.0, true).await?;
    Ok(())
}
