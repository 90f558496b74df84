use super::{super::Needs, *};

fn page(items: &str) -> String {
    format!(
        r#"{{"filtered_count":9,"item_count":1,"items":[{items}],"page":1,"page_count":1,"page_size":500,"total_count":9}}"#
    )
}

#[track_caller]
fn one(item: &str, view: View) -> Found {
    let page = decode(page(item).as_bytes()).unwrap_or_else(|error| panic!("{item}: {error}"));
    let mut queues = BTreeMap::new();
    page.take_into(view, &mut queues);
    queues.into_values().next().unwrap()
}

/// Replies of RabbitMQ 3.10.8.
#[test]
fn replies_of_a_broker_are_read() {
    let classic = r#"{"messages":3,"messages_ready":2,"messages_unacknowledged":1,"name":"classic","state":"running","type":"classic"}"#;
    let totals = one(classic, View::Totals);
    assert_eq!((totals.messages, totals.ready, totals.running), (Some(3), Some(2), true));
    assert_eq!((totals.publish_rate, totals.deliver_rate, totals.rates_off), (None, None, false));
    let statistics = r#"{"message_stats":{"publish":9,"publish_details":{"rate":0.6}},"messages":3,"messages_ready":3,"name":"q","type":"classic"}"#;
    let statistics = one(statistics, View::Statistics);
    assert_eq!((statistics.publish_rate, statistics.deliver_rate), (Some(0.6), Some(0.0)));
}

#[test]
fn b58_unknown_fields_are_ignored_and_optional_ones_may_lack() {
    let quorum = r#"{"name":"q","arguments":{"x":[1,{"y":null}]},"exclusive":null,"leader":"n","members":["n"],"online":["n"],"state":"running","type":"quorum","messages":4,"messages_ready":4}"#;
    assert_eq!(one(quorum, View::Totals).messages, Some(4));
    assert_eq!(one(r#"{"name":"q"}"#, View::Totals).messages, None);
}

#[test]
fn b61_an_idle_queue_without_message_stats_has_rate_0() {
    for stats in ["", r#","message_stats":{}"#, r#","message_stats":[]"#, r#","message_stats":{"publish":0}"#] {
        let found = one(&format!(r#"{{"name":"q","messages":2,"messages_ready":2{stats}}}"#), View::Statistics);
        assert_eq!(
            (found.publish_rate, found.deliver_rate, found.messages),
            (Some(0.0), Some(0.0), Some(2)),
            "{stats}"
        );
    }
}

#[test]
fn b60_counted_messages_without_rates_are_not_rate_0() {
    let counted = r#"{"name":"q","messages":2,"messages_ready":2,"message_stats":{"publish":7,"deliver_get":5}}"#;
    let found = one(counted, View::Statistics);
    assert_eq!((found.publish_rate, found.deliver_rate, found.rates_off), (None, None, true));
    // Without statistics of the queue at all, nothing is known.
    let found = one(r#"{"name":"q"}"#, View::Statistics);
    assert_eq!((found.messages, found.publish_rate, found.deliver_rate), (None, None, None));
    // A negative rate is none.
    let negative = r#"{"name":"q","messages":2,"messages_ready":2,"message_stats":{"publish_details":{"rate":-1.5}}}"#;
    assert_eq!(one(negative, View::Statistics).publish_rate, None);
}

#[test]
fn s25_a_queue_that_does_not_run_is_not_believed() {
    for (state, running) in [
        ("running", true),
        ("live", true),
        ("idle", true),
        ("flow", true),
        ("down", false),
        ("minority", false),
        ("stopped", false),
        ("crashed", false),
    ] {
        let item = format!(r#"{{"name":"q","messages":0,"messages_ready":0,"state":"{state}"}}"#);
        assert_eq!(one(&item, View::Totals).running, running, "{state}");
    }
}

/// safety.md, section 8: what is no counter fails the page, and is no 0.
#[test]
fn malformed_counters_are_errors() {
    for counter in ["\"3\"", "-1", "1e400", "1.5", "true", "[]", "18446744073709551616"] {
        let body = page(&format!(r#"{{"name":"q","messages":{counter}}}"#));
        assert!(matches!(decode(body.as_bytes()), Err(SampleError::Malformed(_))), "{counter}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for body in ["", "<html>login</html>", "[]", "null", "{}", r#"{"items":[]}"#, &deep] {
        assert!(matches!(decode(body.as_bytes()), Err(SampleError::Malformed(_))), "{body:.40}");
    }
    let of = |count: usize, size: usize| {
        format!(r#"{{"filtered_count":{count},"items":[],"page_size":{size},"total_count":{count}}}"#)
    };
    assert!(matches!(decode(of(1, 0).as_bytes()), Err(SampleError::Malformed(_))));
    assert!(matches!(decode(of(50_001, 500).as_bytes()), Err(SampleError::OverLimit { limit: 50_000, .. })));
    assert!(decode(of(50_000, 500).as_bytes()).is_ok());
}

/// Tried on 3.10.8: a quorum queue's totals stood at 0 and at the old number until its tick, its statistics 2 s longer.
#[test]
fn numbers_tell_how_old_they_may_be() {
    for (kind, view, seconds) in [
        ("classic", View::Totals, 0),
        ("quorum", View::Totals, 6),
        ("stream", View::Totals, 6),
        ("classic", View::Statistics, 6),
        ("quorum", View::Statistics, 12),
    ] {
        let found = one(&format!(r#"{{"name":"q","type":"{kind}"}}"#), view);
        assert_eq!(found.settles, Duration::from_secs(seconds), "{kind} {view:?}");
    }
    let mut first = Found { publish_rate: Some(1.0), ..Found::default() };
    first.complete_with(&Found { messages: Some(1), ready: Some(1), settles: STATISTICS_AGE, ..Found::default() });
    assert_eq!((first.messages, first.publish_rate, first.settles), (Some(1), Some(1.0), STATISTICS_AGE));
}

#[test]
fn names_are_asked_for_in_as_few_requests_as_fit() {
    let named = |name: &str| Query { queues: Selection::Named(name.into()), needs: Needs::Lengths };
    let of = |queries: &[Query]| filters(queries.iter());
    let two = of(&[named("b/ü"), named("a.b"), named("a.b")]).unwrap();
    assert_eq!(two, ["%5E(%3F:a%5C.b%7Cb%2F%C3%BC)%24"]);
    let many: Vec<_> = (0..1000).map(|n| named(&format!("queue-number-{n:04}"))).collect();
    let groups = of(&many).unwrap();
    assert!(groups.len() < 20 && groups.iter().all(|group| group.len() < 2_100), "{}", groups.len());
    let counted: usize = groups.iter().map(|group| group.split("%7C").count()).sum();
    assert_eq!(counted, 1000);
    let pattern =
        Query { queues: Selection::Matching(super::super::Pattern::new("x").unwrap()), needs: Needs::Lengths };
    assert_eq!(of(&[named("a"), pattern]), None);
    assert_eq!(of(&[named(&"\u{1f600}".repeat(63))]).unwrap().len(), 1);
}
