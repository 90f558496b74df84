//! Tidegate in this process, as `tidegate serve` puts it together, and clients that call it as KEDA does.

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub use tidegate::demo::keda::{Keda, Tick};
use tidegate::{
    connect::Connectors,
    credentials::{Directory, Layout},
    metrics::Metrics,
    scaler::{Scaler, Settings},
    server::{self, Server},
    tenants::TenantLimits,
};
use tidegate_connectors::{
    clock::{SharedClock, SystemClock},
    egress::Egress,
    sampler::{Environment, Limits},
};
use tokio::{
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::{Code, Status, transport::Channel};

use crate::{BoxError, Result};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long [`measured`] waits.
const FIRST_ANSWERS: Duration = Duration::from_secs(30);

/// Asks for many triggers at once until all are measured: at first, some are not, or not proven idle in time, and their
/// calls are `UNAVAILABLE`. Anything else fails at once.
pub async fn measured<F: Future<Output = Result>>(ask: impl Fn() -> F) -> Result {
    let deadline = Instant::now() + FIRST_ANSWERS;
    loop {
        match ask().await {
            Err(error) if is_unavailable(&error) && Instant::now() < deadline => sleep(LOOK).await,
            answer => return answer,
        }
    }
}

fn is_unavailable(error: &BoxError) -> bool {
    error.downcast_ref::<Status>().is_some_and(|status| status.code() == Code::Unavailable)
}

/// A running Tidegate; dropping it ends it at once.
pub struct Tidegate {
    /// Where the gRPC service listens.
    pub grpc: SocketAddr,
    /// Where the pages are.
    pub http: SocketAddr,
    /// The core.
    pub scaler: Arc<Scaler>,
    credentials: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    tasks: JoinSet<()>,
}

impl Tidegate {
    /// Serves on loopback ports of its own, with an empty directory of credentials.
    pub async fn start() -> Result<Self> {
        Self::start_with(Arc::new(SystemClock), Settings::default()).await
    }

    /// The same, where it is what `clock` says.
    pub async fn start_at(clock: SharedClock) -> Result<Self> {
        Self::start_with(clock, Settings::default()).await
    }

    /// The same with as many triggers and calls as a test of thousands of triggers of one tenant needs.
    pub async fn start_roomy() -> Result<Self> {
        let tenant = TenantLimits { triggers: 10_000, calls: 100_000, ..TenantLimits::default() };
        Self::start_with(Arc::new(SystemClock), Settings { tenant, ..Settings::default() }).await
    }

    async fn start_with(clock: SharedClock, settings: Settings) -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let credentials = std::env::temp_dir().join(format!("tidegate-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&credentials)?;
        let environment = Environment { clock: clock.clone(), egress: Egress::open(), limits: Limits::default() };
        let provider = Directory::open(credentials.clone(), Layout::OneCluster, clock.clone())?;
        let metrics = Arc::new(Metrics::new());
        let connectors = Connectors { environment };
        let scaler = Arc::new(Scaler::new(connectors, Arc::new(provider), clock, settings, metrics.on_poll()));
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = server::Settings { grpc: loopback, http: loopback, ..server::Settings::default() };
        let server = Server::bind(&listen).await?;
        let (grpc, http) = (server.grpc_address()?, server.http_address()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let mut tasks = JoinSet::new();
        let keeper = scaler.clone();
        tasks.spawn(async move { keeper.keep().await });
        let core = scaler.clone();
        tasks.spawn(server.run(core, metrics, async move {
            let _ = stopped.await; // a dropped sender means the same
        }));
        Ok(Self { grpc, http, scaler, credentials, stop: Some(stop), tasks })
    }

    /// Writes one key of a credential, whole or not at all, as kubelet does.
    pub fn write_credential(&self, namespace: &str, name: &str, key: &str, value: &str) -> Result {
        let directory = self.credentials.join(namespace).join(name);
        fs::create_dir_all(&directory)?;
        let new = directory.join(format!(".{key}.new"));
        fs::write(&new, value)?;
        fs::rename(new, directory.join(key))?;
        Ok(())
    }

    /// Removes a credential with all its keys.
    pub fn remove_credential(&self, namespace: &str, name: &str) -> Result {
        Ok(fs::remove_dir_all(self.credentials.join(namespace).join(name))?)
    }

    /// A client for one ScaledObject with one trigger, on a connection of its own.
    pub async fn keda(&self, namespace: &str, name: &str, trigger: &Trigger) -> Result<Client> {
        let keda = Keda::connect(&self.grpc.to_string(), namespace, name, &trigger.0).await?;
        Ok(Client { keda })
    }

    /// A channel that many clients share, as KEDA's do.
    pub async fn channel(&self) -> Result<Channel> {
        Ok(tonic::transport::Endpoint::from_shared(format!("http://{}", self.grpc))?.connect().await?)
    }

    /// Drains, and waits until the service has ended.
    pub async fn stop(mut self) -> Result {
        drop(self.stop.take());
        let deadline = Duration::from_secs(10);
        timeout(deadline, self.tasks.join_next()).await?.ok_or("nothing ran")??;
        Ok(())
    }
}

impl Drop for Tidegate {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.credentials); // in the temporary directory; nothing depends on it
    }
}

/// The metadata of a trigger.
#[derive(Clone, Debug, Default)]
pub struct Trigger(pub HashMap<String, String>);

impl Trigger {
    /// A Kafka trigger.
    pub fn kafka(bootstrap: &str, group: &str, topics: &str) -> Self {
        let trigger = Self::default().with("triggerType", "kafka").with("scalerAddress", "tidegate.tidegate:9090");
        let trigger = trigger.with("bootstrapServers", bootstrap).with("consumerGroup", group);
        if topics.is_empty() { trigger } else { trigger.with("topic", topics) }
    }

    /// A cron trigger.
    pub fn cron(timezone: &str, start: &str, end: &str, replicas: &str) -> Self {
        let trigger = Self::default().with("triggerType", "cron").with("timezone", timezone);
        trigger.with("start", start).with("end", end).with("desiredReplicas", replicas)
    }

    /// The same with one more key.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.insert(key.to_owned(), value.to_owned());
        self
    }
}

/// KEDA, as one trigger of one object sees it.
pub struct Client {
    /// The calls themselves.
    pub keda: Keda,
}

impl Client {
    /// Ticks until `wanted`, for at most `within`; the error is the last thing that was seen.
    pub async fn until(&mut self, within: Duration, wanted: impl Fn(&Result<Tick, Status>) -> bool) -> Result<Tick> {
        let deadline = Instant::now() + within;
        loop {
            let seen = self.keda.tick().await;
            match seen {
                seen if wanted(&seen) => return seen.map_err(Into::into),
                seen if Instant::now() > deadline => return Err(format!("still {seen:?} after {within:?}").into()),
                _ => sleep(LOOK).await,
            }
        }
    }

    /// Ticks until the answer is `value` and `active`, for at most five seconds.
    pub async fn answers(&mut self, value: f64, active: bool) -> Result<Tick> {
        self.answers_within(Duration::from_secs(5), value, active).await
    }

    /// Ticks until the answer is `value` and `active`.
    pub async fn answers_within(&mut self, within: Duration, value: f64, active: bool) -> Result<Tick> {
        let wanted = |seen: &Result<Tick, Status>| seen.as_ref().is_ok_and(|tick| tick.shows(value, active));
        let seen = self.until(within, wanted).await;
        seen.map_err(|error| format!("wanted {value} / {active}: {error}").into())
    }

    /// Ticks until there is an error, for at most `within`; the error.
    pub async fn fails(&mut self, within: Duration) -> Result<Status> {
        let deadline = Instant::now() + within;
        loop {
            match self.keda.tick().await {
                Err(status) => return Ok(status),
                Ok(tick) if Instant::now() > deadline => return Err(format!("still {tick:?} after {within:?}").into()),
                Ok(_) => sleep(LOOK).await,
            }
        }
    }
}
