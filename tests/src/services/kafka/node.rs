//! One node of a cluster: its directory, its files and its Java process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::config::{self, BrokerConfig, CLUSTER_ID, SASL_PASSWORD, SASL_USER, SASL_USER_WITHOUT_RIGHTS};
use crate::Result;
use crate::services::{Pki, Process};

pub(super) const KEY_STORE: &str = "server.pem";
pub(super) const TRUST_STORE: &str = "ca.pem";

/// The one place that names the version; `make kafka` reads it too.
const POM: &str = include_str!("../../../services/kafka/pom.xml");
const FORMAT_DEADLINE: Duration = Duration::from_secs(60);

/// Small and quick to start: a broker of the tests lives for minutes.
const JVM_OPTIONS: [&str; 5] = [
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// How to run a class of Kafka's.
pub(super) struct Jvm {
    jars: PathBuf,
}

impl Jvm {
    /// Finds the jars that `make kafka` put into the cache.
    pub(super) fn find() -> Result<Self> {
        let version =
            POM.split_once("<kafka.version>").and_then(|(_, rest)| rest.split_once('<')).ok_or("no version")?.0;
        let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
        let jars = Path::new(&home).join(format!(".cache/tidegate/kafka-{version}"));
        if !jars.join(".complete").exists() {
            return Err(format!("Kafka {version} is not installed: run `make kafka`").into());
        }
        Ok(Self { jars })
    }

    fn start(&self, name: &str, log: &Path, class: &str, arguments: &[&str]) -> Result<Process> {
        let mut all: Vec<String> = JVM_OPTIONS.iter().map(|&option| option.to_owned()).collect();
        all.push(format!("-XX:SharedArchiveFile={}", self.jars.join("classes.jsa").display()));
        all.extend(["-cp".to_owned(), format!("{}/*", self.jars.display()), class.to_owned()]);
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Process::start(name, log, "java", &all)
    }

    /// Starts the node whose directory is `name` in the cluster's directory.
    pub(super) fn start_node(&self, name: &str, cluster: &Path) -> Result<Process> {
        let home = cluster.join(name);
        let properties = home.join("server.properties");
        let properties = properties.to_str().ok_or("the directory's name is not UTF-8")?;
        self.start(name, &home.join("log"), "kafka.Kafka", &[properties])
    }
}

/// Writes the brokers' certificate and the authority's.
pub(super) fn write_stores(directory: &Path, pki: &Pki) -> Result {
    let server = pki.server(&["localhost", "127.0.0.1"])?;
    std::fs::write(directory.join(KEY_STORE), server.key + &server.certificate)?;
    std::fs::write(directory.join(TRUST_STORE), pki.ca_pem())?;
    Ok(())
}

/// Formats the controller's storage, with the SCRAM users in it, and starts it.
pub(super) async fn start_controller(jvm: &Jvm, cluster: &Path, port: u16) -> Result<Process> {
    let home = cluster.join("controller");
    std::fs::create_dir_all(&home)?;
    let properties = home.join("server.properties");
    std::fs::write(&properties, config::controller(&home.join("data"), port))?;
    let properties = properties.to_str().ok_or("the directory's name is not UTF-8")?;
    let mut arguments = vec!["format".to_owned(), "-t".into(), CLUSTER_ID.into(), "-c".into(), properties.to_owned()];
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        for user in [SASL_USER, SASL_USER_WITHOUT_RIGHTS] {
            arguments.push("--add-scram".into());
            arguments.push(format!("{mechanism}=[name={user},password={SASL_PASSWORD}]"));
        }
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut format = jvm.start("format", &home.join("format.log"), "kafka.tools.StorageTool", &arguments)?;
    if !format.wait(FORMAT_DEADLINE).await?.success() {
        return Err(format!("the controller's storage could not be formatted\n{}", format.log_tail()).into());
    }
    jvm.start_node("controller", cluster)
}

/// Writes a new broker's configuration and formats its storage. A broker's storage has nothing but this file, and writing
/// it here saves a second of Java for each broker.
pub(super) fn prepare_broker(home: &Path, config: &BrokerConfig<'_>) -> Result {
    std::fs::create_dir_all(config.data)?;
    std::fs::write(home.join("server.properties"), config.text())?;
    let id = config.id;
    // A directory id is 16 bytes as unpadded base64.
    let meta = format!("version=1\ncluster.id={CLUSTER_ID}\nnode.id={id}\ndirectory.id=tidegate-broker-{id:03}AAA\n");
    std::fs::write(config.data.join("meta.properties"), meta)?;
    Ok(())
}
