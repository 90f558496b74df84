//! The server over real connections, called as KEDA calls it. Rows of `keda.md` A.21 have `a21` in their names.

mod calls;
mod ends;
mod proxy;
mod streams;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tidegate_proto::externalscaler::{IsActiveResponse, external_scaler_client::ExternalScalerClient};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tonic::{Streaming, transport::Channel};

use super::{Server, Settings, Timing};
use crate::{metrics::Metrics, service::testing::Scripted};

type Client = ExternalScalerClient<Channel>;

/// A server on free ports of the loopback interface.
struct Running {
    core: Scripted,
    metrics: Arc<Metrics>,
    grpc: SocketAddr,
    http: SocketAddr,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Running {
    async fn start() -> Self {
        Self::with(Timing::default()).await
    }

    async fn with(timing: Timing) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(&Settings { grpc: free, http: free, timing }).await.unwrap();
        let (grpc, http) = (server.grpc_address().unwrap(), server.http_address().unwrap());
        let (core, metrics, stop) = (Scripted::default(), Arc::<Metrics>::default(), CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(server.run(Arc::new(core.clone()), Arc::clone(&metrics), stop.clone().cancelled_owned()));
        Self { core, metrics, grpc, http, stop, task }
    }

    async fn client(&self) -> Client {
        client_of(self.grpc).await
    }

    /// Waits until the server has drained and returned.
    async fn stopped(mut self) -> Scripted {
        self.task.join_next().await.unwrap().unwrap();
        self.core
    }

    /// Status line and body of a page.
    async fn page(&self, path: &str) -> (String, String) {
        let mut io = TcpStream::connect(self.http).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        io.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        io.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

async fn client_of(address: SocketAddr) -> Client {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    ExternalScalerClient::new(channel.connect().await.unwrap())
}

/// Everything that a stream still sends, until it ends with OK.
async fn rest(mut stream: Streaming<IsActiveResponse>) -> Vec<bool> {
    let mut all = Vec::new();
    while let Some(message) = stream.message().await.expect("a stream ends with OK") {
        all.push(message.result);
    }
    all
}

const SOON: Duration = Duration::from_millis(50);
