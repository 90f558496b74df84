//! What a request says before any of it is believed: who calls, for whom, about what, and for how long.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use tidegate_connectors::{credentials::is_dns_label, metadata::ParameterError, tenant::TenantId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Extensions, Status, metadata::MetadataMap};
use tracing::debug;

use super::refused;
use crate::answer::{Reference, Refusal};

/// Keys of one trigger's metadata.
const KEYS_LIMIT: usize = 64;
/// Bytes of a key.
const KEY_LIMIT: usize = 128;
/// Bytes of a value: as much as a credential's file may have, since `FromEnv` values may be PEM chains. All of them
/// together are bounded by the size of a request.
const VALUE_LIMIT: usize = 64 * 1024;
/// Bytes of a DNS-1123 subdomain.
const NAME_LIMIT: usize = 253;

/// Who calls.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The cluster that the caller speaks for.
    cluster: Arc<str>,
}

impl Caller {
    /// A caller without a certificate.
    pub fn local() -> Self {
        Self { cluster: "local".into() }
    }

    /// The tenant that the caller means. Whoever has no certificate may speak for every namespace of its own cluster.
    fn tenant(&self, namespace: &str) -> TenantId {
        TenantId { cluster: Arc::clone(&self.cluster), namespace: namespace.into() }
    }
}

/// The connection of a request, as the listener puts it into the request's extensions.
#[derive(Clone)]
pub struct Connection {
    caller: Caller,
    /// Cancelled when the streams of this connection must end.
    pub(crate) ends: CancellationToken,
    streams: Arc<watch::Sender<usize>>,
}

impl Connection {
    /// A connection without open streams.
    pub fn new(caller: Caller, ends: CancellationToken) -> Self {
        Self { caller, ends, streams: Arc::default() }
    }

    /// A stream of this connection, which counts as open until its end, an OK, is on its way to the client.
    ///
    /// tonic drops a stream that has no more items, and only then makes an OK. So the OK is the last item here.
    pub fn stream<T: Send + 'static>(
        &self,
        messages: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> BoxStream<'static, Result<T, Status>> {
        self.streams.send_modify(|open| *open += 1);
        let open = OpenStream(Arc::clone(&self.streams));
        let end = stream::once(std::future::ready(Err(Status::ok(""))));
        messages.chain(end).inspect(move |_| _ = &open).boxed()
    }

    /// Waits until no stream is open.
    pub async fn streams_ended(&self) {
        // An error would mean that the sender is gone, and we hold it.
        let _ = self.streams.subscribe().wait_for(|open| *open == 0).await;
    }
}

/// One open stream of a connection.
struct OpenStream(Arc<watch::Sender<usize>>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// The connection of a request, and with it who calls. The one place that tells.
pub fn identify(extensions: &Extensions) -> Result<&Connection, Status> {
    extensions.get().ok_or_else(|| Status::unauthenticated("caller unknown"))
}

/// A checked request about one trigger.
pub struct Asked<'a> {
    /// How it came.
    pub connection: &'a Connection,
    tenant: TenantId,
    name: &'a str,
    metadata: &'a HashMap<String, String>,
}

impl<'a> Asked<'a> {
    /// Checks the names and the sizes. The texts repeat nothing but a key of acceptable length.
    pub fn new(
        extensions: &'a Extensions,
        namespace: &str,
        name: &'a str,
        metadata: &'a HashMap<String, String>,
    ) -> Result<Self, Status> {
        check(namespace, name, metadata).map_err(|wrong| refused::status(&Refusal::Trigger(wrong)))?;
        let connection = identify(extensions)?;
        Ok(Self { connection, tenant: connection.caller.tenant(namespace), name, metadata })
    }

    /// What the core is asked about.
    pub fn reference(&self) -> Reference<'_> {
        Reference { tenant: &self.tenant, name: self.name, metadata: self.metadata }
    }

    /// The status of a refusal. The cause goes to the log, and only there.
    pub fn refuse(&self, refusal: &Refusal) -> Status {
        let status = refused::status(refusal);
        debug!(
            tenant = %self.tenant,
            name = self.name,
            code = ?status.code(),
            error = status.message(),
            cause = refused::cause(refusal),
            "call refused"
        );
        status
    }
}

fn check(namespace: &str, name: &str, metadata: &HashMap<String, String>) -> Result<(), ParameterError> {
    let wrong = |key: &'static str, problem: &'static str| Err(ParameterError::new(key, problem));
    if !is_dns_label(namespace) {
        return wrong("namespace", "not a DNS-1123 label of at most 63 characters");
    }
    if name.len() > NAME_LIMIT || !name.split('.').all(is_subdomain_part) {
        return wrong("name", "not a DNS-1123 subdomain of at most 253 characters");
    }
    if metadata.len() > KEYS_LIMIT {
        return wrong("metadata", "more than 64 keys");
    }
    if metadata.keys().any(|key| key.len() > KEY_LIMIT) {
        return wrong("metadata", "a key of more than 128 bytes");
    }
    // The first in order, so that the text stays the same from call to call.
    let too_long = metadata.iter().filter(|(_, value)| value.len() > VALUE_LIMIT).map(|(key, _)| key).min();
    too_long.map_or(Ok(()), |key| Err(ParameterError::new(key.clone(), "more than 64 KiB")))
}

/// As Kubernetes has it, a part of a subdomain has no limit of its own.
fn is_subdomain_part(part: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

/// The time that the client gives the call (`grpc-timeout`); `None` where it does not say, or nothing that can be read.
pub fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let amount: u32 =
        digits.parse().ok().filter(|_| digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_digit()))?;
    let unit = match unit {
        "H" => Duration::from_secs(3600),
        "M" => Duration::from_secs(60),
        "S" => Duration::from_secs(1),
        "m" => Duration::from_millis(1),
        "u" => Duration::from_micros(1),
        "n" => Duration::from_nanos(1),
        _ => return None,
    };
    Some(unit * amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_1123_and_length_comes_first() {
        let long = "a".repeat(63);
        let huge = "a".repeat(1 << 20);
        let subdomain = format!("{long}.{long}.{long}.{}", "b".repeat(61)); // 253
        let ok = |namespace: &str, name: &str| check(namespace, name, &HashMap::new()).is_ok();
        for (namespace, name) in [("team-a", "orders"), (long.as_str(), subdomain.as_str()), ("0", "a.b-c.0")] {
            assert!(ok(namespace, name), "{namespace} {name}");
        }
        let one_more = format!("{subdomain}b");
        for name in ["", ".", "a.", "-a", "a-", "A", "a/b", "a\n", "a b", "аdmin", "a..b", &one_more, &huge] {
            assert!(!ok("team-a", name), "{name:.40}");
        }
        for namespace in ["", "a.b", "-a", "a-", "A", "../x", "a\n", &"a".repeat(64), &huge] {
            assert!(!ok(namespace, "orders"), "{namespace:.40}");
        }
    }

    #[test]
    fn metadata_has_bounds() {
        let metadata = |keys: usize, key: usize, value: usize| -> HashMap<_, _> {
            (0..keys).map(|i| (format!("{i:0>key$}"), "v".repeat(value))).collect()
        };
        let check = |metadata| check("team-a", "orders", &metadata).map_err(|error| error.to_string());
        assert_eq!(check(metadata(64, 128, 1)), Ok(()));
        assert_eq!(check(metadata(1, 5, 64 * 1024)), Ok(()));
        assert_eq!(check(metadata(65, 5, 1)), Err("metadata: more than 64 keys".into()));
        assert_eq!(check(metadata(1, 129, 1)), Err("metadata: a key of more than 128 bytes".into()));
        assert_eq!(check(metadata(1, 5, 64 * 1024 + 1)), Err("00000: more than 64 KiB".into()));
    }

    #[test]
    fn a_deadline_is_read_as_grpc_writes_it() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            deadline(&metadata)
        };
        for (text, expected) in [("3H", 10_800_000), ("1M", 60_000), ("42S", 42_000), ("13m", 13)] {
            assert_eq!(read(text), Some(Duration::from_millis(expected)), "{text}");
        }
        assert_eq!(read("2u"), Some(Duration::from_micros(2)));
        assert_eq!(read("82n"), Some(Duration::from_nanos(82)));
        for text in ["", "S", "82f", "123456789H", "oneH", "-1S", "+1S"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(deadline(&MetadataMap::new()), None);
    }
}
