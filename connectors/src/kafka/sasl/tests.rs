use proptest::prelude::*;

use super::*;

fn login(username: &str, password: &str) -> Login {
    Login { username: username.into(), password: password.into() }
}

fn oauth(extensions: &[(&str, &str)]) -> Sasl {
    Sasl::OAuthBearer(OAuth {
        token_endpoint: "https://issuer.example/token".into(),
        login: login("id", "secret"),
        scopes: Vec::new(),
        extensions: extensions.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
    })
}

fn start(sasl: &Sasl) -> Exchange {
    let token = Token::new("abc.def-123==");
    Exchange::start(sasl, token.as_ref()).expect("the parameters fit").expect("there is a mechanism")
}

fn every_mechanism() -> [Exchange; 4] {
    [
        start(&Sasl::Plain(login("user", "pencil"))),
        start(&Sasl::ScramSha256(login("user", "pencil"))),
        start(&Sasl::ScramSha512(login("user", "pencil"))),
        start(&oauth(&[])),
    ]
}

#[test]
fn none_is_no_exchange() {
    assert!(Exchange::start(&Sasl::None, None).expect("nothing to refuse").is_none());
}

#[test]
fn mechanisms_have_kafkas_names_and_kedas() {
    let names = every_mechanism().map(|exchange| (exchange.mechanism(), exchange.keda_mechanism()));
    let expected = [
        ("PLAIN", "plaintext"),
        ("SCRAM-SHA-256", "scram_sha256"),
        ("SCRAM-SHA-512", "scram_sha512"),
        ("OAUTHBEARER", "oauthbearer"),
    ];
    assert_eq!(names, expected);
}

#[test]
fn plain_is_one_message() {
    let mut exchange = start(&Sasl::Plain(login("tim", "tanstaaftanstaaf")));
    assert_eq!(exchange.initial(), b"\0tim\0tanstaaftanstaaf"); // RFC 4616, 4
    assert_eq!(exchange.respond(b""), Ok(None));
    assert_eq!(exchange.mechanism(), "PLAIN");
    assert!(matches!(exchange.respond(b""), Err(SaslError::Malformed(_))));

    let mut exchange = start(&Sasl::Plain(login("tim", "tanstaaftanstaaf")));
    assert!(matches!(exchange.respond(b"more"), Err(SaslError::Malformed(_))));
}

#[test]
fn plain_has_no_room_for_nul() {
    for (username, password, key) in [("a\0b", "c", "username"), ("a", "b\0c", "password")] {
        let error = Exchange::start(&Sasl::Plain(login(username, password)), None).err().expect("NUL is refused");
        assert_eq!(error.key, key);
    }
}

#[test]
fn oauth_bearer_carries_token_and_extensions() {
    let mut exchange = start(&oauth(&[("logicalCluster", "lkc-1"), ("identityPoolId", "pool 7")]));
    let expected = b"n,,\x01auth=Bearer abc.def-123==\x01logicalCluster=lkc-1\x01identityPoolId=pool 7\x01\x01";
    assert_eq!(exchange.initial(), expected);
    assert_eq!(exchange.respond(b""), Ok(None));
    assert_eq!(start(&oauth(&[])).initial(), b"n,,\x01auth=Bearer abc.def-123==\x01\x01");
}

#[test]
fn oauth_bearer_acknowledges_a_refusal() {
    let mut exchange = start(&oauth(&[]));
    exchange.initial();
    assert_eq!(exchange.respond(br#"{"status":"invalid_token"}"#), Ok(Some(vec![1]))); // RFC 7628, 3.2.3
    assert_eq!(exchange.mechanism(), "OAUTHBEARER");
    assert_eq!(exchange.respond(b""), Err(SaslError::Rejected));
}

#[test]
fn oauth_bearer_refuses_what_would_change_the_message() {
    for extension in [("auth", "x"), ("", "x"), ("a1", "x"), ("a=b", "x"), ("a", ""), ("a", "x\x01auth=Bearer y")] {
        let error = Exchange::start(&oauth(&[extension]), Token::new("t").as_ref()).err().expect("refused");
        assert_eq!(error.key, "oauthExtensions", "{extension:?}");
    }
    assert!(Exchange::start(&oauth(&[]), None).is_err());
    for token in ["", "a b", "a\x01b", "a\nb", "ä"] {
        assert!(Token::new(token).is_none(), "{token:?}");
    }
}

#[test]
fn a_refusal_names_kedas_mechanism() {
    let error = SaslError::Rejected.into_sample_error("scram_sha512");
    assert_eq!(error.to_string(), "credentials rejected (scram_sha512)");
}

#[test]
fn long_challenges_are_refused() {
    for mut exchange in every_mechanism() {
        exchange.initial();
        assert!(matches!(exchange.respond(&vec![b'a'; CHALLENGE_LIMIT + 1]), Err(SaslError::Malformed(_))));
    }
}

proptest! {
    #[test]
    fn no_challenge_panics_or_ends_scram_well(challenges in prop::collection::vec(any::<Vec<u8>>(), 1..4)) {
        for mut exchange in every_mechanism() {
            exchange.initial();
            for challenge in &challenges {
                let answer = exchange.respond(challenge);
                if exchange.mechanism().starts_with("SCRAM") {
                    prop_assert!(answer.is_err());
                }
            }
        }
    }
}
