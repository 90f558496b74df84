//! From an endpoint to its sampler: the one place that knows every kind of client.

use std::sync::Arc;

use tidegate_connectors::{
    credentials::Credentials,
    kafka::KafkaSampler,
    prometheus::PrometheusSampler,
    rabbitmq::RabbitMqSampler,
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
    /// Of a virtual host of a RabbitMQ cluster.
    RabbitMq(Box<RabbitMqSampler>),
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
            Address::RabbitMq(address) => RabbitMqSampler::new(&endpoint.tenant, address, credentials, environment)
                .map(|client| Client::RabbitMq(Box::new(client))),
            Address::Prometheus(address) => PrometheusSampler::new(&endpoint.tenant, address, credentials, environment)
                .map(|client| Client::Prometheus(Box::new(client))),
        }
    }
}

impl Sampler for Client {
    async fn sample(&mut self, queries: &[Arc<Query>]) -> Vec<Result<Sample, SampleError>> {
        match self {
            Self::Kafka(client) => client.sample(queries).await,
            Self::RabbitMq(client) => client.sample(queries).await,
            Self::Prometheus(client) => client.sample(queries).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_connectors::{
        clock::SystemClock, credentials::CredentialName, egress::Egress, metadata::Metadata, sampler::Limits,
        tenant::TenantId,
    };

    use super::*;
    use crate::trigger::{PollBounds, Source, Trigger};

    /// What becomes of a session whose credential says that it may be sent to `hosts`.
    fn connected(hosts: &str) -> Result<Client, SampleError> {
        let metadata = [
            ("triggerType", "kafka"),
            ("bootstrapServers", "kafka.example:9092"),
            ("consumerGroup", "g"),
            ("credentialsRef", "kafka"),
        ];
        let tenant = TenantId::local("team-a");
        let trigger = Trigger::parse(&tenant, &Metadata::new(metadata), PollBounds::default()).unwrap();
        let Source::Polled(polled) = trigger.source else { panic!("it is measured") };
        assert_eq!(polled.endpoint.credentials, CredentialName::new("kafka"));
        let environment =
            Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() };
        let credentials = Credentials::new([("allowedHosts".to_owned(), hosts.to_owned())]);
        Connectors { environment }.connect(&polled.endpoint, Some(&credentials))
    }

    #[test]
    fn a5_a_list_of_hosts_that_cannot_be_read_allows_nothing() {
        assert!(connected("kafka.example, *.kafka.example:9092").is_ok());
        for hosts in ["", " \n", "https://kafka.example", "*", "kafka.example,"] {
            let error = connected(hosts).err().expect(hosts);
            assert!(matches!(error, SampleError::Misconfigured(_)), "{hosts}");
            assert!(error.to_string().starts_with("allowedHosts: must be a list of"), "{error}");
        }
    }
}
