//! The client: one HTTP/2 connection, a fixed number of calls in flight.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::Result;

const IN_FLIGHT: usize = 64;

/// Tenants that share the triggers.
const TENANTS: usize = 500;

/// A unary call.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    GetMetrics,
    IsActive,
    GetMetricSpec,
}

impl Call {
    pub fn name(self) -> &'static str {
        match self {
            Self::GetMetrics => "GetMetrics",
            Self::IsActive => "IsActive",
            Self::GetMetricSpec => "GetMetricSpec",
        }
    }
}

/// Trigger number `n`: tenant, name, metadata.
pub fn trigger(n: usize) -> (String, String, HashMap<String, String>) {
    let metadata = [
        ("scalerAddress", "tidegate.tidegate:9090".to_owned()),
        ("triggerType", "kafka".to_owned()),
        ("bootstrapServers", "kafka.example:9092".to_owned()),
        ("consumerGroup", format!("group-{n}")),
        ("topic", "orders".to_owned()),
        ("lagThreshold", "10".to_owned()),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
    (format!("tenant-{}", n % TENANTS), format!("worker-{n}"), metadata)
}

/// A connection, and the requests that are sent over it in turn.
pub struct Load {
    client: ExternalScalerClient<Channel>,
    call: Call,
    references: Vec<ScaledObjectRef>,
}

impl Load {
    /// Connects to `address`; asks for the first `triggers` triggers.
    pub async fn connect(address: SocketAddr, call: Call, triggers: usize) -> Result<Self> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true).connect().await?;
        let references = (0..triggers).map(|n| {
            let (namespace, name, scaler_metadata) = trigger(n);
            ScaledObjectRef { name, namespace, scaler_metadata }
        });
        Ok(Self { client: ExternalScalerClient::new(channel), call, references: references.collect() })
    }

    /// Calls a second, over `duration`.
    pub async fn run(&mut self, duration: Duration) -> Result<f64> {
        let started = Instant::now();
        let mut workers = JoinSet::new();
        for worker in 0..IN_FLIGHT {
            let (mut client, call) = (self.client.clone(), self.call);
            let mine: Vec<_> = self.references.iter().skip(worker).step_by(IN_FLIGHT).cloned().collect();
            workers.spawn(async move {
                let mut calls = 0_u32;
                for reference in mine.iter().cycle() {
                    if started.elapsed() >= duration {
                        break;
                    }
                    ask(&mut client, call, reference.clone()).await?;
                    calls += 1;
                }
                Ok::<_, tonic::Status>(calls)
            });
        }
        let mut calls = 0_u32;
        while let Some(worker) = workers.join_next().await {
            calls += worker??;
        }
        Ok(f64::from(calls) / started.elapsed().as_secs_f64())
    }
}

async fn ask(
    client: &mut ExternalScalerClient<Channel>,
    call: Call,
    reference: ScaledObjectRef,
) -> Result<(), tonic::Status> {
    match call {
        Call::GetMetrics => {
            let metric_name = "kafka-orders".to_owned();
            client.get_metrics(GetMetricsRequest { scaled_object_ref: Some(reference), metric_name }).await.map(drop)
        }
        Call::IsActive => client.is_active(reference).await.map(drop),
        Call::GetMetricSpec => client.get_metric_spec(reference).await.map(drop),
    }
}
