//! What the demo's RabbitMQ and Prometheus triggers are measured on: two small HTTP answers that speak as the real
//! servers do, with one number behind both. Kafka needs no such thing: its cluster is embedded.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use axum::{Json, Router, extract::State, routing::get, routing::post};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

const QUEUE: &str = "mails";

/// A management API with one queue, and a query API with one series.
pub struct Sources {
    address: SocketAddr,
    backlog: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

impl Sources {
    /// Serves on a loopback port of its own.
    pub async fn start() -> io::Result<Self> {
        let backlog = Arc::new(AtomicU64::new(0));
        let routes = Router::new()
            .route("/api/queues/{vhost}", get(listing))
            .route("/api/queues/{vhost}/{queue}", get(queue))
            .route("/api/v1/query", post(query))
            .with_state(backlog.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!(%error, "the demo's sources ended");
            }
        });
        Ok(Self { address, backlog, _serving: serving })
    }

    /// Where both listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets what both say is waiting.
    pub fn set_backlog(&self, backlog: u64) {
        self.backlog.store(backlog, Ordering::Relaxed);
    }

    /// The metadata of a RabbitMQ trigger on the queue.
    pub fn rabbitmq(&self) -> HashMap<String, String> {
        metadata([
            ("triggerType", "rabbitmq".to_owned()),
            ("host", format!("http://guest:guest@{}/", self.address)),
            ("queueName", QUEUE.to_owned()),
            ("mode", "QueueLength".to_owned()),
            ("value", "20".to_owned()),
        ])
    }

    /// The metadata of a Prometheus trigger on the series.
    pub fn prometheus(&self) -> HashMap<String, String> {
        metadata([
            ("triggerType", "prometheus".to_owned()),
            ("serverAddress", format!("http://{}", self.address)),
            ("query", "sum(mails_waiting)".to_owned()),
            ("threshold", "20".to_owned()),
        ])
    }
}

/// The metadata of a cron trigger whose window is open all year but for its first instant.
pub fn cron() -> HashMap<String, String> {
    metadata([
        ("triggerType", "cron".to_owned()),
        ("timezone", "Europe/Prague".to_owned()),
        ("start", "0 0 * * *".to_owned()),
        ("end", "59 23 31 12 *".to_owned()),
        ("desiredReplicas", "2".to_owned()),
    ])
}

fn metadata<const N: usize>(entries: [(&str, String); N]) -> HashMap<String, String> {
    entries.map(|(key, value)| (key.to_owned(), value)).into()
}

async fn listing(State(backlog): State<Arc<AtomicU64>>) -> Json<Value> {
    let items = [item(&backlog)];
    Json(json!({
        "total_count": 1, "filtered_count": 1, "item_count": 1, "page": 1, "page_count": 1, "page_size": 500, "items": items
    }))
}

async fn queue(State(backlog): State<Arc<AtomicU64>>) -> Json<Value> {
    Json(item(&backlog))
}

fn item(backlog: &AtomicU64) -> Value {
    let backlog = backlog.load(Ordering::Relaxed);
    json!({ "name": QUEUE, "type": "classic", "state": "running", "messages": backlog, "messages_ready": backlog })
}

async fn query(State(backlog): State<Arc<AtomicU64>>) -> Json<Value> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let value = json!([now, backlog.load(Ordering::Relaxed).to_string()]);
    Json(json!({
        "status": "success", "data": { "resultType": "vector", "result": [{ "metric": {}, "value": value }] }
    }))
}
