//! The content of one credential. Everything in it is secret.

use std::{collections::BTreeMap, fmt, sync::Arc};

use secrecy::{ExposeSecret, SecretString, zeroize::Zeroize};

use crate::egress::ALLOWED_HOSTS;

/// The name of a credential in the trigger's own namespace: a DNS-1123 label, checked where it is made.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialName(Arc<str>);

impl CredentialName {
    /// `None` unless `name` is a DNS-1123 label (1 to 63 of `[a-z0-9-]`, no `-` at the ends).
    pub fn new(name: &str) -> Option<Self> {
        is_dns_label(name).then(|| Self(name.into()))
    }

    /// The name itself, for logs, texts and look-ups.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `name` is a DNS-1123 label (RFC 1123): 1 to 63 of `[a-z0-9-]`, with no `-` at either end.
pub fn is_dns_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// What one credential holds: KEDA's authentication parameter names as keys, trimmed values.
///
/// A value that is blank after trimming is not there, as in KEDA; but a blank `allowedHosts` is, since a rule that was
/// lost must not allow everything.
pub struct Credentials {
    values: BTreeMap<Box<str>, SecretString>,
}

impl Credentials {
    /// Trims every value and drops the blank ones.
    pub fn new(values: impl IntoIterator<Item = (String, String)>) -> Self {
        let values = values
            .into_iter()
            .filter(|(key, value)| key == ALLOWED_HOSTS || !value.trim().is_empty())
            .map(|(key, mut value)| {
                let secret = SecretString::from(value.trim());
                value.zeroize();
                (key.into_boxed_str(), secret)
            })
            .collect();
        Self { values }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&SecretString> {
        self.values.get(key)
    }

    /// The destinations that this credential may be sent to; `None` where it does not say.
    pub fn allowed_hosts(&self) -> Option<&str> {
        self.get(ALLOWED_HOSTS).map(ExposeSecret::expose_secret)
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.values.len() == other.values.len()
            && self
                .values
                .iter()
                .zip(&other.values)
                .all(|(a, b)| a.0 == b.0 && a.1.expose_secret() == b.1.expose_secret())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}
