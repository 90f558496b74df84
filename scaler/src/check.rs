//! `tidegate check`: measures the triggers of ScaledObject and ScaledJob files once, and explains each.

mod file;
mod measure;
mod report;
#[cfg(test)]
mod tests;

use std::{io::Write, path::PathBuf, process::ExitCode, sync::Arc};

use tidegate_connectors::trigger::Detail;

use crate::credentials::Provider;

/// What to check, and how to say it.
#[derive(Clone, Debug)]
pub struct Options {
    /// YAML files, each of one or more documents.
    pub files: Vec<PathBuf>,
    /// How to print.
    pub output: Output,
    /// The namespace of objects that name none.
    pub namespace: String,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs: a JSON array of one object a trigger.
    Json,
}

/// What is known of one trigger.
#[derive(Clone, Debug)]
struct Report {
    file: String,
    kind: String,
    namespace: String,
    name: String,
    /// The trigger's place in `spec.triggers`, from 0.
    trigger: usize,
    trigger_type: String,
    /// Where it is measured, for people: no secret, no user name.
    source: String,
    result: Result<Measured, Problem>,
}

/// A trigger that was measured.
#[derive(Clone, Debug)]
struct Measured {
    metric_name: String,
    target: f64,
    value: f64,
    active: bool,
    /// What the HPA would ask for.
    replicas: u64,
    detail: Vec<Detail>,
}

/// Why a trigger has no value: the gRPC code that KEDA would get, and the text.
#[derive(Clone, Debug)]
struct Problem {
    code: &'static str,
    message: String,
}

/// Exit code 0 if every trigger was measured, 1 if one failed, 2 if a file could not be read.
pub async fn run(options: &Options, credentials: Arc<dyn Provider>, out: &mut (dyn Write + Send)) -> ExitCode {
    let mut reports = Vec::new();
    let mut unreadable = false;
    for path in &options.files {
        match file::read(path, &options.namespace) {
            Ok(objects) => reports.extend(measure::measure(objects, &credentials).await),
            Err(problem) => {
                eprintln!("error: {}: {problem}", path.display());
                unreadable = true;
            }
        }
    }
    let printed = match options.output {
        Output::Table => report::table(&reports, out),
        Output::Json => report::json(&reports, out),
    };
    let failed = printed.is_err() || reports.iter().any(|report| report.result.is_err());
    ExitCode::from(if unreadable { 2 } else { u8::from(failed) })
}
