//! The rows of the failure table that a verdict answers, and what must hold for any sequence of polls.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use proptest::prelude::*;
use tidegate_connectors::{
    clock::BootInstant,
    sampler::{Reading, SampleError},
};

use super::{Judgement, Outcome, Rules};
use crate::{
    answer::{Refusal, Verdict},
    time::Now,
};

const RULES: Rules = Rules {
    interval: Duration::from_secs(5),
    hold: Duration::from_secs(600),
    confirm_after: Duration::from_millis(500),
};

fn boot(seconds: f64) -> BootInstant {
    BootInstant::from_boot(Duration::from_secs_f64(seconds))
}

fn at(seconds: f64) -> Now {
    Now { boot: boot(seconds), wall: SystemTime::UNIX_EPOCH, jumped: boot(0.0) }
}

fn reading(value: f64) -> Reading {
    Reading { value, active: value > 0.0 }
}

fn complete(taken: f64, value: f64) -> Outcome {
    Outcome::Complete { reading: reading(value), taken: boot(taken), settles: Duration::ZERO }
}

fn partial(taken: f64, value: f64) -> Outcome {
    Outcome::Partial { reading: reading(value), taken: boot(taken), missing: Arc::new(SampleError::NotReady("test")) }
}

fn failed() -> Outcome {
    Outcome::Failed(Arc::new(SampleError::Unreachable(None)))
}

/// What is known after `polls`, each seen at its time.
fn after(polls: impl IntoIterator<Item = (f64, Outcome)>) -> Judgement {
    polls.into_iter().fold(Judgement::default(), |known, (time, outcome)| known.observe(outcome, &RULES, at(time)))
}

fn said(verdict: Verdict) -> (bool, f64) {
    (verdict.active, verdict.value)
}

#[track_caller]
fn check(known: &Judgement, seconds: f64, expected: Option<(bool, f64)>) {
    let verdict = known.verdict(&RULES, at(seconds)).ok();
    assert_eq!(verdict.map(said), expected, "at {seconds} s");
}

#[test]
fn inactive_needs_two_consecutive_complete_samples() {
    check(&after([(1.0, complete(1.0, 0.0))]), 1.1, None);
    check(&after([(1.0, complete(1.0, 0.0)), (1.6, complete(1.6, 0.0))]), 1.7, Some((false, 0.0)));
    let broken = [(1.0, complete(1.0, 0.0)), (1.2, failed()), (1.6, complete(1.6, 0.0))];
    check(&after(broken), 1.7, None);
    let broken = [(1.0, complete(1.0, 0.0)), (1.2, partial(1.2, 0.0)), (1.6, complete(1.6, 0.0))];
    check(&after(broken), 1.7, None);
}

#[test]
fn two_samples_closer_than_the_source_moves_prove_nothing() {
    check(&after([(1.0, complete(1.0, 0.0)), (1.2, complete(1.2, 0.0))]), 1.3, None);
    let third = [(1.0, complete(1.0, 0.0)), (1.2, complete(1.2, 0.0)), (1.6, complete(1.6, 0.0))];
    check(&after(third), 1.7, Some((false, 0.0)));
}

/// RabbitMQ's statistics are up to 5 s old (design.md, section 5): what rests on them says so in each sample.
#[test]
fn samples_of_old_numbers_prove_nothing_until_the_source_has_moved() {
    let old =
        |taken: f64| Outcome::Complete { reading: reading(0.0), taken: boot(taken), settles: Duration::from_secs(6) };
    let known = after([(1.0, old(1.0)), (1.6, old(1.6)), (6.0, old(6.0))]);
    check(&known, 6.1, None);
    assert_eq!(known.confirms_at(&RULES), Some(boot(7.0)));
    let known = known.observe(old(7.0), &RULES, at(7.0));
    check(&known, 7.1, Some((false, 0.0)));
    assert_eq!(known.confirms_at(&RULES), None);
    check(&known.observe(old(12.0), &RULES, at(12.0)), 12.1, Some((false, 0.0)));
    // A second sample that is exact does not make up for the first.
    check(&after([(1.0, old(1.0)), (2.0, complete(2.0, 0.0))]), 2.1, None);
    check(&after([(1.0, complete(1.0, 0.0)), (1.2, old(1.2)), (1.6, complete(1.6, 0.0))]), 1.7, None);
}

#[test]
fn two_samples_with_a_long_gap_between_prove_nothing() {
    check(&after([(1.0, complete(1.0, 0.0)), (100.0, complete(100.0, 0.0))]), 100.1, None);
}

#[test]
fn the_confirming_sample_is_asked_for_once() {
    let first = after([(1.0, complete(1.0, 0.0))]);
    assert_eq!(first.confirms_at(&RULES), Some(boot(1.5)));
    let second = first.observe(complete(1.5, 0.0), &RULES, at(1.5));
    assert_eq!(second.confirms_at(&RULES), None);
    let third = second.observe(complete(6.5, 0.0), &RULES, at(6.5));
    assert_eq!(third.confirms_at(&RULES), None);
}

#[test]
fn s01_source_down_while_active_is_held_then_an_error() {
    let known = after([(1.0, complete(1.0, 40.0)), (6.0, failed()), (7.0, failed())]);
    check(&known, 7.0, Some((true, 40.0)));
    check(&known, 600.9, Some((true, 40.0)));
    check(&known, 601.1, None);
}

#[test]
fn s02_source_down_while_idle_is_an_error_and_no_wake() {
    let known = after([(1.0, complete(1.0, 0.0)), (1.5, complete(1.5, 0.0)), (6.5, failed())]);
    check(&known, 6.6, Some((false, 0.0))); // proven, and the proof is still fresh
    check(&known, 16.6, None);
}

#[test]
fn s08_a_partial_sample_proves_activity_and_never_lowers_the_value() {
    check(&after([(1.0, partial(1.0, 7.0))]), 1.1, Some((true, 7.0)));
    check(&after([(1.0, complete(1.0, 40.0)), (6.0, partial(6.0, 7.0))]), 6.1, Some((true, 40.0)));
    check(&after([(1.0, complete(1.0, 40.0)), (6.0, partial(6.0, 70.0))]), 6.1, Some((true, 70.0)));
    check(&after([(1.0, complete(1.0, 40.0)), (6.0, partial(6.0, 0.0))]), 6.1, Some((true, 40.0)));
    check(&after([(1.0, partial(1.0, 0.0)), (6.0, partial(6.0, 0.0))]), 6.1, None);
}

#[test]
fn s10_a_loading_coordinator_while_active_is_held() {
    let loading = || Outcome::Failed(Arc::new(SampleError::NotReady("coordinator loading")));
    let known = after([(1.0, complete(1.0, 10.0)), (6.0, loading()), (7.0, loading()), (8.0, loading())]);
    check(&known, 8.1, Some((true, 10.0)));
    check(&known.observe(complete(9.0, 12.0), &RULES, at(9.0)), 9.1, Some((true, 12.0)));
}

#[test]
fn s36_one_sample_of_zero_changes_nothing() {
    let known = after([(1.0, complete(1.0, 40.0)), (6.0, complete(6.0, 0.0))]);
    check(&known, 6.1, Some((true, 40.0)));
    check(&known.observe(complete(6.5, 41.0), &RULES, at(6.5)), 6.6, Some((true, 41.0)));
}

#[test]
fn s37_a_wall_clock_jump_makes_samples_stale() {
    let jumped = |seconds| Now { jumped: boot(2.0), ..at(seconds) };
    let idle = after([(1.0, complete(1.0, 0.0)), (1.5, complete(1.5, 0.0))]);
    assert!(idle.verdict(&RULES, jumped(2.1)).is_err());
    let one_more = idle.observe(complete(2.5, 0.0), &RULES, jumped(2.5));
    assert!(one_more.verdict(&RULES, jumped(2.6)).is_err());
    let two_more = one_more.observe(complete(3.0, 0.0), &RULES, jumped(3.0));
    assert_eq!(two_more.verdict(&RULES, jumped(3.1)).ok().map(said), Some((false, 0.0)));
    let busy = after([(1.0, complete(1.0, 40.0))]);
    assert_eq!(busy.verdict(&RULES, jumped(2.1)).ok().map(said), Some((true, 40.0)));
}

#[test]
fn s38_after_a_suspension_old_samples_are_not_fresh() {
    let idle = after([(1.0, complete(1.0, 0.0)), (1.5, complete(1.5, 0.0))]);
    check(&idle, 602.0, None);
    let resumed = idle.observe(complete(602.0, 0.0), &RULES, at(602.0));
    check(&resumed, 602.1, None);
    check(&resumed.observe(complete(602.5, 0.0), &RULES, at(602.5)), 602.6, Some((false, 0.0)));
}

#[test]
fn s40_nothing_known_is_an_error() {
    assert!(matches!(Judgement::default().verdict(&RULES, at(1.0)), Err(Refusal::NotMeasured)));
    assert!(matches!(after([(1.0, failed())]).verdict(&RULES, at(1.0)), Err(Refusal::Source { .. })));
}

#[test]
fn s57_an_old_sample_is_not_fresh_even_without_a_failure() {
    let idle = after([(1.0, complete(1.0, 0.0)), (1.5, complete(1.5, 0.0))]);
    check(&idle, 16.5, Some((false, 0.0)));
    assert!(matches!(idle.verdict(&RULES, at(16.6)), Err(Refusal::Stale(_))));
}

#[test]
fn s60_a_hold_that_ended_does_not_come_back() {
    let known = after([(1.0, complete(1.0, 40.0)), (700.0, failed())]);
    check(&known, 700.1, None);
    let known = known.observe(complete(701.0, 0.0), &RULES, at(701.0));
    check(&known, 701.1, None);
    check(&known.observe(complete(701.5, 0.0), &RULES, at(701.5)), 701.6, Some((false, 0.0)));
}

#[test]
fn hold_seconds_zero_ends_with_freshness() {
    let rules = Rules { hold: Duration::ZERO, ..RULES };
    let known = after([(1.0, complete(1.0, 40.0)), (6.0, failed())]);
    assert!(known.verdict(&rules, at(16.0)).is_ok());
    assert!(known.verdict(&rules, at(16.1)).is_err());
}

#[derive(Clone, Debug)]
enum Poll {
    Complete(u8),
    Partial(u8),
    Failed,
}

fn polls() -> impl Strategy<Value = Vec<(Poll, u16)>> {
    let poll = prop_oneof![
        5 => prop_oneof![Just(0u8), 0..50u8].prop_map(Poll::Complete),
        2 => prop_oneof![Just(0u8), 0..50u8].prop_map(Poll::Partial),
        2 => Just(Poll::Failed),
    ];
    prop::collection::vec((poll, prop_oneof![8 => 500..6000u16, 1 => 6000..60000u16]), 1..40)
}

proptest! {
    /// The two invariants of this file's module, against a plain list of what was seen.
    #[test]
    fn never_inactive_without_proof(polls in polls(), activation in 0..20u8, delay in 0..30_000u64) {
        let (mut known, mut now, mut seen) = (Judgement::default(), 10.0, Vec::new());
        for (poll, step) in polls {
            now += f64::from(step) / 1000.0;
            let reading = |n: u8| Reading { value: f64::from(n), active: n > activation };
            let outcome = match poll {
                Poll::Complete(n) => Outcome::Complete { reading: reading(n), taken: boot(now), settles: Duration::ZERO },
                Poll::Partial(n) => Outcome::Partial {
                    reading: reading(n), taken: boot(now), missing: Arc::new(SampleError::TimedOut),
                },
                Poll::Failed => failed(),
            };
            known = known.observe(outcome, &RULES, at(now));
            seen.push((poll, now));
        }
        #[expect(clippy::cast_precision_loss)]
        let asked = now + delay as f64 / 1000.0;
        let verdict = known.verdict(&RULES, at(asked));
        if let Ok((active, value)) = verdict.map(said) {
            prop_assert!(value.is_finite() && value >= 0.0);
            if !active {
                let proof = seen.windows(2).any(|pair| matches!(pair,
                    [(Poll::Complete(a), first), (Poll::Complete(b), second)]
                        if *a <= activation && *b <= activation
                            && asked - second <= 15.001 && second - first <= 15.001));
                prop_assert!(proof, "inactive without proof: {seen:?}");
                prop_assert!(value <= f64::from(activation));
            }
        }
        // A partial sample after a complete, active one never lowers the value.
        if let [.., (Poll::Complete(a), _), (Poll::Partial(_), _)] = seen[..]
            && a > activation {
                let verdict = known.verdict(&RULES, at(now)).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert!(verdict.active && verdict.value >= f64::from(a));
            }
    }
}
