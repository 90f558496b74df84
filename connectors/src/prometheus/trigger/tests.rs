use super::*;
use crate::metadata::CredentialSource;

/// KEDA's base row, changed: an empty value removes the key.
pub fn metadata(changes: &[(&str, &str)]) -> Metadata {
    let base = [("serverAddress", "http://localhost:9090"), ("threshold", "100"), ("query", "up")];
    let kept = base.into_iter().filter(|(key, _)| !changes.iter().any(|(changed, _)| changed == key));
    Metadata::new(kept.chain(changes.iter().copied()))
}

fn read(changes: &[(&str, &str)]) -> Result<Spec, ParameterError> {
    let metadata = metadata(changes);
    metadata.reject_unknown(&[KEYS])?;
    parse(&metadata, Parameters::new(&metadata, CredentialSource::None))
}

#[track_caller]
fn spec(changes: &[(&str, &str)]) -> (Spec, sampler::Address, Query, Threshold) {
    let spec = read(changes).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
    let Source::Measured { address, query, threshold } = spec.source.clone() else { panic!("a measured source") };
    let (sampler::Query::Prometheus(query), trigger::Threshold::Prometheus(threshold)) = (query, threshold) else {
        panic!("Prometheus' own")
    };
    (spec, address, query, threshold)
}

#[track_caller]
fn rejects(changes: &[(&str, &str)], key: &str) {
    let error = read(changes).expect_err(&format!("{changes:?}"));
    assert_eq!(error.key, key, "{changes:?}: {error}");
    assert!(error.to_string().len() <= 200, "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn defaults_are_kedas() {
    let (spec, address, query, threshold) = spec(&[]);
    assert_eq!(spec.metric_name, "prometheus");
    assert!((spec.target - 100.0).abs() < f64::EPSILON);
    assert_eq!(query, Query { expression: "up".into(), namespace: None });
    assert_eq!(threshold, Threshold { activation: 0.0, ignore_null_values: true });
    assert_eq!(address.shown(), "localhost:9090");
}

/// keda.md C.7.
#[test]
fn what_keda_accepts_is_accepted() {
    for changes in [
        &[("metricName", "http_requests_total")][..],
        &[("namespace", "foo")],
        &[("ignoreNullValues", "false")],
        &[("activationThreshold", "50")],
        &[("activationThreshold", "-1.5")],
        &[("threshold", "0.5")],
        &[("threshold", "1e3")],
        &[("serverAddress", "https://localhost:9090"), ("unsafeSsl", "true")],
        &[("customHeaders", "key1=value1,key2=value2")],
        &[("queryParameters", "key1=value1,key2=value2")],
        &[("timeout", "1000")],
        &[("authModes", "tls"), ("ca", "ceert"), ("cert", "ceert"), ("key", "keey")],
        &[("authModes", "tls"), ("cert", "ceert"), ("key", "keey")],
        &[("authModes", "bearer"), ("bearerToken", "tooooken")],
        &[("authModes", "bearer"), ("token", "tooooken")],
        &[("authMode", "basic"), ("username", "user"), ("password", "pass")],
        &[("authModes", "basic"), ("username", "user")],
        &[
            ("authModes", "tls, basic"),
            ("ca", "ceert"),
            ("cert", "ceert"),
            ("key", "keey"),
            ("username", "user"),
            ("password", "pass"),
        ],
        &[("authModes", "custom"), ("customAuthHeader", "X-AUTH-TOKEN"), ("customAuthValue", "tooooken\n")],
        &[("authModes", "custom"), ("customAuthHeader", "Authorization"), ("customAuthValue", "ApiKey abc")],
        &[("authModes", "oauth"), ("oauthTokenURI", "https://idp/token"), ("clientID", "id"), ("clientSecret", "s")],
        &[
            ("authModes", "oauth"),
            ("oauthTokenURI", "https://idp/token"),
            ("clientID", "id"),
            ("endpointParams", "a=1&b=2"),
        ],
        &[("authModes", "apiKey"), ("apiKey", "key")],
        &[("authModes", "apiKey"), ("apiKey", "key"), ("method", "query"), ("keyParamName", "token")],
        &[
            ("authModes", "apiKey,bearer,custom,tls"),
            ("apiKey", "key"),
            ("bearerToken", "t"),
            ("cert", "c"),
            ("key", "k"),
            ("customAuthHeader", "X-A"),
            ("customAuthValue", "v"),
        ],
        &[("ca", "ceert")],
    ] {
        spec(changes);
    }
}

/// keda.md C.7.
#[test]
fn what_keda_rejects_is_rejected_by_name() {
    for (changes, key) in [
        (&[("serverAddress", ""), ("threshold", ""), ("query", "")][..], "serverAddress"),
        (&[("serverAddress", "")], "serverAddress"),
        (&[("threshold", "")], "threshold"),
        (&[("threshold", "one")], "threshold"),
        (&[("activationThreshold", "one")], "activationThreshold"),
        (&[("query", "")], "query"),
        (&[("ignoreNullValues", "xxxx")], "ignoreNullValues"),
        (&[("customHeaders", "key1=value1,key2")], "customHeaders"),
        (&[("queryParameters", "key1=value1,key2")], "queryParameters"),
        (&[("unsafeSsl", "yes")], "unsafeSsl"),
        (&[("timeout", "-1")], "timeout"),
        (&[("timeout", "a")], "timeout"),
        (&[("authModes", "tls"), ("ca", "ceert"), ("cert", "ceert")], "key"),
        (&[("authModes", "tls"), ("ca", "ceert"), ("key", "keey")], "cert"),
        (&[("authModes", "tls, basic"), ("username", "user"), ("password", "pass")], "cert"),
        (&[("authModes", "bearer")], "bearerToken"),
        (&[("authModes", "basic"), ("password", "pass")], "username"),
        (&[("authModes", "custom"), ("customAuthHeader", ""), ("customAuthValue", "v")], "customAuthHeader"),
        (&[("authModes", "custom"), ("customAuthHeader", "X-A"), ("customAuthValue", "")], "customAuthValue"),
        (&[("authModes", "oauth"), ("clientID", "id")], "oauthTokenURI"),
        (&[("authModes", "oauth"), ("oauthTokenURI", "https://idp/token")], "clientID"),
        (&[("authModes", "oauth"), ("oauthTokenURI", "idp"), ("clientID", "id")], "oauthTokenURI"),
        (&[("authModes", "apiKey")], "apiKey"),
        (&[("authModes", "apiKey"), ("apiKey", "k"), ("method", "body")], "method"),
        (&[("authModes", "digest")], "authModes"),
        (&[("authModes", "basic,bearer"), ("username", "u"), ("bearerToken", "t")], "authModes"),
        (&[("authMode", "oauth,basic")], "authMode"),
        (&[("authModes", "basic"), ("username", "u"), ("podIdentity", "azure-workload")], "podIdentity"),
    ] {
        rejects(changes, key);
    }
}

/// A target that KEDA would round to 0, or that the HPA refuses.
#[test]
fn b112_targets() {
    for threshold in ["0", "-1", "0.0004", "0.0009", "1e999", "NaN", "Inf", ".5", "+1", "01"] {
        rejects(&[("threshold", threshold)], "threshold");
    }
    for threshold in ["0.001", "0.25", "9.3e15", "1e19"] {
        spec(&[("threshold", threshold)]);
    }
}

#[test]
fn b102_timeouts() {
    for timeout in ["30s", "3000", "1m30s", "0"] {
        spec(&[("timeout", timeout)]);
    }
    for timeout in ["abc", "-30s", "1.5"] {
        rejects(&[("timeout", timeout)], "timeout");
    }
}

#[test]
fn identities_of_clouds_are_refused_by_name() {
    for (key, _) in REFUSED_KEYS {
        rejects(&[(key, "hunter2")], key);
    }
    // KEDA sends `credentialsFromEnv` with the variable's value.
    rejects(&[("credentialsFromEnv", "hunter2")], "credentials");
    rejects(&[("serverAdress", "http://a")], "serverAdress");
}

#[test]
fn b103_secrets_are_trimmed_and_hold_no_control_characters() {
    for (mode, key, rest) in [
        ("bearer", "bearerToken", &[][..]),
        ("basic", "username", &[]),
        ("basic", "password", &[("username", "u")]),
        ("custom", "customAuthValue", &[("customAuthHeader", "X-A")]),
        ("oauth", "clientSecret", &[("clientID", "i"), ("oauthTokenURI", "https://idp/token")]),
        ("apiKey", "apiKey", &[]),
    ] {
        let base = |value| rest.iter().copied().chain([("authModes", mode), (key, value)]).collect::<Vec<_>>();
        spec(&base("hunter2\r\n"));
        for value in ["hunter2\nx: y", "hunter2\u{0}", "a\u{7f}hunter2"] {
            rejects(&base(value), key);
        }
    }
    rejects(&[("customHeaders", "X-A=hunter2\nx: y")], "customHeaders");
}

#[test]
fn b104_headers() {
    spec(&[("customHeaders", "X-A=1,X-B=dG9r=")]);
    spec(&[("customHeaders", "X-A=,X-Client-Id=cid,X-Tenant-Id=tid,X-Organization-Token=token")]);
    for headers in [
        "X-A=1,X-A=2",
        "X-A=1,x-a=2",
        "Host=evil",
        "content-length=1",
        "Authorization=hunter2",
        "Cookie=hunter2",
        "Connection=close",
        "Transfer-Encoding=chunked",
        "X-Scope-OrgID=other",
        "x-forwarded-for=1.1.1.1",
        "X-Forwarded-Host=a",
        "Forwarded=for=1",
        "THANOS-TENANT=other",
        "Proxy-Authorization=hunter2",
        "TE=trailers",
        "Accept-Encoding=gzip",
        "Upgrade=h2c",
        "X A=1",
        "=1",
        "X-A",
        "X-A:=1",
        ",",
    ] {
        rejects(&[("customHeaders", headers)], "customHeaders");
    }
    for (mode, key) in [("custom", "customAuthHeader"), ("apiKey", "keyParamName")] {
        let base = [("authModes", mode), ("customAuthValue", "v"), ("apiKey", "k")];
        for name in ["Host", "X-Scope-OrgID", "X-A", "bad name"] {
            let changes: Vec<_> = base.iter().copied().chain([(key, name), ("customHeaders", "X-A=1")]).collect();
            rejects(&changes, key);
        }
    }
    // Two modes for one header.
    let twice = [("authModes", "bearer,custom"), ("bearerToken", "t"), ("customAuthValue", "v")];
    let changes: Vec<_> = twice.into_iter().chain([("customAuthHeader", "Authorization")]).collect();
    rejects(&changes, "customAuthHeader");
}

#[test]
fn parameters_of_the_request_are_not_set_twice() {
    for parameters in ["query=up", "time=0", "a=1,a=2", "namespace=b"] {
        rejects(&[("queryParameters", parameters), ("namespace", "a")], "queryParameters");
    }
    spec(&[("queryParameters", "namespace=b,dedup=true")]);
    for name in ["query", "namespace", "a"] {
        let mode = [("authModes", "apiKey"), ("apiKey", "k"), ("method", "query"), ("queryParameters", "a=1")];
        let changes: Vec<_> = mode.into_iter().chain([("keyParamName", name)]).collect();
        rejects(&changes, "keyParamName");
    }
}

/// What two triggers must have in common to share a request, and nothing else.
#[test]
fn what_is_asked_is_the_key() {
    let key = |changes: &[(&str, &str)]| {
        let (_, address, query, _) = spec(changes);
        (address, query)
    };
    let base = key(&[]);
    for same in [("threshold", "7"), ("activationThreshold", "3"), ("ignoreNullValues", "false"), ("metricName", "x")] {
        assert_eq!(key(&[same]), base, "{same:?}");
    }
    for other in [
        ("serverAddress", "http://localhost:9091"),
        ("query", "up + 1"),
        ("namespace", "a"),
        ("customHeaders", "X-A=1"),
        ("queryParameters", "a=1"),
        ("unsafeSsl", "true"),
        ("timeout", "1s"),
    ] {
        assert_ne!(key(&[other]), base, "{other:?}");
    }
    let printed = format!("{:?}", key(&[("customHeaders", "X-A=hunter2")]));
    assert!(!printed.contains("hunter2"), "{printed}");
}

#[test]
fn what_a_credential_may_hold_is_not_demanded_before_it_is_read() {
    let later = |changes: &[(&str, &str)]| {
        let metadata = metadata(changes);
        parse(&metadata, Parameters::new(&metadata, CredentialSource::Later))
    };
    for changes in [
        &[("serverAddress", "")][..],
        &[("authModes", "bearer")],
        &[("authModes", "basic")],
        &[("authModes", "tls"), ("cert", "c")],
        &[("authModes", "custom")],
        &[("authModes", "oauth")],
        &[("authModes", "apiKey")],
    ] {
        later(changes).unwrap_or_else(|error| panic!("{changes:?}: {error}"));
    }
    for (changes, key) in
        [(("query", ""), "query"), (("threshold", ""), "threshold"), (("authModes", "x"), "authModes")]
    {
        assert_eq!(later(&[changes]).unwrap_err().key, key);
    }
}
