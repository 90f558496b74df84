//! The client's side of SASL, message by message: PLAIN, SCRAM, OAUTHBEARER. No I/O.
//!
//! Invariants:
//! - No challenge is trusted: whatever its bytes are, the answer is a message or an error.
//! - With SCRAM an exchange is over only when the server has proved that it knows the password.
//! - Nothing here can be printed, and no error holds a byte of a challenge.

mod scram;

use secrecy::ExposeSecret;

use self::scram::Scram;
use super::settings::{Login, OAuth, Sasl};
use crate::{
    metadata::ParameterError,
    oauth::Token,
    sampler::{Cause, SampleError},
};

/// The largest challenge that is read, in bytes: real ones have some hundreds.
const CHALLENGE_LIMIT: usize = 4096;

/// One authentication of one connection.
pub struct Exchange {
    state: State,
}

enum State {
    Plain {
        message: Vec<u8>,
    },
    OAuthBearer {
        message: Vec<u8>,
    },
    /// The server refused the token and said why; it was told that this was read.
    OAuthBearerRefused,
    Scram(Box<Scram>),
    Over(&'static Mechanism),
}

struct Mechanism {
    /// Its registered SASL name.
    name: &'static str,
    /// KEDA's word for it, the value of `sasl`.
    keda: &'static str,
}

const PLAIN: Mechanism = Mechanism { name: "PLAIN", keda: "plaintext" };
const SCRAM_SHA_256: Mechanism = Mechanism { name: "SCRAM-SHA-256", keda: "scram_sha256" };
const SCRAM_SHA_512: Mechanism = Mechanism { name: "SCRAM-SHA-512", keda: "scram_sha512" };
const OAUTHBEARER: Mechanism = Mechanism { name: "OAUTHBEARER", keda: "oauthbearer" };

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// The server refused the credentials.
    #[error("the server refused the credentials")]
    Rejected,
    /// The server does not know the password: it is not the server that the user was made on.
    #[error("the server did not prove that it knows the password")]
    ServerNotVerified,
    /// The server sent what the mechanism does not allow.
    #[error("{0}")]
    Malformed(&'static str),
}

impl Exchange {
    /// `None` where `sasl` says not to authenticate. OAUTHBEARER needs the `token`.
    pub fn start(sasl: &Sasl, token: Option<&Token>) -> Result<Option<Self>, ParameterError> {
        let state = match sasl {
            Sasl::None => return Ok(None),
            Sasl::Plain(login) => State::Plain { message: plain(login)? },
            Sasl::ScramSha256(login) => State::Scram(Box::new(Scram::sha256(login, scram::nonce()))),
            Sasl::ScramSha512(login) => State::Scram(Box::new(Scram::sha512(login, scram::nonce()))),
            Sasl::OAuthBearer(oauth) => State::OAuthBearer { message: oauth_bearer(oauth, token)? },
        };
        Ok(Some(Self { state }))
    }

    /// The mechanism's SASL name, for `SaslHandshake`.
    pub fn mechanism(&self) -> &'static str {
        self.known_as().name
    }

    /// KEDA's word for the mechanism, for texts that a tenant sees.
    pub fn keda_mechanism(&self) -> &'static str {
        self.known_as().keda
    }

    fn known_as(&self) -> &'static Mechanism {
        match &self.state {
            State::Plain { .. } => &PLAIN,
            State::OAuthBearer { .. } | State::OAuthBearerRefused => &OAUTHBEARER,
            State::Scram(scram) => scram.mechanism(),
            State::Over(mechanism) => mechanism,
        }
    }

    /// The first message; empty once the exchange has gone on.
    pub fn initial(&mut self) -> Vec<u8> {
        match &mut self.state {
            State::Plain { message } | State::OAuthBearer { message } => std::mem::take(message),
            State::Scram(scram) => scram.client_first(),
            State::OAuthBearerRefused | State::Over(_) => Vec::new(),
        }
    }

    /// The answer to `challenge`; `None` where the exchange is over and, with SCRAM, the server is verified.
    pub fn respond(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        let mechanism = self.known_as();
        let answer = if challenge.len() > CHALLENGE_LIMIT {
            Err(SaslError::Malformed("a SASL challenge that is too long"))
        } else {
            self.answer(challenge)
        };
        if !matches!(answer, Ok(Some(_))) {
            self.state = State::Over(mechanism);
        }
        answer
    }

    fn answer(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        match &mut self.state {
            State::Plain { .. } | State::OAuthBearer { .. } if challenge.is_empty() => Ok(None),
            State::Plain { .. } => Err(SaslError::Malformed("a PLAIN challenge")),
            State::OAuthBearer { .. } => {
                self.state = State::OAuthBearerRefused;
                Ok(Some(vec![SEPARATOR]))
            }
            State::OAuthBearerRefused => Err(SaslError::Rejected),
            State::Scram(scram) => scram.respond(challenge),
            State::Over(_) => Err(SaslError::Malformed("a SASL challenge after the exchange's end")),
        }
    }
}

impl SaslError {
    /// What the tenant is told. `mechanism` is [`Exchange::keda_mechanism`].
    pub fn into_sample_error(self, mechanism: &'static str) -> SampleError {
        match self {
            Self::Rejected => SampleError::Unauthorized { mechanism, cause: Some(Cause::from(self)) },
            Self::ServerNotVerified => SampleError::Malformed("the SCRAM signature is wrong"),
            Self::Malformed(what) => SampleError::Malformed(what),
        }
    }
}

/// RFC 4616, without an authorisation identity.
fn plain(login: &Login) -> Result<Vec<u8>, ParameterError> {
    let (username, password) = (login.username.expose_secret(), login.password.expose_secret());
    for (key, value) in [("username", username), ("password", password)] {
        if value.contains('\0') {
            return Err(ParameterError::new(key, "holds a control character"));
        }
    }
    Ok([username, password].iter().flat_map(|text| [b"\0", text.as_bytes()]).flatten().copied().collect())
}

/// What separates the parts of an OAUTHBEARER message, and tells the server that its refusal was read (RFC 7628, 3.1).
const SEPARATOR: u8 = 1;

/// RFC 7628, 3.1, with the extensions of KIP-342.
fn oauth_bearer(oauth: &OAuth, token: Option<&Token>) -> Result<Vec<u8>, ParameterError> {
    let token = token.ok_or_else(|| ParameterError::new("oauthTokenEndpointUri", "there is no token yet"))?;
    let mut message = b"n,,\x01auth=Bearer ".to_vec();
    message.extend_from_slice(token.expose().as_bytes());
    message.push(SEPARATOR);
    for (key, value) in &oauth.extensions {
        let key_fits = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphabetic()) && key != "auth";
        let value_fits = !value.is_empty()
            && value.bytes().all(|b| b.is_ascii_graphic() || matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        if !key_fits || !value_fits {
            let problem = "an extension needs a name of letters that is not auth, and a value of ASCII";
            return Err(ParameterError::new("oauthExtensions", problem));
        }
        message.extend_from_slice(key.as_bytes());
        message.push(b'=');
        message.extend_from_slice(value.as_bytes());
        message.push(SEPARATOR);
    }
    message.push(SEPARATOR);
    Ok(message)
}

#[cfg(test)]
mod tests;
