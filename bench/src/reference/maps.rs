//! The maps in memory that gets and scans are compared with.

use super::each_record;
use super::race::{Key, Touched};
use crate::failure::Result;
use cantle_workloads::records::Values;
use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A B-tree in a readers-writer lock.
pub type Tree = RwLock<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A skip list without locks.
pub type List = SkipMap<Vec<u8>, Vec<u8>>;

/// Both, with the same records as the store.
pub struct Maps {
    /// The B-tree.
    pub tree: Tree,
    /// The skip list.
    pub list: List,
}

fn from(key: &[u8]) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(key), Bound::Unbounded)
}

impl Maps {
    /// Filled in key order, as the store is.
    pub fn load(values: &Values, records: u64, seed: u64) -> Result<Self> {
        let mut tree = BTreeMap::new();
        each_record("loading the BTreeMap", values, records, seed, |key, value| {
            tree.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        let list = SkipMap::new();
        each_record("loading the SkipMap", values, records, seed, |key, value| {
            list.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        Ok(Self { tree: RwLock::new(tree), list })
    }

    /// Reads the value of `key` in the B-tree.
    #[inline]
    pub fn tree_get(&self, key: &Key, touched: &mut Touched) {
        if let Some(value) = self.tree.read().get(key.as_slice()) {
            touched.value(value);
        }
    }

    /// Reads the value of `key` in the skip list.
    #[inline]
    pub fn list_get(&self, key: &Key, touched: &mut Touched) {
        if let Some(entry) = self.list.get(key.as_slice()) {
            touched.value(entry.value());
        }
    }

    /// Reads the values of up to `rows` pairs from `key` on in the B-tree.
    #[inline]
    pub fn tree_scan(&self, key: &Key, rows: usize, touched: &mut Touched) {
        for (_, value) in self.tree.read().range::<[u8], _>(from(key)).take(rows) {
            touched.value(value);
        }
    }

    /// Reads the same in the skip list.
    #[inline]
    pub fn list_scan(&self, key: &Key, rows: usize, touched: &mut Touched) {
        for entry in self.list.range::<[u8], _>(from(key)).take(rows) {
            touched.value(entry.value());
        }
    }
}
