//! When to measure, what to answer: everything of Tidegate that is not a connector.

pub mod answer;
pub mod credentials;
pub mod http;
pub mod metrics;
pub mod scaler;
pub mod server;
pub mod service;
