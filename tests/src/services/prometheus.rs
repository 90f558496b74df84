//! Servers with Prometheus' query API, Debian's `prometheus` and `victoria-metrics`, and a small exporter that they scrape.
//!
//! Invariants:
//! - A server keeps its port over a restart, and its data.
//! - A method that starts something returns when a client has seen it work.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{Process, free_port, run_directory, runtime};
use crate::Result;
use crate::harness::{Fixture, Unavailable};

const READY_DEADLINE: Duration = Duration::from_secs(30);
const READY_POLL: Duration = Duration::from_millis(50);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    /// Prometheus itself.
    Prometheus,
    /// VictoriaMetrics, single node.
    VictoriaMetrics,
}

impl Brand {
    const fn program(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::VictoriaMetrics => "victoria-metrics",
        }
    }

    const fn ready_path(self) -> &'static str {
        match self {
            Self::Prometheus => "/-/ready",
            Self::VictoriaMetrics => "/health",
        }
    }

    fn arguments(self, port: u16, directory: &str) -> Vec<String> {
        let (address, config) = (format!("127.0.0.1:{port}"), format!("{directory}/scrape.yml"));
        match self {
            Self::Prometheus => vec![
                format!("--web.listen-address={address}"),
                format!("--config.file={config}"),
                format!("--storage.tsdb.path={directory}/data"),
                "--log.level=warn".to_owned(),
            ],
            Self::VictoriaMetrics => vec![
                format!("-httpListenAddr={address}"),
                format!("-promscrape.config={config}"),
                format!("-storageDataPath={directory}/data"),
                // Or what was scraped would be seen half a minute later.
                "-search.latencyOffset=0s".to_owned(),
                "-loggerLevel=WARN".to_owned(),
            ],
        }
    }

    /// The program that `make test` has unpacked, or the one that is installed.
    fn path(self) -> Result<PathBuf> {
        let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
        let unpacked = PathBuf::from(home).join(".cache/tidegate/prometheus/usr/bin");
        let installed = std::env::var_os("PATH").unwrap_or_default();
        let directories = std::iter::once(unpacked).chain(std::env::split_paths(&installed));
        let found = directories.map(|directory| directory.join(self.program())).find(|path| path.is_file());
        found.ok_or_else(|| format!("{} is not there: run `make prometheus`", self.program()).into())
    }
}

/// A running server, which scrapes an exporter of its own and what else it is told to, every second.
pub struct MetricsServer {
    brand: Brand,
    port: u16,
    directory: PathBuf,
    process: Option<Process>,
    /// What it scrapes.
    pub exporter: Exporter,
}

impl MetricsServer {
    /// Starts a server that scrapes its exporter and the `host:port`s in `more`.
    pub async fn start(brand: Brand, more: &[String]) -> Result<Self> {
        let port = free_port()?;
        let directory = run_directory()?.join(format!("{}-{port}", brand.program()));
        std::fs::create_dir_all(&directory)?;
        let exporter = Exporter::start().await?;
        let targets: Vec<_> = more.iter().chain([&exporter.address]).map(|target| format!("{target:?}")).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n  - job_name: tests\n    \
             static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        std::fs::write(directory.join("scrape.yml"), config)?;
        let mut server = Self { brand, port, directory, process: None, exporter };
        server.start_again().await?;
        Ok(server)
    }

    /// What `serverAddress` says.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Which server it is.
    pub fn brand(&self) -> Brand {
        self.brand
    }

    /// Starts it on its port and data, and waits until it answers.
    pub async fn start_again(&mut self) -> Result {
        let directory = self.directory.to_str().ok_or("the directory's name is not UTF-8")?;
        let (program, arguments) = (self.brand.path()?, self.brand.arguments(self.port, directory));
        let program = program.to_str().ok_or("the program's path is not UTF-8")?;
        let mut process = Process::start(self.brand.program(), &self.directory.join("log"), program, &arguments)?;
        let until = Instant::now() + READY_DEADLINE;
        while !self.answers().await {
            if process.ended()?.is_some() || Instant::now() > until {
                return Err(format!("{} does not start\n{}", self.brand.program(), process.log_tail()).into());
            }
            sleep(READY_POLL).await;
        }
        self.process = Some(process);
        Ok(())
    }

    async fn answers(&self) -> bool {
        let answer = timeout(Duration::from_secs(1), get(self.port, self.brand.ready_path())).await;
        answer.is_ok_and(|answer| answer.is_ok_and(|text| text.starts_with("HTTP/1.1 200")))
    }

    /// Stops it by SIGTERM.
    pub async fn stop(&mut self) -> Result {
        if let Some(mut process) = self.process.take() {
            process.signal("TERM")?;
            process.wait(STOP_DEADLINE).await?;
        }
        Ok(())
    }

    /// Sends it a signal, such as `STOP` and `CONT`, between which it accepts connections and answers nothing.
    pub fn signal(&mut self, signal: &str) -> Result {
        self.process.as_mut().ok_or("it does not run")?.signal(signal)
    }
}

/// An exporter whose gauges a test sets.
pub struct Exporter {
    address: String,
    gauges: Arc<Mutex<BTreeMap<String, f64>>>,
    _serving: JoinSet<()>,
}

impl Exporter {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let gauges = Arc::<Mutex<BTreeMap<String, f64>>>::default();
        let mut serving = JoinSet::new();
        let shown = Arc::clone(&gauges);
        serving.spawn_on(
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    // A scraper that says nothing must not keep the next one out.
                    let _ = timeout(Duration::from_secs(1), expose(stream, &shown)).await;
                }
            },
            runtime().handle(),
        );
        Ok(Self { address, gauges, _serving: serving })
    }

    /// Sets a gauge, whose name has its labels: `queue_depth{queue="a"}`.
    pub fn set(&self, gauge: &str, value: f64) {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner).insert(gauge.to_owned(), value);
    }

    /// Stops exposing a gauge.
    pub fn remove(&self, gauge: &str) {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner).remove(gauge);
    }
}

async fn expose(mut stream: TcpStream, gauges: &Mutex<BTreeMap<String, f64>>) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let mut body = String::new();
    for (gauge, value) in gauges.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        writeln!(body, "{gauge} {value}").expect("a String takes every write");
    }
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close\r\n";
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await
}

async fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn acquire(brand: Brand) -> Result<MetricsServer, Unavailable> {
    MetricsServer::start(brand, &[])
        .await
        .map_err(|error| Unavailable { service: brand.program(), reason: error.to_string() })
}

/// A Prometheus of the test's own.
pub struct PrometheusServer(pub MetricsServer);

impl Fixture for PrometheusServer {
    async fn acquire() -> Result<Self, Unavailable> {
        acquire(Brand::Prometheus).await.map(Self)
    }
}

/// A VictoriaMetrics of the test's own.
pub struct VictoriaMetrics(pub MetricsServer);

impl Fixture for VictoriaMetrics {
    async fn acquire() -> Result<Self, Unavailable> {
        acquire(Brand::VictoriaMetrics).await.map(Self)
    }
}
