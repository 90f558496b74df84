//! When to measure, what to answer: everything of Tidegate that is not a connector.

pub mod activations;
pub mod answer;
mod backoff;
pub mod check;
pub mod cli;
pub mod config;
pub mod connect;
pub mod credentials;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(test)]
mod docs;
pub mod http;
pub mod logs;
pub mod metrics;
mod registry;
pub mod scaler;
pub mod server;
pub mod service;
mod store;
pub mod tenants;
pub mod time;
pub mod trigger;
pub mod verdict;
