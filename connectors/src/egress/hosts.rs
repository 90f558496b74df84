//! The list of destinations that a credential may be sent to.
//!
//! Invariant: what cannot be read is an error, and never a rule that allows more than it says.

use std::{fmt, net::IpAddr, sync::Arc};

use crate::metadata::ParameterError;

/// A credential's key for the list.
pub const ALLOWED_HOSTS: &str = "allowedHosts";

/// The most destinations of one list: every connection looks at all of them.
const MAX_HOSTS: usize = 256;

const PROBLEM: &str = "must be a list of host, host:port, *.suffix or *.suffix:port";

/// `allowedHosts`: a comma list of `host[:port]`, where `*.suffix` stands for every name below `suffix`.
#[derive(Clone)]
pub struct AllowedHosts(Arc<[Destination]>);

#[derive(Debug, PartialEq, Eq)]
struct Destination {
    host: Host,
    /// `None` for every port.
    port: Option<u16>,
}

#[derive(Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// In lower case, without a dot at the end.
    Name(Box<str>),
    /// Every name that ends so: `.suffix`.
    Below(Box<str>),
}

impl AllowedHosts {
    /// Reads the list. One that names nothing is an error too: it is more likely a mistake than a wish.
    pub fn parse(text: &str) -> Result<Self, ParameterError> {
        let destinations: Option<Arc<[_]>> = text.split(',').map(|item| Destination::parse(item.trim())).collect();
        destinations
            .filter(|list| list.len() <= MAX_HOSTS)
            .map(Self)
            .ok_or_else(|| ParameterError::new(ALLOWED_HOSTS, PROBLEM))
    }

    /// Whether `host`, a name or an address without brackets, may be connected to at `port`.
    pub fn allow(&self, host: &str, port: u16) -> bool {
        let host = Host::asked(host);
        self.0.iter().any(|allowed| allowed.port.is_none_or(|only| only == port) && allowed.host.covers(&host))
    }
}

/// Only how long it is: it comes out of a credential.
impl fmt::Debug for AllowedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} allowed hosts", self.0.len())
    }
}

impl Destination {
    fn parse(item: &str) -> Option<Self> {
        let (host, port) = if let Ok(address) = item.parse::<IpAddr>() {
            return Some(Self { host: Host::Address(address), port: None });
        } else if let Some(rest) = item.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            (Host::Address(address.parse().ok()?), if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        } else {
            let (host, port) = item.split_once(':').map_or((item, None), |(host, port)| (host, Some(port)));
            (Host::parse(host)?, port)
        };
        let port = match port {
            None => None,
            Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse().ok().filter(|port| *port > 0)?),
            Some(_) => return None,
        };
        Some(Self { host, port })
    }
}

impl Host {
    /// A name or an IPv4 address of the list.
    fn parse(text: &str) -> Option<Self> {
        if let Some(suffix) = text.strip_prefix("*.") {
            let name = lower(suffix);
            // No address ends in a name, so that a suffix that looks like the end of one would stand for nothing.
            let numeric = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
            return (is_name(&name) && !numeric).then(|| Self::Below(format!(".{name}").into()));
        }
        match Self::asked(text) {
            Self::Name(name) if !is_name(&name) => None,
            host => Some(host),
        }
    }

    /// A host that is about to be connected to.
    fn asked(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(lower(text)), Self::Address)
    }

    fn covers(&self, asked: &Self) -> bool {
        match (self, asked) {
            // What is no name (`10.0.0.7 .suffix`) must not be read as something else by whoever resolves it.
            (Self::Below(suffix), Self::Name(name)) => name.ends_with(&**suffix) && is_name(name),
            _ => self == asked,
        }
    }
}

/// In lower case, without the dot at the end that says that a name is complete.
fn lower(name: &str) -> Box<str> {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into()
}

/// Kafka's and Kubernetes' names: labels of letters, digits, `-` and `_`.
fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    text.len() <= 253 && text.split('.').all(|label| !label.is_empty() && label.bytes().all(legal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, host: &str, port: u16, allowed: bool) {
        let list = AllowedHosts::parse(list).expect("it is a list");
        assert_eq!(list.allow(host, port), allowed, "{host}:{port}");
    }

    #[test]
    fn a5_a_credential_is_sent_to_the_hosts_that_it_names() {
        let list =
            "kafka.example, B-1.Kafka.example.:9093 ,*.internal.example,*.ports.example:9092,10.0.0.7,[::1]:9092";
        for (host, port) in [
            ("kafka.example", 1),
            ("KAFKA.example.", 65535),
            ("b-1.kafka.example", 9093),
            ("a.internal.example", 80),
            ("a.b.INTERNAL.example.", 80),
            ("a.ports.example", 9092),
            ("10.0.0.7", 9092),
            ("::1", 9092),
            ("0:0:0:0:0:0:0:1", 9092),
        ] {
            check(list, host, port, true);
        }
        for (host, port) in [
            ("evil.example", 1),
            ("kafka.example.evil", 1),
            ("akafka.example", 1),
            ("x.kafka.example", 1),
            ("kafka.example..", 1),
            ("b-1.kafka.example", 9092),
            ("internal.example", 80),
            (".internal.example", 80),
            ("evilinternal.example", 80),
            ("10.9.9.9 .internal.example", 80),
            ("evil.example/.internal.example", 80),
            ("a.ports.example", 9093),
            ("10.0.0.70", 9092),
            ("10.0.7", 9092),
            ("::ffff:10.0.0.7", 9092),
            ("::1", 9093),
            ("", 9092),
        ] {
            check(list, host, port, false);
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_that_does_not_repeat_it() {
        for list in [
            "",
            " ",
            ",",
            "a,",
            "*",
            "*.",
            "*.a.*",
            "a.*",
            "**.a",
            "*a.example",
            "https://a",
            "a:0",
            "a:65536",
            "a:",
            "a:+1",
            "a:b",
            "a b",
            "a/b",
            "[::1",
            "[a]:1",
            "[::1]x",
            "ünter.example",
            "a..b",
            "*.0.0.1",
            "user@a",
            "10.0.0.0/8",
        ] {
            let error = AllowedHosts::parse(list).expect_err(list);
            assert_eq!(error.to_string(), format!("{ALLOWED_HOSTS}: {PROBLEM}"));
        }
        assert!(AllowedHosts::parse(&["a"; MAX_HOSTS + 1].join(",")).is_err());
        assert_eq!(format!("{:?}", AllowedHosts::parse("secret.example,a").unwrap()), "2 allowed hosts");
    }
}
