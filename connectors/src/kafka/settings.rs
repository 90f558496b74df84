//! How a Kafka client connects: bootstrap servers, TLS, SASL, from metadata and credential.
//!
//! Invariants:
//! - Where metadata and credential both say something, metadata wins, but for `bootstrapServers`: a credential that names
//!   its servers is sent to no others.
//! - What a credential that is not read yet may hold is not demanded yet.

use std::net::Ipv6Addr;

use secrecy::SecretString;

use crate::{
    metadata::{ParameterError, Parameters},
    tls::TlsSettings,
};

/// How a Kafka client connects.
#[derive(Clone)]
pub struct Settings {
    /// Host and port of each bootstrap server; an IPv6 address has no brackets.
    pub bootstrap: Vec<(String, u16)>,
    /// `None` for plain TCP.
    pub tls: Option<TlsSettings>,
    /// How it authenticates.
    pub sasl: Sasl,
}

/// How a Kafka client authenticates.
#[derive(Clone)]
pub enum Sasl {
    /// Not at all.
    None,
    /// PLAIN (RFC 4616).
    Plain(Login),
    /// SCRAM-SHA-256 (RFC 5802, RFC 7677).
    ScramSha256(Login),
    /// SCRAM-SHA-512.
    ScramSha512(Login),
    /// OAUTHBEARER (RFC 7628, KIP-255) with the client credentials grant.
    OAuthBearer(OAuth),
}

/// A user name and a password.
#[derive(Clone)]
pub struct Login {
    /// Not secret, but not printed either.
    pub username: SecretString,
    /// The password.
    pub password: SecretString,
}

/// The client credentials grant (RFC 6749, 4.4) for OAUTHBEARER.
#[derive(Clone)]
pub struct OAuth {
    /// `oauthTokenEndpointUri`.
    pub token_endpoint: String,
    /// Client id and secret.
    pub login: Login,
    /// `scopes`.
    pub scopes: Vec<String>,
    /// `oauthExtensions`: SASL extensions (KIP-342), key and value.
    pub extensions: Vec<(String, String)>,
}

/// `sasl`'s words.
#[derive(Clone, Copy)]
enum Mechanism {
    None,
    Plain,
    ScramSha256,
    ScramSha512,
    OAuthBearer,
}

const MECHANISMS: &[(&str, Mechanism)] = &[
    ("none", Mechanism::None),
    ("plaintext", Mechanism::Plain),
    ("scram_sha256", Mechanism::ScramSha256),
    ("scram_sha512", Mechanism::ScramSha512),
    ("oauthbearer", Mechanism::OAuthBearer),
];

/// Mechanisms of KEDA's that this client does not have.
const REFUSED: &[&str] = &["gssapi", "aws_msk_iam"];
const NOT_SUPPORTED: &str =
    "gssapi and aws_msk_iam are not supported yet; use scram_sha512, scram_sha256, plaintext or oauthbearer";

/// The most bootstrap servers: they are tried one after the other.
const MAX_SERVERS: usize = 64;

impl Settings {
    /// Reads the parameters. `None` while the credential is still to be read: then only what is there is checked.
    pub fn read(parameters: Parameters<'_>) -> Result<Option<Self>, ParameterError> {
        let bootstrap = bootstrap(parameters)?;
        let tls = tls(parameters)?;
        let sasl = sasl(parameters)?;
        let all = bootstrap.zip(sasl).filter(|_| parameters.complete());
        Ok(all.map(|(bootstrap, sasl)| Self { bootstrap, tls, sasl }))
    }
}

/// An error if `value` is absent for good.
fn demand<T>(parameters: Parameters<'_>, key: &'static str, value: Option<T>) -> Result<Option<T>, ParameterError> {
    match value {
        None if parameters.complete() => Err(ParameterError::new(key, "missing required parameter")),
        value => Ok(value),
    }
}

fn bootstrap(parameters: Parameters<'_>) -> Result<Option<Vec<(String, u16)>>, ParameterError> {
    const KEY: &str = "bootstrapServers";
    let Some(text) = demand(parameters, KEY, parameters.endpoint(KEY)?)? else { return Ok(None) };
    let servers: Vec<_> = text.split(',').collect();
    if servers.len() > MAX_SERVERS {
        return Err(ParameterError::new(KEY, format!("names more than {MAX_SERVERS} servers")));
    }
    servers.into_iter().map(|server| host_port(server.trim())).collect::<Option<_>>().map(Some).ok_or_else(|| {
        ParameterError::new(KEY, "must be a list of host:port, with an IPv6 address in brackets: [::1]:9092")
    })
}

/// Reads `host:port` or `[IPv6]:port`.
fn host_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port > 0)?;
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().ok().map(|address| (address.to_string(), port));
    }
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    ((1..=253).contains(&host.len()) && host.bytes().all(legal)).then(|| (host.to_owned(), port))
}

/// `None` for plain TCP, and then nothing else of TLS is looked at, as in KEDA.
fn tls(parameters: Parameters<'_>) -> Result<Option<TlsSettings>, ParameterError> {
    let enabled = parameters.choice("tls", &[("enable", true), ("disable", false)], false)?;
    if enabled {
        return TlsSettings::read(parameters).map(Some);
    }
    parameters.boolean("unsafeSsl", false)?;
    Ok(None)
}

/// `None` if a part of it is still to be read.
fn sasl(parameters: Parameters<'_>) -> Result<Option<Sasl>, ParameterError> {
    if parameters.text("sasl").is_some_and(|mechanism| REFUSED.contains(&mechanism)) {
        return Err(ParameterError::new("sasl", NOT_SUPPORTED));
    }
    let bearer = parameters.choice("saslTokenProvider", &[("bearer", true), ("aws_msk_iam", false)], true)?;
    Ok(match parameters.choice("sasl", MECHANISMS, Mechanism::None)? {
        Mechanism::None => Some(Sasl::None),
        Mechanism::Plain => login(parameters)?.map(Sasl::Plain),
        Mechanism::ScramSha256 => login(parameters)?.map(Sasl::ScramSha256),
        Mechanism::ScramSha512 => login(parameters)?.map(Sasl::ScramSha512),
        Mechanism::OAuthBearer if bearer => oauth(parameters)?.map(Sasl::OAuthBearer),
        Mechanism::OAuthBearer => {
            return Err(ParameterError::new("saslTokenProvider", "aws_msk_iam is not supported yet; use bearer"));
        }
    })
}

fn login(parameters: Parameters<'_>) -> Result<Option<Login>, ParameterError> {
    let username = demand(parameters, "username", parameters.secret("username")?)?;
    let password = demand(parameters, "password", parameters.secret("password")?)?;
    Ok(username.zip(password).map(|(username, password)| Login { username, password }))
}

fn oauth(parameters: Parameters<'_>) -> Result<Option<OAuth>, ParameterError> {
    const ENDPOINT: &str = "oauthTokenEndpointUri";
    let login = login(parameters)?;
    let endpoint = demand(parameters, ENDPOINT, parameters.endpoint(ENDPOINT)?)?;
    if endpoint.is_some_and(|endpoint| !is_http_url(endpoint)) {
        return Err(ParameterError::new(ENDPOINT, "must be a URL that starts with https:// or http://"));
    }
    let scopes = parameters.list("scopes").into_iter().filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    let extensions = extensions(parameters)?;
    Ok(login.zip(endpoint).map(|(login, endpoint)| OAuth {
        token_endpoint: endpoint.to_owned(),
        login,
        scopes,
        extensions,
    }))
}

fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// `key=value` pairs. `auth` is the token's own key, and a control character would end an extension (RFC 7628, 3.1).
fn extensions(parameters: Parameters<'_>) -> Result<Vec<(String, String)>, ParameterError> {
    const KEY: &str = "oauthExtensions";
    let pair = |text: &str| {
        let (key, value) = text.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        let legal = !key.is_empty() && key != "auth" && !value.contains('=') && !text.chars().any(char::is_control);
        legal.then(|| (key.to_owned(), value.to_owned()))
    };
    parameters
        .list(KEY)
        .into_iter()
        .map(pair)
        .collect::<Option<_>>()
        .ok_or_else(|| ParameterError::new(KEY, "must be a list of key=value, and the key not auth"))
}

#[cfg(test)]
mod tests;
