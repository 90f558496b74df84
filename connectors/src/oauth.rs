//! Access tokens by the client credentials grant (RFC 6749, 4.4).
//!
//! Invariants:
//! - The secret goes to the token endpoint that it was given with, and nowhere else.
//! - A token is used until shortly before its end, and never after it.
//! - Neither secret, token nor anything that the endpoint sent is in an error.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};

use crate::{
    clock::{BootInstant, SharedClock},
    http::{HttpClient, Reply, Url},
    metadata::ParameterError,
    sampler::{Environment, SampleError},
    tenant::TenantId,
    tls::TlsSettings,
};

/// From the first byte to the last of one request for a token.
const DEADLINE: Duration = Duration::from_secs(5);
/// Bytes of a reply: tokens with many claims have some thousands.
const BODY_LIMIT: usize = 64 * 1024;
/// A token is not used in its last part: this, or a tenth of its life if that is shorter.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a token is used whose life the endpoint does not tell.
const UNKNOWN_LIFE: Duration = Duration::from_secs(60);
/// How long any token is used: whoever says longer means "for ever".
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 3600);

/// An access token. It is visible ASCII, so that it fits a header and a SASL message.
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    /// `None` unless `token` is visible ASCII and not empty.
    pub fn new(token: &str) -> Option<Self> {
        let fits = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(token.into()))
    }

    /// The token itself, for the message or header that carries it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// What a token is asked for with.
#[derive(Clone)]
pub struct Grant {
    /// The token endpoint.
    pub endpoint: Url,
    /// The client's id.
    pub client_id: SecretString,
    /// The client's secret.
    pub client_secret: SecretString,
    /// Scopes, if any.
    pub scopes: Vec<String>,
    /// Further parameters of the request: KEDA's `endpointParams`.
    pub parameters: Vec<(String, String)>,
    /// How the source authenticates, in KEDA's word (`oauthbearer`), for the text that tells of a refusal.
    pub mechanism: &'static str,
}

/// Gets tokens and keeps the last one.
pub struct TokenSource {
    client: HttpClient,
    grant: Grant,
    clock: SharedClock,
    style: Style,
    kept: Option<Kept>,
}

struct Kept {
    token: Token,
    until: BootInstant,
}

/// Where the client's id and secret are put (RFC 6749, 2.3.1). Servers must read the header, and some do not; KEDA
/// (Go's `oauth2`) finds out too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// In the header, as long as that is not refused.
    Unknown,
    Header,
    Form,
}

impl TokenSource {
    /// A source that asks when it is first asked.
    pub fn new(
        tenant: &TenantId,
        grant: Grant,
        tls: &TlsSettings,
        environment: &Environment,
    ) -> Result<Self, ParameterError> {
        let client = HttpClient::new(tenant, &grant.endpoint, tls, environment)?;
        Ok(Self { client, grant, clock: environment.clock.clone(), style: Style::Unknown, kept: None })
    }

    /// A token that is good for a while: the kept one, or a new one.
    pub async fn token(&mut self) -> Result<Token, SampleError> {
        // Before the request, so that the token's life is not taken for longer than it is.
        let asked = self.clock.boot();
        if let Some(kept) = self.kept.as_ref().filter(|kept| asked < kept.until) {
            return Ok(kept.token.clone());
        }
        self.kept = None;
        let reply = self.ask().await?;
        let (token, life) = read(&reply.body)?;
        self.kept = Some(Kept { token: token.clone(), until: asked + life.saturating_sub(MARGIN.min(life / 10)) });
        Ok(token)
    }

    /// Drops the kept token, because the source refused it: the next one is new.
    pub fn forget(&mut self) {
        self.kept = None;
    }

    /// A successful reply.
    async fn ask(&mut self) -> Result<Reply, SampleError> {
        let mut style = self.style;
        let mut reply = self.post(style).await?;
        if style == Style::Unknown && matches!(reply.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED) {
            style = Style::Form;
            reply = self.post(style).await?;
        }
        match reply.status.as_u16() {
            200 => {
                self.style = if style == Style::Unknown { Style::Header } else { style };
                Ok(reply)
            }
            429 => Err(SampleError::NotReady("the token endpoint limits requests")),
            400..=499 => Err(SampleError::Unauthorized { mechanism: self.grant.mechanism, cause: None }),
            500..=599 => Err(SampleError::Unreachable(Some(format!("token endpoint: {}", reply.status).into()))),
            _ => Err(SampleError::Malformed("the token endpoint's status is not one of OAuth")),
        }
    }

    async fn post(&self, style: Style) -> Result<Reply, SampleError> {
        let (id, secret) = (self.grant.client_id.expose_secret(), self.grant.client_secret.expose_secret());
        let scope = self.grant.scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        form.extend(self.grant.parameters.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let request =
            self.client.request(Method::POST, self.grant.endpoint.clone()).header("accept", "application/json");
        let request = if style == Style::Form {
            form.extend([("client_id", id), ("client_secret", secret)]);
            request
        } else {
            request.basic_auth(form_encoded(id), Some(form_encoded(secret)))
        };
        self.client.fetch(request.form(&form), DEADLINE, BODY_LIMIT).await
    }
}

/// `application/x-www-form-urlencoded` (RFC 6749, appendix B), which id and secret are before they are a user name and a
/// password.
fn form_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            _ => encoded.extend(['%', hex(byte >> 4), hex(byte & 15)]),
        }
    }
    encoded
}

fn hex(digit: u8) -> char {
    char::from(b"0123456789ABCDEF"[usize::from(digit)])
}

/// RFC 6749, 5.1. What else is in the reply is skipped without recursion, however deep it is.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<f64>,
}

/// Some servers send the number as a string.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Number(f64),
        Text(String),
        None(()),
    }
    Ok(match Seconds::deserialize(deserializer)? {
        Seconds::Number(number) => Some(number),
        Seconds::Text(text) => Some(text.parse().map_err(|_| serde::de::Error::custom("not a number"))?),
        Seconds::None(()) => None,
    })
}

/// The token in a reply, and how long it lives.
fn read(body: &[u8]) -> Result<(Token, Duration), SampleError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|_| SampleError::Malformed("the token endpoint sent no token"))?;
    if !answer.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(SampleError::Malformed("the token endpoint sent a token that is no bearer token"));
    }
    let token = Token::new(&answer.access_token)
        .ok_or(SampleError::Malformed("the token endpoint sent a token with illegal characters"))?;
    let life = match answer.expires_in {
        None => UNKNOWN_LIFE,
        Some(seconds) if seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_LIFE).min(LONGEST_LIFE)
        }
        Some(_) => Duration::ZERO,
    };
    Ok((token, life))
}

#[cfg(test)]
mod tests;
