//! Parts of the configuration as they are written, before their values are checked against each other.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, de};
use tidegate_connectors::metadata::parse_duration;

/// Where `provider: directory` looks if nothing else is said, as in the working directory.
const DEFAULT_DIRECTORY: &str = "credentials";

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Credentials {
    provider: Option<Provider>,
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Provider {
    Directory,
    None,
}

impl TryFrom<Credentials> for super::Credentials {
    type Error = &'static str;

    fn try_from(written: Credentials) -> Result<Self, Self::Error> {
        match (written.provider, written.directory) {
            (Some(Provider::None), Some(_)) => Err("credentials.directory needs credentials.provider: directory"),
            (Some(Provider::None) | None, None) => Ok(Self::None),
            (Some(Provider::Directory) | None, Some(directory)) => Ok(Self::Directory(directory)),
            (Some(Provider::Directory), None) => Ok(Self::Directory(DEFAULT_DIRECTORY.into())),
        }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Poll {
    #[serde(deserialize_with = "duration")]
    min_interval: Duration,
    #[serde(deserialize_with = "duration")]
    max_interval: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        let super::Poll { min_interval, max_interval } = super::Poll::default();
        Self { min_interval, max_interval }
    }
}

impl TryFrom<Poll> for super::Poll {
    type Error = &'static str;

    fn try_from(Poll { min_interval, max_interval }: Poll) -> Result<Self, Self::Error> {
        if min_interval > max_interval {
            return Err("poll.minInterval is longer than poll.maxInterval");
        }
        Ok(Self { min_interval, max_interval })
    }
}

/// A duration as in a trigger's metadata, but never zero.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = parse_duration(&String::deserialize(deserializer)?).map_err(de::Error::custom)?;
    if duration.is_zero() {
        return Err(de::Error::custom("must be longer than zero"));
    }
    Ok(duration)
}

/// A limit: nothing is without one, and none is zero.
pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroUsize, D::Error> {
    let limit = u32::deserialize(deserializer).ok().and_then(|limit| NonZeroUsize::new(limit as usize));
    limit.ok_or_else(|| de::Error::custom("must be a whole number greater than 0, and less than 2^32"))
}
