//! The maps in memory that gets and scans are measured beside.

use super::super::phase::each_record;
use super::super::records::Values;
use super::race::{Key, Touched};
use crate::failure::Outcome;
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A B-tree under a lock of readers and writers.
pub(super) type Tree = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A skip list without locks.
pub(super) type List = SkipMap<Vec<u8>, Vec<u8>>;

/// Both, with the same records as the store.
pub(super) struct Maps {
    pub(super) tree: Tree,
    pub(super) list: List,
}

fn from(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(key), Bound::Unbounded)
}

impl Maps {
    /// Filled in key order, as the store is.
    pub(super) fn load(values: &Values, records: u64, seed: u64) -> Outcome<Self> {
        let mut tree = BTreeMap::new();
        each_record("load the BTreeMap", values, records, seed, |key, value| {
            tree.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        let list = SkipMap::new();
        each_record("load the SkipMap", values, records, seed, |key, value| {
            list.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        Ok(Self { tree: RwLock::new(tree), list })
    }

    #[inline]
    pub(super) fn tree_get(&self, key: &Key, touched: &mut Touched) {
        if let Some(value) = self.tree.read().get(key.as_slice()) {
            touched.value(value);
        }
    }

    #[inline]
    pub(super) fn list_get(&self, key: &Key, touched: &mut Touched) {
        if let Some(entry) = self.list.get(key.as_slice()) {
            touched.value(entry.value());
        }
    }

    #[inline]
    pub(super) fn tree_scan(&self, key: &Key, rows: usize, touched: &mut Touched) {
        for (_, value) in self.tree.read().range::<[u8], _>(from(key)).take(rows) {
            touched.value(value);
        }
    }

    #[inline]
    pub(super) fn list_scan(&self, key: &Key, rows: usize, touched: &mut Touched) {
        for entry in self.list.range::<[u8], _>(from(key)).take(rows) {
            touched.value(entry.value());
        }
    }
}
