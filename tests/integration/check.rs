//! `tidegate check` as the command that a user runs, on files with triggers of several kinds.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use libtest_mimic::Trial;
use serde_json::{Value, json};
use tidegate_tests::kafka_client::KafkaClient;
use tidegate_tests::services::{PrometheusServer, SASL_PASSWORD, SASL_USER, SharedKafka, run_directory};
use tidegate_tests::{Result, trials};
use tokio::sync::OnceCell;

pub fn trials() -> Vec<Trial> {
    trials![
        check_measures_each_kind_of_trigger,
        check_says_what_is_wrong_and_exits_with_1,
        check_reads_credentials_and_variables_and_prints_no_secret,
        check_exits_with_2_for_a_file_it_cannot_read,
    ]
}

/// The command, built by the cargo that runs the tests, with the features of the whole workspace.
async fn binary() -> Result<PathBuf> {
    static BUILT: OnceCell<std::result::Result<PathBuf, String>> = OnceCell::const_new();
    let building = async || tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?;
    BUILT.get_or_init(building).await.clone().map_err(Into::into)
}

fn build() -> std::result::Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--workspace", "--bin", "tidegate", "--message-format=json"]);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let artifacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = artifacts.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    executable.ok_or_else(|| format!("cargo built no command: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Writes `yaml` into a file of this run and checks it.
async fn check(name: &str, yaml: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
    let file = run_directory()?.join(format!("check-{name}.yaml"));
    std::fs::write(&file, yaml)?;
    let mut command = tokio::process::Command::new(binary().await?);
    command.arg("check").arg(&file).args(arguments).envs(variables.iter().copied());
    Ok(command.stdin(Stdio::null()).kill_on_drop(true).output().await?)
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn reports(output: &Output) -> Result<Vec<Value>> {
    let parsed = serde_json::from_slice(&output.stdout);
    parsed.map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// `topic` has three partitions: one with a lag of 15, one without records, one with 4 records and no commit. Its sister
/// has one with a lag of 100.
async fn prepare(kafka: &SharedKafka, topic: &str) -> Result {
    let client = KafkaClient::new(&kafka.bootstrap());
    let sister = format!("{topic}-sister");
    client.create_topic(topic, 3, 3).await?;
    client.create_topic(&sister, 1, 3).await?;
    client.produce(topic, 0, 20).await?;
    client.produce(topic, 2, 4).await?;
    client.produce(&sister, 0, 100).await?;
    client.commit_all(topic, &[(topic, 0, 5), (&sister, 0, 0)]).await
}

/// All five kinds of trigger, in two objects of two kinds.
fn all_kinds(bootstrap: &str, server: &str) -> String {
    format!(
        r#"
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {{ name: orders, namespace: shop }}
spec:
  maxReplicaCount: 3
  triggers:
    - type: kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check, topic: check }}
    - type: apache-kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check, topic: "check,check-sister" }}
    - type: external-push
      metadata:
        scalerAddress: tidegate.tidegate:9090
        triggerType: kafka
        bootstrapServers: "{bootstrap}"
        consumerGroup: check
        topic: check
        lagThreshold: "2"
        partitionLimitation: "0-1"
        allowIdleConsumers: "true"
---
apiVersion: keda.sh/v1alpha1
kind: ScaledJob
metadata: {{ name: nightly }}
spec:
  triggers:
    - type: cron
      metadata: {{ timezone: Etc/UTC, start: 0 0 * * *, end: 0 0 1 1 *, desiredReplicas: "5" }}
    - type: prometheus
      metadata: {{ serverAddress: "{server}", query: "vector(7)", threshold: "2" }}
"#
    )
}

async fn check_measures_each_kind_of_trigger(kafka: SharedKafka, prometheus: PrometheusServer) -> Result {
    prepare(&kafka, "check").await?;
    let yaml = all_kinds(&kafka.bootstrap(), &prometheus.0.url());
    let output = check("kinds", &yaml, &["--output", "json", "--namespace", "batch"], &[]).await?;
    let reports = reports(&output)?;
    assert_eq!(output.status.code(), Some(0), "{reports:#?}");
    let facts = |report: &Value| {
        ["kind", "namespace", "name", "trigger", "triggerType", "value", "target", "active", "replicas", "error"]
            .map(|key| report[key].clone())
    };
    let expected = [
        // 15 records, and a keeper for the partition that has records and no commit.
        json!(["ScaledObject", "shop", "orders", 0, "kafka", 16.0, 10.0, true, 2, null]),
        // Capped at 4 partitions of 10, which the object's own maximum caps once more.
        json!(["ScaledObject", "shop", "orders", 1, "apache-kafka", 40.0, 10.0, true, 3, null]),
        json!(["ScaledObject", "shop", "orders", 2, "kafka", 15.0, 2.0, true, 3, null]),
        json!(["ScaledJob", "batch", "nightly", 0, "cron", 5.0, 1.0, true, 5, null]),
        json!(["ScaledJob", "batch", "nightly", 1, "prometheus", 7.0, 2.0, true, 4, null]),
    ];
    for (report, expected) in reports.iter().zip(&expected) {
        assert_eq!(json!(facts(report)), *expected);
    }
    assert_eq!(reports.len(), expected.len());
    assert_eq!(reports[0]["metricName"], "kafka-check");
    assert_eq!(
        reports[0]["detail"][0],
        json!({"topic": "check", "partition": 0, "committed": 5, "logStart": 0, "logEnd": 20, "lag": 15})
    );
    assert_eq!((&reports[0]["detail"][2]["committed"], &reports[0]["detail"][2]["lag"]), (&Value::Null, &json!(1)));
    assert_eq!(reports[1]["detail"].as_array().map(Vec::len), Some(4));

    let table = check("kinds", &yaml, &[], &[]).await?;
    assert_eq!(table.status.code(), Some(0));
    let table = text(&table);
    assert!(table.starts_with("OBJECT"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("shop/orders ")).count(), 3, "{table}");
    assert!(table.contains("    topic=check partition=0 committed=5 logStart=0 logEnd=20 lag=15\n"), "{table}");
    Ok(())
}

async fn check_says_what_is_wrong_and_exits_with_1(kafka: SharedKafka) -> Result {
    prepare(&kafka, "check-wrong").await?;
    let bootstrap = kafka.bootstrap();
    let yaml = format!(
        r#"
kind: ScaledObject
metadata: {{ name: orders }}
spec:
  triggers:
    - type: kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check-wrong, topic: check-wrong, lagTreshold: "5" }}
    - type: kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check-wrong, topic: check-nowhere }}
    - type: kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check-wrong, topic: check-wrong, partitionLimitation: 1-5 }}
    - type: cpu
      metadata: {{ value: "50" }}
    - type: kafka
      metadata: {{ bootstrapServers: "{bootstrap}", consumerGroup: check-wrong, topic: check-wrong }}
"#
    );
    let output = check("wrong", &yaml, &["--output", "json"], &[]).await?;
    assert_eq!(output.status.code(), Some(1));
    let reports = reports(&output)?;
    let errors: Vec<_> = reports.iter().map(|report| report["error"].clone()).collect();
    let error = |code, message| json!({"code": code, "message": message});
    assert_eq!(errors[0], error("INVALID_ARGUMENT", "lagTreshold: unknown key; did you mean lagThreshold?"));
    assert_eq!(errors[1], error("FAILED_PRECONDITION", "topic check-nowhere not found"));
    assert_eq!(errors[2], error("FAILED_PRECONDITION", "partitions 3-5 of partitionLimitation not found"));
    assert_eq!(errors[3]["code"], "INVALID_ARGUMENT");
    assert_eq!((&errors[4], &reports[4]["value"]), (&Value::Null, &json!(16.0)));
    for report in &reports[..4] {
        assert_eq!(
            (&report["value"], &report["active"], &report["replicas"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }
    // Asking for a topic that is not there did not make it.
    assert!(KafkaClient::new(&bootstrap).leaders("check-nowhere").await?.is_empty());

    let table = text(&check("wrong", &yaml, &[], &[]).await?);
    assert!(table.contains("    INVALID_ARGUMENT: lagTreshold: unknown key; did you mean lagThreshold?\n"), "{table}");
    Ok(())
}

async fn check_reads_credentials_and_variables_and_prints_no_secret(kafka: SharedKafka) -> Result {
    prepare(&kafka, "check-login").await?;
    let bootstrap = kafka.sasl_bootstrap();
    let credentials = run_directory()?.join("check-credentials");
    let credential = credentials.join("shop/kafka");
    std::fs::create_dir_all(&credential)?;
    for (key, value) in [("sasl", "scram_sha512"), ("username", SASL_USER), ("password", SASL_PASSWORD)] {
        std::fs::write(credential.join(key), value)?;
    }
    let common = format!(r#"bootstrapServers: "{bootstrap}", consumerGroup: check-login, topic: check-login"#);
    let yaml = format!(
        "
kind: ScaledObject
metadata: {{ name: orders, namespace: shop }}
spec:
  triggers:
    - type: kafka
      metadata: {{ {common} }}
      authenticationRef: {{ name: kafka }}
    - type: external-push
      metadata: {{ triggerType: kafka, {common}, credentialsRef: kafka }}
    - type: kafka
      metadata: {{ {common}, sasl: plaintext, usernameFromEnv: CHECK_USER, passwordFromEnv: CHECK_PASSWORD }}
    - type: kafka
      metadata: {{ {common}, sasl: plaintext, usernameFromEnv: CHECK_USER, passwordFromEnv: CHECK_WRONG }}
    - type: kafka
      metadata: {{ {common}, credentialsRef: nowhere }}
"
    );
    let directory = credentials.to_str().ok_or("the directory's name is not UTF-8")?;
    let wrong = "not-the-password-51d";
    let variables = [("CHECK_USER", SASL_USER), ("CHECK_PASSWORD", SASL_PASSWORD), ("CHECK_WRONG", wrong)];
    let arguments = ["--credentials-dir", directory, "--output", "json", "--log-level", "trace"];
    let output = check("login", &yaml, &arguments, &variables).await?;
    let reports = reports(&output)?;
    for report in &reports[..3] {
        assert_eq!((&report["value"], &report["error"]), (&json!(16.0), &Value::Null), "{report:#}");
    }
    let rejected = json!({"code": "FAILED_PRECONDITION", "message": "credentials rejected (plaintext)"});
    assert_eq!(reports[3]["error"], rejected);
    assert_eq!(reports[4]["error"]["code"], "FAILED_PRECONDITION");
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output) + &String::from_utf8_lossy(&output.stderr);
    for secret in [SASL_PASSWORD, wrong] {
        assert!(!printed.contains(secret), "a secret is printed");
    }
    Ok(())
}

async fn check_exits_with_2_for_a_file_it_cannot_read() -> Result {
    for (name, yaml, reason) in [
        ("no-object", "kind: ConfigMap", "holds no ScaledObject and no ScaledJob"),
        ("no-triggers", "kind: ScaledObject\nmetadata: { name: x }\nspec: {}", "triggers"),
        ("no-yaml", "kind: [", "line"),
    ] {
        let output = check(name, yaml, &[], &[]).await?;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(reason) && error.contains(&format!("check-{name}.yaml")), "{error}");
    }
    Ok(())
}
