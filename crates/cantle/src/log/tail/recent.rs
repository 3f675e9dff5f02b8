//! The last writes to all logs, kept in memory for a while after they were written to their files.
//!
//! The newest records are often read next: the last minute of an app, the newest messages of a
//! user. In a chunk without a munk such records are scattered over the ends of logs, so a scan
//! reads each by a call of its own. Here the last appends to all logs stay in memory, as an LSM
//! tree has them in its memtable (O'Neil et al., 1996). The oldest leave first. Their memory is the
//! part of the logs' share that indexes of logs, and logs that are merged, do not use.
//!
//! A [`RecentEnd`] belongs to one log and has *runs* of its bytes as they stand in the file.
//! [`Recent`] has the runs of all logs in the order in which they were added.
//!
//! Invariants:
//!
//! * A run equals the file at its place. It is therefore kept after it was written, and dropped
//!   before these bytes are truncated or overwritten: appends, truncations and drains of one log
//!   are serialised.
//! * Runs of a log ascend.
//! * A run stays charged until it leaves the queue, even if its log was dropped before.
//!
//! Thread safety: all methods may be called from any thread; methods that change one log's end, by
//! one thread at a time. `Recent::queue` is locked before the runs of an end, never the other way
//! round.

use crate::memory::pages::Buffer;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::counter::Counter;
use crate::sync::{Arc, Mutex, RwLock};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Weak;

/// Bytes charged for a run beside its content: its entries in two queues and the allocator's
/// overhead.
pub(super) const RUN_OVERHEAD_BYTES: u64 = 128;
/// Minimum length in bytes of a mapped run: mappings are whole pages.
pub(super) const MAPPED_BYTES_MIN: usize = 4 << 10;
/// A run takes at most this fraction of the limit, so that one long value does not evict everything
/// else.
const RUN_FRACTION: u64 = 8;

/// The runs of all logs of one memory budget, the oldest first.
#[derive(Default)]
pub(crate) struct Recent {
    queue: Mutex<VecDeque<QueuedRun>>,
    bytes: AtomicU64,
    reads: Counter,
}

/// A run in the order in which runs leave memory.
struct QueuedRun {
    end: Weak<RecentEnd>,
    at: u64,
    bytes: u64,
}

/// The runs of one log.
pub(crate) struct RecentEnd {
    runs: RwLock<VecDeque<Run>>,
    /// Offset of the first run, `u64::MAX` if there is none: readers of older records take no lock.
    from: AtomicU64,
}

struct Run {
    at: u64,
    bytes: Bytes,
}

impl Run {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// A copy, and the memory that it takes. Long runs are mapped: they are freed in another order than
/// the rest of the allocator's heap, and would leave holes in it.
fn copy_of(bytes: &[u8]) -> (Bytes, u64) {
    let mapped_bytes = if bytes.len() < MAPPED_BYTES_MIN { 0 } else { bytes.len() };
    let Some(mut buffer) = Buffer::mapped(mapped_bytes) else {
        return (Bytes::copy_from_slice(bytes), bytes.len() as u64);
    };
    buffer.as_mut().copy_from_slice(bytes);
    let memory_bytes = buffer.memory_bytes();
    (Bytes::from_owner(buffer), memory_bytes)
}

impl Recent {
    /// Keeps bytes that were written to a log at `at`, and drops the oldest runs beyond
    /// `limit_bytes`.
    pub fn keep(&self, end: &Arc<RecentEnd>, at: u64, bytes: &[u8], limit_bytes: u64) {
        let fits = bytes.len() as u64 + RUN_OVERHEAD_BYTES <= limit_bytes / RUN_FRACTION;
        let taken = fits.then(|| {
            let (bytes, memory_bytes) = copy_of(bytes);
            end.push(Run { at, bytes });
            memory_bytes + RUN_OVERHEAD_BYTES
        });
        let mut queue = self.queue.lock();
        if let Some(taken) = taken {
            queue.push_back(QueuedRun { end: Arc::downgrade(end), at, bytes: taken });
            self.bytes.fetch_add(taken, Relaxed);
        }
        while self.bytes() > limit_bytes
            && let Some(oldest) = queue.pop_front()
        {
            if let Some(end) = oldest.end.upgrade() {
                end.forget(oldest.at);
            }
            self.bytes.fetch_sub(oldest.bytes, Relaxed);
        }
    }

    /// `len` bytes of a log at `at`, if all of them are in memory.
    pub fn read(&self, end: &RecentEnd, at: u64, len: usize) -> Option<Vec<u8>> {
        let bytes = end.read(at, len)?;
        self.reads.add(1);
        Some(bytes)
    }

    /// Memory of all runs.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Number of records that were read here instead of from a file.
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }
}

impl RecentEnd {
    pub fn new() -> Self {
        Self { runs: RwLock::default(), from: AtomicU64::new(u64::MAX) }
    }

    fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if at < self.from.load(Acquire) {
            return None;
        }
        let runs = self.runs.read();
        let run = runs.get(runs.partition_point(|run| run.at <= at).checked_sub(1)?)?;
        let start = (at - run.at) as usize;
        Some(run.bytes.get(start..start.checked_add(len)?)?.to_vec())
    }

    /// Drops all runs that reach beyond `len`. Call it before the bytes there are overwritten or
    /// truncated.
    pub fn truncate(&self, len: u64) {
        let mut runs = self.runs.write();
        while runs.back().is_some_and(|run| run.end() > len) {
            runs.pop_back();
        }
        self.note(&runs);
    }

    fn push(&self, run: Run) {
        let mut runs = self.runs.write();
        debug_assert!(runs.back().is_none_or(|last| last.end() <= run.at), "appends to the end");
        runs.push_back(run);
        self.note(&runs);
    }

    /// Drops the run at `at` and all before it.
    fn forget(&self, at: u64) {
        let mut runs = self.runs.write();
        while runs.front().is_some_and(|run| run.at <= at) {
            runs.pop_front();
        }
        self.note(&runs);
    }

    fn note(&self, runs: &VecDeque<Run>) {
        self.from.store(runs.front().map_or(u64::MAX, |run| run.at), Release);
    }
}
