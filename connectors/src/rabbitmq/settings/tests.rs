use secrecy::ExposeSecret;

use super::*;
use crate::{
    credentials::Credentials,
    metadata::{CredentialSource, Metadata},
};

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn read(metadata: Pairs<'_>, credential: Pairs<'_>) -> Result<Settings, ParameterError> {
    let metadata = Metadata::new(metadata.iter().copied());
    let credential = Credentials::new(credential.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let settings = Settings::read(Parameters::new(&metadata, CredentialSource::Given(&credential)))?;
    Ok(settings.expect("nothing is to be read any more"))
}

#[track_caller]
fn rejects(metadata: Pairs<'_>, credential: Pairs<'_>, key: &str) {
    let error = read(metadata, credential).err().unwrap_or_else(|| panic!("{metadata:?} {credential:?}"));
    assert_eq!(error.key, key, "{error}");
    assert!(error.to_string().len() <= 200 && !error.to_string().contains("hunter2"), "{error}");
}

fn auth(metadata: Pairs<'_>, credential: Pairs<'_>) -> String {
    match read(metadata, credential).unwrap_or_else(|error| panic!("{metadata:?} {credential:?}: {error}")).auth {
        Auth::None => "none".to_owned(),
        Auth::External => "external".to_owned(),
        Auth::OAuth(_) => "oauth".to_owned(),
        Auth::Login { username, password } => format!("{}/{}", username.expose_secret(), password.expose_secret()),
    }
}

const CERT: Pairs<'static> = &[("tls", "enable"), ("ca", "ca"), ("cert", "cert"), ("key", "key")];

/// `rabbitmq_scaler_test.go`, the table of SASL.
#[test]
fn b65_a_client_certificate_without_a_password_is_sasl_external() {
    assert_eq!(auth(&[("host", "amqps://rmq")], CERT), "external");
    assert_eq!(auth(&[("host", "amqps://user@rmq")], CERT), "external");
    assert_eq!(auth(&[("host", "amqps://user:pass@rmq")], CERT), "user/pass");
    let login = [CERT, &[("username", "u"), ("password", "p")]].concat();
    assert_eq!(auth(&[("host", "amqps://rmq")], &login), "u/p");
    assert_eq!(auth(&[("host", "amqps://user:pass@rmq")], &login), "u/p");
    assert_eq!(auth(&[("host", "amqps://rmq")], &CERT[..2]), "none");
    let disabled = [&[("tls", "disable")], &CERT[1..]].concat();
    assert_eq!(auth(&[("host", "amqps://rmq")], &disabled), "none");
    assert_eq!(auth(&[("host", "https://rmq")], CERT), "none");
}

#[test]
fn credentials_are_the_hosts_or_the_parameters() {
    assert_eq!(auth(&[("host", "http://rmq")], &[]), "none");
    assert_eq!(auth(&[("hostFromEnv", "http://u:p%20w@rmq")], &[]), "u/p w");
    assert_eq!(auth(&[], &[("host", "http://u:p@rmq")]), "u/p");
    assert_eq!(auth(&[("host", "http://a:b@rmq")], &[("username", "u"), ("password", "p")]), "u/p");
}

#[test]
fn a_credential_that_names_its_host_is_sent_to_no_other() {
    rejects(&[("host", "http://evil")], &[("host", "http://u:hunter2@rmq")], "host");
    rejects(
        &[("host", "http://rmq"), ("oauthTokenURI", "http://evil/")],
        &[("oauthTokenURI", "http://idp/")],
        "oauthTokenURI",
    );
}

#[test]
fn tls_means_what_it_says() {
    rejects(&[("host", "amqp://rmq")], CERT, "tls"); // KEDA: silently plaintext
    rejects(&[("host", "http://rmq")], CERT, "tls");
    rejects(&[("host", "https://rmq"), ("tls", "yes")], &[], "tls");
    rejects(&[("host", "https://rmq")], &[("tls", "enable"), ("cert", "hunter2")], "key");
    rejects(&[("host", "https://rmq")], &[("tls", "enable"), ("key", "hunter2")], "cert");
    rejects(&[("host", "https://rmq"), ("unsafeSsl", "random")], &[], "unsafeSsl");
    // b66: of both protocols, and with `ca` alone.
    for host in ["https://rmq", "amqps://rmq"] {
        let tls = read(&[("host", host), ("unsafeSsl", "true")], &[("ca", "pem")]).unwrap().tls;
        assert!(tls.insecure && tls.ca.is_some(), "{host}");
    }
}

const OAUTH: Pairs<'static> =
    &[("oauthTokenURI", "https://idp/token"), ("clientID", "id"), ("clientSecret", "hunter2")];

#[test]
fn oauth_is_whole_over_http_and_alone() {
    assert_eq!(auth(&[("host", "https://rmq")], OAUTH), "oauth");
    for (missing, key) in [(0, "oauthTokenURI"), (1, "clientID"), (2, "clientSecret")] {
        let mut some = OAUTH.to_vec();
        some.remove(missing);
        rejects(&[("host", "https://rmq")], &some, key);
    }
    rejects(&[("host", "amqps://rmq")], OAUTH, "oauthTokenURI");
    rejects(&[("host", "https://rmq")], &[OAUTH, &[("username", "u"), ("password", "p")]].concat(), "oauthTokenURI");
    rejects(&[("host", "https://rmq")], &[&[("oauthTokenURI", "idp")], &OAUTH[1..]].concat(), "oauthTokenURI");
    rejects(&[("host", "https://rmq")], &[OAUTH, &[("endpointParams", "a=%zz")]].concat(), "endpointParams");
    rejects(&[("host", "https://rmq")], &[("workloadIdentityResource", "x")], "workloadIdentityResource");
    for scopes in ["scopes", "scope"] {
        let more = [OAUTH, &[(scopes, "a, b"), ("endpointParams", "x=1&y=a+b%26&x=3")]].concat();
        let Auth::OAuth(oauth) = read(&[("host", "https://rmq")], &more).unwrap().auth else { panic!("oauth") };
        assert_eq!(oauth.scopes, ["a", "b"]);
        let pairs: Vec<_> = oauth.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("x", "1"), ("y", "a b&"), ("x", "3")]);
    }
}

#[test]
fn the_rest_is_kedas() {
    rejects(&[], &[], "host");
    rejects(&[("host", "something://")], &[], "host");
    rejects(&[("host", "https://rmq"), ("protocol", "AMQP")], &[], "protocol");
    rejects(&[("host", "https://rmq"), ("protocol", "amqp")], &[], "protocol");
    rejects(&[("host", "https://rmq"), ("username", "u")], &[], "password");
    rejects(&[("host", "https://rmq"), ("password", "hunter2")], &[], "username");
    rejects(&[("host", "https://rmq"), ("timeout", "-10")], &[], "timeout");
    rejects(&[("host", "https://rmq"), ("timeout", "error")], &[], "timeout");
    rejects(&[("host", "amqps://rmq"), ("timeout", "10")], &[], "timeout");
    let settings = read(&[("host", "https://rmq"), ("timeout", "1000")], &[]).unwrap();
    assert_eq!(settings.timeout, Some(Duration::from_secs(1)));
    assert_eq!(read(&[("host", "amqps://rmq"), ("timeout", "0")], &[]).unwrap().timeout, None);
    assert_eq!(read(&[("host", "https://rmq"), ("vhostName", "")], &[("vhostName", "b")]).unwrap().host.vhost, "b");
    rejects(&[("host", "https://rmq"), ("vhostName", "a\nb")], &[], "vhostName");
}

#[test]
fn what_a_credential_may_hold_is_not_demanded_before_it_is_read() {
    for metadata in [&[][..], &[("username", "u")], &[("clientID", "id")], &[("cert", "x")]] {
        let metadata = Metadata::new(metadata.iter().copied());
        let read = Settings::read(Parameters::new(&metadata, CredentialSource::Later));
        assert!(read.is_ok_and(|settings| settings.is_none()), "{metadata:?}");
    }
}
