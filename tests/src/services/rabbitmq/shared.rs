//! The node that tests share: many use it at once, each its own virtual hosts, or one has it alone and may stop it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::RabbitMqNode;
use crate::Result;
use crate::harness::{Fixture, Unavailable};

#[derive(Default)]
enum State {
    #[default]
    NotAsked,
    Running {
        node: Box<RabbitMqNode>,
        /// Whether a test had it alone since it was last known to run.
        touched: bool,
    },
    Failed(Unavailable),
}

static RABBITMQ: LazyLock<Arc<RwLock<State>>> = LazyLock::new(Arc::default);

impl State {
    async fn make_whole(&mut self) -> Result<(), Unavailable> {
        let outcome = match self {
            Self::Failed(unavailable) => return Err(unavailable.clone()),
            Self::Running { touched: false, .. } => return Ok(()),
            Self::Running { node, touched } => {
                // A node that a failed test has stopped with a signal.
                let _ = node.signal("CONT");
                node.start_again().await.map(|()| *touched = false)
            }
            Self::NotAsked => RabbitMqNode::start().await.map(|node| {
                eprintln!("RabbitMQ is ready after {:.1} s", node.ready_in().as_secs_f64());
                *self = Self::Running { node: Box::new(node), touched: false };
            }),
        };
        outcome.map_err(|error| {
            let unavailable = Unavailable { service: "RabbitMQ", reason: error.to_string() };
            *self = Self::Failed(unavailable.clone());
            unavailable
        })
    }

    fn node(&self) -> &RabbitMqNode {
        match self {
            Self::Running { node, .. } => node,
            Self::NotAsked | Self::Failed(_) => unreachable!("a fixture is made of a running node only"),
        }
    }
}

/// The node, used by several tests at once: names of virtual hosts are the test's own.
pub struct SharedRabbitMq(OwnedRwLockReadGuard<State>);

impl Fixture for SharedRabbitMq {
    async fn acquire() -> Result<Self, Unavailable> {
        let whole = Arc::clone(&RABBITMQ).read_owned().await;
        if matches!(&*whole, State::Running { touched: false, .. }) {
            return Ok(Self(whole));
        }
        drop(whole);
        let mut state = Arc::clone(&RABBITMQ).write_owned().await;
        state.make_whole().await?;
        Ok(Self(state.downgrade()))
    }
}

impl Deref for SharedRabbitMq {
    type Target = RabbitMqNode;

    fn deref(&self) -> &RabbitMqNode {
        self.0.node()
    }
}

/// The node for one test alone, which may stop it and need not start it again.
pub struct ExclusiveRabbitMq(OwnedRwLockWriteGuard<State>);

impl Fixture for ExclusiveRabbitMq {
    async fn acquire() -> Result<Self, Unavailable> {
        let mut state = Arc::clone(&RABBITMQ).write_owned().await;
        state.make_whole().await?;
        if let State::Running { touched, .. } = &mut *state {
            *touched = true;
        }
        Ok(Self(state))
    }
}

impl Deref for ExclusiveRabbitMq {
    type Target = RabbitMqNode;

    fn deref(&self) -> &RabbitMqNode {
        self.0.node()
    }
}

impl DerefMut for ExclusiveRabbitMq {
    fn deref_mut(&mut self) -> &mut RabbitMqNode {
        match &mut *self.0 {
            State::Running { node, .. } => node,
            State::NotAsked | State::Failed(_) => unreachable!("a fixture is made of a running node only"),
        }
    }
}

/// Stops the node, if it was started.
pub(in crate::services) async fn stop() {
    *RABBITMQ.write().await = State::NotAsked;
}
