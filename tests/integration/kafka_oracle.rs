//! Tidegate's own client against librdkafka's: a random state of the real cluster, read by both, partition by partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use libtest_mimic::Trial;
use tidegate_connectors::clock::SystemClock;
use tidegate_connectors::egress::Egress;
use tidegate_connectors::kafka::{CONNECTION_KEYS, IsolationLevel, KafkaSampler, PartitionOffsets, Query};
use tidegate_connectors::metadata::Metadata;
use tidegate_connectors::sampler::{Data, Environment, Limits, Query as AnyQuery, SampleError, Sampler as _};
use tidegate_connectors::tenant::TenantId;
use tidegate_tests::harness::step;
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::services::SharedKafka;
use tidegate_tests::{BoxError, Result, trials};
use tokio::time::sleep;

const TOPICS: usize = 12;
const GROUPS: usize = 10;
/// Clients of librdkafka at once; each has threads of its own.
const AT_ONCE: usize = 8;
const SETTLE_DEADLINE: Duration = Duration::from_secs(30);
const SETTLE_POLL: Duration = Duration::from_millis(50);

pub fn trials() -> Vec<Trial> {
    trials![every_partition_is_as_librdkafka_sees_it]
}

/// Steele, Lea and Flood's `SplitMix64`: one number is all of its state, and so all that a failure must print.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `end`, without `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A group, and the topics that its query names; none is all that the group has commits for.
struct Group {
    name: String,
    topics: Vec<String>,
}

async fn every_partition_is_as_librdkafka_sees_it(kafka: SharedKafka) -> Result {
    let seed = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() % (1 << 62))?;
    step(format!("the seed is {seed}"));
    let mut random = Random(seed);
    let client = KafkaClient::new(&kafka.bootstrap());
    let mut topics = make_topics(&client, &mut random).await?;
    let groups = make_groups(&client, &topics, &mut random).await?;
    let again = delete_some(&client, &mut topics, &mut random).await?;
    wait_until_uncommitted(&client, &groups, &again, topics[&again]).await?;

    step("read it through Tidegate's client");
    let metadata = Metadata::new([("bootstrapServers", kafka.bootstrap().as_str())]);
    let environment = Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() };
    let address = metadata.connection(CONNECTION_KEYS);
    let mut sampler = KafkaSampler::new(&TenantId::local("oracle"), &address, None, &environment)?;
    let read = sampler.sample(&groups.iter().map(query).collect::<Vec<_>>()).await;

    step("read it through librdkafka");
    let logs = logs(&client, &topics).await?;
    let mut compared = 0;
    for (group, sample) in groups.iter().zip(read) {
        let expected = expected(&client, group, &topics, &logs).await?;
        let sample = match sample {
            // All that it names is gone.
            Err(SampleError::NotFound(_)) if expected.is_empty() && !group.topics.is_empty() => continue,
            sample => sample.map_err(|error| format!("{}: {error}", group.name))?,
        };
        let Data::Kafka(kafka) = sample.data else { return Err("not a sample of Kafka".into()) };
        assert!(kafka.is_complete() || group.topics.iter().any(|topic| !topics.contains_key(topic)), "{}", group.name);
        assert_eq!(places(&kafka.partitions), expected.keys().cloned().collect(), "partitions of {}", group.name);
        for partition in &kafka.partitions {
            compare(&group.name, partition, expected[&place(partition)]);
            compared += 1;
        }
    }
    assert!(compared >= TOPICS, "only {compared} partitions were compared");
    step(format!("{compared} partitions are the same"));
    Ok(())
}

/// Topics of 1 to 6 partitions with up to 40 records in each; some logs are cut, some of those to nothing.
async fn make_topics(client: &KafkaClient, random: &mut Random) -> Result<BTreeMap<String, i32>> {
    let mut topics = BTreeMap::new();
    for number in 0..TOPICS {
        let name = format!("oracle-{number}");
        let partitions = i32::try_from(1 + random.below(6))?;
        client.create_topic(&name, partitions, 3).await?;
        for partition in 0..partitions {
            let records = random.below(41);
            client.produce(&name, partition, usize::try_from(records)?).await?;
            if records > 0 && random.one_in(3) {
                let start = if random.one_in(3) { records } else { random.below(records) };
                client.delete_records(&name, partition, i64::try_from(start)?).await?;
            }
        }
        topics.insert(name, partitions);
    }
    Ok(topics)
}

/// Groups that committed for none, some or all partitions of some topics: also before a log's start and past its end.
async fn make_groups(client: &KafkaClient, topics: &BTreeMap<String, i32>, random: &mut Random) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for number in 0..GROUPS {
        let name = format!("oracle-group-{number}");
        let mine: Vec<String> = topics.keys().filter(|_| random.one_in(2)).cloned().collect();
        let mut commits = Vec::new();
        for topic in &mine {
            for partition in 0..topics[topic] {
                if !random.one_in(3) {
                    commits.push((topic.as_str(), partition, i64::try_from(random.below(45))?));
                }
            }
        }
        if number > 0 && !commits.is_empty() {
            client.commit_all(&name, &commits).await?; // the first group never committed anything
        }
        let topics = if random.one_in(4) { Vec::new() } else { mine };
        groups.push(Group { name, topics });
    }
    Ok(groups)
}

/// One topic is deleted, and one made again with other partitions and no records; the name of that one.
async fn delete_some(client: &KafkaClient, topics: &mut BTreeMap<String, i32>, random: &mut Random) -> Result<String> {
    let names: Vec<String> = topics.keys().cloned().collect();
    let first = usize::try_from(random.below(u64::try_from(names.len())?))?;
    let (deleted, again) = (&names[first], &names[(first + 1) % names.len()]);
    step(format!("delete {deleted}, and {again} too, which is made again"));
    client.delete_topic(deleted).await?;
    topics.remove(deleted);
    client.delete_topic(again).await?;
    let partitions = i32::try_from(1 + random.below(6))?;
    client.create_topic(again, partitions, 3).await?;
    topics.insert(again.clone(), partitions);
    Ok(again.clone())
}

/// A coordinator drops the commits of a deleted topic a little later; both readers must see the same.
async fn wait_until_uncommitted(client: &KafkaClient, groups: &[Group], topic: &str, partitions: i32) -> Result {
    let until = Instant::now() + SETTLE_DEADLINE;
    loop {
        let mut asks = Vec::new();
        for group in groups {
            asks.extend((0..partitions).map(|partition| client.committed(&group.name, topic, partition)));
        }
        let commits: Vec<Option<i64>> = stream::iter(asks).buffer_unordered(AT_ONCE).try_collect().await?;
        if commits.iter().all(Option::is_none) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("{topic} was deleted, and still has commits").into());
        }
        sleep(SETTLE_POLL).await;
    }
}

fn query(group: &Group) -> Arc<AnyQuery> {
    let topics = group.topics.iter().map(|topic| topic.as_str().into()).collect();
    let isolation = IsolationLevel::ReadUncommitted;
    Arc::new(AnyQuery::Kafka(Query { group: group.name.as_str().into(), topics, isolation }))
}

type Place = (String, i32);

/// Log start and high watermark of every partition there is.
async fn logs(client: &KafkaClient, topics: &BTreeMap<String, i32>) -> Result<BTreeMap<Place, (i64, i64)>> {
    let mut asks = Vec::new();
    for (topic, &count) in topics {
        asks.extend((0..count).map(|partition| async move {
            let log = client.watermarks(topic, partition).await?;
            Ok::<_, BoxError>(((topic.clone(), partition), log))
        }));
    }
    stream::iter(asks).buffer_unordered(AT_ONCE).try_collect().await
}

/// What a sample must hold: for each partition the commit, the log's start and its end.
async fn expected(
    client: &KafkaClient,
    group: &Group,
    topics: &BTreeMap<String, i32>,
    logs: &BTreeMap<Place, (i64, i64)>,
) -> Result<BTreeMap<Place, (Option<i64>, i64, i64)>> {
    let named = |topic: &str| group.topics.is_empty() || group.topics.iter().any(|name| name == topic);
    let mut asks = Vec::new();
    for (topic, partition) in logs.keys().filter(|(topic, _)| named(topic)) {
        asks.push(async move {
            let committed = client.committed(&group.name, topic, *partition).await?;
            Ok::<_, BoxError>(((topic.clone(), *partition), committed))
        });
    }
    let committed: BTreeMap<Place, Option<i64>> = stream::iter(asks).buffer_unordered(AT_ONCE).try_collect().await?;
    let used: BTreeSet<&String> = topics
        .keys()
        .filter(|topic| {
            !group.topics.is_empty() || committed.iter().any(|((name, _), commit)| name == *topic && commit.is_some())
        })
        .collect();
    let all = committed.iter().filter(|((topic, _), _)| used.contains(topic));
    Ok(all.map(|(place, &committed)| (place.clone(), (committed, logs[place].0, logs[place].1))).collect())
}

fn place(partition: &PartitionOffsets) -> Place {
    (partition.topic.to_string(), partition.partition)
}

fn places(partitions: &[PartitionOffsets]) -> BTreeSet<Place> {
    partitions.iter().map(place).collect()
}

/// The log's start is read only where it changes the lag: where the end is not the commit, or 0 if there is none.
fn compare(group: &str, seen: &PartitionOffsets, (committed, log_start, log_end): (Option<i64>, i64, i64)) {
    let what = format!("{group} on {}-{}", seen.topic, seen.partition);
    assert_eq!((seen.committed, seen.log_end), (committed, log_end), "commit and log end of {what}");
    if log_end != committed.unwrap_or(0) {
        assert_eq!(seen.log_start, log_start, "log start of {what}");
    }
}
