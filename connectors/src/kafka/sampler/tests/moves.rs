//! Coordinators and leaders that move, and brokers that go.

use super::*;

async fn cluster() -> ScriptedKafka {
    let cluster = ScriptedKafka::start(2).await;
    cluster.topic("orders", &[50, 50]);
    cluster.group("workers", 1, "orders", &[40, 50]);
    cluster
}

const RIGHT: [(&str, i32, Option<i64>, i64); 2] = [("orders", 0, Some(40), 50), ("orders", 1, Some(50), 50)];

/// The error is met once, and the value is right in the same sample.
async fn check(api: ApiKey, edit: impl Fn(&mut Reply) + Send + Sync + 'static) {
    let cluster = cluster().await;
    cluster.edit(api, 1, edit);
    let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), RIGHT);
    assert!(total(&cluster.count(api)) > 1, "{api:?} was asked again");
}

#[tokio::test]
async fn b11_a_group_error_is_met_by_finding_the_coordinator_again() {
    for code in [14, 15, 16] {
        check(ApiKey::OffsetFetch, move |reply| {
            let Reply::OffsetFetch(reply) = reply else { unreachable!() };
            reply.groups[0].error_code = code;
            reply.groups[0].topics.clear();
        })
        .await;
        check(ApiKey::OffsetFetch, move |reply| {
            let Reply::OffsetFetch(reply) = reply else { unreachable!() };
            reply.groups[0].topics[0].partitions[0].error_code = code;
            reply.groups[0].topics[0].partitions[0].committed_offset = -1;
        })
        .await;
        check(ApiKey::FindCoordinator, move |reply| {
            let Reply::FindCoordinator(reply) = reply else { unreachable!() };
            reply.coordinators[0].error_code = code;
        })
        .await;
    }
}

#[tokio::test]
async fn b11_a_coordinator_that_moves_is_followed() {
    let cluster = cluster().await;
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    cluster.state().groups.get_mut("workers").unwrap().coordinator = 2;
    assert_eq!(complete(&one(&mut sampler, query("workers", &["orders"])).await), RIGHT);
}

#[tokio::test]
async fn b12_a_coordinator_that_loads_is_an_error_never_no_commit() {
    let cluster = cluster().await;
    cluster.edit(ApiKey::OffsetFetch, 100, |reply| {
        let Reply::OffsetFetch(reply) = reply else { unreachable!() };
        reply.groups[0].error_code = 14;
    });
    let mut sampler = sampler(&cluster);
    let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
    assert!(matches!(error, SampleError::NotReady(_)), "{error}");
    let attempts = total(&cluster.count(ApiKey::OffsetFetch));
    assert!((2..=6).contains(&attempts), "{attempts} attempts");
}

#[tokio::test]
async fn a_partition_error_is_met_by_refreshing_the_metadata() {
    for code in [3, 5, 6, 9, 74, 75, 56] {
        check(ApiKey::ListOffsets, move |reply| {
            let Reply::ListOffsets(reply) = reply else { unreachable!() };
            reply.topics[0].partitions[0].error_code = code;
            reply.topics[0].partitions[0].offset = -1;
        })
        .await;
    }
}

#[tokio::test]
async fn a_leader_that_is_being_elected_is_waited_for() {
    check(ApiKey::Metadata, |reply| {
        let Reply::Metadata(reply) = reply else { unreachable!() };
        reply.topics[0].error_code = 5;
        reply.topics[0].partitions.clear();
    })
    .await;
    check(ApiKey::Metadata, |reply| {
        let Reply::Metadata(reply) = reply else { unreachable!() };
        reply.topics[0].partitions[1].error_code = 5;
        reply.topics[0].partitions[1].leader_id = (-1).into();
    })
    .await;
    check(ApiKey::Metadata, |reply| {
        let Reply::Metadata(reply) = reply else { unreachable!() };
        reply.topics[0].partitions[1].leader_id = 77.into();
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_moves_is_followed() {
    let cluster = cluster().await;
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    {
        let mut state = cluster.state();
        let partition = &mut state.topics.get_mut("orders").unwrap().partitions[0];
        partition.leader = 2;
        partition.epoch = 1;
    }
    assert_eq!(complete(&one(&mut sampler, query("workers", &["orders"])).await), RIGHT);
}

#[tokio::test]
async fn a_connection_that_closes_is_opened_again() {
    for api in [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::ListOffsets] {
        let cluster = cluster().await;
        cluster.script(api, 1, Act::Close);
        let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
        assert_eq!(complete(&outcome), RIGHT, "{api:?}");
    }
}

#[tokio::test]
async fn a_dead_bootstrap_server_is_passed_over() {
    let cluster = cluster().await;
    let dead = ScriptedKafka::start(1).await.bootstrap();
    let bootstrap = [dead, cluster.bootstrap()].concat();
    for _ in 0..4 {
        let settings = Settings { bootstrap: bootstrap.clone(), ..settings(&cluster) };
        let outcome = one(&mut with(settings, Limits::default()), query("workers", &["orders"])).await;
        assert_eq!(complete(&outcome), RIGHT);
    }
}

#[tokio::test]
async fn b32_a_broker_that_refuses_is_left_alone_for_a_while() {
    let cluster = cluster().await;
    cluster.script_on(2, ApiKey::ApiVersions, usize::MAX, Act::Close);
    let bootstrap = cluster.bootstrap()[1..].to_vec();
    let mut sampler = with(Settings { bootstrap, ..settings(&cluster) }, Limits::default());
    for _ in 0..3 {
        let queries = (0..50).map(|n| query(&format!("group-{n}"), &["orders"])).collect();
        for outcome in sample(&mut sampler, queries).await {
            assert!(matches!(failure(outcome), SampleError::Unreachable(Some(_))));
        }
    }
    let attempts = cluster.state().connections[&2];
    assert!((2..=8).contains(&attempts), "{attempts} attempts");
}

#[tokio::test]
async fn a_dropped_sample_leaves_the_sampler_usable() {
    for api in [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::ListOffsets] {
        let cluster = cluster().await;
        let mut sampler = sampler(&cluster);
        cluster.script(api, 1, Act::Silence);
        let queries = [Arc::new(AnyQuery::Kafka(query("workers", &["orders"])))];
        let asked = tokio::time::timeout(Duration::from_millis(200), sampler.sample(&queries)).await;
        assert!(asked.is_err(), "it waits for {api:?}");
        let outcome = one(&mut sampler, query("workers", &["orders"])).await;
        assert_eq!(complete(&outcome), RIGHT, "after {api:?}");
    }
}
