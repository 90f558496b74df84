//! Proxies between a client and the server: one that loses the connection in silence, one that reads along.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// A proxy for one connection.
pub struct Proxy {
    pub address: SocketAddr,
    _task: JoinSet<()>,
}

/// After `frozen`, both connections stay open and nothing passes.
pub async fn freezing(server: SocketAddr, frozen: CancellationToken) -> Proxy {
    between(server, async move |mut client, mut server| {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {}
            () = frozen.cancelled() => std::future::pending().await,
        }
    })
    .await
}

/// A frame that the server sent: its type and its flags (RFC 9113, 4.1).
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
}

/// Tells what frames the server sends. The channel ends with the server's connection.
pub async fn reading(server: SocketAddr) -> (Proxy, mpsc::UnboundedReceiver<Frame>) {
    let (seen, frames) = mpsc::unbounded_channel();
    let proxy = between(server, async move |client, server| {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let answers = async {
            let mut head = [0; 9];
            while from_server.read_exact(&mut head).await.is_ok() {
                let [l0, l1, l2, kind, flags, ..] = head;
                let mut payload = vec![0; u32::from_be_bytes([0, l0, l1, l2]) as usize];
                from_server.read_exact(&mut payload).await.unwrap();
                seen.send(Frame { kind, flags }).unwrap();
                let _ = to_client.write_all(&[&head[..], &payload].concat()).await;
            }
        };
        tokio::select! {
            () = answers => {}
            () = async { let _ = tokio::io::copy(&mut from_client, &mut to_server).await; std::future::pending().await } => {}
        }
    });
    (proxy.await, frames)
}

async fn between<F>(server: SocketAddr, pass: impl FnOnce(TcpStream, TcpStream) -> F + Send + 'static) -> Proxy
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = JoinSet::new();
    task.spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(server).await.unwrap();
        pass(client, server).await;
    });
    Proxy { address, _task: task }
}
