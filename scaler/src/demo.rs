//! `tidegate demo`: the main job in under a minute, with nothing installed. An embedded Kafka, a producer, the scaler, a
//! client that makes KEDA's calls in KEDA's order, and a Worker that goes 0 -> N -> 0.
//!
//! Every figure that it prints is measured. KEDA's own times (30 s, cooldown 300 s) are shortened; they are printed too.

mod kafka;
pub mod keda;
mod kinds;
mod sources;
mod story;

use std::{error::Error, sync::Arc, time::Duration};

use tidegate_connectors::{
    clock::SystemClock,
    egress::Egress,
    sampler::{Environment, Limits},
};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};

use self::{
    kafka::EmbeddedKafka,
    keda::Keda,
    kinds::{Kind, Measured},
    sources::Sources,
    story::{Clock, Story},
};
use crate::{
    connect::Connectors,
    credentials::NoCredentials,
    metrics::Metrics,
    scaler::{Scaler, Settings},
    server::{self, Server},
};

/// The demo ends by then, with an error if the Worker is not back at zero.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the demo; an error if the Worker did not do what it should.
pub async fn run() -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("Tidegate demo: a Worker that sleeps until its topic has records.\n");
    let kafka = EmbeddedKafka::start()?;
    println!("  an embedded Kafka (librdkafka's mock cluster) listens on {}", kafka.bootstrap());

    let (stop, stopped) = oneshot::channel::<()>();
    let settings = server::Settings {
        grpc: ([127, 0, 0, 1], 0).into(),
        http: ([127, 0, 0, 1], 0).into(),
        ..server::Settings::default()
    };
    let server = Server::bind(&settings).await?;
    let (grpc, http) = (server.grpc_address()?, server.http_address()?);
    println!("  tidegate serves gRPC on {grpc}, metrics on http://{http}/metrics");
    let mut tasks = JoinSet::new();
    let metrics = Arc::new(Metrics::new());
    let scaler = Arc::new(scaler(&metrics));
    let keeper = scaler.clone();
    tasks.spawn(async move { keeper.keep().await });
    let serving = server.run(scaler, metrics, async move {
        let _ = stopped.await; // a dropped sender means the same
    });
    let serving = tasks.spawn(serving);

    let told = timeout(LIMIT, tell(&kafka, &grpc.to_string())).await;
    drop(stop);
    while !serving.is_finished() && tasks.join_next().await.is_some_and(|ended| ended.is_ok()) {}
    told.map_err(|_elapsed| "the Worker was not back at zero in time")?
}

/// The Kafka story, and beside it the other kinds.
async fn tell(kafka: &EmbeddedKafka, address: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mails, metrics) = (Sources::start().await?, Sources::start().await?);
    println!("  scripted: a RabbitMQ management API on {}, a Prometheus on {}", mails.address(), metrics.address());
    let keda = async |name: &str, metadata: std::collections::HashMap<String, String>| {
        Keda::connect(address, "demo", name, &metadata).await
    };
    let clock = Clock::start();
    let say = |what: &str| clock.say(what);
    let story = Story::new(kafka, keda("worker", kafka.trigger()).await?, clock);
    let rabbitmq = Kind::new("rabbitmq", keda("mailer", mails.rabbitmq()).await?, &mails);
    let prometheus = Kind::new("prometheus", keda("reporter", metrics.prometheus()).await?, &metrics);
    let cron = keda("office", sources::cron()).await?.tick().await?;
    say(&format!("cron: the window is open: {} replicas", cron.value));
    let (worker, rabbitmq, prometheus) = tokio::try_join!(story.tell(), rabbitmq.tell(say), prometheus.tell(say))?;
    println!("\n  measured:");
    worker.print();
    for Measured { kind, woken, asleep, value } in [rabbitmq, prometheus] {
        let (woken, asleep) = (woken.as_secs_f64(), asleep.as_secs_f64());
        println!(
            "    {kind:<10} value {value}: true after {woken:.2} s, inactive {asleep:.2} s after the last message"
        );
    }
    Ok(())
}

fn scaler(metrics: &Arc<Metrics>) -> Scaler {
    let clock = Arc::new(SystemClock);
    let environment = Environment { clock: clock.clone(), egress: Egress::open(), limits: Limits::default() };
    let on_poll = metrics.on_poll();
    Scaler::new(Connectors { environment }, Arc::new(NoCredentials), clock, Settings::default(), on_poll)
}
