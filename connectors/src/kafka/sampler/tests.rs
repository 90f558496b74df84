//! The sampler against a scripted cluster: what it asks, what it makes of the answers, what it survives.

mod allowed_hosts;
mod batching;
mod hostile;
mod login;
mod moves;
mod partial;
#[path = "../../../../tests/src/scripted_kafka.rs"]
mod scripted_kafka;
mod versions;

use std::{sync::Arc, time::Duration};

use kafka_protocol::messages::ApiKey;

use self::scripted_kafka::{Act, Reply, ScriptedKafka};
use super::KafkaSampler;
use crate::{
    clock::SystemClock,
    egress::Egress,
    kafka::{
        IsolationLevel, PartitionOffsets, Query,
        settings::{Sasl, Settings},
    },
    sampler::{Data, Environment, Limits, Query as AnyQuery, Sample, SampleError, Sampler, Subject},
    tenant::TenantId,
};

fn settings(cluster: &ScriptedKafka) -> Settings {
    Settings { bootstrap: cluster.bootstrap(), tls: None, sasl: Sasl::None }
}

fn environment(limits: Limits) -> Environment {
    Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits }
}

fn with(settings: Settings, limits: Limits) -> KafkaSampler {
    KafkaSampler::with_settings(&TenantId::local("tenant-a"), settings, &environment(limits)).expect("it is valid")
}

fn sampler(cluster: &ScriptedKafka) -> KafkaSampler {
    with(settings(cluster), Limits::default())
}

/// A sampler that does not wait long for an answer that never comes.
fn impatient(cluster: &ScriptedKafka) -> KafkaSampler {
    with(settings(cluster), Limits { request: Duration::from_millis(300), ..Limits::default() })
}

fn query(group: &str, topics: &[&str]) -> Query {
    let topics = topics.iter().map(|&topic| topic.into()).collect();
    Query { group: group.into(), topics, isolation: IsolationLevel::ReadUncommitted }
}

type Outcome = Result<Sample, SampleError>;

async fn sample(sampler: &mut KafkaSampler, queries: Vec<Query>) -> Vec<Outcome> {
    let queries: Vec<_> = queries.into_iter().map(|query| Arc::new(AnyQuery::Kafka(query))).collect();
    let outcomes = sampler.sample(&queries).await;
    assert_eq!(outcomes.len(), queries.len());
    outcomes
}

async fn one(sampler: &mut KafkaSampler, query: Query) -> Outcome {
    sample(sampler, vec![query]).await.pop().expect("one query has one answer")
}

fn partitions(sample: &Sample) -> &[PartitionOffsets] {
    let Data::Kafka(offsets) = &sample.data else { panic!("Kafka's data") };
    &offsets.partitions
}

/// Topic, partition, committed offset and log end.
type Row<'a> = (&'a str, i32, Option<i64>, i64);

/// The partitions of a complete sample.
#[track_caller]
fn complete(outcome: &Outcome) -> Vec<Row<'_>> {
    let sample = outcome.as_ref().expect("it was measured");
    assert!(sample.missing.is_none(), "{:?}", sample.missing);
    seen(sample)
}

fn seen(sample: &Sample) -> Vec<Row<'_>> {
    partitions(sample).iter().map(|p| (&*p.topic, p.partition, p.committed, p.log_end)).collect()
}

/// The partitions of a partial sample, and the text of why others are missing.
#[track_caller]
fn incomplete(outcome: &Outcome) -> (Vec<Row<'_>>, String) {
    let sample = outcome.as_ref().expect("a part was measured");
    (seen(sample), sample.missing.as_ref().expect("a part is missing").to_string())
}

#[track_caller]
fn failure(outcome: Outcome) -> SampleError {
    outcome.expect_err("it cannot be measured")
}

/// Lets `time` pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

fn total(counts: &std::collections::BTreeMap<i32, usize>) -> usize {
    counts.values().sum()
}
