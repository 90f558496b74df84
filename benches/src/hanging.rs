//! Hanging servers: what calls about other endpoints take while the servers of one tenant accept and never answer,
//! beside the same calls before.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tidegate::{
    connect::Connectors,
    credentials::NoCredentials,
    metrics::Metrics,
    scaler::{Scaler, Settings},
};
use tidegate_connectors::{
    clock::SystemClock,
    egress::Egress,
    sampler::{Environment, Limits},
};
use tidegate_proto::externalscaler::{ScaledObjectRef, external_scaler_client::ExternalScalerClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tonic::transport::{Channel, Endpoint};

use crate::{Result, tidegate::Serving};

/// Triggers on the server that answers, and triggers each on a server of its own that does not.
const HEALTHY: usize = 200;
const HANGING: usize = 60;

/// Calls that are timed, one every millisecond.
const CALLS: usize = 10_000;

type Client = ExternalScalerClient<Channel>;

/// Prints what calls take without and with the servers that hang; the figures.
pub async fn run() -> Result<Value> {
    let mut tasks = JoinSet::new();
    let answering = listen(&mut tasks, true).await?;
    let serving = serve().await?;
    let channel = Endpoint::from_shared(format!("http://{}", serving.address))?.tcp_nodelay(true).connect().await?;
    let client = ExternalScalerClient::new(channel);
    let healthy: Vec<_> = (0..HEALTHY).map(|n| trigger("calm", n, answering)).collect();
    try_join_all(healthy.iter().map(|object| ask(client.clone(), object.clone()))).await?;

    let without = timed(&client, &healthy).await?;
    let mut asking = JoinSet::new();
    for n in 0..HANGING {
        let object = trigger("stuck", n, listen(&mut tasks, false).await?);
        let client = client.clone();
        // As KEDA does: the answer is an error, and it asks again.
        asking.spawn(async move {
            loop {
                let _ = ask(client.clone(), object.clone()).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let with = timed(&client, &healthy).await?;
    println!("\n{:<44} {:>10} {:>10} {:>10}", "calls about a server that answers, ms", "p50", "p99", "max");
    for (name, times) in [("while all answer", &without), ("while 60 servers of another tenant hang", &with)] {
        println!("{name:<44} {:>10.3} {:>10.3} {:>10.3}", times.p50, times.p99, times.max);
    }
    println!("{:<44} {:>10.2} {:>10.2}", "ratio", with.p50 / without.p50, with.p99 / without.p99);
    Ok(json!({ "without": without.json(), "with": with.json(), "ratioP99": with.p99 / without.p99 }))
}

/// Milliseconds.
struct Times {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Times {
    fn json(&self) -> Value {
        json!({ "p50Ms": self.p50, "p99Ms": self.p99, "maxMs": self.max })
    }
}

/// `IsActive` for each of the triggers in turn, one call every millisecond.
async fn timed(client: &Client, objects: &[ScaledObjectRef]) -> Result<Times> {
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut took = Vec::with_capacity(CALLS);
    for object in objects.iter().cycle().take(CALLS) {
        ticks.tick().await;
        let started = Instant::now();
        ask(client.clone(), object.clone()).await?;
        took.push(started.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    Ok(Times { p50: took[CALLS / 2], p99: took[CALLS * 99 / 100], max: took[CALLS - 1] })
}

async fn ask(mut client: Client, object: ScaledObjectRef) -> Result<(), tonic::Status> {
    client.is_active(object).await.map(drop)
}

fn trigger(namespace: &str, n: usize, server: SocketAddr) -> ScaledObjectRef {
    let metadata = [
        ("triggerType", "prometheus".to_owned()),
        ("serverAddress", format!("http://{server}")),
        ("query", format!("vector({n})")),
        ("threshold", "10".to_owned()),
        ("pollInterval", "1s".to_owned()),
    ];
    let scaler_metadata: HashMap<_, _> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
    ScaledObjectRef { name: format!("worker-{n}"), namespace: namespace.to_owned(), scaler_metadata }
}

/// A server on a port of its own that answers every query with 9, or none with anything.
async fn listen(tasks: &mut JoinSet<()>, answers: bool) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            open.spawn(async move {
                const BODY: &str = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"9"]}}"#;
                let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{BODY}", BODY.len());
                let mut request = [0; 4096];
                while let Ok(1..) = stream.read(&mut request).await {
                    if !answers {
                        std::future::pending::<()>().await;
                    }
                    if stream.write_all(reply.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

/// Tidegate with the real clients.
async fn serve() -> Result<Serving> {
    let (metrics, clock) = (Arc::new(Metrics::new()), Arc::new(SystemClock));
    let environment = Environment { clock: clock.clone(), egress: Egress::open(), limits: Limits::default() };
    let (connectors, credentials) = (Connectors { environment }, Arc::new(NoCredentials));
    let scaler = Scaler::new(connectors, credentials, clock, Settings::default(), metrics.on_poll());
    Serving::start(Arc::new(scaler), metrics).await
}
