//! How a Kafka client connects: bootstrap servers, TLS, SASL, from metadata and credential.

use secrecy::SecretString;

use crate::{
    metadata::{ParameterError, Parameters},
    tls::TlsSettings,
};

/// How a Kafka client connects.
#[derive(Clone)]
pub struct Settings {
    /// Host and port of each bootstrap server.
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

impl Settings {
    /// Reads the parameters. While the credential is still to be read (`!parameters.complete()`) only what is there is
    /// checked, and the result is not used to connect.
    pub fn read(_parameters: Parameters<'_>) -> Result<Option<Self>, ParameterError> {
        unimplemented!()
    }
}
