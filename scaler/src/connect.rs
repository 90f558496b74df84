//! From an endpoint to its sampler: the one place that knows every kind of client.

use std::sync::Arc;

use tidegate_connectors::{
    credentials::Credentials,
    kafka::KafkaSampler,
    prometheus::PrometheusSampler,
    sampler::{Address, Endpoint, Environment, Query, Sample, SampleError, Sampler},
};

/// Makes the samplers of endpoints.
pub trait Connect: Send + Sync + 'static {
    /// What it makes.
    type Sampler: Sampler;

    /// A sampler that connects when it is first asked.
    fn connect(&self, endpoint: &Endpoint, credentials: Option<&Credentials>) -> Result<Self::Sampler, SampleError>;
}

/// Makes the real clients.
pub struct Connectors {
    /// What they all need.
    pub environment: Environment,
}

/// A client of any kind.
pub enum Client {
    /// Of a Kafka cluster.
    Kafka(Box<KafkaSampler>),
    /// Of a server with Prometheus' query API.
    Prometheus(Box<PrometheusSampler>),
}

impl Connect for Connectors {
    type Sampler = Client;

    fn connect(&self, endpoint: &Endpoint, credentials: Option<&Credentials>) -> Result<Client, SampleError> {
        let egress = self.environment.egress.bound_to(credentials).map_err(SampleError::Misconfigured)?;
        let environment = &Environment { egress, ..self.environment.clone() };
        match &endpoint.address {
            Address::Kafka(address) => KafkaSampler::new(&endpoint.tenant, address, credentials, environment)
                .map(|client| Client::Kafka(Box::new(client))),
            Address::Prometheus(address) => PrometheusSampler::new(&endpoint.tenant, address, credentials, environment)
                .map(|client| Client::Prometheus(Box::new(client))),
        }
    }
}

impl Sampler for Client {
    async fn sample(&mut self, queries: &[Arc<Query>]) -> Vec<Result<Sample, SampleError>> {
        match self {
            Self::Kafka(client) => client.sample(queries).await,
            Self::Prometheus(client) => client.sample(queries).await,
        }
    }
}
