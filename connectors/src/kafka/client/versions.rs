//! What a broker speaks (KIP-35).

use std::collections::HashMap;

use kafka_protocol::messages::ApiVersionsResponse;

use super::{
    api::Api,
    fault::{Fault, malformed},
};

/// The versions of each API that a broker speaks.
#[derive(Debug, Default)]
pub(super) struct Versions(HashMap<i16, (i16, i16)>);

impl Versions {
    /// What the broker said.
    pub(super) fn read(reply: &ApiVersionsResponse) -> Self {
        Self(reply.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect())
    }

    /// The newest version of `R` that both sides speak.
    pub(super) fn of<R: Api>(&self) -> Result<i16, Fault> {
        let ours = <R as Api>::VERSIONS;
        let common = self.0.get(&R::KEY).map(|&(min, max)| (min.max(ours.min), max.min(ours.max)));
        match common {
            Some((min, max)) if min <= max => Ok(max),
            _ => Err(malformed("its Kafka version is not one of 2.1 to 4.x")),
        }
    }

    /// Whether both sides speak a version of `R`.
    pub(super) fn have<R: Api>(&self) -> bool {
        self.of::<R>().is_ok()
    }
}
