//! Reported cases of Kafka lag (`b..`), the end-to-end rows of KEDA's own tests (`keda_..`) and the offset rows of the
//! failure table (`s..`), on the real broker, through the gRPC API, by a client that calls as KEDA does.

use std::time::Duration;

use libtest_mimic::Trial;
use tidegate_tests::{
    Result, kafka_admin,
    kafka_client::KafkaClient,
    services::SharedKafka,
    tidegate::{Client, Tidegate, Trigger},
    trials,
};
use tonic::Code;

pub fn trials() -> Vec<Trial> {
    trials![
        b01_empty_partitions_without_commits_are_zero,
        b02_without_commits_latest_is_a_keeper_or_zero,
        b03_the_flag_holds_for_earliest_too_and_counts_what_comes_after,
        b07_partitions_without_records_are_no_lag,
        b18_a_missing_commit_is_not_offset_zero,
        b20_b43_the_cap_is_exact,
        b21_partitions_with_lag,
        b22_b23_even_distribution,
        b24_partition_limitation,
        b26_active_is_strictly_over_the_threshold,
        b35_a_topic_that_is_created_later,
        b37_commits_of_a_deleted_topic_are_ignored,
        b39_b40_many_partitions_some_empty,
        b41_share_groups_are_refused,
        b42_lag_grows_while_nobody_consumes,
        s16_s17_commits_outside_the_log,
        isolation_levels,
        keda_activation_and_cap,
        keda_topics_of_a_group,
        keda_exclude_persistent_lag,
        keda_limit_and_even_distribution,
    ]
}

/// A topic and a group of the test's own on the shared cluster, and a running Tidegate.
pub(super) struct Setting {
    pub(super) kafka: SharedKafka,
    pub(super) client: KafkaClient,
    pub(super) tidegate: Tidegate,
    pub(super) name: &'static str,
}

impl Setting {
    pub(super) async fn new(kafka: SharedKafka, name: &'static str, partitions: i32) -> Result<Self> {
        let client = KafkaClient::new(&kafka.bootstrap());
        client.create_topic(name, partitions, 3).await?;
        Ok(Self { client, tidegate: Tidegate::start().await?, kafka, name })
    }

    /// A trigger on the topic and the group of the test's name, without the partition cap.
    pub(super) fn trigger(&self) -> Trigger {
        self.capped().with("allowIdleConsumers", "true")
    }

    pub(super) fn capped(&self) -> Trigger {
        Trigger::kafka(&self.kafka.bootstrap(), self.name, self.name)
    }

    pub(super) async fn keda(&self, trigger: Trigger) -> Result<Client> {
        self.tidegate.keda("tenant", "worker", &trigger).await
    }

    pub(super) async fn check(&self, trigger: Trigger, value: f64, active: bool) -> Result {
        self.keda(trigger).await?.answers(value, active).await.map(drop)
    }

    pub(super) async fn produce(&self, partition: i32, count: usize) -> Result {
        self.client.produce(self.name, partition, count).await
    }

    pub(super) async fn commit(&self, partition: i32, offset: i64) -> Result {
        self.client.commit(self.name, self.name, partition, offset).await
    }
}

async fn b01_empty_partitions_without_commits_are_zero(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b01", 2).await?;
    setting.check(setting.trigger(), 0.0, false).await
}

async fn b02_without_commits_latest_is_a_keeper_or_zero(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b02", 4).await?;
    for partition in 0..3 {
        setting.produce(partition, 100).await?;
    }
    let flag = |value| setting.trigger().with("scaleToZeroOnInvalidOffset", value);
    setting.check(flag("true"), 0.0, false).await?;
    // A keeper for each partition that has records; the fourth has none.
    setting.check(flag("false"), 3.0, true).await
}

async fn b03_the_flag_holds_for_earliest_too_and_counts_what_comes_after(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b03", 1).await?;
    setting.produce(0, 50).await?;
    let trigger = setting.trigger().with("offsetResetPolicy", "earliest").with("scaleToZeroOnInvalidOffset", "true");
    let mut keda = setting.keda(trigger).await?;
    keda.answers(0.0, false).await?;
    setting.produce(0, 5).await?;
    keda.answers_within(Duration::from_secs(8), 5.0, true).await?;
    Ok(())
}

async fn b07_partitions_without_records_are_no_lag(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b07", 2).await?;
    setting.produce(0, 10).await?;
    setting.commit(0, 10).await?;
    setting.produce(1, 500).await?;
    setting.client.delete_records("b07", 1, 500).await?;
    setting.check(setting.trigger().with("excludePersistentLag", "true"), 0.0, false).await
}

async fn b18_a_missing_commit_is_not_offset_zero(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b18", 1).await?;
    setting.produce(0, 1234).await?;
    setting.check(setting.trigger(), 1.0, true).await?;
    setting.check(setting.trigger().with("offsetResetPolicy", "earliest"), 1234.0, true).await
}

async fn b20_b43_the_cap_is_exact(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b20", 3).await?;
    setting.produce(0, 1000).await?;
    for partition in 0..3 {
        setting.commit(partition, 0).await?;
    }
    setting.check(setting.capped(), 30.0, true).await?;
    setting.check(setting.trigger(), 1000.0, true).await?;
    // KEDA's integer division lets a lag of up to (partitions + 1) * threshold - 1 through.
    setting.commit(0, 965).await?;
    setting.check(setting.capped().with("activationLagThreshold", "1"), 30.0, true).await
}

async fn b21_partitions_with_lag(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b21", 10).await?;
    for partition in 0..10 {
        setting.produce(partition, 500).await?;
        setting.commit(partition, if partition < 2 { 0 } else { 500 }).await?;
    }
    let limited = setting.capped().with("limitToPartitionsWithLag", "true");
    setting.check(limited.clone(), 20.0, true).await?;
    let status = setting.keda(limited.with("allowIdleConsumers", "true")).await?.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    Ok(())
}

async fn b22_b23_even_distribution(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b22", 10).await?;
    setting.produce(0, 35).await?;
    for partition in 0..10 {
        setting.commit(partition, 0).await?;
    }
    let even = || setting.capped().with("ensureEvenDistributionOfPartitions", "true");
    let mut keda = setting.keda(even()).await?;
    keda.answers(50.0, true).await?;
    setting.commit(0, 35).await?;
    keda.answers_within(Duration::from_secs(8), 0.0, false).await?;
    Ok(())
}

async fn b24_partition_limitation(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b24", 6).await?;
    for partition in 0..6 {
        setting.produce(partition, 1 << partition).await?;
        setting.commit(partition, 0).await?;
    }
    let limited = |list| setting.trigger().with("partitionLimitation", list);
    setting.check(limited(" 1, 3 - 5 "), 58.0, true).await?; // 2 + 8 + 16 + 32
    let status = setting.keda(limited("1,7-9")).await?.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("7-9"), "{status}");
    Ok(())
}

async fn b26_active_is_strictly_over_the_threshold(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b26", 1).await?;
    setting.produce(0, 6).await?;
    for (committed, activation, active) in [(5, "0", true), (1, "5", false), (0, "5", true)] {
        setting.commit(0, committed).await?;
        let trigger = setting.trigger().with("activationLagThreshold", activation);
        let lag = f64::from(6 - i32::try_from(committed)?);
        // Each row has a name of its own, so that it starts cold.
        let mut keda = setting.tidegate.keda("tenant", &format!("worker-{committed}"), &trigger).await?;
        keda.answers_within(Duration::from_secs(8), lag, active).await?;
    }
    Ok(())
}

async fn b35_a_topic_that_is_created_later(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b35", 1).await?;
    let later = Trigger::kafka(&setting.kafka.bootstrap(), "b35", "b35-later").with("allowIdleConsumers", "true");
    let mut keda = setting.keda(later).await?;
    let status = keda.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("topic b35-later not found"), "{status}");
    setting.client.create_topic("b35-later", 2, 3).await?;
    setting.client.produce("b35-later", 1, 7).await?;
    setting.client.commit("b35", "b35-later", 1, 3).await?;
    keda.answers_within(Duration::from_secs(12), 4.0, true).await?;
    Ok(())
}

async fn b37_commits_of_a_deleted_topic_are_ignored(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b37", 1).await?;
    setting.client.create_topic("b37-old", 1, 3).await?;
    setting.client.produce("b37-old", 0, 20).await?;
    setting.client.commit("b37", "b37-old", 0, 1).await?;
    setting.produce(0, 9).await?;
    setting.commit(0, 4).await?;
    setting.client.delete_topic("b37-old").await?;
    let trigger = Trigger::kafka(&setting.kafka.bootstrap(), "b37", "").with("allowIdleConsumers", "true");
    setting.check(trigger, 5.0, true).await
}

async fn b39_b40_many_partitions_some_empty(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b39", 100).await?;
    for partition in (0..100).step_by(10) {
        setting.produce(partition, 3).await?;
        setting.commit(partition, 3).await?;
    }
    let mut keda = setting.keda(setting.trigger().with("offsetResetPolicy", "earliest")).await?;
    let first = keda.keda.tick().await?; // the first answer is already right: no internal topic is read
    assert_eq!((first.value, first.active), (0.0, false));
    Ok(())
}

async fn b41_share_groups_are_refused(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b41", 1).await?;
    setting.produce(0, 5).await?;
    kafka_admin::join_share_group(&setting.kafka.bootstrap(), "b41-share", "b41").await?;
    let trigger = Trigger::kafka(&setting.kafka.bootstrap(), "b41-share", "b41");
    let status = setting.keda(trigger).await?.fails(Duration::ZERO).await?;
    assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
    assert!(status.message().contains("b41-share is a share group"), "{status}");
    Ok(())
}

async fn b42_lag_grows_while_nobody_consumes(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "b42", 1).await?;
    setting.commit(0, 0).await?;
    let mut keda = setting.keda(setting.trigger()).await?;
    for produced in 1..4_u8 {
        setting.produce(0, 10).await?;
        keda.answers_within(Duration::from_secs(8), f64::from(produced) * 10.0, true).await?;
    }
    Ok(())
}

async fn s16_s17_commits_outside_the_log(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "s16", 2).await?;
    setting.produce(0, 30).await?;
    setting.commit(0, 5).await?;
    setting.client.delete_records("s16", 0, 10).await?; // retention passed the commit
    setting.produce(1, 3).await?;
    setting.commit(1, 50).await?; // past the end, as after an unclean election
    setting.check(setting.trigger().with("offsetResetPolicy", "earliest"), 23.0, true).await?;
    setting.check(setting.trigger(), 2.0, true).await
}

async fn isolation_levels(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "isolation", 1).await?;
    setting.commit(0, 0).await?;
    let transaction = setting.client.open_transaction("isolation", 0, 5).await?;
    setting.check(setting.trigger(), 5.0, true).await?;
    let mut keda = setting.keda(setting.trigger().with("isolationLevel", "read_committed")).await?;
    keda.answers(0.0, false).await?;
    transaction.commit().await?;
    keda.answers_within(Duration::from_secs(8), 6.0, true).await?; // the mark of the commit is a record too
    Ok(())
}

async fn keda_activation_and_cap(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-activation", 3).await?;
    for partition in 0..3 {
        setting.commit(partition, 0).await?;
    }
    for policy in ["latest", "earliest"] {
        let trigger = setting.capped().with("lagThreshold", "1").with("activationLagThreshold", "1");
        let trigger = trigger.with("offsetResetPolicy", policy);
        let mut keda = setting.keda(trigger).await?;
        let base = setting.client.end_offsets("keda-activation").await?;
        let produced: i64 = base.iter().sum();
        for (partition, end) in (0..).zip(base) {
            setting.commit(partition, end).await?;
        }
        let within = Duration::from_secs(8);
        keda.answers_within(within, 0.0, false).await?;
        setting.produce(0, 1).await?;
        keda.answers_within(within, 1.0, false).await?;
        setting.produce(1, 1).await?;
        keda.answers_within(within, 2.0, true).await?;
        setting.produce(2, 5).await?;
        keda.answers_within(within, 3.0, true).await?;
        assert_eq!(setting.client.end_offsets("keda-activation").await?.iter().sum::<i64>(), produced + 7);
    }
    Ok(())
}

async fn keda_topics_of_a_group(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-topics", 3).await?;
    setting.client.create_topic("keda-topics-2", 3, 3).await?;
    for topic in ["keda-topics", "keda-topics-2"] {
        setting.client.commit("keda-topics", topic, 0, 0).await?;
        setting.client.produce(topic, 0, 1).await?;
    }
    let trigger = Trigger::kafka(&setting.kafka.bootstrap(), "keda-topics", "").with("lagThreshold", "1");
    let mut keda = setting.keda(trigger).await?;
    assert_eq!(keda.answers(2.0, true).await?.metric, "kafka-keda-topics-topics");
    // A list of topics, as KEDA's apache-kafka takes it.
    let list = Trigger::kafka(&setting.kafka.bootstrap(), "keda-topics", "keda-topics, keda-topics-2");
    setting.check(list.with("triggerType", "apache-kafka").with("lagThreshold", "1"), 2.0, true).await?;
    // A group without commits and no topic: nothing, where KEDA takes every topic of the cluster.
    let nothing = Trigger::kafka(&setting.kafka.bootstrap(), "keda-topics-nobody", "");
    setting.check(nothing, 0.0, false).await
}

async fn keda_exclude_persistent_lag(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-persistent", 1).await?;
    setting.commit(0, 0).await?;
    setting.produce(0, 5).await?;
    let trigger = setting.trigger().with("excludePersistentLag", "true").with("persistentLagSeconds", "6");
    let mut keda = setting.keda(trigger).await?;
    keda.answers(5.0, true).await?;
    keda.answers_within(Duration::from_secs(20), 0.0, false).await?;
    setting.produce(0, 1).await?;
    let within = Duration::from_secs(8);
    keda.until(within, |seen| seen.as_ref().is_ok_and(|tick| tick.active)).await?; // the next record wakes it
    setting.commit(0, 2).await?;
    keda.answers_within(within, 4.0, true).await?; // it moves again: all of it counts
    Ok(())
}

async fn keda_limit_and_even_distribution(kafka: SharedKafka) -> Result {
    let setting = Setting::new(kafka, "keda-limit", 10).await?;
    for partition in 0..10 {
        setting.commit(partition, 0).await?;
    }
    let limit = setting.capped().with("lagThreshold", "1").with("limitToPartitionsWithLag", "true");
    let even = setting.capped().with("lagThreshold", "1").with("ensureEvenDistributionOfPartitions", "true");
    let (mut limit, mut even) = (setting.keda(limit).await?, setting.keda(even).await?);
    let within = Duration::from_secs(8);
    setting.produce(0, 5).await?;
    limit.answers_within(within, 1.0, true).await?;
    even.answers_within(within, 5.0, true).await?;
    setting.produce(1, 3).await?;
    limit.answers_within(within, 2.0, true).await?;
    even.answers_within(within, 10.0, true).await?;
    Ok(())
}
