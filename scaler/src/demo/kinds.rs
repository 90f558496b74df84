//! The other kinds of trigger, beside the Kafka story: RabbitMQ and Prometheus wake and fall asleep, cron tells the time.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{keda::Keda, sources::Sources};

type Told<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages that wait, and for how long.
const BACKLOG: u64 = 70;
const AWAKE: Duration = Duration::from_secs(6);

/// How often an inactive verdict is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// What was measured of one kind.
pub struct Measured {
    /// The kind.
    pub kind: &'static str,
    /// From the first message to `true` on the push stream.
    pub woken: Duration,
    /// From the last message's end to an inactive verdict.
    pub asleep: Duration,
    /// The value while messages waited.
    pub value: f64,
}

/// One trigger on the scripted sources: nothing waits, then something, then nothing again.
pub struct Kind<'a> {
    name: &'static str,
    keda: Keda,
    sources: &'a Sources,
}

impl<'a> Kind<'a> {
    /// The trigger that `keda` asks about.
    pub fn new(name: &'static str, keda: Keda, sources: &'a Sources) -> Self {
        Self { name, keda, sources }
    }

    /// From asleep to asleep.
    pub async fn tell(mut self, say: impl Fn(&str)) -> Told<Measured> {
        let kind = self.name;
        let mut activations = self.keda.activations().await?;
        if self.keda.tick().await?.active {
            return Err(format!("the {kind} trigger is active with nothing waiting").into());
        }
        self.sources.set_backlog(BACKLOG);
        let began = Instant::now();
        activations.message().await?.ok_or("the push stream ended")?;
        let woken = began.elapsed();
        let tick = self.keda.tick().await?;
        say(&format!("{kind}: true is pushed; {} waits, at {} a replica", tick.value, tick.target));
        sleep(AWAKE).await;
        self.sources.set_backlog(0);
        let ended = Instant::now();
        while self.keda.tick().await?.active {
            sleep(LOOK).await;
        }
        let asleep = ended.elapsed();
        say(&format!("{kind}: nothing waits, proven by two samples: inactive"));
        Ok(Measured { kind, woken, asleep, value: tick.value })
    }
}
