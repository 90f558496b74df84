use secrecy::ExposeSecret;

use super::*;
use crate::{
    credentials::Credentials,
    metadata::{CredentialSource, Metadata},
};

type Pairs<'a> = &'a [(&'a str, &'a str)];

const SERVERS: (&str, &str) = ("bootstrapServers", "foobar:9092");
const LOGIN: [(&str, &str); 2] = [("username", "admin"), ("password", "hunter2")];

fn read(metadata: Pairs<'_>, credential: Option<Pairs<'_>>) -> Result<Option<Settings>, ParameterError> {
    let metadata = Metadata::new(metadata.iter().copied());
    let credential = credential
        .map(|pairs| Credentials::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))));
    let source = credential.as_ref().map_or(CredentialSource::None, CredentialSource::Given);
    Settings::read(Parameters::new(&metadata, source))
}

/// KEDA's matrix: the parameters in the credential, then `sasl` and `tls` in the metadata instead.
fn each_way(parameters: Pairs<'_>, mut check: impl FnMut(Result<Option<Settings>, ParameterError>)) {
    check(read(&[SERVERS], Some(parameters)));
    let of_metadata = |key: &str| matches!(key, "sasl" | "tls");
    let metadata: Vec<_> =
        [SERVERS].into_iter().chain(parameters.iter().copied().filter(|(key, _)| of_metadata(key))).collect();
    let credential: Vec<_> = parameters.iter().copied().filter(|(key, _)| !of_metadata(key)).collect();
    check(read(&metadata, Some(&credential)));
    let all: Vec<_> = [SERVERS].into_iter().chain(parameters.iter().copied()).collect();
    check(read(&all, None));
}

#[track_caller]
fn accepts(parameters: Pairs<'_>, mechanism: &str, tls: bool) {
    each_way(parameters, |settings| {
        let settings = settings.unwrap_or_else(|error| panic!("{error}")).expect("complete");
        let name = match settings.sasl {
            Sasl::None => "none",
            Sasl::Plain(_) => "plaintext",
            Sasl::ScramSha256(_) => "scram_sha256",
            Sasl::ScramSha512(_) => "scram_sha512",
            Sasl::OAuthBearer(_) => "oauthbearer",
        };
        assert_eq!((name, settings.tls.is_some()), (mechanism, tls));
    });
}

#[track_caller]
fn rejects(parameters: Pairs<'_>, key: &str) {
    each_way(parameters, |settings| {
        let error = settings.err().expect("an error");
        assert_eq!(error.key, key, "{error}");
        assert!(error.to_string().len() <= 200, "{error}");
        assert!(parameters.iter().all(|(_, value)| *value != "hunter2" || !error.to_string().contains(value)));
    });
}

fn with_login<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    LOGIN.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn b27_sasl_and_tls_as_keda_accepts_them() {
    accepts(&[], "none", false);
    accepts(&[("sasl", "none")], "none", false);
    accepts(&[("sasl", "none"), ("tls", "disable")], "none", false);
    for (text, mechanism) in [
        ("plaintext", "plaintext"),
        ("plaintext\n", "plaintext"),
        ("plaintext ", "plaintext"),
        ("scram_sha256", "scram_sha256"),
        ("scram_sha512", "scram_sha512"),
        (" scram_sha512 ", "scram_sha512"),
        ("scram_sha512\n", "scram_sha512"),
    ] {
        accepts(&with_login(&[("sasl", text)]), mechanism, false);
        accepts(&with_login(&[("sasl", text), ("tls", "disable")]), mechanism, false);
        accepts(&with_login(&[("sasl", text), ("tls", "enable"), ("ca", "caaa")]), mechanism, true);
    }
}

#[test]
fn tls_parameters() {
    let tls = ("tls", "enable");
    let (ca, cert, key) = (("ca", "caaa"), ("cert", "ceert"), ("key", "keey"));
    for parameters in [
        &[tls][..],
        &[tls, ca],
        &[tls, cert, key],
        &[tls, ca, cert, key],
        &[tls, cert, key, ("keyPassword", "keeyPassword")],
        &[tls, ca, ("unsafeSsl", "true")],
    ] {
        accepts(parameters, "none", true);
    }
    rejects(&[tls, ca, cert], "key");
    rejects(&[tls, ca, key], "cert");
    for tls in ["yes", "foo", "random", "true"] {
        rejects(&[("tls", tls)], "tls");
        rejects(&[("tls", tls), ca, cert, key], "tls");
    }
    rejects(&[("unsafeSsl", "random")], "unsafeSsl");
    // Without TLS its material is not looked at.
    accepts(&[("tls", "disable"), cert], "none", false);
    let settings = read(&[SERVERS, tls, ca, cert, key, ("unsafeSsl", "true")], None).ok().flatten().expect("settings");
    let tls = settings.tls.expect("tls");
    let identity = tls.identity.expect("an identity");
    assert!(tls.insecure);
    assert_eq!(tls.ca.expect("ca").expose_secret(), "caaa");
    assert_eq!((identity.certificate.expose_secret(), identity.key.expose_secret()), ("ceert", "keey"));
}

#[test]
fn sasl_parameters() {
    rejects(&with_login(&[("sasl", "foo")]), "sasl");
    rejects(&with_login(&[("sasl", "PLAINTEXT")]), "sasl");
    for mechanism in ["plaintext", "scram_sha256", "scram_sha512", "oauthbearer"] {
        rejects(&[("sasl", mechanism), LOGIN[1]], "username");
        rejects(&[("sasl", mechanism), LOGIN[0]], "password");
        rejects(&[("sasl", mechanism), LOGIN[0], ("password", "  \n")], "password");
        rejects(&[("sasl", mechanism), LOGIN[0], ("password", "a\u{1}b")], "password");
    }
    for mechanism in ["gssapi", "aws_msk_iam"] {
        rejects(&with_login(&[("sasl", mechanism), ("realm", "R"), ("awsRegion", "r")]), "sasl");
    }
    let settings = read(&[SERVERS], Some(&with_login(&[("sasl", "plaintext")]))).ok().flatten().expect("settings");
    let Sasl::Plain(login) = settings.sasl else { panic!("plaintext") };
    assert_eq!((login.username.expose_secret(), login.password.expose_secret()), ("admin", "hunter2"));
}

fn oauth<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    with_login(&[&[("sasl", "oauthbearer")][..], more].concat())
}

#[test]
fn oauth_parameters() {
    let endpoint = ("oauthTokenEndpointUri", "https://login.example.com/token");
    for parameters in [
        &[endpoint][..],
        &[endpoint, ("scopes", "scope")],
        &[endpoint, ("saslTokenProvider", "bearer")],
        &[endpoint, ("tls", "disable")],
        &[endpoint, ("oauthExtensions", "extension_foo=bar")],
    ] {
        accepts(&oauth(parameters), "oauthbearer", false);
    }
    rejects(&oauth(&[]), "oauthTokenEndpointUri");
    rejects(&oauth(&[("oauthTokenEndpointUri", "")]), "oauthTokenEndpointUri");
    for url in ["login.example.com", "file:///etc/passwd", "https://"] {
        rejects(&oauth(&[("oauthTokenEndpointUri", url)]), "oauthTokenEndpointUri");
    }
    rejects(&oauth(&[endpoint, ("saslTokenProvider", "foo")]), "saslTokenProvider");
    rejects(&oauth(&[endpoint, ("saslTokenProvider", "aws_msk_iam"), ("awsRegion", "r")]), "saslTokenProvider");
    for extensions in ["extension_foo=bar,extension_bazbaz", "a=b=c", "=b", "auth=x", "a=b\u{1}c", "a=b,"] {
        rejects(&oauth(&[endpoint, ("oauthExtensions", extensions)]), "oauthExtensions");
    }
    let parameters = oauth(&[endpoint, ("scopes", "scope1, scope2"), ("oauthExtensions", "a=b, c = d")]);
    let Some(Settings { sasl: Sasl::OAuthBearer(oauth), .. }) = read(&[SERVERS], Some(&parameters)).expect("ok") else {
        panic!("oauthbearer")
    };
    assert_eq!(oauth.scopes, ["scope1", "scope2"]);
    assert_eq!(oauth.extensions, [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())]);
    assert_eq!(oauth.token_endpoint, endpoint.1);
}

#[test]
fn bootstrap_servers_are_hosts_and_ports() {
    let servers =
        |text: &str| read(&[("bootstrapServers", text)], None).map(|settings| settings.expect("complete").bootstrap);
    for (text, expected) in [
        ("foobar:9092", vec![("foobar", 9092)]),
        (" b-1.example.com:9092 ,\tb_2:65535 ", vec![("b-1.example.com", 9092), ("b_2", 65535)]),
        ("10.0.0.1:1", vec![("10.0.0.1", 1)]),
        ("[::1]:9092,[2001:db8::5]:9093", vec![("::1", 9092), ("2001:db8::5", 9093)]),
    ] {
        let read = servers(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let read: Vec<_> = read.iter().map(|(host, port)| (host.as_str(), *port)).collect();
        assert_eq!(read, expected);
    }
    for text in [
        "foobar",
        "foobar:",
        ":9092",
        "foobar:0",
        "foobar:65536",
        "foobar:+1",
        "foobar:x",
        "::1:9092",
        "[::1]",
        "[foo]:1",
        "[::1%eth0]:1",
        "PLAINTEXT://foobar:9092",
        "a:1,",
        "a:1,,b:2",
        "a b:1",
        "a\u{0}:1",
        "user@host:1",
        "host/path:1",
    ] {
        assert_eq!(servers(text).expect_err(text).key, "bootstrapServers", "{text}");
    }
    assert!(servers(&vec!["a:1"; 64].join(",")).is_ok());
    assert!(servers(&vec!["a:1"; 65].join(",")).is_err());
    assert_eq!(read(&[], None).err().expect("missing").key, "bootstrapServers");
}

#[test]
fn a_credential_that_names_its_endpoints_is_sent_to_no_other() {
    let read = |metadata: Pairs<'_>, credential: Pairs<'_>| read(metadata, Some(credential));
    assert!(read(&[], &[SERVERS]).is_ok_and(|settings| settings.is_some()));
    assert!(read(&[SERVERS], &[SERVERS]).is_ok());
    assert_eq!(read(&[("bootstrapServers", "evil:9092")], &[SERVERS]).err().expect("bound").key, "bootstrapServers");
    let endpoint = ("oauthTokenEndpointUri", "https://login.example.com/token");
    let credential = with_login(&[("sasl", "oauthbearer"), endpoint]);
    assert!(read(&[SERVERS, endpoint], &credential).is_ok());
    let evil = ("oauthTokenEndpointUri", "https://evil.example.com/token");
    assert_eq!(read(&[SERVERS, evil], &credential).err().expect("bound").key, "oauthTokenEndpointUri");
}

#[test]
fn metadata_wins_over_the_credential() {
    let credential = with_login(&[("sasl", "scram_sha256"), ("tls", "enable")]);
    let settings = read(&[SERVERS, ("sasl", "plaintext"), ("tls", "disable")], Some(&credential));
    let settings = settings.ok().flatten().expect("settings");
    assert!(matches!(settings.sasl, Sasl::Plain(_)));
    assert!(settings.tls.is_none());
}

#[test]
fn nothing_is_demanded_of_a_credential_that_is_not_read_yet() {
    let later = |pairs: Pairs<'_>| {
        let metadata = Metadata::new(pairs.iter().copied());
        Settings::read(Parameters::new(&metadata, CredentialSource::Later)).map(|settings| settings.is_none())
    };
    for pairs in [
        &[][..],
        &[SERVERS],
        &[SERVERS, ("sasl", "scram_sha512")],
        &[SERVERS, ("sasl", "oauthbearer")],
        &[SERVERS, ("tls", "enable"), ("cert", "c")],
        &[SERVERS, ("tls", "enable"), ("key", "k")],
    ] {
        assert_eq!(later(pairs), Ok(true), "{pairs:?}");
    }
    for (pairs, key) in [
        (&[("bootstrapServers", "foobar")][..], "bootstrapServers"),
        (&[SERVERS, ("sasl", "foo")], "sasl"),
        (&[SERVERS, ("sasl", "gssapi")], "sasl"),
        (&[SERVERS, ("tls", "yes")], "tls"),
        (&[SERVERS, ("unsafeSsl", "yes")], "unsafeSsl"),
    ] {
        assert_eq!(later(pairs).expect_err("wrong already").key, key);
    }
}
