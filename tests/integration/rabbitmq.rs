//! RabbitMQ triggers on a real node.

mod lengths;
mod outages;
mod refusals;
mod scale;
mod service;

use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use tidegate_connectors::clock::SystemClock;
use tidegate_connectors::credentials::Credentials;
use tidegate_connectors::egress::Egress;
use tidegate_connectors::metadata::Metadata;
use tidegate_connectors::rabbitmq::{Queue, RabbitMqSampler};
use tidegate_connectors::sampler::{
    Address, Data, Environment, Limits, Query, Reading, Sample, SampleError, Sampler as _,
};
use tidegate_connectors::tenant::TenantId;
use tidegate_connectors::trigger::{self, Kind, Source, Threshold};
use tidegate_tests::Result;
use tidegate_tests::harness::step;
use tokio::time::{Instant, sleep};

/// How long what RabbitMQ's statistics and its connections' ends may take to show; a test waits no longer.
const EVENTUALLY: Duration = Duration::from_secs(30);

type Pairs<'a> = &'a [(&'a str, &'a str)];
type Outcome = Result<Sample, SampleError>;

pub fn trials() -> Vec<Trial> {
    let trials = [lengths::trials(), outages::trials(), refusals::trials(), scale::trials(), service::trials()];
    trials.into_iter().flatten().collect()
}

/// Triggers of one endpoint, as the scaler has them: parsed metadata and one sampler.
struct Triggers {
    sampler: RabbitMqSampler,
    parsed: Vec<(Arc<Query>, Threshold)>,
}

impl Triggers {
    /// The triggers that differ from `common` as `each` says.
    fn new(common: Pairs<'_>, each: &[Pairs<'_>]) -> Result<Self> {
        Self::with_credential(common, each, None)
    }

    fn with_credential(common: Pairs<'_>, each: &[Pairs<'_>], credential: Option<Pairs<'_>>) -> Result<Self> {
        let mut address = None;
        let mut parsed = Vec::new();
        for more in each {
            let metadata = Metadata::new(common.iter().chain(*more).copied());
            let spec = trigger::parse(Kind::RabbitMq, &metadata, credential.is_some())?;
            let Source::Measured { address: Address::RabbitMq(of), query, threshold } = spec.source else {
                return Err("no RabbitMQ trigger".into());
            };
            assert!(address.is_none_or(|before| before == of), "they are of one endpoint");
            address = Some(of);
            parsed.push((Arc::new(query), threshold));
        }
        let environment =
            Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() };
        let credential =
            credential.map(|pairs| Credentials::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))));
        let address = address.ok_or("no triggers")?;
        let sampler = RabbitMqSampler::new(&TenantId::local("team-a"), &address, credential.as_ref(), &environment)?;
        Ok(Self { sampler, parsed })
    }

    async fn samples(&mut self) -> Vec<Outcome> {
        let queries: Vec<_> = self.parsed.iter().map(|(query, _)| Arc::clone(query)).collect();
        self.sampler.sample(&queries).await
    }

    async fn readings(&mut self) -> Vec<Result<Reading, SampleError>> {
        let samples = self.samples().await;
        let thresholds = self.parsed.iter().map(|(_, threshold)| threshold);
        samples.into_iter().zip(thresholds).map(|(sample, threshold)| threshold.reading(&sample?)).collect()
    }

    /// What all triggers read, as value and activity.
    async fn values(&mut self) -> Result<Vec<(f64, bool)>> {
        let readings = self.readings().await.into_iter();
        readings.map(|reading| Ok(reading.map(|reading| (reading.value, reading.active))?)).collect()
    }

    /// Measures until the triggers read `expected`: statistics and quorum queues show a change some seconds later.
    async fn until(&mut self, expected: &[(f64, bool)]) -> Result {
        step(format!("wait for {expected:?}"));
        let until = Instant::now() + EVENTUALLY;
        loop {
            let values = self.values().await;
            if values.as_ref().is_ok_and(|values| values == expected) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{values:?} instead of {expected:?}").into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// The texts of the errors that all triggers get.
    async fn errors(&mut self) -> Vec<String> {
        let text = |outcome: Outcome| outcome.map_or_else(|error| error.to_string(), |sample| format!("{sample:?}"));
        self.samples().await.into_iter().map(text).collect()
    }
}

fn queues(outcome: &Outcome) -> &[Queue] {
    match outcome {
        Ok(Sample { data: Data::RabbitMq(queues), .. }) => &queues.queues,
        other => panic!("{other:?}"),
    }
}
