//! A source that says what a test tells it, and remembers what it was asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use tidegate_connectors::{
    clock::{BootInstant, Clock, TokioClock},
    credentials::{CredentialName, Credentials},
    kafka::{History, Offsets, PartitionOffsets},
    sampler::{Data, Endpoint, Query, Sample, SampleError, Sampler},
    tenant::TenantId,
};
use tokio::time::{Instant, sleep};

use super::{Scaler, Settings};
use crate::{
    answer::Reference,
    connect::Connect,
    credentials::{Content, CredentialError, Provider},
};

/// What the source answers to a query of one group.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// One partition with this lag.
    Lag(i64),
    /// One partition with this lag, and another that could not be read.
    Partial(i64),
    Unreachable,
    Rejected,
    NotFound,
    /// Nothing, ever.
    Hangs,
}

#[derive(Default)]
pub struct Script {
    pub says: HashMap<String, Says>,
    /// Every batch: when, whose, and the groups.
    pub batches: Vec<(Instant, TenantId, Vec<String>)>,
    /// Every session: the password it was opened with.
    pub sessions: Vec<Option<String>>,
}

#[derive(Clone)]
pub struct Source {
    pub script: Arc<Mutex<Script>>,
    pub clock: TokioClock,
}

pub struct ScriptedSampler {
    source: Source,
    tenant: TenantId,
}

impl Source {
    pub fn new() -> Self {
        let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        Self { script: Arc::default(), clock }
    }

    pub fn say(&self, group: &str, says: Says) {
        self.script.lock().unwrap().says.insert(group.to_owned(), says);
    }

    pub fn batches(&self) -> Vec<(Instant, TenantId, Vec<String>)> {
        self.script.lock().unwrap().batches.clone()
    }

    pub fn sessions(&self) -> Vec<Option<String>> {
        self.script.lock().unwrap().sessions.clone()
    }

    pub fn scaler(&self) -> Arc<Scaler<Self>> {
        self.scaler_with(Arc::new(crate::credentials::NoCredentials), Settings::default())
    }

    pub fn scaler_with(&self, credentials: Arc<dyn Provider>, settings: Settings) -> Arc<Scaler<Self>> {
        let clock = Arc::new(self.clock.clone());
        Arc::new(Scaler::new(self.clone(), credentials, clock, settings, Arc::new(|_, _, _| {})))
    }
}

impl Connect for Source {
    type Sampler = ScriptedSampler;

    fn connect(&self, endpoint: &Endpoint, credentials: Option<&Credentials>) -> Result<ScriptedSampler, SampleError> {
        let password = credentials.and_then(|c| c.get("password")).map(|p| {
            use secrecy::ExposeSecret;
            p.expose_secret().to_owned()
        });
        self.script.lock().unwrap().sessions.push(password);
        Ok(ScriptedSampler { source: self.clone(), tenant: endpoint.tenant.clone() })
    }
}

impl Sampler for ScriptedSampler {
    async fn sample(&mut self, queries: &[Arc<Query>]) -> Vec<Result<Sample, SampleError>> {
        let taken = self.source.clock.boot();
        let groups: Vec<_> = queries
            .iter()
            .map(|query| {
                let Query::Kafka(query) = &**query else { panic!("only Kafka's queries are scripted") };
                query.group.to_string()
            })
            .collect();
        let answers: Vec<_> = {
            let mut script = self.source.script.lock().unwrap();
            script.batches.push((Instant::now(), self.tenant.clone(), groups.clone()));
            groups.iter().map(|group| script.says.get(group).copied().unwrap_or(Says::Lag(0))).collect()
        };
        sleep(Duration::from_millis(5)).await;
        if answers.iter().any(|says| matches!(says, Says::Hangs)) {
            std::future::pending::<()>().await;
        }
        answers.into_iter().map(|says| answer(says, taken)).collect()
    }
}

fn answer(says: Says, taken: BootInstant) -> Result<Sample, SampleError> {
    match says {
        Says::Lag(lag) => Ok(sample(lag, taken, None)),
        Says::Partial(lag) => Ok(sample(lag, taken, Some(SampleError::NotReady("leader moved")))),
        Says::Unreachable => Err(SampleError::Unreachable(None)),
        Says::Rejected => Err(SampleError::Unauthorized { mechanism: "plaintext", cause: None }),
        Says::NotFound => Err(SampleError::NotFound(tidegate_connectors::sampler::Subject::Topic("orders".into()))),
        Says::Hangs => Err(SampleError::TimedOut),
    }
}

fn sample(lag: i64, taken: BootInstant, missing: Option<SampleError>) -> Sample {
    let partition = PartitionOffsets {
        topic: "orders".into(),
        topic_id: None,
        partition: 0,
        committed: Some(100),
        log_start: 0,
        log_end: 100 + lag,
        history: History::starting(100 + lag, taken),
    };
    let offsets = Offsets::new(vec![partition], missing.is_none());
    Sample { taken, data: Data::Kafka(offsets), missing: missing.map(Arc::new) }
}

/// One trigger, as a test names it.
#[derive(Clone)]
pub struct Named {
    pub tenant: TenantId,
    pub name: String,
    pub metadata: HashMap<String, String>,
}

impl Named {
    /// A Kafka trigger on `group`, at the endpoint that every such trigger of the tenant shares.
    pub fn kafka(tenant: &str, group: &str, more: &[(&str, &str)]) -> Self {
        let mut metadata: HashMap<_, _> = [
            ("triggerType", "kafka"),
            ("bootstrapServers", "kafka.example:9092"),
            ("topic", "orders"),
            ("allowIdleConsumers", "true"),
            ("consumerGroup", group),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        metadata.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        Self { tenant: TenantId::local(tenant), name: "worker".to_owned(), metadata }
    }

    pub fn reference(&self) -> Reference<'_> {
        Reference { tenant: &self.tenant, name: &self.name, metadata: &self.metadata }
    }
}

/// Credentials that a test changes.
#[derive(Debug, Default)]
pub struct Vault {
    content: Mutex<HashMap<(TenantId, CredentialName), Arc<Credentials>>>,
}

impl Vault {
    pub fn put(&self, tenant: &str, name: &str, password: &str) {
        let credentials = Credentials::new([("password".to_owned(), password.to_owned())]);
        let key = (TenantId::local(tenant), CredentialName::new(name).unwrap());
        self.content.lock().unwrap().insert(key, Arc::new(credentials));
    }

    pub fn clear(&self) {
        self.content.lock().unwrap().clear();
    }
}

impl Provider for Vault {
    fn get<'a>(&'a self, tenant: &'a TenantId, name: &'a CredentialName) -> BoxFuture<'a, Content> {
        let found = self.content.lock().unwrap().get(&(tenant.clone(), name.clone())).cloned();
        Box::pin(async { found.ok_or_else(|| CredentialError::NotFound(name.clone())) })
    }
}
