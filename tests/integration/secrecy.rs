//! A secret goes to the source that it is for, and nowhere else: not into a log at the finest level, a status, a metric,
//! what `check` prints, or what a type of ours prints of itself. safety.md, D.
//!
//! Every secret holds a token that no encoding of text changes; each place is searched for the token, and for it within
//! base64, hexadecimal and a list of bytes.

mod canaries;

use std::{collections::BTreeMap, time::Duration};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use libtest_mimic::Trial;
use serde_json::json;
use tidegate::trigger::{PollBounds, Trigger};
use tidegate_connectors::{credentials::Credentials, metadata::Metadata, tenant::TenantId};
use tidegate_proto::externalscaler::{
    GetMetricsRequest, ScaledObjectRef, external_scaler_client::ExternalScalerClient,
};
use tidegate_tests::{
    Result,
    harness::step,
    scripted_kafka::ScriptedKafka,
    services::{
        Pki,
        rabbitmq::{READER, RabbitMqNode, SharedRabbitMq},
    },
    tidegate_process::{Folder, Serving, TidegateCommand, path_text},
    trials,
};
use tonic::{Code, transport::Channel};

use self::canaries::{Canaries, TokenServer};

pub fn trials() -> Vec<Trial> {
    trials![
        d8_no_secret_is_in_a_log_a_status_or_a_metric,
        no_secret_is_in_what_check_prints,
        d1_no_secret_is_in_what_a_type_prints_of_itself,
        a_secret_that_is_there_is_found_in_every_form,
    ]
}

/// A trigger: its metadata, and the code of its answers.
type Case = (&'static str, BTreeMap<String, String>, Code);

/// What holds secrets, where they are used rightly and wrongly.
struct Stage {
    canaries: Canaries,
    folder: Folder,
    cases: Vec<Case>,
    kafka: ScriptedKafka,
    tokens: TokenServer,
}

const NAMESPACE: &str = "team-a";

impl Stage {
    async fn new(test: &str) -> Result<Self> {
        let mut canaries = Canaries::default();
        let folder = Folder::new(test)?;
        let right = canaries.secret("right");
        let kafka = ScriptedKafka::start(1).await;
        kafka.topic("orders", &[10]);
        kafka.group("workers", 1, "orders", &[7]);
        kafka.state().login = Some(("user".into(), right.clone()));
        let tokens = TokenServer::start(&canaries.secret("token").replace(['+', ' ', '&', '%', '"'], "")).await?;
        let mut stage = Self { canaries, folder, cases: Vec::new(), kafka, tokens };
        let (broker, tokens) = (stage.kafka.bootstrap()[0].1, stage.tokens.address.to_string());
        stage.write_credentials(&right, &tokens)?;
        stage.add_kafka(&right, &format!("127.0.0.1:{broker}"), &tokens);
        stage.add_prometheus(&format!("http://{tokens}/deny"))?;
        Ok(stage)
    }

    fn write_credentials(&mut self, right: &str, tokens: &str) -> Result {
        let identity = Pki::new("secrecy")?.client("worker", None)?;
        self.canaries.add_lines(&identity.key);
        let bad_key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END", self.canaries.secret("badkey"));
        let (oauth, wrong) = (self.canaries.secret("oauth"), self.canaries.secret("directory"));
        let phrase = self.canaries.secret("phrase");
        let deny = format!("http://{tokens}/deny");
        let token = format!("http://{tokens}/token");
        for (name, content) in [
            ("right", &[("sasl", "plaintext"), ("username", "user"), ("password", right)][..]),
            ("wrong", &[("sasl", "scram_sha512"), ("username", "user"), ("password", &wrong)]),
            (
                "elsewhere",
                &[("sasl", "plaintext"), ("username", "user"), ("password", &wrong), ("allowedHosts", "a.b")],
            ),
            (
                "tls",
                &[("tls", "enable"), ("cert", &identity.certificate), ("key", &identity.key), ("keyPassword", &phrase)],
            ),
            ("bad-key", &[("tls", "enable"), ("cert", &identity.certificate), ("key", &bad_key)]),
            (
                "token",
                &[("sasl", "oauthbearer"), ("username", "id"), ("password", &oauth), ("oauthTokenEndpointUri", &token)],
            ),
            (
                "denied",
                &[("sasl", "oauthbearer"), ("username", "id"), ("password", &oauth), ("oauthTokenEndpointUri", &deny)],
            ),
            ("blank", &[("sasl", "plaintext"), ("username", "user"), ("password", " \n")]),
        ] {
            for (key, value) in content {
                self.folder.write(&format!("credentials/{NAMESPACE}/{name}/{key}"), value)?;
            }
        }
        Ok(())
    }

    fn add_kafka(&mut self, right: &str, broker: &str, tokens: &str) {
        let (wrong, control) = (self.canaries.secret("wrong"), format!("{}\u{7}", self.canaries.secret("control")));
        let user_info =
            format!("http://user:{}@{tokens}/deny", self.canaries.secret("userinfo").replace(['/', ' ', '%'], ""));
        let as_host = format!("{}@{broker}", self.canaries.secret("host"));
        let as_name = self.canaries.secret("name");
        let (to, failed) = (broker, Code::FailedPrecondition);
        for (name, server, more, code) in [
            ("env-right", to, login(right), Code::Ok),
            ("env-wrong", to, login(&wrong), failed),
            ("env-control", to, login(&control), Code::InvalidArgument),
            ("env-tls", to, [login(right), vec![("tls", "enable"), ("unsafeSsl", "true")]].concat(), Code::Unavailable),
            ("env-refused", "127.0.0.1:1", login(right), Code::Unavailable),
            ("env-no-host", "tidegate.invalid:9092", login(right), Code::Unavailable),
            ("env-as-host", &as_host, login(right), Code::InvalidArgument),
            ("env-as-name", to, by(&as_name), Code::InvalidArgument),
            ("env-as-word", to, vec![("sasl", as_name.as_str())], Code::InvalidArgument),
            ("env-denied", to, oauth(&user_info, right), failed),
            ("right", to, by("right"), Code::Ok),
            ("wrong", to, by("wrong"), failed),
            ("elsewhere", to, by("elsewhere"), Code::PermissionDenied),
            ("tls", to, by("tls"), Code::Unavailable),
            ("bad-key", to, by("bad-key"), failed),
            ("token", to, by("token"), failed),
            ("denied", to, by("denied"), failed),
            ("blank", to, by("blank"), failed),
            ("missing", to, by("missing"), failed),
            ("refused", "127.0.0.1:1", by("right"), Code::Unavailable),
        ] {
            let common = [
                ("triggerType", "kafka"),
                ("bootstrapServers", server),
                ("consumerGroup", "workers"),
                ("topic", "orders"),
            ];
            let metadata = common.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value.to_owned()));
            self.cases.push((name, metadata.collect(), code));
        }
    }

    /// Every way to authenticate, at a server that refuses it and sends back what it got, and at one that is not there.
    fn add_prometheus(&mut self, refuses: &str) -> Result {
        let (token, password) = (self.canaries.secret("bearer"), self.canaries.secret("basic"));
        let (key, header) = (self.canaries.secret("apikey"), self.canaries.secret("header"));
        for (key, value) in [("authModes", "bearer"), ("bearerToken", &token)] {
            self.folder.write(&format!("credentials/{NAMESPACE}/bearer/{key}"), value)?;
        }
        let user_info = format!("http://user:{token}@prometheus.example").replace([' ', '%', '/'], "");
        let gone = "http://127.0.0.1:1/";
        let basic = vec![("authModes", "basic"), ("username", "user"), ("passwordFromEnv", &*password)];
        let in_url =
            vec![("authModes", "apiKey"), ("apiKeyFromEnv", &*key), ("method", "query"), ("keyParamName", "k")];
        let custom = vec![("authModes", "custom"), ("customAuthHeader", "X-Key"), ("customAuthValueFromEnv", &*header)];
        let (failed, gone_code) = (Code::FailedPrecondition, Code::Unavailable);
        for (name, server, more, code) in [
            ("prometheus-bearer", refuses, by("bearer"), failed),
            ("prometheus-bearer-gone", gone, by("bearer"), gone_code),
            ("prometheus-basic", refuses, basic.clone(), failed),
            ("prometheus-basic-gone", gone, basic, gone_code),
            ("prometheus-in-url", refuses, in_url.clone(), failed),
            ("prometheus-in-url-gone", gone, in_url, gone_code),
            ("prometheus-custom", refuses, custom.clone(), failed),
            ("prometheus-custom-gone", gone, custom, gone_code),
            ("prometheus-user-info", &user_info, Vec::new(), Code::InvalidArgument),
        ] {
            let common =
                [("triggerType", "prometheus"), ("serverAddress", server), ("query", "up"), ("threshold", "5")];
            let metadata = common.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value.to_owned()));
            self.cases.push((name, metadata.collect(), code));
        }
        Ok(())
    }

    /// Logins in `host`, at a broker that refuses them and at one that is not there, over both protocols.
    fn add_rabbitmq(&mut self, rabbitmq: &RabbitMqNode) {
        let password = self.canaries.secret("userinfo").replace(['/', '+', '%', '=', ' ', '&', '"'], "");
        for (name, host, code) in [
            ("rabbitmq-http", rabbitmq.http(READER).replace("p%40ss", &password), Code::FailedPrecondition),
            ("rabbitmq-amqp", rabbitmq.amqp(READER).replace("p%40ss", &password), Code::FailedPrecondition),
            ("rabbitmq-http-gone", format!("http://user:{password}@127.0.0.1:1"), Code::Unavailable),
            ("rabbitmq-amqp-gone", format!("amqp://user:{password}@127.0.0.1:1"), Code::Unavailable),
            ("rabbitmq-no-host", format!("amqp://user:{password}@127.0.0.1:1/?a=b"), Code::InvalidArgument),
        ] {
            let metadata = [("triggerType", "rabbitmq"), ("hostFromEnv", &host), ("queueName", "q")];
            let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
            self.cases.push((name, metadata.into(), code));
        }
    }

    fn credentials(&self) -> Result<String> {
        path_text(&self.folder.path("credentials"))
    }
}

type Parameters<'a> = Vec<(&'static str, &'a str)>;

fn login(password: &str) -> Parameters<'_> {
    vec![("sasl", "plaintext"), ("username", "user"), ("passwordFromEnv", password)]
}

fn oauth<'a>(endpoint: &'a str, secret: &'a str) -> Parameters<'a> {
    let sasl = ("sasl", "oauthbearer");
    vec![sasl, ("username", "id"), ("passwordFromEnv", secret), ("oauthTokenEndpointUri", endpoint)]
}

fn by(credential: &str) -> Parameters<'_> {
    vec![("credentialsRef", credential)]
}

/// All calls about one trigger: what they say, as it would be printed.
async fn ask(channel: &Channel, (name, metadata, code): &Case) -> String {
    let mut client = ExternalScalerClient::new(channel.clone());
    let object = ScaledObjectRef {
        name: (*name).to_owned(),
        namespace: NAMESPACE.to_owned(),
        scaler_metadata: metadata.clone().into_iter().collect(),
    };
    let request =
        |metric: &str| GetMetricsRequest { scaled_object_ref: Some(object.clone()), metric_name: metric.to_owned() };
    let spec = client.get_metric_spec(object.clone()).await;
    let metric = spec.as_ref().map(|spec| spec.get_ref().metric_specs[0].metric_name.clone());
    let value = client.get_metrics(request(&metric.unwrap_or_default())).await;
    let said = value.as_ref().map_or_else(tonic::Status::code, |_| Code::Ok);
    assert_eq!(said, *code, "{name}: {value:?}");
    let active = client.is_active(object.clone()).await;
    let stream = client.stream_is_active(object.clone()).await.map(drop);
    let other = client.get_metrics(request("another")).await;
    format!("{spec:?} {value:?} {active:?} {stream:?} {other:?}")
}

async fn d8_no_secret_is_in_a_log_a_status_or_a_metric(tidegate: TidegateCommand, rabbitmq: SharedRabbitMq) -> Result {
    let mut stage = Stage::new("secrecy-serve").await?;
    stage.add_rabbitmq(&rabbitmq);
    let arguments = ["--log-level", "trace", "--credentials-dir", &stage.credentials()?];
    let mut serving = Serving::start(&tidegate, &stage.folder, &arguments).await?;
    let channel = serving.channel().await?;
    for case in &stage.cases {
        step(case.0);
        let said = ask(&channel, case).await;
        stage.canaries.check(&format!("the answers to {}", case.0), &said);
    }
    let (status, page) = serving.page("/metrics").await?;
    assert!(status == 200 && page.contains("tidegate_polls_total"), "{page}");
    stage.canaries.check("/metrics", &page);
    serving.process.signal("TERM")?;
    serving.process.wait(Duration::from_secs(10)).await?;
    let log = serving.logged()?;
    // That there is a log of what failed, and how, makes its silence worth something.
    for heard in ["call refused", "a query failed", "credentials rejected (plaintext)", "does not offer the mechanism"]
    {
        assert!(log.contains(heard), "{heard} is not in the log:\n{log}");
    }
    stage.canaries.check("the log", &log);
    Ok(())
}

async fn no_secret_is_in_what_check_prints(tidegate: TidegateCommand) -> Result {
    let stage = Stage::new("secrecy-check").await?;
    let mut variables = Vec::new();
    let objects = stage.cases.iter().map(|(name, metadata, _)| {
        let mut metadata = metadata.clone();
        for (key, value) in metadata.iter_mut().filter(|(key, _)| key.ends_with("FromEnv")) {
            let variable = format!("{key}_OF_{name}").replace('-', "_");
            variables.push((variable.clone(), std::mem::replace(value, variable)));
        }
        let triggers = json!([{ "type": "external-push", "metadata": metadata }]);
        json!({ "kind": "ScaledObject", "metadata": { "name": name }, "spec": { "triggers": triggers } })
    });
    // JSON is YAML.
    let documents: Vec<_> = objects.map(|object| object.to_string()).collect();
    let file = path_text(&stage.folder.write("objects.yaml", &documents.join("\n---\n"))?)?;
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for output in ["table", "json"] {
        step(output);
        let credentials = stage.credentials()?;
        let arguments = ["--log-level", "trace", "check", &file, "--namespace", NAMESPACE, "--output", output];
        let arguments = [&arguments[..], &["--credentials-dir", &credentials]].concat();
        let ended = tidegate.run(&arguments, &variables).await?;
        let (printed, logged) = (String::from_utf8(ended.stdout)?, String::from_utf8(ended.stderr)?);
        assert_eq!(ended.status.code(), Some(1), "some fail: {printed}\n{logged}");
        for (name, _, code) in &stage.cases {
            assert!(printed.contains(name), "{name} ({code:?}) is not in:\n{printed}");
        }
        assert!(printed.contains("kafka-orders"), "one is measured: {printed}");
        stage.canaries.check(&format!("check --output {output}"), &printed);
        stage.canaries.check("what check logs", &logged);
    }
    Ok(())
}

async fn d1_no_secret_is_in_what_a_type_prints_of_itself() -> Result {
    let stage = Stage::new("secrecy-debug").await?;
    let tenant = TenantId::local(NAMESPACE);
    let mut parsed = 0;
    for (name, metadata, _) in &stage.cases {
        let metadata = Metadata::new(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let trigger = Trigger::parse(&tenant, &metadata, PollBounds::default());
        parsed += usize::from(trigger.is_ok());
        stage.canaries.check(name, &format!("{metadata:?} {metadata:#?} {trigger:?} {trigger:#?}"));
    }
    assert!(parsed > 10, "{parsed} triggers are right");
    let mut canaries = stage.canaries;
    let credentials = Credentials::new([("password".to_owned(), canaries.secret("value"))]);
    canaries.check("a credential", &format!("{credentials:?} {credentials:#?}"));
    Ok(())
}

/// What is not found would be thought not to be there.
async fn a_secret_that_is_there_is_found_in_every_form() -> Result {
    let mut canaries = Canaries::default();
    let secret = canaries.secret("guard");
    let login = format!("\0user\0{secret}");
    for text in [
        format!("password={secret}!"),
        format!("{secret:?}"),
        json!({ "password": secret }).to_string(),
        secret.replace('%', "%25").replace('/', "%2F").replace(' ', "%20"),
        STANDARD.encode(&secret),
        STANDARD.encode(&login),
        STANDARD.encode(format!("id:{secret}")),
        URL_SAFE_NO_PAD.encode(format!("i:{secret}")),
        format!("{:?}", login.as_bytes()),
        format!("{:02x?}", login.as_bytes()).replace(['[', ']', ',', ' '], ""),
    ] {
        assert!(canaries.found_in(&format!("before {text} after")).is_some(), "{text}");
    }
    assert_eq!(canaries.found_in("Zq7, and nothing more"), None);
    Ok(())
}
