//! The management API for tests, over plain sockets: what the tests do is not done by what they test.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{CERTIFIED, READER, WITHOUT_TAG};
use crate::Result;

/// `guest:guest`.
const BASIC: &str = "Z3Vlc3Q6Z3Vlc3Q=";

const DEADLINE: Duration = Duration::from_secs(5);

/// The administrator of a node.
#[derive(Clone, Copy)]
pub struct Admin {
    port: u16,
}

impl Admin {
    pub(super) fn new(port: u16) -> Self {
        Self { port }
    }

    /// Makes a virtual host that every user but one may read.
    pub async fn make_vhost(&self, vhost: &str) -> Result {
        let vhost = encoded(vhost);
        self.put(&format!("/api/vhosts/{vhost}"), &json!({})).await?;
        for user in ["guest", READER, WITHOUT_TAG, CERTIFIED] {
            let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
            self.put(&format!("/api/permissions/{vhost}/{user}"), &rights).await?;
        }
        Ok(())
    }

    /// Makes a durable queue of a type: `classic` or `quorum`.
    pub async fn make_queue(&self, vhost: &str, queue: &str, kind: &str) -> Result {
        let body = json!({"durable": true, "arguments": {"x-queue-type": kind}});
        self.put(&format!("/api/queues/{}/{}", encoded(vhost), encoded(queue)), &body).await
    }

    /// Publishes `count` persistent messages to a queue.
    pub async fn publish(&self, vhost: &str, queue: &str, count: usize) -> Result {
        let path = format!("/api/exchanges/{}/amq.default/publish", encoded(vhost));
        for _ in 0..count {
            let body = json!({
                "properties": {"delivery_mode": 2}, "routing_key": queue, "payload": "x", "payload_encoding": "string",
            });
            let reply = self.send("POST", &path, &body.to_string()).await?;
            if reply["routed"] != json!(true) {
                return Err(format!("not routed to {queue}").into());
            }
        }
        Ok(())
    }

    /// The connections that the node has open now, by the names that their clients gave them.
    pub async fn connection_names(&self) -> Result<Vec<String>> {
        let all = self.get("/api/connections").await?;
        let all = all.as_array().ok_or("no list of connections")?;
        let name = |connection: &Value| connection["client_properties"]["connection_name"].as_str().map(str::to_owned);
        Ok(all.iter().filter_map(name).collect())
    }

    /// What a path shows.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send("GET", path, "").await
    }

    /// Puts an object.
    pub async fn put(&self, path: &str, body: &Value) -> Result {
        self.send("PUT", path, &body.to_string()).await.map(drop)
    }

    /// Deletes an object.
    pub async fn delete(&self, path: &str) -> Result {
        self.send("DELETE", path, "").await.map(drop)
    }

    /// A node that starts may take a request and never answer it.
    async fn send(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        timeout(DEADLINE, self.exchange(method, path, body)).await.map_err(|_| format!("{method} {path}: no answer"))?
    }

    async fn exchange(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {BASIC}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await?;
        let reply = String::from_utf8(reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").ok_or("the reply has no end of its head")?;
        let status: u16 = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        match status {
            200..=299 if body.is_empty() => Ok(Value::Null),
            200..=299 => Ok(serde_json::from_str(body)?),
            _ => Err(format!("{method} {path}: {status} {body}").into()),
        }
    }
}

/// One segment of a path.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a String takes every write"),
        }
    }
    encoded
}
