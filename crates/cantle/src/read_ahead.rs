//! How much of a file a scan reads at once.
//!
//! A device takes about as long for ten records as for one, but what is read in vain drives something else out of memory. So a
//! scan begins with about as much as the last ones came to, and reads twice as much each time it comes to the end of that.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where it goes on, a scan reads at least this much at once, and at most: a short one is over soon.
pub const SCAN_BYTES: [u64; 2] = [4 << 10, 128 << 10];
/// A run begins with as much as this fraction of what runs lately came to.
const FIRST_FRACTION: u64 = 2;
/// The average of runs moves by this fraction of the difference.
const RUN_FRACTION: u64 = 8;
/// What is read of a device is whole pages.
const PAGE_BYTES: u64 = 4 << 10;

/// How long runs lately were in which scans read a file: things that lie behind one another.
#[derive(Debug, Default)]
pub struct Runs(AtomicU64);

impl Runs {
    fn note(&self, bytes: u64) {
        let (average, bytes) = (self.0.load(Relaxed), bytes.min(2 * SCAN_BYTES[1]));
        // Runs that end at once may be many: what others have noted meanwhile may be lost.
        self.0.store(average - average.div_ceil(RUN_FRACTION) + bytes / RUN_FRACTION, Relaxed);
    }

    /// How much a run that begins with `len` bytes at `offset` reads first: up to the end of a page; 0 if no more than these.
    fn first_bytes(&self, offset: u64, len: u64) -> u64 {
        let bytes = self.0.load(Relaxed) / FIRST_FRACTION;
        if bytes <= len {
            return 0;
        }
        let end = offset.saturating_add(bytes.max(SCAN_BYTES[0]));
        end.checked_next_multiple_of(PAGE_BYTES).map_or(0, |end| (end - offset).min(SCAN_BYTES[1]))
    }
}

/// A scan's way through a file.
#[derive(Default)]
pub struct Run {
    /// Where what it visited last ended, if there was something.
    expected: Option<u64>,
    /// Whether that followed what it visited before.
    follows: bool,
    /// How much was read at once last; 0 if no more than was visited.
    window: u64,
    /// Where the run began, and where it is noted when it is over.
    noted: Option<(u64, Arc<Runs>)>,
}

impl Run {
    /// Goes to the `len` bytes at `offset`, which belong to the run if they lie behind what was visited last, less than `gap_bytes`
    /// apart. Without `runs` no run is noted.
    pub fn visit(&mut self, (offset, len): (u64, u64), gap_bytes: u64, runs: Option<&Arc<Runs>>) {
        let gap = self.expected.and_then(|expected| offset.checked_sub(expected));
        self.follows = gap.is_some_and(|gap| gap < gap_bytes);
        if !self.follows {
            self.end();
            self.noted = runs.map(|runs| (offset, runs.clone()));
        }
        self.expected = offset.checked_add(len);
    }

    /// How much to read at `offset`, of `len` bytes that were visited and are not in memory, within these limits; 0 if no more than
    /// they are.
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
