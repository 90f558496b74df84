//! How much is asked: requests follow brokers and coordinators, not queries.

use super::*;

#[tokio::test]
async fn offsets_of_a_group_are_read() {
    let cluster = ScriptedKafka::start(3).await;
    cluster.topic("orders", &[100, 50, 7]);
    cluster.group("workers", 2, "orders", &[40, 50, -1]);
    cluster.state().topics.get_mut("orders").unwrap().partitions[2].start = 5;
    let outcome = one(&mut sampler(&cluster), query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, Some(40), 100), ("orders", 1, Some(50), 50), ("orders", 2, None, 7)]);
    let sample = outcome.unwrap();
    let starts: Vec<_> = partitions(&sample).iter().map(|p| p.log_start).collect();
    assert_eq!(starts[0], 0);
    assert_eq!(starts[2], 5);
    assert!(starts[1] <= 50, "whatever it is, nothing is left to consume");
    assert!(partitions(&sample).iter().all(|p| p.topic_id == Some(1)));
    assert!(partitions(&sample).iter().all(|p| p.history.first_end == p.log_end));
}

#[tokio::test]
async fn b33_requests_follow_brokers_not_queries() {
    let cluster = ScriptedKafka::start(3).await;
    let names: Vec<_> = (0..20).map(|n| format!("topic-{n}")).collect();
    for name in &names {
        cluster.topic(name, &[10; 10]);
    }
    for n in 0..50 {
        cluster.group(&format!("group-{n}"), n % 3 + 1, &names[0], &[10; 10]);
    }
    let topics: Vec<_> = names.iter().map(String::as_str).collect();
    let queries = || (0..50).map(|n| query(&format!("group-{n}"), &topics)).collect::<Vec<_>>();
    let mut sampler = sampler(&cluster);
    for outcome in sample(&mut sampler, queries()).await {
        assert_eq!(complete(&outcome).len(), 200);
    }
    cluster.forget();
    sample(&mut sampler, queries()).await;
    let per_broker = |api| cluster.count(api).into_values().collect::<Vec<_>>();
    assert_eq!(per_broker(ApiKey::OffsetFetch), [1, 1, 1]);
    // For the ends; the starts, which groups without a commit need, are known.
    assert_eq!(per_broker(ApiKey::ListOffsets), [1, 1, 1]);
    assert_eq!(total(&cluster.count(ApiKey::Metadata)), 0, "it was read just now");
    assert_eq!(total(&cluster.count(ApiKey::FindCoordinator)), 0);
    assert_eq!(cluster.state().connections.values().max(), Some(&1), "one connection per broker");
}

#[tokio::test]
async fn a_group_that_has_consumed_all_costs_one_request_per_leader() {
    let cluster = ScriptedKafka::start(2).await;
    cluster.topic("orders", &[10, 20]);
    cluster.group("workers", 1, "orders", &[10, 20]);
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    cluster.forget();
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    assert_eq!(cluster.count(ApiKey::ListOffsets).into_values().collect::<Vec<_>>(), [1, 1]);
    assert_eq!(total(&cluster.count(ApiKey::OffsetFetch)), 1);
}

#[tokio::test]
async fn each_isolation_level_has_its_own_end() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[10]);
    cluster.group("workers", 1, "orders", &[6]);
    cluster.state().topics.get_mut("orders").unwrap().partitions[0].stable = 6;
    let committed = Query { isolation: IsolationLevel::ReadCommitted, ..query("workers", &["orders"]) };
    let outcomes = sample(&mut sampler(&cluster), vec![query("workers", &["orders"]), committed]).await;
    assert_eq!(complete(&outcomes[0]), [("orders", 0, Some(6), 10)]);
    assert_eq!(complete(&outcomes[1]), [("orders", 0, Some(6), 6)]);
    assert_eq!(total(&cluster.count(ApiKey::OffsetFetch)), 1, "the group is asked once");
}

#[tokio::test]
async fn b40_a_query_without_topics_has_those_of_the_commits() {
    let cluster = ScriptedKafka::start(2).await;
    cluster.topic("a", &[5, 5]);
    cluster.topic("b", &[9]);
    cluster.topic("other", &[1]);
    cluster.group("workers", 1, "b", &[9]);
    cluster.group("workers", 1, "a", &[2]);
    cluster.group("nothing", 2, "a", &[]);
    let outcomes =
        sample(&mut sampler(&cluster), vec![query("workers", &[]), query("nothing", &[]), query("workers", &["a"])])
            .await;
    assert_eq!(complete(&outcomes[0]), [("a", 0, Some(2), 5), ("a", 1, None, 5), ("b", 0, Some(9), 9)]);
    assert_eq!(complete(&outcomes[1]), []);
    assert_eq!(complete(&outcomes[2]), [("a", 0, Some(2), 5), ("a", 1, None, 5)]);
}

#[tokio::test]
async fn b37_commits_of_a_deleted_topic_are_ignored() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("new", &[5]);
    cluster.group("workers", 1, "new", &[4]);
    cluster.group("workers", 1, "deleted", &[100]);
    let outcome = one(&mut sampler(&cluster), query("workers", &[])).await;
    assert_eq!(complete(&outcome), [("new", 0, Some(4), 5)]);
}

#[tokio::test]
async fn b35_a_topic_created_later_is_found_by_the_next_sample() {
    let cluster = ScriptedKafka::start(1).await;
    let mut sampler = sampler(&cluster);
    let error = failure(one(&mut sampler, query("workers", &["orders"])).await);
    assert_eq!(error.to_string(), "topic orders not found");
    cluster.topic("orders", &[3]);
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, None, 3)]);
}

#[tokio::test]
async fn b41_a_share_group_has_no_lag() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[3]);
    cluster.group("shared", 1, "orders", &[]);
    cluster.state().groups.get_mut("shared").unwrap().share = true;
    let mut sampler = sampler(&cluster);
    for _ in 0..2 {
        for topics in [&["orders"][..], &[]] {
            let error = failure(one(&mut sampler, query("shared", topics)).await);
            assert!(matches!(&error, SampleError::ShareGroup(Subject::ConsumerGroup(name)) if &**name == "shared"));
        }
        assert_eq!(complete(&one(&mut sampler, query("idle", &["orders"])).await), [("orders", 0, None, 3)]);
    }
    assert_eq!(total(&cluster.count(ApiKey::ShareGroupDescribe)), 2, "the answers are remembered");
}

#[tokio::test]
async fn only_brokers_that_are_needed_are_connected_to() {
    let cluster = ScriptedKafka::start(3).await;
    cluster.topic("orders", &[1]);
    cluster.group("workers", 1, "orders", &[1]);
    let bootstrap = cluster.bootstrap()[..1].to_vec();
    let mut sampler = with(Settings { bootstrap, ..settings(&cluster) }, Limits::default());
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    assert_eq!(cluster.state().connections.keys().collect::<Vec<_>>(), [&1]);
}

#[tokio::test]
async fn starts_of_a_leader_are_asked_for_together_and_twice_a_minute() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[10, 10, 10]);
    cluster.group("workers", 1, "orders", &[10, 10, 10]);
    let mut sampler = sampler(&cluster);
    let mut asked = Vec::new();
    for second in 0..60 {
        // One partition after the other gets a record.
        cluster.state().topics.get_mut("orders").unwrap().partitions[second / 2 % 3].end += 1;
        cluster.forget();
        one(&mut sampler, query("workers", &["orders"])).await.unwrap();
        asked.push(total(&cluster.count(ApiKey::ListOffsets)));
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(asked.iter().filter(|&&count| count > 1).count(), 2, "{asked:?}");
    assert!(asked.iter().all(|count| (1..=2).contains(count)), "{asked:?}");
}

#[tokio::test]
async fn a_start_is_not_that_of_a_topic_or_a_leader_before() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[10]);
    cluster.group("workers", 1, "orders", &[]);
    let start = async |sampler: &mut KafkaSampler| {
        let outcome = one(sampler, query("workers", &["orders"])).await.unwrap();
        partitions(&outcome)[0].log_start
    };
    let mut sampler = sampler(&cluster);
    let set = |start: i64, epoch: i32, id: u128| {
        let mut state = cluster.state();
        let topic = state.topics.get_mut("orders").unwrap();
        (topic.id, topic.partitions[0].start, topic.partitions[0].epoch) = (id, start, epoch);
    };
    set(8, 0, 1);
    assert_eq!(start(&mut sampler).await, 8);
    set(9, 0, 1);
    assert_eq!(start(&mut sampler).await, 8, "an old one is believed for a while");
    for (lower, epoch, id) in [(7, 1, 1), (0, 1, 2)] {
        set(lower, epoch, id);
        pass(Duration::from_secs(4)).await;
        assert_eq!(start(&mut sampler).await, lower);
    }
}

#[tokio::test]
async fn a_new_partition_is_noticed_within_one_usual_poll() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[1]);
    cluster.group("workers", 1, "orders", &[1]);
    let mut sampler = sampler(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    cluster.topic("orders", &[1, 7]);
    cluster.state().topics.get_mut("orders").unwrap().id = 1;
    pass(Duration::from_millis(1500)).await;
    assert_eq!(complete(&one(&mut sampler, query("workers", &["orders"])).await).len(), 1);
    pass(Duration::from_secs(1)).await;
    let outcome = one(&mut sampler, query("workers", &["orders"])).await;
    assert_eq!(complete(&outcome), [("orders", 0, Some(1), 1), ("orders", 1, None, 7)]);
    assert_eq!(total(&cluster.count(ApiKey::Metadata)), 2);
    assert_eq!(cluster.state().connections[&1], 1, "a connection in use is kept");
}

#[tokio::test]
async fn metadata_that_cannot_be_read_again_is_believed_for_a_minute() {
    let cluster = ScriptedKafka::start(1).await;
    cluster.topic("orders", &[5]);
    cluster.group("workers", 1, "orders", &[1]);
    let mut sampler = impatient(&cluster);
    one(&mut sampler, query("workers", &["orders"])).await.unwrap();
    cluster.script(ApiKey::Metadata, 100, Act::Close);
    for _ in 0..11 {
        pass(Duration::from_secs(5)).await;
        cluster.forget();
        assert_eq!(complete(&one(&mut sampler, query("workers", &["orders"])).await), [("orders", 0, Some(1), 5)]);
        assert_eq!(total(&cluster.count(ApiKey::Metadata)), 1, "it is asked for once a sample");
    }
    pass(Duration::from_secs(5)).await;
    failure(one(&mut sampler, query("workers", &["orders"])).await);
}
