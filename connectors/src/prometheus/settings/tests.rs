use secrecy::ExposeSecret;

use super::*;
use crate::{
    credentials::Credentials,
    metadata::{CredentialSource, Metadata},
};

fn read(metadata: &[(&str, &str)], credential: &[(&str, &str)]) -> Result<Settings, ParameterError> {
    let metadata = Metadata::new(metadata.iter().copied());
    let credential = Credentials::new(credential.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let read = Settings::read(Parameters::new(&metadata, CredentialSource::Given(&credential)));
    read.map(|settings| settings.expect("nothing is still to be read"))
}

#[track_caller]
fn url(server: &str, expected: &str) {
    assert_eq!(read(&[("serverAddress", server)], &[]).unwrap().url.as_str(), expected);
}

#[test]
fn b108_one_slash_and_no_double_path() {
    url("http://localhost:9090", "http://localhost:9090/api/v1/query");
    url("http://localhost:9090/", "http://localhost:9090/api/v1/query");
    url("https://grafana.example/api/prom", "https://grafana.example/api/prom/api/v1/query");
    url("https://grafana.example/api/prom/", "https://grafana.example/api/prom/api/v1/query");
    url("https://grafana.example/api/prom//", "https://grafana.example/api/prom/api/v1/query");
    url("http://vmselect:8481/select/0/prometheus", "http://vmselect:8481/select/0/prometheus/api/v1/query");
    url("http://localhost:9090/api/v1/query", "http://localhost:9090/api/v1/query");
    url("http://localhost:9090/prom/api/v1/query/", "http://localhost:9090/prom/api/v1/query");
    url("http://[::1]:9090", "http://[::1]:9090/api/v1/query");
}

#[test]
fn addresses_that_are_none() {
    for server in [
        "localhost:9090",
        "prometheus",
        "ftp://prometheus",
        "http://",
        "file:///etc/passwd",
        "http://user:hunter2@prometheus",
        "http://prometheus/?token=hunter2",
        "http://prometheus/#hunter2",
    ] {
        let error = read(&[("serverAddress", server)], &[]).err().expect(server);
        assert_eq!(error.key, "serverAddress", "{server}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let connection = Metadata::new([("serverAddress", server)]);
        assert!(!shown(&connection).contains("hunter2"));
    }
    assert_eq!(shown(&Metadata::new([])), "by credential");
    assert_eq!(shown(&Metadata::new([("serverAddress", "https://p.example/x")])), "p.example:443");
}

#[test]
fn a_credential_that_names_its_server_is_sent_to_no_other() {
    let bound = [("serverAddress", "https://a.example"), ("bearerToken", "t"), ("authModes", "bearer")];
    assert_eq!(read(&[], &bound).unwrap().url.as_str(), "https://a.example/api/v1/query");
    assert!(read(&[("serverAddress", "https://a.example")], &bound).is_ok());
    let error = read(&[("serverAddress", "https://evil.example")], &bound).err().unwrap();
    assert_eq!(error.key, "serverAddress");
    let grant = [("oauthTokenURI", "https://idp.example"), ("clientID", "i")];
    let metadata = [("serverAddress", "http://a"), ("authModes", "oauth"), ("oauthTokenURI", "https://evil.example")];
    assert_eq!(read(&metadata, &grant).err().unwrap().key, "oauthTokenURI");
}

/// The key of a credential alone sends nothing, as in KEDA; `ca` alone works, where KEDA ignores it (D24).
#[test]
fn b109_ca_and_unsafe_ssl_mean_what_they_say() {
    let all = [("bearerToken", "t"), ("username", "u"), ("password", "p"), ("cert", "c"), ("key", "k"), ("ca", "a")];
    let server = ("serverAddress", "https://a.example");
    let settings = read(&[server], &all).unwrap();
    assert!(matches!(settings.scheme, Scheme::None) && settings.tls.identity.is_none());
    assert!(settings.tls.ca.is_some() && !settings.tls.insecure);
    assert_eq!(settings.mechanism, "no authModes");
    for modes in ["bearer", "basic", "tls,basic"] {
        let settings = read(&[server, ("authModes", modes), ("unsafeSsl", "true")], &all).unwrap();
        assert!(settings.tls.ca.is_some() && settings.tls.insecure, "{modes}");
        assert_eq!(settings.tls.identity.is_some(), modes.contains("tls"), "{modes}");
        assert_eq!(settings.mechanism, if modes == "bearer" { "bearer" } else { "basic" });
    }
}

#[test]
fn oauth_grants() {
    let metadata = [("serverAddress", "http://a"), ("authModes", "oauth"), ("scope", "read, write,")];
    let credential = [
        ("oauthTokenURI", "https://idp.example/token"),
        ("clientID", "id"),
        ("clientSecret", "s3cret"),
        ("endpointParams", "audience=https%3A%2F%2Fa&resource=x+y&resource=z"),
    ];
    let Scheme::OAuth(grant) = read(&metadata, &credential).unwrap().scheme else { panic!("oauth") };
    assert_eq!(grant.endpoint.as_str(), "https://idp.example/token");
    assert_eq!((grant.client_id.expose_secret(), grant.client_secret.expose_secret()), ("id", "s3cret"));
    assert_eq!(grant.scopes, ["read", "write"]);
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(grant.parameters, [pair("audience", "https://a"), pair("resource", "x y"), pair("resource", "z")]);
    for text in ["a=%zz", "a=%", "%1"] {
        let credential: Vec<_> = credential.iter().copied().filter(|(key, _)| *key != "endpointParams").collect();
        let metadata: Vec<_> = metadata.iter().copied().chain([("endpointParams", text)]).collect();
        assert_eq!(read(&metadata, &credential).err().unwrap().key, "endpointParams");
    }
}

#[test]
fn timeouts() {
    for (text, seconds) in [("", 3.0), ("0", 3.0), ("1500", 1.5), ("30s", 30.0)] {
        let settings = read(&[("serverAddress", "http://a"), ("timeout", text)], &[]).unwrap();
        assert!((settings.timeout.as_secs_f64() - seconds).abs() < f64::EPSILON, "{text}");
    }
}
