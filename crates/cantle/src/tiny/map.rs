//! All versions of all keys, in their order.

use crate::mvcc::CommitCell;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::is_empty_range;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A key with its order.
#[derive(Clone)]
struct Key {
    order: KeyOrder,
    key: Bytes,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Key {}

struct Version {
    version: u64,
    /// Shows the version once it is committed.
    cell: Option<CommitCell>,
    /// The key's own bytes, and the value; `None` for a delete.
    pair: Option<(Bytes, Bytes)>,
}

impl Version {
    fn is_visible(&self, at: u64) -> bool {
        self.version <= at && self.cell.as_ref().is_none_or(CommitCell::is_committed)
    }
}

/// The pair that a snapshot of this version sees.
fn visible(versions: &[Version], at: u64) -> Option<&(Bytes, Bytes)> {
    versions.iter().rev().find(|version| version.is_visible(at))?.pair.as_ref()
}

pub struct Map {
    order: KeyOrder,
    /// The versions of a key stand in the order in which they were written.
    keys: BTreeMap<Key, Vec<Version>>,
}

impl Map {
    pub fn new(order: KeyOrder) -> Self {
        Self { order, keys: BTreeMap::new() }
    }

    fn key(&self, key: &[u8]) -> Key {
        Key { order: self.order.clone(), key: Bytes::copy_from_slice(key) }
    }

    /// Writes a value, or deletes the key.
    pub fn write(&mut self, key: &[u8], value: Option<&[u8]>, version: u64, cell: Option<&CommitCell>) {
        let key = self.key(key);
        let pair = value.map(|value| (key.key.clone(), Bytes::copy_from_slice(value)));
        self.keys.entry(key).or_default().push(Version { version, cell: cell.cloned(), pair });
    }

    /// The bounds as keys of the map; `None` if no key is within them.
    fn range(&self, bounds: &Bounds) -> Option<(Bound<Key>, Bound<Key>)> {
        let bound = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| self.key(key));
        (!is_empty_range(&self.order, bounds)).then(|| (bound(&bounds.start), bound(&bounds.end)))
    }

    pub fn delete_range(&mut self, bounds: &Bounds, version: u64, cell: Option<&CommitCell>) {
        let Some(range) = self.range(bounds) else { return };
        for (_, versions) in self.keys.range_mut(range) {
            versions.push(Version { version, cell: cell.cloned(), pair: None });
        }
    }

    pub fn get(&self, key: &[u8], at: u64) -> Option<Bytes> {
        visible(self.keys.get(&self.key(key))?, at).map(|(_, value)| value.clone())
    }

    /// The pairs within the bounds that a snapshot of this version sees.
    pub fn pairs(&self, bounds: &Bounds, at: u64) -> Vec<(Bytes, Bytes)> {
        let within = self.range(bounds).map(|range| self.keys.range(range));
        within.into_iter().flatten().filter_map(|(_, versions)| visible(versions, at).cloned()).collect()
    }

    /// A key within the bounds that was written after version `since`, up to `until`.
    pub fn changed(&self, bounds: &Bounds, (since, until): (u64, u64)) -> Option<Bytes> {
        let has_changed = |versions: &[Version]| {
            versions.iter().any(|version| version.version > since && version.is_visible(until))
        };
        let mut within = self.range(bounds).map(|range| self.keys.range(range)).into_iter().flatten();
        within.find(|(_, versions)| has_changed(versions)).map(|(key, _)| key.key.clone())
    }

    /// Bytes of the newest keys and values within the bounds.
    pub fn bytes(&self, bounds: &Bounds) -> u64 {
        self.pairs(bounds, u64::MAX).iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}
