//! The configuration files of a Kafka cluster's nodes, as `server.properties` has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::Listener;

/// The user that every SASL mechanism of the cluster knows, and who may do everything.
pub const SASL_USER: &str = "admin";
/// The user that every SASL mechanism knows, and who may do nothing until a test gives it an ACL.
pub const SASL_USER_WITHOUT_RIGHTS: &str = "minimal";
/// The password of both.
pub const SASL_PASSWORD: &str = "sesame-8ba1f3";

/// The controller's node id; brokers are numbered from 1.
pub(super) const CONTROLLER_ID: i32 = 100;
pub(super) const CLUSTER_ID: &str = "tidegate-tests-kafkaAA";
/// The subject of the client certificate that [`super::KafkaCluster::client`] hands out.
pub(super) const CLIENT_NAME: &str = "tidegate-client";

/// What all nodes share. Clients that do not authenticate may do everything, so that only SASL users need ACLs.
fn common(id: i32, data: &Path, controller_port: u16) -> String {
    format!(
        "node.id={id}
log.dirs={}
controller.quorum.voters={CONTROLLER_ID}@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{SASL_USER};User:CN={CLIENT_NAME}
",
        data.display()
    )
}

pub(super) fn controller(data: &Path, port: u16) -> String {
    common(CONTROLLER_ID, data, port)
        + &format!(
            "process.roles=controller
listeners=CONTROLLER://127.0.0.1:{port}
broker.session.timeout.ms=3000
"
        )
}

/// What one broker differs in.
pub(super) struct BrokerConfig<'a> {
    pub id: i32,
    pub data: &'a Path,
    pub controller_port: u16,
    pub ports: &'a BTreeMap<Listener, u16>,
    /// The port of the counting proxy, which clients of [`Listener::Counted`] are told.
    pub counted_port: u16,
    /// How many replicas internal topics have.
    pub replicas: usize,
    /// The server's key and certificate in one PEM file, and the authority's certificate.
    pub key_store: &'a Path,
    pub trust_store: &'a Path,
}

impl BrokerConfig<'_> {
    pub(super) fn text(&self) -> String {
        [common(self.id, self.data, self.controller_port), self.listeners(), sasl(), self.tls(), self.timing()].concat()
    }

    fn listeners(&self) -> String {
        let mut listeners = Vec::new();
        let mut advertised = Vec::new();
        let mut protocols = vec!["CONTROLLER:PLAINTEXT".to_owned()];
        for (listener, port) in self.ports {
            let name = listener.name();
            let told = if *listener == Listener::Counted { self.counted_port } else { *port };
            listeners.push(format!("{name}://127.0.0.1:{port}"));
            advertised.push(format!("{name}://127.0.0.1:{told}"));
            protocols.push(format!("{name}:{}", listener.protocol()));
        }
        format!(
            "process.roles=broker
listeners={}
advertised.listeners={}
listener.security.protocol.map={}
inter.broker.listener.name=PLAINTEXT
",
            listeners.join(","),
            advertised.join(","),
            protocols.join(",")
        )
    }

    fn tls(&self) -> String {
        let mut text = String::new();
        for listener in [Listener::Ssl, Listener::MutualTls, Listener::SaslSsl] {
            let client_auth = match listener {
                Listener::MutualTls => "required",
                Listener::Ssl => "requested",
                _ => "none",
            };
            let prefix = format!("listener.name.{}", listener.name().to_lowercase());
            write!(
                text,
                "{prefix}.ssl.keystore.type=PEM
{prefix}.ssl.keystore.location={}
{prefix}.ssl.truststore.type=PEM
{prefix}.ssl.truststore.location={}
{prefix}.ssl.client.auth={client_auth}
",
                self.key_store.display(),
                self.trust_store.display()
            )
            .expect("a String takes everything");
        }
        text
    }

    /// Failures are seen soon, topics are small, and a broker is small. Topics are created on demand, as by default, so
    /// that a client which asks for that by mistake is found out.
    fn timing(&self) -> String {
        let replicas = self.replicas;
        format!(
            "broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=3000
auto.create.topics.enable=true
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
log.cleaner.dedupe.buffer.size=4194304
log.segment.delete.delay.ms=1000
num.network.threads=2
num.io.threads=4
background.threads=2
"
        )
    }
}

fn sasl() -> String {
    const SECURITY: &str = "org.apache.kafka.common.security";
    let mut text = String::from("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n");
    for listener in [Listener::SaslPlaintext, Listener::SaslSsl] {
        let prefix = format!("listener.name.{}", listener.name().to_lowercase());
        let mut jaas = |mechanism: &str, module: &str, options: &str| {
            writeln!(text, "{prefix}.{mechanism}.sasl.jaas.config={SECURITY}.{module} required{options};")
                .expect("a String takes everything");
        };
        let users = [SASL_USER, SASL_USER_WITHOUT_RIGHTS].map(|user| format!(" user_{user}=\"{SASL_PASSWORD}\""));
        jaas("plain", "plain.PlainLoginModule", &users.concat());
        jaas("scram-sha-256", "scram.ScramLoginModule", "");
        jaas("scram-sha-512", "scram.ScramLoginModule", "");
        // With no validator configured, Kafka takes unsigned tokens whose `sub` is the user (KIP-255).
        jaas("oauthbearer", "oauthbearer.OAuthBearerLoginModule", " unsecuredLoginStringClaim_sub=\"broker\"");
    }
    text
}
