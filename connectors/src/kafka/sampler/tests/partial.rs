//! What is missing is said to be missing, and only to those it concerns.

use super::*;

async fn cluster() -> ScriptedKafka {
    let cluster = ScriptedKafka::start(2).await;
    cluster.topic("orders", &[50, 50]);
    cluster.topic("mails", &[9]);
    cluster.group("workers", 1, "orders", &[40, 40]);
    cluster.group("workers", 1, "mails", &[9]);
    cluster
}

#[tokio::test]
async fn b13_an_unstable_commit_is_not_a_missing_one() {
    let cluster = cluster().await;
    cluster.edit(ApiKey::OffsetFetch, 100, |reply| {
        let Reply::OffsetFetch(reply) = reply else { unreachable!() };
        reply.groups[0].topics[0].partitions[0].error_code = 88;
        reply.groups[0].topics[0].partitions[0].committed_offset = -1;
    });
    let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
    let (seen, missing) = incomplete(&outcome);
    assert_eq!(seen, [("orders", 1, Some(40), 50)]);
    assert_eq!(missing, "source not ready: a commit is part of a transaction that is not over");
}

#[tokio::test]
async fn a_partition_missing_from_a_reply_is_an_error() {
    let cluster = cluster().await;
    cluster.edit(ApiKey::OffsetFetch, 1, |reply| {
        let Reply::OffsetFetch(reply) = reply else { unreachable!() };
        reply.groups[0].topics[0].partitions.remove(0);
    });
    let mut sampler = sampler(&cluster);
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(incomplete(&outcome).0, [("orders", 1, Some(40), 50)]);
    cluster.edit(ApiKey::ListOffsets, 1, |reply| {
        let Reply::ListOffsets(reply) = reply else { unreachable!() };
        reply.topics.clear();
    });
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(incomplete(&outcome).0.len(), 1);
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome).len(), 2);
}

#[tokio::test]
async fn a_topic_that_is_missing_makes_the_sample_partial() {
    let cluster = cluster().await;
    let outcome = one(&mut sampler(&cluster), query("workers", &["mails", "nowhere"])).await;
    let (seen, missing) = incomplete(&outcome);
    assert_eq!(seen, [("mails", 0, Some(9), 9)]);
    assert_eq!(missing, "topic nowhere not found");
}

#[tokio::test]
async fn b30_what_is_denied_is_named() {
    let cluster = cluster().await;
    cluster.edit(ApiKey::Metadata, 1, |reply| {
        let Reply::Metadata(reply) = reply else { unreachable!() };
        reply.topics[0].error_code = 29;
    });
    let error = failure(one(&mut sampler(&cluster), query("workers", &["orders"])).await);
    assert_eq!(error.to_string(), "not authorised to read topic orders");

    for api in [ApiKey::FindCoordinator, ApiKey::OffsetFetch] {
        cluster.edit(api, 1, |reply| match reply {
            Reply::FindCoordinator(reply) => reply.coordinators[0].error_code = 30,
            Reply::OffsetFetch(reply) => reply.groups[0].error_code = 30,
            _ => unreachable!(),
        });
        let error = failure(one(&mut sampler(&cluster), query("workers", &["orders"])).await);
        assert_eq!(error.to_string(), "not authorised to read consumer group workers");
    }
}

#[tokio::test]
async fn a_topic_of_the_group_is_not_named() {
    let cluster = cluster().await;
    cluster.edit(ApiKey::Metadata, 1, |reply| {
        let Reply::Metadata(reply) = reply else { unreachable!() };
        reply.topics.iter_mut().for_each(|topic| topic.error_code = 29);
    });
    let error = failure(one(&mut sampler(&cluster), query("workers", &[])).await);
    assert_eq!(error.to_string(), "not authorised to read a topic that the consumer group has commits for");
}

#[tokio::test]
async fn a_group_in_error_fails_its_own_queries_only() {
    let cluster = cluster().await;
    cluster.group("others", 1, "orders", &[1, 1]);
    cluster.edit(ApiKey::OffsetFetch, 1, |reply| {
        let Reply::OffsetFetch(reply) = reply else { unreachable!() };
        let workers = reply.groups.iter_mut().find(|group| &*group.group_id.0 == "workers");
        workers.unwrap().error_code = 30;
    });
    let outcomes =
        sample(&mut sampler(&cluster), vec![query("workers", &["orders"]), query("others", &["orders"])]).await;
    assert!(matches!(outcomes[0], Err(SampleError::Forbidden(_))));
    assert_eq!(complete(&outcomes[1]).len(), 2);
}

#[tokio::test]
async fn a_dead_broker_fails_only_what_needs_it() {
    let cluster = cluster().await;
    let dead = *ScriptedKafka::start(1).await.state().brokers.get(&1).unwrap();
    {
        let mut state = cluster.state();
        state.brokers.insert(3, dead);
        let partitions = &mut state.topics.get_mut("orders").unwrap().partitions;
        partitions[1].leader = 3;
        state.topics.insert(
            "dead".into(),
            super::scripted_kafka::Topic {
                id: 9,
                partitions: vec![super::scripted_kafka::Partition { leader: 3, ..Default::default() }],
            },
        );
        state.groups.entry("lost".into()).or_default().coordinator = 3;
    }
    let bootstrap = cluster.bootstrap()[..2].to_vec();
    let mut sampler = with(Settings { bootstrap, ..settings(&cluster) }, Limits::default());
    let queries = vec![
        query("workers", &["orders"]),
        query("workers", &["mails"]),
        query("workers", &["dead"]),
        query("lost", &["mails"]),
    ];
    let mut outcomes = sample(&mut sampler, queries).await;
    assert!(matches!(outcomes.pop(), Some(Err(SampleError::Unreachable(_)))));
    assert!(matches!(outcomes.pop(), Some(Err(SampleError::Unreachable(_)))));
    assert_eq!(complete(&outcomes[1]), [("mails", 0, Some(9), 9)]);
    let (seen, missing) = incomplete(&outcomes[0]);
    assert_eq!(seen, [("orders", 0, Some(40), 50)]);
    assert_eq!(missing, "source unreachable");
}

#[tokio::test]
async fn an_end_that_went_back_is_missing_until_it_is_seen_twice() {
    let cluster = cluster().await;
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    cluster.state().topics.get_mut("orders").unwrap().partitions[0].end = 45;
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(incomplete(&outcome).1, "source not ready: a log end offset went back");
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome)[0], ("orders", 0, Some(40), 45));
}

#[tokio::test]
async fn a_topic_made_again_has_another_id() {
    let cluster = cluster().await;
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    {
        let mut state = cluster.state();
        let topic = state.topics.get_mut("orders").unwrap();
        topic.id = 77;
        topic.partitions.iter_mut().for_each(|partition| partition.end = 3);
    }
    // What was committed may be of the topic before, once.
    let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
    assert_eq!(error.to_string(), "source not ready: the topic was deleted and made again");
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome)[0], ("orders", 0, Some(40), 3));
    assert_eq!(partitions(&outcome.unwrap())[0].topic_id, Some(77));
}
