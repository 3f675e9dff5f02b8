//! A segment of a chunk's log.
//!
//! A segment is written in one epoch by threads that hold its chunk's lock. It is sealed when its
//! chunk is rebalanced or split, and may then belong to several chunks, under key bounds. It
//! consists of parts: older ones, each followed by its index (`indexed_part`), and the newest,
//! indexed in memory (`memory_part`).
//!
//! Invariants:
//!
//! * `len` covers whole operations that are visible or about to be, and grows only under the
//!   chunk's lock. Bytes after it may be truncated.
//! * The state is replaced as a whole, so a reader sees each operation in exactly one part.
//! * A segment of an earlier epoch is loaded when it is first read: its indexed parts through the
//!   chain of part ends, its tail by a scan.
//!
//! Thread safety: reads never wait for writes, but the first read of an old segment loads it under a lock.

use crate::files::Promise;
use crate::files::StoreFile;
use crate::format::header::{FileHeader, HEADER_BYTES};
use crate::log::env::LogEnv;
use crate::log::index::parts::Parts;
use crate::log::tail::Tail;
use crate::manifest::SegmentEdit;
use crate::read_ahead::Runs;
use crate::records::RecordFile;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::on_use::OnUse;
use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use arc_swap::ArcSwapOption;

pub struct Segment {
    pub file: Arc<StoreFile>,
    pub(super) order: KeyOrder,
    /// `None` until an old segment is loaded.
    pub(super) parts: ArcSwapOption<Parts>,
    pub(super) loading: Mutex<()>,
    /// The segment's state in the manifest.
    pub(super) recorded: SegmentEdit,
    /// True if operations after `recorded.len` may count.
    pub(super) open_ended: bool,
    pub(super) len: AtomicU64,
    pub garbage_bytes: AtomicU64,
    /// Bytes of keys and values of its puts.
    pub user_bytes: AtomicU64,
    /// Number of its puts.
    pub puts: AtomicU64,
    /// The part of these bytes that belongs to large puts ([`LogEnv::large_from`]).
    pub large_bytes: AtomicU64,
    /// Offset from which on replaced operations are not counted yet; 0 if all are counted.
    pub(super) uncounted_from: AtomicU64,
    /// The part of its garbage that snapshots below `pinned_below` saw.
    pub pinned_bytes: AtomicU64,
    pub pinned_below: AtomicU64,
    /// The greatest version in it; 0 in a segment of an earlier epoch. Written under the lock of
    /// the chunk that appends to it.
    pub(super) newest_version: AtomicU64,
    pub(super) dirty: AtomicBool,
    pub(super) tail: Tail,
    /// Offsets and lengths in bytes of writes that were revoked since the last part was indexed.
    /// Empty in a log with one writer at a time.
    pub(super) voids: OnUse<Mutex<Vec<(u64, u64)>>>,
    /// Lengths of the runs of adjacent records that scans read.
    pub runs: Arc<Runs>,
}

impl Segment {
    /// A new, empty segment. `in_memory`: appends wait in memory for a flush
    /// (`Durability::Buffered`).
    pub fn create(file: Arc<StoreFile>, header: FileHeader, env: &LogEnv, in_memory: bool) -> Self {
        let order = env.order.clone();
        let tail = match in_memory {
            true => Tail::in_memory(file.clone(), env.memory.clone(), Promise::none(env.space.clone())),
            false => Tail::new(file.clone(), env.memory.clone()),
        };
        let parts = Parts::new(header, Some(Arc::new(env.memory_part())), Vec::new());
        let mut segment =
            Self::unloaded(file, order, SegmentEdit { len: HEADER_BYTES, ..SegmentEdit::default() }, false);
        segment.tail = tail;
        segment.parts.store(Some(Arc::new(parts)));
        segment
    }

    /// A segment of an earlier epoch. `open_ended`: the page cache outlived its writer, so records
    /// after the recorded length count up to the first bad one.
    pub fn unloaded(file: Arc<StoreFile>, order: KeyOrder, recorded: SegmentEdit, open_ended: bool) -> Self {
        Self {
            tail: Tail::ended(file.clone()),
            file,
            order,
            parts: ArcSwapOption::empty(),
            loading: Mutex::new(()),
            recorded,
            open_ended,
            len: AtomicU64::new(recorded.len),
            garbage_bytes: AtomicU64::new(recorded.garbage_bytes),
            user_bytes: AtomicU64::new(recorded.user_bytes),
            puts: AtomicU64::new(recorded.puts),
            large_bytes: AtomicU64::new(recorded.large_bytes),
            uncounted_from: AtomicU64::new(recorded.uncounted_from),
            pinned_bytes: AtomicU64::new(0),
            pinned_below: AtomicU64::new(0),
            newest_version: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            voids: OnUse::default(),
            runs: Arc::default(),
        }
    }

    pub fn len(&self) -> u64 {
        self.len.load(Acquire)
    }

    pub fn set_len(&self, len: u64) {
        self.len.store(len, Release);
        self.file.set_bytes(len);
    }

    /// Length of the log. For a segment that is not loaded and may have grown since its length was
    /// recorded: length of its file.
    pub fn file_len(&self) -> Result<u64> {
        if !self.open_ended || self.loaded().is_some() {
            return Ok(self.len());
        }
        self.file.handle()?.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))
    }

    /// Bytes after the recorded end of a log that is not loaded. They count up to the first bad record, and are in no total until
    /// somebody loads the log: in a store that is open for reading, perhaps never. 0 where the length cannot be read.
    pub fn unread_bytes(&self) -> u64 {
        self.file_len().map_or(0, |len| len.saturating_sub(self.len()))
    }

    /// The parts, if they are in memory.
    pub fn loaded(&self) -> Option<Arc<Parts>> {
        self.parts.load_full()
    }

    /// The parts, loaded if necessary.
    pub fn parts(&self, env: &LogEnv) -> Result<Arc<Parts>> {
        if let Some(parts) = self.loaded() {
            return Ok(parts);
        }
        let _loading = self.loading.lock();
        if let Some(parts) = self.loaded() {
            return Ok(parts);
        }
        let parts = Arc::new(self.load(env)?);
        self.parts.store(Some(parts.clone()));
        Ok(parts)
    }

    /// The parts, if they are in memory and every operation is in an indexed one.
    pub fn all_indexed(&self) -> Option<Arc<Parts>> {
        self.loaded().filter(|parts| parts.memory.as_ref().is_none_or(|memory| memory.is_empty()))
    }

    /// Drops the state that can be loaded again. Only for segments of earlier epochs.
    pub fn unload(&self, env: &LogEnv) -> bool {
        let old = self.loaded().is_some_and(|parts| parts.header.epoch < env.epoch());
        if old {
            self.parts.store(None);
        }
        old
    }

    /// Offset from which on replaced operations are not counted yet; 0 if all are counted.
    pub fn uncounted_from(&self) -> u64 {
        self.uncounted_from.load(Relaxed)
    }

    /// True if its operations may not be counted: it was not loaded yet after its writer was killed, or an index is
    /// to tell what it hides.
    pub fn is_uncounted(&self) -> bool {
        self.uncounted_from() > 0 || (self.open_ended && self.loaded().is_none())
    }

    /// Everything is to be counted later.
    pub fn count_later(&self) {
        self.uncounted_from.store(HEADER_BYTES, Relaxed);
    }

    /// Marks the count of replaced operations as complete.
    pub fn end_count(&self) {
        self.uncounted_from.store(0, Relaxed);
    }

    pub(super) fn record_file(&self, header: FileHeader) -> Result<RecordFile> {
        Ok(RecordFile { file: self.file.handle()?, path: self.file.path.clone(), header })
    }

    /// Sorts in the operations that the newest part has only noted, so that readers find them.
    pub fn merge_deferred(&self) {
        if let Some(memory) = self.loaded().and_then(|parts| parts.memory.clone()) {
            memory.merge_deferred();
        }
    }

    /// No record has a greater version. The caller holds the lock of a chunk that the segment
    /// belongs to.
    pub fn newest_version(&self) -> u64 {
        self.newest_version.load(Relaxed)
    }

    /// Records that the write at this place was revoked.
    pub fn add_void(&self, offset: u64, bytes: u64) {
        self.voids.lock().push((offset, bytes));
    }
}
