//! The store's own figures at both ends of a phase.

use cantle::Stats;
use cantle::stats::KeyspaceStats;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters are those since the store was opened.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) before: Stats,
    pub(crate) after: Stats,
}

impl Figures {
    /// A size at the end, over all keyspaces.
    pub(crate) fn total(&self, size: fn(&KeyspaceStats) -> u64) -> u64 {
        self.after.keyspaces.iter().map(size).sum()
    }

    /// Number of levels of the keyspace, if its layout has some.
    pub(crate) fn levels(&self) -> Option<u64> {
        self.after.keyspaces.first().and_then(KeyspaceStats::lsm).map(|lsm| lsm.levels)
    }

    /// A counter over all keyspaces, after less before.
    pub(crate) fn grown(&self, counter: fn(&KeyspaceStats) -> u64) -> u64 {
        let before: u64 = self.before.keyspaces.iter().map(counter).sum();
        self.total(counter).saturating_sub(before)
    }

    /// A counter of the store, after less before.
    pub(crate) fn store_grown(&self, counter: fn(&Stats) -> u64) -> u64 {
        counter(&self.after).saturating_sub(counter(&self.before))
    }

    /// Gets by where they were served from, by the names that the library gives, so that new places
    /// show by themselves.
    pub(crate) fn gets_served(&self) -> BTreeMap<String, u64> {
        let mut places = BTreeMap::<String, u64>::new();
        for (stats, add) in
            [(&self.after, u64::saturating_add as fn(u64, u64) -> u64), (&self.before, u64::saturating_sub)]
        {
            for keyspace in &stats.keyspaces {
                let served = serde_json::to_value(keyspace.gets_served).unwrap_or_default();
                for (place, count) in served.as_object().into_iter().flatten() {
                    let sum = places.entry(place.replace('_', " ")).or_default();
                    *sum = add(*sum, count.as_u64().unwrap_or(0));
                }
            }
        }
        places
    }
}
