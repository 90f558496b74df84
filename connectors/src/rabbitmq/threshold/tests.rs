use std::time::Duration;

use super::*;

fn queue(messages: u64, ready: u64, publish: f64, deliver: f64) -> Queue {
    Queue {
        name: "q".into(),
        ready: Some(ready),
        messages: Some(messages),
        publish_rate: Some(publish),
        deliver_rate: Some(deliver),
        consumers: None,
    }
}

fn queues(queues: Vec<Queue>) -> Queues {
    Queues { matched: queues.len() != 1, queues, settles: Duration::ZERO }
}

fn threshold(mode: Mode, activation: f64) -> Threshold {
    Threshold { mode, activation, ready_only: false, operation: Operation::Sum, trust_ready_only: false }
}

const MODES: [Mode; 3] = [Mode::QueueLength, Mode::MessageRate, Mode::DeliverGetRate];

#[track_caller]
fn check(mode: Mode, activation: f64, (m, p, d): (u64, f64, f64), value: f64, active: bool) {
    let reading = threshold(mode, activation).reading(&queues(vec![queue(m, 0, p, d)])).unwrap();
    assert!((reading.value - value).abs() < 1e-9, "{mode:?} {m} {p} {d}: {}", reading.value);
    assert_eq!(reading.active, active, "{mode:?} {m} {p} {d}");
}

/// `rabbitmq_scaler_test.go`, the tables of a single queue: messages, published and delivered per second.
#[test]
fn modes_are_kedas() {
    use Mode::{DeliverGetRate, MessageRate, QueueLength};
    for row in [(4, 0.0, 0.0), (1, 0.0, 0.0), (4, 1.4, 0.8), (1, 1.4, 1.6)] {
        #[expect(clippy::cast_precision_loss)]
        check(QueueLength, 0.0, row, row.0 as f64, true);
    }
    for row in [(0, 0.0, 0.0), (0, 1.4, 2.0), (0, 1.4, 0.0)] {
        check(QueueLength, 0.0, row, 0.0, false);
    }
    for row in [(4, 0.0, 1.3), (1, 0.0, 1.0), (1, 1.4, 1.0), (0, 1.4, 0.0)] {
        check(MessageRate, 0.0, row, row.1, true);
    }
    check(MessageRate, 0.0, (0, 0.0, 0.0), 0.0, false);
    for row in [(30, 5.0, 1.0), (20, 0.0, 10.0), (10, 0.0, 12.5), (45, 5.5, 1.5), (3, 0.0, 18.5)] {
        check(DeliverGetRate, 0.0, row, row.2, true);
    }
    check(DeliverGetRate, 0.0, (0, 0.0, 0.0), 0.0, false);
    check(QueueLength, 4.0, (4, 0.0, 0.0), 4.0, false);
}

#[test]
fn b71_the_activity_of_a_message_rate_is_the_length_too() {
    check(Mode::MessageRate, 0.0, (3, 0.0, 0.0), 0.0, true);
    check(Mode::MessageRate, 3.0, (3, 0.0, 0.0), 0.0, false);
}

/// p>0, d=0: the activation value, and active; p>0, d>0: p/d; else 0.
#[test]
fn the_ratio_is_kedas() {
    let mode = Mode::PublishedToDeliveredRatio;
    for (row, value, active) in [
        ((0, 3.0, 0.0), 2.0, true),
        ((0, 3.0, 1.0), 3.0, true),
        ((0, 3.0, 2.0), 1.5, false),
        ((9, 0.0, 2.0), 0.0, false),
        ((9, 0.0, 0.0), 0.0, false),
    ] {
        check(mode, 2.0, row, value, active);
    }
    check(mode, -1.0, (0, 3.0, 0.0), 0.0, true); // a value is never negative
}

/// `rabbitmq_scaler_test.go`: value 1, activation 1.
#[test]
fn the_expected_consumption_time_is_kedas() {
    let mode = Mode::ExpectedQueueConsumptionTime;
    for (row, value, active) in [
        ((0, 0.0, 0.0), 0.0, false),
        ((0, 0.0, 2.0), 0.0, false),
        ((10, 3.0, 0.0), 1.0, true),
        ((10, 3.0, 2.0), 5.5, true),
        ((4, 0.0, 2.0), 1.0, false),
        ((1, 1.0, 100.0), 0.0, false), // negative: (1-100)/100 + 1/100
    ] {
        check(mode, 1.0, row, value, active);
    }
}

#[test]
fn several_queues_are_active_as_one() {
    for operation in [Operation::Sum, Operation::Max, Operation::Avg] {
        for (lengths, active) in
            [(&[4, 4][..], true), (&[0, 4], true), (&[4, 0], true), (&[4], true), (&[0, 0], false), (&[], false)]
        {
            #[expect(clippy::cast_precision_loss)]
            let of = |mode| {
                let queue = |n: &u64| match mode {
                    Mode::MessageRate => queue(0, 0, *n as f64, 0.0),
                    Mode::DeliverGetRate => queue(0, 0, 0.0, *n as f64),
                    _ => queue(*n, *n, 0.0, 0.0),
                };
                queues(lengths.iter().map(queue).collect())
            };
            for mode in MODES {
                for ready_only in [true, false] {
                    let threshold = Threshold { ready_only, operation, ..threshold(mode, 0.0) };
                    let reading = threshold.reading(&of(mode)).unwrap();
                    assert_eq!(reading.active, active, "{operation:?} {mode:?} {lengths:?}");
                }
            }
        }
    }
}

type Row = (u64, u64, f64, f64);

#[track_caller]
fn composed(operation: Operation, rows: &[Row], expected: (f64, f64, f64, f64)) {
    let all = queues(rows.iter().map(|(m, r, p, d)| queue(*m, *r, *p, *d)).collect());
    let with = |ready_only| Threshold { ready_only, operation, ..threshold(Mode::QueueLength, 0.0) }.compose(&all);
    let (lengths, ready) = (with(false), with(true));
    let found = [lengths.messages, ready.messages, lengths.publish, lengths.deliver].map(Option::unwrap);
    let expected = [expected.0, expected.1, expected.2, expected.3];
    let equal = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9);
    assert!(equal, "{operation:?} {rows:?}: {found:?}");
}

/// `rabbitmq_scaler_test.go`, getSum, getAverage, getMaximum, getComposedQueue; but averages are not integers.
#[test]
fn compositions_are_kedas() {
    use Operation::{Avg, Max, Sum};
    composed(Sum, &[], (0.0, 0.0, 0.0, 0.0));
    composed(Sum, &[(10, 5, 1.5, 2.5)], (10.0, 5.0, 1.5, 2.5));
    composed(Sum, &[(10, 5, 1.0, 2.0), (20, 15, 3.0, 4.0)], (30.0, 20.0, 4.0, 6.0));
    composed(Avg, &[(10, 6, 2.0, 4.0)], (10.0, 6.0, 2.0, 4.0));
    composed(Avg, &[(5, 3, 1.0, 3.0), (6, 4, 3.0, 5.0)], (5.5, 3.5, 2.0, 4.0));
    composed(Avg, &[], (0.0, 0.0, 0.0, 0.0));
    composed(Max, &[(30, 5, 1.0, 9.0), (10, 20, 7.0, 3.0)], (30.0, 20.0, 7.0, 9.0));
    let rows = [(10, 4, 2.0, 6.0), (20, 8, 4.0, 2.0)];
    composed(Sum, &rows, (30.0, 12.0, 6.0, 8.0));
    composed(Avg, &rows, (15.0, 6.0, 3.0, 4.0));
    composed(Max, &rows, (20.0, 8.0, 4.0, 6.0));
}

#[test]
fn b52_unacknowledged_messages_count_unless_they_are_excluded() {
    let one = queues(vec![queue(1, 0, 0.0, 0.0)]);
    for (ready_only, value, active) in [(false, 1.0, true), (true, 0.0, false)] {
        let reading = Threshold { ready_only, ..threshold(Mode::QueueLength, 0.0) }.reading(&one).unwrap();
        assert_eq!(reading, Reading { value, active });
    }
}

/// safety.md, row 25 and section 3, rule 3.
#[test]
fn s25_an_unknown_counter_is_not_zero() {
    let unknown =
        Queue { messages: None, ready: None, publish_rate: None, deliver_rate: None, ..queue(0, 0, 0.0, 0.0) };
    for mode in [MODES.as_slice(), &[Mode::PublishedToDeliveredRatio, Mode::ExpectedQueueConsumptionTime]].concat() {
        let reading = threshold(mode, 0.0).reading(&queues(vec![unknown.clone()]));
        assert!(matches!(reading, Err(SampleError::NotReady(_))), "{mode:?}");
    }
    let some = queues(vec![queue(7, 7, 0.0, 0.0), unknown]);
    for (operation, value) in [(Operation::Sum, Some(7.0)), (Operation::Max, Some(7.0)), (Operation::Avg, None)] {
        let reading = Threshold { operation, ..threshold(Mode::QueueLength, 0.0) }.reading(&some);
        assert_eq!(reading.ok().map(|reading| reading.value), value, "{operation:?}");
    }
}

/// safety.md, section 2: consumers may hold what AMQP does not tell of.
#[test]
fn b53_over_amqp_a_queue_with_consumers_is_active_unless_the_tenant_trusts_it() {
    for (ready, consumers, trust, active) in [
        (0, 1, false, true),
        (0, 1, true, false),
        (0, 0, false, false),
        (0, 0, true, false),
        (3, 0, false, true),
        (3, 2, true, true),
    ] {
        let amqp = Queue {
            messages: None,
            publish_rate: None,
            deliver_rate: None,
            consumers: Some(consumers),
            ..queue(0, ready, 0.0, 0.0)
        };
        let threshold = Threshold { trust_ready_only: trust, ..threshold(Mode::QueueLength, 0.0) };
        let all = queues(vec![amqp]);
        #[expect(clippy::cast_precision_loss)]
        let expected = Reading { value: ready as f64, active };
        assert_eq!(threshold.reading(&all).unwrap(), expected, "{ready} {consumers} {trust}");
        let note = threshold.detail(&all)[0].iter().find(|(key, _)| *key == "note").unwrap().1.to_string();
        assert!(note.contains("ready messages only"), "{note}");
    }
}

#[test]
fn b68_a_pattern_without_a_queue_is_idle_and_says_so() {
    let none = queues(Vec::new());
    let threshold = threshold(Mode::QueueLength, 0.0);
    assert_eq!(threshold.reading(&none).unwrap(), Reading { value: 0.0, active: false });
    assert_eq!(threshold.detail(&none)[0][0], ("matched", 0.into()));
}

#[test]
fn values_are_bounded() {
    let huge = queues(vec![queue(u64::MAX, 0, f64::MAX, f64::MIN_POSITIVE)]);
    for mode in [Mode::QueueLength, Mode::MessageRate, Mode::PublishedToDeliveredRatio] {
        assert_eq!(
            threshold(mode, 0.0).reading(&huge).unwrap(),
            Reading { value: MAX_VALUE, active: true },
            "{mode:?}"
        );
    }
}
