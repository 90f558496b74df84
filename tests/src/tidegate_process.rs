//! The `tidegate` command as a process, built once for all tests.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::OnceCell,
    time::{Instant, sleep, timeout},
};
use tonic::transport::{Channel, Endpoint};

use crate::{
    Result,
    harness::{Fixture, Unavailable},
    services::{Process, free_port, run_directory},
};

const START_DEADLINE: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(20);
const PAGE_DEADLINE: Duration = Duration::from_secs(10);

/// The command. Taken as an argument, it is built first, once, outside the test's deadline.
#[derive(Clone, Debug)]
pub struct TidegateCommand(PathBuf);

impl Fixture for TidegateCommand {
    async fn acquire() -> Result<Self, Unavailable> {
        static BUILT: OnceCell<Result<PathBuf, String>> = OnceCell::const_new();
        let first = async || {
            let building = tokio::task::spawn_blocking(build).await;
            building.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        };
        let built = BUILT.get_or_init(first).await.clone();
        built.map(Self).map_err(|reason| Unavailable { service: "the tidegate command", reason })
    }
}

impl TidegateCommand {
    /// Runs it to its end, without the variables of this process that it reads.
    pub async fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
        let mut command = tokio::process::Command::new(&self.0);
        command.args(arguments).env_remove("TIDEGATE_LOG").envs(variables.iter().copied());
        Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
    }
}

/// Asks cargo, which knows where it puts it. The features are the whole workspace's, as in `make test`, so that little is
/// built twice.
fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--workspace", "--bin", "tidegate"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(format!("tidegate was not built:\n{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let messages = String::from_utf8(output.stdout)?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "tidegate").then(|| message["executable"].as_str().map(PathBuf::from))?
    });
    executables.next_back().ok_or_else(|| "cargo names no executable".into())
}

/// A folder of one test, gone at its end.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder. Its name must be no other test's.
    pub fn new(test: &str) -> Result<Self> {
        let path = run_directory()?.join(test);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// A path in it.
    pub fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// Writes a file, and makes the folders that it is in.
    pub fn write(&self, below: &str, content: &str) -> Result<PathBuf> {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
        std::fs::write(&path, content)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `tidegate serve`, ready, on loopback ports of its own.
pub struct Serving {
    /// The process.
    pub process: Process,
    /// Where it serves gRPC.
    pub grpc: SocketAddr,
    /// Where it serves its HTTP pages.
    pub http: SocketAddr,
    log: PathBuf,
}

impl Serving {
    /// Starts it with `more` arguments, and waits until it is ready.
    pub async fn start(command: &TidegateCommand, folder: &Folder, more: &[&str]) -> Result<Self> {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (grpc, http) = (loopback(free_port()?), loopback(free_port()?));
        let addresses = [grpc.to_string(), http.to_string()];
        let mut arguments = vec!["serve", "--grpc-listen", &addresses[0], "--http-listen", &addresses[1]];
        arguments.extend(more);
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        let log = folder.path("log");
        let process = Process::start("tidegate", &log, &path_text(&command.0)?, &arguments)?;
        let mut serving = Self { process, grpc, http, log };
        let until = Instant::now() + START_DEADLINE;
        while !matches!(serving.page("/readyz").await, Ok((200, _))) {
            if serving.process.ended()?.is_some() || Instant::now() > until {
                return Err(format!("tidegate is not ready\n{}", serving.process.log_tail()).into());
            }
            sleep(START_POLL).await;
        }
        Ok(serving)
    }

    /// A connection to its gRPC service.
    pub async fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(format!("http://{}", self.grpc))?.connect().await?)
    }

    /// Status and body of a page.
    pub async fn page(&self, path: &str) -> Result<(u16, String)> {
        timeout(PAGE_DEADLINE, page(self.http, path)).await?
    }

    /// What it has logged so far.
    pub fn logged(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }
}

/// The path as an argument.
pub fn path_text(path: &Path) -> Result<String> {
    Ok(path.to_str().ok_or("a path that is not UTF-8")?.to_owned())
}

/// Status and body of a page of the server at `address`.
async fn page(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("not HTTP")?;
    let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok((status, body.to_owned()))
}
