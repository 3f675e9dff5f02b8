//! The public interface: a store, its keyspaces, snapshots, ranges, cursors and batches.

use crate::bounds::KeyRange;
use crate::error::Result;
use crate::options::{KeyspaceOptions, Options, WriteOptions};
use crate::stats::{ChunkInfo, KeyspaceStats, Report, Stats};
use crate::value::{Key, Value};
use std::path::Path;

macro_rules! stub {
    () => {
        unimplemented!("not built yet")
    };
}

/// STUB: replaced soon; signatures are final.
#[derive(Clone)]
pub struct Db;
/// STUB
#[derive(Clone)]
pub struct Keyspace;
/// STUB
#[derive(Clone)]
pub struct Snapshot;
/// STUB
pub struct Range;
/// STUB
pub struct Cursor;
/// STUB
#[derive(Default, Clone, Debug)]
pub struct WriteBatch;

macro_rules! operations {
    ($type:ty) => {
        #[allow(unused_variables, missing_docs)]
        impl $type {
            pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                stub!()
            }
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
                stub!()
            }
            pub fn get_with<T>(
                &self,
                key: impl AsRef<[u8]>,
                read: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                stub!()
            }
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                stub!()
            }
            pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
                stub!()
            }
            pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
                stub!()
            }
            pub fn update(
                &self,
                key: impl AsRef<[u8]>,
                f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
            ) -> Result<Option<Value>> {
                stub!()
            }
            pub fn range(&self, range: impl KeyRange) -> Range {
                stub!()
            }
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
                stub!()
            }
            pub fn cursor(&self, range: impl KeyRange) -> Cursor {
                stub!()
            }
            pub fn approximate_bytes(&self, range: impl KeyRange) -> Result<u64> {
                stub!()
            }
            pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
                stub!()
            }
            /// The chunk map, in key order.
            pub fn chunks(&self) -> Result<Vec<ChunkInfo>> {
                stub!()
            }
        }
    };
}
operations!(Db);
operations!(Keyspace);

#[allow(unused_variables, missing_docs)]
impl Keyspace {
    pub fn name(&self) -> &str {
        stub!()
    }
    pub fn stats(&self) -> KeyspaceStats {
        stub!()
    }
    /// Bytes of the application's own that are kept with the keyspace (the command keeps the key columns
    /// there), at most 64 KiB; empty until set.
    pub fn metadata(&self) -> Vec<u8> {
        stub!()
    }
    pub fn set_metadata(&self, bytes: &[u8]) -> Result<()> {
        stub!()
    }
}

#[allow(unused_variables, missing_docs)]
impl Db {
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        stub!()
    }
    pub(crate) fn open_with(path: &Path, options: Options) -> Result<Self> {
        stub!()
    }
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        stub!()
    }
    pub fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        stub!()
    }
    pub fn snapshot(&self) -> Snapshot {
        stub!()
    }
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        stub!()
    }
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        stub!()
    }
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        stub!()
    }
    pub fn sync(&self) -> Result<()> {
        stub!()
    }
    pub fn backup(&self, dir: impl AsRef<Path>) -> Result<()> {
        stub!()
    }
    pub fn stats(&self) -> Stats {
        stub!()
    }
    pub fn verify(&self) -> Result<Report> {
        stub!()
    }
    pub fn close(&self) -> Result<()> {
        stub!()
    }
    pub fn path(&self) -> &Path {
        stub!()
    }
}

#[allow(unused_variables, missing_docs)]
impl Snapshot {
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        stub!()
    }
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        stub!()
    }
    pub fn range(&self, range: impl KeyRange) -> Range {
        stub!()
    }
    pub fn range_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Range {
        stub!()
    }
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        stub!()
    }
    pub fn prefix_in(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        stub!()
    }
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        stub!()
    }
    pub fn cursor_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Cursor {
        stub!()
    }
}

impl Iterator for Range {
    type Item = Result<(Key, Value)>;
    fn next(&mut self) -> Option<Self::Item> {
        stub!()
    }
}
impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        stub!()
    }
}

#[allow(unused_variables, missing_docs, clippy::should_implement_trait)]
impl Cursor {
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        stub!()
    }
    pub fn seek_to_first(&mut self) -> Result<bool> {
        stub!()
    }
    pub fn seek_to_last(&mut self) -> Result<bool> {
        stub!()
    }
    pub fn next(&mut self) -> Result<bool> {
        stub!()
    }
    pub fn prev(&mut self) -> Result<bool> {
        stub!()
    }
    pub fn key(&self) -> Option<&[u8]> {
        stub!()
    }
    pub fn value(&self) -> Option<&[u8]> {
        stub!()
    }
}

#[allow(unused_variables, missing_docs)]
impl WriteBatch {
    pub fn new() -> Self {
        stub!()
    }
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        stub!()
    }
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        stub!()
    }
    pub fn delete_range(&mut self, range: impl KeyRange) -> &mut Self {
        stub!()
    }
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        stub!()
    }
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        stub!()
    }
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> &mut Self {
        stub!()
    }
    pub fn len(&self) -> usize {
        stub!()
    }
    pub fn is_empty(&self) -> bool {
        stub!()
    }
    pub fn clear(&mut self) {
        stub!()
    }
}
