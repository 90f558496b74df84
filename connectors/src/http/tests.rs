use std::{sync::Arc, time::SystemTime};

use super::{
    scripted::{ScriptedServer, reply},
    *,
};
use crate::{clock::TokioClock, credentials::Credentials, sampler::Limits};

fn environment() -> Environment {
    let clock = Arc::new(TokioClock::starting_at(SystemTime::UNIX_EPOCH));
    Environment { clock, egress: Egress::open(), limits: Limits::default() }
}

fn client(url: &Url) -> HttpClient {
    HttpClient::new(&TenantId::local("team-a"), url, &TlsSettings::default(), &environment()).unwrap()
}

async fn fetch(url: Url, limit: usize) -> Result<Reply, SampleError> {
    let client = client(&url);
    client.fetch(client.request(Method::GET, url), Duration::from_secs(5), limit).await
}

#[tokio::test]
async fn a_request_says_who_asks_and_nothing_else() {
    for host in ["127.0.0.1", "localhost", "127.1"] {
        let server = ScriptedServer::new(vec![reply(200, "hello")]).await;
        let url = server.url(host, "/api?q=1");
        let authority = url.authority().to_owned();
        let reply = fetch(url, BODY_LIMIT).await.unwrap();
        assert_eq!((reply.status, &reply.body[..]), (StatusCode::OK, &b"hello"[..]));
        let request = server.requests().await.remove(0);
        let (first, rest) = request.strip_suffix("\r\n\r\n").unwrap().split_once("\r\n").unwrap();
        let mut headers: Vec<_> = rest.split("\r\n").collect();
        headers.sort_unstable();
        assert_eq!(first, "GET /api?q=1 HTTP/1.1");
        let (host, agent) =
            (format!("host: {authority}"), format!("user-agent: tidegate/{}", env!("CARGO_PKG_VERSION")));
        assert_eq!(headers, ["accept: */*", &host, &agent]);
    }
}

#[tokio::test]
async fn b5_redirects_are_answers() {
    let moved = b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n".to_vec();
    let server = ScriptedServer::new(vec![moved]).await;
    assert_eq!(fetch(server.url("127.0.0.1", "/"), BODY_LIMIT).await.unwrap().status, StatusCode::FOUND);
}

fn chunked(chunks: usize) -> Vec<u8> {
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    format!("{head}{}0\r\n\r\n", chunk.repeat(chunks)).into_bytes()
}

#[tokio::test]
async fn e6_bodies_end_at_the_limit() {
    let announced = b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec();
    for (sent, fits) in [
        (reply(200, &"x".repeat(2048)), true),
        (chunked(2), true),
        (reply(200, &"x".repeat(2049)), false),
        (chunked(3), false),
        (announced, false),
    ] {
        let server = ScriptedServer::new(vec![sent]).await;
        let result = fetch(server.url("127.0.0.1", "/"), 2048).await;
        match result {
            Ok(reply) => assert!(fits && reply.body.len() == 2048),
            Err(SampleError::OverLimit { limit, .. }) => assert!(!fits && limit == 2048),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn nothing_is_decompressed() {
    let bomb = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nbomb".into();
    let server = ScriptedServer::new(vec![bomb]).await;
    assert_eq!(&fetch(server.url("127.0.0.1", "/"), BODY_LIMIT).await.unwrap().body[..], b"bomb");
}

#[tokio::test]
async fn what_is_not_http_is_unreachable() {
    for sent in [&b""[..], b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort"] {
        let server = ScriptedServer::new(vec![sent.to_vec()]).await;
        let url = server.url("127.0.0.1", "/?token=hunter2");
        let error = fetch(url, BODY_LIMIT).await.err().expect("not a reply");
        assert!(matches!(error, SampleError::Unreachable(_)), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}"); // D5
    }
}

#[tokio::test]
async fn tls_failures_have_a_reason() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("https://{}/", listener.local_addr().unwrap())).unwrap();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncReadExt::read_u8(&mut stream).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream // not closed before the client has read it
    };
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    let client = HttpClient::new(&TenantId::local("team-a"), &url, &insecure, &environment()).unwrap();
    let ask = client.fetch(client.request(Method::GET, url), Duration::from_secs(5), BODY_LIMIT);
    let (_open, result) = tokio::join!(serve, ask);
    let error = result.err().expect("no TLS");
    assert!(matches!(error, SampleError::Tls("the server does not speak TLS on this port", _)), "{error:?}");
}

#[tokio::test]
async fn a_client_stays_with_its_origin() {
    let client = client(&Url::parse("http://127.0.0.1:1/").unwrap());
    for other in ["http://127.0.0.1:2/", "http://127.0.0.2:1/", "https://127.0.0.1:1/", "http://prometheus.example:1/"]
    {
        let request = client.request(Method::GET, Url::parse(other).unwrap());
        let error = client.fetch(request, Duration::from_secs(5), BODY_LIMIT).await.err().expect("another origin");
        assert!(matches!(error, SampleError::Refused), "{other}: {error:?}");
    }
}

/// Neither by name nor by address, whatever spelling.
#[tokio::test]
async fn a5_a_host_that_the_credential_does_not_allow_gets_no_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let list = Credentials::new([("allowedHosts".to_owned(), format!("*.example,127.0.0.2,localhost:{}", port - 1))]);
    let environment = environment();
    let egress = environment.egress.bound_to(Some(&list)).unwrap();
    let environment = Environment { egress, ..environment };
    for host in ["localhost", "127.0.0.1", "127.1"] {
        let url = Url::parse(&format!("http://user:hunter2@{host}:{port}/")).unwrap();
        let client = HttpClient::new(&TenantId::local("team-a"), &url, &TlsSettings::default(), &environment).unwrap();
        let error = client.fetch(client.request(Method::GET, url), Duration::from_secs(5), BODY_LIMIT).await;
        let error = error.err().expect("not allowed");
        assert!(matches!(error, SampleError::Refused), "{host}: {error:?}");
    }
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none(), "nobody connected");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let error = fetch(url, BODY_LIMIT).await.err().expect("no reply");
    assert!(matches!(error, SampleError::TimedOut), "{error:?}");
}

#[test]
fn b3_literals_are_found_in_every_spelling() {
    for (text, expected) in [
        ("http://127.0.0.1:9090/", Some(("127.0.0.1", 9090))),
        ("http://127.1/", Some(("127.0.0.1", 80))),
        ("https://0x7f.1/", Some(("127.0.0.1", 443))),
        ("http://2130706433/", Some(("127.0.0.1", 80))),
        ("http://0177.0.0.1/", Some(("127.0.0.1", 80))),
        ("http://[::ffff:169.254.169.254]/", Some(("::ffff:169.254.169.254", 80))),
        ("http://[::1]:1/", Some(("::1", 1))),
        ("http://１２７.0.0.1/", Some(("127.0.0.1", 80))),
        ("http://prometheus.example/", None),
    ] {
        let expected = expected.map(|(address, port)| (address.parse().unwrap(), port));
        assert_eq!(literal(&Url::parse(text).unwrap()), expected, "{text}");
    }
}

#[test]
fn b11_urls_are_http() {
    for text in ["http://prometheus:9090", "https://user:pass@host/sub/path?q=1"] {
        assert!(url("serverAddress", text).is_ok(), "{text}");
    }
    for text in ["file:///etc/passwd", "gopher://host/", "unix:/run/x.sock", "host:9090", "http://", "", "/path"] {
        assert_eq!(url("serverAddress", text).expect_err("refused").key, "serverAddress", "{text}");
    }
}
