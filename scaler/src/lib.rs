//! When to measure, what to answer: everything of Tidegate that is not a connector.

pub mod activations;
pub mod answer;
mod backoff;
pub mod connect;
pub mod credentials;
mod registry;
pub mod scaler;
mod store;
pub mod tenants;
pub mod time;
pub mod trigger;
pub mod verdict;
