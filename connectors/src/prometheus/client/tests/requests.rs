//! What is sent: the form, the URL, the headers, and how often.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use super::*;

/// The one request that a trigger sends.
async fn request(changes: &[(&str, &str)], credential: &[(&str, &str)]) -> Request {
    let server = Server::new(|_| value("5")).await;
    assert_eq!(read(&server, changes, credential).await, Ok((5.0, true, false)), "{changes:?}");
    let mut requests = server.take_requests();
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

#[tokio::test]
async fn a_request_is_a_form_and_has_no_time() {
    let sent = request(&[], CREDENTIAL).await;
    assert!(sent.head.starts_with("POST /api/v1/query HTTP/1.1\r\n"), "{}", sent.head);
    assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(sent.body, "query=sum%28queue_depth%29");
}

#[tokio::test]
async fn b107_queries_arrive_intact() {
    let long = format!("sum({})", vec!["rate(a_metric_total[5m])"; 330].join("+"));
    assert!(long.len() > 8000);
    for expression in ["sum(a{b=\"c&d#e+f\"}) + 1 % 2", "sum({\"größe.東京\"})", "a\n  + b", &long] {
        let sent = request(&[("query", expression)], CREDENTIAL).await;
        let decoded: Vec<_> =
            reqwest::Url::parse(&format!("http://form/?{}", sent.body)).unwrap().query_pairs().into_owned().collect();
        assert_eq!(decoded, [("query".to_owned(), expression.to_owned())]);
    }
}

#[tokio::test]
async fn namespace_and_parameters_are_encoded_in_the_url() {
    let changes = [("namespace", "a&b=c d"), ("queryParameters", "first=foo,second=b=a r"), ("serverAddress", "")];
    let server = Server::new(|_| value("5")).await;
    let url = format!("{}/prom/", server.url());
    let changes: Vec<_> = changes.into_iter().map(|(k, v)| (k, if v.is_empty() { url.as_str() } else { v })).collect();
    read(&server, &changes, CREDENTIAL).await.unwrap();
    let sent = server.take_requests().remove(0);
    let line = "POST /prom/api/v1/query?namespace=a%26b%3Dc+d&first=foo&second=b%3Da+r HTTP/1.1";
    assert_eq!(sent.head.lines().next(), Some(line));
}

#[tokio::test]
async fn b104_header_values_keep_their_equals_sign() {
    let headers = ("customHeaders", "X-Client-Id=cid,X-Tenant-Id=dG9r==, X-Empty = ");
    let sent = request(&[headers], CREDENTIAL).await;
    assert_eq!(sent.header("x-client-id"), Some("cid"));
    assert_eq!(sent.header("x-tenant-id"), Some("dG9r=="));
    assert!(sent.head.contains("\r\nx-empty: "));
}

#[tokio::test]
async fn b103_tokens_are_trimmed() {
    let sent = request(&[("authModes", "bearer")], &[("bearerToken", "tooooken\n")]).await;
    assert_eq!(sent.header("authorization"), Some("Bearer tooooken"));
}

/// KEDA applies one of several headers, and never `oauth` and `apiKey` (D24).
#[tokio::test]
async fn modes_send_what_they_are_documented_to() {
    let basic = request(&[("authModes", "basic")], &[("username", "user"), ("password", "pass")]).await;
    assert_eq!(basic.header("authorization"), Some("Basic dXNlcjpwYXNz"));
    let no_password = request(&[("authModes", "basic")], &[("username", "user")]).await;
    assert_eq!(no_password.header("authorization"), Some("Basic dXNlcjo="));
    let several =
        [("authModes", "bearer,custom,apiKey"), ("customAuthHeader", "X-AUTH-TOKEN"), ("keyParamName", "X-Key")];
    let secrets = [("bearerToken", "a"), ("customAuthValue", "b\n"), ("apiKey", "c")];
    let several = request(&several, &secrets).await;
    assert_eq!(several.header("authorization"), Some("Bearer a"));
    assert_eq!(several.header("x-auth-token"), Some("b"));
    assert_eq!(several.header("x-key"), Some("c"));
    let key = request(&[("authModes", "apiKey")], &[("apiKey", "c")]).await;
    assert_eq!(key.header("x-api-key"), Some("c"));
    let in_query = request(&[("authModes", "apiKey"), ("method", "query")], &[("apiKey", "c d")]).await;
    assert!(in_query.head.starts_with("POST /api/v1/query?api_key=c+d HTTP/1.1\r\n"), "{}", in_query.head);
    let none = request(&[], &[("bearerToken", "a"), ("username", "u"), ("apiKey", "c")]).await;
    assert_eq!((none.header("authorization"), none.header("x-api-key")), (None, None));
}

#[tokio::test]
async fn oauth_tokens_are_fetched_once_and_again_after_a_refusal() {
    let server = Server::new(|request| {
        if request.head.starts_with("POST /token ") {
            return reply(200, "", r#"{"access_token":"abc","token_type":"Bearer","expires_in":3600}"#);
        }
        if request.body.contains("refused") { reply(401, "", "") } else { value("5") }
    })
    .await;
    let token_url = format!("{}/token", server.url());
    let grant = [("oauthTokenURI", token_url.as_str()), ("clientID", "id"), ("clientSecret", "s")];
    let (mut client, good, _) = trigger(&server, &[("authModes", "oauth")], &grant);
    for _ in 0..2 {
        assert!(client.sample(&[good.clone(), query("other")]).await.iter().all(Result::is_ok));
    }
    let requests = server.take_requests();
    assert_eq!(requests.len(), 5);
    assert!(requests[0].head.starts_with("POST /token "));
    assert!(requests[1..].iter().all(|request| request.header("authorization") == Some("Bearer abc")));
    let error = client.sample(&[query("refused")]).await.remove(0).unwrap_err();
    assert_eq!(error.to_string(), "credentials rejected (oauth)");
    assert!(client.sample(&[good]).await[0].is_ok());
    let heads: Vec<_> = server.take_requests().iter().map(|r| r.head.starts_with("POST /token ")).collect();
    assert_eq!(heads, [false, true, false]);
}

#[tokio::test]
async fn a_token_endpoint_that_fails_fails_all_queries() {
    let server = Server::new(|_| reply(503, "", "hunter2")).await;
    let token_url = format!("{}/token", server.url());
    let grant = [("oauthTokenURI", token_url.as_str()), ("clientID", "id"), ("clientSecret", "hunter2")];
    let (mut client, good, _) = trigger(&server, &[("authModes", "oauth")], &grant);
    for answer in client.sample(&[good, query("other")]).await {
        assert_eq!(shown(answer.unwrap_err()), "source unreachable");
    }
}

/// A server whose certificate only its own `ca` vouches for.
#[tokio::test]
async fn b109_ca_alone_and_unsafe_ssl_with_any_mode() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let server = Server::with_tls(TlsAcceptor::from(Arc::new(config)), |_| value("5")).await;
    let pem = cert.pem();
    let ok = Ok((5.0, true, false));
    let modes = [("username", "u"), ("password", "p"), ("bearerToken", "t"), ("ca", pem.as_str())];
    assert_eq!(read(&server, &[("ca", &pem)], CREDENTIAL).await, ok);
    assert_eq!(read(&server, &[("authModes", "basic")], &modes).await, ok);
    assert_eq!(read(&server, &[("authModes", "bearer"), ("unsafeSsl", "true")], &modes[..3]).await, ok);
    assert_eq!(server.take_requests().last().unwrap().header("authorization"), Some("Bearer t"));
    let refused = read(&server, &[("authModes", "bearer")], &modes[..3]).await.unwrap_err();
    assert!(refused.starts_with("TLS handshake with the source failed: "), "{refused}");
}

/// Issue 3: 2,000 triggers on 40 distinct queries of one server. What the store polls is what is distinct.
#[tokio::test]
async fn two_thousand_triggers_are_forty_requests_on_eight_connections() {
    let server = Server::new(|_| value("5")).await;
    let url = server.url();
    let mut distinct = HashSet::new();
    let mut addresses = HashSet::new();
    for n in 0..2000 {
        let (expression, threshold) = (format!("sum(queue_depth{{queue=\"{}\"}})", n % 40), format!("{}", n + 1));
        let metadata = Metadata::new([
            ("serverAddress", url.as_str()),
            ("threshold", &threshold),
            ("query", &expression),
            ("customHeaders", "X-A=1"),
        ]);
        let Source::Measured { address, query, .. } =
            trigger::parse(Kind::Prometheus, &metadata, false).unwrap().source
        else {
            panic!("a measured source")
        };
        addresses.insert(address);
        distinct.insert(query);
    }
    assert_eq!((addresses.len(), distinct.len()), (1, 40));
    let (mut client, _, _) = trigger(&server, &[("customHeaders", "X-A=1")], CREDENTIAL);
    let queries: Vec<_> = distinct.into_iter().map(Arc::new).collect();
    for _ in 0..5 {
        assert!(client.sample(&queries).await.iter().all(Result::is_ok));
        assert_eq!(server.take_requests().len(), 40);
    }
    assert!(server.connections() <= 8, "{}", server.connections());
}

/// cases.md B111: many queries over kept connections, and the answers are in the order of the questions.
#[tokio::test]
async fn b111_connections_are_kept() {
    let server = Server::new(|request| {
        let number = request.body.strip_prefix("query=q").expect("the form");
        if number.ends_with('7') {
            reply(400, "", r#"{"status":"error","errorType":"bad_data"}"#)
        } else {
            value(number)
        }
    })
    .await;
    let (mut client, _, _) = trigger(&server, &[], CREDENTIAL);
    let queries: Vec<_> = (0..500).map(|n| query(&format!("q{n}"))).collect();
    for _ in 0..4 {
        for (n, answer) in client.sample(&queries).await.into_iter().enumerate() {
            match answer {
                Ok(Sample { data: Data::Prometheus(value), .. }) => {
                    assert_eq!(value.number, Some(f64::from(u32::try_from(n).unwrap())));
                }
                other => assert!(n % 10 == 7 && matches!(other, Err(SampleError::RefusedQuery(_))), "{n}: {other:?}"),
            }
        }
    }
    assert_eq!(server.take_requests().len(), 2000);
    assert!(server.connections() <= 8, "{}", server.connections());
}
