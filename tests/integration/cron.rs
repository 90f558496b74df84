//! Cron windows through the gRPC API, at times that the test sets: the states of cases.md 2.3. What is rejected is in `bad_input`.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use libtest_mimic::Trial;
use tidegate_connectors::clock::TokioClock;
use tidegate_tests::{
    Result,
    harness::step,
    tidegate::{Client, Tidegate, Trigger},
    trials,
};
use tokio::time::timeout;

pub fn trials() -> Vec<Trial> {
    trials![
        b74_days_of_the_week_by_number_and_by_name,
        b76_the_first_of_several_starts_opens,
        b77_b85_a_boundary_turns_the_value_once,
        b87_metric_names_hold_no_text_of_the_user,
        b89_either_day_field_is_enough,
        b90_b91_windows_of_one_object_are_separate_metrics,
        clock_changes_skip_and_repeat_nothing,
        a_start_is_pushed_when_it_comes,
    ]
}

/// Unix seconds of a time, written in RFC 3339: `date -u -d` was asked.
type Seconds = u64;

/// A Tidegate whose clock is the test's.
struct Setting {
    clock: TokioClock,
    tidegate: Tidegate,
}

impl Setting {
    async fn new() -> Result<Self> {
        let clock = TokioClock::starting_at(SystemTime::UNIX_EPOCH + Duration::from_secs(JAN_5));
        let tidegate = Tidegate::start_at(Arc::new(clock.clone())).await?;
        Ok(Self { clock, tidegate })
    }

    async fn window(&self, timezone: &str, start: &str, end: &str) -> Result<Client> {
        self.tidegate.keda("team-a", "worker", &Trigger::cron(timezone, start, end, "10")).await
    }

    /// Whether the window is open at each of these times; the value goes with it.
    async fn is_open(&self, keda: &mut Client, times: &[(Seconds, bool)]) -> Result {
        for &(at, open) in times {
            self.clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(at));
            let tick = keda.keda.tick().await?;
            assert!(tick.shows(if open { 10.0 } else { 0.0 }, open), "at {at}: {tick:?}");
        }
        Ok(())
    }
}

const HOUR: Seconds = 3600;
const DAY: Seconds = 24 * HOUR;
/// 2026-01-05T00:00:00Z, a Monday.
const JAN_5: Seconds = 1_767_571_200;
/// 2026-01-28T00:00:00Z.
const JAN_28: Seconds = JAN_5 + 23 * DAY;
/// 2026-02-01T00:00:00Z.
const FEB_1: Seconds = JAN_5 + 27 * DAY;
/// 2026-03-29T00:00:00Z: in Berlin, 2:00 to 3:00 is skipped.
const MAR_29: Seconds = JAN_5 + 83 * DAY;
/// 2026-10-25T00:00:00Z: in Berlin, 2:00 to 3:00 comes twice.
const OCT_25: Seconds = JAN_5 + 293 * DAY;

async fn b74_days_of_the_week_by_number_and_by_name() -> Result {
    let setting = Setting::new().await?;
    for start in ["0 9 * * 1-5", "0 9 * * MON-FRI"] {
        step(start);
        let mut keda = setting.window("UTC", start, "0 17 * * *").await?;
        let friday = JAN_5 + 4 * DAY;
        let times = [
            (friday + 9 * HOUR, true),
            (friday + 17 * HOUR, false),
            (friday + DAY + 12 * HOUR, false),
            (friday + 3 * DAY + 9 * HOUR, true),
        ];
        setting.is_open(&mut keda, &times).await?;
    }
    Ok(())
}

async fn b76_the_first_of_several_starts_opens() -> Result {
    let setting = Setting::new().await?;
    let mut keda = setting.window("UTC", "0 8 28,29,30,31 * *", "0 20 1 * *").await?;
    let times = [
        (JAN_28 + 8 * HOUR - 1, false),
        (JAN_28 + 8 * HOUR, true),
        (JAN_28 + DAY + 12 * HOUR, true),
        (JAN_28 + 3 * DAY + 9 * HOUR, true),
        (FEB_1 + 20 * HOUR - 1, true),
        (FEB_1 + 20 * HOUR, false),
    ];
    setting.is_open(&mut keda, &times).await
}

async fn b77_b85_a_boundary_turns_the_value_once() -> Result {
    let setting = Setting::new().await?;
    let mut keda = setting.window("UTC", "0 8 * * *", "0 20 * * *").await?;
    let start = JAN_5 + 8 * HOUR;
    setting
        .is_open(&mut keda, &[(start - 1, false), (start, true), (start - 1, false), (start + 12 * HOUR, false)])
        .await
}

async fn b87_metric_names_hold_no_text_of_the_user() -> Result {
    let setting = Setting::new().await?;
    let mut keda = setting.window("America/Argentina/Buenos_Aires", "0,15,,30 8-10 * * MON,TUE", "7 7 * * *").await?;
    let name = keda.keda.tick().await?.metric;
    assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
    Ok(())
}

async fn b89_either_day_field_is_enough() -> Result {
    let setting = Setting::new().await?;
    let mut keda = setting.window("UTC", "0 8 28-31 * 1", "0 9 * * *").await?;
    let half_past_eight = 8 * HOUR + HOUR / 2;
    let times = [
        (JAN_5 + half_past_eight, true), // a Monday
        (JAN_5 + DAY + half_past_eight, false),
        (JAN_28 + half_past_eight, true),           // a Wednesday
        (JAN_28 + 3 * DAY + half_past_eight, true), // 31 January, a Saturday
        (FEB_1 + half_past_eight, false),
    ];
    setting.is_open(&mut keda, &times).await
}

async fn b90_b91_windows_of_one_object_are_separate_metrics() -> Result {
    let setting = Setting::new().await?;
    let mut ticks = Vec::new();
    setting.clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_secs(JAN_5 + 9 * HOUR + HOUR / 2));
    for (start, end, replicas) in
        [("0 8 * * *", "0 20 * * *", "3"), ("0 9 * * *", "0 10 * * *", "5"), ("0 1 * * *", "0 2 * * *", "7")]
    {
        let trigger = Trigger::cron("UTC", start, end, replicas);
        ticks.push(setting.tidegate.keda("team-a", "worker", &trigger).await?.keda.tick().await?);
    }
    let seen: Vec<_> = ticks.iter().map(|tick| (tick.value, tick.target, tick.active)).collect();
    assert_eq!(seen, [(3.0, 1.0, true), (5.0, 1.0, true), (0.0, 1.0, false)], "the HPA takes the greatest: 5");
    assert_ne!(ticks[0].metric, ticks[1].metric);
    Ok(())
}

async fn clock_changes_skip_and_repeat_nothing() -> Result {
    let setting = Setting::new().await?;
    step("2:30 is skipped: it opens at the first instant after the gap, 3:00 in Berlin");
    let mut keda = setting.window("Europe/Berlin", "30 2 * * *", "15 3 * * *").await?;
    let gap = MAR_29 + HOUR;
    setting
        .is_open(&mut keda, &[(gap - 1, false), (gap, true), (gap + 15 * 60 - 1, true), (gap + 15 * 60, false)])
        .await?;
    step("2:30 comes twice: it opens the first time, closes at 2:45, and does not open again");
    let mut keda = setting.window("Europe/Berlin", "30 2 * * *", "45 2 * * *").await?;
    let first = OCT_25 + HOUR / 2;
    let times = [
        (first - 1, false),
        (first, true),
        (first + 15 * 60, false),
        (first + HOUR, false),
        (first + DAY + HOUR, true),
    ];
    setting.is_open(&mut keda, &times).await
}

/// The wall clock is set to just before the start: the stream notices that it jumped, and then the start itself.
async fn a_start_is_pushed_when_it_comes() -> Result {
    let setting = Setting::new().await?;
    let mut keda = setting.window("UTC", "0 8 * * *", "0 20 * * *").await?;
    let mut activations = keda.keda.activations().await?;
    assert!(!keda.keda.tick().await?.active);
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(JAN_5 + 8 * HOUR);
    setting.clock.set_wall(start - Duration::from_secs(2));
    let pushed = timeout(Duration::from_secs(20), activations.message()).await??.ok_or("the stream ended")?;
    assert!(pushed.result);
    assert!(keda.keda.tick().await?.shows(10.0, true), "what is pushed is what is answered");
    Ok(())
}
