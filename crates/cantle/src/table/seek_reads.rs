//! Parallel seeks (PebblesDB §4.2): the device reads for all runs of a seek at the same time.
//!
//! A seek needs a block of each run. PebblesDB gives each table to a thread of its own, in the last
//! level only, as threads cost more than they gain where tables are cached. Here the caller's thread
//! asks the device for the indexes of all runs, and then for their blocks, before it waits for the first
//! ([`EntryCursor::announce`]), so there is no thread to wait for, and errors are those of the reads
//! that follow. Reads that nothing announced are timed: they show if this pays.
//!
//! An announcement cannot make a result wrong, as no data comes back from it and the seek that follows
//! places the index and chooses the block by its own key.
//!
//! Thread safety: one for all tables of a store, used by any number of threads at once.
//!
//! [`EntryCursor::announce`]: crate::types::entry::EntryCursor::announce

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::counter::Counter;
use std::time::Duration;

/// Average time of a read from which on announcements pay. A place on a local SSD takes 45 to 73 µs
/// (`vfs/read_queue.rs`), and one in the page cache some microseconds. The value lies between, near
/// the lower one, as an announcement is one system call; it was not tuned by a measurement.
const PAYS_FROM: Duration = Duration::from_micros(6);
/// A read that took longer counts as one of this time: the system may have stopped the thread.
const TIME_MAX: Duration = Duration::from_millis(1);
/// Each read moves the average by this fraction of the difference.
const READ_FRACTION: u64 = 16;

/// Times of the reads of seeks, and the number of blocks that were announced.
#[derive(Debug, Default)]
pub struct SeekReads {
    /// Average time of a read in nanoseconds.
    average: AtomicU64,
    announced: Counter,
}

impl SeekReads {
    /// Records the time of a read that nothing announced.
    pub(super) fn note(&self, time: Duration) {
        let (average, time) = (self.average.load(Relaxed), time.min(TIME_MAX).as_nanos() as u64);
        // A concurrent update may be lost.
        self.average.store(average - average / READ_FRACTION + time / READ_FRACTION, Relaxed);
    }

    /// True if reads take so long that the next ones are to begin earlier.
    pub(super) fn are_slow(&self) -> bool {
        u128::from(self.average.load(Relaxed)) >= PAYS_FROM.as_nanos()
    }

    pub(super) fn count(&self) {
        self.announced.add(1);
    }

    /// Number of blocks that the device was asked for before their turn.
    pub(crate) fn announced(&self) -> u64 {
        self.announced.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_pay_where_reads_wait_for_a_device() {
        let reads = SeekReads::default();
        let note = |count, micros| (0..count).for_each(|_| reads.note(Duration::from_micros(micros)));
        assert!(!reads.are_slow());
        note(1000, 2);
        assert!(!reads.are_slow());
        note(100, 40);
        assert!(reads.are_slow());
        // One read of ten waits for the device.
        for _ in 0..100 {
            note(9, 2);
            note(1, 60);
        }
        assert!(reads.are_slow());
        note(1000, 2);
        assert!(!reads.are_slow());
    }

    #[test]
    fn a_thread_that_was_stopped_is_soon_forgotten() {
        let reads = SeekReads::default();
        reads.note(Duration::from_secs(3600));
        (0..100).for_each(|_| reads.note(Duration::from_micros(2)));
        assert!(!reads.are_slow());
    }
}
