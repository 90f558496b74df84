//! The standard health service, whose watches end with OK when their connection ends.

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tonic::{Request, Response, Status};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse,
        health_server::{Health, HealthServer},
    },
    server::{HealthReporter, HealthService},
};

use crate::service::{NAME, identify};

/// The health of the whole process, and of the external scaler: they are the same.
const NAMES: [&str; 2] = ["", NAME];

/// The service, serving.
pub async fn service() -> (HealthReporter, HealthServer<EndingHealth>) {
    let reporter = HealthReporter::new();
    set(&reporter, ServingStatus::Serving).await;
    let service = HealthServer::new(EndingHealth(HealthService::from_health_reporter(reporter.clone())));
    (reporter, service)
}

/// From now on it says that it does not serve.
pub async fn stop(reporter: &HealthReporter) {
    set(reporter, ServingStatus::NotServing).await;
}

async fn set(reporter: &HealthReporter, status: ServingStatus) {
    for name in NAMES {
        reporter.set_service_status(name, status).await;
    }
}

/// tonic's health service; there a watch never ends.
pub struct EndingHealth(HealthService);

#[tonic::async_trait]
impl Health for EndingHealth {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let connection = identify(request.extensions())?.clone();
        let watch = self.0.watch(request).await?.into_inner();
        let watch = stream::unfold((watch, connection.ends.clone()), async |(mut watch, ends)| {
            let status = tokio::select! {
                biased; // the last status that it sends says that the process stops
                status = watch.next() => status?,
                () = ends.cancelled() => return None,
            };
            Some((status, (watch, ends)))
        });
        Ok(Response::new(connection.stream(watch)))
    }
}
