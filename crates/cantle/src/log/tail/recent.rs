//! The last writes to all logs, in memory for a while: how much stays there of what a tail has written to its
//! file.
//!
//! The newest records are often read next: the last minute of an app, the newest messages of a user. In a
//! chunk without a munk such records lie scattered over the ends of logs, so that a scan reads each by a call
//! of its own. Here the last appends to all logs stay in memory, as an LSM tree has them in its memtable
//! (O'Neil et al., 1996), the oldest go first, and what they take is what the indexes of logs, and logs that
//! are merged, do not use of theirs.
//!
//! A [`RecentEnd`] belongs to one log, and has *runs* of its bytes as they stand in the file; [`Recent`]
//! knows the runs of all logs in the order in which they came.
//!
//! Invariants: a run equals the file where it stands. So it is kept once it is written, and gone before what
//! is there is cut off or overwritten: its log's appends, cuts and drains are one after the other. Runs of a
//! log ascend. A run counts as taken until it is forgotten, even if its log is gone before.
//!
//! Thread safety: all methods may be called from any thread; those that change one log's end by one thread at
//! once. `Recent::queue` is locked before the runs of an end, never the other way round.

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

/// What a run costs beside its bytes: its places in two queues and the allocator's own.
pub(super) const RUN_OVERHEAD_BYTES: u64 = 128;
/// From here on a run is mapped: a page is the least that is.
pub(super) const MAPPED_BYTES_MIN: usize = 4 << 10;
/// A run takes at most this fraction of all, so that one long value does not drive everything out.
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

/// What of one log is in memory.
pub(crate) struct RecentEnd {
    runs: RwLock<VecDeque<Run>>,
    /// Where the first run begins, `u64::MAX` without any: who looks for older records takes no lock.
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

/// A copy, and the memory that it takes. Longer ones are mapped, as they go in another order than what else
/// is in the allocator's heap, and would leave it with holes.
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
    /// Keeps what has been written to a log at `at`, and forgets the oldest beyond `limit_bytes`.
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

    /// `len` bytes of a log at `at`, if all of them are here.
    pub fn read(&self, end: &RecentEnd, at: u64, len: usize) -> Option<Vec<u8>> {
        let bytes = end.read(at, len)?;
        self.reads.add(1);
        Some(bytes)
    }

    /// Memory of all runs.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Records that were read here instead of a file.
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

    /// Forgets what stands at `len` or behind it, in whole runs: to be called before it is overwritten or cut
    /// off.
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

    /// Forgets the run at `at` and any before it.
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
