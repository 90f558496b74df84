//! Secrets that can be found again, and a token endpoint that tells what it was told.

use std::{fmt::Write as _, net::SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use tidegate_tests::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// All secrets of one test.
#[derive(Default)]
pub struct Canaries {
    /// What is searched for: letters and digits only, so that URLs, JSON and escapes leave it as it is.
    tokens: Vec<String>,
}

impl Canaries {
    /// A new secret, with signs that encodings change around its token.
    pub fn secret(&mut self, name: &str) -> String {
        let token = format!("Zq7{name}cAnArY{}x", self.tokens.len());
        self.tokens.push(token.clone());
        format!("p/+%{token}= &\"s")
    }

    /// Adds the lines of a key in PEM form.
    pub fn add_lines(&mut self, pem: &str) {
        let lines = pem.lines().filter(|line| !line.starts_with('-') && line.len() > 30);
        let before = self.tokens.len();
        self.tokens.extend(lines.map(str::to_owned));
        assert!(self.tokens.len() > before, "a key has lines");
    }

    /// Fails if one of them is in `text`, in whatever form.
    #[track_caller]
    pub fn check(&self, place: &str, text: &str) {
        let found = self.found_in(text);
        assert!(found.is_none(), "a secret is in {place}, as {}", found.unwrap_or_default());
    }

    /// The form in which one of them is in `text`.
    pub fn found_in(&self, text: &str) -> Option<String> {
        self.tokens.iter().flat_map(|token| forms(token)).find(|form| text.contains(form))
    }
}

/// The token itself; within base64, whatever stands before and after it; in hexadecimal; as a list of bytes.
fn forms(token: &str) -> Vec<String> {
    let mut forms = vec![token.to_owned()];
    for before in 0..3 {
        let bytes = [&vec![0; before][..], token.as_bytes()].concat();
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        // Only the characters that nothing but the token decides.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        forms.push(encoded[from..to].to_owned());
        forms.push(encoded[from..to].replace('+', "-").replace('/', "_"));
    }
    let mut hex = String::new();
    token.bytes().for_each(|byte| write!(hex, "{byte:02x}").expect("a string takes everything"));
    forms.extend([hex.to_uppercase(), hex, format!("{:?}", token.as_bytes()).replace(['[', ']'], "")]);
    forms
}

/// An HTTP server: `/token` gives a token, anything else is refused with all that was sent.
pub struct TokenServer {
    /// Where it listens.
    pub address: SocketAddr,
    _serving: JoinSet<()>,
}

impl TokenServer {
    /// Starts it; the token that it gives is `token`.
    pub async fn start(token: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let token = token.to_owned();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that goes ends it.
                let _ = answer(stream, &token).await;
            }
        });
        Ok(Self { address, _serving: serving })
    }
}

async fn answer(mut stream: TcpStream, token: &str) -> Result {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"POST /token") {
        (200, format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":3600}}"#))
    } else {
        (401, String::from_utf8_lossy(&request).into_owned())
    };
    let head = format!("HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}
