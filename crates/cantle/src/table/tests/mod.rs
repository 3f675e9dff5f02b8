//! Tables against a model, under damage, and byte for byte against their documentation.

mod damage;
mod filter;
mod format;
mod ranges;
mod reading;
mod writing;

use super::properties::TableMeta;
use super::{Table, TableBuilder, TableOptions};
use crate::block::model::Entry;
use crate::cache::BlockCache;
use crate::format::header::{FileHeader, FileKind};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::vfs::VfsFile;
use std::io;
use std::path::PathBuf;

pub(super) const STORE: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
pub(super) const FILE: u64 = 7;
pub(super) const BASE_VERSION: u64 = 1_000;

/// A file in memory that counts how it is used.
#[derive(Debug, Default)]
pub(super) struct MemFile {
    bytes: Mutex<Vec<u8>>,
    reads: AtomicU64,
    largest_read: AtomicU64,
    /// End of the bytes that were asked for ahead, and the number of reads that had been.
    ahead: AtomicU64,
    reads_ahead: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    failing: AtomicBool,
}

impl MemFile {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), ..Self::default() })
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    fn check(&self) -> io::Result<()> {
        if self.failing.load(Ordering::Relaxed) { Err(io::Error::other("the device fails")) } else { Ok(()) }
    }

    fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

impl VfsFile for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.largest_read.fetch_max(buffer.len() as u64, Ordering::Relaxed);
        let is_ahead = offset + buffer.len() as u64 <= self.ahead.load(Ordering::Relaxed);
        self.reads_ahead.fetch_add(u64::from(is_ahead), Ordering::Relaxed);
        let bytes = self.bytes.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut file = self.bytes.lock();
        assert_eq!(file.len() as u64, offset, "tables are written front to back");
        file.extend_from_slice(bytes);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn prefetch(&self, offset: u64, len: u64) {
        self.ahead.fetch_max(offset + len, Ordering::Relaxed);
    }
    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

pub(super) fn header() -> FileHeader {
    FileHeader {
        kind: FileKind::Table,
        keyspace: 3,
        store: STORE,
        file: FILE,
        epoch: 2,
        base_version: BASE_VERSION,
    }
}

/// Writes a table of these entries.
pub(super) fn build(entries: &[Entry], options: TableOptions) -> (Arc<MemFile>, TableMeta) {
    let file = MemFile::new(Vec::new());
    let mut builder = TableBuilder::new(file.clone(), PathBuf::from("7.table"), header(), options).unwrap();
    for entry in entries {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value).unwrap();
    }
    let meta = builder.finish(true).unwrap();
    assert_eq!(file.syncs.load(Ordering::Relaxed), 1);
    (file, meta)
}

pub(super) fn open_with(file: Arc<MemFile>, order: KeyOrder, cache: BlockCache) -> Result<Arc<Table>> {
    Table::open(file, PathBuf::from("7.table"), (STORE, FILE), order, cache).map(Arc::new)
}

pub(super) fn open(file: Arc<MemFile>, order: KeyOrder) -> Result<Arc<Table>> {
    open_with(file, order, BlockCache::new(8 << 20))
}
