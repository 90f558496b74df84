//! Trigger metadata: strings from outside, read by KEDA's rules (`pkg/scalers/scalersconfig/typed_config.go`).
//!
//! Invariants:
//! - Every value may be a secret: nothing here prints one, and no error text holds one.
//! - A blank value is an absent value, and every value is trimmed, as in KEDA.

mod values;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
    time::Duration,
};

use ring::hmac;
use secrecy::{ExposeSecret, SecretString};

use crate::credentials::Credentials;

/// Reads a Go duration (`1m30s`), or an integer of milliseconds; never negative. The error says what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    values::duration(text)
}

/// What is wrong with a parameter. The text names the key and the way out, and never the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct ParameterError {
    /// The parameter, as the tenant wrote it.
    pub key: Cow<'static, str>,
    /// What is wrong with it.
    pub problem: Cow<'static, str>,
}

impl ParameterError {
    /// An error about `key`.
    pub fn new(key: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }
}

/// The metadata of one trigger: names as KEDA has them, `FromEnv` suffixes resolved, values trimmed, blanks gone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    values: BTreeMap<Box<str>, Box<str>>,
}

const FROM_ENV: &str = "FromEnv";

impl Metadata {
    /// Reads what KEDA sends. `nameFromEnv` arrives with the variable's value and means `name`; a non-blank `name` wins.
    pub fn new<'a>(raw: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values = BTreeMap::new();
        let mut from_env = BTreeMap::new();
        for (key, value) in raw {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            match key.strip_suffix(FROM_ENV).filter(|name| !name.is_empty()) {
                Some(name) => from_env.insert(name.into(), value.into()),
                None => values.insert(key.into(), value.into()),
            };
        }
        for (name, value) in from_env {
            values.entry(name).or_insert(value);
        }
        Self { values }
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(AsRef::as_ref)
    }

    /// Refuses a key that is in none of the `known` lists, and names the nearest one that is.
    pub fn reject_unknown(&self, known: &[&[&'static str]]) -> Result<(), ParameterError> {
        let names = || known.iter().flat_map(|list| list.iter().copied());
        let Some(unknown) = self.values.keys().find(|key| !names().any(|name| name == key.as_ref())) else {
            return Ok(());
        };
        let shown: String = unknown.chars().filter(char::is_ascii_graphic).take(64).collect();
        let nearest = names()
            .map(|name| (strsim::damerau_levenshtein(&shown.to_lowercase(), &name.to_lowercase()), name))
            .min()
            .filter(|(distance, name)| *distance <= name.len().div_ceil(3));
        Err(match nearest {
            Some((_, name)) => ParameterError::new(shown, format!("unknown key; did you mean {name}?")),
            None => ParameterError::new(shown, "unknown key for this triggerType"),
        })
    }

    /// The part of the metadata that decides how a client connects.
    pub fn connection(&self, keys: &[&str]) -> Connection {
        let values = self.values.iter().filter(|(key, _)| keys.contains(&key.as_ref()));
        Connection::new(Self { values: values.map(|(k, v)| (k.clone(), v.clone())).collect() })
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// The parameters of a trigger that decide how its client connects. They may hold secrets (from `FromEnv` keys), so
/// that they are compared and hashed by a keyed fingerprint only.
#[derive(Clone)]
pub struct Connection {
    metadata: Arc<Metadata>,
    fingerprint: [u8; 32],
}

static FINGERPRINT_KEY: LazyLock<hmac::Key> = LazyLock::new(|| {
    hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()).expect("the system has randomness")
});

impl Connection {
    fn new(metadata: Metadata) -> Self {
        let mut context = hmac::Context::with_key(&FINGERPRINT_KEY);
        for text in metadata.values.iter().flat_map(|(key, value)| [key, value]) {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        }
        let fingerprint = context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes");
        Self { metadata: Arc::new(metadata), fingerprint }
    }

    /// The parameters themselves.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Connection {}

impl Hash for Connection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metadata.fmt(f)
    }
}

/// What is known of the trigger's credential while its parameters are read.
#[derive(Clone, Copy)]
pub enum CredentialSource<'a> {
    /// The trigger names no credential.
    None,
    /// The trigger names one that is not read yet: what is missing may be in it.
    Later,
    /// The credential's content.
    Given(&'a Credentials),
}

/// A trigger's metadata and its credential, read as one. Metadata wins where both have a key.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    metadata: &'a Metadata,
    credentials: CredentialSource<'a>,
}

impl<'a> Parameters<'a> {
    /// Reads `metadata`, then `credentials`.
    pub fn new(metadata: &'a Metadata, credentials: CredentialSource<'a>) -> Self {
        Self { metadata, credentials }
    }

    /// Whether what is absent is absent for good; `false` while the credential is still to be read.
    pub fn complete(&self) -> bool {
        !matches!(self.credentials, CredentialSource::Later)
    }

    /// The value of `key`, from the metadata, then from the credential.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.metadata.get(key).or_else(|| match self.credentials {
            CredentialSource::Given(credentials) => credentials.get(key).map(ExposeSecret::expose_secret),
            CredentialSource::None | CredentialSource::Later => None,
        })
    }

    /// The value of `key`, which names an endpoint: a credential that names one is sent to no other, so metadata must
    /// not name another.
    pub fn endpoint(&self, key: &'static str) -> Result<Option<&'a str>, ParameterError> {
        let text = self.text(key);
        match self.credentials {
            CredentialSource::Given(credentials)
                if credentials.get(key).is_some_and(|bound| Some(bound.expose_secret()) != text) =>
            {
                Err(ParameterError::new(key, "differs from the one that the credential names"))
            }
            _ => Ok(text),
        }
    }

    /// The value of `key`, or an error that says it is missing.
    pub fn required(&self, key: &'static str) -> Result<&'a str, ParameterError> {
        self.text(key).ok_or_else(|| ParameterError::new(key, "missing required parameter"))
    }

    /// The value of `key` as a one-line secret: a control character in it is an error (cases.md B103).
    pub fn secret(&self, key: &'static str) -> Result<Option<SecretString>, ParameterError> {
        match self.text(key) {
            Some(text) if text.chars().any(char::is_control) => {
                Err(ParameterError::new(key, "holds a control character"))
            }
            text => Ok(text.map(SecretString::from)),
        }
    }

    /// The value of `key` as PEM text, which has line breaks.
    pub fn pem(&self, key: &str) -> Option<SecretString> {
        self.text(key).map(SecretString::from)
    }

    /// A bool in Go's spelling: `1 t T TRUE true True 0 f F FALSE false False`.
    pub fn boolean(&self, key: &'static str, default: bool) -> Result<bool, ParameterError> {
        self.parsed(key, default, values::boolean)
    }

    /// A 64-bit integer in JSON's spelling.
    pub fn integer(&self, key: &'static str, default: i64) -> Result<i64, ParameterError> {
        self.parsed(key, default, values::integer)
    }

    /// A finite number in JSON's spelling; `None` where there is none.
    pub fn float(&self, key: &'static str) -> Result<Option<f64>, ParameterError> {
        self.optional(key, values::float)
    }

    /// A Go duration (`1m30s`), or an integer of milliseconds; never negative.
    pub fn duration(&self, key: &'static str) -> Result<Option<Duration>, ParameterError> {
        self.optional(key, values::duration)
    }

    /// The items between commas, trimmed; empty where the key is absent.
    pub fn list(&self, key: &str) -> Vec<&'a str> {
        self.text(key).map(|text| text.split(',').map(str::trim).collect()).unwrap_or_default()
    }

    /// A list of integers and inclusive ranges (`1,2,10-20`), sorted, without doubles; `None` where the key is absent.
    pub fn ranges(&self, key: &'static str, at_most: usize) -> Result<Option<Vec<i32>>, ParameterError> {
        self.optional(key, |text| values::ranges(text, at_most))
    }

    /// One of a closed set of words, case-sensitive.
    pub fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> Result<T, ParameterError> {
        let Some(text) = self.text(key) else { return Ok(default) };
        choices.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            ParameterError::new(key, format!("must be one of {}", words.join(", ")))
        })
    }

    fn parsed<T>(
        &self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<T, ParameterError> {
        Ok(self.optional(key, parse)?.unwrap_or(default))
    }

    fn optional<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Result<Option<T>, ParameterError> {
        self.text(key).map(parse).transpose().map_err(|problem| ParameterError::new(key, problem))
    }
}
