//! Measures each trigger of an object once, as `serve` would.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tidegate_connectors::{
    clock::{Clock, SystemClock},
    cron::Window,
    egress::Egress,
    metadata::Metadata,
    sampler::{Endpoint, Environment, Limits, Reading, Sample, SampleError, Sampler},
    tenant::TenantId,
    trigger::{self as spec, KINDS, Kind},
};
use tokio::time::timeout;

use super::{
    Measured, Problem, Report,
    file::{Object, Trigger as Written},
};
use crate::{
    answer::Refusal,
    connect::{Client, Connect, Connectors},
    credentials::Provider,
    metrics::code_name,
    service,
    trigger::{PollBounds, Polled, Source, Trigger},
};

/// The whole sample of one trigger, as in `serve`.
const DEADLINE: Duration = Duration::from_secs(8);

/// Measures every trigger of `objects`.
pub async fn measure(objects: Vec<Object>, credentials: &Arc<dyn Provider>) -> Vec<Report> {
    let environment = Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() };
    let mut session =
        Session { credentials: credentials.clone(), connectors: Connectors { environment }, clients: HashMap::new() };
    let mut reports = Vec::new();
    for object in &objects {
        for (index, written) in object.triggers.iter().enumerate() {
            reports.push(session.report(object, index, written).await);
        }
    }
    reports
}

/// The clients of one run, one an endpoint.
struct Session {
    credentials: Arc<dyn Provider>,
    connectors: Connectors,
    clients: HashMap<Endpoint, Client>,
}

impl Session {
    async fn report(&mut self, object: &Object, index: usize, written: &Written) -> Report {
        let metadata = metadata(written);
        let trigger = parse(object, written, &metadata);
        let source = match &trigger {
            Ok(Trigger { source: Source::Polled(polled), .. }) => polled.endpoint.address.shown(),
            Ok(Trigger { source: Source::Cron(_), .. }) => "clock".to_owned(),
            Err(_) => String::new(),
        };
        let result = match trigger {
            Ok(trigger) => self.measured(object, trigger).await.map_err(|refusal| problem(&refusal)),
            Err(problem) => Err(problem),
        };
        Report {
            file: object.file.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            trigger: index,
            trigger_type: metadata.get("triggerType").unwrap_or(&written.kind).clone(),
            source,
            result,
        }
    }

    async fn measured(&mut self, object: &Object, trigger: Trigger) -> Result<Measured, Refusal> {
        let (value, active, detail) = match &trigger.source {
            Source::Cron(window) => cron(window),
            Source::Polled(polled) => {
                let sample = self.sample(polled).await.map_err(Arc::new).map_err(source)?;
                if let Some(missing) = &sample.missing {
                    return Err(source(missing.clone()));
                }
                let reading = polled.threshold.reading(&sample).map_err(Arc::new).map_err(source)?;
                (reading.value, reading.active, polled.threshold.detail(&sample))
            }
        };
        let target = trigger.metric.target;
        let replicas = replicas(object, value, target, active);
        Ok(Measured { metric_name: trigger.metric.metric_name, target, value, active, replicas, detail })
    }

    async fn sample(&mut self, polled: &Polled) -> Result<Sample, SampleError> {
        let endpoint = &polled.endpoint;
        if !self.clients.contains_key(endpoint) {
            let credentials = match &endpoint.credentials {
                None => None,
                Some(name) => {
                    let content = self.credentials.get(&endpoint.tenant, name).await;
                    Some(content.map_err(|error| SampleError::Credential(error.to_string()))?)
                }
            };
            let client = self.connectors.connect(endpoint, credentials.as_deref())?;
            self.clients.insert(endpoint.clone(), client);
        }
        let client = self.clients.get_mut(endpoint).expect("inserted above");
        let sampled = timeout(DEADLINE, client.sample(std::slice::from_ref(&polled.query))).await;
        let mut results = sampled.map_err(|_elapsed| SampleError::TimedOut)?;
        results.pop().unwrap_or(Err(SampleError::TimedOut))
    }
}

fn cron(window: &Window) -> (f64, bool, Vec<spec::Detail>) {
    let now = SystemClock.wall();
    let Reading { value, active } = window.reading(window.at(now));
    (value, active, vec![spec::window_detail(window, now)])
}

/// What KEDA would send; `authenticationRef` of a built-in trigger is read as `credentialsRef`.
fn metadata(written: &Written) -> BTreeMap<String, String> {
    let mut metadata = written.resolved();
    if let Some(reference) = written.authentication_ref.as_ref().filter(|_| !is_external(written)) {
        metadata.entry("credentialsRef".to_owned()).or_insert_with(|| reference.name.clone());
    }
    metadata
}

fn is_external(written: &Written) -> bool {
    matches!(written.kind.as_str(), "external" | "external-push")
}

fn parse(object: &Object, written: &Written, metadata: &BTreeMap<String, String>) -> Result<Trigger, Problem> {
    let tenant = TenantId::local(&object.namespace);
    let metadata = Metadata::new(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let bounds = PollBounds::default();
    let parsed = if is_external(written) {
        Trigger::parse(&tenant, &metadata, bounds)
    } else {
        let kind = match written.kind.as_str() {
            "apache-kafka" => Some(Kind::Kafka),
            name => KINDS.iter().find(|(word, _)| *word == name).map(|(_, kind)| *kind),
        };
        let Some(kind) = kind else {
            let message = "not a type of trigger that Tidegate measures".to_owned();
            return Err(Problem { code: "INVALID_ARGUMENT", message });
        };
        Trigger::parse_as(kind, &tenant, &metadata, bounds)
    };
    parsed.map_err(|error| problem(&error.into()))
}

fn source(error: Arc<SampleError>) -> Refusal {
    Refusal::Source { error, age: None }
}

fn problem(refusal: &Refusal) -> Problem {
    Problem { code: code_name(service::code(refusal)), message: refusal.to_string() }
}

/// What the HPA would ask for with `metricType: AverageValue`, within the object's bounds; the replicas of a sleeping
/// object while it is not active.
fn replicas(object: &Object, value: f64, target: f64, active: bool) -> u64 {
    let (least, most) = object.replicas;
    if !active {
        return object.asleep;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    let wanted = (value / target).ceil() as u64;
    wanted.clamp(least, most.max(least))
}
