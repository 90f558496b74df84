//! TLS to sources: rustls with ring, from PEM text.
//!
//! Invariants:
//! - The crypto provider is given, never the process's default, so that no order of start-up matters.
//! - A file of this machine is never named by a tenant: certificates and keys are text.
//! - What a peer sent is in no error's text, and a key is in no error at all.

mod handshake;
mod identity;
mod verify;

use std::sync::{Arc, LazyLock};

use rustls::{
    ClientConfig, RootCertStore,
    client::danger::ServerCertVerifier,
    crypto::{CryptoProvider, ring},
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use secrecy::{ExposeSecret, SecretString};

use self::verify::{AnyCertificate, either, issued_by};
use crate::metadata::{ParameterError, Parameters};

pub(crate) use self::handshake::failure;
pub use self::handshake::{connect, io_failure};

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

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

/// The verifier of all who give no `ca`; they share it, because the system's roots take some 100 KiB. `None` where the
/// system trusts nobody. What is wrong with single files of it is not a tenant's business.
static SYSTEM: LazyLock<Option<Arc<dyn ServerCertVerifier>>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    tracing::debug!(added, ignored, "system's trusted certificates read");
    (!roots.is_empty()).then(|| issued_by(roots, &PROVIDER))
});

impl TlsSettings {
    /// Reads `ca`, `cert`, `key`, `keyPassword` and `unsafeSsl`.
    pub fn read(parameters: Parameters<'_>) -> Result<Self, ParameterError> {
        let identity = match (parameters.pem("cert"), parameters.pem("key")) {
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate, key, key_password: parameters.secret("keyPassword")? })
            }
            (Some(_), None) if parameters.complete() => {
                return Err(ParameterError::new("key", "missing: cert needs it"));
            }
            (None, Some(_)) if parameters.complete() => {
                return Err(ParameterError::new("cert", "missing: key needs it"));
            }
            _ => None,
        };
        Ok(Self { ca: parameters.pem("ca"), identity, insecure: parameters.boolean("unsafeSsl", false)? })
    }

    /// The client configuration; errors name the parameter that is not usable. To decrypt a key takes up to a second,
    /// so keep the result.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, ParameterError> {
        let builder = builder().dangerous().with_custom_certificate_verifier(self.verifier()?);
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = (identity.chain()?, identity.private_key()?);
                builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => ParameterError::new("key", "does not belong to cert"),
                    _ => ParameterError::new(
                        "key",
                        "is a key of a kind that is not supported: use ECDSA, Ed25519 or RSA",
                    ),
                })?
            }
        };
        Ok(Arc::new(config))
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, ParameterError> {
        if self.insecure {
            return Ok(Arc::new(AnyCertificate(PROVIDER.clone())));
        }
        match (&self.ca, &*SYSTEM) {
            (Some(ca), Some(system)) => Ok(either(issued_by(roots(ca)?, &PROVIDER), system.clone())),
            (Some(ca), None) => Ok(issued_by(roots(ca)?, &PROVIDER)),
            (None, Some(system)) => Ok(system.clone()),
            (None, None) => Err(ParameterError::new("ca", "missing, and the system trusts no certificate either")),
        }
    }
}

/// A configuration for a client that opens no TLS connection; it trusts nobody.
pub(crate) fn unused() -> Arc<ClientConfig> {
    Arc::new(builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .expect("ring has what TLS 1.2 and 1.3 need")
}

fn roots(ca: &SecretString) -> Result<RootCertStore, ParameterError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", ca)? {
        roots.add(certificate).map_err(|_| ParameterError::new("ca", "holds a certificate that cannot be read"))?;
    }
    Ok(roots)
}

/// All certificates of a PEM text; at least one.
fn certificates(key: &'static str, pem: &SecretString) -> Result<Vec<CertificateDer<'static>>, ParameterError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.expose_secret().as_bytes()).collect();
    all.ok()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| ParameterError::new(key, "must be one or more certificates in PEM form"))
}

#[cfg(test)]
mod tests;
