//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) without channel binding.

use std::num::NonZeroU32;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom, SystemRandom},
};
use secrecy::{
    ExposeSecret, SecretString,
    zeroize::{Zeroize, Zeroizing},
};

use super::{Mechanism, SCRAM_SHA_256, SCRAM_SHA_512, SaslError};
use crate::kafka::settings::Login;

/// RFC 7677, 4: fewer make a password cheap to guess for who sees the exchange.
const LEAST_ITERATIONS: u32 = 4096;
/// A server could otherwise make every connect cost seconds of CPU; Kafka's own default is 4,096, its maximum 16,384.
const MOST_ITERATIONS: u32 = 65_536;
/// "No channel binding", as the first message has it, and in base64 as the last one does.
const GS2_HEADER: &str = "n,,";
const CHANNEL_BINDING: &str = "c=biws";

struct Hash {
    mechanism: &'static Mechanism,
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

static SHA_256: Hash = Hash {
    mechanism: &SCRAM_SHA_256,
    digest: &digest::SHA256,
    hmac: hmac::HMAC_SHA256,
    pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256,
};
static SHA_512: Hash = Hash {
    mechanism: &SCRAM_SHA_512,
    digest: &digest::SHA512,
    hmac: hmac::HMAC_SHA512,
    pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512,
};

pub(super) struct Scram {
    hash: &'static Hash,
    password: SecretString,
    nonce: String,
    step: Step,
}

enum Step {
    /// The first message, without its GS2 header.
    First { bare: Zeroizing<String> },
    /// What the server has to prove.
    Final { server_key: hmac::Key, auth_message: Zeroizing<String> },
}

/// A nonce of 144 random bits.
pub(super) fn nonce() -> String {
    let mut bytes = [0; 18];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    BASE64.encode(bytes)
}

impl Scram {
    pub(super) fn sha256(login: &Login, nonce: String) -> Self {
        Self::new(&SHA_256, login, nonce)
    }

    pub(super) fn sha512(login: &Login, nonce: String) -> Self {
        Self::new(&SHA_512, login, nonce)
    }

    fn new(hash: &'static Hash, login: &Login, nonce: String) -> Self {
        let username = login.username.expose_secret().replace('=', "=3D").replace(',', "=2C");
        let bare = Zeroizing::new(format!("n={username},r={nonce}"));
        Self { hash, password: login.password.clone(), nonce, step: Step::First { bare } }
    }

    pub(super) fn mechanism(&self) -> &'static Mechanism {
        self.hash.mechanism
    }

    pub(super) fn client_first(&self) -> Vec<u8> {
        match &self.step {
            Step::First { bare } => [GS2_HEADER, bare].concat().into_bytes(),
            Step::Final { .. } => Vec::new(),
        }
    }

    pub(super) fn respond(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        let challenge =
            std::str::from_utf8(challenge).map_err(|_| SaslError::Malformed("a SCRAM message that is not UTF-8"))?;
        if challenge.starts_with("e=") {
            return Err(SaslError::Rejected);
        }
        match &self.step {
            Step::First { bare } => {
                let server = ServerFirst::read(challenge, &self.nonce)?;
                let (answer, step) = self.client_final(bare, challenge, &server);
                self.step = step;
                Ok(Some(answer))
            }
            Step::Final { server_key, auth_message } => {
                let signature = server_signature(challenge)?;
                hmac::verify(server_key, auth_message.as_bytes(), &signature)
                    .map(|()| None)
                    .map_err(|_| SaslError::ServerNotVerified)
            }
        }
    }

    /// RFC 5802, 3. The names are the RFC's.
    fn client_final(&self, bare: &str, server_first: &str, server: &ServerFirst<'_>) -> (Vec<u8>, Step) {
        let hash = self.hash;
        let mut salted_password = Zeroizing::new(vec![0; hash.digest.output_len()]);
        let password = self.password.expose_secret().as_bytes();
        pbkdf2::derive(hash.pbkdf2, server.iterations, &server.salt, password, &mut salted_password);
        let salted_password = hmac::Key::new(hash.hmac, &salted_password);

        let without_proof = format!("{CHANNEL_BINDING},r={}", server.nonce);
        let auth_message = Zeroizing::new(format!("{bare},{server_first},{without_proof}"));
        let client_key = hmac::sign(&salted_password, b"Client Key");
        let stored_key = hmac::Key::new(hash.hmac, digest::digest(hash.digest, client_key.as_ref()).as_ref());
        let client_signature = hmac::sign(&stored_key, auth_message.as_bytes());
        let mut proof: Vec<u8> =
            client_key.as_ref().iter().zip(client_signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let answer = format!("{without_proof},p={}", BASE64.encode(&proof)).into_bytes();
        proof.zeroize();

        let server_key = hmac::Key::new(hash.hmac, hmac::sign(&salted_password, b"Server Key").as_ref());
        (answer, Step::Final { server_key, auth_message })
    }
}

struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: NonZeroU32,
}

impl<'a> ServerFirst<'a> {
    /// `r=nonce,s=salt,i=iterations`, in this order, and extensions that may be ignored.
    fn read(message: &'a str, client_nonce: &str) -> Result<Self, SaslError> {
        if message.starts_with("m=") {
            return Err(SaslError::Malformed("a mandatory SCRAM extension"));
        }
        let mut attributes = message.split(',');
        let mut next = |name: &str| attributes.next().and_then(|attribute| attribute.strip_prefix(name));
        let nonce = next("r=").ok_or(SaslError::Malformed("a SCRAM message without a nonce"))?;
        let salt = next("s=").ok_or(SaslError::Malformed("a SCRAM message without a salt"))?;
        let iterations = next("i=").ok_or(SaslError::Malformed("a SCRAM message without iterations"))?;

        let extends = nonce.len() > client_nonce.len() && nonce.starts_with(client_nonce);
        if !extends || !nonce.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(SaslError::Malformed("a SCRAM nonce that does not extend the client's"));
        }
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty());
        let salt = salt.ok_or(SaslError::Malformed("a SCRAM salt that is not base64"))?;
        Ok(Self { nonce, salt, iterations: read_iterations(iterations)? })
    }
}

fn read_iterations(text: &str) -> Result<NonZeroU32, SaslError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse()
        .ok()
        .filter(|count| plain && (LEAST_ITERATIONS..=MOST_ITERATIONS).contains(count))
        .and_then(NonZeroU32::new)
        .ok_or(SaslError::Malformed("SCRAM iterations out of bounds"))
}

/// `v=signature`, and extensions that may be ignored.
fn server_signature(message: &str) -> Result<Vec<u8>, SaslError> {
    let attribute = message.split(',').next().unwrap_or_default();
    attribute
        .strip_prefix("v=")
        .and_then(|signature| BASE64.decode(signature).ok())
        .ok_or(SaslError::Malformed("a SCRAM message without a signature"))
}

#[cfg(test)]
mod tests;
