//! Errors that many partitions, groups or queries share.

use std::{fmt, io, sync::Arc};

use crate::{
    sampler::{Cause, SampleError},
    tls::io_failure,
};

/// An error that is copied to everything it concerns.
pub(crate) type Fault = Arc<SampleError>;

/// A cause that many errors share.
#[derive(Debug)]
struct Shared(Fault);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::error::Error::source(&*self.0) {
            Some(cause) => fmt::Display::fmt(cause, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl std::error::Error for Shared {}

/// The error itself, for one of those it concerns.
pub(crate) fn owned(fault: &Fault) -> SampleError {
    let mut error = fault.without_cause();
    if let SampleError::Unauthorized { cause, .. } | SampleError::Tls(_, cause) | SampleError::Unreachable(cause) =
        &mut error
    {
        *cause = Some(Cause::from(Shared(Arc::clone(fault))));
    }
    error
}

/// Whether asking again, with fresh metadata or on a new connection, may help within the same sample.
pub(crate) fn is_passing(fault: &Fault) -> bool {
    matches!(**fault, SampleError::Unreachable(_) | SampleError::NotReady(_) | SampleError::TimedOut)
}

/// The source sent what its protocol does not allow.
pub(crate) fn malformed(what: &'static str) -> Fault {
    Arc::new(SampleError::Malformed(what))
}

/// The source is there, but cannot answer yet.
pub(crate) fn not_ready(what: &'static str) -> Fault {
    Arc::new(SampleError::NotReady(what))
}

/// There is no connection; the cause is for logs.
pub(crate) fn unreachable(cause: impl Into<Cause>) -> Fault {
    Arc::new(SampleError::Unreachable(Some(cause.into())))
}

/// The connection broke; where TLS is the reason, the tenant is told.
pub(crate) fn broken(error: io::Error) -> Fault {
    Arc::new(io_failure(error))
}

/// There was no answer in time.
pub(crate) fn timed_out() -> Fault {
    Arc::new(SampleError::TimedOut)
}
