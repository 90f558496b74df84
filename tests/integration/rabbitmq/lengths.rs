//! Lengths and rates are the queues' own.

use futures_util::StreamExt as _;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::services::rabbitmq::{ADMINISTRATOR, READER, SharedRabbitMq, WITHOUT_TAG};
use tidegate_tests::{Result, trials};

use super::{Triggers, queues};

pub fn trials() -> Vec<Trial> {
    trials![
        b44_a_host_without_a_path_is_of_the_default_virtual_host,
        b49_a_pattern_means_its_own_virtual_host,
        b52_b53_unacknowledged_messages_and_consumers_keep_a_worker_awake,
        b58_a_quorum_queue_counts_by_pattern_and_by_name,
        b61_b71_rates_are_the_statistics_and_0_for_an_idle_queue,
        names_with_any_character_are_found,
        totals_of_classic_queues_are_exact_at_once,
    ]
}

async fn b44_a_host_without_a_path_is_of_the_default_virtual_host(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("/").await?;
    admin.make_queue("/", "b44", "classic").await?;
    admin.publish("/", "b44", 3).await?;
    for host in [rabbitmq.http(READER), rabbitmq.amqp(READER)] {
        for path in ["", "/", "/%2F"] {
            let mut triggers = Triggers::new(&[("host", &format!("{host}{path}"))], &[&[("queueName", "b44")]])?;
            assert_eq!(triggers.values().await?, [(3.0, true)], "{path}");
        }
    }
    Ok(())
}

async fn b49_a_pattern_means_its_own_virtual_host(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    for (vhost, count) in [("b49-a", 1), ("b49-b", 2)] {
        admin.make_vhost(vhost).await?;
        admin.make_queue(vhost, "orders-eu", "classic").await?;
        admin.make_queue(vhost, "orders-us", "classic").await?;
        admin.publish(vhost, "orders-eu", count).await?;
        admin.publish(vhost, "orders-us", 2 * count).await?;
    }
    let host = rabbitmq.http(READER) + "/b49-a";
    let pattern = ("queueName", "^orders-");
    let mut triggers = Triggers::new(
        &[("host", &host), ("useRegex", "true"), pattern],
        &[&[], &[("operation", "max")], &[("operation", "avg")], &[("queueName", "nothing")]],
    )?;
    assert_eq!(triggers.values().await?, [(3.0, true), (2.0, true), (1.5, true), (0.0, false)]);
    Ok(())
}

async fn b52_b53_unacknowledged_messages_and_consumers_keep_a_worker_awake(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b52").await?;
    admin.make_queue("b52", "jobs", "classic").await?;
    admin.publish("b52", "jobs", 1).await?;
    let mut http = Triggers::new(
        &[("host", &(rabbitmq.http(READER) + "/b52")), ("queueName", "jobs")],
        &[&[], &[("excludeUnacknowledged", "true")]],
    )?;
    let mut amqp = Triggers::new(
        &[("host", &(rabbitmq.amqp(WITHOUT_TAG) + "/b52")), ("queueName", "jobs")],
        &[&[], &[("trustReadyOnly", "true")]],
    )?;
    assert_eq!(http.values().await?, [(1.0, true), (1.0, true)]);
    assert_eq!(amqp.values().await?, [(1.0, true), (1.0, true)]);

    step("a worker takes the message and does not acknowledge it");
    let uri = rabbitmq.amqp(ADMINISTRATOR) + "/b52";
    let worker = lapin::Connection::connect(&uri, lapin::ConnectionProperties::default()).await?;
    let channel = worker.create_channel().await?;
    channel.basic_qos(10, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer = channel.basic_consume("jobs".into(), "worker".into(), options, FieldTable::default()).await?;
    let delivery = consumer.next().await.ok_or("the consumer has ended")??;
    assert_eq!(http.values().await?, [(1.0, true), (0.0, false)]);
    assert_eq!(amqp.values().await?, [(0.0, true), (0.0, false)]);

    step("it acknowledges and leaves");
    delivery.ack(lapin::options::BasicAckOptions::default()).await?;
    channel.close(200, "done".into()).await?;
    worker.close(200, "done".into()).await?;
    amqp.until(&[(0.0, false), (0.0, false)]).await?;
    http.until(&[(0.0, false), (0.0, false)]).await
}

/// Its own counters are up to 5 s old over the management API, and exact over AMQP.
async fn b58_a_quorum_queue_counts_by_pattern_and_by_name(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b58").await?;
    admin.make_queue("b58", "quorum", "quorum").await?;
    admin.publish("b58", "quorum", 3).await?;
    let mut amqp = Triggers::new(&[("host", &(rabbitmq.amqp(READER) + "/b58"))], &[&[("queueName", "quorum")]])?;
    assert_eq!(amqp.values().await?, [(3.0, true)]);
    let mut http = Triggers::new(
        &[("host", &(rabbitmq.http(READER) + "/b58"))],
        &[&[("queueName", "quorum")], &[("queueName", "^q"), ("useRegex", "true")]],
    )?;
    let sample = http.samples().await.remove(0);
    let settles = sample.map(|sample| sample.data.settles())?;
    assert!(settles.as_secs() >= 6, "{settles:?}");
    http.until(&[(3.0, true), (3.0, true)]).await
}

async fn b61_b71_rates_are_the_statistics_and_0_for_an_idle_queue(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("b61").await?;
    for queue in ["idle", "busy"] {
        admin.make_queue("b61", queue, "classic").await?;
    }
    let host = rabbitmq.http(READER) + "/b61";
    let rate = ("mode", "MessageRate");
    let mut idle = Triggers::new(&[("host", &host), rate, ("value", "1")], &[&[("queueName", "idle")]])?;
    idle.until(&[(0.0, false)]).await?;
    // Of what was published before the first statistics of a queue there is no rate.
    admin.make_queue("b61", "waiting", "classic").await?;
    admin.publish("b61", "waiting", 3).await?;
    let mut waiting = Triggers::new(&[("host", &host), rate, ("value", "1")], &[&[("queueName", "waiting")]])?;
    waiting.until(&[(0.0, true)]).await?; // B71
    let mut both =
        Triggers::new(&[("host", &host), rate, ("value", "1")], &[&[("queueName", "idle")], &[("queueName", "busy")]])?;
    step("wait for a rate");
    let until = tokio::time::Instant::now() + super::EVENTUALLY;
    loop {
        admin.publish("b61", "busy", 1).await?;
        let samples = both.samples().await;
        if samples.iter().all(Result::is_ok) && queues(&samples[1])[0].publish_rate.is_some_and(|rate| rate > 0.0) {
            assert_eq!(queues(&samples[0])[0].publish_rate, Some(0.0));
            return Ok(());
        }
        assert!(tokio::time::Instant::now() < until, "{samples:?}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn names_with_any_character_are_found(rabbitmq: SharedRabbitMq) -> Result {
    const VHOST: &str = "any/ü %2F+?";
    const ENCODED: &str = "/any%2F%C3%BC%20%252F%2B%3F";
    let names = ["a b", "a+b", "ü/x", "...", "a%2Fb", "a|b", "(a)", "#1?x=y&z", "\u{1f600}", "namespace/name"];
    let admin = rabbitmq.admin();
    admin.make_vhost(VHOST).await?;
    for (count, name) in (1..).zip(names) {
        admin.make_queue(VHOST, name, "classic").await?;
        admin.publish(VHOST, name, count).await?;
    }
    let each: Vec<_> = names.iter().map(|name| [("queueName", *name)]).collect();
    let each: Vec<super::Pairs<'_>> = each.iter().map(|pair| &pair[..]).collect();
    let expected: Vec<_> = (1_u32..).zip(names).map(|(count, _)| (f64::from(count), true)).collect();
    for host in [rabbitmq.http(READER), rabbitmq.amqp(READER)] {
        let mut by_path = Triggers::new(&[("host", &format!("{host}{ENCODED}"))], &each)?;
        assert_eq!(by_path.values().await?, expected, "by path");
        let mut by_key = Triggers::new(&[("host", &host), ("vhostName", VHOST)], &each)?;
        assert_eq!(by_key.values().await?, expected, "by vhostName");
    }
    Ok(())
}

async fn totals_of_classic_queues_are_exact_at_once(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("exact").await?;
    let mut http = Triggers::new(&[("host", &(rabbitmq.http(READER) + "/exact"))], &[&[("queueName", "q")]])?;
    admin.make_queue("exact", "q", "classic").await?;
    assert_eq!(http.values().await?, [(0.0, false)]);
    for count in 1_u32..=5 {
        admin.publish("exact", "q", 1).await?;
        assert_eq!(http.values().await?, [(f64::from(count), true)]);
    }
    assert!(http.samples().await.remove(0)?.data.settles().is_zero());
    step("delete it and declare it again");
    admin.delete("/api/queues/exact/q").await?;
    assert_eq!(http.errors().await, ["queue q not found"]);
    admin.make_queue("exact", "q", "classic").await?;
    assert_eq!(http.values().await?, [(0.0, false)]);
    Ok(())
}
