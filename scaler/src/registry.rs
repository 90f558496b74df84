//! The triggers that are asked for, found by what a caller sends, without parsing it.
//!
//! A reference is hashed whatever order its metadata comes in (Go sends maps in random order) and compared in full, so
//! that no hash decides what a tenant sees.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use dashmap::DashMap;

use crate::{answer::Reference, store::Watched};

/// The triggers that are asked for. A bucket holds those whose references have the same hash: one, but for accidents.
#[derive(Default)]
pub struct Registry {
    hasher: RandomState,
    buckets: DashMap<u64, Vec<Arc<Watched>>>,
}

impl Registry {
    /// The trigger that `reference` names, if someone has asked for it.
    pub fn get(&self, reference: Reference<'_>) -> Option<Arc<Watched>> {
        find(self.buckets.get(&self.hash(reference))?.value(), reference)
    }

    /// The trigger that `reference` names; `make` makes it if nobody has asked for it.
    pub fn get_or_insert<E>(
        &self,
        reference: Reference<'_>,
        make: impl FnOnce() -> Result<Arc<Watched>, E>,
    ) -> Result<Arc<Watched>, E> {
        let mut bucket = self.buckets.entry(self.hash(reference)).or_default();
        if let Some(watched) = find(&bucket, reference) {
            return Ok(watched);
        }
        let watched = make()?;
        bucket.push(watched.clone());
        Ok(watched)
    }

    /// Keeps the triggers for which `keep` is true.
    pub fn retain(&self, mut keep: impl FnMut(&Arc<Watched>) -> bool) {
        self.buckets.retain(|_, bucket| {
            bucket.retain(&mut keep);
            !bucket.is_empty()
        });
    }

    /// Looks at every trigger.
    pub fn for_each(&self, mut look: impl FnMut(&Watched)) {
        for bucket in &self.buckets {
            bucket.iter().for_each(|watched| look(watched));
        }
    }

    fn hash(&self, reference: Reference<'_>) -> u64 {
        let object = self.hasher.hash_one((reference.tenant, reference.name));
        reference.metadata.iter().fold(object, |sum, entry| sum.wrapping_add(self.hasher.hash_one(entry)))
    }
}

fn find(bucket: &[Arc<Watched>], reference: Reference<'_>) -> Option<Arc<Watched>> {
    bucket.iter().find(|watched| watched.is(reference)).cloned()
}
