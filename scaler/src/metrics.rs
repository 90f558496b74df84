//! Every metric of the process, in one place: name, help and labels. No tenant's name is in any of them.
//!
//! Invariants:
//! - Every series exists from the start, so that a call or a poll looks up no label and allocates nothing.
//! - Nothing is global: two servers in one process do not share a metric.

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tidegate_connectors::{
    sampler::{Data, Sample, SampleError},
    trigger::{KINDS, Kind},
};
use tonic::Code;

use crate::store::OnPoll;

const BUILD_INFO: &str = "tidegate_build_info";
const CALLS: &str = "tidegate_calls_total";
const CALL_DURATION: &str = "tidegate_call_duration_seconds";
const TRIGGERS: &str = "tidegate_triggers";
const ENDPOINTS: &str = "tidegate_endpoints";
const POLLS: &str = "tidegate_polls_total";
const POLL_DURATION: &str = "tidegate_poll_duration_seconds";
const READY_ONLY: &str = "tidegate_ready_only_samples_total";
const SAMPLE_AGE: &str = "tidegate_sample_age_seconds";
const STREAMS: &str = "tidegate_streams";

/// Seconds; a call answered from memory takes some 10 µs, one that waits for a first sample up to 2.5 s.
const CALL_BUCKETS: &[f64] = &[
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5,
];
/// Seconds; a batch has 8 s.
const POLL_BUCKETS: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 8.0];
/// Seconds; a sample is fresh for 15 s or three intervals, and held for up to an hour.
const AGE_BUCKETS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 300.0, 600.0, 3600.0];

/// The five calls of KEDA's external scaler contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Is the trigger active now?
    IsActive,
    /// Says when it becomes active.
    StreamIsActive,
    /// Its metric's name and target.
    GetMetricSpec,
    /// The same, as a stream.
    StreamMetricSpec,
    /// Its metric's value.
    GetMetrics,
}

const METHODS: [(Method, &str); 5] = [
    (Method::IsActive, "IsActive"),
    (Method::StreamIsActive, "StreamIsActive"),
    (Method::GetMetricSpec, "GetMetricSpec"),
    (Method::StreamMetricSpec, "StreamMetricSpec"),
    (Method::GetMetrics, "GetMetrics"),
];

/// The codes that the service answers with.
const CODES: [(Code, &str); 9] = [
    (Code::Ok, "OK"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::Internal, "INTERNAL"), // and any other: a fault of ours
];

/// A code as gRPC writes it.
pub fn code_name(code: Code) -> &'static str {
    CODES.iter().find(|row| row.0 == code).unwrap_or(&CODES[CODES.len() - 1]).1
}

/// How one batch of queries of an endpoint went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every query has a complete sample.
    Complete,
    /// Some queries have none, or only a partial one.
    Partial,
    /// No query has a sample.
    Failed,
}

const OUTCOMES: [(Outcome, &str); 3] =
    [(Outcome::Complete, "complete"), (Outcome::Partial, "partial"), (Outcome::Failed, "failed")];

impl Outcome {
    /// Of the answers to one batch.
    pub fn of(answers: &[Result<Sample, SampleError>]) -> Self {
        if answers.iter().all(|answer| matches!(answer, Ok(Sample { missing: None, .. }))) {
            Self::Complete
        } else if answers.iter().any(Result::is_ok) {
            Self::Partial
        } else {
            Self::Failed
        }
    }
}

/// The handles of every metric.
pub struct Metrics {
    recorder: PrometheusRecorder,
    calls: [Calls; METHODS.len()],
    kinds: Vec<(Kind, OfKind)>,
    ready_only: Counter,
    sample_age: Histogram,
    streams: Gauge,
}

struct Calls {
    by_code: [Counter; CODES.len()],
    duration: Histogram,
}

struct OfKind {
    triggers: Gauge,
    endpoints: Gauge,
    polls: [Counter; OUTCOMES.len()],
    poll_duration: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Metrics of their own, all at zero.
    pub fn new() -> Self {
        let registry = Registry(recorder());
        registry.describe();
        registry.gauge(BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))]).set(1.0);
        let calls = METHODS.map(|(_, method)| Calls {
            by_code: CODES.map(|(_, code)| registry.counter(CALLS, &[("method", method), ("code", code)])),
            duration: registry.histogram(CALL_DURATION, &[("method", method)]),
        });
        let of_kind = |kind: Kind| OfKind {
            triggers: registry.gauge(TRIGGERS, &[("kind", kind.name())]),
            endpoints: registry.gauge(ENDPOINTS, &[("kind", kind.name())]),
            polls: OUTCOMES.map(|(_, outcome)| registry.counter(POLLS, &[("kind", kind.name()), ("outcome", outcome)])),
            poll_duration: registry.histogram(POLL_DURATION, &[("kind", kind.name())]),
        };
        Self {
            calls,
            kinds: KINDS.iter().map(|&(_, kind)| (kind, of_kind(kind))).collect(),
            ready_only: registry.counter(READY_ONLY, &[]),
            sample_age: registry.histogram(SAMPLE_AGE, &[]),
            streams: registry.gauge(STREAMS, &[]),
            recorder: registry.0,
        }
    }

    /// One call was answered. A stream counts when it opens, with the code that it opens with.
    pub fn call(&self, method: Method, code: Code, duration: Duration) {
        let calls = &self.calls[METHODS.iter().position(|row| row.0 == method).unwrap_or_default()];
        calls.by_code[CODES.iter().position(|row| row.0 == code).unwrap_or(CODES.len() - 1)].increment(1);
        calls.duration.record(duration);
    }

    /// One batch of queries of an endpoint was sampled.
    pub fn poll(&self, kind: Kind, answers: &[Result<Sample, SampleError>], duration: Duration) {
        let outcome = Outcome::of(answers);
        if let Some(metrics) = self.kind(kind) {
            metrics.polls[OUTCOMES.iter().position(|row| row.0 == outcome).unwrap_or_default()].increment(1);
            metrics.poll_duration.record(duration);
        }
        let ready_only = |answer: &&Result<Sample, SampleError>| matches!(answer, Ok(Sample { data: Data::RabbitMq(queues), .. }) if queues.are_ready_only());
        self.ready_only.increment(answers.iter().filter(ready_only).count() as u64);
    }

    /// What a store tells of its batches, counted here.
    pub fn on_poll(self: &Arc<Self>) -> OnPoll {
        let metrics = Arc::clone(self);
        Arc::new(move |kind, results, took| metrics.poll(kind, results, took))
    }

    /// An answer was given from a sample of this age.
    pub fn sample_age(&self, age: Duration) {
        self.sample_age.record(age);
    }

    /// What there is now of a kind: triggers asked for, endpoints polled.
    pub fn census(&self, kind: Kind, triggers: usize, endpoints: usize) {
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        if let Some(metrics) = self.kind(kind) {
            metrics.triggers.set(count(triggers));
            metrics.endpoints.set(count(endpoints));
        }
    }

    /// A push stream is open for as long as the guard lives.
    pub fn stream(&self) -> OpenStream {
        self.streams.increment(1.0);
        OpenStream(self.streams.clone())
    }

    /// The text exposition format, version 0.0.4.
    pub fn render(&self) -> String {
        self.recorder.handle().render()
    }

    /// Moves what histograms have gathered since the last time to their buckets. Without it they grow until scraped.
    pub fn upkeep(&self) {
        self.recorder.handle().run_upkeep();
    }

    fn kind(&self, kind: Kind) -> Option<&OfKind> {
        self.kinds.iter().find(|row| row.0 == kind).map(|row| &row.1)
    }
}

/// One open push stream, counted until it is dropped.
pub struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

fn recorder() -> PrometheusRecorder {
    let buckets = [(CALL_DURATION, CALL_BUCKETS), (POLL_DURATION, POLL_BUCKETS), (SAMPLE_AGE, AGE_BUCKETS)];
    buckets
        .into_iter()
        .try_fold(PrometheusBuilder::new(), |builder, (name, buckets)| {
            builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets)
        })
        .expect("no list of buckets is empty")
        .build_recorder()
}

/// Where the handles come from.
struct Registry(PrometheusRecorder);

const SOURCE: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Registry {
    fn describe(&self) {
        let name = KeyName::from_const_str;
        let (count, seconds) = (Some(Unit::Count), Some(Unit::Seconds));
        let r = &self.0;
        r.describe_gauge(name(BUILD_INFO), None, "The version that runs; always 1.".into());
        r.describe_counter(name(CALLS), count, "Calls by method and gRPC code; a stream counts when it opens.".into());
        r.describe_histogram(name(CALL_DURATION), seconds, "Time to answer a call, or to open a stream.".into());
        r.describe_gauge(name(TRIGGERS), count, "Triggers that are asked for, by kind.".into());
        r.describe_gauge(name(ENDPOINTS), count, "Endpoints that are polled, by kind.".into());
        r.describe_counter(name(POLLS), count, "Batches of queries sent to endpoints, by kind and outcome.".into());
        r.describe_histogram(name(POLL_DURATION), seconds, "Time to sample one batch of queries.".into());
        let ready_only = "Samples of RabbitMQ queues over AMQP, which tells of ready messages only.";
        r.describe_counter(name(READY_ONLY), count, ready_only.into());
        r.describe_histogram(name(SAMPLE_AGE), seconds, "Age of the sample that an answer was given from.".into());
        r.describe_gauge(name(STREAMS), count, "StreamIsActive and StreamMetricSpec streams that are open.".into());
    }

    fn key(name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
        Key::from_parts(name, labels.iter().map(|&(key, value)| Label::new(key, value)).collect::<Vec<_>>())
    }

    fn counter(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Counter {
        let counter = self.0.register_counter(&Self::key(name, labels), &SOURCE);
        counter.increment(0); // so that the series is there, at zero
        counter
    }

    fn gauge(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Gauge {
        let gauge = self.0.register_gauge(&Self::key(name, labels), &SOURCE);
        gauge.set(0.0);
        gauge
    }

    fn histogram(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Histogram {
        self.0.register_histogram(&Self::key(name, labels), &SOURCE)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_connectors::{
        clock::BootInstant,
        rabbitmq::{Queue, Queues},
    };

    use super::*;

    fn over_amqp() -> Sample {
        let name = "orders".into();
        let (publish_rate, deliver_rate) = (None, None);
        let queue = Queue { name, ready: Some(0), messages: None, publish_rate, deliver_rate, consumers: Some(0) };
        let queues = Queues { queues: vec![queue], matched: false, settles: Duration::ZERO };
        Sample { taken: BootInstant::default(), data: Data::RabbitMq(queues), missing: None }
    }

    #[test]
    fn what_is_counted_is_what_is_shown() {
        let metrics = Metrics::new();
        metrics.call(Method::GetMetrics, Code::Ok, Duration::from_micros(12));
        metrics.call(Method::GetMetrics, Code::DataLoss, Duration::from_secs(3));
        metrics.poll(Kind::RabbitMq, &[Ok(over_amqp()), Err(SampleError::TimedOut)], Duration::from_millis(7));
        metrics.sample_age(Duration::from_secs(2));
        metrics.census(Kind::Cron, 3, 0);
        let stream = metrics.stream();
        let text = metrics.render();
        for line in [
            concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "tidegate_calls_total{method=\"GetMetrics\",code=\"OK\"} 1",
            "tidegate_calls_total{method=\"GetMetrics\",code=\"INTERNAL\"} 1",
            "tidegate_calls_total{method=\"IsActive\",code=\"OK\"} 0",
            "tidegate_call_duration_seconds_bucket{method=\"GetMetrics\",le=\"0.00001\"} 0",
            "tidegate_call_duration_seconds_bucket{method=\"GetMetrics\",le=\"0.000025\"} 1",
            "tidegate_call_duration_seconds_count{method=\"GetMetrics\"} 2",
            "tidegate_polls_total{kind=\"rabbitmq\",outcome=\"partial\"} 1",
            "tidegate_poll_duration_seconds_bucket{kind=\"rabbitmq\",le=\"0.01\"} 1",
            "tidegate_ready_only_samples_total 1",
            "tidegate_sample_age_seconds_bucket{le=\"2.5\"} 1",
            "tidegate_triggers{kind=\"cron\"} 3",
            "tidegate_streams 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "no line {line} in\n{text}");
        }
        drop(stream);
        assert!(metrics.render().lines().any(|line| line == "tidegate_streams 0"));
    }

    /// The rules of `promtool check metrics`: a help text for each; `_total` on counters and on nothing else; base units;
    /// no type in a name.
    #[test]
    fn names_follow_the_rules_of_prometheus() {
        let metrics = Metrics::new();
        for (method, _) in METHODS {
            metrics.call(method, Code::Ok, Duration::ZERO);
        }
        metrics.poll(Kind::Kafka, &[], Duration::ZERO);
        metrics.sample_age(Duration::ZERO);
        let text = metrics.render();
        let types: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(types.len(), 10, "{types:?}");
        for row in types {
            let (name, kind) = row.split_once(' ').unwrap();
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert_eq!(name.ends_with("_seconds"), kind == "histogram", "{name}");
            assert!(name.starts_with("tidegate_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            assert!(!["milli", "micro", "gauge", "counter", "histogram", "summary"].iter().any(|w| name.contains(w)));
        }
    }
}
