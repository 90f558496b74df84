//! How to measure Kafka, RabbitMQ, cron and Prometheus: no gRPC, no Kubernetes.

pub mod clock;
pub mod credentials;
pub mod cron;
pub mod egress;
pub mod http;
pub mod kafka;
pub mod metadata;
pub mod oauth;
pub mod prometheus;
pub mod rabbitmq;
pub mod sampler;
pub mod tenant;
pub mod tls;
pub mod trigger;
