//! What was written to logs last, in memory for a while: how much stays of what a log's tail has written to its file.
//!
//! What was written last is often read next: the last minute of an app, the newest messages of a user. In a chunk without a
//! munk such records lie scattered over the ends of logs, so that a scan reads each by a call of its own. Here the last
//! appends to all logs stay in memory, as an LSM tree has them in its memtable (O'Neil et al., 1996), the oldest go first, and what they take is
//! what the indexes of logs, and logs that are merged, do not use of theirs.
//!
//! A [`RecentEnd`] belongs to one log, and has *runs* of its bytes as they stand in the file; [`Recent`] knows the runs of all
//! logs in the order in which they came.
//!
//! Invariants: a run equals the file where it stands. So it is kept once it is written, and gone before what is there is
//! cut off or overwritten: its log's appends, cuts and drains are one after the other. Runs of a log ascend. A run counts as taken
//! until it is forgotten, even if its log is gone before.
//!
//! Thread safety: all methods may be called from any thread; those that change one log's end by one thread at once. `Recent::queue`
//! is locked before the runs of an end, never the other way round.

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
const RUN_OVERHEAD_BYTES: u64 = 128;
/// From here on a run is mapped: a page is the least that is.
const MAPPED_BYTES_MIN: usize = 4 << 10;
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

/// A copy, and the memory that it takes. Longer ones are mapped, as they go in another order than what else is in the allocator's heap,
/// and would leave it with holes.
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

    /// Forgets what stands at `len` or behind it, in whole runs: to be called before it is overwritten or cut off.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: u64 = 100 + RUN_OVERHEAD_BYTES;

    #[test]
    fn runs_of_any_length_are_read_as_they_were_written_and_counted_by_their_memory() {
        let (recent, end) = (Recent::default(), Arc::new(RecentEnd::new()));
        let lens = [1, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, MAPPED_BYTES_MIN + 1, 70_001];
        let mut at = 0;
        for len in lens {
            let bytes: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
            let before = recent.bytes();
            recent.keep(&end, at, &bytes, u64::MAX);
            let taken = recent.bytes() - before - RUN_OVERHEAD_BYTES;
            assert!(
                taken >= len as u64 && taken < (len + len / 4 + MAPPED_BYTES_MIN) as u64,
                "{len}: {taken}"
            );
            assert_eq!(end.read(at, len), Some(bytes));
            at += len as u64;
        }
    }

    #[test]
    fn the_oldest_of_all_logs_go_first() {
        let recent = Recent::default();
        let (one, two) = (Arc::new(RecentEnd::new()), Arc::new(RecentEnd::new()));
        let limit = 10 * RUN;
        for run in 0..5 {
            recent.keep(&one, run * 100, &[1; 100], limit);
            recent.keep(&two, run * 100, &[2; 100], limit);
        }
        assert_eq!(recent.bytes(), limit);
        assert_eq!(recent.read(&one, 10, 90), Some(vec![1; 90]));
        recent.keep(&two, 500, &[2; 100], limit);
        assert!(recent.read(&one, 10, 90).is_none() && recent.read(&two, 10, 90).is_some());
        assert_eq!(recent.bytes(), limit);
        // A log that is gone gives way as all others do.
        drop(one);
        (6..20).for_each(|run| recent.keep(&two, run * 100, &[2; 100], limit));
        assert_eq!(recent.bytes(), limit);
        assert!(recent.read(&two, 999, 1).is_none() && recent.read(&two, 1000, 100).is_some());
        assert_eq!(recent.reads(), 3);
    }

    #[test]
    fn a_long_one_drives_nothing_out_and_a_lower_limit_does() {
        let recent = Recent::default();
        let end = Arc::new(RecentEnd::new());
        recent.keep(&end, 0, &[1; 100], 10 * RUN);
        recent.keep(&end, 100, &[1; 1000], 10 * RUN);
        assert!(end.read(0, 100).is_some() && end.read(100, 1).is_none());
        recent.keep(&end, 1100, &[1; 100], 0);
        assert!(end.read(0, 1).is_none());
        assert_eq!(recent.bytes(), 0);
    }

    proptest! {
        /// Appends, cuts and other logs' appends: what is read is what the file holds, or nothing.
        #[test]
        fn runs_equal_the_file(steps in proptest::collection::vec((0..8u8, 1..200usize, any::<u8>()), 1..100)) {
            let recent = Recent::default();
            let ends = [Arc::new(RecentEnd::new()), Arc::new(RecentEnd::new())];
            let mut files = [Vec::new(), Vec::new()];
            for (what, len, byte) in steps {
                let which = usize::from(byte & 1);
                let (file, end): (&mut Vec<u8>, _) = (&mut files[which], &ends[which]);
                match what {
                    0..=5 => {
                        let bytes = vec![byte; len];
                        recent.keep(end, file.len() as u64, &bytes, 2000);
                        file.extend(bytes);
                    }
                    6 => file.extend(vec![byte; len]),
                    _ => {
                        let kept = file.len().saturating_sub(len);
                        end.truncate(kept as u64);
                        file.truncate(kept);
                    }
                }
                prop_assert!(recent.bytes() <= 2000);
                for at in 0..file.len() {
                    for len in [1, 30] {
                        if let Some(read) = end.read(at as u64, len) {
                            prop_assert_eq!(&read[..], &file[at..at + len]);
                        }
                    }
                }
                // Nothing lies behind the end.
                prop_assert!(end.read(file.len() as u64, 1).is_none());
            }
        }
    }
}
