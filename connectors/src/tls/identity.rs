//! A client's certificate and key, from PEM text.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use pkcs8::{
    EncryptedPrivateKeyInfo, PrivateKeyInfo,
    pkcs5::{self, EncryptionScheme, pbes2::Kdf},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use secrecy::{ExposeSecret, SecretString};

use super::{Identity, certificates};
use crate::metadata::ParameterError;

const BEGIN_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END_ENCRYPTED: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// A key that costs more than this to decrypt is refused: it is a tenant's text and everybody's CPU. `OpenSSL` makes
/// keys of 2,048 iterations; OWASP asks for 600,000.
const MOST_PBKDF2_ITERATIONS: u32 = 600_000;
/// Cost, block size and parallelism multiplied: 32 MiB of memory. `OpenSSL` makes keys of half of it.
const MOST_SCRYPT_BLOCKS: u64 = 1 << 18;
const UNSUPPORTED: &str = "must be a PKCS#8 key in PEM form; if encrypted, with AES-CBC and either PBKDF2 (SHA-2, at most \
    600000 iterations) or scrypt (at most 32 MiB)";

impl Identity {
    pub(super) fn chain(&self) -> Result<Vec<CertificateDer<'static>>, ParameterError> {
        certificates("cert", &self.certificate)
    }

    pub(super) fn private_key(&self) -> Result<PrivateKeyDer<'static>, ParameterError> {
        let pem = self.key.expose_secret();
        match (encrypted(pem), &self.key_password) {
            (None, _) => PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
                ParameterError::new(
                    "key",
                    "must be a private key in PEM form: PKCS#8 (encrypted or not), PKCS#1 or SEC1",
                )
            }),
            (Some(_), None) => Err(ParameterError::new("keyPassword", "missing: the key is encrypted")),
            (Some(base64), Some(password)) => decrypt(base64, password),
        }
    }
}

/// What is between the marks of an encrypted key.
fn encrypted(pem: &str) -> Option<&str> {
    let (_, rest) = pem.split_once(BEGIN_ENCRYPTED)?;
    rest.split_once(END_ENCRYPTED).map(|(base64, _)| base64)
}

/// PKCS#8's `EncryptedPrivateKeyInfo` (RFC 5958, 3) with PBES2 (RFC 8018, 6.2).
fn decrypt(base64: &str, password: &SecretString) -> Result<PrivateKeyDer<'static>, ParameterError> {
    let unsupported = || ParameterError::new("key", UNSUPPORTED);
    let wrong = || ParameterError::new("keyPassword", "does not decrypt the key");
    let text: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let der = BASE64.decode(text).map_err(|_| unsupported())?;
    let key = EncryptedPrivateKeyInfo::try_from(der.as_slice()).map_err(|_| unsupported())?;
    if !is_affordable(&key.encryption_algorithm) {
        return Err(unsupported());
    }
    let plain = key.decrypt(password.expose_secret()).map_err(|error| match error {
        pkcs8::Error::EncryptedPrivateKey(pkcs5::Error::UnsupportedAlgorithm { .. }) => unsupported(),
        _ => wrong(),
    })?;
    // One wrong password in 256 leaves a padding that looks right, and a key that does not.
    PrivateKeyInfo::try_from(plain.as_bytes()).map_err(|_| wrong())?;
    Ok(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec()).into())
}

fn is_affordable(scheme: &EncryptionScheme<'_>) -> bool {
    match scheme.pbes2().map(|parameters| &parameters.kdf) {
        Some(Kdf::Pbkdf2(pbkdf2)) => pbkdf2.iteration_count <= MOST_PBKDF2_ITERATIONS,
        Some(Kdf::Scrypt(scrypt)) => [u64::from(scrypt.block_size), u64::from(scrypt.parallelization)]
            .into_iter()
            .try_fold(scrypt.cost_parameter, u64::checked_mul)
            .is_some_and(|blocks| blocks <= MOST_SCRYPT_BLOCKS),
        _ => false,
    }
}
