//! What `check` reads and prints, with triggers that need no source.

use std::{process::ExitCode, sync::Arc};

use super::{Options, Output, file, measure, report, run};
use crate::credentials::NoCredentials;

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: { name: passed-over }
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: { name: office, namespace: shop }
spec:
  minReplicaCount: 0
  maxReplicaCount: 8
  triggers:
    - type: external-push
      metadata:
        scalerAddress: tidegate.tidegate:9090
        triggerType: cron
        timezone: Etc/UTC
        start: 0 0 * * *
        end: 0 0 1 1 *
        desiredReplicas: "5"
    - type: cron
      metadata: { timezone: Etc/UTC, start: 0 0 * * *, end: 0 0 1 1 *, desiredReplicas: "5" }
    - type: external
      metadata: { triggerType: kafka, consumerGroup: g, topic: t, bootstrapServers: "b:9092", lagTreshold: "5" }
    - type: cpu
      metadata: { value: "50" }
---
kind: ScaledJob
metadata: { name: batch }
spec:
  triggers:
    - type: cron
      metadata: { timezone: Mars/Phobos, start: 0 0 * * *, end: 0 0 1 1 *, desiredReplicas: "5" }
"#;

async fn reports(yaml: &str) -> Vec<super::Report> {
    let objects = file::parse(yaml, "objects.yaml", "fallback").unwrap();
    measure::measure(objects, &(Arc::new(NoCredentials) as Arc<dyn crate::credentials::Provider>)).await
}

#[tokio::test]
async fn every_trigger_is_explained() {
    let reports = reports(OBJECTS).await;
    assert_eq!(reports.len(), 5);
    for report in &reports[..2] {
        let measured = report.result.as_ref().unwrap();
        assert_eq!((measured.value, measured.target, measured.active, measured.replicas), (5.0, 1.0, true, 5));
        assert_eq!(report.trigger_type, "cron");
    }
    let misspelt = reports[2].result.as_ref().unwrap_err();
    assert_eq!(misspelt.code, "INVALID_ARGUMENT");
    assert_eq!(misspelt.message, "lagTreshold: unknown key; did you mean lagThreshold?");
    assert!(reports[3].result.as_ref().unwrap_err().message.contains("not a type of trigger that Tidegate measures"));
    assert!(reports[4].result.as_ref().unwrap_err().message.starts_with("timezone: "));
    assert_eq!((reports[4].namespace.as_str(), reports[4].kind.as_str()), ("fallback", "ScaledJob"));
}

#[tokio::test]
async fn json_has_the_same_keys_for_every_trigger() {
    let reports = reports(OBJECTS).await;
    let mut out = Vec::new();
    report::json(&reports, &mut out).unwrap();
    let printed: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(&out).unwrap();
    for object in &printed {
        let mut keys: Vec<_> = object.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "active",
                "detail",
                "error",
                "file",
                "kind",
                "metricName",
                "name",
                "namespace",
                "replicas",
                "source",
                "target",
                "trigger",
                "triggerType",
                "value"
            ]
        );
    }
    assert_eq!(printed[0]["value"], 5.0);
    assert_eq!(printed[0]["detail"][0]["open"], true);
    assert_eq!(printed[2]["error"]["code"], "INVALID_ARGUMENT");
}

#[tokio::test]
async fn the_table_has_a_row_for_every_trigger_and_its_detail() {
    let reports = reports(OBJECTS).await;
    let mut out = Vec::new();
    report::table(&reports, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("OBJECT"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("shop/office")).count(), 4, "{text}");
    assert!(text.contains("    open=true now="), "{text}");
    assert!(text.contains("    INVALID_ARGUMENT: lagTreshold"), "{text}");
}

#[test]
fn a_file_that_is_no_scaled_object_is_an_error_with_its_place() {
    for (yaml, expected) in [
        ("kind: ConfigMap", "holds no ScaledObject"),
        ("kind: ScaledObject\nmetadata: { name: x }\nspec: {}", "triggers"),
        ("kind: [", "line"),
    ] {
        let error = file::parse(yaml, "f", "ns").err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_exit_code_tells_a_failed_trigger_from_an_unreadable_file() {
    let options = |files: Vec<&str>| Options {
        files: files.into_iter().map(Into::into).collect(),
        output: Output::Json,
        namespace: "default".to_owned(),
    };
    let run = async |files| {
        let mut out = Vec::new();
        format!("{:?}", run(&options(files), Arc::new(NoCredentials), &mut out).await)
    };
    let path = std::env::temp_dir().join(format!("tidegate-check-{}.yaml", std::process::id()));
    std::fs::write(&path, OBJECTS).unwrap();
    assert_eq!(run(vec![path.to_str().unwrap()]).await, format!("{:?}", ExitCode::from(1)));
    assert_eq!(run(vec!["/nonexistent.yaml"]).await, format!("{:?}", ExitCode::from(2)));
    std::fs::remove_file(&path).unwrap();
}
