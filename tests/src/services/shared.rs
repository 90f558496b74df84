//! The Kafka cluster that tests share: many use it at once, or one has it alone and may break it.
//!
//! Invariant: a test gets a whole cluster, whatever the one before it did or left undone.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::{KafkaCluster, run_directory, runtime};
use crate::Result;
use crate::harness::{Fixture, Unavailable};

const BROKERS: usize = 3;

#[derive(Default)]
enum State {
    #[default]
    NotAsked,
    Running {
        cluster: Box<KafkaCluster>,
        /// Whether a test had it alone since it was last known to be whole.
        touched: bool,
    },
    Failed(Unavailable),
}

static KAFKA: LazyLock<Arc<RwLock<State>>> = LazyLock::new(Arc::default);

impl State {
    async fn make_whole(&mut self) -> Result<(), Unavailable> {
        let outcome = match self {
            Self::Failed(unavailable) => return Err(unavailable.clone()),
            Self::Running { touched: false, .. } => return Ok(()),
            Self::Running { cluster, touched } => cluster.restore().await.map(|()| *touched = false),
            Self::NotAsked => KafkaCluster::start(BROKERS).await.map(|cluster| {
                eprintln!("Kafka with {BROKERS} brokers is ready after {:.1} s", cluster.ready_in().as_secs_f64());
                *self = Self::Running { cluster: Box::new(cluster), touched: false };
            }),
        };
        outcome.map_err(|error| {
            let unavailable = Unavailable { service: "Kafka", reason: error.to_string() };
            *self = Self::Failed(unavailable.clone());
            unavailable
        })
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Running { touched: false, .. })
    }

    fn cluster(&self) -> &KafkaCluster {
        match self {
            Self::Running { cluster, .. } => cluster,
            Self::NotAsked | Self::Failed(_) => unreachable!("a fixture is made of a running cluster only"),
        }
    }
}

/// The cluster, used by several tests at once: names of topics and groups are the test's own.
pub struct SharedKafka(OwnedRwLockReadGuard<State>);

impl Fixture for SharedKafka {
    async fn acquire() -> Result<Self, Unavailable> {
        let whole = Arc::clone(&KAFKA).read_owned().await;
        if whole.is_whole() {
            return Ok(Self(whole));
        }
        drop(whole);
        let mut state = Arc::clone(&KAFKA).write_owned().await;
        state.make_whole().await?;
        Ok(Self(state.downgrade()))
    }
}

impl Deref for SharedKafka {
    type Target = KafkaCluster;

    fn deref(&self) -> &KafkaCluster {
        self.0.cluster()
    }
}

/// The cluster for one test alone, which may kill and add brokers and need not repair it.
pub struct ExclusiveKafka(OwnedRwLockWriteGuard<State>);

impl Fixture for ExclusiveKafka {
    async fn acquire() -> Result<Self, Unavailable> {
        let mut state = Arc::clone(&KAFKA).write_owned().await;
        state.make_whole().await?;
        if let State::Running { touched, .. } = &mut *state {
            *touched = true;
        }
        Ok(Self(state))
    }
}

impl Deref for ExclusiveKafka {
    type Target = KafkaCluster;

    fn deref(&self) -> &KafkaCluster {
        self.0.cluster()
    }
}

impl DerefMut for ExclusiveKafka {
    fn deref_mut(&mut self) -> &mut KafkaCluster {
        match &mut *self.0 {
            State::Running { cluster, .. } => cluster,
            State::NotAsked | State::Failed(_) => unreachable!("a fixture is made of a running cluster only"),
        }
    }
}

/// Stops every service that was started, and removes the directory of this run.
pub fn stop_all() {
    runtime().block_on(async {
        *KAFKA.write().await = State::NotAsked;
        super::rabbitmq::stop().await;
    });
    if let Ok(directory) = run_directory() {
        let _ = std::fs::remove_dir_all(directory);
    }
}
