//! What many triggers cost a node: requests and connections, counted outside the scaler, asked of the sampler alone and
//! through the gRPC API.

use std::time::Duration;

use futures_util::future::try_join_all;
use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::http_count::HttpCount;
use tidegate_tests::services::rabbitmq::{Admin, READER, SharedRabbitMq};
use tidegate_tests::tidegate::{Keda, Tidegate, measured};
use tidegate_tests::{Result, trials};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{EVENTUALLY, Pairs, Triggers};

pub fn trials() -> Vec<Trial> {
    trials![
        b54_a_missing_queue_costs_a_channel_and_no_connection,
        b55_a_thousand_triggers_are_one_amqp_connection,
        b70_a_thousand_triggers_are_two_requests,
        b70_a_thousand_triggers_are_two_requests_a_cycle_of_the_service,
        b55_a_thousand_triggers_are_one_amqp_connection_of_the_service,
    ]
}

const QUEUES: usize = 700;

/// A virtual host of 700 queues, every tenth with a message.
async fn make_queues(admin: Admin, vhost: &str) -> Result {
    admin.make_vhost(vhost).await?;
    for n in 0..QUEUES {
        admin.make_queue(vhost, &format!("queue-{n:03}"), "classic").await?;
        if n % 10 == 0 {
            admin.publish(vhost, &format!("queue-{n:03}"), 1).await?;
        }
    }
    Ok(())
}

/// 1,000 triggers on the 700 queues, and what they read.
fn thousand() -> (Vec<String>, Vec<(f64, bool)>) {
    let numbers = || (0..1_000).map(|n| n % QUEUES);
    let names = numbers().map(|n| format!("queue-{n:03}")).collect();
    (names, numbers().map(|n| if n % 10 == 0 { (1.0, true) } else { (0.0, false) }).collect())
}

async fn b70_a_thousand_triggers_are_two_requests(rabbitmq: SharedRabbitMq) -> Result {
    make_queues(rabbitmq.admin(), "b70").await?;
    let (names, mut expected) = thousand();
    let each: Vec<_> = names.iter().map(|name| [("queueName", name.as_str())]).collect();
    let mut each: Vec<Pairs<'_>> = each.iter().map(|pair| &pair[..]).collect();
    // B50: and a pattern, whose queues are on both pages.
    each.push(&[("queueName", "^queue-[0-9]+$"), ("useRegex", "true")]);
    expected.push((70.0, true));
    let counted = HttpCount::new(rabbitmq.http_port()).await?;
    let host = rabbitmq.http(READER).replace(&rabbitmq.http_port().to_string(), &counted.port().to_string());
    let mut triggers = Triggers::new(&[("host", &(host + "/b70"))], &each)?;
    for cycle in 0..5 {
        let started = Instant::now();
        assert_eq!(triggers.values().await?, expected);
        step(format!("cycle {cycle} took {:?}", started.elapsed()));
        let (requests, connections) = counted.take();
        assert_eq!(requests.len(), 2, "{requests:?}");
        // A second one is opened when the first has not come back to the pool yet.
        assert!(connections <= 2, "{connections}");
    }
    Ok(())
}

/// Asks KEDA's three calls for all triggers, at once, and checks the answers.
async fn all_answer(channel: &Channel, host: &str) -> Result {
    let (names, expected) = thousand();
    let ticks = names.iter().enumerate().map(|(number, name)| {
        let trigger = [("triggerType", "rabbitmq"), ("host", host), ("queueName", name)];
        let metadata = trigger.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut keda = Keda::over(channel.clone(), "team-a", &format!("worker-{number}"), &metadata);
        async move { keda.tick().await }
    });
    for (tick, (value, active)) in try_join_all(ticks).await?.iter().zip(expected) {
        assert!(tick.shows(value, active), "{tick:?} is not {value} / {active}");
    }
    Ok(())
}

async fn b70_a_thousand_triggers_are_two_requests_a_cycle_of_the_service(rabbitmq: SharedRabbitMq) -> Result {
    make_queues(rabbitmq.admin(), "b70-service").await?;
    let counted = HttpCount::new(rabbitmq.http_port()).await?;
    let host = rabbitmq.http(READER).replace(&rabbitmq.http_port().to_string(), &counted.port().to_string());
    let host = host + "/b70-service";
    let tidegate = Tidegate::start_roomy().await?;
    let channel = tidegate.channel().await?;
    step("ask for all");
    measured(|| all_answer(&channel, &host)).await?;
    step("what was asked for the first proof and on the way to the endpoint's grid, and then two cycles of 5 s");
    let cycles = counted.cycles(4, Duration::from_secs(2)).await;
    all_answer(&channel, &host).await?;
    for cycle in &cycles[2..] {
        assert_eq!(cycle.len(), 2, "{cycle:?}");
    }
    let (_, connections) = counted.take();
    assert!(connections <= 2, "{connections}");
    Ok(())
}

async fn b55_a_thousand_triggers_are_one_amqp_connection_of_the_service(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    make_queues(admin, "b55-service").await?;
    let host = rabbitmq.amqp(READER) + "/b55-service";
    let tidegate = Tidegate::start_roomy().await?;
    let channel = tidegate.channel().await?;
    step("ask for all: an empty queue without consumers takes 6 s to prove that it is empty");
    measured(|| all_answer(&channel, &host)).await?;
    assert_eq!(connections(admin, "b55-service", 1).await?, 1);
    all_answer(&channel, &host).await?;
    assert_eq!(connections(admin, "b55-service", 1).await?, 1);
    tidegate.stop().await?;
    assert_eq!(connections(admin, "b55-service", 0).await?, 0);
    Ok(())
}

/// The connections that the scaler has, once the broker shows `expected` of them or time is up.
async fn connections(admin: Admin, vhost: &str, expected: usize) -> Result<usize> {
    let until = Instant::now() + EVENTUALLY;
    loop {
        let all = admin.get(&format!("/api/vhosts/{vhost}/connections")).await?;
        let all = all.as_array().ok_or("no list of connections")?;
        let named = |it: &&serde_json::Value| it["client_properties"]["connection_name"] == "tidegate-team-a";
        let count = all.iter().filter(named).count();
        if count == expected || Instant::now() > until {
            return Ok(count);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn b55_a_thousand_triggers_are_one_amqp_connection(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    make_queues(admin, "b55").await?;
    let (names, expected) = thousand();
    let each: Vec<_> = names.iter().map(|name| [("queueName", name.as_str())]).collect();
    let each: Vec<Pairs<'_>> = each.iter().map(|pair| &pair[..]).collect();
    let mut triggers = Triggers::new(&[("host", &(rabbitmq.amqp(READER) + "/b55"))], &each)?;
    for cycle in 0..5 {
        let started = Instant::now();
        assert_eq!(triggers.values().await?, expected);
        println!("1,000 passive declares, cycle {cycle}: {:.0?}", started.elapsed());
    }
    assert_eq!(connections(admin, "b55", 1).await?, 1);
    step("nobody asks any more");
    drop(triggers);
    assert_eq!(connections(admin, "b55", 0).await?, 0);
    Ok(())
}

async fn b54_a_missing_queue_costs_a_channel_and_no_connection(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b54").await?;
    admin.make_queue("b54", "q", "classic").await?;
    admin.publish("b54", "q", 2).await?;
    let missing: Vec<_> = (0..40).map(|n| format!("missing-{n}")).collect();
    let names = missing.iter().map(String::as_str).chain(["q"]);
    let each: Vec<_> = names.map(|name| [("queueName", name)]).collect();
    let each: Vec<Pairs<'_>> = each.iter().map(|pair| &pair[..]).collect();
    let mut triggers = Triggers::new(&[("host", &(rabbitmq.amqp(READER) + "/b54"))], &each)?;
    let mut ports = std::collections::BTreeSet::new();
    for poll in 0..100 {
        let readings = triggers.readings().await;
        for (name, reading) in missing.iter().zip(&readings) {
            let text = reading.as_ref().map_err(ToString::to_string).err();
            assert_eq!(text, Some(format!("queue {name} not found")), "poll {poll}");
        }
        let found = readings.last().ok_or("no reading")?.as_ref().map(|reading| reading.value);
        assert!(matches!(found, Ok(2.0)), "poll {poll}: {found:?}");
        if poll % 25 == 0 {
            assert_eq!(connections(admin, "b54", 1).await?, 1);
            let all = admin.get("/api/vhosts/b54/connections").await?;
            ports.insert(all[0]["peer_port"].to_string());
        }
    }
    // RabbitMQ closed 4,000 channels, and a connection has numbers for 2,047.
    assert!(ports.len() <= 2, "one connection after the other: {ports:?}");
    Ok(())
}
