//! What the integration tests are made of: a harness, the services they need, and independent clients of those services.

pub mod harness;
pub mod http_count;
pub mod kafka_admin;
pub mod kafka_client;
pub mod recorder;
pub mod rust_source;
pub mod scripted_kafka;
pub mod services;
pub mod tidegate;
pub mod tidegate_process;
pub mod wire_count;

/// Any error; a test needs only its text.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The result of a test, and of what a test calls.
pub type Result<T = (), E = BoxError> = std::result::Result<T, E>;
