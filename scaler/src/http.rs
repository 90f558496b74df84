//! The HTTP pages: `/livez`, `/readyz` and `/metrics`. Nothing of a tenant is on them.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio_util::sync::CancellationToken;

use crate::{metrics::Metrics, service::Core};

/// The text exposition format of Prometheus.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages show.
pub struct Pages<C> {
    core: Arc<C>,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
}

impl<C: Core> Pages<C> {
    /// The process is ready until `stopping`.
    pub fn new(core: Arc<C>, metrics: Arc<Metrics>, stopping: CancellationToken) -> Self {
        Self { core, metrics, stopping }
    }
}

/// The pages as axum routes them.
pub fn routes<C: Core>(pages: Pages<C>) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz::<C>))
        .route("/metrics", get(exposition::<C>))
        .with_state(Arc::new(pages))
}

async fn readyz<C: Core>(State(pages): State<Arc<Pages<C>>>) -> impl IntoResponse {
    if pages.stopping.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n")
    } else {
        (StatusCode::OK, "ok\n")
    }
}

async fn exposition<C: Core>(State(pages): State<Arc<Pages<C>>>) -> impl IntoResponse {
    pages.core.census(&pages.metrics);
    ([(header::CONTENT_TYPE, EXPOSITION)], pages.metrics.render())
}
