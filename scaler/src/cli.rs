//! The command line: `serve`, `check`, `demo`.

mod serve;

use std::{error::Error, io::stdout, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Parser, Subcommand};
use tidegate_connectors::{clock::SystemClock, credentials::is_dns_label};
use tracing::Level;

use crate::{
    check,
    config::{Config, ConfigError, Overrides},
    credentials::{Directory, Layout, NoCredentials, Provider},
};

/// Why a command ended before its work was done.
pub type CommandError = Box<dyn Error + Send + Sync>;

/// Scales Workers to zero and back: an external scaler for KEDA.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What is logged: error, warn, info, debug, trace, or directives like `info,tidegate::store=debug`.
    /// The variable `TIDEGATE_LOG` says the same [default: info; of demo: warn]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answers KEDA.
    Serve(Serve),
    /// Measures the triggers of `ScaledObject` and `ScaledJob` files once, and explains each.
    ///
    /// Exit code 0: all were measured; 1: one failed; 2: a file could not be read.
    Check(Check),
    /// Shows a Worker go 0 -> N -> 0 on an embedded Kafka, in under a minute, with nothing installed.
    #[cfg(feature = "demo")]
    Demo,
}

/// The flags of `serve`. They win over the file.
#[derive(Debug, Args)]
pub struct Serve {
    /// The configuration (YAML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the gRPC service listens [default: 127.0.0.1:9090].
    #[arg(long, value_name = "ADDRESS")]
    pub grpc_listen: Option<SocketAddr>,
    /// Where the HTTP pages are served [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    pub http_listen: Option<SocketAddr>,
    /// Reads credentials from `DIR/<namespace>/<credentialsRef>/<key>`.
    #[arg(long, value_name = "DIR")]
    pub credentials_dir: Option<PathBuf>,
    /// Allows a plaintext gRPC listener that other machines can reach.
    #[arg(long)]
    pub insecure: bool,
}

/// The flags of `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// YAML files, each of one or more `ScaledObject` and `ScaledJob` documents.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Reads credentials from `DIR/<namespace>/<credentialsRef>/<key>`.
    #[arg(long, value_name = "DIR")]
    pub credentials_dir: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    pub output: check::Output,
    /// The namespace of objects that name none.
    #[arg(long, value_name = "NAMESPACE", default_value = "default", value_parser = namespace)]
    pub namespace: String,
}

impl Command {
    /// What is logged unless a filter says otherwise. What the demo prints is its own report.
    pub fn log_level(&self) -> Level {
        match self {
            #[cfg(feature = "demo")]
            Self::Demo => Level::WARN,
            Self::Serve(_) | Self::Check(_) => Level::INFO,
        }
    }

    /// Does it, to the end.
    pub async fn run(self) -> Result<ExitCode, CommandError> {
        match self {
            Self::Serve(flags) => serve::serve(&flags.config()?).await.map(|()| ExitCode::SUCCESS),
            Self::Check(flags) => {
                let credentials = credentials(flags.credentials_dir)?;
                let options = check::Options { files: flags.files, output: flags.output, namespace: flags.namespace };
                Ok(check::run(&options, credentials, &mut stdout()).await)
            }
            #[cfg(feature = "demo")]
            Self::Demo => crate::demo::run().await.map(|()| ExitCode::SUCCESS),
        }
    }
}

impl Serve {
    /// The file's configuration with these flags.
    pub fn config(self) -> Result<Config, ConfigError> {
        let flags = Overrides {
            grpc_listen: self.grpc_listen,
            http_listen: self.http_listen,
            credentials_dir: self.credentials_dir,
            insecure: self.insecure,
        };
        Config::load(self.config.as_deref(), flags)
    }
}

/// The provider that reads `directory`, or the one that has nothing.
fn credentials(directory: Option<PathBuf>) -> Result<Arc<dyn Provider>, CommandError> {
    let Some(path) = directory else { return Ok(Arc::new(NoCredentials)) };
    let shown = path.display().to_string();
    match Directory::open(path, Layout::OneCluster, Arc::new(SystemClock)) {
        Ok(directory) => Ok(Arc::new(directory)),
        Err(error) => Err(format!("credentials directory {shown}: {error}").into()),
    }
}

fn namespace(text: &str) -> Result<String, &'static str> {
    if is_dns_label(text) { Ok(text.to_owned()) } else { Err("a namespace is 1 to 63 of a-z, 0-9 and '-'") }
}

#[cfg(test)]
mod tests;
