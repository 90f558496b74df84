//! The services do what the other tests rely on.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use libtest_mimic::Trial;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tidegate_tests::harness::step;
use tidegate_tests::kafka_admin::{self, Operation, Resource};
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::services::{ExclusiveKafka, Listener, SASL_USER_WITHOUT_RIGHTS, SharedKafka};
use tidegate_tests::{Result, trials};

pub fn trials() -> Vec<Trial> {
    trials![
        the_oracle_sees_what_was_produced_and_committed,
        records_can_be_deleted_and_partitions_added,
        an_open_transaction_takes_offsets,
        a_group_and_a_leader_can_be_moved,
        a_killed_broker_comes_back_with_its_data,
        a_broker_can_be_added_and_is_removed_for_the_next_test,
        requests_are_counted_by_broker_and_key,
        acls_and_share_groups_can_be_made,
    ]
}

async fn the_oracle_sees_what_was_produced_and_committed(kafka: SharedKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic("oracle", 3, 3).await?;
    step("produce and commit");
    client.produce("oracle", 1, 10).await?;
    client.commit("oracle-group", "oracle", 1, 4).await?;
    assert_eq!(client.end_offsets("oracle").await?, [0, 10, 0]);
    assert_eq!(client.committed("oracle-group", "oracle", 1).await?, Some(4));
    assert_eq!(client.committed("oracle-group", "oracle", 0).await?, None);
    Ok(())
}

async fn records_can_be_deleted_and_partitions_added(kafka: SharedKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic("shrinks", 1, 3).await?;
    client.produce("shrinks", 0, 10).await?;
    client.delete_records("shrinks", 0, 7).await?;
    assert_eq!(client.watermarks("shrinks", 0).await?, (7, 10));
    client.create_partitions("shrinks", 4).await?;
    assert_eq!(client.end_offsets("shrinks").await?, [10, 0, 0, 0]);
    step("delete the topic and make it again");
    client.delete_topic("shrinks").await?;
    assert!(client.leaders("shrinks").await?.is_empty());
    client.create_topic("shrinks", 2, 3).await?;
    assert_eq!(client.end_offsets("shrinks").await?, [0, 0]);
    Ok(())
}

async fn an_open_transaction_takes_offsets(kafka: SharedKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic("in-transaction", 1, 3).await?;
    let transaction = client.open_transaction("in-transaction", 0, 5).await?;
    assert_eq!(client.end_offsets("in-transaction").await?, [5]);
    assert_eq!(client.last_stable_offset("in-transaction", 0).await?, 0);
    transaction.commit().await?;
    // The mark of the commit is a record too.
    assert_eq!(client.end_offsets("in-transaction").await?, [6]);
    Ok(())
}

async fn a_group_and_a_leader_can_be_moved(kafka: ExclusiveKafka) -> Result {
    let bootstrap = kafka.bootstrap();
    let client = KafkaClient::new(&bootstrap);
    client.create_topic_on("moves", &[&[1, 2], &[2, 3]]).await?;
    assert_eq!(client.leaders("moves").await?, [1, 2]);
    client.move_partition("moves", 0, &[3, 1]).await?;
    assert_eq!(client.leaders("moves").await?, [3, 2]);
    for replicas in [[1, 2, 3], [2, 3, 1], [3, 1, 2]] {
        step(format!("move the group to broker {}", replicas[0]));
        kafka_admin::move_coordinator(&bootstrap, "moving-group", &replicas).await?;
        assert_eq!(kafka_admin::coordinator(&bootstrap, "moving-group").await?, replicas[0]);
    }
    Ok(())
}

async fn a_killed_broker_comes_back_with_its_data(mut kafka: ExclusiveKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic_on("survives", &[&[1, 3], &[2, 1]]).await?;
    client.produce("survives", 0, 3).await?;
    client.produce("survives", 1, 5).await?;
    for signal in ["KILL", "TERM"] {
        step(format!("{signal} broker 2"));
        match signal {
            "KILL" => kafka.kill(2).await?,
            _ => kafka.stop(2).await?,
        }
        assert_eq!(kafka.running(), [1, 3]);
        client.produce("survives", 1, 1).await?;
        step("start it again");
        kafka.start_broker(2).await?;
    }
    assert_eq!(client.end_offsets("survives").await?, [3, 7]);
    Ok(())
}

async fn a_broker_can_be_added_and_is_removed_for_the_next_test(mut kafka: ExclusiveKafka) -> Result {
    let added = kafka.add_broker().await?;
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic_on("on-the-new-one", &[&[added, 1]]).await?;
    client.produce("on-the-new-one", 0, 2).await?;
    assert_eq!(client.leaders("on-the-new-one").await?, [added]);
    kafka.restore().await?;
    assert_eq!(kafka.running(), [1, 2, 3]);
    assert_eq!(client.end_offsets("on-the-new-one").await?, [2]);
    Ok(())
}

async fn requests_are_counted_by_broker_and_key(kafka: ExclusiveKafka) -> Result {
    let counted = kafka.bootstrap_of(Listener::Counted);
    KafkaClient::new(&kafka.bootstrap()).create_topic_on("counted", &[&[1], &[2]]).await?;
    kafka.wire().reset();
    KafkaClient::new(&counted).produce("counted", 1, 1).await?;
    let counts = kafka.wire().counts();
    let produced = |broker| counts.get(&(broker, ApiKey::Produce as i16)).copied().unwrap_or_default();
    assert_eq!((produced(1), produced(2), produced(3)), (0, 1, 0), "{counts:?}");
    assert!(kafka.wire().connections(2) >= 1);
    kafka.wire().reset();
    assert!(kafka.wire().counts().is_empty());
    Ok(())
}

/// PLAIN is the only mechanism that librdkafka has without OpenSSL; the others are tested through Tidegate's own client.
async fn acls_and_share_groups_can_be_made(kafka: SharedKafka) -> Result {
    let bootstrap = kafka.bootstrap();
    KafkaClient::new(&bootstrap).create_topic("guarded", 1, 3).await?;
    KafkaClient::new(&bootstrap).create_topic("unseen", 1, 3).await?;
    kafka_admin::allow(&bootstrap, SASL_USER_WITHOUT_RIGHTS, Operation::Describe, Resource::Topic("guarded")).await?;
    kafka_admin::join_share_group(&bootstrap, "harness-share-group", "guarded").await?;
    let minimal: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.sasl_bootstrap())
        .set("security.protocol", "SASL_PLAINTEXT")
        .set("sasl.mechanism", "PLAIN")
        .set("sasl.username", SASL_USER_WITHOUT_RIGHTS)
        .set("sasl.password", tidegate_tests::services::SASL_PASSWORD)
        .create()?;
    let topics = tokio::task::spawn_blocking(move || -> Result<Vec<String>> {
        let metadata = minimal.fetch_metadata(None, Duration::from_secs(10))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    });
    assert_eq!(topics.await??, ["guarded"]);
    Ok(())
}
