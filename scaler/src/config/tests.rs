//! Rows of files and flags.

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("tidegate.yaml"), text).map_err(|error| error.to_string())
}

/// The whole text of an error, so that a row shows what an operator sees.
#[track_caller]
fn refused(text: &str, line: u32, reason: &str) {
    let error = parse(text).expect_err(text);
    assert!(error.starts_with("tidegate.yaml: "), "{error}");
    assert!(error.contains(reason), "{error}");
    assert!(error.contains(&format!("line {line}, ")), "{error}");
}

#[test]
fn every_key_has_a_default() {
    let default = Config::default();
    for text in ["", "# nothing\n", "---\n", "{}", "grpc: {}\nlimits: {}\npoll: {}\ncredentials: {}\n"] {
        assert_eq!(parse(text).as_ref(), Ok(&default), "{text}");
    }
    assert_eq!(default.grpc.listen.to_string(), "127.0.0.1:9090");
    assert_eq!(default.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(default.credentials, Credentials::None);
    assert_eq!(default.poll.min_interval, Duration::from_millis(500));
    assert_eq!(default.poll.max_interval, Duration::from_secs(300));
    let limits = default.limits;
    assert_eq!(limits.triggers_per_tenant.get(), 1000);
    assert_eq!(limits.endpoints_per_tenant.get(), 64);
    assert_eq!(limits.streams_per_tenant.get(), 2000);
    assert_eq!(limits.partitions_per_trigger.get(), 10_000);
    assert_eq!(limits.calls_per_second_per_tenant.get(), 2000);
}

#[test]
fn every_key_can_be_set() {
    let config = parse(
        "grpc: { listen: '[::1]:1' }\n\
         http: { listen: 0.0.0.0:2 }\n\
         credentials: { provider: directory, directory: /etc/tidegate/credentials }\n\
         limits:\n  triggersPerTenant: 1\n  endpointsPerTenant: 2\n  streamsPerTenant: 3\n  \
         partitionsPerTrigger: 4\n  callsPerSecondPerTenant: 5\n\
         poll: { minInterval: 1s, maxInterval: 1m30s }\n\
         insecure: true\n",
    );
    let limit = |limit| NonZeroUsize::new(limit).unwrap();
    let expected = Config {
        grpc: Grpc { listen: "[::1]:1".parse().unwrap() },
        http: Http { listen: "0.0.0.0:2".parse().unwrap() },
        credentials: Credentials::Directory("/etc/tidegate/credentials".into()),
        limits: Limits {
            triggers_per_tenant: limit(1),
            endpoints_per_tenant: limit(2),
            streams_per_tenant: limit(3),
            partitions_per_trigger: limit(4),
            calls_per_second_per_tenant: limit(5),
        },
        poll: Poll { min_interval: Duration::from_secs(1), max_interval: Duration::from_secs(90) },
        insecure: true,
    };
    assert_eq!(config, Ok(expected));
}

#[test]
fn credentials_have_a_provider_where_they_have_a_directory() {
    let directory = |path: &str| Credentials::Directory(path.into());
    for (text, expected) in [
        ("credentials: { provider: none }", Credentials::None),
        ("credentials: { provider: directory }", directory("credentials")),
        ("credentials: { directory: here }", directory("here")),
    ] {
        assert_eq!(parse(text).unwrap().credentials, expected, "{text}");
    }
}

#[test]
fn what_is_not_known_or_wrong_is_refused_with_its_line() {
    refused("http: {}\nlimit:\n  a: 1\n", 2, "unknown field `limit`");
    refused("grpc:\n  listen: 127.0.0.1:1\n  tls: {}\n", 3, "unknown field `tls`");
    refused("egress: { profile: open }", 1, "unknown field `egress`");
    refused("credentials:\n  requireAllowedHosts: true\n", 2, "unknown field `requireAllowedHosts`");
    refused("poll:\n  mininterval: 1s\n", 2, "unknown field `mininterval`");
    refused("limits: {}\nlimits: {}\n", 2, "duplicate");
    refused("http:\n  listen: localhost\n", 2, "socket address");
    refused("http:\n  listen:\n", 2, "null is not allowed");
    refused("\ncredentials:\n  provider: vault\n", 3, "unknown variant `vault`");
    refused("credentials:\n  provider: none\n  directory: d\n", 2, "needs credentials.provider: directory");
    refused("limits:\n  triggersPerTenant: 0\n", 2, "must be a whole number greater than 0");
    refused("limits:\n  triggersPerTenant: -1\n", 2, "must be a whole number greater than 0");
    refused("limits:\n  triggersPerTenant: many\n", 2, "must be a whole number greater than 0");
    refused("poll:\n  minInterval: soon\n", 2, "must be a duration like 30s");
    refused("poll:\n  minInterval: 0s\n", 2, "must be longer than zero");
    refused("poll:\n  minInterval: -1s\n", 2, "must be a duration like 30s");
    refused("poll:\n  minInterval: 2s\n  maxInterval: 1s\n", 2, "longer than poll.maxInterval");
    refused("insecure: maybe\n", 1, "invalid boolean");
    refused("\ngrpc: [\n", 2, "expected mapping start");
}

#[test]
fn flags_win_over_the_file() {
    let file = parse("grpc: { listen: 127.0.0.1:1 }\nhttp: { listen: 127.0.0.1:2 }\ncredentials: { directory: a }\n");
    let kept = file.clone().unwrap().overridden(Overrides::default());
    assert_eq!(Ok(&kept), file.as_ref());
    let flags = Overrides {
        grpc_listen: Some("127.0.0.1:3".parse().unwrap()),
        http_listen: Some("127.0.0.1:4".parse().unwrap()),
        credentials_dir: Some("b".into()),
        insecure: true,
    };
    let config = kept.overridden(flags);
    assert_eq!(config.grpc.listen.port(), 3);
    assert_eq!(config.http.listen.port(), 4);
    assert_eq!(config.credentials, Credentials::Directory("b".into()));
    assert!(config.insecure);
}

#[test]
fn a_plaintext_listener_for_other_machines_is_asked_for_by_name() {
    let load = |listen: &str, insecure| {
        let flags = Overrides { grpc_listen: Some(listen.parse().unwrap()), insecure, ..Overrides::default() };
        Config::load(None, flags)
    };
    for listen in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(load(listen, false).is_ok(), "{listen}");
    }
    for listen in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        assert!(matches!(load(listen, false), Err(ConfigError::Plaintext(_))), "{listen}");
        assert!(load(listen, true).is_ok(), "{listen}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Some(Path::new("/nowhere/tidegate.yaml")), Overrides::default()).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/tidegate.yaml: "), "{error}");
}
