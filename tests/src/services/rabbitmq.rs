//! A real RabbitMQ node with the management plugin: AMQP and HTTP, each with and without TLS, on loopback.
//!
//! Invariants:
//! - A node keeps its ports and its data over a restart.
//! - It has an `epmd` of its own, so that nothing of it is seen by, or left to, another node of the machine.
//! - A method that starts something returns when the node answers on every port.

mod admin;
mod shared;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::sleep;

pub use admin::Admin;
pub(super) use shared::stop;
pub use shared::{ExclusiveRabbitMq, SharedRabbitMq};

use super::{Identity, Pki, Process, free_port, run_directory};
use crate::Result;

/// Debian's; the wrapper in the path would run it as another user.
const SCRIPTS: &str = "/usr/lib/rabbitmq/bin";
const READY_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(30);
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// The user that may do everything.
pub const ADMINISTRATOR: &str = "guest";
/// A user who may read the management API, and every virtual host.
pub const READER: &str = "reader";
/// A user who may read every virtual host, and not the management API.
pub const WITHOUT_TAG: &str = "without-tag";
/// A user who may read the management API, and no virtual host.
pub const WITHOUT_RIGHTS: &str = "without-rights";
/// The password of each but the administrator's, which is its name.
pub const PASSWORD: &str = "p@ss/word:%41";
/// The common name of the client's certificate: a user without a password.
pub const CERTIFIED: &str = "certified";

/// A running node. Dropping it kills it and removes its data.
pub struct RabbitMqNode {
    directory: PathBuf,
    ports: Ports,
    pki: Pki,
    client: Identity,
    process: Option<Process>,
    ready_in: Duration,
    /// Last, so that the node ends before it.
    _epmd: Process,
}

#[derive(Clone, Copy)]
struct Ports {
    amqp: u16,
    amqps: u16,
    http: u16,
    https: u16,
    distribution: u16,
    epmd: u16,
}

impl RabbitMqNode {
    /// Starts a node, makes the users, and waits until every port answers.
    pub async fn start() -> Result<Self> {
        if !Path::new(SCRIPTS).join("rabbitmq-server").exists() {
            return Err("RabbitMQ is not installed: run `make rabbitmq`".into());
        }
        let begun = Instant::now();
        let ports = Ports {
            amqp: free_port()?,
            amqps: free_port()?,
            http: free_port()?,
            https: free_port()?,
            distribution: free_port()?,
            epmd: free_port()?,
        };
        let directory = run_directory()?.join(format!("rabbitmq-{}", ports.amqp));
        std::fs::create_dir_all(&directory)?;
        let pki = Pki::new("Tidegate tests' RabbitMQ")?;
        let server = pki.server(&["localhost", "127.0.0.1"])?;
        for (name, text) in [
            ("ca.pem", pki.ca_pem()),
            ("server.pem", server.certificate),
            ("server.key", server.key),
            ("plugins", "[rabbitmq_management,rabbitmq_auth_mechanism_ssl].".to_owned()),
            ("rabbitmq.conf", configuration(&directory, ports)),
        ] {
            std::fs::write(directory.join(name), text)?;
        }
        let epmd = ["-address", "127.0.0.1", "-port", &ports.epmd.to_string()].map(str::to_owned);
        let epmd = Process::start("epmd", &directory.join("epmd.log"), "epmd", &epmd)?;
        let client = pki.client(CERTIFIED, None)?;
        let mut node = Self { directory, ports, pki, client, process: None, ready_in: Duration::ZERO, _epmd: epmd };
        node.start_again().await?;
        node.make_users().await?;
        node.ready_in = begun.elapsed();
        Ok(node)
    }

    /// How long the start took, until the node was ready.
    pub fn ready_in(&self) -> Duration {
        self.ready_in
    }

    /// `amqp://user:password@host:port`, without a path.
    pub fn amqp(&self, user: &str) -> String {
        format!("amqp://{}@127.0.0.1:{}", login(user), self.ports.amqp)
    }

    /// `amqps://host:port`, without credentials and without a path.
    pub fn amqps(&self) -> String {
        format!("amqps://localhost:{}", self.ports.amqps)
    }

    /// `http://user:password@host:port`, without a path.
    pub fn http(&self, user: &str) -> String {
        format!("http://{}@127.0.0.1:{}", login(user), self.ports.http)
    }

    /// `https://user:password@host:port`, without a path.
    pub fn https(&self, user: &str) -> String {
        format!("https://{}@localhost:{}", login(user), self.ports.https)
    }

    /// The port of the management API.
    pub fn http_port(&self) -> u16 {
        self.ports.http
    }

    /// The authority's certificate, as PEM.
    pub fn ca_pem(&self) -> String {
        self.pki.ca_pem()
    }

    /// A client's certificate that is a user ([`CERTIFIED`]).
    pub fn client(&self) -> &Identity {
        &self.client
    }

    /// The management API, as the administrator.
    pub fn admin(&self) -> Admin {
        Admin::new(self.ports.http)
    }

    /// Sends the node a signal by its name.
    pub fn signal(&mut self, signal: &str) -> Result {
        self.process.as_mut().ok_or("the node is stopped")?.signal(signal)
    }

    /// Stops the node, which keeps its data.
    pub async fn stop(&mut self) -> Result {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.signal("TERM")?;
        process.wait(STOP_DEADLINE).await.map(drop)
    }

    /// Starts the node again after [`RabbitMqNode::stop`].
    pub async fn start_again(&mut self) -> Result {
        if self.process.is_none() {
            let arguments = [self.environment(), vec![format!("{SCRIPTS}/rabbitmq-server")]].concat();
            self.process = Some(Process::start("rabbitmq", &self.directory.join("log"), "env", &arguments)?);
        }
        self.ready().await
    }

    /// Evaluates an Erlang expression on the node.
    pub async fn eval(&self, expression: &str) -> Result<String> {
        let output = tokio::process::Command::new("env")
            .args(self.environment())
            .args([&format!("{SCRIPTS}/rabbitmqctl"), "eval", expression])
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(text) } else { Err(text.into()) }
    }

    fn environment(&self) -> Vec<String> {
        let (directory, ports) = (self.directory.display(), self.ports);
        let cookie = "-setcookie tidegate-tests";
        [
            ("HOME", format!("{directory}")),
            ("RUNNING_UNDER_SYSTEMD", "true".to_owned()), // the script becomes the node, so that signals reach it
            ("RABBITMQ_NODENAME", format!("tidegate-{}@localhost", ports.amqp)),
            ("RABBITMQ_CONFIG_FILE", format!("{directory}/rabbitmq.conf")),
            ("RABBITMQ_CONF_ENV_FILE", format!("{directory}/none")),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", format!("{directory}/none")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", format!("{directory}/plugins")),
            ("RABBITMQ_MNESIA_BASE", format!("{directory}/data")),
            ("RABBITMQ_LOG_BASE", format!("{directory}/logs")),
            ("RABBITMQ_DIST_PORT", ports.distribution.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            ("ERL_EPMD_PORT", ports.epmd.to_string()),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                format!("-start_epmd false -kernel inet_dist_use_interface {{127,0,0,1}} {cookie}"),
            ),
            ("RABBITMQ_CTL_ERL_ARGS", cookie.to_owned()),
        ]
        .map(|(name, value)| format!("{name}={value}"))
        .into()
    }

    async fn ready(&mut self) -> Result {
        let until = Instant::now() + READY_DEADLINE;
        let (admin, ports) = (self.admin(), self.ports);
        loop {
            let mut ready = admin.get("/api/overview").await.is_ok();
            for port in [ports.amqp, ports.amqps, ports.https] {
                ready = ready && TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            }
            let process = self.process.as_mut().ok_or("the node is stopped")?;
            match (ready, process.ended()?) {
                (true, _) => return Ok(()),
                (false, None) if Instant::now() < until => sleep(ASK_PAUSE).await,
                _ => return Err(format!("RabbitMQ is not ready\n{}", process.log_tail()).into()),
            }
        }
    }

    async fn make_users(&self) -> Result {
        let admin = self.admin();
        for (user, tags) in [(READER, "management"), (WITHOUT_TAG, ""), (WITHOUT_RIGHTS, "management")] {
            admin.put(&format!("/api/users/{user}"), &serde_json::json!({"password": PASSWORD, "tags": tags})).await?;
        }
        admin.put(&format!("/api/users/{CERTIFIED}"), &serde_json::json!({"password_hash": "", "tags": ""})).await
    }
}

impl Drop for RabbitMqNode {
    fn drop(&mut self) {
        drop(self.process.take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// `user:password`, percent-encoded.
fn login(user: &str) -> String {
    let password = if user == ADMINISTRATOR { ADMINISTRATOR } else { "p%40ss%2Fword%3A%2541" };
    format!("{user}:{password}")
}

fn configuration(directory: &Path, ports: Ports) -> String {
    let (directory, Ports { amqp, amqps, http, https, .. }) = (directory.display(), ports);
    let tls = |prefix: &str| {
        format!(
            "{prefix}.cacertfile = {directory}/ca.pem\n{prefix}.certfile = {directory}/server.pem\n\
             {prefix}.keyfile = {directory}/server.key\n"
        )
    };
    format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\nlisteners.ssl.1 = 127.0.0.1:{amqps}\n{}\
         ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n\
         ssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n\
         management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n\
         management.ssl.ip = 127.0.0.1\nmanagement.ssl.port = {https}\n{}\
         log.file = false\nlog.console = true\nlog.console.level = warning\n",
        tls("ssl_options"),
        tls("management.ssl"),
    )
}
