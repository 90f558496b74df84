//! What happens in the demo, and what is printed of it.

use std::{
    error::Error,
    future::pending,
    time::{Duration, Instant},
};

use rdkafka::producer::FutureProducer;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};
use tonic::Streaming;

use super::{
    kafka::{EmbeddedKafka, WorkersConsumer, produce},
    keda::{IsActiveResponse, Keda, Tick},
};

/// KEDA's pollingInterval, 30 s by default, and the HPA's sync period, 15 s, are both this in the demo.
const POLL: Duration = Duration::from_secs(1);

/// KEDA's cooldownPeriod, 300 s by default.
const COOLDOWN: Duration = Duration::from_secs(5);

/// maxReplicaCount.
const MOST_REPLICAS: u32 = 8;

/// How long the Worker sleeps before the first record, and from then to the rest.
const ASLEEP: Duration = Duration::from_secs(4);
const ALONE: Duration = Duration::from_secs(3);

/// Records that are produced: one to wake the Worker, then the rest.
const RECORDS: usize = 1200;

/// Records a second that one replica handles, in steps of [`STEP`].
const RATE: usize = 40;
const STEP: Duration = Duration::from_millis(100);

type Told<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The time that the lines of the demo begin with.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Prints one line.
    pub fn say(&self, what: &str) {
        println!("  {:>6.2} s  {what}", self.0.elapsed().as_secs_f64());
    }
}

/// What was measured of the Worker.
pub struct Measured {
    woken: Duration,
    most: u32,
    consumed: usize,
    ticks: usize,
    tick: Duration,
}

impl Measured {
    /// Prints the figures.
    pub fn print(&self) {
        println!("    kafka      from the first record to true on the push stream  {:>8.0} ms", ms(self.woken));
        println!("    kafka      replicas                                          0 -> {} -> 0", self.most);
        println!("    kafka      records consumed                                  {:>8}", self.consumed);
        println!(
            "    kafka      three calls of one KEDA tick, median of {:>3}       {:>8.2} ms",
            self.ticks,
            ms(self.tick)
        );
    }
}

/// The Worker, and what is known of it.
pub struct Story<'a> {
    kafka: &'a EmbeddedKafka,
    keda: Keda,
    clock: Clock,
    replicas: u32,
    most: u32,
    last_active: Instant,
    produced: Option<Instant>,
    woken: Option<Duration>,
    consumed: usize,
    ticks: Vec<Duration>,
}

impl<'a> Story<'a> {
    /// A Worker that sleeps.
    pub fn new(kafka: &'a EmbeddedKafka, keda: Keda, clock: Clock) -> Self {
        let now = Instant::now();
        Self {
            kafka,
            keda,
            clock,
            replicas: 0,
            most: 0,
            last_active: now,
            produced: None,
            woken: None,
            consumed: 0,
            ticks: Vec::new(),
        }
    }

    /// From asleep to asleep.
    pub async fn tell(mut self) -> Told<Measured> {
        self.say(&format!(
            "the Worker: pollingInterval {} s, cooldownPeriod {} s, maxReplicaCount {MOST_REPLICAS}",
            POLL.as_secs(),
            COOLDOWN.as_secs()
        ));
        let (producer, consumer) = (self.kafka.producer()?, self.kafka.consumer()?);
        let mut activations = self.keda.activations().await?;
        let (mut polls, mut steps) = (steadily(POLL), steadily(STEP));
        let (mut sent, mut send_at) = (0, tokio::time::Instant::now() + ASLEEP);
        self.say("the Worker sleeps: 0 replicas, a push stream is open");
        loop {
            tokio::select! {
                _ = polls.tick() => self.poll().await?,
                true_ = next(&mut activations) => self.activate(true_?),
                _ = steps.tick() => self.work(&consumer).await?,
                () = sleep_until(send_at), if sent < RECORDS => {
                    self.produce(&producer, sent).await?;
                    sent = if sent == 0 { 1 } else { RECORDS };
                    send_at += ALONE;
                }
            }
            if self.produced.is_some() && self.replicas == 0 && self.consumed == RECORDS {
                return self.end();
            }
        }
    }

    /// KEDA's poll loop and the HPA's, which ask the same.
    async fn poll(&mut self) -> Told {
        let tick = self.keda.tick().await?;
        self.ticks.push(tick.took);
        if tick.active {
            self.last_active = Instant::now();
            let replicas = replicas(&tick);
            if self.replicas > 0 && replicas > self.replicas {
                self.scale(replicas, &format!("lag {} at {} a replica", tick.value, tick.target));
            }
        } else if self.replicas > 0 && self.last_active.elapsed() >= COOLDOWN {
            self.scale(0, &format!("no lag, and inactive for {} s", self.last_active.elapsed().as_secs()));
        }
        Ok(())
    }

    /// A `true` on the push stream.
    fn activate(&mut self, active: bool) {
        self.last_active = Instant::now();
        if active && self.replicas == 0 {
            self.woken = self.produced.map(|produced| produced.elapsed());
            self.scale(1, "pushed");
        }
    }

    /// The first record, or all the others.
    async fn produce(&mut self, producer: &FutureProducer, sent: usize) -> Told {
        if sent == 0 {
            produce(producer, 0).await?;
            self.produced = Some(Instant::now());
            self.say("the first record is acknowledged by the broker");
            return Ok(());
        }
        futures_util::future::try_join_all((sent..RECORDS).map(|n| produce(producer, n))).await?;
        self.say(&format!("{} more records", RECORDS - sent));
        Ok(())
    }

    async fn work(&mut self, consumer: &WorkersConsumer) -> Told {
        let replicas = usize::try_from(self.replicas)?;
        let step = usize::try_from(STEP.as_millis())?;
        self.consumed += consumer.consume(replicas * RATE * step / 1000).await?;
        Ok(())
    }

    fn scale(&mut self, replicas: u32, why: &str) {
        self.say(&format!("the Worker goes {} -> {replicas}: {why}", self.replicas));
        self.replicas = replicas;
        self.most = self.most.max(replicas);
    }

    fn say(&self, what: &str) {
        self.clock.say(what);
    }

    fn end(mut self) -> Told<Measured> {
        let woken = self.woken.ok_or("the Worker was not woken by the push stream")?;
        if self.most < 2 {
            return Err("the Worker was not scaled beyond one replica".into());
        }
        self.ticks.sort_unstable();
        let (ticks, tick) = (self.ticks.len(), self.ticks[self.ticks.len() / 2]);
        Ok(Measured { woken, most: self.most, consumed: self.consumed, ticks, tick })
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// What the HPA asks for with an average value.
fn replicas(tick: &Tick) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
    let wanted = (tick.value / tick.target).ceil() as u32;
    wanted.clamp(1, MOST_REPLICAS)
}

fn steadily(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The next message of the stream; nothing after its end.
async fn next(stream: &mut Streaming<IsActiveResponse>) -> Result<bool, tonic::Status> {
    match stream.message().await? {
        Some(message) => Ok(message.result),
        None => pending().await,
    }
}
