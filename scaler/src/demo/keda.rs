//! A client that makes the calls KEDA makes, in the order in which KEDA makes them. The integration tests use it too.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tonic::{
    Status, Streaming,
    transport::{Channel, Endpoint},
};

pub use tidegate_proto::externalscaler::IsActiveResponse;

/// One trigger of a ScaledObject, as KEDA's external-push scaler sees it.
#[derive(Clone)]
pub struct Keda {
    client: ExternalScalerClient<Channel>,
    object: ScaledObjectRef,
}

/// What one tick of KEDA's poll loop learns.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The metric's name.
    pub metric: String,
    /// The target of one replica, from the float field.
    pub target: f64,
    /// The value, from the float field.
    pub value: f64,
    /// What `IsActive` says.
    pub active: bool,
    /// The three calls.
    pub took: Duration,
}

impl Tick {
    /// Whether it is `value`, up to rounding, and `active`.
    pub fn shows(&self, value: f64, active: bool) -> bool {
        (self.value - value).abs() < 1e-9 && self.active == active
    }
}

impl Keda {
    /// Connects to the scaler at `address` for the ScaledObject `namespace`/`name`.
    pub async fn connect(
        address: &str,
        namespace: &str,
        name: &str,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, tonic::transport::Error> {
        let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
        Ok(Self::over(channel, namespace, name, metadata))
    }

    /// The same over a channel that others share, as in KEDA, where all objects of one scaler address do.
    pub fn over(channel: Channel, namespace: &str, name: &str, metadata: &HashMap<String, String>) -> Self {
        let object = ScaledObjectRef {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            scaler_metadata: metadata.clone(),
        };
        Self { client: ExternalScalerClient::new(channel), object }
    }

    /// One tick: `GetMetricSpec`, then `GetMetrics` for the metric that it names, then `IsActive`.
    pub async fn tick(&mut self) -> Result<Tick, Status> {
        let started = Instant::now();
        let specs = self.client.get_metric_spec(self.object.clone()).await?.into_inner().metric_specs;
        let [spec] = &specs[..] else { return Err(Status::internal("not exactly one metric")) };
        let metric = spec.metric_name.clone();
        let request = GetMetricsRequest { scaled_object_ref: Some(self.object.clone()), metric_name: metric.clone() };
        let values = self.client.get_metrics(request).await?.into_inner().metric_values;
        let [value] = &values[..] else { return Err(Status::internal("not exactly one value")) };
        let active = self.client.is_active(self.object.clone()).await?.into_inner().result;
        let took = started.elapsed();
        Ok(Tick { metric, target: spec.target_size_float, value: value.metric_value_float, active, took })
    }

    /// Opens the push stream.
    pub async fn activations(&mut self) -> Result<Streaming<IsActiveResponse>, Status> {
        Ok(self.client.stream_is_active(self.object.clone()).await?.into_inner())
    }
}
