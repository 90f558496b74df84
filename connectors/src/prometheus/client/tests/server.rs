//! An HTTP/1.1 server on loopback that answers many requests at once, each by a function of the request, and counts.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::{JoinSet, yield_now},
};
use tokio_rustls::TlsAcceptor;

/// What is sent for one request.
pub enum Answer {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and then a chunk again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Nothing, and the connection stays open.
    Silence,
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Request line and headers.
    pub head: String,
    /// The form.
    pub body: String,
}

impl Request {
    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The server; it ends when it is dropped.
pub struct Server {
    port: u16,
    scheme: &'static str,
    seen: Arc<Seen>,
    _accepting: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
}

impl Server {
    /// Answers every request by `script`.
    pub async fn new(script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Box::new(script), None).await
    }

    /// The same over TLS.
    pub async fn with_tls(tls: TlsAcceptor, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::start(Box::new(script), Some(tls)).await
    }

    async fn start(script: Box<Script>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, scheme) = (listener.local_addr().unwrap().port(), if tls.is_some() { "https" } else { "http" });
        let seen = Arc::<Seen>::default();
        let (script, counted) = (Arc::<Script>::from(script), seen.clone());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.connections.fetch_add(1, Ordering::SeqCst);
                // Or the second part of a reply would wait for the first one's acknowledgement.
                stream.set_nodelay(true).unwrap();
                let (seen, script, tls) = (counted.clone(), script.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => serve(stream, &seen, &script).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &seen, &script).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, scheme, seen, _accepting: accepting }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.port)
    }

    /// The connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.seen.requests.lock().unwrap())
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Seen, script: &Arc<Script>) {
    while let Some(request) = read(&mut stream).await {
        seen.requests.lock().unwrap().push(request.clone());
        match script(&request) {
            Answer::Silence => std::future::pending().await,
            Answer::Endless(head, chunk) => {
                let mut sent = stream.write_all(&head).await;
                while sent.is_ok() {
                    sent = stream.write_all(&chunk).await;
                }
            }
            Answer::Bytes(bytes) => {
                // In two parts, as servers do that write the head first.
                let (head, body) = bytes.split_at(bytes.len() / 2);
                for part in [head, body] {
                    if stream.write_all(part).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                    yield_now().await;
                }
            }
        }
    }
}

/// One request; `None` at the connection's end.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = std::str::from_utf8(&bytes).ok()?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let request = Request { head: head.to_owned(), body: body.to_owned() };
        let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return Some(request);
        }
    }
}

/// A reply with a length.
pub fn reply(status: u16, headers: &str, body: &str) -> Answer {
    let head = format!("HTTP/1.1 {status} Whatever\r\n{headers}content-length: {}\r\n\r\n", body.len());
    Answer::Bytes(format!("{head}{body}").into_bytes())
}

/// A vector of one series.
pub fn value(value: &str) -> Answer {
    let series = format!(r#"{{"metric":{{}},"value":[1435781451.781,"{value}"]}}"#);
    reply(200, "", &format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#))
}
