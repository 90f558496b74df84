//! Tidegate itself, on a source that always has the same lag.

use std::{net::SocketAddr, sync::Arc};

use tidegate::{
    connect::Connect,
    credentials::NoCredentials,
    metrics::Metrics,
    scaler::{Scaler, Settings},
    server::{self, Server},
    tenants::TenantLimits,
};
use tidegate_connectors::{
    clock::{Clock, SystemClock},
    credentials::Credentials,
    kafka::{History, Offsets, PartitionOffsets},
    sampler::{Data, Endpoint, Query, Sample, SampleError, Sampler},
};
use tokio::task::JoinSet;

use crate::{Result, load};

/// A running service with warm triggers; dropping it ends it.
pub struct Serving {
    pub address: SocketAddr,
    _tasks: JoinSet<()>,
}

/// Serves on a port of its own, with `triggers` that have been asked for once.
pub async fn serve(triggers: usize) -> Result<Serving> {
    let settings = Settings { tenant: TenantLimits { triggers, ..TenantLimits::default() }, ..Settings::default() };
    let metrics = Arc::new(Metrics::new());
    let clock = Arc::new(SystemClock);
    let scaler = Arc::new(Scaler::new(Constant, Arc::new(NoCredentials), clock, settings, metrics.on_poll()));
    for trigger in 0..triggers {
        let (tenant, name, metadata) = load::trigger(trigger);
        let tenant = tidegate_connectors::tenant::TenantId::local(&tenant);
        let reference = tidegate::answer::Reference { tenant: &tenant, name: &name, metadata: &metadata };
        scaler.verdict(reference).await?;
    }
    Serving::start(scaler, metrics).await
}

impl Serving {
    /// Serves what `scaler` answers on a port of its own.
    pub async fn start<C: Connect>(scaler: Arc<Scaler<C>>, metrics: Arc<Metrics>) -> Result<Self> {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let listen = server::Settings { grpc: loopback, http: loopback, ..server::Settings::default() };
        let server = Server::bind(&listen).await?;
        let address = server.grpc_address()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(server.run(scaler, metrics, std::future::pending()));
        Ok(Self { address, _tasks: tasks })
    }
}

struct Constant;

impl Connect for Constant {
    type Sampler = Self;

    fn connect(&self, _: &Endpoint, _: Option<&Credentials>) -> Result<Self, SampleError> {
        Ok(Self)
    }
}

impl Sampler for Constant {
    async fn sample(&mut self, queries: &[Arc<Query>]) -> Vec<Result<Sample, SampleError>> {
        let taken = SystemClock.boot();
        let partition = PartitionOffsets {
            topic: "orders".into(),
            topic_id: None,
            partition: 0,
            committed: Some(0),
            log_start: 0,
            log_end: 42,
            history: History::starting(42, taken),
        };
        let offsets = Offsets::new(vec![partition], true);
        queries.iter().map(|_| Ok(Sample { taken, data: Data::Kafka(offsets.clone()), missing: None })).collect()
    }
}
