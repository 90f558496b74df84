//! What moves in a real cluster while a Worker is busy: the right value within 5 s, and never a zero in between.

use std::time::Duration;

use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::kafka_admin;
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::recorder::Recorder;
use tidegate_tests::services::ExclusiveKafka;
use tidegate_tests::tidegate::{Tidegate, Trigger};
use tidegate_tests::{Result, trials};

const SOON: Duration = Duration::from_secs(5);

pub fn trials() -> Vec<Trial> {
    trials![
        b12_the_coordinator_moves,
        the_leader_moves,
        a_broker_is_added_and_removed,
        partitions_are_added,
        a_topic_is_deleted_and_made_again,
        a_restart_of_tidegate_shows_no_zero,
    ]
}

/// A trigger that is measured every second, so that 5 s are enough for a poll to fail and the next to succeed.
fn trigger(bootstrap: &str, group: &str, topic: &str) -> Trigger {
    let trigger = Trigger::kafka(bootstrap, group, topic).with("pollInterval", "1s").with("lagThreshold", "100");
    trigger.with("offsetResetPolicy", "earliest")
}

async fn record(tidegate: &Tidegate, name: &str, trigger: &Trigger) -> Result<Recorder> {
    Ok(Recorder::start(tidegate.keda("moves", name, trigger).await?))
}

/// Waits for the value, and notes how long it took.
async fn shows(recorder: &Recorder, what: &str, value: f64) -> Result {
    let took = recorder.value(SOON, value).await.map_err(|error| format!("{what}: {error}"))?;
    println!("{what}: {value} after {:.2} s", took.as_secs_f64());
    Ok(())
}

async fn b12_the_coordinator_moves(kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic_on("followed", &[&[1, 2, 3]]).await?;
    client.produce("followed", 0, 10).await?;
    client.commit("busy", "followed", 0, 4).await?;
    client.commit("idle", "followed", 0, 10).await?;
    let busy = record(&tidegate, "busy", &trigger(&bootstrap, "busy", "followed")).await?;
    let mut idle = tidegate.keda("moves", "idle", &trigger(&bootstrap, "idle", "followed")).await?;
    shows(&busy, "at first", 6.0).await?;
    idle.answers(0.0, false).await?;
    let mut pushes = idle.keda.activations().await?;
    let idle = Recorder::start(idle);
    for (replicas, committed) in [([1, 2, 3], 5), ([2, 3, 1], 6), ([3, 1, 2], 7), ([1, 2, 3], 8)] {
        step(format!("move the groups to broker {}", replicas[0]));
        kafka_admin::move_coordinator(&bootstrap, "busy", &replicas).await?;
        kafka_admin::move_coordinator(&bootstrap, "idle", &replicas).await?;
        client.commit("busy", "followed", 0, committed).await?;
        let lag = f64::from(10 - i32::try_from(committed)?);
        shows(&busy, "the coordinator moved", lag).await?;
    }
    println!("{}; idle: {}", busy.describe(), idle.describe());
    busy.held(&[6.0, 5.0, 4.0, 3.0, 2.0])?;
    idle.slept_or_erred()?;
    let woken = tokio::time::timeout(Duration::from_millis(1), pushes.message()).await;
    assert!(woken.is_err(), "an idle Worker is not woken: {woken:?}");
    Ok(())
}

async fn the_leader_moves(kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic_on("led", &[&[1, 2, 3], &[2, 3, 1]]).await?;
    client.produce("led", 0, 5).await?;
    client.commit_all("led-group", &[("led", 0, 0), ("led", 1, 0)]).await?;
    let busy = record(&tidegate, "busy", &trigger(&bootstrap, "led-group", "led")).await?;
    shows(&busy, "at first", 5.0).await?;
    let mut lag = 5.0;
    for replicas in [[2, 3, 1], [3, 1, 2], [1, 2, 3]] {
        step(format!("move the partition to broker {}", replicas[0]));
        client.move_partition("led", 0, &replicas).await?;
        client.produce("led", 0, 1).await?;
        lag += 1.0;
        shows(&busy, "the leader moved", lag).await?;
    }
    println!("{}", busy.describe());
    busy.held(&[5.0, 6.0, 7.0, 8.0])
}

async fn a_broker_is_added_and_removed(mut kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic_on("travels", &[&[2, 1]]).await?;
    client.produce("travels", 0, 5).await?;
    client.commit("travelling", "travels", 0, 1).await?;
    let busy = record(&tidegate, "busy", &trigger(&bootstrap, "travelling", "travels")).await?;
    shows(&busy, "at first", 4.0).await?;
    step("add a broker");
    let added = kafka.add_broker().await?;
    client.move_partition("travels", 0, &[added]).await?;
    client.produce("travels", 0, 1).await?;
    shows(&busy, "a broker was added", 5.0).await?;
    step("remove it");
    client.move_partition("travels", 0, &[2, 1]).await?;
    kafka.restore().await?;
    client.produce("travels", 0, 1).await?;
    shows(&busy, "the broker was removed", 6.0).await?;
    println!("{}", busy.describe());
    busy.held(&[4.0, 5.0, 6.0])
}

async fn partitions_are_added(kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic("grows", 1, 3).await?;
    client.produce("grows", 0, 3).await?;
    client.commit("growing", "grows", 0, 1).await?;
    let every_second = record(&tidegate, "busy", &trigger(&bootstrap, "growing", "grows")).await?;
    let usual = trigger(&bootstrap, "growing", "grows").with("pollInterval", "5s");
    let usual = record(&tidegate, "usual", &usual).await?;
    shows(&every_second, "at first", 2.0).await?;
    client.create_partitions("grows", 4).await?;
    client.produce("grows", 3, 5).await?;
    shows(&every_second, "partitions were added", 7.0).await?;
    shows(&usual, "partitions were added, measured at the usual interval", 7.0).await?;
    every_second.held(&[2.0, 7.0])?;
    usual.held(&[2.0, 7.0])
}

async fn a_topic_is_deleted_and_made_again(kafka: ExclusiveKafka) -> Result {
    let (bootstrap, tidegate) = (kafka.bootstrap(), Tidegate::start().await?);
    let client = KafkaClient::new(&bootstrap);
    client.create_topic("reborn", 1, 3).await?;
    client.produce("reborn", 0, 10).await?;
    client.commit("rebirth", "reborn", 0, 4).await?;
    let busy = record(&tidegate, "busy", &trigger(&bootstrap, "rebirth", "reborn")).await?;
    let brief = trigger(&bootstrap, "rebirth", "reborn").with("holdSeconds", "1");
    let brief = record(&tidegate, "brief", &brief).await?;
    shows(&busy, "at first", 6.0).await?;
    shows(&brief, "at first", 6.0).await?;
    step("delete it");
    client.delete_topic("reborn").await?;
    brief.until(Duration::from_secs(20), |answer| answer.tick.is_err()).await?;
    step("make it again, by producing to it: it is never empty for long");
    client.produce("reborn", 0, 20).await?;
    shows(&busy, "the topic was made again", 20.0).await?;
    shows(&brief, "the topic was made again", 20.0).await?;
    println!("{}; held briefly: {}", busy.describe(), brief.describe());
    busy.held(&[6.0, 20.0])?;
    brief.held_or_erred(&[6.0, 20.0])
}

/// safety.md, rows 40 and 41.
async fn a_restart_of_tidegate_shows_no_zero(kafka: ExclusiveKafka) -> Result {
    const TRIGGERS: usize = 20;
    let bootstrap = kafka.bootstrap();
    let client = KafkaClient::new(&bootstrap);
    client.create_topic("goes-on", 2, 3).await?;
    client.produce("goes-on", 1, 6).await?;
    let groups: Vec<String> = (0..TRIGGERS).map(|number| format!("goes-on-{number}")).collect();
    for group in &groups {
        client.commit_all(group, &[("goes-on", 0, 0), ("goes-on", 1, 2)]).await?;
    }
    for round in 0..3 {
        step(format!("start Tidegate for the {round}th time"));
        let tidegate = Tidegate::start().await?;
        let mut recorders = Vec::new();
        for group in &groups {
            recorders.push(record(&tidegate, group, &trigger(&bootstrap, group, "goes-on")).await?);
        }
        for recorder in &recorders {
            recorder.value(SOON, 4.0).await?;
        }
        for recorder in &recorders {
            recorder.held(&[4.0])?;
        }
        let slowest = recorders.iter().map(Recorder::slowest).max().unwrap_or_default();
        println!("restart {round}: {TRIGGERS} first answers right, the slowest after {:.2} s", slowest.as_secs_f64());
        drop(recorders);
        tidegate.stop().await?;
    }
    Ok(())
}
