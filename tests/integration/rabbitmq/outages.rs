//! A node that restarts, hangs, or has no management API or statistics: an error meanwhile, and the right value after.

use std::time::Duration;

use libtest_mimic::Trial;
use tidegate_tests::harness::step;
use tidegate_tests::services::rabbitmq::{ExclusiveRabbitMq, READER};
use tidegate_tests::{Result, trials};
use tokio::time::Instant;

use super::Triggers;

pub fn trials() -> Vec<Trial> {
    trials![
        b57_a_restart_is_survived_on_both_protocols,
        b64_a_node_that_hangs_costs_the_triggers_timeout,
        b60_without_statistics_lengths_go_on_and_rates_are_an_error,
        without_the_management_api_amqp_goes_on,
    ]
}

/// A queue with three messages, over HTTP and over AMQP.
async fn both(rabbitmq: &ExclusiveRabbitMq, vhost: &str) -> Result<(Triggers, Triggers)> {
    let admin = rabbitmq.admin();
    admin.make_vhost(vhost).await?;
    admin.make_queue(vhost, "q", "classic").await?;
    admin.publish(vhost, "q", 3).await?;
    let trigger = |host: String| Triggers::new(&[("host", &format!("{host}/{vhost}"))], &[&[("queueName", "q")]]);
    let (mut http, mut amqp) = (trigger(rabbitmq.http(READER))?, trigger(rabbitmq.amqp(READER))?);
    assert_eq!(http.values().await?, [(3.0, true)]);
    assert_eq!(amqp.values().await?, [(3.0, true)]);
    Ok((http, amqp))
}

async fn b57_a_restart_is_survived_on_both_protocols(mut rabbitmq: ExclusiveRabbitMq) -> Result {
    let (mut http, mut amqp) = both(&rabbitmq, "b57").await?;
    step("stop the node");
    rabbitmq.stop().await?;
    for _ in 0..2 {
        assert_eq!(http.errors().await, ["source unreachable"]);
        assert_eq!(amqp.errors().await, ["source unreachable"]);
    }
    step("start it again");
    rabbitmq.start_again().await?;
    // Of the connection that broke nothing is left: the first sample opens a new one.
    assert_eq!(amqp.values().await?, [(3.0, true)]);
    assert_eq!(http.values().await?, [(3.0, true)]);
    Ok(())
}

async fn b64_a_node_that_hangs_costs_the_triggers_timeout(mut rabbitmq: ExclusiveRabbitMq) -> Result {
    let (_, mut amqp) = both(&rabbitmq, "b64").await?;
    let host = rabbitmq.http(READER) + "/b64";
    let mut http = Triggers::new(&[("host", &host), ("timeout", "2s")], &[&[("queueName", "q")]])?;
    assert_eq!(http.values().await?, [(3.0, true)]);
    rabbitmq.signal("STOP")?;
    let started = Instant::now();
    assert_eq!(http.errors().await, ["source timed out"]);
    step(format!("http took {:?}", started.elapsed()));
    assert_eq!(amqp.errors().await, ["source timed out"]);
    step(format!("amqp took {:?} more", started.elapsed().saturating_sub(Duration::from_secs(2))));
    rabbitmq.signal("CONT")?;
    http.until(&[(3.0, true)]).await?;
    amqp.until(&[(3.0, true)]).await
}

async fn without_the_management_api_amqp_goes_on(rabbitmq: ExclusiveRabbitMq) -> Result {
    let (mut http, mut amqp) = both(&rabbitmq, "managed").await?;
    step("stop the management plugin");
    rabbitmq.eval("application:stop(rabbitmq_management).").await?;
    assert_eq!(http.errors().await, ["source unreachable"]);
    assert_eq!(amqp.values().await?, [(3.0, true)]);
    step("start it again");
    rabbitmq.eval("application:start(rabbitmq_management).").await?;
    http.until(&[(3.0, true)]).await
}

async fn b60_without_statistics_lengths_go_on_and_rates_are_an_error(rabbitmq: ExclusiveRabbitMq) -> Result {
    let (mut http, _) = both(&rabbitmq, "b60").await?;
    let host = rabbitmq.http(READER) + "/b60";
    let rate = [("host", host.as_str()), ("mode", "MessageRate"), ("value", "1")];
    let mut rate = Triggers::new(&rate, &[&[("queueName", "q")]])?;
    let switch = |off: bool| format!("application:set_env(rabbitmq_management, disable_management_stats, {off}).");
    rabbitmq.eval(&switch(true)).await?;
    let (lengths, rates) = (http.values().await, rate.errors().await);
    rabbitmq.eval(&switch(false)).await?; // the node is others' next
    assert_eq!(lengths?, [(3.0, true)]);
    assert_eq!(rates, ["the broker's management statistics are off, and without them there are no rates"]);
    rate.until(&[(0.0, true)]).await
}
