//! How much is asked of a real cluster, counted on the wire: it grows with brokers, not with triggers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use kafka_protocol::messages::ApiKey;
use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::services::{ExclusiveKafka, Listener};
use tidegate_tests::tidegate::{Keda, Tidegate, Trigger};
use tidegate_tests::{Result, kafka_admin, trials};

const BROKERS: [i32; 3] = [1, 2, 3];
const TOPICS: usize = 20;
const GROUPS: usize = 60;
const TOPICS_OF_A_GROUP: usize = 5;
const RECORDS: usize = 10;
const COMMITTED: i64 = 4;
/// Each topic has a partition on each broker.
const LAG: f64 = 3.0 * 6.0;
/// How many calls of a librdkafka client are made at once in the set-up.
const AT_ONCE: usize = 10;

/// How long is counted: five polls at the usual interval of 5 s.
const COUNTED: Duration = Duration::from_secs(26);
const LOOK: Duration = Duration::from_millis(20);
/// Requests further apart than this are of different polls.
const QUIET: Duration = Duration::from_secs(2);

pub fn trials() -> Vec<Trial> {
    trials![b33_three_hundred_triggers_cost_a_few_requests_a_poll]
}

fn topic(number: usize) -> String {
    format!("wired-{number}")
}

fn group(number: usize) -> String {
    format!("wires-{number}")
}

/// 20 topics with three partitions and 10 records in each; 60 groups that have read 4 of each in five topics.
async fn prepare(client: &KafkaClient) -> Result {
    let numbers: Vec<usize> = (0..TOPICS).collect();
    for some in numbers.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|&number| async move {
            let name = topic(number);
            client.create_topic_on(&name, &[&[1], &[2], &[3]]).await?;
            for partition in 0..3 {
                client.produce(&name, partition, RECORDS).await?;
            }
            Ok::<_, tidegate_tests::BoxError>(())
        }))
        .await?;
    }
    let numbers: Vec<usize> = (0..GROUPS).collect();
    for some in numbers.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|&number| async move {
            let names: Vec<String> = topics_of(number).map(topic).collect();
            let partitions = names.iter().flat_map(|name| (0..3).map(move |p| (name.as_str(), p, COMMITTED)));
            client.commit_all(&group(number), &partitions.collect::<Vec<_>>()).await
        }))
        .await?;
    }
    Ok(())
}

fn topics_of(group: usize) -> impl Iterator<Item = usize> {
    (0..TOPICS_OF_A_GROUP).map(move |number| (group + number * 3) % TOPICS)
}

async fn b33_three_hundred_triggers_cost_a_few_requests_a_poll(kafka: ExclusiveKafka) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    step("make topics and groups");
    prepare(&client).await?;
    let mut coordinators = HashMap::new();
    for number in 0..GROUPS {
        *coordinators.entry(kafka_admin::coordinator(&kafka.bootstrap(), &group(number)).await?).or_insert(0) += 1;
    }
    step(format!("groups by coordinator: {coordinators:?}"));
    let (counted, tidegate) = (kafka.bootstrap_of(Listener::Counted), Tidegate::start().await?);
    let channel = tidegate.channel().await?;
    let mut clients = Vec::new();
    for number in 0..GROUPS {
        for topic_number in topics_of(number) {
            let trigger = Trigger::kafka(&counted, &group(number), &topic(topic_number)).with("lagThreshold", "100");
            clients.push(Keda::over(channel.clone(), "wire", &format!("{number}-{topic_number}"), &trigger.0));
        }
    }
    assert_eq!(clients.len(), 300);
    step("ask for all");
    all_answer(&mut clients).await?;
    // By then all are due on one grid.
    tokio::time::sleep(Duration::from_secs(6)).await;
    step("count");
    let polls = count(&kafka, &mut clients).await?;
    println!("requests of each poll of 300 triggers: {polls:?}");
    check(&polls, &coordinators)?;
    for broker in BROKERS {
        assert_eq!(kafka.wire().open_connections(broker), 1, "connections to broker {broker}");
        assert_eq!(kafka.wire().connections(broker), 0, "no new connection to broker {broker}");
    }
    Ok(())
}

async fn all_answer(clients: &mut [Keda]) -> Result {
    for some in clients.chunks_mut(AT_ONCE) {
        for tick in try_join_all(some.iter_mut().map(Keda::tick)).await? {
            assert!(tick.active && (tick.value - LAG).abs() < 1e-9, "{tick:?}");
        }
    }
    Ok(())
}

/// Requests of one poll, by broker and API.
type Poll = HashMap<(i32, i16), usize>;

/// Watches the wire, and tells polls apart by the quiet between them, while KEDA goes on asking.
async fn count(kafka: &ExclusiveKafka, clients: &mut [Keda]) -> Result<Vec<Poll>> {
    let total = || kafka.wire().counts().values().sum::<usize>();
    let mut polls = Vec::new();
    kafka.wire().reset();
    let (until, mut last, mut changed) = (Instant::now() + COUNTED, 0, Instant::now());
    while Instant::now() < until {
        let now = total();
        if now != last {
            (last, changed) = (now, Instant::now());
        } else if now > 0 && changed.elapsed() > QUIET {
            polls.push(kafka.wire().counts());
            kafka.wire().reset();
            last = 0;
            all_answer(clients).await?;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(polls)
}

fn check(polls: &[Poll], coordinators: &HashMap<i32, usize>) -> Result {
    assert!((4..=6).contains(&polls.len()), "26 s have {} polls at 5 s", polls.len());
    let of = |poll: &Poll, broker: i32, api: ApiKey| poll.get(&(broker, api as i16)).copied().unwrap_or_default();
    let mut renewals = 0;
    for poll in polls {
        let ends = BROKERS.map(|broker| of(poll, broker, ApiKey::ListOffsets));
        match ends {
            [1, 1, 1] => {}
            // Twice a minute the logs' starts are asked for too.
            [2, 2, 2] => renewals += 1,
            _ => return Err(format!("ListOffsets by leader: {ends:?}").into()),
        }
        for broker in BROKERS {
            let wanted = usize::from(coordinators.contains_key(&broker));
            assert_eq!(of(poll, broker, ApiKey::OffsetFetch), wanted, "OffsetFetch to broker {broker}: {poll:?}");
        }
        let known = [ApiKey::ListOffsets, ApiKey::OffsetFetch, ApiKey::Metadata].map(|api| api as i16);
        assert!(poll.keys().all(|(_, api)| known.contains(api)), "nothing else is asked: {poll:?}");
        let metadata: usize = BROKERS.iter().map(|&broker| of(poll, broker, ApiKey::Metadata)).sum();
        assert_eq!(metadata, 1, "topics are read again once: {poll:?}");
    }
    if renewals <= 1 { Ok(()) } else { Err(format!("the logs' starts were asked for {renewals} times").into()) }
}
