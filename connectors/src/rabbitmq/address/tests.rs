use secrecy::ExposeSecret;

use super::*;

fn read(text: &str, vhost: Option<&str>) -> Host {
    Host::read(text, vhost).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `path` after the host; the virtual host as a segment, and the base path, as requests have them.
#[track_caller]
fn check_path(path: &str, vhost_name: Option<&str>, vhost: &str, base: &str) {
    let host = read(&format!("http://rmq:15672{path}"), vhost_name);
    let found = (format!("/{}", escape::segment(&host.vhost)), host.url("/api"));
    assert_eq!(found, (vhost.to_owned(), format!("http://rmq:15672{base}/api")), "{path} {vhost_name:?}");
}

/// `rabbitmq_scaler_test.go`, getVhostAndPathFromURL.
#[test]
fn paths_are_kedas() {
    for (path, vhost, base) in [
        ("/myVhost", "/myVhost", ""),
        ("/%2FmyVhost", "/%2FmyVhost", ""),
        ("/", "/%2F", ""),
        ("//", "/%2F", ""),
        ("/%2F", "/%2F", ""),
        ("", "/%2F", ""),
        ("/sub1/myVhost", "/myVhost", "/sub1"),
        ("/sub1/%2FmyVhost", "/%2FmyVhost", "/sub1"),
        ("/sub1/", "/%2F", "/sub1"),
        ("/sub1//", "/%2F", "/sub1"),
        ("/sub1/%2F", "/%2F", "/sub1"),
        ("/sub1/sub2/myVhost", "/myVhost", "/sub1/sub2"),
        ("/sub1/sub2/%2FmyVhost", "/%2FmyVhost", "/sub1/sub2"),
        ("/sub1/sub2/", "/%2F", "/sub1/sub2"),
        ("/sub1/sub2//", "/%2F", "/sub1/sub2"),
        ("/sub1/sub2/%2F", "/%2F", "/sub1/sub2"),
    ] {
        check_path(path, None, vhost, base);
    }
    check_path("/sub1/", Some("overridenVhost"), "/overridenVhost", "/sub1");
    check_path("/sub1/sub2/", Some("myVhost"), "/myVhost", "/sub1/sub2");
    check_path("/sub1//", Some("/"), "/%2F", "/sub1");
}

#[test]
fn b44_a_host_without_a_path_is_of_the_default_virtual_host() {
    let host = read("http://u:p@rmq:15672", None);
    assert_eq!(host.url(&format!("/api/queues/{}", escape::segment(&host.vhost))), "http://rmq:15672/api/queues/%2F");
}

#[test]
fn b46_a_virtual_host_and_a_base_path() {
    let host = read("https://rmq/sub/prod", None);
    assert_eq!((host.url(""), host.vhost.as_str()), ("https://rmq:443/sub".to_owned(), "prod"));
}

/// KEDA drops the last segment.
#[test]
fn b47_with_a_virtual_host_name_the_whole_path_is_the_base() {
    check_path("/rabbit", Some("prod"), "/prod", "/rabbit");
    check_path("/rabbit/", Some("prod"), "/prod", "/rabbit");
    check_path("/sub1/rabbit", Some("a/b%2F"), "/a%2Fb%252F", "/sub1/rabbit");
}

#[test]
fn c9_no_name_leaves_its_segment() {
    check_path("/..%2F..%2Fusers", None, "/..%2F..%2Fusers", "");
    check_path("", Some("a?b#c d/../é"), "/a%3Fb%23c%20d%2F..%2F%C3%A9", "");
    for path in ["/..", "/%2e%2e", "/../x", "/."] {
        assert_eq!(Host::read(&format!("http://rmq{path}"), None).err().map(|e| e.key), Some("host".into()), "{path}");
    }
    assert!(Host::read("http://rmq/", Some("..")).is_err());
}

#[test]
fn a_path_over_amqp_is_the_virtual_host() {
    for (uri, vhost_name, vhost) in [
        ("amqp://rmq", None, "/"),
        ("amqp://rmq/", None, "/"),
        ("amqp://rmq/%2f", None, "/"),
        ("amqps://rmq/pro%20d", None, "pro d"),
        ("amqp://rmq/prod", Some("other"), "other"),
        ("amqp://rmq/", Some(".."), ".."),
    ] {
        assert_eq!(read(uri, vhost_name).vhost, vhost, "{uri}");
    }
    assert!(Host::read("amqp://rmq/a/b", None).is_err());
}

#[test]
fn hosts_and_ports_have_their_scheme() {
    for (uri, name, port, tls, protocol) in [
        ("amqp://rmq", "rmq", 5672, false, Protocol::Amqp),
        ("amqps://rmq.team-a.svc", "rmq.team-a.svc", 5671, true, Protocol::Amqp),
        ("HTTP://rmq", "rmq", 80, false, Protocol::Http),
        ("https://rmq:15671/", "rmq", 15671, true, Protocol::Http),
        ("https://[::1]:15671/", "::1", 15671, true, Protocol::Http),
        ("amqp://u:p@[2001:db8::1]", "2001:db8::1", 5672, false, Protocol::Amqp),
    ] {
        let host = read(uri, None);
        assert_eq!((host.name.as_str(), host.port), (name, port), "{uri}");
        assert_eq!((host.scheme.tls, host.scheme.protocol), (tls, protocol), "{uri}");
    }
    assert_eq!(read("http://[::1]:15672/", None).url("/api"), "http://[::1]:15672/api");
}

/// safety.md B11, C8.
#[test]
fn what_is_no_host_is_refused_by_name_and_not_quoted() {
    for uri in [
        "rmq:5672",
        "something://",
        "file:///etc/passwd",
        "unix:///run/rmq",
        "http://",
        "http:///x",
        "amqp://hunter2@",
        "http://rmq:0",
        "http://rmq:hunter2",
        "http://rmq:65536",
        "http://rmq:80:90",
        "http://::1/",
        "http://[::1",
        "http://r m q/",
        "http://rmq\\@hunter2/",
        "amqp://rmq/?frame_max=4294967295&heartbeat=0&auth_mechanism=external",
        "amqp://rmq?heartbeat=0",
        "http://rmq/prod#hunter2",
        "http://user:hunter%2@rmq/",
        "http://user:hunter2%ff@rmq/",
        "amqp://user:hunter2/34@rmq/",
        "http://user:12/34@rmq/",
        "http://rmq/%zz",
    ] {
        let error = Host::read(uri, None).err().unwrap_or_else(|| panic!("{uri}"));
        assert_eq!(error.key, "host", "{uri}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let shown = shown(Some(uri), None);
        assert_eq!(shown, "by host");
    }
}

/// safety.md D18: nothing of the credentials, encoded or decoded.
#[test]
fn b62_credentials_are_decoded_once_and_never_shown() {
    for (uri, username, password) in [
        ("amqp://us%40er:p%2Fw%3Ad%2541@rmq/prod", Some("us@er"), Some("p/w:d%41")),
        ("https://user@rmq", Some("user"), None),
        ("https://user:@rmq", Some("user"), None),
        ("https://:secret@rmq", None, Some("secret")),
        ("https://a:b@c:d@rmq", Some("a"), Some("b@c:d")),
        ("https://rmq", None, None),
    ] {
        let host = read(uri, None);
        let text = |secret: &Option<SecretString>| secret.as_ref().map(|secret| secret.expose_secret().to_owned());
        assert_eq!((text(&host.username).as_deref(), text(&host.password).as_deref()), (username, password), "{uri}");
        for shown in [shown(Some(uri), None), host.url("/api")] {
            let tail = shown.split_once("://").unwrap().1;
            assert!(tail.starts_with("rmq:"), "{shown}");
        }
    }
    assert_eq!(shown(Some("amqp://u:p@rmq/prod"), None), "amqp://rmq:5672 virtual host prod");
    assert_eq!(shown(Some("https://u:p@rmq/sub/"), Some("prod")), "https://rmq:443 virtual host prod");
    assert_eq!(shown(None, None), "by credential");
}

#[test]
fn the_protocol_is_the_schemes_unless_it_is_said() {
    assert_eq!(protocol(None, Some("amqps://rmq")), Some(Protocol::Amqp));
    assert_eq!(protocol(Some("auto"), Some("https://rmq")), Some(Protocol::Http));
    assert_eq!(protocol(Some("amqp"), None), Some(Protocol::Amqp));
    assert_eq!(protocol(None, None), None);
    assert_eq!(protocol(Some("auto"), Some("ftp://rmq")), None);
}
