//! Cron triggers: a window of time.

use std::time::SystemTime;

use crate::{
    metadata::{ParameterError, Parameters},
    trigger::Spec,
};

/// The keys of a cron trigger.
pub const KEYS: &[&str] = &["timezone", "start", "end", "desiredReplicas"];

/// A window of time, open from each start to the next end.
#[derive(Clone, Debug)]
pub struct Window {}

/// What a window is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowState {
    /// Whether the last start is later than the last end; a tie is open.
    pub open: bool,
    /// The next moment at which `open` changes; `None` if it never does.
    pub changes: Option<SystemTime>,
}

impl Window {
    /// The replicas asked for while the window is open.
    pub fn desired_replicas(&self) -> i64 {
        unimplemented!()
    }

    /// What the window is at `now`.
    pub fn at(&self, _now: SystemTime) -> WindowState {
        unimplemented!()
    }
}

/// Reads the parameters of a cron trigger.
pub fn parse(_parameters: Parameters<'_>) -> Result<Spec, ParameterError> {
    unimplemented!()
}
