//! `tidegate` as a process: how it starts, how it does not, and how it ends.

use std::time::Duration;

use libtest_mimic::Trial;
use tidegate_proto::externalscaler::{ScaledObjectRef, external_scaler_client::ExternalScalerClient};
use tidegate_tests::{
    Result,
    harness::step,
    services::free_port,
    tidegate_process::{Folder, Serving, TidegateCommand, path_text},
    trials,
};
use tokio::{
    net::TcpListener,
    time::{Instant, sleep},
};
use tonic::Code;

pub fn trials() -> Vec<Trial> {
    trials![
        a21_8_sigterm_ends_streams_with_ok_calls_with_an_answer_and_the_process_with_0,
        a_wrong_configuration_is_exit_code_2_with_line_and_reason,
        a_wrong_flag_is_exit_code_2,
        a1_a_plaintext_listener_that_others_reach_is_refused,
        a_port_that_is_taken_is_exit_code_1_with_the_address,
        logs_are_json_when_they_go_to_no_terminal,
        the_demo_prints_what_it_measured,
    ]
}

fn object(metadata: &[(&str, &str)]) -> ScaledObjectRef {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    ScaledObjectRef { name: "worker".into(), namespace: "team-a".into(), scaler_metadata: metadata.collect() }
}

/// Never open in any test's lifetime: the last minute of a leap day.
fn closed_window() -> ScaledObjectRef {
    object(&[
        ("triggerType", "cron"),
        ("timezone", "UTC"),
        ("start", "58 23 29 2 *"),
        ("end", "59 23 29 2 *"),
        ("desiredReplicas", "1"),
    ])
}

async fn a21_8_sigterm_ends_streams_with_ok_calls_with_an_answer_and_the_process_with_0(
    tidegate: TidegateCommand,
) -> Result {
    let folder = Folder::new("sigterm")?;
    let mut serving = Serving::start(&tidegate, &folder, &[]).await?;
    let client = ExternalScalerClient::new(serving.channel().await?);
    let mut activations = client.clone().stream_is_active(closed_window()).await?.into_inner();
    let mut specs = client.clone().stream_metric_spec(closed_window()).await?.into_inner();
    assert!(specs.message().await?.is_some(), "the spec comes when the stream is opened");
    step("a call is in flight: its source accepts and says nothing");
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let bootstrap = silent.local_addr()?.to_string();
    let waits = object(&[("triggerType", "kafka"), ("bootstrapServers", &bootstrap), ("consumerGroup", "g")]);
    let mut calling = client.clone();
    let call = tokio::spawn(async move { calling.is_active(waits).await });
    let (_accepted, _) = silent.accept().await?;
    step("SIGTERM");
    let signalled = Instant::now();
    serving.process.signal("TERM")?;
    // The call keeps the process for up to 2.5 s, and the pages answer for as long.
    while serving.page("/readyz").await? != (503, "draining\n".to_owned()) {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(serving.page("/livez").await?.0, 200);
    step("streams end with OK");
    assert_eq!(activations.message().await?, None);
    assert_eq!(specs.message().await?, None);
    step("the call is answered");
    let status = call.await?.expect_err("nothing was measured");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "not measured yet"));
    step("the process ends");
    let ended = serving.process.wait(Duration::from_secs(10).saturating_sub(signalled.elapsed())).await?;
    assert_eq!(ended.code(), Some(0), "{}", serving.process.log_tail());
    Ok(())
}

/// Runs a command that must fail: its exit code, and what it says.
async fn refused(tidegate: &TidegateCommand, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let output = tidegate.run(arguments, &[]).await?;
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

async fn a_wrong_configuration_is_exit_code_2_with_line_and_reason(tidegate: TidegateCommand) -> Result {
    let folder = Folder::new("configuration")?;
    for (text, line, reason) in [
        ("grpc:\n  listn: 127.0.0.1:0\n", "line 2", "listn"),
        ("http: {}\npoll: { minInterval: soon }\n", "line 2", "must be a duration"),
        ("limits:\n  triggersPerTenant: 0\n", "line 2", "0"),
        ("grpc: [\n", "line", ""),
    ] {
        let file = path_text(&folder.write("tidegate.yaml", text)?)?;
        let (code, said) = refused(&tidegate, &["serve", "--config", &file]).await?;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with(&format!("error: {file}: ")), "{said}");
        assert!(said.contains(line) && said.contains(reason), "{line}, {reason}: {said}");
    }
    let missing = path_text(&folder.path("none.yaml"))?;
    let (code, said) = refused(&tidegate, &["serve", "--config", &missing]).await?;
    assert!(code == Some(2) && said.contains("none.yaml: No such file"), "{code:?} {said}");
    Ok(())
}

async fn a_wrong_flag_is_exit_code_2(tidegate: TidegateCommand) -> Result {
    for (arguments, reason) in [
        (&["serve", "--grpc-listn", "127.0.0.1:0"][..], "--grpc-listen"),
        (&["serve", "--grpc-listen", "nowhere"], "--grpc-listen"),
        (&["serve", "--log-level", "tidegate=loud"], "--log-level"),
        (&["check"], "FILE"),
        (&["sevre"], "serve"),
    ] {
        let (code, said) = refused(&tidegate, arguments).await?;
        assert!(code == Some(2) && said.contains(reason), "{arguments:?}: {code:?} {said}");
    }
    Ok(())
}

async fn a1_a_plaintext_listener_that_others_reach_is_refused(tidegate: TidegateCommand) -> Result {
    let port = free_port()?;
    for host in ["0.0.0.0", "[::]"] {
        let address = format!("{host}:{port}");
        let (code, said) = refused(&tidegate, &["serve", "--grpc-listen", &address]).await?;
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(&address) && said.contains("--insecure"), "{said}");
    }
    let folder = Folder::new("insecure")?;
    let mut serving = Serving::start(&tidegate, &folder, &["--insecure"]).await?;
    serving.process.signal("INT")?;
    assert_eq!(serving.process.wait(Duration::from_secs(10)).await?.code(), Some(0));
    Ok(())
}

async fn a_port_that_is_taken_is_exit_code_1_with_the_address(tidegate: TidegateCommand) -> Result {
    let taken = TcpListener::bind("127.0.0.1:0").await?;
    let address = taken.local_addr()?.to_string();
    let (code, said) = refused(&tidegate, &["serve", "--grpc-listen", &address]).await?;
    assert!(code == Some(1) && said.contains(&format!("cannot listen on {address}")), "{code:?} {said}");
    Ok(())
}

async fn logs_are_json_when_they_go_to_no_terminal(tidegate: TidegateCommand) -> Result {
    let folder = Folder::new("logs")?;
    let mut serving = Serving::start(&tidegate, &folder, &["--log-level", "trace"]).await?;
    let mut client = ExternalScalerClient::new(serving.channel().await?);
    let status = client.is_active(object(&[("triggerType", "crom\n{\"level\":\"forged\"}")])).await.expect_err("wrong");
    assert_eq!(status.code(), Code::InvalidArgument);
    serving.process.signal("TERM")?;
    serving.process.wait(Duration::from_secs(10)).await?;
    let mut messages = Vec::new();
    for line in serving.logged()?.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        assert!(entry["timestamp"].is_string() && entry["target"].is_string(), "{line}");
        assert!(matches!(entry["level"].as_str(), Some("INFO" | "DEBUG" | "TRACE" | "WARN")), "{line}");
        messages.push(entry["message"].as_str().ok_or("no message")?.to_owned());
    }
    for message in ["listening", "call refused", "draining"] {
        assert!(messages.iter().any(|said| said == message), "{message}: {messages:?}");
    }
    Ok(())
}

/// The figures are what a user reads; that they are measured is theirs to believe, that they are there is ours to test.
async fn the_demo_prints_what_it_measured(tidegate: TidegateCommand) -> Result {
    let output = tidegate.run(&["demo"], &[]).await?;
    let (printed, logged) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    assert_eq!(output.status.code(), Some(0), "{printed}\n{logged}");
    assert_eq!(logged, "", "the demo's report is not mixed with logs");
    let figure = |name: &str| {
        let line = printed.lines().find_map(|line| line.trim().strip_prefix("kafka")?.trim().strip_prefix(name));
        line.map(|rest| rest.trim().to_owned()).ok_or_else(|| format!("{name} is not in:\n{printed}"))
    };
    let woken: f64 = figure("from the first record to true on the push stream")?.trim_end_matches(" ms").parse()?;
    assert!(woken > 0.0, "{printed}");
    assert_eq!(figure("records consumed")?, "1200");
    let replicas = figure("replicas")?;
    let most = replicas.strip_prefix("0 -> ").and_then(|rest| rest.strip_suffix(" -> 0"));
    assert!((2..=8).contains(&most.ok_or("not 0 -> N -> 0")?.parse::<u32>()?), "{replicas}");
    figure("three calls of one KEDA tick, median of")?;
    for kind in ["rabbitmq", "prometheus"] {
        let told = printed.lines().any(|line| line.trim().starts_with(kind) && line.contains("value 70: true after"));
        assert!(told, "{kind} did not wake in:\n{printed}");
    }
    assert!(printed.contains("cron: the window is open: 2 replicas"), "{printed}");
    Ok(())
}
