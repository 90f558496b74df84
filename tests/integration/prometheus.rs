//! Prometheus triggers on real servers: Prometheus and VictoriaMetrics, which answer the same API differently.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use tidegate::{
    answer::{Reference, Refusal, Verdict},
    connect::Connectors,
    credentials::NoCredentials,
    metrics::Metrics,
    scaler::{Scaler, Settings},
    server::{self, Server},
};
use tidegate_connectors::{
    clock::SystemClock,
    egress::Egress,
    metadata::Metadata,
    prometheus::PrometheusSampler,
    sampler::{Address, Environment, Limits, SampleError, Sampler},
    tenant::TenantId,
    trigger::{self, Kind, Source},
};
use tidegate_tests::{
    Result,
    harness::step,
    services::{Brand, MetricsServer, PrometheusServer, VictoriaMetrics},
    trials,
};
use tokio::{sync::oneshot, task::JoinSet, time::sleep};

pub fn trials() -> Vec<Trial> {
    trials![
        prometheus_answers_are_read,
        victoria_metrics_answers_are_read,
        prometheus_is_stopped_and_back,
        victoria_metrics_is_stopped_and_back,
        prometheus_hangs_and_is_back,
        prometheus_scrapes_tidegate_itself,
    ]
}

async fn prometheus_answers_are_read(server: PrometheusServer) -> Result {
    answers_are_read(&server.0).await
}

async fn victoria_metrics_answers_are_read(server: VictoriaMetrics) -> Result {
    answers_are_read(&server.0).await
}

async fn prometheus_is_stopped_and_back(server: PrometheusServer) -> Result {
    stopped_and_back(server.0).await
}

async fn victoria_metrics_is_stopped_and_back(server: VictoriaMetrics) -> Result {
    stopped_and_back(server.0).await
}

fn environment() -> Environment {
    Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() }
}

/// Value and activity that one trigger reads, or its error.
async fn read(server: &MetricsServer, changes: &[(&str, &str)]) -> Result<(f64, bool), SampleError> {
    let url = server.url();
    let base = [("serverAddress", url.as_str()), ("threshold", "10")];
    let metadata = Metadata::new(base.into_iter().chain(changes.iter().copied()));
    let spec = trigger::parse(Kind::Prometheus, &metadata, false).map_err(SampleError::Misconfigured)?;
    let Source::Measured { address: Address::Prometheus(address), query, threshold } = spec.source else {
        unreachable!("the kind was given")
    };
    let mut client = PrometheusSampler::new(&TenantId::local("team-a"), &address, None, &environment())?;
    let sample = client.sample(&[Arc::new(query)]).await.remove(0)?;
    assert!(sample.missing.is_none(), "{changes:?}: {:?}", sample.missing);
    threshold.reading(&sample).map(|reading| (reading.value, reading.active))
}

/// Waits until the exporter's gauges are in the server: the last one that was set is `expected`.
async fn scraped(server: &MetricsServer, query: &str, expected: f64) -> Result {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = read(server, &[("query", query), ("ignoreNullValues", "false")]).await;
        if matches!(&seen, Ok((value, _)) if (value - expected).abs() < f64::EPSILON) {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(format!("{query} is not {expected} but {seen:?}").into());
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn answers_are_read(server: &MetricsServer) -> Result {
    server.exporter.set("queue_depth{queue=\"a\"}", 7.25);
    server.exporter.set("queue_depth{queue=\"größe\"}", 3.0);
    server.exporter.set("negative", -0.5);
    scraped(server, "negative + 1", 0.5).await?;
    let long = format!("sum(queue_depth){}", " + 0".repeat(2000));
    for (query, expected) in [
        ("queue_depth{queue=\"a\"}", (7.25, true)),
        ("queue_depth{queue=\"größe\"}", (3.0, true)), // B107
        ("sum(queue_depth)", (10.25, true)),
        (&long, (10.25, true)),
        ("5", (5.0, true)), // B98
        ("scalar(queue_depth{queue=\"a\"})", (7.25, true)),
        ("negative", (0.0, false)),
        ("absent_metric", (0.0, false)), // B94
        ("0/0", (0.0, false)),           // B95
        ("vector(1)/0", (0.0, false)),
        ("vector(0.0004)", (0.0004, true)), // B112
        ("vector(1e19)", (9_007_199_254_740_992.0, true)),
    ] {
        let name = &query[..query.len().min(60)];
        let reading = read(server, &[("query", query)]).await.map_err(|error| format!("{name}: {error}"))?;
        assert_eq!(reading, expected, "{name}");
    }
    // B113
    assert_eq!(read(server, &[("query", "negative"), ("activationThreshold", "-1")]).await?, (0.0, true));
    let parameters = [("query", "sum(queue_depth)"), ("namespace", "a&b"), ("queryParameters", "nocache=1")];
    assert_eq!(read(server, &parameters).await?, (10.25, true));
    step("what has no value to read");
    for (query, expected) in [
        ("queue_depth", "the query returned 2 series, and not one"), // B97
        ("queue_depth[1m]", "query refused: it returns ranges; it must return one instant value"),
        ("sum(", bad_query(server.brand())),
        ("no_such_function(1)", bad_query(server.brand())),
    ] {
        let error = read(server, &[("query", query)]).await.expect_err(query);
        assert_eq!(error.to_string(), expected, "{query}");
    }
    for query in ["absent_metric", "0/0"] {
        let error = read(server, &[("query", query), ("ignoreNullValues", "false")]).await.expect_err(query);
        assert!(matches!(error, SampleError::NoValue), "{query}: {error:?}");
    }
    step("a path under which there is no API");
    let elsewhere = format!("{}/nothing/here", server.url());
    let elsewhere = read(server, &[("query", "5"), ("serverAddress", &elsewhere)]).await;
    assert!(matches!(elsewhere, Err(SampleError::NotFound(_) | SampleError::RefusedQuery(_))), "{elsewhere:?}");
    step("a gauge that is gone");
    server.exporter.remove("queue_depth{queue=\"a\"}");
    scraped(server, "sum(queue_depth)", 3.0).await
}

/// VictoriaMetrics answers 422 where Prometheus answers 400.
fn bad_query(brand: Brand) -> &'static str {
    match brand {
        Brand::Prometheus => "query refused: bad PromQL or parameters (HTTP 400)",
        Brand::VictoriaMetrics => "query refused: it cannot be evaluated (HTTP 422)",
    }
}

/// A Tidegate of the test's own: the core, without transport.
struct Tidegate {
    scaler: Arc<Scaler>,
    metadata: HashMap<String, String>,
    tenant: TenantId,
    _keeping: JoinSet<()>,
}

impl Tidegate {
    fn new(server: &MetricsServer, more: &[(&str, &str)]) -> Self {
        let scaler = Arc::new(scaler(&Arc::new(Metrics::new())));
        let mut keeping = JoinSet::new();
        let keeper = Arc::clone(&scaler);
        keeping.spawn(async move { keeper.keep().await });
        let url = server.url();
        let base =
            [("triggerType", "prometheus"), ("serverAddress", &url), ("threshold", "10"), ("pollInterval", "1s")];
        let metadata = base.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self { scaler, metadata, tenant: TenantId::local("team-a"), _keeping: keeping }
    }

    async fn verdict(&self) -> Result<Verdict, Refusal> {
        let reference = Reference { tenant: &self.tenant, name: "worker", metadata: &self.metadata };
        self.scaler.verdict(reference).await
    }

    /// Asks until the verdict is as wanted. Never in between is there a zero.
    async fn until(&self, within: Duration, wanted: impl Fn(&Result<Verdict, Refusal>) -> bool) -> Result {
        let until = Instant::now() + within;
        loop {
            let verdict = self.verdict().await;
            if wanted(&verdict) {
                return Ok(());
            }
            assert!(!matches!(&verdict, Ok(verdict) if !verdict.active || verdict.value == 0.0), "{verdict:?}");
            if Instant::now() > until {
                return Err(format!("after {within:?}: {verdict:?}").into());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

fn scaler(metrics: &Arc<Metrics>) -> Scaler {
    let connectors = Connectors { environment: environment() };
    let clock = Arc::new(SystemClock);
    Scaler::new(connectors, Arc::new(NoCredentials), clock, Settings::default(), metrics.on_poll())
}

fn is(verdict: &Result<Verdict, Refusal>, value: f64) -> bool {
    matches!(verdict, Ok(verdict) if verdict.active && (verdict.value - value).abs() < f64::EPSILON)
}

/// Holds while the server is away, and has the right value again within 10 s of its return (issue 3).
async fn stopped_and_back(mut server: MetricsServer) -> Result {
    server.exporter.set("queue_depth", 7.0);
    scraped(&server, "queue_depth", 7.0).await?;
    let holding = Tidegate::new(&server, &[("query", "queue_depth")]);
    let failing = Tidegate::new(&server, &[("query", "queue_depth"), ("holdSeconds", "0")]);
    let second = Duration::from_secs(1);
    holding.until(5 * second, |verdict| is(verdict, 7.0)).await?;
    failing.until(5 * second, |verdict| is(verdict, 7.0)).await?;
    step("stop it");
    server.stop().await?;
    failing.until(30 * second, Result::is_err).await?;
    assert!(is(&holding.verdict().await, 7.0));
    let idle = Tidegate::new(&server, &[("query", "absent_metric")]);
    assert!(idle.verdict().await.is_err(), "what was never measured is not idle");
    step("start it again");
    server.exporter.set("queue_depth", 9.0);
    server.start_again().await?;
    holding.until(10 * second, |verdict| is(verdict, 9.0)).await?;
    Ok(())
}

/// A server that accepts and says nothing.
async fn prometheus_hangs_and_is_back(server: PrometheusServer) -> Result {
    let mut server = server.0;
    server.exporter.set("queue_depth", 7.0);
    scraped(&server, "queue_depth", 7.0).await?;
    let failing = Tidegate::new(&server, &[("query", "queue_depth"), ("holdSeconds", "0"), ("timeout", "500ms")]);
    failing.until(Duration::from_secs(5), |verdict| is(verdict, 7.0)).await?;
    step("SIGSTOP");
    server.signal("STOP")?;
    let hung = read(&server, &[("query", "queue_depth"), ("timeout", "500ms")]).await;
    assert!(matches!(hung, Err(SampleError::TimedOut)), "{hung:?}");
    failing.until(Duration::from_secs(30), Result::is_err).await?;
    step("SIGCONT");
    server.signal("CONT")?;
    failing.until(Duration::from_secs(10), |verdict| is(verdict, 7.0)).await
}

/// The metrics that Tidegate publishes are read by a trigger of Tidegate's.
async fn prometheus_scrapes_tidegate_itself(server: PrometheusServer) -> Result {
    let local = ([127, 0, 0, 1], 0).into();
    let settings = server::Settings { grpc: local, http: local, ..server::Settings::default() };
    let tidegate = Server::bind(&settings).await?;
    let address = tidegate.http_address()?.to_string();
    let metrics = Arc::new(Metrics::new());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = JoinSet::new();
    serving.spawn(tidegate.run(Arc::new(scaler(&metrics)), metrics, async move {
        let _ = stopped.await; // a dropped sender means the same
    }));
    drop(server);
    let scraping = MetricsServer::start(Brand::Prometheus, std::slice::from_ref(&address)).await?;
    let up = format!("up{{instance={address:?}}}");
    scraped(&scraping, &up, 1.0).await?;
    let series = format!("count({{instance={address:?},__name__=~\"tidegate_.+\"}}) > bool 0");
    scraped(&scraping, &series, 1.0).await?;
    drop(stop);
    while serving.join_next().await.is_some() {}
    Ok(())
}
