//! `host`: a URI with a scheme, and perhaps credentials, a base path and a virtual host.
//!
//! Invariants:
//! - It is read by hand, not by a URL library: none has the rules of KEDA and of AMQP URIs both, and some rewrite what they
//!   read (dots, backslashes, empty segments).
//! - Nothing of its credentials is in an error or in a text, encoded or decoded.
//! - A query is refused: over AMQP it would set buffer sizes and switch heartbeats off.

use std::net::Ipv6Addr;

use secrecy::SecretString;

use super::escape;
use crate::metadata::ParameterError;

/// How the broker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// AMQP 0-9-1: ready messages only.
    Amqp,
    /// The management plugin's API.
    Http,
}

/// `protocol`'s words; `auto` is decided by the scheme of `host`.
pub(super) const PROTOCOLS: &[(&str, Option<Protocol>)] =
    &[("auto", None), ("amqp", Some(Protocol::Amqp)), ("http", Some(Protocol::Http))];

const SCHEMES: &[(&str, Scheme)] = &[
    ("amqp", Scheme { protocol: Protocol::Amqp, tls: false, port: 5672 }),
    ("amqps", Scheme { protocol: Protocol::Amqp, tls: true, port: 5671 }),
    ("http", Scheme { protocol: Protocol::Http, tls: false, port: 80 }),
    ("https", Scheme { protocol: Protocol::Http, tls: true, port: 443 }),
];

/// RabbitMQ's own virtual host.
const DEFAULT_VHOST: &str = "/";

/// What a scheme says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) protocol: Protocol,
    pub(super) tls: bool,
    port: u16,
}

/// `host`, taken apart.
pub(super) struct Host {
    pub(super) scheme: Scheme,
    /// A DNS name or an IP address without brackets.
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) username: Option<SecretString>,
    pub(super) password: Option<SecretString>,
    /// The segments before the virtual host, decoded; always empty over AMQP.
    pub(super) base: Vec<String>,
    /// The virtual host, decoded.
    pub(super) vhost: String,
}

const KEY: &str = "host";

fn wrong(problem: &'static str) -> ParameterError {
    ParameterError::new(KEY, problem)
}

impl Host {
    /// Reads `host`; `vhost` is `vhostName`, with which the whole path is the base path (cases.md B47).
    pub(super) fn read(text: &str, vhost: Option<&str>) -> Result<Self, ParameterError> {
        const SHAPE: &str = "must be a URI that starts with amqp://, amqps://, http:// or https://";
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(wrong("holds a space, a backslash or a control character"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(SHAPE))?;
        let scheme = scheme_named(scheme).ok_or_else(|| wrong(SHAPE))?;
        if rest.contains(['?', '#']) {
            return Err(wrong("must have neither a query nor a fragment; percent-encode ? and # in a password"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A password with a / in it: what follows would be taken for a virtual host, and shown.
        if path.contains('@') {
            return Err(wrong("has a @ in its path; percent-encode / in a password, and @ in a virtual host"));
        }
        let (userinfo, location) =
            authority.rsplit_once('@').map_or((None, authority), |(userinfo, location)| (Some(userinfo), location));
        let (name, port) = location_of(location, scheme.port).ok_or_else(|| wrong("must name a host, or host:port"))?;
        let (username, password) = userinfo.map_or(Ok((None, None)), credentials)?;
        let (base, vhost) = match scheme.protocol {
            Protocol::Http => http_path(path, vhost)?,
            Protocol::Amqp => (Vec::new(), amqp_vhost(path, vhost)?),
        };
        if !is_vhost(&vhost) {
            return Err(wrong("has a virtual host over 255 bytes, or with control characters"));
        }
        Ok(Self { scheme, name, port, username, password, base, vhost })
    }

    /// The URL of a path under the base path, of encoded segments.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.scheme.tls { "https" } else { "http" };
        let base: String = self.base.iter().flat_map(|part| ["/".to_owned(), escape::segment(part)]).collect();
        format!("{scheme}://{}:{}{base}{path}", bracketed(&self.name), self.port)
    }
}

/// Whether AMQP can name it: a short string has at most 255 bytes.
pub(super) fn is_vhost(name: &str) -> bool {
    name.len() <= 255 && !name.chars().any(char::is_control)
}

fn scheme_named(word: &str) -> Option<Scheme> {
    SCHEMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, scheme)| *scheme)
}

fn bracketed(name: &str) -> String {
    if name.contains(':') { format!("[{name}]") } else { name.to_owned() }
}

/// `host`, `host:port`, `[IPv6]` or `[IPv6]:port`.
fn location_of(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (address.to_string(), if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if !host.contains(':') && (host.is_empty() || host.len() > 253 || !host.bytes().all(legal)) {
        return None;
    }
    let port = match port {
        None => default_port,
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => port.parse().ok().filter(|port| *port > 0)?,
        Some(_) => return None,
    };
    Some((host, port))
}

type Credentials = (Option<SecretString>, Option<SecretString>);

/// `user`, `user:` or `user:password`, percent-decoded once.
fn credentials(userinfo: &str) -> Result<Credentials, ParameterError> {
    let part = |text: &str| {
        let text = escape::decoded(text).filter(|text| !text.chars().any(char::is_control));
        text.map(SecretString::from).ok_or_else(|| wrong("has credentials that are not percent-encoded UTF-8"))
    };
    let (username, password) = userinfo.split_once(':').map_or((userinfo, None), |(u, p)| (u, Some(p)));
    let password = password.filter(|password| !password.is_empty()).map(part).transpose()?;
    Ok((Some(username).filter(|name| !name.is_empty()).map(part).transpose()?, password))
}

/// The base path and the virtual host: the last segment, unless `vhost` says it.
fn http_path(path: &str, vhost: Option<&str>) -> Result<(Vec<String>, String), ParameterError> {
    let decode =
        |text: &str| escape::decoded(text).ok_or_else(|| wrong("has a path that is not percent-encoded UTF-8"));
    let (base, last) = match vhost {
        Some(_) => (path, ""),
        None => path.rsplit_once('/').unwrap_or(("", path)),
    };
    let base = base.split('/').filter(|part| !part.is_empty()).map(decode).collect::<Result<Vec<_>, _>>()?;
    let vhost = vhost.map_or_else(|| decode(last), |vhost| Ok(vhost.to_owned()))?;
    if base.iter().chain([&vhost]).any(|part| part == "." || part == "..") {
        return Err(wrong("has a path with a segment . or .., which no HTTP request can name"));
    }
    Ok((base, if vhost.is_empty() { DEFAULT_VHOST.to_owned() } else { vhost }))
}

/// The path of an AMQP URI is the virtual host. It is the default one where it is empty, as in KEDA.
fn amqp_vhost(path: &str, vhost: Option<&str>) -> Result<String, ParameterError> {
    let vhost = match vhost {
        Some(vhost) => vhost.to_owned(),
        None if path.contains('/') => return Err(wrong("has a virtual host with a /; write it as %2F")),
        None => escape::decoded(path).ok_or_else(|| wrong("has a path that is not percent-encoded UTF-8"))?,
    };
    Ok(if vhost.is_empty() { DEFAULT_VHOST.to_owned() } else { vhost })
}

/// The protocol, where `protocol` or the scheme of `host` tells it.
pub(super) fn protocol(word: Option<&str>, host: Option<&str>) -> Option<Protocol> {
    let said = word.and_then(|word| PROTOCOLS.iter().find(|(name, _)| *name == word)).and_then(|(_, said)| *said);
    said.or_else(|| scheme_named(host?.split_once("://")?.0).map(|scheme| scheme.protocol))
}

/// For people: no credentials.
pub(super) fn shown(host: Option<&str>, vhost: Option<&str>) -> String {
    let Some(host) = host else { return "by credential".to_owned() };
    let Ok(read) = Host::read(host, vhost) else { return "by host".to_owned() };
    let scheme = SCHEMES.iter().find(|(_, scheme)| *scheme == read.scheme).map_or("", |(name, _)| name);
    let vhost = if read.vhost == DEFAULT_VHOST { String::new() } else { format!(" virtual host {}", read.vhost) };
    format!("{scheme}://{}:{}{vhost}", bracketed(&read.name), read.port)
}

#[cfg(test)]
mod tests;
