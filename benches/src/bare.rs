//! The yardstick: a tonic service that answers every call with a constant.

use std::net::SocketAddr;

use futures_util::stream::{self, Pending};
use tidegate_proto::externalscaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue,
    ScaledObjectRef,
    external_scaler_server::{ExternalScaler, ExternalScalerServer},
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::Result;

/// A running service; dropping it ends it.
pub struct Serving {
    pub address: SocketAddr,
    _task: JoinSet<()>,
}

/// Serves on a port of its own.
pub async fn serve() -> Result<Serving> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut task = JoinSet::new();
    task.spawn(async {
        let served = Server::builder()
            .tcp_nodelay(true)
            .add_service(ExternalScalerServer::new(Constant))
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await;
        if let Err(error) = served {
            eprintln!("the bare service ended: {error}");
        }
    });
    Ok(Serving { address, _task: task })
}

struct Constant;

#[tonic::async_trait]
impl ExternalScaler for Constant {
    type StreamIsActiveStream = Pending<Result<IsActiveResponse, Status>>;
    type StreamMetricSpecStream = Pending<Result<GetMetricSpecResponse, Status>>;

    async fn is_active(&self, _: Request<ScaledObjectRef>) -> Result<Response<IsActiveResponse>, Status> {
        Ok(Response::new(IsActiveResponse { result: true }))
    }

    async fn stream_is_active(
        &self,
        _: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        Ok(Response::new(stream::pending()))
    }

    #[allow(deprecated)]
    async fn get_metric_spec(&self, _: Request<ScaledObjectRef>) -> Result<Response<GetMetricSpecResponse>, Status> {
        let spec = MetricSpec { metric_name: "kafka-orders".to_owned(), target_size: 10, target_size_float: 10.0 };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    #[allow(deprecated)]
    async fn get_metrics(&self, _: Request<GetMetricsRequest>) -> Result<Response<GetMetricsResponse>, Status> {
        let value = MetricValue { metric_name: "kafka-orders".to_owned(), metric_value: 42, metric_value_float: 42.0 };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }

    async fn stream_metric_spec(
        &self,
        _: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamMetricSpecStream>, Status> {
        Ok(Response::new(stream::pending()))
    }
}
