//! Prints reports: a table for people, a stable JSON array for programs.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Problem, Report};

const HEADER: [&str; 9] = ["OBJECT", "TRIGGER", "TYPE", "SOURCE", "METRIC", "VALUE", "TARGET", "ACTIVE", "REPLICAS"];

/// One row a trigger, its detail below it.
pub fn table(reports: &[Report], out: &mut (dyn Write + Send)) -> io::Result<()> {
    let rows: Vec<_> = reports.iter().map(row).collect();
    let mut widths = HEADER.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    line(out, &HEADER.map(str::to_owned), widths)?;
    for (report, row) in reports.iter().zip(&rows) {
        line(out, row, widths)?;
        match &report.result {
            Ok(measured) => {
                for detail in &measured.detail {
                    let facts: Vec<_> = detail.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
                    writeln!(out, "    {}", facts.join(" "))?;
                }
            }
            Err(Problem { code, message }) => writeln!(out, "    {code}: {message}")?,
        }
    }
    Ok(())
}

fn row(report: &Report) -> [String; 9] {
    let object = format!("{}/{}", report.namespace, report.name);
    let (metric, value, target, active, replicas) = match &report.result {
        Ok(measured) => (
            measured.metric_name.clone(),
            measured.value.to_string(),
            measured.target.to_string(),
            if measured.active { "yes" } else { "no" }.to_owned(),
            measured.replicas.to_string(),
        ),
        Err(_) => ("-".into(), "-".into(), "-".into(), "error".into(), "-".into()),
    };
    let trigger = report.trigger.to_string();
    let source = if report.source.is_empty() { "-".to_owned() } else { report.source.clone() };
    [object, trigger, report.trigger_type.clone(), source, metric, value, target, active, replicas]
}

fn line(out: &mut (dyn Write + Send), cells: &[String; 9], widths: [usize; 9]) -> io::Result<()> {
    let padded: Vec<_> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    writeln!(out, "{}", padded.join("  ").trim_end())
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains(' ') => format!("\"{text}\""),
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// An array of one object a trigger; a trigger that failed has an `error` and nulls for what is not known.
pub fn json(reports: &[Report], out: &mut (dyn Write + Send)) -> io::Result<()> {
    let objects: Vec<_> = reports.iter().map(object).collect();
    serde_json::to_writer_pretty(&mut *out, &objects)?;
    writeln!(out)
}

fn object(report: &Report) -> Value {
    let measured = report.result.as_ref().ok();
    let error = report.result.as_ref().err();
    let detail = |lines: &Vec<_>| lines.iter().map(detail_object).collect::<Vec<_>>();
    json!({
        "file": report.file,
        "kind": report.kind,
        "namespace": report.namespace,
        "name": report.name,
        "trigger": report.trigger,
        "triggerType": report.trigger_type,
        "source": report.source,
        "metricName": measured.map(|m| &m.metric_name),
        "target": measured.map(|m| m.target),
        "value": measured.map(|m| m.value),
        "active": measured.map(|m| m.active),
        "replicas": measured.map(|m| m.replicas),
        "error": error.map(|problem| json!({ "code": problem.code, "message": problem.message })),
        "detail": measured.map(|m| detail(&m.detail)).unwrap_or_default(),
    })
}

fn detail_object(line: &Vec<(&'static str, Value)>) -> Map<String, Value> {
    line.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}
