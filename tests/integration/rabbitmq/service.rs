//! What KEDA is told about a node that serves, refuses and goes away, through the gRPC API.

use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicGetOptions};
use libtest_mimic::Trial;
use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tidegate_tests::harness::step;
use tidegate_tests::services::rabbitmq::{ADMINISTRATOR, Admin, ExclusiveRabbitMq, READER, SharedRabbitMq};
use tidegate_tests::tidegate::{Client, Tidegate, Trigger};
use tidegate_tests::{Result, trials};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Code;

use super::EVENTUALLY;

pub fn trials() -> Vec<Trial> {
    trials![
        a_node_that_goes_away_is_no_zero,
        b69_a_refused_login_leaves_the_metric_spec,
        kedas_end_to_end_rows_of_a_length,
        kedas_end_to_end_rows_of_the_rates,
    ]
}

/// How soon a value is right again (issue 3).
const SOON: Duration = Duration::from_secs(10);

fn trigger(host: &str, vhost: &str, queue: &str) -> Trigger {
    let trigger = Trigger::default().with("triggerType", "rabbitmq").with("host", &format!("{host}/{vhost}"));
    trigger.with("queueName", queue).with("pollInterval", "1s")
}

/// One queue that is busy while things happen to its node, looked at over both protocols; and for each thing that
/// happens a queue with a message that nobody asked for before.
struct Watched {
    admin: Admin,
    tidegate: Tidegate,
    /// By protocol: where it is, and the trigger of the busy queue.
    both: [(String, Client); 2],
    messages: usize,
    outages: usize,
}

const VHOST: &str = "away";

impl Watched {
    async fn new(rabbitmq: &ExclusiveRabbitMq) -> Result<Self> {
        let (admin, tidegate) = (rabbitmq.admin(), Tidegate::start().await?);
        admin.make_vhost(VHOST).await?;
        let mut both = Vec::new();
        for host in [rabbitmq.http(READER), rabbitmq.amqp(READER)] {
            let name = host.split(':').next().unwrap_or_default().to_owned();
            let client = tidegate.keda("team-a", &name, &trigger(&host, VHOST, "busy")).await?;
            both.push((host, client));
        }
        let both = both.try_into().map_err(|_| "two protocols")?;
        let mut watched = Self { admin, tidegate, both, messages: 0, outages: 0 };
        watched.back("at first").await?;
        Ok(watched)
    }

    /// Names the next queue for triggers that are new while the node is away, and makes it.
    async fn expect_outage(&mut self) -> Result {
        self.outages += 1;
        self.make_late().await
    }

    async fn make_late(&self) -> Result {
        self.admin.make_queue(VHOST, &self.late(), "classic").await?;
        self.admin.publish(VHOST, &self.late(), 1).await
    }

    fn late(&self) -> String {
        format!("late-{}", self.outages)
    }

    async fn late_client(&self, host: &str) -> Result<Client> {
        self.tidegate.keda("team-a", &self.late(), &trigger(host, VHOST, &self.late())).await
    }

    /// One protocol fails: what was active is held, and of what was never measured nothing is said.
    async fn held(&mut self, protocol: usize, code: Code, text: &str) -> Result {
        let error = self.late_client(&self.both[protocol].0.clone()).await?.fails(SOON).await?;
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(text), "{error}");
        let (host, client) = &mut self.both[protocol];
        let tick = client.keda.tick().await.map_err(|error| format!("{host}: {error}"))?;
        assert!(tick.shows(f64::from(u32::try_from(self.messages)?), true), "{host}: {tick:?}");
        Ok(())
    }

    /// What changes from now on is seen soon.
    async fn back(&mut self, after: &str) -> Result {
        step(format!("the next value {after}"));
        self.admin.make_queue(VHOST, "busy", "classic").await?;
        self.admin.publish(VHOST, "busy", 1).await?;
        self.messages += 1;
        let messages = f64::from(u32::try_from(self.messages)?);
        for protocol in 0..self.both.len() {
            if self.outages > 0 {
                let host = self.both[protocol].0.clone();
                self.late_client(&host).await?.answers_within(SOON, 1.0, true).await?;
            }
            self.both[protocol].1.answers_within(SOON, messages, true).await?;
        }
        Ok(())
    }
}

const HTTP: usize = 0;
const AMQP: usize = 1;

async fn a_node_that_goes_away_is_no_zero(mut rabbitmq: ExclusiveRabbitMq) -> Result {
    let mut watched = Watched::new(&rabbitmq).await?;

    step("stop the management plugin");
    watched.expect_outage().await?;
    rabbitmq.eval("application:stop(rabbitmq_management).").await?;
    watched.held(HTTP, Code::Unavailable, "source unreachable").await?;
    let amqp = watched.both[AMQP].0.clone();
    watched.late_client(&amqp).await?.answers(1.0, true).await?; // asked for the first time
    rabbitmq.eval("application:start(rabbitmq_management).").await?;
    watched.back("of the management plugin").await?;

    step("take the user's permissions away");
    watched.expect_outage().await?;
    let permissions = format!("/api/permissions/{VHOST}/{READER}");
    watched.admin.delete(&permissions).await?;
    watched.held(HTTP, Code::FailedPrecondition, "not authorised to read virtual host away").await?;
    // RabbitMQ looks at permissions when a connection opens, and this one is open.
    watched.late_client(&amqp).await?.answers(1.0, true).await?;
    let rights = serde_json::json!({"configure": "", "write": "", "read": ".*"});
    watched.admin.put(&permissions, &rights).await?;
    watched.back("with the permissions").await?;

    step("delete the queues");
    watched.expect_outage().await?;
    for queue in ["busy", &watched.late()] {
        watched.admin.delete(&format!("/api/queues/{VHOST}/{queue}")).await?;
    }
    for protocol in [HTTP, AMQP] {
        let text = format!("queue {} not found", watched.late());
        watched.held(protocol, Code::FailedPrecondition, &text).await?;
    }
    watched.make_late().await?;
    watched.messages = 0;
    watched.back("of the queues").await?;

    step("stop the node");
    watched.expect_outage().await?;
    rabbitmq.stop().await?;
    for protocol in [HTTP, AMQP] {
        watched.held(protocol, Code::Unavailable, "").await?;
    }
    let impatient = trigger(&amqp, VHOST, "busy").with("holdSeconds", "0");
    let mut impatient = watched.tidegate.keda("team-a", "impatient", &impatient).await?;
    assert_eq!(impatient.fails(2 * SOON).await?.code(), Code::Unavailable);
    rabbitmq.start_again().await?;
    watched.back("of the node").await
}

/// KEDA's fallback needs the metric's name and target, and an error instead of the value.
async fn b69_a_refused_login_leaves_the_metric_spec(rabbitmq: SharedRabbitMq) -> Result {
    let tidegate = Tidegate::start().await?;
    let mut client = ExternalScalerClient::new(tidegate.channel().await?);
    for host in [rabbitmq.http(READER), rabbitmq.amqp(READER)] {
        let host = host.replace("p%40ss", "hunter2");
        let scaler_metadata = trigger(&host, "%2F", "jobs").0;
        let object = ScaledObjectRef { name: "worker".to_owned(), namespace: "team-a".to_owned(), scaler_metadata };
        let specs = client.get_metric_spec(object.clone()).await?.into_inner().metric_specs;
        assert_eq!((&*specs[0].metric_name, specs[0].target_size_float.to_string().as_str()), ("rabbitmq-jobs", "20"));
        let request =
            GetMetricsRequest { scaled_object_ref: Some(object.clone()), metric_name: specs[0].metric_name.clone() };
        let value = client.get_metrics(request).await.map(drop);
        let active = client.is_active(object).await.map(drop);
        for status in [value, active].map(|answer| answer.expect_err("the login is refused")) {
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(status.message().starts_with("credentials rejected ("), "{status}");
            assert!(!format!("{status:?}").contains("hunter2"), "B62: {status:?}");
        }
    }
    Ok(())
}

/// `QueueLength` 10 over HTTP: 40 messages are four replicas, and no message is none.
async fn kedas_end_to_end_rows_of_a_length(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("length").await?;
    admin.make_queue("length", "jobs", "classic").await?;
    let tidegate = Tidegate::start().await?;
    let trigger = trigger(&rabbitmq.http(READER), "length", "jobs").with("mode", "QueueLength").with("value", "10");
    let mut keda = tidegate.keda("team-a", "worker", &trigger).await?;
    keda.answers(0.0, false).await?;
    admin.publish("length", "jobs", 40).await?;
    let tick = keda.answers(40.0, true).await?;
    assert_eq!(tick.target.to_string(), "10");
    admin.delete("/api/queues/length/jobs/contents").await?;
    keda.answers(0.0, false).await?;
    Ok(())
}

/// Each mode of rates is active while messages come and go, and idle once they neither come nor wait.
async fn kedas_end_to_end_rows_of_the_rates(rabbitmq: SharedRabbitMq) -> Result {
    let admin = rabbitmq.admin();
    admin.make_vhost("rates").await?;
    admin.make_queue("rates", "jobs", "classic").await?;
    let tidegate = Tidegate::start().await?;
    let mut clients = Vec::new();
    for mode in ["MessageRate", "DeliverGetRate", "PublishedToDeliveredRatio", "ExpectedQueueConsumptionTime"] {
        let trigger = trigger(&rabbitmq.http(READER), "rates", "jobs").with("mode", mode).with("value", "1");
        clients.push((mode, tidegate.keda("team-a", &mode.to_lowercase(), &trigger).await?));
    }
    let uri = rabbitmq.amqp(ADMINISTRATOR) + "/rates";
    let worker = lapin::Connection::connect(&uri, lapin::ConnectionProperties::default()).await?;
    let channel = worker.create_channel().await?;
    let busy = async {
        let mut ticks = interval(Duration::from_millis(100));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            admin.publish("rates", "jobs", 2).await?;
            if let Some(got) = channel.basic_get("jobs".into(), BasicGetOptions::default()).await? {
                got.ack(BasicAckOptions::default()).await?;
            }
        }
    };
    tokio::select! {
        stopped = busy => return stopped,
        seen = all_busy(&mut clients) => seen?,
    }
    admin.delete("/api/queues/rates/jobs/contents").await?;
    worker.close(200, "done".into()).await?;
    for (mode, client) in &mut clients {
        step(format!("{mode} is idle"));
        client.answers_within(EVENTUALLY, 0.0, false).await?;
    }
    Ok(())
}

async fn all_busy(clients: &mut [(&str, Client)]) -> Result {
    for (mode, client) in clients {
        step(format!("{mode} is active"));
        client.until(EVENTUALLY, |seen| seen.as_ref().is_ok_and(|tick| tick.active && tick.value > 0.0)).await?;
    }
    Ok(())
}
