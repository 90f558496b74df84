//! The configuration: a YAML file, and flags that win over it.
//!
//! Invariants:
//! - Every key has a default: an empty file, or none, is a configuration.
//! - A key that is not known, or a value that is wrong, stops the start with file, line and reason.
//! - A plaintext listener that other machines can reach is asked for by name, or refused.

mod values;

use std::{
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

/// The longest file that is read as a configuration.
const MAX_BYTES: u64 = 1024 * 1024;

/// Why there is no configuration. The texts are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file holds a key that is not known, or a value that is wrong.
    #[error("{}: {problem}", .file.display())]
    Wrong {
        /// The file.
        file: PathBuf,
        /// What is wrong, and in which line.
        problem: String,
    },
    /// A listener in plaintext that is not on loopback.
    #[error(
        "grpc.listen (--grpc-listen) {0} can be reached from other machines, in plaintext: whoever reaches it may ask \
         for any tenant's triggers; listen on loopback, or allow it with --insecure or `insecure: true`"
    )]
    Plaintext(SocketAddr),
}

/// How the service runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// The gRPC service.
    pub grpc: Grpc,
    /// The HTTP pages.
    pub http: Http,
    /// Where credentials come from.
    pub credentials: Credentials,
    /// What each tenant may use.
    pub limits: Limits,
    /// The bounds of `pollInterval`.
    pub poll: Poll,
    /// Allows a plaintext gRPC listener that is not on loopback.
    pub insecure: bool,
}

/// The gRPC service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Grpc {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// The HTTP pages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Http {
    /// Where they are served.
    pub listen: SocketAddr,
}

/// Where credentials come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "values::Credentials")]
pub enum Credentials {
    /// From nowhere: a trigger that names a credential is refused.
    #[default]
    None,
    /// From files: `<directory>/<namespace>/<name>/<key>`. A relative path starts in the working directory.
    Directory(PathBuf),
}

/// What each tenant may use, and the bounds of one trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// Triggers that are asked for.
    #[serde(deserialize_with = "values::limit")]
    pub triggers_per_tenant: NonZeroUsize,
    /// Endpoints that are polled.
    #[serde(deserialize_with = "values::limit")]
    pub endpoints_per_tenant: NonZeroUsize,
    /// Open push streams.
    #[serde(deserialize_with = "values::limit")]
    pub streams_per_tenant: NonZeroUsize,
    /// Partitions of one trigger.
    #[serde(deserialize_with = "values::limit")]
    pub partitions_per_trigger: NonZeroUsize,
    /// Calls in one second.
    #[serde(deserialize_with = "values::limit")]
    pub calls_per_second_per_tenant: NonZeroUsize,
}

/// The bounds of `pollInterval`: `min_interval` is not zero, and at most `max_interval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "values::Poll")]
pub struct Poll {
    /// The shortest.
    pub min_interval: Duration,
    /// The longest.
    pub max_interval: Duration,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 9090)) }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 8080)) }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let limit = |limit| NonZeroUsize::new(limit).expect("the defaults are not zero");
        Self {
            triggers_per_tenant: limit(1000),
            endpoints_per_tenant: limit(64),
            streams_per_tenant: limit(2000),
            partitions_per_trigger: limit(10_000),
            calls_per_second_per_tenant: limit(2000),
        }
    }
}

impl Default for Poll {
    fn default() -> Self {
        Self { min_interval: Duration::from_millis(500), max_interval: Duration::from_secs(300) }
    }
}

/// The flags of `serve` that win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Instead of `grpc.listen`.
    pub grpc_listen: Option<SocketAddr>,
    /// Instead of `http.listen`.
    pub http_listen: Option<SocketAddr>,
    /// Instead of `credentials`: the provider `directory`, and its directory.
    pub credentials_dir: Option<PathBuf>,
    /// Instead of `insecure: false`.
    pub insecure: bool,
}

impl Config {
    /// Reads `file`, if there is one; then the flags.
    pub fn load(file: Option<&Path>, flags: Overrides) -> Result<Self, ConfigError> {
        let config = match file {
            Some(file) => Self::parse(file, &read(file)?)?,
            None => Self::default(),
        };
        config.overridden(flags).checked()
    }

    fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let options = serde_saphyr::options! { with_snippet: false };
        // `None` is a file of comments, or of nothing.
        let config: Option<Self> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let problem = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
            ConfigError::Wrong { file: file.to_owned(), problem }
        })?;
        Ok(config.unwrap_or_default())
    }

    fn overridden(mut self, flags: Overrides) -> Self {
        self.grpc.listen = flags.grpc_listen.unwrap_or(self.grpc.listen);
        self.http.listen = flags.http_listen.unwrap_or(self.http.listen);
        self.credentials = flags.credentials_dir.map_or(self.credentials, Credentials::Directory);
        self.insecure |= flags.insecure;
        self
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let listen = self.grpc.listen;
        if listen.ip().to_canonical().is_loopback() || self.insecure {
            Ok(self)
        } else {
            Err(ConfigError::Plaintext(listen))
        }
    }
}

fn read(file: &Path) -> Result<String, ConfigError> {
    use io::Read;
    let unreadable = |error| ConfigError::Unreadable { file: file.to_owned(), error };
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let read = opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if read as u64 > MAX_BYTES {
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 1 MiB")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
