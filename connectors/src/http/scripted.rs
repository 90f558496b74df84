//! An HTTP server on loopback that says what a test tells it to, byte by byte.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::Url;

/// Answers one connection after the other, one request each.
pub(crate) struct ScriptedServer {
    port: u16,
    serving: JoinSet<Vec<String>>,
}

impl ScriptedServer {
    /// Sends `replies` in turn, and then accepts no more.
    pub(crate) async fn new(replies: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut requests = Vec::new();
            for reply in replies {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !is_whole(&request) {
                    assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "the request ends early");
                }
                requests.push(String::from_utf8(request).unwrap());
                // A client that has read enough may be gone.
                let _ = stream.write_all(&reply).await;
                let _ = stream.shutdown().await;
            }
            requests
        });
        Self { port, serving }
    }

    /// A URL of it, whose host is `host`.
    pub(crate) fn url(&self, host: &str, path: &str) -> Url {
        Url::parse(&format!("http://{host}:{}{path}", self.port)).unwrap()
    }

    /// The requests, once all replies are sent.
    pub(crate) async fn requests(mut self) -> Vec<String> {
        self.serving.join_next().await.unwrap().unwrap()
    }
}

/// A reply with a length.
pub(crate) fn reply(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Whatever\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    body.len() >= length
}
