//! `tidegate serve`: the parts, put together.

use std::{net::SocketAddr, sync::Arc};

use tidegate_connectors::{
    clock::SystemClock,
    egress::Egress,
    sampler::{Environment, Limits},
};
use tracing::info;

use super::{CommandError, credentials};
use crate::{
    config::{Config, Credentials},
    connect::Connectors,
    metrics::Metrics,
    scaler::{self, Scaler},
    server::{self, Server},
    tenants::TenantLimits,
    trigger::PollBounds,
};

/// Serves until SIGTERM or SIGINT, then drains.
pub(super) async fn serve(config: &Config) -> Result<(), CommandError> {
    let credentials = credentials(match &config.credentials {
        Credentials::None => None,
        Credentials::Directory(path) => Some(path.clone()),
    })?;
    let metrics = Arc::new(Metrics::new());
    let limits = Limits { partitions: config.limits.partitions_per_trigger.get(), ..Limits::default() };
    let clock = Arc::new(SystemClock);
    let environment = Environment { clock: clock.clone(), egress: Egress::open(), limits };
    let core =
        Arc::new(Scaler::new(Connectors { environment }, credentials, clock, settings(config), metrics.on_poll()));

    let addresses = server::Settings { grpc: config.grpc.listen, http: config.http.listen, ..Default::default() };
    let server = Server::bind(&addresses).await?;
    announce(server.grpc_address()?, server.http_address()?);
    let stop = server::signalled()?;
    tokio::select! {
        () = server.run(core.clone(), metrics, stop) => {}
        () = core.keep() => {} // never ends
    }
    Ok(())
}

fn settings(config: &Config) -> scaler::Settings {
    let limits = &config.limits;
    scaler::Settings {
        poll: PollBounds { min: config.poll.min_interval, max: config.poll.max_interval },
        tenant: TenantLimits {
            triggers: limits.triggers_per_tenant.get(),
            endpoints: limits.endpoints_per_tenant.get(),
            streams: limits.streams_per_tenant.get(),
            calls: limits.calls_per_second_per_tenant.get(),
            ..TenantLimits::default()
        },
        ..scaler::Settings::default()
    }
}

fn announce(grpc: SocketAddr, http: SocketAddr) {
    info!(version = env!("CARGO_PKG_VERSION"), %grpc, %http, "listening");
}
