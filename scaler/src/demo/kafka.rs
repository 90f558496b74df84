//! The demo's Kafka: librdkafka's mock cluster, a producer, and the Worker's consumer.

use std::{collections::HashMap, time::Duration};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer, StreamConsumer},
    error::KafkaError,
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
    util::Timeout,
};
use tokio::time::timeout;

const BROKERS: i32 = 3;
const TOPIC: &str = "orders";
const GROUP: &str = "worker";
const PARTITIONS: i32 = 8;

/// The lag that one replica of the demo's Worker stands for.
pub const LAG_THRESHOLD: u32 = 100;

/// A cluster in this process, for as long as the value lives.
pub struct EmbeddedKafka {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl EmbeddedKafka {
    /// Three brokers and one topic.
    pub fn start() -> Result<Self, KafkaError> {
        let cluster = MockCluster::new(BROKERS)?;
        cluster.create_topic(TOPIC, PARTITIONS, 1)?;
        Ok(Self { cluster })
    }

    /// `host:port` of each broker.
    pub fn bootstrap(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// The metadata of the demo's trigger.
    pub fn trigger(&self) -> HashMap<String, String> {
        [
            ("triggerType", "kafka".to_owned()),
            ("bootstrapServers", self.bootstrap()),
            ("consumerGroup", GROUP.to_owned()),
            ("topic", TOPIC.to_owned()),
            ("lagThreshold", LAG_THRESHOLD.to_string()),
            ("offsetResetPolicy", "earliest".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// A producer.
    pub fn producer(&self) -> Result<FutureProducer, KafkaError> {
        self.config().set("linger.ms", "0").create()
    }

    /// What the Worker's replicas read with, and commit.
    pub fn consumer(&self) -> Result<WorkersConsumer, KafkaError> {
        let consumer: StreamConsumer =
            self.config().set("group.id", GROUP).set("enable.auto.commit", "false").create()?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(TOPIC, partition, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        Ok(WorkersConsumer(consumer))
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        config
    }
}

/// Sends one record to `partition` and waits for the acknowledgement.
pub async fn produce(producer: &FutureProducer, partition: usize) -> Result<(), KafkaError> {
    let partition = i32::try_from(partition).unwrap_or_default() % PARTITIONS;
    let record = FutureRecord::<(), str>::to(TOPIC).partition(partition).payload("an order");
    producer.send(record, Timeout::After(Duration::from_secs(5))).await.map(|_| ()).map_err(|(error, _)| error)
}

/// Reads as a whole Worker does: all its replicas are one consumer here.
pub struct WorkersConsumer(StreamConsumer);

impl WorkersConsumer {
    /// Consumes at most `records` records that are there now, and commits them; how many it was.
    pub async fn consume(&self, records: usize) -> Result<usize, KafkaError> {
        let mut consumed = 0;
        while consumed < records {
            let Ok(message) = timeout(Duration::from_millis(20), self.0.recv()).await else { break };
            self.0.store_offset_from_message(&message?)?;
            consumed += 1;
        }
        if consumed > 0 {
            self.0.commit_consumer_state(CommitMode::Async)?;
        }
        Ok(consumed)
    }
}
