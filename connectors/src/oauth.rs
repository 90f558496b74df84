//! Access tokens by the client credentials grant (RFC 6749, 4.4).

use secrecy::{ExposeSecret, SecretString};

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
