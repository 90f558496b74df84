//! What is no listing: refusals, redirects, other servers, silence. Never a zero.

use tokio::net::TcpListener;

use super::*;

async fn answer(reply: Vec<u8>) -> SampleError {
    let server = ScriptedServer::new(vec![reply]).await;
    let mut found = sample(&mut of(&server), &[named("a"), matching("b")]).await;
    assert!(found.pop().unwrap().is_err());
    found.pop().unwrap().unwrap_err()
}

/// The bodies are RabbitMQ 3.10.8's. Nothing of a body and of the URL is in a text (cases.md B62, safety.md D6).
#[tokio::test]
async fn what_the_server_refuses_is_named() {
    let not_authorised = |reason: &str| format!(r#"{{"error":"not_authorised","reason":"{reason}"}}"#);
    let missing = r#"{"error":"Object Not Found","reason":"Not Found"}"#.to_owned();
    for (status, body, text) in [
        (401, not_authorised("Login failed"), "credentials rejected (none given)"),
        (401, String::new(), "credentials rejected (none given)"),
        (403, "hunter2".to_owned(), "credentials rejected (none given)"),
        (
            401,
            not_authorised("Not management user"),
            "not authorised to read the management API: the user lacks the tag management",
        ),
        (401, not_authorised("User not authorised to access virtual host"), "not authorised to read virtual host shop"),
        (404, missing, "virtual host shop not found"),
        (404, "<html>hunter2</html>".to_owned(), "the management API under host not found"),
        (429, String::new(), "source not ready: the management API limits requests"),
        (500, "hunter2".to_owned(), "source unreachable"),
        (503, String::new(), "source unreachable"),
        (400, String::new(), "the management API under host not found"),
        (406, String::new(), "the management API under host not found"),
        (302, String::new(), "source sent a malformed reply: it is a redirect, which is not followed"),
        (200, "<html>hunter2</html>".to_owned(), "source sent a malformed reply: it is not a page of queues"),
        (204, String::new(), "source sent a malformed reply: its status is not one of the management API"),
    ] {
        assert_eq!(answer(reply(status, &body)).await.to_string(), text, "{status}");
    }
}

#[tokio::test]
async fn e6_a_body_without_an_end_is_over_the_limit() {
    let endless = b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec();
    assert!(matches!(answer(endless).await, SampleError::OverLimit { .. }));
}

#[tokio::test]
async fn credentials_are_a_header_and_not_in_the_url() {
    let server = ScriptedServer::new(vec![reply(401, "")]).await;
    let host = server.url("127.0.0.1", "/a%2Fb").to_string().replace("//", "//us%40er:hunt%2Fer2@");
    let found = sample(&mut sampler(&[("host", &host)]), &[named("q")]).await;
    assert_eq!(found[0].as_ref().unwrap_err().to_string(), "credentials rejected (basic)");
    let request = server.requests().await.remove(0);
    assert!(request.starts_with("GET /api/queues/a%2Fb?page=1&"), "{request}");
    assert!(request.contains("authorization: Basic dXNAZXI6aHVudC9lcjI=\r\n"), "{request}"); // us@er:hunt/er2
}

/// safety.md E5: within the trigger's own time, and nothing else waits for it.
#[tokio::test(start_paused = true)]
async fn b64_a_server_that_hangs_costs_the_triggers_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("http://{}/", listener.local_addr().unwrap());
    for (timeout, seconds) in [("2s", 2), ("2000", 2), ("0", 5), ("60s", 7)] {
        let mut sampler = sampler(&[("host", &host), ("timeout", timeout)]);
        let started = Instant::now();
        let found = sample(&mut sampler, &[named("a")]).await;
        assert!(matches!(found[0], Err(SampleError::TimedOut)), "{:?}", found[0]);
        assert_eq!(started.elapsed().as_secs(), seconds, "{timeout}");
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_when_it_is_refused() {
    let token = |name: &str| reply(200, &format!(r#"{{"access_token":"{name}","expires_in":3600}}"#));
    let idp = ScriptedServer::new(vec![token("first"), token("second")]).await;
    let listing = || page(&[item("a", 1)], 1);
    let server = ScriptedServer::new(vec![listing(), listing(), reply(401, ""), listing(), reply(401, "")]).await;
    let (host, uri) = (server.url("127.0.0.1", "/").to_string(), idp.url("127.0.0.1", "/token").to_string());
    let mut sampler = sampler(&[
        ("host", &host),
        ("oauthTokenURI", &uri),
        ("clientID", "id"),
        ("clientSecret", "secret"),
        ("scopes", "read,write"),
        ("endpointParams", "audience=rmq"),
    ]);
    for _ in 0..3 {
        assert!(sample(&mut sampler, &[named("a")]).await[0].is_ok());
    }
    let tokens: Vec<_> = idp.requests().await;
    assert!(tokens[0].contains("scope=read+write") && tokens[0].contains("audience=rmq"), "{}", tokens[0]);
    assert!(sample(&mut sampler, &[named("a")]).await[0].is_err());
    let used = server.requests().await;
    let used: Vec<_> = used.iter().map(|request| request.contains("authorization: Bearer second\r\n")).collect();
    assert_eq!(used, [false, false, false, true, true]);
}

/// Where the host is known only with the credential.
#[tokio::test]
async fn what_amqp_cannot_tell_is_an_error_of_the_query_and_not_of_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("amqp://{}/", listener.local_addr().unwrap());
    drop(listener);
    let mut sampler = sampler(&[("host", &host)]);
    let ready = Query { needs: Needs::Ready, ..named("a") };
    let found = sample(&mut sampler, &[rates("a"), matching("a"), ready, named("a")]).await;
    let texts: Vec<_> = found.iter().map(|found| found.as_ref().unwrap_err().to_string()).collect();
    assert_eq!(
        texts,
        [
            "mode: needs the http protocol",
            "useRegex: needs the http protocol",
            "excludeUnacknowledged: needs the http protocol",
            "source unreachable"
        ]
    );
}
