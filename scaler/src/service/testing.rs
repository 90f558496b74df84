//! A core that does what the metadata of a trigger says, and tells what it was asked.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tidegate_connectors::{metadata::ParameterError, sampler::SampleError, tenant::TenantId, trigger::Kind};
use tidegate_proto::externalscaler::ScaledObjectRef;
use tokio::sync::watch;

use super::core::{Activations, Core};
use crate::{
    answer::{MetricSpec, Reference, Refusal, Verdict},
    metrics::Metrics,
};

/// The scripted core. `topic` is required and names the metric; `target` (5) and `value` (0) are what they say; `answer`
/// is `gate` (waits for [`Scripted::open_gate`]), `never`, or `unreachable`; `active: true` starts a stream with `true`.
#[derive(Clone, Default)]
pub struct Scripted {
    /// How often a stream was told to send `true`.
    activations: Arc<watch::Sender<u64>>,
    /// Push streams that are open.
    pub watchers: Arc<watch::Sender<usize>>,
    /// How often streams asked for the next activation.
    pub asked_next: Arc<watch::Sender<usize>>,
    /// Verdicts that were asked for.
    pub verdicts: Arc<watch::Sender<usize>>,
    gate: Arc<watch::Sender<bool>>,
    /// Whether every call is one too many.
    pub too_many: Arc<watch::Sender<bool>>,
    /// Whether it was shut down.
    pub ended: Arc<watch::Sender<bool>>,
}

impl Scripted {
    /// Every open stream has a reason to send `true`.
    pub fn activate(&self) {
        self.activations.send_modify(|n| *n += 1);
    }

    /// Answers those who wait at the gate.
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }
}

/// Waits until a count is what it must become.
pub async fn until<T: PartialEq + Copy>(count: &watch::Sender<T>, expected: T) {
    count.subscribe().wait_for(|n| *n == expected).await.unwrap();
}

/// A reference as KEDA sends it.
pub fn object(metadata: &[(&str, &str)]) -> ScaledObjectRef {
    let metadata = metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    ScaledObjectRef { name: "orders".into(), namespace: "team-a".into(), scaler_metadata: metadata.collect() }
}

fn number(metadata: &HashMap<String, String>, key: &str, default: f64) -> f64 {
    metadata.get(key).map_or(default, |value| value.parse().unwrap())
}

impl Core for Scripted {
    type Activations = ScriptedActivations;

    fn admit(&self, _tenant: &TenantId) -> Result<(), Refusal> {
        if *self.too_many.borrow() { Err(Refusal::Limit { what: "calls", limit: 7 }) } else { Ok(()) }
    }

    fn spec(&self, reference: Reference<'_>) -> Result<MetricSpec, Refusal> {
        let topic = reference.metadata.get("topic").filter(|topic| !topic.is_empty());
        let topic = topic.ok_or_else(|| ParameterError::new("topic", "missing required parameter"))?;
        let target = number(reference.metadata, "target", 5.0);
        Ok(MetricSpec { metric_name: format!("kafka-{topic}"), target })
    }

    async fn verdict(&self, reference: Reference<'_>) -> Result<Verdict, Refusal> {
        self.verdicts.send_modify(|n| *n += 1);
        match reference.metadata.get("answer").map(String::as_str) {
            Some("never") => std::future::pending().await,
            Some("gate") => until(&self.gate, true).await,
            Some("unreachable") => {
                let error = Arc::new(SampleError::Unreachable(Some("10.0.0.7: hunter2".into())));
                return Err(Refusal::Source { error, age: None });
            }
            _ => {}
        }
        let value = number(reference.metadata, "value", 0.0);
        Ok(Verdict { active: value > 0.0, value, age: Some(Duration::from_secs(2)) })
    }

    fn watch(&self, reference: Reference<'_>) -> Result<Self::Activations, Refusal> {
        self.spec(reference)?;
        let mut seen = self.activations.subscribe();
        if reference.metadata.get("active").is_some_and(|active| active == "true") {
            seen.mark_changed();
        }
        self.watchers.send_modify(|n| *n += 1);
        Ok(ScriptedActivations { seen, core: self.clone() })
    }

    fn census(&self, metrics: &Metrics) {
        metrics.census(Kind::Kafka, 42, 7);
    }

    async fn shut_down(&self) {
        self.ended.send_replace(true);
    }
}

pub struct ScriptedActivations {
    seen: watch::Receiver<u64>,
    core: Scripted,
}

impl Activations for ScriptedActivations {
    async fn next(&mut self) {
        self.core.asked_next.send_modify(|n| *n += 1);
        self.seen.changed().await.unwrap();
    }
}

impl Drop for ScriptedActivations {
    fn drop(&mut self) {
        self.core.watchers.send_modify(|n| *n -= 1);
    }
}
