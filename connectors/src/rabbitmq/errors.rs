//! What lapin's errors mean. Their texts came from the broker: they are causes, for logs.

use std::sync::Arc;

use lapin::{Error, ErrorKind, protocol::AMQPError};

use crate::{
    sampler::{SampleError, Subject},
    tls,
};

/// Reply codes (AMQP 0-9-1, and RabbitMQ's use of them).
mod code {
    /// `ACCESS_REFUSED`.
    pub(super) const ACCESS_REFUSED: u16 = 403;
    /// `NOT_FOUND`.
    pub(super) const NOT_FOUND: u16 = 404;
    /// `RESOURCE_LOCKED`: an exclusive queue of another connection.
    pub(super) const RESOURCE_LOCKED: u16 = 405;
    /// `COMMAND_INVALID`: before the connection is open, an authentication mechanism that the broker does not have.
    pub(super) const COMMAND_INVALID: u16 = 503;
    /// `NOT_ALLOWED`: no such virtual host, no access to it, or too many connections.
    pub(super) const NOT_ALLOWED: u16 = 530;
    /// `INTERNAL_ERROR`: among others, a virtual host that is down.
    pub(super) const INTERNAL_ERROR: u16 = 541;
}

/// Why the broker did not open the connection. `mechanism` is how we authenticate.
pub(super) fn opening(error: Error, vhost: &str, mechanism: &'static str) -> SampleError {
    let vhost = || Subject::VirtualHost(Arc::from(vhost));
    let Some(sent) = sent(&error) else { return broken(error) };
    match sent.get_id() {
        code::ACCESS_REFUSED | code::COMMAND_INVALID => {
            SampleError::Unauthorized { mechanism, cause: Some(error.into()) }
        }
        code::NOT_ALLOWED if says(sent, "not found") => SampleError::NotFound(vhost()),
        code::NOT_ALLOWED if says(sent, "limit") => SampleError::NotReady("the broker limits connections"),
        code::NOT_ALLOWED => SampleError::Forbidden(vhost()),
        code::INTERNAL_ERROR if says(sent, "down") => SampleError::NotReady("the virtual host is down"),
        _ => SampleError::Unreachable(Some(error.into())),
    }
}

/// Why a queue could not be declared.
pub(super) fn declaring(error: Error, queue: &Arc<str>) -> SampleError {
    let queue = || Subject::Queue(Arc::clone(queue));
    match sent(&error).map(AMQPError::get_id) {
        Some(code::NOT_FOUND) => SampleError::NotFound(queue()),
        Some(code::ACCESS_REFUSED) => SampleError::Forbidden(queue()),
        Some(code::RESOURCE_LOCKED) => SampleError::NotReady("the queue is exclusive to another connection"),
        _ => broken(error),
    }
}

/// The error that the broker sent, if it sent one.
fn sent(error: &Error) -> Option<&AMQPError> {
    match error.kind() {
        ErrorKind::ProtocolError(sent) => Some(sent),
        _ => None,
    }
}

fn says(sent: &AMQPError, words: &str) -> bool {
    sent.get_message().as_str().contains(words)
}

/// The connection is of no use any more.
pub(super) fn broken(error: Error) -> SampleError {
    match error.kind() {
        ErrorKind::IOError(io) => match tls::failure(io.as_ref()) {
            Some(reason) => SampleError::Tls(reason, Some(error.into())),
            None => SampleError::Unreachable(Some(error.into())),
        },
        ErrorKind::ParsingError(_) => SampleError::Malformed("it is not AMQP 0-9-1"),
        _ => SampleError::Unreachable(Some(error.into())),
    }
}
