//! The services that the integration tests need.

pub mod scripted_kafka;
