//! A chunk: a key range, its lock, and its files (EvenDB §2.2).

use crate::chunk::munk::Munk;
use crate::log::op::record::Link;
use crate::log::segment::Segment;
use crate::run::stack::RunStack;
use crate::substrate::{Health, Substrate};
use crate::sync::Arc;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::counter::sampled;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

/// One of this many gets of a thread is counted, with this weight.
const SAMPLED_READS: u64 = 8;
/// Additional cost of a get that searches the index of a log, compared with one in a table: that of
/// walking this many entries.
const LOG_GET_DEBT: u64 = 4;
/// Number of puts that count as much as one get.
const WRITES_PER_READ: u64 = 8;

pub struct Chunk {
    // Immutable.
    pub id: u64,
    pub span: Span,

    /// The paper's *rebalanceLock*. A write holds it while it appends, and a rebalance briefly when
    /// it diverts the log and when it replaces the funk. Several are taken in key order.
    pub writer: Arc<Mutex<ChunkWriter>>,

    /// Replaced under `writer`; read by anyone.
    pub funk: ArcSwap<RunStack>,
    /// The content of the chunk, while it is popular. Set, replaced and written under `writer`;
    /// read by anyone.
    pub munk: ArcSwapOption<Munk>,

    // Atomic.
    /// The paper's *funkChangeLock*: one thread at a time rebuilds the files.
    changing: AtomicBool,
    /// No write since the store was opened has a greater version. Set under `writer`. 0 in a chunk
    /// that was only read: writes of earlier epochs are older than every open snapshot.
    newest: AtomicU64,
    /// True while a job for this chunk waits in the pool.
    pub queued: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    /// Tick of the last access.
    last_access: AtomicU64,
    /// Number of entries that reads processed in addition because the chunk is not sorted.
    read_debt: AtomicU64,
    /// Maximum number of consecutive deleted keys that a cursor skipped.
    dead_run: AtomicU64,
    /// Number of keys that were deleted in ascending order: a cursor may have to skip as many.
    pub deleted_in_order: AtomicU64,
    /// Version of the oldest snapshot under which a rebalance freed little, plus one; 0 if none
    /// did.
    futile_under: AtomicU64,
    /// The chunk is not loaded into memory before this tick, as a load was tried recently.
    load_after: AtomicU64,
    /// The chunk is not split before this tick, as a split was refused recently.
    split_after: AtomicU64,
    /// The chunk is not sorted for compression before this tick, as that was tried recently.
    compress_after: AtomicU64,
    /// True while a thread copies the munk without its garbage.
    pub cleaning: AtomicBool,
}

/// State guarded by the lock.
#[derive(Default)]
pub struct ChunkWriter {
    /// True once the chunk was split or merged: look it up again.
    pub retired: bool,
    pub active: Option<Active>,
    /// The first and the last of the keys that were recently deleted in ascending order, from a
    /// chunk without a munk; and their number.
    deleted: (Vec<u8>, Vec<u8>),
    deleted_in_order: u64,
}

impl ChunkWriter {
    /// Records the delete of a key from a chunk without a munk. Returns the number of keys deleted
    /// in ascending order so far.
    pub fn note_delete(&mut self, order: &KeyOrder, key: &[u8]) -> u64 {
        let (first, last) = &mut self.deleted;
        if self.deleted_in_order == 0 || order.compare(last, key) != std::cmp::Ordering::Less {
            self.deleted_in_order = 0;
            first.clear();
            first.extend_from_slice(key);
        }
        self.deleted_in_order += 1;
        last.clear();
        last.extend_from_slice(key);
        self.deleted_in_order
    }

    /// The first of the keys that were deleted in ascending order. Resets the count.
    pub fn take_deleted(&mut self) -> Vec<u8> {
        self.deleted_in_order = 0;
        std::mem::take(&mut self.deleted.0)
    }

    /// Length of the log's part that is indexed in memory only.
    pub fn part_bytes(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.end - active.part_start)
    }

    /// Ends the log: the next write begins another segment.
    pub fn end_log(&mut self, substrate: &Substrate) {
        if let Some(active) = self.active.take() {
            substrate.try_later(active.segment.end_appends(), "drain a log");
        }
    }

    /// Truncates the bytes that a failed append may have left after the log's end. Neither the next
    /// append nor an opening of the store after this process may find them.
    pub fn take_back(&mut self, health: &Health) {
        let Some(Active { segment, end, .. }) = &self.active else { return };
        let Err(error) = segment.truncate(*end) else { return };
        // The next write begins another segment. This one counts up to its end, as no record
        // follows any more.
        tracing::warn!(%error, "abandons a log whose failed append cannot be taken back");
        if let Err(error) = segment.zero_tail(*end) {
            health.fail(format!(
                "a write that failed could not be taken back ({error}): find out what is wrong with the disk, then reopen the \
                 store, where that write may be found"
            ));
        }
        self.active = None;
    }
}

/// The segment that writes are appended to.
pub struct Active {
    pub segment: Arc<Segment>,
    /// The offset of the next record.
    pub end: u64,
    /// The start of the part that is indexed in memory.
    pub part_start: u64,
    /// The link of the next operation, which describes the operations before it.
    pub link: Link,
}

impl Chunk {
    pub fn new(id: u64, span: Span, funk: RunStack) -> Self {
        Self {
            id,
            span,
            writer: Arc::default(),
            funk: ArcSwap::from_pointee(funk),
            munk: ArcSwapOption::empty(),
            changing: AtomicBool::new(false),
            newest: AtomicU64::new(0),
            queued: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            last_access: AtomicU64::new(0),
            read_debt: AtomicU64::new(0),
            dead_run: AtomicU64::new(0),
            deleted_in_order: AtomicU64::new(0),
            futile_under: AtomicU64::new(0),
            load_after: AtomicU64::new(0),
            split_after: AtomicU64::new(0),
            compress_after: AtomicU64::new(0),
            cleaning: AtomicBool::new(false),
        }
    }

    /// Begins to rebuild the chunk's files, unless another thread is doing so.
    pub fn begin_change(self: &Arc<Self>) -> Option<Change> {
        (!self.changing.swap(true, AcqRel)).then(|| Change { chunk: self.clone() })
    }

    pub fn is_changing(&self) -> bool {
        self.changing.load(Acquire)
    }

    /// Records a write at this version. The caller holds the lock.
    pub fn note_version(&self, version: u64) {
        // A plain store is enough under the lock, and most writes find their version there already.
        if self.newest_version() < version {
            self.newest.store(version, Relaxed);
        }
    }

    /// The greatest version written. The caller holds the lock.
    pub fn newest_version(&self) -> u64 {
        self.newest.load(Relaxed)
    }

    /// Counts one of several gets for all of them, so that threads that read one chunk do not wait
    /// for its cache line. Returns the number of gets that this one was counted for.
    pub fn touch_read(&self, tick: &AtomicU64) -> Option<u64> {
        sampled(SAMPLED_READS).then(|| {
            self.reads.fetch_add(SAMPLED_READS, Relaxed);
            self.last_access.store(tick.load(Relaxed), Relaxed);
            SAMPLED_READS
        })
    }

    /// Counts a scan as several gets: it walks a part of the chunk.
    pub fn touch_scan(&self, tick: &AtomicU64) {
        self.last_access.store(tick.load(Relaxed), Relaxed);
        self.reads.fetch_add(8, Relaxed);
    }

    pub fn touch_write(&self, puts: u64, tick: &AtomicU64) {
        self.last_access.store(tick.load(Relaxed), Relaxed);
        self.writes.fetch_add(puts, Relaxed);
    }

    pub fn owe_reads(&self, entries: u64) {
        if entries > 0 {
            self.read_debt.fetch_add(entries, Relaxed);
        }
    }

    /// Records that a get searched the index of a log. Counts one of several for all, as
    /// `touch_read`.
    pub fn owe_log_get(&self) {
        if sampled(SAMPLED_READS) {
            self.owe_reads(SAMPLED_READS * LOG_GET_DEBT);
        }
    }

    pub fn read_debt(&self) -> u64 {
        self.read_debt.load(Relaxed)
    }

    pub fn dead_run(&self) -> u64 {
        self.dead_run.load(Relaxed)
    }

    /// Records the number of consecutive deleted keys that a cursor skipped.
    pub fn note_dead_run(&self, keys: u64) {
        if keys > self.dead_run() {
            self.dead_run.store(keys, Relaxed);
        }
    }

    pub fn forgive_reads(&self) {
        self.dead_run.store(0, Relaxed);
        self.read_debt.store(0, Relaxed);
    }

    pub fn set_futile(&self, oldest: Option<u64>) {
        self.futile_under.store(oldest.map_or(0, |oldest| oldest + 1), Relaxed);
    }

    /// True if a rebalance for space would free as little as the last one did, because the oldest
    /// snapshot is still the same.
    pub fn was_futile(&self, oldest: Option<u64>) -> bool {
        oldest.is_some_and(|oldest| self.futile_under.load(Relaxed) == oldest + 1)
    }

    /// Prevents loads into memory before this tick, after one failed.
    pub fn put_off_load(&self, tick: u64) {
        self.load_after.store(tick, Relaxed);
    }

    pub fn may_be_loaded(&self, tick: u64) -> bool {
        tick >= self.load_after.load(Relaxed)
    }

    /// Prevents splits before this tick, after one was refused.
    pub fn put_off_split(&self, tick: u64) {
        self.split_after.store(tick, Relaxed);
    }

    pub fn may_be_split(&self, tick: u64) -> bool {
        tick >= self.split_after.load(Relaxed)
    }

    /// Prevents further attempts to sort for compression before this tick, in case the one that
    /// begins fails.
    pub fn put_off_compression(&self, tick: u64) {
        self.compress_after.store(tick, Relaxed);
    }

    pub fn may_be_compressed(&self, tick: u64) -> bool {
        tick >= self.compress_after.load(Relaxed)
    }

    /// Recent accesses, weighted by their gain from a munk (YoDB weighs them by type): a put gains
    /// little.
    pub fn score(&self) -> u64 {
        self.reads.load(Relaxed) + self.writes.load(Relaxed) / WRITES_PER_READ
    }

    /// Tick of the last access.
    pub fn last_access(&self) -> u64 {
        self.last_access.load(Relaxed)
    }

    /// Recent accesses.
    pub fn heat(&self) -> u64 {
        self.reads.load(Relaxed) + self.writes.load(Relaxed)
    }

    /// Exponential decay (EvenDB §4): halves the counts.
    pub fn decay(&self) {
        for counter in [&self.reads, &self.writes] {
            counter.store(counter.load(Relaxed) / 2, Relaxed);
        }
    }

    /// Resets the count of writes: later ones go to another chunk.
    pub fn forget_writes(&self) {
        self.writes.store(0, Relaxed);
    }

    /// Takes over a part of the heat of the chunk that this one was split from, and its last
    /// access: the next inserts in key order go to this chunk.
    pub fn inherit(&self, parent: &Self, share: u64) {
        self.last_access.store(parent.last_access(), Relaxed);
        self.reads.store(parent.reads.load(Relaxed) / share.max(1), Relaxed);
        self.writes.store(parent.writes.load(Relaxed) / share.max(1), Relaxed);
    }
}

/// The right to rebuild a chunk's files.
pub struct Change {
    chunk: Arc<Chunk>,
}

impl Drop for Change {
    fn drop(&mut self) {
        self.chunk.changing.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the chunk that the next inserts in order go to would be evicted first, as one that
    /// was never accessed.
    #[test]
    fn who_succeeds_an_accessed_chunk_was_accessed_as_lately() {
        let [parent, child] =
            [1, 2].map(|id| Chunk::new(id, Span::default(), RunStack { files: Vec::new() }));
        parent.touch_write(100, &AtomicU64::new(1000));
        child.inherit(&parent, 4);
        assert_eq!((child.last_access(), child.score()), (1000, parent.score() / 4));
    }
}
