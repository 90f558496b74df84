use std::collections::HashSet;

use super::*;
use crate::{
    clock::SystemClock,
    egress::Egress,
    metadata::Metadata,
    sampler::{Address as AnyAddress, Limits},
    trigger::{self, Kind, Source},
};

mod replies;
mod requests;
mod server;

use server::{Answer, Request, Server, reply, value};

const CREDENTIAL: &[(&str, &str)] = &[];

fn credentials(content: &[(&str, &str)]) -> Credentials {
    Credentials::new(content.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())))
}

fn query(expression: &str) -> Arc<AnyQuery> {
    Arc::new(AnyQuery::Prometheus(Query { expression: expression.into(), namespace: None }))
}

fn environment() -> Environment {
    Environment { clock: Arc::new(SystemClock), egress: Egress::open(), limits: Limits::default() }
}

/// A trigger on `server`, parsed: its client, its query, its threshold.
fn trigger(
    server: &Server,
    changes: &[(&str, &str)],
    credential: &[(&str, &str)],
) -> (PrometheusSampler, Arc<AnyQuery>, trigger::Threshold) {
    let url = server.url();
    let base = [("serverAddress", url.as_str()), ("threshold", "10"), ("query", "sum(queue_depth)")];
    let kept = base.into_iter().filter(|(key, _)| !changes.iter().any(|(changed, _)| changed == key));
    let metadata = Metadata::new(kept.chain(changes.iter().copied()));
    let spec = trigger::parse(Kind::Prometheus, &metadata, !credential.is_empty()).unwrap();
    let Source::Measured { address: AnyAddress::Prometheus(address), query, threshold } = spec.source else {
        panic!("a Prometheus trigger")
    };
    let credentials = (!credential.is_empty()).then(|| credentials(credential));
    let tenant = TenantId::local("team-a");
    let client = PrometheusSampler::new(&tenant, &address, credentials.as_ref(), &environment()).unwrap();
    (client, Arc::new(query), threshold)
}

/// The value and activity that a trigger reads, whether its sample is partial, or its error's text.
async fn read(
    server: &Server,
    changes: &[(&str, &str)],
    credential: &[(&str, &str)],
) -> Result<(f64, bool, bool), String> {
    let (mut client, query, threshold) = trigger(server, changes, credential);
    let sample = client.sample(&[query]).await.remove(0).map_err(shown)?;
    let reading = threshold.reading(&sample).map_err(shown)?;
    Ok((reading.value, reading.active, sample.missing.is_some()))
}

/// An error's text, which never holds a secret or what the server sent.
#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of a result's error")]
fn shown(error: SampleError) -> String {
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(error.to_string().len() <= 200);
    error.to_string()
}
