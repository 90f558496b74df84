//! Prometheus triggers through the gRPC API: what KEDA is told, what many of them cost a server, and what a server that
//! turns bad does to them.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join_all;
use libtest_mimic::Trial;
use tidegate_tests::{
    Result,
    harness::step,
    http_count::HttpCount,
    services::PrometheusServer,
    tidegate::{Keda, Tidegate, Trigger, measured},
    trials,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tonic::{Code, transport::Channel};

pub fn trials() -> Vec<Trial> {
    trials![
        kedas_end_to_end_rows,
        two_thousand_triggers_on_forty_queries_are_forty_requests_a_cycle,
        a_server_that_turns_bad_is_no_zero,
    ]
}

const TRIGGERS: usize = 2_000;
const QUERIES: usize = 40;

fn trigger(server: &str, query: &str) -> Trigger {
    Trigger::default()
        .with("triggerType", "prometheus")
        .with("serverAddress", server)
        .with("threshold", "10")
        .with("query", query)
}

/// Threshold 20, activation 20: a low load is no Worker, a high one two, and none again.
async fn kedas_end_to_end_rows(server: PrometheusServer) -> Result {
    let server = server.0;
    let load = trigger(&server.url(), "load").with("threshold", "20").with("activationThreshold", "20");
    let tidegate = Tidegate::start().await?;
    let mut keda = tidegate.keda("team-a", "worker", &load.with("pollInterval", "1s")).await?;
    for (value, active) in [(5.0, false), (40.0, true), (0.0, false)] {
        server.exporter.set("load", value);
        let tick = keda.answers_within(Duration::from_secs(20), value, active).await?;
        assert_eq!(tick.target.to_string(), "20");
    }
    Ok(())
}

/// Asks KEDA's three calls for all triggers, at once: each query is a number of its own.
async fn all_answer(channel: &Channel, server: &str) -> Result {
    let ticks = (0..TRIGGERS).map(|number| {
        let trigger = trigger(server, &format!("vector({})", number % QUERIES)).with("pollInterval", "5s");
        let mut keda = Keda::over(channel.clone(), "team-a", &format!("worker-{number}"), &trigger.0);
        async move { keda.tick().await }
    });
    for (number, tick) in try_join_all(ticks).await?.iter().enumerate() {
        let value = f64::from(u8::try_from(number % QUERIES)?);
        assert!(tick.shows(value, value > 0.0), "{tick:?} is not {value}");
    }
    Ok(())
}

async fn two_thousand_triggers_on_forty_queries_are_forty_requests_a_cycle(server: PrometheusServer) -> Result {
    let port = server.0.url().rsplit(':').next().ok_or("no port")?.parse()?;
    let counted = HttpCount::new(port).await?;
    let url = format!("http://127.0.0.1:{}", counted.port());
    let tidegate = Tidegate::start_roomy().await?;
    let channel = tidegate.channel().await?;
    step("ask for all");
    measured(|| all_answer(&channel, &url)).await?;
    step("what was asked for the first proof and on the way to the endpoint's grid, and then two cycles of 5 s");
    let cycles = counted.cycles(4, Duration::from_secs(2)).await;
    all_answer(&channel, &url).await?;
    for cycle in &cycles[2..] {
        assert_eq!(cycle.len(), QUERIES, "{cycle:?}");
    }
    let (_, connections) = counted.take();
    assert!((1..=8).contains(&connections), "{connections} connections");
    Ok(())
}

/// How the scripted server answers.
const NINE: u8 = 0;
const HTML: u8 = 1;
const SILENCE: u8 = 2;

/// A server of which a test says how it answers. Dropping it ends it.
struct Server {
    url: String,
    says: Arc<AtomicU8>,
    _serving: JoinSet<()>,
}

impl Server {
    async fn new() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let says: Arc<AtomicU8> = Arc::default();
        let (mut serving, saying) = (JoinSet::new(), Arc::clone(&says));
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.spawn(answer(stream, Arc::clone(&saying)));
            }
        });
        Ok(Self { url, says, _serving: serving })
    }
}

/// One request of a connection; its form fits into one read.
async fn answer(mut stream: TcpStream, says: Arc<AtomicU8>) {
    let mut request = [0; 4096];
    while let Ok(1..) = stream.read(&mut request).await {
        let (kind, body) = match says.load(Ordering::Acquire) {
            NINE => {
                ("application/json", r#"{"status":"success","data":{"resultType":"scalar","result":[1767571200,"9"]}}"#)
            }
            HTML => ("text/html", "<!doctype html><title>Log in</title>0"),
            _ => std::future::pending().await,
        };
        let length = body.len();
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        if stream.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// HTML and silence: held while active, an error where nothing is held or nothing was active; then right within 10 s.
async fn a_server_that_turns_bad_is_no_zero() -> Result {
    let second = Duration::from_secs(1);
    let server = Server::new().await?;
    let tidegate = Tidegate::start().await?;
    let usual = trigger(&server.url, "9").with("pollInterval", "1s").with("timeout", "500ms");
    let mut holds = tidegate.keda("team-a", "holds", &usual).await?;
    let mut errs = tidegate.keda("team-a", "errs", &usual.clone().with("holdSeconds", "0")).await?;
    holds.answers(9.0, true).await?;
    errs.answers(9.0, true).await?;
    for (says, text) in [(HTML, "HTML"), (SILENCE, "silence")] {
        step(text);
        server.says.store(says, Ordering::Release);
        let status = errs.fails(20 * second).await?;
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(holds.keda.tick().await?.shows(9.0, true), "held");
        let late = tidegate.keda("team-a", &format!("late-{says}"), &usual).await?.keda.tick().await;
        assert!(late.is_err(), "what was never measured is not idle: {late:?}");
        step("it answers again");
        server.says.store(NINE, Ordering::Release);
        errs.answers_within(10 * second, 9.0, true).await?;
    }
    Ok(())
}
