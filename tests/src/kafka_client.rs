//! An independent Kafka client, librdkafka's: it makes the topics, records and commits of a test, and is the oracle that
//! Tidegate's own reading of offsets is compared with.
//!
//! Invariant: it answers what the cluster says now, from a client made for the call; nothing is cached between calls.

use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataPartition;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::{Result, kafka_admin};

const CALL_TIMEOUT: Duration = Duration::from_secs(15);
const SETTLE_DEADLINE: Duration = Duration::from_secs(30);
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// A client of one cluster, by its bootstrap servers without authentication.
#[derive(Clone, Debug)]
pub struct KafkaClient {
    bootstrap: String,
}

impl KafkaClient {
    /// A client of the cluster at `bootstrap`. Nothing is connected until a call.
    pub fn new(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned() }
    }

    /// Creates a topic with replicas where Kafka likes; returns when every partition has a leader.
    pub async fn create_topic(&self, name: &str, partitions: i32, replicas: i32) -> Result {
        self.create(&NewTopic::new(name, partitions, TopicReplication::Fixed(replicas))).await
    }

    /// Creates a topic with one partition per entry of `replicas`, led by the entry's first broker.
    pub async fn create_topic_on(&self, name: &str, replicas: &[&[i32]]) -> Result {
        self.create(&NewTopic::new(name, i32::try_from(replicas.len())?, TopicReplication::Variable(replicas))).await
    }

    async fn create(&self, topic: &NewTopic<'_>) -> Result {
        for result in self.admin()?.create_topics([topic], &options()).await? {
            result.map_err(|(name, code)| format!("topic {name} is not created: {code}"))?;
        }
        self.wait_for_partitions(topic.name, topic.num_partitions).await
    }

    /// Deletes a topic; returns when no broker lists it.
    pub async fn delete_topic(&self, name: &str) -> Result {
        for result in self.admin()?.delete_topics(&[name], &options()).await? {
            result.map_err(|(name, code)| format!("topic {name} is not deleted: {code}"))?;
        }
        self.wait_for_partitions(name, 0).await
    }

    /// Raises a topic's number of partitions to `total`.
    pub async fn create_partitions(&self, topic: &str, total: usize) -> Result {
        let new = NewPartitions::new(topic, total);
        for result in self.admin()?.create_partitions([&new], &options()).await? {
            result.map_err(|(name, code)| format!("topic {name} got no partitions: {code}"))?;
        }
        self.wait_for_partitions(topic, i32::try_from(total)?).await
    }

    /// Deletes a partition's records before `offset`, which becomes the log start.
    pub async fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result {
        let list = offsets(topic, partition, Offset::Offset(offset))?;
        let results = self.admin()?.delete_records(&list, &options()).await?;
        results.elements().iter().try_for_each(|element| Ok(element.error()?))
    }

    /// Deletes groups with all that they committed.
    pub async fn delete_groups(&self, groups: &[&str]) -> Result {
        for result in self.admin()?.delete_groups(groups, &options()).await? {
            result.map_err(|(name, code)| format!("group {name} is not deleted: {code}"))?;
        }
        Ok(())
    }

    /// Produces `count` records to a partition, acknowledged by all replicas in sync.
    pub async fn produce(&self, topic: &str, partition: i32, count: usize) -> Result {
        let producer: FutureProducer = self.config().set("acks", "all").create()?;
        send(&producer, topic, partition, count).await
    }

    /// Produces `count` records in a transaction and leaves it open.
    pub async fn open_transaction(&self, topic: &str, partition: i32, count: usize) -> Result<OpenTransaction> {
        let id = format!("{topic}-{partition}");
        let producer: FutureProducer = self.config().set("transactional.id", id).create()?;
        let producer = blocking(move || {
            producer.init_transactions(CALL_TIMEOUT)?;
            producer.begin_transaction()?;
            Ok(producer)
        })
        .await?;
        send(&producer, topic, partition, count).await?;
        Ok(OpenTransaction { producer })
    }

    /// Commits an offset for a group that has no members.
    pub async fn commit(&self, group: &str, topic: &str, partition: i32, offset: i64) -> Result {
        self.commit_all(group, &[(topic, partition, offset)]).await
    }

    /// Commits offsets of several partitions, `(topic, partition, offset)`, at once.
    pub async fn commit_all(&self, group: &str, committed: &[(&str, i32, i64)]) -> Result {
        let mut list = TopicPartitionList::new();
        for &(topic, partition, offset) in committed {
            list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        }
        let consumer: BaseConsumer =
            self.config().set("group.id", group).set("enable.auto.commit", "false").create()?;
        blocking(move || {
            consumer.assign(&list)?;
            // A group's coordinator may still load, and move: a client asks again, as Kafka's protocol has it.
            let until = Instant::now() + SETTLE_DEADLINE;
            loop {
                match consumer.commit(&list, CommitMode::Sync) {
                    Err(error) if moves(&error) && Instant::now() < until => thread::sleep(SETTLE_POLL),
                    committed => return Ok(committed?),
                }
            }
        })
        .await
    }

    /// What a group committed for a partition; `None` is nothing.
    pub async fn committed(&self, group: &str, topic: &str, partition: i32) -> Result<Option<i64>> {
        let list = offsets(topic, partition, Offset::Invalid)?;
        let consumer: BaseConsumer = self.config().set("group.id", group).create()?;
        blocking(move || {
            let answer = consumer.committed_offsets(list, CALL_TIMEOUT)?;
            let element = answer.elements().into_iter().next().ok_or("no partition in the answer")?;
            element.error()?;
            match element.offset() {
                Offset::Offset(offset) => Ok(Some(offset)),
                Offset::Invalid => Ok(None),
                other => Err(format!("a committed offset is {other:?}").into()),
            }
        })
        .await
    }

    /// A partition's log start and its high watermark.
    pub async fn watermarks(&self, topic: &str, partition: i32) -> Result<(i64, i64)> {
        self.log_range(topic, partition, "read_uncommitted").await
    }

    /// A partition's last stable offset: where its first open transaction begins, else its high watermark.
    pub async fn last_stable_offset(&self, topic: &str, partition: i32) -> Result<i64> {
        Ok(self.log_range(topic, partition, "read_committed").await?.1)
    }

    async fn log_range(&self, topic: &str, partition: i32, isolation_level: &str) -> Result<(i64, i64)> {
        let consumer: BaseConsumer = self.config().set("isolation.level", isolation_level).create()?;
        let topic = topic.to_owned();
        blocking(move || Ok(consumer.fetch_watermarks(&topic, partition, CALL_TIMEOUT)?)).await
    }

    /// The high watermarks of a topic's partitions, from partition 0 on.
    pub async fn end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        let leaders = self.leaders(topic).await?;
        let ends = (0..).zip(&leaders).map(|(partition, _)| self.watermarks(topic, partition));
        Ok(try_join_all(ends).await?.into_iter().map(|(_, end)| end).collect())
    }

    /// The leaders of a topic's partitions, from partition 0 on; -1 is no leader, and no entry is no topic.
    pub async fn leaders(&self, topic: &str) -> Result<Vec<i32>> {
        let consumer: BaseConsumer = self.config().create()?;
        let topic = topic.to_owned();
        blocking(move || {
            // All topics are asked for: a question about one topic creates it.
            let metadata = consumer.fetch_metadata(None, CALL_TIMEOUT)?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            Ok(found.map_or_else(Vec::new, |found| found.partitions().iter().map(MetadataPartition::leader).collect()))
        })
        .await
    }

    /// Moves a partition to these replicas and makes the first one its leader.
    pub async fn move_partition(&self, topic: &str, partition: i32, replicas: &[i32]) -> Result {
        kafka_admin::reassign(&self.bootstrap, topic, partition, replicas).await?;
        let index = usize::try_from(partition)?;
        self.wait_for_leaders(topic, |leaders| leaders.get(index) == replicas.first()).await
    }

    async fn wait_for_partitions(&self, topic: &str, count: i32) -> Result {
        let count = usize::try_from(count)?;
        self.wait_for_leaders(topic, |leaders| leaders.len() == count && leaders.iter().all(|&id| id >= 0)).await
    }

    /// Waits until a broker tells these leaders three times in a row, since each answer may come from another broker.
    async fn wait_for_leaders(&self, topic: &str, wanted: impl Fn(&[i32]) -> bool) -> Result {
        const IN_A_ROW: usize = 3;
        let until = Instant::now() + SETTLE_DEADLINE;
        let mut seen = 0;
        while seen < IN_A_ROW {
            let leaders = self.leaders(topic).await?;
            if wanted(&leaders) {
                seen += 1;
                continue;
            }
            seen = 0;
            if Instant::now() > until {
                return Err(format!("topic {topic} did not settle: its leaders are {leaders:?}").into());
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
        Ok(())
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(self.config().create()?)
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "200")
            // librdkafka's own complaints about brokers that a test stopped.
            .set("log_level", "0");
        config
    }
}

/// A transaction whose records no reader of committed records sees yet.
pub struct OpenTransaction {
    producer: FutureProducer,
}

impl OpenTransaction {
    /// Makes its records visible.
    pub async fn commit(self) -> Result {
        blocking(move || Ok(self.producer.commit_transaction(CALL_TIMEOUT)?)).await
    }

    /// Drops its records, which still take their offsets.
    pub async fn abort(self) -> Result {
        blocking(move || Ok(self.producer.abort_transaction(CALL_TIMEOUT)?)).await
    }
}

async fn send(producer: &FutureProducer, topic: &str, partition: i32, count: usize) -> Result {
    let records = (0..count).map(|number| {
        let record: FutureRecord<'_, str, str> = FutureRecord::to(topic).partition(partition).payload("record");
        async move {
            match producer.send(record, CALL_TIMEOUT).await {
                Ok(_) => Ok(()),
                Err((error, _)) => Err(format!("record {number} to {topic}-{partition}: {error}")),
            }
        }
    });
    try_join_all(records).await?;
    Ok(())
}

/// Whether a commit failed because the group's coordinator is on its way.
fn moves(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    let code = error.rdkafka_error_code();
    matches!(code, Some(CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator))
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(CALL_TIMEOUT)).request_timeout(Some(CALL_TIMEOUT))
}

fn offsets(topic: &str, partition: i32, offset: Offset) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, offset)?;
    Ok(list)
}

/// Runs a call of librdkafka that blocks.
async fn blocking<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(call).await?
}
