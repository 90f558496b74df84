//! What wakes a Worker and what does not: records, and brokers that die, hang and come back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::recorder::Recorder;
use tidegate_tests::services::{ExclusiveKafka, Listener, SharedKafka};
use tidegate_tests::tidegate::{Client, Tidegate, Trigger};
use tidegate_tests::{Result, trials};
use tokio::time::timeout;
use tonic::Code;

const SOON: Duration = Duration::from_secs(5);
const BROKERS: [i32; 3] = [1, 2, 3];

pub fn trials() -> Vec<Trial> {
    trials![
        a_record_wakes_within_a_second_20_times_out_of_20,
        a_leader_is_killed_while_the_worker_is_busy,
        all_brokers_are_killed_while_the_worker_sleeps,
        a_broker_hangs_and_other_tenants_do_not,
        b32_an_outage_is_no_connection_storm,
    ]
}

fn trigger(bootstrap: &str, group: &str, topic: &str) -> Trigger {
    Trigger::kafka(bootstrap, group, topic).with("lagThreshold", "100").with("offsetResetPolicy", "earliest")
}

fn every_second(bootstrap: &str, group: &str, topic: &str) -> Trigger {
    trigger(bootstrap, group, topic).with("pollInterval", "1s")
}

/// Each Worker sleeps while the others are woken; the usual poll interval.
async fn a_record_wakes_within_a_second_20_times_out_of_20(kafka: SharedKafka) -> Result {
    const WORKERS: usize = 20;
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    let mut sleeping = Vec::new();
    for number in 0..WORKERS {
        let name = format!("sleeps-{number}");
        client.create_topic_on(&name, &[&[BROKERS[number % 3]], &[BROKERS[(number + 1) % 3]]]).await?;
        client.commit_all(&name, &[(&name, 0, 0), (&name, 1, 0)]).await?;
        let mut keda = tidegate.keda("waking", &name, &trigger(&bootstrap, &name, &name)).await?;
        keda.answers(0.0, false).await?;
        let pushes = keda.keda.activations().await?;
        sleeping.push((name, keda, pushes));
    }
    let mut times = Vec::new();
    for (number, (name, mut keda, mut pushes)) in sleeping.into_iter().enumerate() {
        step(format!("wake {name}"));
        keda.answers(0.0, false).await?;
        let early = timeout(Duration::from_millis(1), pushes.message()).await;
        assert!(early.is_err(), "nothing woke {name}, but {early:?}");
        let woken = async {
            let pushed = timeout(SOON, pushes.message()).await??.ok_or("the stream ended")?;
            assert!(pushed.result, "only true is pushed");
            Ok::<_, tidegate_tests::BoxError>(Instant::now())
        };
        let produced = async {
            client.produce(&name, i32::try_from(number % 2)?, 1).await?;
            Ok(Instant::now())
        };
        let (woken, produced) = tokio::try_join!(woken, produced)?;
        // The acknowledgement comes when the record can be read, so that a push may even be before it.
        times.push(woken.saturating_duration_since(produced));
        keda.answers(1.0, true).await?;
    }
    times.sort_unstable();
    let ms = |time: &Duration| time.as_millis();
    let (least, most) = (ms(&times[0]), ms(&times[WORKERS - 1]));
    println!("from the acknowledged record to true: {least} / {} / {most} ms", ms(&times[WORKERS / 2]));
    let late: Vec<_> = times.iter().filter(|time| **time > Duration::from_secs(1)).collect();
    if late.is_empty() { Ok(()) } else { Err(format!("later than a second: {late:?}").into()) }
}

/// A topic that only broker 2 has, and a group that has consumed a part of it.
async fn only_on_broker_2(client: &KafkaClient, topic: &str, records: usize, committed: i64) -> Result {
    client.create_topic_on(topic, &[&[2]]).await?;
    client.produce(topic, 0, records).await?;
    client.commit(topic, topic, 0, committed).await
}

async fn a_leader_is_killed_while_the_worker_is_busy(mut kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    only_on_broker_2(&client, "killed", 10, 3).await?;
    let long = every_second(&bootstrap, "killed", "killed");
    let long = Recorder::start(tidegate.keda("killed", "long", &long).await?);
    let short = every_second(&bootstrap, "killed", "killed").with("holdSeconds", "4");
    let short = Recorder::start(tidegate.keda("killed", "short", &short).await?);
    long.value(SOON, 7.0).await?;
    short.value(SOON, 7.0).await?;
    step("SIGKILL");
    kafka.kill(2).await?;
    let killed = Instant::now();
    short.until(Duration::from_secs(20), |answer| answer.tick.is_err()).await?;
    println!("an error {:.1} s after SIGKILL, at holdSeconds 4", killed.elapsed().as_secs_f64());
    short.held_or_erred(&[7.0])?;
    let first = short.answers().into_iter().find(|answer| answer.tick.is_err()).ok_or("there was one")?;
    assert!(first.asked + Duration::from_millis(500) > killed + Duration::from_secs(3), "it holds: {first:?}");
    assert_eq!(first.tick.as_ref().map_err(tonic::Status::code), Err(Code::Unavailable));
    step("start it again");
    kafka.start_broker(2).await?;
    let took = short.value(SOON, 7.0).await?;
    client.produce("killed", 0, 2).await?;
    let then = long.value(SOON, 9.0).await?;
    println!("right {:.2} s after the broker's return, a new record {:.2} s", took.as_secs_f64(), then.as_secs_f64());
    println!("{}; held briefly: {}", long.describe(), short.describe());
    long.held(&[7.0, 9.0])?;
    short.held_or_erred(&[7.0, 9.0])
}

async fn all_brokers_are_killed_while_the_worker_sleeps(mut kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic("asleep", 3, 3).await?;
    client.produce("asleep", 0, 5).await?;
    client.commit_all("asleep", &[("asleep", 0, 5), ("asleep", 1, 0), ("asleep", 2, 0)]).await?;
    let mut keda = tidegate.keda("asleep", "worker", &trigger(&bootstrap, "asleep", "asleep")).await?;
    keda.answers(0.0, false).await?;
    let mut pushes = keda.keda.activations().await?;
    let recorder = Recorder::start(keda);
    step("SIGKILL to all");
    for broker in BROKERS {
        kafka.kill(broker).await?;
    }
    recorder.until(Duration::from_secs(30), |answer| answer.tick.is_err()).await?;
    let mut never_seen = tidegate.keda("asleep", "new", &trigger(&bootstrap, "other", "asleep")).await?;
    let first = never_seen.keda.tick().await;
    assert!(first.is_err(), "what was never measured is an error: {first:?}");
    // Long enough for some attempts to fail; whatever is pushed meanwhile is a wrong wake.
    let woken = timeout(Duration::from_secs(10), pushes.message()).await;
    assert!(woken.is_err(), "an outage wakes nobody: {woken:?}");
    println!("{}", recorder.describe());
    recorder.slept_or_erred()?;
    step("start them again");
    kafka.restore().await?;
    let took = recorder.until(SOON, tidegate_tests::recorder::Answer::is_idle).await?;
    println!("idle again {:.2} s after the brokers' return", took.as_secs_f64());
    let woken = timeout(Duration::from_millis(1), pushes.message()).await;
    assert!(woken.is_err(), "their return wakes nobody: {woken:?}");
    client.produce("asleep", 1, 1).await?;
    assert!(timeout(SOON, pushes.message()).await??.is_some_and(|pushed| pushed.result));
    recorder.value(SOON, 1.0).await?;
    Ok(())
}

async fn a_broker_hangs_and_other_tenants_do_not(mut kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    only_on_broker_2(&client, "hangs", 10, 3).await?;
    client.create_topic_on("lives", &[&[1, 3], &[3, 1]]).await?;
    client.produce("lives", 1, 4).await?;
    client.commit_all("lives", &[("lives", 0, 0), ("lives", 1, 0)]).await?;
    let start = async |tenant: &str, trigger: Trigger| -> Result<Recorder> {
        Ok(Recorder::start(tidegate.keda(tenant, "worker", &trigger).await?))
    };
    let stuck = start("stuck", every_second(&bootstrap, "hangs", "hangs").with("holdSeconds", "4")).await?;
    let lives = start("lives", every_second(&bootstrap, "lives", "lives")).await?;
    stuck.value(SOON, 7.0).await?;
    lives.value(SOON, 4.0).await?;
    step("SIGSTOP");
    kafka.pause(2)?;
    stuck.until(Duration::from_secs(25), |answer| answer.tick.is_err()).await?;
    client.produce("lives", 0, 1).await?;
    let took = lives.value(Duration::from_secs(15), 5.0).await?;
    println!("another topic's new record seen after {:.2} s while a broker hangs", took.as_secs_f64());
    step("SIGCONT");
    kafka.resume(2)?;
    let took = stuck.value(SOON, 7.0).await?;
    println!("right {:.2} s after SIGCONT; {}", took.as_secs_f64(), stuck.describe());
    lives.held(&[4.0, 5.0])?;
    stuck.held_or_erred(&[7.0])?;
    let slowest = lives.slowest().max(stuck.slowest());
    println!("the slowest tick of either tenant: {} ms", slowest.as_millis());
    // The first tick of each waited for its first sample; no call waits for a broker after that.
    let waited = |recorder: &Recorder| {
        let answers = recorder.answers();
        answers.iter().skip(1).map(|answer| answer.took).max().unwrap_or_default()
    };
    let waited = waited(&lives).max(waited(&stuck));
    if waited < Duration::from_secs(1) { Ok(()) } else { Err(format!("a tick took {waited:?}").into()) }
}

/// 50 triggers of one tenant; every connection goes through the proxy, which counts what a broker that is away refuses.
async fn b32_an_outage_is_no_connection_storm(mut kafka: ExclusiveKafka) -> Result {
    const OUTAGE: Duration = Duration::from_secs(30);
    /// A pause is 0.25 s at least, and grows with the outage: about two a second at first, one in 2 s at the end. Not 50
    /// times as many.
    const MOST: usize = 40;
    let client = KafkaClient::new(&kafka.bootstrap());
    client.create_topic_on("storm", &[&[1, 2, 3], &[2, 3, 1], &[3, 1, 2]]).await?;
    client.produce("storm", 0, 3).await?;
    let counted = kafka.bootstrap_of(Listener::Counted);
    let tidegate = Tidegate::start().await?;
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..50 {
        let group = format!("storm-{number}");
        clients.push(tidegate.keda("storm", &group, &every_second(&counted, &group, "storm")).await?);
    }
    for client in &mut clients {
        client.answers(3.0, true).await?;
    }
    assert_eq!(open_connections(&kafka), BTreeMap::from([(1, 1), (2, 1), (3, 1)]));
    step("SIGKILL to all");
    for broker in BROKERS {
        kafka.kill(broker).await?;
    }
    kafka.wire().reset();
    tokio::time::sleep(OUTAGE).await;
    let attempts: Vec<_> = BROKERS.iter().map(|&broker| kafka.wire().connections(broker)).collect();
    println!("attempts to connect to each broker in {OUTAGE:?}: {attempts:?}");
    assert!(attempts.iter().sum::<usize>() > 0, "it goes on trying");
    assert!(attempts.iter().all(|&count| count <= MOST), "{attempts:?}");
    for client in &mut clients {
        let tick = client.keda.tick().await?;
        assert!(tick.active && tick.value > 2.0, "it holds: {tick:?}");
    }
    step("start them again");
    kafka.restore().await?;
    client.produce("storm", 1, 2).await?;
    let back = Instant::now();
    for client in &mut clients {
        client.answers_within(Duration::from_secs(15), 5.0, true).await?;
    }
    println!("all 50 are right {:.2} s after the brokers' return", back.elapsed().as_secs_f64());
    // The first to return may lead all partitions, and then nothing is asked of the others.
    let open = open_connections(&kafka);
    assert!(open.values().all(|&count| count <= 1) && open.values().sum::<usize>() > 0, "{open:?}");
    Ok(())
}

fn open_connections(kafka: &ExclusiveKafka) -> BTreeMap<i32, usize> {
    BROKERS.iter().map(|&broker| (broker, kafka.wire().open_connections(broker))).collect()
}
