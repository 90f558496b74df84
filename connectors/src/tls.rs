//! TLS to sources: rustls with ring, from PEM text.

use std::sync::Arc;

use secrecy::SecretString;

use crate::metadata::ParameterError;

/// The TLS parameters of a trigger: `ca`, `cert`, `key`, `keyPassword`, `unsafeSsl`.
#[derive(Clone, Default)]
pub struct TlsSettings {
    /// PEM certificates that are trusted besides the system's.
    pub ca: Option<SecretString>,
    /// The client's certificate.
    pub identity: Option<Identity>,
    /// `unsafeSsl`: the server's certificate is not verified.
    pub insecure: bool,
}

/// A client certificate and its key.
#[derive(Clone)]
pub struct Identity {
    /// PEM, leaf first.
    pub certificate: SecretString,
    /// PEM: PKCS#8 (also encrypted), PKCS#1 or SEC1.
    pub key: SecretString,
    /// Decrypts an encrypted PKCS#8 key.
    pub key_password: Option<SecretString>,
}

impl TlsSettings {
    /// The client configuration; errors name the parameter that is not usable.
    pub fn client_config(&self) -> Result<Arc<rustls::ClientConfig>, ParameterError> {
        unimplemented!()
    }
}
