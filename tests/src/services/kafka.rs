//! A real Kafka cluster in KRaft mode: one controller and some brokers, each a process of its own, so that killing any
//! broker leaves the cluster able to elect leaders.
//!
//! Invariants:
//! - A broker keeps its ports over a restart.
//! - A method that starts something returns when a client has seen it work.

mod config;
mod node;
mod ready;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use config::{SASL_PASSWORD, SASL_USER, SASL_USER_WITHOUT_RIGHTS};

use self::config::{BrokerConfig, CLIENT_NAME};
use self::node::Jvm;
use super::{Identity, Pki, Process, free_port, run_directory, runtime};
use crate::Result;
use crate::wire_count::WireCount;

/// How long a broker may take to end after SIGTERM: it hands over its leaderships first.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// A listener that every broker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// No authentication, no TLS. Brokers talk to each other here.
    Plaintext,
    /// PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER with unsigned tokens.
    SaslPlaintext,
    /// The same over TLS.
    SaslSsl,
    /// TLS; a client certificate is asked for, not required.
    Ssl,
    /// TLS with a required client certificate.
    MutualTls,
    /// Like [`Listener::Plaintext`], through the proxy that counts.
    Counted,
}

impl Listener {
    const ALL: [Self; 6] =
        [Self::Plaintext, Self::SaslPlaintext, Self::SaslSsl, Self::Ssl, Self::MutualTls, Self::Counted];

    fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
            Self::Ssl => "SSL",
            Self::MutualTls => "MTLS",
            Self::Counted => "COUNTED",
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Self::Plaintext | Self::Counted => "PLAINTEXT",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
            Self::Ssl | Self::MutualTls => "SSL",
        }
    }
}

#[derive(Debug)]
struct Broker {
    ports: BTreeMap<Listener, u16>,
    process: Option<Process>,
}

/// A running cluster. Dropping it kills its processes and removes its data.
pub struct KafkaCluster {
    directory: PathBuf,
    jvm: Jvm,
    controller_port: u16,
    brokers: BTreeMap<i32, Broker>,
    /// The brokers it was started with, by id.
    first_brokers: i32,
    pki: Pki,
    client: Identity,
    wire: WireCount,
    ready_in: Duration,
    /// Last, so that brokers end before it.
    controller: Process,
}

impl KafkaCluster {
    /// Starts a cluster whose brokers are numbered from 1, and waits until each of them answers a client.
    pub async fn start(brokers: usize) -> Result<Self> {
        let begun = Instant::now();
        let controller_port = free_port()?;
        let directory = run_directory()?.join(format!("kafka-{controller_port}"));
        std::fs::create_dir_all(&directory)?;
        let jvm = Jvm::find()?;
        let pki = Pki::new("Tidegate tests' Kafka")?;
        node::write_stores(&directory, &pki)?;
        let controller = node::start_controller(&jvm, &directory, controller_port).await?;
        let client = pki.client(CLIENT_NAME, None)?;
        let mut cluster = Self {
            directory,
            jvm,
            controller_port,
            brokers: BTreeMap::new(),
            first_brokers: i32::try_from(brokers)?,
            pki,
            client,
            wire: WireCount::default(),
            ready_in: Duration::ZERO,
            controller,
        };
        for id in 1..=cluster.first_brokers {
            cluster.launch_new(id)?;
        }
        cluster.ready().await?;
        cluster.ready_in = begun.elapsed();
        Ok(cluster)
    }

    /// How long the start took, until every broker answered.
    pub fn ready_in(&self) -> Duration {
        self.ready_in
    }

    /// Bootstrap servers of the listener without authentication; stopped brokers are listed too.
    pub fn bootstrap(&self) -> String {
        self.bootstrap_of(Listener::Plaintext)
    }

    /// Bootstrap servers of the listener with SASL and no TLS.
    pub fn sasl_bootstrap(&self) -> String {
        self.bootstrap_of(Listener::SaslPlaintext)
    }

    /// Bootstrap servers of the listener with TLS.
    pub fn ssl_bootstrap(&self) -> String {
        self.bootstrap_of(Listener::Ssl)
    }

    /// Bootstrap servers of any listener.
    pub fn bootstrap_of(&self, listener: Listener) -> String {
        let addresses: Vec<String> = self.brokers.keys().map(|&id| self.address(id, listener)).collect();
        addresses.join(",")
    }

    /// Where clients reach one listener of one broker, as `host:port`.
    ///
    /// # Panics
    /// If there never was such a broker.
    pub fn address(&self, id: i32, listener: Listener) -> String {
        let port = match listener {
            Listener::Counted => self.wire.port(id),
            _ => self.brokers[&id].ports[&listener],
        };
        format!("127.0.0.1:{port}")
    }

    /// The certificate of the authority that signed the brokers' certificates.
    pub fn ca_pem(&self) -> String {
        self.pki.ca_pem()
    }

    /// A client certificate that the brokers trust; its user may do everything.
    pub fn client(&self) -> &Identity {
        &self.client
    }

    /// What went through [`Listener::Counted`].
    pub fn wire(&self) -> &WireCount {
        &self.wire
    }

    /// The ids of the brokers that run.
    pub fn running(&self) -> Vec<i32> {
        self.brokers.iter().filter(|(_, broker)| broker.process.is_some()).map(|(&id, _)| id).collect()
    }

    /// Ends a broker with SIGKILL.
    pub async fn kill(&mut self, id: i32) -> Result {
        self.end(id, "KILL", KILL_DEADLINE).await
    }

    /// Ends a broker with SIGTERM: it hands over what it leads.
    pub async fn stop(&mut self, id: i32) -> Result {
        self.end(id, "TERM", STOP_DEADLINE).await
    }

    async fn end(&mut self, id: i32, signal: &str, deadline: Duration) -> Result {
        let broker = self.brokers.get_mut(&id).ok_or("no such broker")?;
        let process = broker.process.as_mut().ok_or("the broker does not run")?;
        process.signal(signal)?;
        process.wait(deadline).await?;
        broker.process = None;
        Ok(())
    }

    /// Stops a broker's process in place (SIGSTOP): its connections stay open and nothing answers.
    pub fn pause(&mut self, id: i32) -> Result {
        self.signal(id, "STOP")
    }

    /// Ends what [`Self::pause`] began.
    pub fn resume(&mut self, id: i32) -> Result {
        self.signal(id, "CONT")
    }

    fn signal(&mut self, id: i32, signal: &str) -> Result {
        let broker = self.brokers.get_mut(&id).ok_or("no such broker")?;
        broker.process.as_mut().ok_or("the broker does not run")?.signal(signal)
    }

    /// Starts a broker that was killed or stopped, on its ports and with its data; returns when all partitions are in sync.
    pub async fn start_broker(&mut self, id: i32) -> Result {
        self.launch(id)?;
        self.ready().await
    }

    /// Adds a broker and returns its id. It holds no partition until one is assigned to it.
    pub async fn add_broker(&mut self) -> Result<i32> {
        let id = self.brokers.keys().last().map_or(1, |last| last + 1);
        self.launch_new(id)?;
        self.ready().await?;
        Ok(id)
    }

    /// Brings the cluster back to what it was started as: all first brokers run and no other does.
    pub async fn restore(&mut self) -> Result {
        let ids: Vec<i32> = self.brokers.keys().copied().collect();
        for id in ids {
            let runs = self.brokers[&id].process.is_some();
            if runs {
                self.resume(id)?;
            }
            if id > self.first_brokers {
                if runs {
                    self.stop(id).await?;
                }
                self.brokers.remove(&id);
                crate::kafka_admin::unregister_broker(&self.bootstrap(), id).await?;
            } else if !runs {
                self.launch(id)?;
            }
        }
        self.ready().await
    }

    fn launch_new(&mut self, id: i32) -> Result {
        let ports = Listener::ALL.iter().map(|&listener| Ok((listener, free_port()?))).collect::<Result<_>>()?;
        self.brokers.insert(id, Broker { ports, process: None });
        let target = self.brokers[&id].ports[&Listener::Counted];
        let counted_port = self.wire.add(runtime(), id, target)?;
        let home = self.directory.join(format!("broker-{id}"));
        let config = BrokerConfig {
            id,
            data: &home.join("data"),
            controller_port: self.controller_port,
            ports: &self.brokers[&id].ports,
            counted_port,
            replicas: usize::try_from(self.first_brokers)?.min(3),
            key_store: &self.directory.join(node::KEY_STORE),
            trust_store: &self.directory.join(node::TRUST_STORE),
        };
        node::prepare_broker(&home, &config)?;
        self.launch(id)
    }

    fn launch(&mut self, id: i32) -> Result {
        let broker = self.brokers.get_mut(&id).ok_or("no such broker")?;
        if broker.process.is_none() {
            broker.process = Some(self.jvm.start_node(&format!("broker-{id}"), &self.directory)?);
        }
        Ok(())
    }

    async fn ready(&mut self) -> Result {
        let running = self.running();
        let addresses = running.iter().map(|&id| self.address(id, Listener::Plaintext)).collect();
        let seen = ready::wait(addresses, running.clone()).await;
        for id in running {
            let Some(process) = self.brokers.get_mut(&id).and_then(|broker| broker.process.as_mut()) else { continue };
            if seen.is_err() || process.ended()?.is_some() {
                let reason = seen.err().map_or_else(|| "it ended".into(), |error| error.to_string());
                return Err(format!("broker {id} is not ready: {reason}\n{}", process.log_tail()).into());
            }
        }
        seen
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        // Killed before their files go.
        self.brokers.clear();
        let _ = self.controller.signal("KILL");
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
