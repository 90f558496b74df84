use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use super::*;
use crate::{
    clock::Clock,
    egress::Egress,
    http::scripted::{ScriptedServer, reply},
    sampler::Limits,
};

/// A clock that stands still until it is moved.
#[derive(Default)]
struct StillClock(Mutex<BootInstant>);

impl StillClock {
    fn forward(&self, seconds: u64) {
        let mut now = self.0.lock().unwrap();
        *now = *now + Duration::from_secs(seconds);
    }
}

impl Clock for StillClock {
    fn boot(&self) -> BootInstant {
        *self.0.lock().unwrap()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

fn grant(endpoint: Url) -> Grant {
    Grant {
        endpoint,
        client_id: "id".into(),
        client_secret: "hunter2".into(),
        scopes: Vec::new(),
        parameters: Vec::new(),
        mechanism: "oauthbearer",
    }
}

fn source(grant: Grant, clock: &Arc<StillClock>) -> TokenSource {
    let environment = Environment { clock: clock.clone(), egress: Egress::open(), limits: Limits::default() };
    TokenSource::new(&TenantId::local("team-a"), grant, &TlsSettings::default(), &environment).unwrap()
}

fn token_reply(token: &str, life: &str) -> Vec<u8> {
    reply(200, &format!(r#"{{"access_token":"{token}","token_type":"Bearer","expires_in":{life}}}"#))
}

/// The outcome of one question to an endpoint that sends `replies`: the token, or the error's text.
async fn ask(replies: Vec<Vec<u8>>) -> Result<String, String> {
    let server = ScriptedServer::new(replies).await;
    let mut source = source(grant(server.url("127.0.0.1", "/token")), &Arc::default());
    match source.token().await {
        Ok(token) => Ok(token.expose().to_owned()),
        Err(error) => {
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
            Err(error.to_string())
        }
    }
}

#[tokio::test]
async fn the_request_is_the_rfcs() {
    let server = ScriptedServer::new(vec![token_reply("abc", "60")]).await;
    let mut grant = grant(server.url("127.0.0.1", "/oauth/token"));
    grant.client_id = "my id:é".into();
    grant.client_secret = "s3cr&t/+".into();
    grant.scopes = vec!["read".into(), "write:all".into()];
    grant.parameters = vec![("audience".into(), "https://kafka example".into())];
    assert_eq!(source(grant, &Arc::default()).token().await.unwrap().expose(), "abc");
    let request = server.requests().await.remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /oauth/token HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/x-www-form-urlencoded"), "{head}");
    // Python: b64encode((quote_plus("my id:é") + ":" + quote_plus("s3cr&t/+")).encode())
    assert!(head.contains("authorization: Basic bXkraWQlM0ElQzMlQTk6czNjciUyNnQlMkYlMkI=\r\n"), "{head}");
    assert_eq!(body, "grant_type=client_credentials&scope=read+write%3Aall&audience=https%3A%2F%2Fkafka+example");
}

#[tokio::test]
async fn a_server_that_reads_only_the_form_is_remembered() {
    let refused = || reply(401, r#"{"error":"invalid_client"}"#);
    let replies = vec![refused(), token_reply("one", "60"), token_reply("two", "60")];
    let server = ScriptedServer::new(replies).await;
    let mut source = source(grant(server.url("127.0.0.1", "/token")), &Arc::default());
    assert_eq!(source.token().await.unwrap().expose(), "one");
    source.forget();
    assert_eq!(source.token().await.unwrap().expose(), "two");
    let in_form: Vec<bool> = server
        .requests()
        .await
        .iter()
        .map(|request| request.ends_with("&client_id=id&client_secret=hunter2"))
        .collect();
    assert_eq!(in_form, [false, true, true]);
}

/// A token of `life` seconds is still used after `used` seconds, and no more after `renewed`.
async fn check_life(life: &str, used: u64, renewed: u64) {
    let server = ScriptedServer::new(vec![token_reply("one", life), token_reply("two", life)]).await;
    let clock = Arc::new(StillClock::default());
    let mut source = source(grant(server.url("127.0.0.1", "/token")), &clock);
    for (seconds, expected) in [(0, "one"), (used, "one"), (renewed - used, "two")] {
        clock.forward(seconds);
        assert_eq!(source.token().await.unwrap().expose(), expected, "life {life}");
    }
}

#[tokio::test]
async fn tokens_are_kept_until_shortly_before_their_end() {
    check_life("3600", 3569, 3570).await; // 30 s
    check_life("100", 89, 90).await; // a tenth
    check_life(r#""100""#, 89, 90).await;
    check_life("100.5", 90, 91).await;
    check_life("null", 53, 54).await; // as 60 s
    check_life("1e300", 86_369, 86_370).await; // a day
}

#[tokio::test]
async fn a_token_without_a_life_is_used_once() {
    for life in ["0", "-1"] {
        let server = ScriptedServer::new(vec![token_reply("one", life), token_reply("two", life)]).await;
        let mut source = source(grant(server.url("127.0.0.1", "/token")), &Arc::default());
        assert_eq!(source.token().await.unwrap().expose(), "one");
        assert_eq!(source.token().await.unwrap().expose(), "two");
    }
}

#[tokio::test]
async fn refusals_tell_who_must_act() {
    let error = r#"{"error":"invalid_client","error_description":"hunter2"}"#;
    for (replies, expected) in [
        (vec![reply(400, error), reply(400, error)], "credentials rejected (oauthbearer)"),
        (vec![reply(401, error), reply(401, error)], "credentials rejected (oauthbearer)"),
        (vec![reply(403, error)], "credentials rejected (oauthbearer)"),
        (vec![reply(404, "hunter2")], "credentials rejected (oauthbearer)"),
        (vec![reply(429, "hunter2")], "source not ready: the token endpoint limits requests"),
        (vec![reply(500, "hunter2")], "source unreachable"),
        (vec![reply(503, "hunter2")], "source unreachable"),
        (vec![reply(302, "hunter2")], "source sent a malformed reply: the token endpoint's status is not one of OAuth"),
        (vec![Vec::new()], "source unreachable"),
    ] {
        assert_eq!(ask(replies).await, Err(expected.to_owned()));
    }
}

#[tokio::test]
async fn replies_that_hold_no_token() {
    let no_token = "source sent a malformed reply: the token endpoint sent no token";
    let illegal = "source sent a malformed reply: the token endpoint sent a token with illegal characters";
    let deep = format!(r#"{{"access_token":"abc","x":{}}}"#, "[".repeat(30_000));
    for (body, expected) in [
        (r#"{"access_token":"abc"}"#, Ok("abc")),
        (r#"{"access_token":"abc","token_type":"bearer","scope":"x","id_token":{"a":[1]}}"#, Ok("abc")),
        (r#"{"access_token":"a\u0001auth=b"}"#, Err(illegal)),
        (r#"{"access_token":"a\r\nx: y"}"#, Err(illegal)),
        (r#"{"access_token":""}"#, Err(illegal)),
        (r#"{"access_token":7}"#, Err(no_token)),
        (r#"{"access_token":"abc","expires_in":"soon"}"#, Err(no_token)),
        (r#"{"token":"hunter2"}"#, Err(no_token)),
        ("hunter2", Err(no_token)),
        ("", Err(no_token)),
        (&deep, Err(no_token)),
        (
            r#"{"access_token":"abc","token_type":"mac"}"#,
            Err("source sent a malformed reply: the token endpoint sent a token that is no bearer token"),
        ),
        (&" ".repeat(BODY_LIMIT + 1), Err("bytes in the source's reply over the limit of 65536")),
    ] {
        let outcome = ask(vec![reply(200, body)]).await;
        assert_eq!(outcome.as_deref().map_err(String::as_str), expected, "{}", &body[..body.len().min(80)]);
    }
}

#[tokio::test]
async fn a_failure_leaves_the_source_usable() {
    let server = ScriptedServer::new(vec![reply(503, ""), token_reply("abc", "60")]).await;
    let mut source = source(grant(server.url("127.0.0.1", "/token")), &Arc::default());
    assert!(source.token().await.is_err());
    assert_eq!(source.token().await.unwrap().expose(), "abc");
}
