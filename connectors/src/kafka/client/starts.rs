//! Log starts are remembered for a while: they move by retention alone, and only forward.
//!
//! Invariants:
//! - What is remembered is of the same topic, by its id, and of the same leader, by its epoch: within these a start never
//!   goes back, so that an old one makes a lag larger than it is, never smaller.
//! - Where a broker tells no ids or no epochs nothing is remembered.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

/// How long a start is believed: what retention took away leaves the lag within it.
const MAX_AGE: Duration = Duration::from_secs(30);

/// A topic and a partition of it.
type Key = (Arc<str>, i32);

/// What a start holds for: the topic's id and its leader's epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reign {
    id: u128,
    epoch: i32,
}

impl Reign {
    /// `None` where the broker does not tell enough.
    pub(super) fn new(id: Option<u128>, epoch: i32) -> Option<Self> {
        id.filter(|_| epoch >= 0).map(|id| Self { id, epoch })
    }
}

struct Start {
    reign: Reign,
    read: Instant,
    offset: i64,
}

/// The log starts that were read last.
#[derive(Default)]
pub(super) struct Starts(HashMap<Key, Start>);

impl Starts {
    /// A new sample begins; what is of no topic in `wanted` is forgotten.
    pub(super) fn next_sample(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(topic, _), _| wanted(topic));
    }

    /// Keeps what was read in `reign`.
    pub(super) fn put(&mut self, key: Key, reign: Option<Reign>, offset: i64) {
        match reign {
            Some(reign) => self.0.insert(key, Start { reign, read: Instant::now(), offset }),
            None => self.0.remove(&key),
        };
    }

    /// The start, if it may be believed of a log that ends at `end`.
    pub(super) fn get(&self, key: &Key, reign: Option<Reign>, end: i64) -> Option<i64> {
        let start = self.0.get(key)?;
        let holds = Some(start.reign) == reign && start.offset <= end && Instant::now() < start.read + MAX_AGE;
        holds.then_some(start.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        ("orders".into(), 0)
    }

    /// What is known `after` of a start at 40 that was read of topic 1 in epoch 3.
    async fn check(id: Option<u128>, epoch: i32, end: i64, after: Duration, expected: Option<i64>) {
        let mut starts = Starts::default();
        starts.put(key(), Reign::new(Some(1), 3), 40);
        tokio::time::advance(after).await;
        assert_eq!(starts.get(&key(), Reign::new(id, epoch), end), expected, "{id:?} {epoch} {end} {after:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_believed_for_a_while_of_one_topic_and_leader() {
        let soon = Duration::from_secs(29);
        check(Some(1), 3, 100, soon, Some(40)).await;
        check(Some(1), 3, 40, soon, Some(40)).await;
        check(Some(1), 3, 39, soon, None).await;
        check(Some(2), 3, 100, soon, None).await;
        check(Some(1), 4, 100, soon, None).await;
        check(None, 3, 100, soon, None).await;
        check(Some(1), -1, 100, soon, None).await;
        check(Some(1), 3, 100, MAX_AGE, None).await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_without_ids_or_epochs() {
        for (id, epoch) in [(None, 3), (Some(1), -1)] {
            let mut starts = Starts::default();
            starts.put(key(), Reign::new(Some(1), 3), 40);
            starts.put(key(), Reign::new(id, epoch), 40);
            assert_eq!(starts.get(&key(), Reign::new(Some(1), 3), 100), None);
            assert_eq!(starts.get(&key(), Reign::new(id, epoch), 100), None);
        }
    }
}
