//! Brokers that send what they should not (safety.md 8): each is a value, and the service lives on.

use super::*;

async fn cluster() -> ScriptedKafka {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[50, 50]);
    cluster.group("workers", 1, "orders", &[40, 40]);
    cluster
}

/// The error of a sample in which every answer to `api` is met with `act`; the next sample is right.
async fn check(api: ApiKey, act: Act) -> SampleError {
    let cluster = cluster().await;
    cluster.script(api, 5, act);
    let mut sampler = impatient(&cluster);
    let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
    let state = cluster.count(api);
    assert!(total(&state) <= 5, "attempts are bounded");
    error
}

const ASKED: [ApiKey; 4] = [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::ListOffsets];

#[tokio::test]
async fn bytes_that_are_no_reply() {
    for api in ASKED {
        for body in [vec![], vec![0; 3], vec![0xff; 64], vec![0x7f; 64], vec![0; 64], vec![0x80; 4096]] {
            let error = check(api, Act::Body(body.clone())).await;
            assert!(matches!(error, SampleError::Malformed(_)), "{api:?} {body:?}: {error}");
        }
        let error = check(api, Act::WrongCorrelation).await;
        assert!(matches!(error, SampleError::Malformed(_)), "{api:?}: {error}");
    }
}

#[tokio::test]
async fn a_frame_that_is_too_large_or_negative_is_not_waited_for() {
    for size in [100_000_000_u32, u32::MAX, i32::MAX as u32, 3] {
        let error = check(ApiKey::Metadata, Act::Raw(size.to_be_bytes().to_vec())).await;
        assert!(matches!(error, SampleError::Malformed(_)), "{size}: {error}");
    }
}

#[tokio::test]
async fn a_frame_that_never_ends_is_not_waited_for() {
    let error = check(ApiKey::Metadata, Act::Raw(vec![0, 0x40, 0, 0, 1])).await;
    assert!(matches!(error, SampleError::TimedOut), "{error}");
    let error = check(ApiKey::OffsetFetch, Act::Silence).await;
    assert!(matches!(error, SampleError::TimedOut), "{error}");
}

#[tokio::test]
async fn a_reply_to_no_request_ends_the_connection() {
    let cluster = cluster().await;
    cluster.script(ApiKey::Metadata, 1, Act::Twice);
    let mut sampler = sampler(&cluster);
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    // Whether the second copy is read before the next request is a race; neither way is it taken for an answer.
    match outcome {
        Ok(_) => assert_eq!(complete(&outcome).len(), 2),
        Err(error) => assert!(matches!(error, SampleError::Malformed(_) | SampleError::Unreachable(_)), "{error}"),
    }
    assert_eq!(complete(&one(&mut sampler, query("workers", &["orders"])).await).len(), 2);
}

#[tokio::test]
async fn arrays_longer_than_their_reply() {
    // Metadata 12: header tags, throttle time, then 2^32 - 2 brokers; OffsetFetch 8 likewise with groups.
    let body = [&[0][..], &[0; 4], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
    for api in [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch, ApiKey::ListOffsets] {
        assert!(matches!(check(api, Act::Body(body.clone())).await, SampleError::Malformed(_)), "{api:?}");
    }
}

type Edit = fn(&mut Reply);

fn metadata(reply: &mut Reply) -> &mut kafka_protocol::messages::MetadataResponse {
    let Reply::Metadata(reply) = reply else { unreachable!() };
    reply
}

#[tokio::test]
async fn metadata_that_cannot_be() {
    let rows: [(Edit, &str); 6] = [
        (|reply| metadata(reply).topics[0].partitions[0].partition_index = -1, "partitions that are not numbered"),
        (|reply| metadata(reply).topics[0].partitions[1].partition_index = 0, "partitions that are not numbered"),
        (|reply| metadata(reply).topics[0].partitions[1].partition_index = 7, "partitions that are not numbered"),
        (|reply| metadata(reply).topics[0].partitions.clear(), "partitions that are not numbered"),
        (|reply| metadata(reply).topics.clear(), "a topic is missing"),
        (
            |reply| {
                let twice = metadata(reply).topics[0].clone();
                metadata(reply).topics.push(twice);
            },
            "a topic that appears twice",
        ),
    ];
    for (edit, text) in rows {
        let error = check(ApiKey::Metadata, Act::Edit(Arc::new(edit))).await;
        assert!(matches!(error, SampleError::Malformed(_)) && error.to_string().contains(text), "{text}: {error}");
    }
}

#[tokio::test]
async fn more_than_a_limit_allows() {
    let brokers: Edit = |reply| {
        let brokers = &mut metadata(reply).brokers;
        *brokers = vec![brokers[0].clone(); 10_000];
    };
    let error = check(ApiKey::Metadata, Act::Edit(Arc::new(brokers))).await;
    assert_eq!(error.to_string(), "brokers over the limit of 256");

    let partitions: Edit = |reply| {
        let partitions = &mut metadata(reply).topics[0].partitions;
        *partitions = vec![partitions[0].clone(); 10_001];
        (0..).zip(partitions).for_each(|(number, partition)| partition.partition_index = number);
    };
    let error = check(ApiKey::Metadata, Act::Edit(Arc::new(partitions))).await;
    assert_eq!(error.to_string(), "partitions over the limit of 10000");

    let cluster = cluster().await;
    let names: Vec<_> = (0..65).map(|n| format!("topic-{n}")).collect();
    let topics: Vec<_> = names.iter().map(String::as_str).collect();
    let error = failure(one(&mut sampler(&cluster), query("workers", &topics)).await);
    assert_eq!(error.to_string(), "topics over the limit of 64");
    for name in &names {
        cluster.group("workers", 1, name, &[1]);
    }
    let error = failure(one(&mut sampler(&cluster), query("workers", &[])).await);
    assert_eq!(error.to_string(), "topics over the limit of 64");
}

#[tokio::test]
async fn offsets_that_cannot_be() {
    for offset in [-1, -2, i64::MIN] {
        let error = check(
            ApiKey::ListOffsets,
            Act::Edit(Arc::new(move |reply| {
                let Reply::ListOffsets(reply) = reply else { unreachable!() };
                reply.topics[0].partitions.iter_mut().for_each(|partition| partition.offset = offset);
            })),
        )
        .await;
        assert!(matches!(error, SampleError::Malformed("a negative offset")), "{offset}: {error}");
    }
    let error = check(
        ApiKey::OffsetFetch,
        Act::Edit(Arc::new(|reply| {
            let Reply::OffsetFetch(reply) = reply else { unreachable!() };
            reply.groups[0].topics[0].partitions.iter_mut().for_each(|partition| partition.committed_offset = -2);
        })),
    )
    .await;
    assert!(matches!(error, SampleError::Malformed("a negative offset")), "{error}");
}

#[tokio::test]
async fn the_largest_offset_is_one() {
    let cluster = cluster().await;
    cluster.state().topics.get_mut("orders").unwrap().partitions[0].end = i64::MAX;
    let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome)[0], ("orders", 0, Some(40), i64::MAX));
}

#[tokio::test]
async fn partitions_that_appear_twice_or_were_not_asked_for() {
    let twice = check(
        ApiKey::ListOffsets,
        Act::Edit(Arc::new(|reply| {
            let Reply::ListOffsets(reply) = reply else { unreachable!() };
            let topic = reply.topics[0].clone();
            reply.topics.push(topic);
        })),
    )
    .await;
    assert!(matches!(twice, SampleError::Malformed("a partition that appears twice")), "{twice}");

    let cluster = cluster().await;
    cluster.edit(ApiKey::OffsetFetch, 1, |reply| {
        let Reply::OffsetFetch(reply) = reply else { unreachable!() };
        let topic = &mut reply.groups[0].topics[0];
        let mut more = topic.partitions[0].clone();
        more.partition_index = 12;
        topic.partitions.push(more);
        let mut other = topic.clone();
        other.name.0 = kafka_protocol::protocol::StrBytes::from_static_str("other");
        reply.groups[0].topics.push(other);
    });
    let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, Some(40), 50), ("orders", 1, Some(40), 50)]);
}

#[tokio::test]
async fn a_coordinator_without_an_address() {
    for (host, port) in [("", 9092), ("127.0.0.1", 0), ("127.0.0.1", -1), ("127.0.0.1", 65_536)] {
        let error = check(
            ApiKey::FindCoordinator,
            Act::Edit(Arc::new(move |reply| {
                let Reply::FindCoordinator(reply) = reply else { unreachable!() };
                reply.coordinators[0].host = kafka_protocol::protocol::StrBytes::from_static_str(host);
                reply.coordinators[0].port = port;
            })),
        )
        .await;
        assert!(matches!(error, SampleError::Malformed(_)), "{host}:{port}: {error}");
    }
}
