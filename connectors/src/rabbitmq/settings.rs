//! How a client of one virtual host connects: host, protocol, TLS, authentication, from metadata and credential.
//!
//! Invariants:
//! - Where metadata and credential both say something, metadata wins, but for what names an endpoint (`host`,
//!   `oauthTokenURI`): a credential that names one is sent to no other.
//! - What a credential that is not read yet may hold is not demanded yet.
//! - The scheme of `host` decides whether there is TLS. `tls: enable` with a scheme that has none is an error, and not a
//!   connection without it.

use std::time::Duration;

use secrecy::SecretString;

use super::address::{Host, PROTOCOLS, Protocol, is_vhost};
use crate::{
    http,
    metadata::{ParameterError, Parameters},
    tls::TlsSettings,
};

/// How a client of one virtual host connects.
pub struct Settings {
    pub(super) host: Host,
    pub(super) tls: TlsSettings,
    pub(super) auth: Auth,
    /// `timeout`: of one request.
    pub(super) timeout: Option<Duration>,
}

/// How a client authenticates.
pub(super) enum Auth {
    /// Not at all over HTTP; as RabbitMQ's own `guest` over AMQP.
    None,
    /// A user and a password: basic over HTTP, PLAIN over AMQP.
    Login { username: SecretString, password: SecretString },
    /// The client certificate (SASL EXTERNAL), over AMQP.
    External,
    /// A bearer token by the client credentials grant, over HTTP.
    OAuth(OAuth),
}

/// What a token is asked for with.
pub(super) struct OAuth {
    pub(super) endpoint: http::Url,
    pub(super) client_id: SecretString,
    pub(super) client_secret: SecretString,
    pub(super) scopes: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
}

/// What parameters say alone, before they are put together.
struct Parts<'a> {
    host: Option<Host>,
    protocol: Option<Protocol>,
    tls_enabled: bool,
    tls: TlsSettings,
    login: Option<(SecretString, SecretString)>,
    oauth: Option<OAuth>,
    oauth_named: bool,
    timeout: Option<Duration>,
    parameters: Parameters<'a>,
}

impl Settings {
    /// Reads the parameters. `None` while the credential is still to be read: then only what is there is checked.
    pub fn read(parameters: Parameters<'_>) -> Result<Option<Self>, ParameterError> {
        if parameters.text("workloadIdentityResource").is_some() {
            const PROBLEM: &str =
                "Azure's workload identity is not supported; use oauthTokenURI, clientID and clientSecret";
            return Err(ParameterError::new("workloadIdentityResource", PROBLEM));
        }
        let parts = Parts::read(parameters)?;
        parts.check()?;
        Ok(parts.settings())
    }

    /// The protocol that it speaks.
    pub fn protocol(&self) -> Protocol {
        self.host.scheme.protocol
    }
}

impl<'a> Parts<'a> {
    fn read(parameters: Parameters<'a>) -> Result<Self, ParameterError> {
        let vhost = parameters.text("vhostName");
        if !vhost.is_none_or(is_vhost) {
            return Err(ParameterError::new(
                "vhostName",
                "must be a name of at most 255 bytes without control characters",
            ));
        }
        let host = match parameters.endpoint("host")? {
            Some(text) => Some(Host::read(text, vhost)?),
            None if parameters.complete() => return Err(ParameterError::new("host", "missing required parameter")),
            None => None,
        };
        let said = parameters.choice("protocol", PROTOCOLS, None)?;
        let protocol = said.or(host.as_ref().map(|host| host.scheme.protocol));
        if host.as_ref().is_some_and(|host| Some(host.scheme.protocol) != protocol) {
            return Err(ParameterError::new("protocol", "does not go with the scheme of host"));
        }
        let (oauth, oauth_named) = oauth(parameters)?;
        Ok(Self {
            host,
            protocol,
            tls_enabled: parameters.choice("tls", &[("enable", true), ("disable", false)], false)?,
            tls: TlsSettings::read(parameters)?,
            login: login(parameters)?,
            oauth,
            oauth_named,
            timeout: parameters.duration("timeout")?.filter(|timeout| !timeout.is_zero()),
            parameters,
        })
    }

    /// What does not go together.
    fn check(&self) -> Result<(), ParameterError> {
        let refuse = |key: &'static str, problem: &'static str| Err(ParameterError::new(key, problem));
        if self.protocol == Some(Protocol::Amqp) {
            if self.oauth_named {
                return refuse("oauthTokenURI", "needs the http protocol");
            }
            if self.timeout.is_some() {
                return refuse("timeout", "needs the http protocol; over amqp a sample has 7 s");
            }
        }
        if self.oauth_named && ["username", "password"].iter().any(|key| self.parameters.text(key).is_some()) {
            return refuse("oauthTokenURI", "cannot be combined with username and password");
        }
        if self.tls_enabled && self.host.as_ref().is_some_and(|host| !host.scheme.tls) {
            return refuse("tls", "enable needs a host that starts with amqps:// or https://");
        }
        Ok(())
    }

    fn settings(self) -> Option<Settings> {
        let host = self.host.filter(|_| self.parameters.complete())?;
        let certificate = self.tls_enabled && self.tls.identity.is_some() && host.scheme.protocol == Protocol::Amqp;
        let auth = match (self.oauth, self.login) {
            (Some(oauth), _) => Auth::OAuth(oauth),
            (None, Some((username, password))) => Auth::Login { username, password },
            (None, None) if certificate && host.password.is_none() => Auth::External,
            (None, None) => match (&host.username, &host.password) {
                (None, None) => Auth::None,
                (username, password) => Auth::Login {
                    username: username.clone().unwrap_or_default(),
                    password: password.clone().unwrap_or_default(),
                },
            },
        };
        Some(Settings { host, tls: self.tls, auth, timeout: self.timeout })
    }
}

/// Both or none. The credential may still have what is missing.
fn login(parameters: Parameters<'_>) -> Result<Option<(SecretString, SecretString)>, ParameterError> {
    match (parameters.secret("username")?, parameters.secret("password")?) {
        (Some(username), Some(password)) => Ok(Some((username, password))),
        (Some(_), None) if parameters.complete() => Err(ParameterError::new("password", "missing: username needs it")),
        (None, Some(_)) if parameters.complete() => Err(ParameterError::new("username", "missing: password needs it")),
        _ => Ok(None),
    }
}

/// All three or none; and whether any is there.
fn oauth(parameters: Parameters<'_>) -> Result<(Option<OAuth>, bool), ParameterError> {
    const ENDPOINT: &str = "oauthTokenURI";
    let endpoint = parameters.endpoint(ENDPOINT)?.map(|text| http::url(ENDPOINT, text)).transpose()?;
    let id = parameters.secret("clientID")?;
    let secret = parameters.secret("clientSecret")?;
    let scopes = if parameters.text("scopes").is_some() { "scopes" } else { "scope" };
    let scopes = parameters.list(scopes).into_iter().filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    let form = parameters.text("endpointParams").map(form).transpose()?.unwrap_or_default();
    let named = endpoint.is_some() || id.is_some() || secret.is_some();
    match (endpoint, id, secret) {
        (Some(endpoint), Some(client_id), Some(client_secret)) => {
            Ok((Some(OAuth { endpoint, client_id, client_secret, scopes, parameters: form }), true))
        }
        (endpoint, id, _) if named && parameters.complete() => {
            let missing = if endpoint.is_none() {
                ENDPOINT
            } else if id.is_none() {
                "clientID"
            } else {
                "clientSecret"
            };
            Err(ParameterError::new(missing, "missing: oauthTokenURI, clientID and clientSecret belong together"))
        }
        _ => Ok((None, named)),
    }
}

/// A URL's query string: `a=1&b=2`.
fn form(text: &str) -> Result<Vec<(String, String)>, ParameterError> {
    let part = |text: &str| super::escape::decoded(&text.replace('+', " "));
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((part(key)?, part(value)?))
    };
    let pairs = text.split('&').filter(|text| !text.is_empty()).map(pair);
    pairs
        .collect::<Option<_>>()
        .ok_or_else(|| ParameterError::new("endpointParams", "must be percent-encoded pairs like a=1&b=2"))
}

#[cfg(test)]
mod tests;
