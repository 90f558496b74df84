//! The servers that the integration tests need: each is started when the first test asks for it, on loopback ports and in
//! a directory of this run's own, and stopped at the end.
//!
//! Invariant: nothing of a run outlives it but, after a SIGKILL, its directory, which the next run removes.

mod kafka;
mod pki;
mod process;
mod prometheus;
pub mod rabbitmq;
mod shared;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::runtime::{Builder, Runtime};

pub use kafka::{KafkaCluster, Listener, SASL_PASSWORD, SASL_USER, SASL_USER_WITHOUT_RIGHTS};
pub use pki::{Identity, Pki};
pub use process::Process;
pub use prometheus::{Brand, Exporter, MetricsServer, PrometheusServer, VictoriaMetrics};
pub use shared::{ExclusiveKafka, SharedKafka, stop_all};

use crate::Result;

/// Tasks of services, such as proxies, which outlive the test that started them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("services")
        .enable_all()
        .build()
        .expect("a runtime needs only a thread and an epoll descriptor")
});

pub(crate) fn runtime() -> &'static Runtime {
    &RUNTIME
}

const DIRECTORY_PREFIX: &str = "tidegate-tests-";

/// The directory of this run.
pub fn run_directory() -> Result<&'static Path> {
    static DIRECTORY: LazyLock<std::io::Result<PathBuf>> = LazyLock::new(|| {
        remove_left_overs(&std::env::temp_dir());
        let directory = std::env::temp_dir().join(format!("{DIRECTORY_PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        Ok(directory)
    });
    DIRECTORY.as_deref().map_err(|error| format!("no directory for this run: {error}").into())
}

/// Removes the directories of runs whose process is gone.
fn remove_left_overs(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX)) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A loopback port nobody listens on. It stays free for a server that restarts: it lies under the range from which the
/// kernel takes ports of outgoing connections, and is given once per run.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 18_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two runs at once start at different places.
    let start = u16::try_from(std::process::id() % u32::from(COUNT))?;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start + step % COUNT) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port".into())
}
