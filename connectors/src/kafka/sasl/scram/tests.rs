use proptest::prelude::*;

use super::*;

type Make = fn(&Login, String) -> Scram;

const BOTH: [(Make, &Hash); 2] = [(Scram::sha256, &SHA_256), (Scram::sha512, &SHA_512)];

fn login(username: &str, password: &str) -> Login {
    Login { username: username.into(), password: password.into() }
}

/// A whole exchange, both sides' messages known.
#[track_caller]
fn check(mut scram: Scram, messages: [&str; 4]) {
    let [client_first, server_first, client_final, server_final] = messages;
    assert_eq!(String::from_utf8(scram.client_first()).unwrap(), client_first);
    let answer = scram.respond(server_first.as_bytes()).unwrap().unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), client_final);
    assert_eq!(scram.respond(server_final.as_bytes()), Ok(None));
}

/// RFC 7677, 3.
#[test]
fn sha256_is_the_rfcs() {
    check(
        Scram::sha256(&login("user", "pencil"), "rOprNGfwEbeRWgbNEkqO".into()),
        [
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ],
    );
}

/// Computed with Python's hashlib and hmac, which give the RFC's messages for SHA-256.
#[test]
fn sha512_is_pythons() {
    check(
        Scram::sha512(&login("user", "pencil"), "rOprNGfwEbeRWgbNEkqO".into()),
        [
            "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+\
             xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
            "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
        ],
    );
    check(
        Scram::sha512(&login("a=b,c", "p,=ä"), "fyko".into()),
        [
            "n,,n=a=3Db=2Cc,r=fyko",
            "r=fykoX,s=QSXCR+Q6sek8bf92,i=8192",
            "c=biws,r=fykoX,p=Fbj4UJVgqgIC76PMTUH9kTqCBa2u/8nSDbR7QDf8osZxkwAdmeMF1ot9Rvo1LnH2AaqvbwsU+G7ZAxTzBtHDGg==",
            "v=t3hDqqnulO5aykVlI1LpfJB8QubpFHR5iKcA1uWw8dIm7n6aG6meHskRlZ9EiQKvNgW+bAg18Q+szufeudTDBg==",
        ],
    );
}

/// What a server keeps of a user (RFC 5802, 3), and how it judges a proof: it never sees the password.
struct Server {
    hash: &'static Hash,
    stored_key: digest::Digest,
    signing_key: hmac::Tag,
}

const SALT: &[u8] = b"salt of the earth";
const ITERATIONS: u32 = LEAST_ITERATIONS;

impl Server {
    fn new(hash: &'static Hash, password: &str) -> Self {
        let mut salted = vec![0; hash.digest.output_len()];
        let iterations = NonZeroU32::new(ITERATIONS).unwrap();
        pbkdf2::derive(hash.pbkdf2, iterations, SALT, password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(hash.hmac, &salted);
        let stored_key = digest::digest(hash.digest, hmac::sign(&salted, b"Client Key").as_ref());
        Self { hash, stored_key, signing_key: hmac::sign(&salted, b"Server Key") }
    }

    fn first(client_first: &str) -> String {
        let (_, client_nonce) = client_first.split_once(",r=").unwrap();
        format!("r={client_nonce}server,s={},i={ITERATIONS}", BASE64.encode(SALT))
    }

    fn last(&self, client_first: &str, server_first: &str, client_final: &str) -> String {
        let (without_proof, proof) = client_final.rsplit_once(",p=").unwrap();
        let auth_message = format!("{},{server_first},{without_proof}", client_first.strip_prefix("n,,").unwrap());
        let signature = |key: &[u8]| hmac::sign(&hmac::Key::new(self.hash.hmac, key), auth_message.as_bytes());
        let client_signature = signature(self.stored_key.as_ref());
        let proof = BASE64.decode(proof).unwrap();
        let client_key: Vec<u8> = proof.iter().zip(client_signature.as_ref()).map(|(a, b)| a ^ b).collect();
        if digest::digest(self.hash.digest, &client_key).as_ref() == self.stored_key.as_ref() {
            format!("v={}", BASE64.encode(signature(self.signing_key.as_ref()).as_ref()))
        } else {
            "e=invalid-proof".into()
        }
    }
}

/// The end of an exchange between a client that thinks the password is `mine`, and a server that knows `theirs`.
fn end(make: Make, hash: &'static Hash, mine: &str, theirs: &str) -> Result<Option<Vec<u8>>, SaslError> {
    let server = Server::new(hash, theirs);
    let mut client = make(&login("user", mine), nonce());
    let first = String::from_utf8(client.client_first()).unwrap();
    let server_first = Server::first(&first);
    let last = String::from_utf8(client.respond(server_first.as_bytes()).unwrap().unwrap()).unwrap();
    client.respond(server.last(&first, &server_first, &last).as_bytes())
}

#[test]
fn only_the_right_password_comes_through() {
    for (make, hash) in BOTH {
        assert_eq!(end(make, hash, "pencil", "pencil"), Ok(None));
        assert_eq!(end(make, hash, "pencil", "pen"), Err(SaslError::Rejected));
    }
}

#[test]
fn nonces_differ() {
    assert_ne!(nonce(), nonce());
}

#[track_caller]
fn check_first(server_first: &str, expected: Option<SaslError>) {
    for (make, _) in BOTH {
        let mut scram = make(&login("user", "pencil"), "mine".into());
        assert_eq!(scram.respond(server_first.as_bytes()).err(), expected, "{server_first}");
    }
}

#[test]
fn e11_what_a_server_may_not_ask() {
    let nonce = SaslError::Malformed("a SCRAM nonce that does not extend the client's");
    let iterations = SaslError::Malformed("SCRAM iterations out of bounds");
    for (server_first, expected) in [
        ("r=mine+theirs,s=c2FsdA==,i=4096", None),
        ("r=mine+theirs,s=c2FsdA==,i=65536", None),
        ("r=mine+theirs,s=c2FsdA==,i=4096,x=later", None),
        ("r=mine+theirs,s=c2FsdA==,i=4095", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=65537", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=1000000", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=99999999999999999999", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=04096", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=+4096", Some(iterations)),
        ("r=mine+theirs,s=c2FsdA==,i=", Some(iterations)),
        ("r=mine,s=c2FsdA==,i=4096", Some(nonce)),
        ("r=min,s=c2FsdA==,i=4096", Some(nonce)),
        ("r=theirs,s=c2FsdA==,i=4096", Some(nonce)),
        ("r=mine theirs,s=c2FsdA==,i=4096", Some(nonce)),
        ("r=mine+theirs,s=,i=4096", Some(SaslError::Malformed("a SCRAM salt that is not base64"))),
        ("r=mine+theirs,s=%,i=4096", Some(SaslError::Malformed("a SCRAM salt that is not base64"))),
        ("s=c2FsdA==,r=mine+theirs,i=4096", Some(SaslError::Malformed("a SCRAM message without a nonce"))),
        ("r=mine+theirs,i=4096", Some(SaslError::Malformed("a SCRAM message without a salt"))),
        ("r=mine+theirs,s=c2FsdA==", Some(SaslError::Malformed("a SCRAM message without iterations"))),
        ("", Some(SaslError::Malformed("a SCRAM message without a nonce"))),
        ("m=must,r=mine+theirs,s=c2FsdA==,i=4096", Some(SaslError::Malformed("a mandatory SCRAM extension"))),
        ("e=unknown-user", Some(SaslError::Rejected)),
    ] {
        check_first(server_first, expected);
    }
}

#[test]
fn a_server_without_the_password_is_not_believed() {
    let without = SaslError::Malformed("a SCRAM message without a signature");
    for (server_final, expected) in [
        ("v=", SaslError::ServerNotVerified),
        ("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", SaslError::ServerNotVerified),
        ("v=%", without),
        ("", without),
        ("x=v=AAAA", without),
        ("e=other-error", SaslError::Rejected),
    ] {
        let mut scram = Scram::sha256(&login("user", "pencil"), "mine".into());
        scram.respond(b"r=mine+theirs,s=c2FsdA==,i=4096").unwrap();
        assert_eq!(scram.respond(server_final.as_bytes()), Err(expected), "{server_final}");
    }
}

proptest! {
    #[test]
    fn no_message_panics(salt in "[A-Za-z0-9+/=,]{0,12}", iterations in "[0-9+-]{0,6}", last in "[ve]?=?[ -~]{0,40}") {
        let mut scram = Scram::sha256(&login("user", "pencil"), "mine".into());
        if scram.respond(format!("r=mine+,s={salt},i={iterations}").as_bytes()).is_ok() {
            prop_assert!(scram.respond(last.as_bytes()).is_err());
        }
    }
}
