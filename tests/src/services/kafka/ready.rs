//! When a cluster can be used: asked of every broker through librdkafka, never guessed from time passed.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;

use crate::Result;

const READY_DEADLINE: Duration = Duration::from_secs(60);
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const ASK_PAUSE: Duration = Duration::from_millis(50);

/// Waits until each of the brokers at `addresses` lists exactly the brokers `ids`, with every partition led and in sync.
pub(super) async fn wait(addresses: Vec<String>, ids: Vec<i32>) -> Result {
    let answers = addresses.into_iter().map(|address| {
        let ids = ids.clone();
        tokio::task::spawn_blocking(move || wait_for_one(&address, &ids))
    });
    for answer in futures_util::future::join_all(answers).await {
        answer??;
    }
    Ok(())
}

fn wait_for_one(address: &str, ids: &[i32]) -> Result {
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("reconnect.backoff.ms", "20")
        .set("reconnect.backoff.max.ms", "100")
        .set("log_level", "0")
        .create()?;
    let until = Instant::now() + READY_DEADLINE;
    loop {
        let missing = match client.fetch_metadata(None, ASK_TIMEOUT) {
            Ok(metadata) => what_is_missing(&metadata, ids),
            Err(error) => Some(error.to_string()),
        };
        let Some(missing) = missing else { return Ok(()) };
        if Instant::now() > until {
            return Err(format!("{address}: {missing}").into());
        }
        std::thread::sleep(ASK_PAUSE);
    }
}

fn what_is_missing(metadata: &Metadata, ids: &[i32]) -> Option<String> {
    let mut listed: Vec<i32> = metadata.brokers().iter().map(rdkafka::metadata::MetadataBroker::id).collect();
    listed.sort_unstable();
    if listed != ids {
        return Some(format!("it lists brokers {listed:?} instead of {ids:?}"));
    }
    for topic in metadata.topics() {
        for partition in topic.partitions() {
            let alive = partition.replicas().iter().filter(|id| ids.contains(id)).count();
            if partition.leader() < 0 || partition.isr().len() < alive {
                return Some(format!("{}-{} is not in sync", topic.name(), partition.id()));
            }
        }
    }
    None
}
