//! A credential that names its hosts is sent to no other (safety.md, A5): not to a bootstrap server, not to a broker
//! that another advertises, not to a token endpoint.

use futures_util::FutureExt;
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpListener;

use super::*;
use crate::{
    credentials::Credentials,
    kafka::settings::{Login, OAuth},
};

fn login() -> Login {
    Login { username: "user".into(), password: "right".into() }
}

/// A sampler whose credential allows `hosts`.
fn bound(settings: Settings, hosts: &str) -> KafkaSampler {
    let credentials = Credentials::new([("allowedHosts".to_owned(), hosts.to_owned())]);
    let egress = Egress::open().bound_to(Some(&credentials)).expect("it is a list");
    let environment = Environment { egress, ..environment(Limits::default()) };
    KafkaSampler::with_settings(&TenantId::local("tenant-a"), settings, &environment).expect("it is valid")
}

/// Two brokers that ask for a password; the first is the bootstrap server, the second leads the only partition.
async fn cluster() -> (ScriptedKafka, Settings) {
    let cluster = ScriptedKafka::start(2).await;
    cluster.topic("orders", &[10]);
    cluster.group("workers", 1, "orders", &[4]);
    cluster.state().login = Some(("user".into(), "right".into()));
    cluster.state().topics.get_mut("orders").expect("it was made").partitions[0].leader = 2;
    let bootstrap = cluster.bootstrap().into_iter().take(1).collect();
    (cluster, Settings { bootstrap, tls: None, sasl: Sasl::Plain(login()) })
}

#[tokio::test]
async fn a_broker_within_the_list_is_connected_to() {
    let (_cluster, settings) = cluster().await;
    let outcome = one(&mut bound(settings, "127.0.0.1"), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, Some(4), 10)]);
}

#[tokio::test]
async fn a5_a_bootstrap_server_outside_the_list_gets_no_connection() {
    let (cluster, settings) = cluster().await;
    for hosts in ["kafka.example", "127.0.0.1:1", "*.0.example"] {
        let error = failure(one(&mut bound(settings.clone(), hosts), query("workers", &["orders"])).await);
        assert!(matches!(error, SampleError::Refused), "{hosts}: {error:?}");
    }
    assert!(cluster.state().connections.is_empty());
}

#[tokio::test]
async fn a5_an_advertised_broker_outside_the_list_gets_no_connection() {
    let (cluster, settings) = cluster().await;
    // The same broker under a name that the credential does not allow.
    cluster.edit(ApiKey::Metadata, usize::MAX, |reply| {
        let Reply::Metadata(reply) = reply else { panic!("not asked for") };
        reply.brokers[1].host = StrBytes::from_static_str("localhost");
    });
    let mut sampler = bound(settings, "127.0.0.1");
    for _ in 0..3 {
        let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
        assert!(matches!(error, SampleError::Refused), "{error:?}");
    }
    let state = cluster.state();
    assert_eq!(state.connections.keys().copied().collect::<Vec<_>>(), [1]);
    assert!(state.requests.iter().all(|seen| seen.broker == 1));
}

#[tokio::test]
async fn a5_a_token_endpoint_outside_the_list_gets_no_secret() {
    let (cluster, settings) = cluster().await;
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = endpoint.local_addr().unwrap().port();
    for host in ["localhost", "127.0.0.1"] {
        let oauth = OAuth {
            token_endpoint: format!("http://{host}:{port}/token"),
            login: login(),
            scopes: Vec::new(),
            extensions: Vec::new(),
        };
        let broker = settings.bootstrap[0].1;
        let settings = Settings { sasl: Sasl::OAuthBearer(oauth), ..settings.clone() };
        let error =
            failure(one(&mut bound(settings, &format!("127.0.0.1:{broker}")), query("workers", &["orders"])).await);
        assert!(matches!(error, SampleError::Refused), "{host}: {error:?}");
    }
    assert!(endpoint.accept().now_or_never().is_none(), "nobody connected");
    assert!(cluster.state().connections.is_empty());
}
