//! Brokers from 2.1 to 4.x.

use super::*;

/// The newest versions of what this client asks, in the order of `apis`.
fn speak(cluster: &ScriptedKafka, newest: [i16; 5]) {
    let apis = [
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::OffsetFetch,
        ApiKey::ListOffsets,
        ApiKey::ShareGroupDescribe,
    ];
    cluster.state().newest = apis.into_iter().map(|api| api as i16).zip(newest).collect();
}

#[tokio::test]
async fn every_version_that_a_broker_may_speak_gives_the_same_answer() {
    // 2.1, 2.4, 2.8, 3.0, 4.1, and each version in between of the API that changed most.
    let mut brokers =
        vec![[7, 2, 5, 4, -1], [9, 3, 6, 5, -1], [11, 3, 7, 6, -1], [11, 4, 8, 7, -1], [13, 6, 10, 11, 1]];
    brokers.extend((2..=10).map(|commits| [12, 4, commits, 7, -1]));
    brokers.extend((2..=10).map(|offsets| [12, 4, 8, offsets, -1]));
    brokers.extend((4..=13).map(|metadata| [metadata, 4, 8, 7, -1]));
    brokers.extend((1..=6).map(|coordinators| [12, coordinators, 8, 7, -1]));
    for newest in brokers {
        let cluster = ScriptedKafka::start(2).await;
        speak(&cluster, newest);
        cluster.topic("orders", &[10, 20]);
        cluster.group("workers", 1, "orders", &[4, -1]);
        cluster.group("others", 1, "orders", &[10, 20]);
        let queries = vec![
            query("workers", &["orders"]),
            query("others", &["orders"]),
            query("workers", &[]),
            query("none", &[]),
        ];
        let outcomes = sample(&mut sampler(&cluster), queries).await;
        let workers = [("orders", 0, Some(4), 10), ("orders", 1, None, 20)];
        assert_eq!(complete(&outcomes[0]), workers, "{newest:?}");
        assert_eq!(complete(&outcomes[1]), [("orders", 0, Some(10), 10), ("orders", 1, Some(20), 20)], "{newest:?}");
        assert_eq!(complete(&outcomes[2]), workers, "{newest:?}");
        assert_eq!(complete(&outcomes[3]), [], "{newest:?}");
    }
}

#[tokio::test]
async fn before_batches_each_group_is_asked_for_alone() {
    let cluster = ScriptedKafka::start(1).await;
    speak(&cluster, [12, 3, 7, 7, -1]);
    cluster.topic("orders", &[10]);
    for group in ["a", "b", "c"] {
        cluster.group(group, 1, "orders", &[10]);
    }
    let queries = ["a", "b", "c"].map(|group| query(group, &["orders"])).to_vec();
    for outcome in sample(&mut sampler(&cluster), queries).await {
        assert_eq!(complete(&outcome), [("orders", 0, Some(10), 10)]);
    }
    assert_eq!(total(&cluster.count(ApiKey::FindCoordinator)), 3);
    assert_eq!(total(&cluster.count(ApiKey::OffsetFetch)), 3);
    assert_eq!(total(&cluster.count(ApiKey::ListOffsets)), 1);
    assert_eq!(cluster.state().connections[&1], 1);
}

#[tokio::test]
async fn a_broker_without_our_requests_is_an_error() {
    let cluster = ScriptedKafka::start(1).await;
    speak(&cluster, [3, 0, 1, 1, -1]);
    let error = failure(one(&mut sampler(&cluster), query("workers", &["orders"])).await);
    assert_eq!(error.to_string(), "source sent a malformed reply: its Kafka version is not one of 2.1 to 4.x");
}
