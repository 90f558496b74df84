//! From a refusal to a gRPC status: one `match`, and a text that is safe in a Kubernetes Event of the tenant's namespace.

use std::error::Error;

use tidegate_connectors::sampler::SampleError;
use tonic::{Code, Status};

use crate::answer::Refusal;

/// The longest text of a status, in characters.
const TEXT_LIMIT: usize = 200;

/// The code of a refusal, as the design's table has it.
pub fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::Trigger(_) | Refusal::MetricName(_) => Code::InvalidArgument,
        Refusal::Limit { .. } => Code::ResourceExhausted,
        Refusal::NotMeasured | Refusal::Stale(_) | Refusal::Draining => Code::Unavailable,
        Refusal::Source { error, .. } => match error.as_ref() {
            SampleError::Unauthorized { .. }
            | SampleError::Misconfigured(_)
            | SampleError::Credential(_)
            | SampleError::NotFound(_)
            | SampleError::Forbidden(_)
            | SampleError::ShareGroup(_)
            | SampleError::NoStatistics
            | SampleError::RefusedQuery(_)
            | SampleError::ManySeries(_)
            | SampleError::NoValue => Code::FailedPrecondition,
            SampleError::OverLimit { .. } => Code::ResourceExhausted,
            SampleError::Refused => Code::PermissionDenied,
            SampleError::Tls(..)
            | SampleError::Unreachable(_)
            | SampleError::NotReady(_)
            | SampleError::TimedOut
            | SampleError::Malformed(_) => Code::Unavailable,
        },
    }
}

/// The status of a refusal. Its cause is not in it.
pub fn status(refusal: &Refusal) -> Status {
    Status::new(code(refusal), printable(&refusal.to_string()))
}

/// The cause of a refusal, for a log: it may hold what a source sent.
pub fn cause(refusal: &Refusal) -> Option<&(dyn Error + 'static)> {
    match refusal {
        Refusal::Source { error, .. } => error.source(),
        _ => None,
    }
}

/// Letters, digits, ASCII signs and spaces stay; all else (line ends, controls, marks that turn the direction of writing)
/// becomes `?`.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    text.chars().take(TEXT_LIMIT).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tidegate_connectors::{credentials::CredentialName, metadata::ParameterError, sampler::Subject};

    use super::*;
    use crate::credentials::CredentialError;

    fn source(error: SampleError) -> Refusal {
        Refusal::Source { error: Arc::new(error), age: None }
    }

    #[track_caller]
    fn check(refusal: &Refusal, code: Code, text: &str) {
        let status = status(refusal);
        assert_eq!((status.code(), status.message()), (code, text));
    }

    #[test]
    fn each_refusal_has_its_code_and_no_cause() {
        use Code::{FailedPrecondition, InvalidArgument, PermissionDenied, ResourceExhausted, Unavailable};
        let topic = || Subject::Topic("orders".into());
        let secret = || Some("password hunter2".into());
        let parameter = || ParameterError::new("lagThreshold", "not a number");
        let name = CredentialName::new("orders").unwrap();
        check(&parameter().into(), InvalidArgument, "lagThreshold: not a number");
        let other = "this trigger publishes the metric kafka-orders and no other";
        check(&Refusal::MetricName("kafka-orders".into()), InvalidArgument, other);
        let missing = source(SampleError::Credential(CredentialError::NotFound(name).to_string()));
        check(&missing, FailedPrecondition, "credential orders not found in this namespace");
        let unauthorized = SampleError::Unauthorized { mechanism: "plaintext", cause: secret() };
        check(&source(unauthorized), FailedPrecondition, "credentials rejected (plaintext)");
        check(&source(SampleError::Misconfigured(parameter())), FailedPrecondition, "lagThreshold: not a number");
        check(&source(SampleError::NotFound(topic())), FailedPrecondition, "topic orders not found");
        check(&source(SampleError::Forbidden(topic())), FailedPrecondition, "not authorised to read topic orders");
        let share = SampleError::ShareGroup(Subject::ConsumerGroup("g".into()));
        let text = "consumer group g is a share group, which has no committed offsets";
        check(&source(share), FailedPrecondition, text);
        let refused = SampleError::RefusedQuery("bad PromQL");
        check(&source(refused), FailedPrecondition, "query refused: bad PromQL");
        check(&source(SampleError::ManySeries(3)), FailedPrecondition, "the query returned 3 series, and not one");
        let no_value = "the query returned no value, and ignoreNullValues is false";
        check(&source(SampleError::NoValue), FailedPrecondition, no_value);
        let over = SampleError::OverLimit { what: "partitions", limit: 10_000 };
        check(&source(over), ResourceExhausted, "partitions over the limit of 10000");
        let limit = Refusal::Limit { what: "triggers", limit: 1000 };
        check(&limit, ResourceExhausted, "triggers is at its limit of 1000");
        check(&source(SampleError::Refused), PermissionDenied, "destination not allowed");
        let tls = SampleError::Tls("certificate expired", secret());
        check(&source(tls), Unavailable, "TLS handshake with the source failed: certificate expired");
        check(&source(SampleError::Unreachable(secret())), Unavailable, "source unreachable");
        check(&source(SampleError::TimedOut), Unavailable, "source timed out");
        let aged = Refusal::Source { error: Arc::new(SampleError::NotReady("x")), age: Some(Duration::from_secs(40)) };
        check(&aged, Unavailable, "source not ready: x; the last sample is 40 s old");
        check(&source(SampleError::Malformed("y")), Unavailable, "source sent a malformed reply: y");
        check(&Refusal::NotMeasured, Unavailable, "not measured yet");
        check(&Refusal::Stale(Duration::from_secs(21)), Unavailable, "the last sample is 21 s old");
        check(&Refusal::Draining, Unavailable, "shutting down");
    }

    #[test]
    fn a_text_is_cut_and_has_no_controls() {
        let hostile = ParameterError::new("k\r\n\u{1b}[31m", "größe \u{202e}\u{200b}".to_owned() + &"x".repeat(300));
        let status = status(&hostile.into());
        assert!(status.message().starts_with("k???[31m: größe ??xxx"), "{}", status.message());
        assert_eq!(status.message().chars().count(), 200);
    }
}
