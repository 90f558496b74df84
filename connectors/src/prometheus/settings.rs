//! How a Prometheus client asks: server, TLS, authentication, headers and parameters, from metadata and credential.
//!
//! Invariants:
//! - Where metadata and credential both say something, metadata wins, but for `serverAddress` and `oauthTokenURI`: a
//!   credential that names them is sent to no others.
//! - What a credential that is not read yet may hold is not demanded yet.
//! - An authentication mode that is named is applied, and none that is not: a key in the credential alone sends nothing.

mod authentication;

use std::time::Duration;

use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::pairs;
use crate::{
    http::{self, Url},
    metadata::{Metadata, ParameterError, Parameters},
    tls::{Identity, TlsSettings},
};

pub use authentication::{Modes, Scheme};

const SERVER: &str = "serverAddress";
const QUERY_PATH: &str = "/api/v1/query";

/// KEDA's `KEDA_HTTP_DEFAULT_TIMEOUT`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3);

/// Parameters of the request that are not `queryParameters`' to set. `time` is the server's own now.
const OWN_PARAMETERS: &[&str] = &["query", "time"];

/// Keys of identities that cloud providers give, and of what KEDA has dropped.
pub const REFUSED_KEYS: &[(&str, &str)] = &[
    ("awsRegion", NO_AWS),
    ("awsRoleArn", NO_AWS),
    ("awsAccessKeyID", NO_AWS),
    ("awsAccessKeyId", NO_AWS),
    ("awsSecretAccessKey", NO_AWS),
    ("awsSessionToken", NO_AWS),
    ("identityOwner", NO_AWS),
    ("GoogleApplicationCredentials", NO_GOOGLE),
    ("credentials", NO_GOOGLE), // `credentialsFromEnv`
    ("credentialsFromEnvFile", NO_GOOGLE),
    ("podIdentity", "AWS, Azure and Google identities are not supported yet; use authModes"),
    ("cortexOrgID", "is gone from KEDA too: the platform says whose data is read"),
];
const NO_AWS: &str = "AWS identities are not supported yet; use authModes";
const NO_GOOGLE: &str = "Google identities are not supported yet; use authModes";

/// How a client asks.
pub struct Settings {
    /// The query API's URL.
    pub url: Url,
    /// Used where the URL's scheme is `https`.
    pub tls: TlsSettings,
    /// What goes into `Authorization`.
    pub scheme: Scheme,
    /// All other headers; the values are not printed.
    pub headers: HeaderMap,
    /// Parameters of the URL, which may be secret.
    pub parameters: Vec<(String, SecretString)>,
    /// From a request's first byte to its reply's last.
    pub timeout: Duration,
    /// The modes' name in an error that tells of a rejected credential.
    pub mechanism: &'static str,
}

impl Settings {
    /// Reads the parameters. `None` while the credential is still to be read: then only what is there is checked.
    pub fn read(parameters: Parameters<'_>) -> Result<Option<Self>, ParameterError> {
        if let Some((key, problem)) = REFUSED_KEYS.iter().find(|(key, _)| parameters.text(key).is_some()) {
            return Err(ParameterError::new(*key, *problem));
        }
        let url = demand(parameters, SERVER, parameters.endpoint(SERVER)?)?.map(query_url).transpose()?;
        let modes = Modes::read(parameters)?;
        let tls = tls(parameters, modes)?;
        let scheme = modes.scheme(parameters)?;
        let mut headers = HeaderMap::new();
        for (name, value) in pairs::read(parameters, "customHeaders")? {
            pairs::add_header(&mut headers, "customHeaders", (&name, &value), false)?;
        }
        let mut request = request_parameters(parameters)?;
        modes.add_to(parameters, &mut headers, &mut request)?;
        let timeout = timeout(parameters)?;
        let all = url.zip(scheme).filter(|_| parameters.complete());
        Ok(all.map(|(url, scheme)| Self {
            url,
            tls,
            scheme,
            headers,
            parameters: request,
            timeout,
            mechanism: modes.mechanism(),
        }))
    }
}

/// Where it is, for people: host and port, and nothing that may be secret.
pub fn shown(metadata: &Metadata) -> String {
    let url = metadata.get(SERVER).and_then(|text| Url::parse(text).ok());
    url.and_then(|url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?)))
        .map_or_else(|| "by credential".to_owned(), |(host, port)| format!("{host}:{port}"))
}

/// An error if `value` is absent for good.
fn demand<T>(parameters: Parameters<'_>, key: &'static str, value: Option<T>) -> Result<Option<T>, ParameterError> {
    match value {
        None if parameters.complete() => Err(ParameterError::new(key, "missing required parameter")),
        value => Ok(value),
    }
}

/// The query API under `text`, with exactly one slash between them; `text` may name the API itself (cases.md B108).
fn query_url(text: &str) -> Result<Url, ParameterError> {
    let mut url = http::url(SERVER, text)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ParameterError::new(SERVER, "must not hold a user name or password: use authModes basic"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(ParameterError::new(SERVER, "must end with the path: parameters belong into queryParameters"));
    }
    let base = url.path().trim_end_matches('/');
    let path = format!("{}{QUERY_PATH}", base.strip_suffix(QUERY_PATH).unwrap_or(base));
    url.set_path(&path);
    Ok(url)
}

fn tls(parameters: Parameters<'_>, modes: Modes) -> Result<TlsSettings, ParameterError> {
    let mut identity = None;
    if modes.tls {
        let certificate = demand(parameters, "cert", parameters.pem("cert"))?;
        let key = demand(parameters, "key", parameters.pem("key"))?;
        if let (Some(certificate), Some(key)) = (certificate, key) {
            identity = Some(Identity { certificate, key, key_password: parameters.secret("keyPassword")? });
        }
    }
    Ok(TlsSettings { ca: parameters.pem("ca"), identity, insecure: parameters.boolean("unsafeSsl", false)? })
}

/// `queryParameters`. They go into the URL, encoded, where proxies that decide by them look for them.
fn request_parameters(parameters: Parameters<'_>) -> Result<Vec<(String, SecretString)>, ParameterError> {
    const KEY: &str = "queryParameters";
    let pairs = pairs::read(parameters, KEY)?;
    let taken = |name: &str| OWN_PARAMETERS.contains(&name) || (name == "namespace" && parameters.text(name).is_some());
    if let Some((name, _)) = pairs.iter().find(|(name, _)| taken(name)) {
        return Err(ParameterError::new(KEY, format!("must not set {name}")));
    }
    Ok(pairs.into_iter().map(|(name, value)| (name, SecretString::from(value))).collect())
}

/// `0` means the default, as in KEDA.
fn timeout(parameters: Parameters<'_>) -> Result<Duration, ParameterError> {
    let chosen = parameters.duration("timeout")?;
    Ok(chosen.filter(|timeout| !timeout.is_zero()).unwrap_or(DEFAULT_TIMEOUT))
}

#[cfg(test)]
mod tests;
