//! Prometheus triggers: the value of a PromQL expression, asked of anything that has Prometheus' query API.
//!
//! What is asked of a server is a [`Query`]; what comes out is a [`Value`], plain data; what it means for a trigger is its
//! [`Threshold`]'s to say. Nothing but the sampler does I/O.
//!
//! A request is the same as another if endpoint, headers, parameters and expression are: all but the expression and its
//! `namespace` are connection parameters, because they may hold secrets.

mod client;
mod pairs;
mod reply;
mod selector;
mod settings;
mod threshold;
mod trigger;

use std::sync::Arc;

use crate::metadata::Connection;

pub use client::PrometheusSampler;
pub use settings::shown;
pub use threshold::Threshold;
pub use trigger::{CONNECTION_KEYS, KEYS, parse};

/// The parameters that decide how a client asks.
pub type Address = Connection;

/// What is asked of a Prometheus server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The PromQL expression, as the tenant wrote it.
    pub expression: Arc<str>,
    /// `namespace`: a parameter of the request, for servers that enforce one.
    pub namespace: Option<Arc<str>>,
}

/// What a server answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// A finite number; `None` where the server has none: no series, or NaN, or an infinity.
    pub number: Option<f64>,
    /// The time that the server gave with it, in seconds of Unix time.
    pub timestamp: Option<f64>,
}
