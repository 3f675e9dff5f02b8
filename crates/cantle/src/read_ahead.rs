//! Read-ahead: the number of bytes that a scan reads at once.
//!
//! A device takes about as long for ten records as for one, but bytes that are read in vain evict
//! others from memory. Therefore a scan begins with about the length of the last runs, and doubles
//! its read each time it comes to the end of the last.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Minimum and maximum in bytes of the reads of a scan that moves forward: small at first, as a
/// scan may be short.
pub const SCAN_BYTES: [u64; 2] = [4 << 10, 128 << 10];
/// The first read of a run is this fraction of the average length of recent runs.
const FIRST_FRACTION: u64 = 2;
/// Each run moves the average by this fraction of the difference.
const RUN_FRACTION: u64 = 8;
/// Length of a page in bytes: reads of a device are whole pages.
const PAGE_BYTES: u64 = 4 << 10;

/// Number of bytes that the cursors of a job have read so far.
pub type BytesRead = Arc<AtomicU64>;

/// Average length, in bytes, of the recent runs of a file: adjacent blocks or records that a scan
/// read.
#[derive(Debug, Default)]
pub struct Runs(AtomicU64);

impl Runs {
    fn note(&self, bytes: u64) {
        let (average, bytes) = (self.0.load(Relaxed), bytes.min(2 * SCAN_BYTES[1]));
        // Runs that end at once may be many. A concurrent update may be lost.
        self.0.store(average - average.div_ceil(RUN_FRACTION) + bytes / RUN_FRACTION, Relaxed);
    }

    /// Length of the first read of a run that begins with `len` bytes at `offset`, up to the end of
    /// a page; 0 for these bytes only.
    pub fn first_bytes(&self, offset: u64, len: u64) -> u64 {
        let bytes = self.0.load(Relaxed) / FIRST_FRACTION;
        if bytes <= len {
            return 0;
        }
        let end = offset.saturating_add(bytes.max(SCAN_BYTES[0]));
        end.checked_next_multiple_of(PAGE_BYTES).map_or(0, |end| (end - offset).min(SCAN_BYTES[1]))
    }
}

/// The path of a scan through a file.
#[derive(Default)]
pub struct Run {
    /// End of the last place visited, if there was one.
    expected: Option<u64>,
    /// True if that place followed the one before it.
    follows: bool,
    /// Length of the last read; 0 if it was no longer than the place visited.
    window: u64,
    /// Start of the run, and the average to update when it is over.
    noted: Option<(u64, Arc<Runs>)>,
}

impl Run {
    /// Moves to the `len` bytes at `offset`. They belong to the run if they begin less than
    /// `gap_bytes` after the end of the last place visited. Without `runs` the run's length is not
    /// recorded.
    pub fn visit(&mut self, (offset, len): (u64, u64), gap_bytes: u64, runs: Option<&Arc<Runs>>) {
        let gap = self.expected.and_then(|expected| offset.checked_sub(expected));
        self.follows = gap.is_some_and(|gap| gap < gap_bytes);
        if !self.follows {
            self.end();
            self.noted = runs.map(|runs| (offset, runs.clone()));
        }
        self.expected = offset.checked_add(len);
    }

    /// Length to read at `offset`, where `len` bytes were visited that are not in memory, within
    /// these limits; 0 for these bytes only.
    pub fn window(&mut self, (offset, len): (u64, u64), [least, most]: [u64; 2]) -> u64 {
        self.window = if self.follows {
            (2 * self.window).clamp(least, most)
        } else {
            self.noted.as_ref().map_or(0, |(_, runs)| runs.first_bytes(offset, len))
        };
        self.window
    }

    fn end(&mut self) {
        if let Some(((begun, runs), end)) = self.noted.take().zip(self.expected) {
            runs.note(end.saturating_sub(begun));
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end();
    }
}
