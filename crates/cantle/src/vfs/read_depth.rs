//! The number of places that a device reads at the same time, as measured.
//!
//! A reader that does not know which of several places it needs may read all of them at once (SifrDB §4.3). It pays
//! if the device serves them together, and if it and the processors have nothing else to do. The time of reads shows
//! both: of a place that was read alone, and of several.
//!
//! Thread safety: used by any number of threads at once. Updates may be lost.

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Maximum number of places, and the number as long as nothing was measured: the published number of search threads
/// (SifrDB §4.3).
pub const DEPTH_MAX: usize = 16;
/// Each read moves an average by this fraction of the difference.
const FRACTION: u64 = 16;
/// A read that took longer counts as one of this time: the system may have stopped the thread.
const TIME_MAX: Duration = Duration::from_millis(20);
/// The gain of reads at once, in thousandths, below which places are read one after the other.
const GAIN_LEAST: u64 = 1250;
/// One of this number of readers reads as many as possible at once, and one reads one at a time, to measure: not
/// one of a hundred is slow for that.
const TRY_EACH: u64 = 256;

/// Times of reads.
#[derive(Debug, Default)]
pub struct ReadDepth {
    /// Average time in nanoseconds of a place that is read alone; 0 before the first one.
    alone: AtomicU64,
    /// Average of the time that places would have taken one after the other, divided by the time that they took
    /// at once, in thousandths; 0 before the first ones.
    gain: AtomicU64,
    /// Number of readers that wait for reads now.
    reading: AtomicUsize,
    asked: AtomicU64,
    /// Files in memory gain nothing.
    #[cfg(test)]
    is_deep_for_test: crate::sync::atomic::AtomicBool,
}

fn move_average(average: &AtomicU64, value: u64) {
    let before = average.load(Relaxed);
    let after = if before == 0 { value } else { before - before / FRACTION + value / FRACTION };
    average.store(after.max(1), Relaxed);
}

/// A reader that waits for reads, until it is dropped.
pub struct Reading<'a>(&'a AtomicUsize);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl ReadDepth {
    pub fn begin(&self) -> Reading<'_> {
        self.reading.fetch_add(1, Relaxed);
        Reading(&self.reading)
    }

    /// Records the time of a number of places that were read at once.
    pub fn note(&self, places: usize, time: Duration) {
        let time = time.min(TIME_MAX).as_nanos() as u64;
        match (places, self.alone.load(Relaxed)) {
            (0, _) => {}
            (1, _) => move_average(&self.alone, time),
            // Nothing to compare with.
            (_, 0) => {}
            (places, alone) => {
                let gain = alone.saturating_mul(1000 * places.min(DEPTH_MAX) as u64) / time.max(1);
                move_average(&self.gain, gain.min(1000 * DEPTH_MAX as u64));
            }
        }
    }

    /// From here on the device counts as deep, whatever is measured.
    #[cfg(test)]
    pub fn deepen_for_test(&self) {
        self.is_deep_for_test.store(true, Relaxed);
    }

    /// The number of places that a reader should read at once now, at least 1.
    pub fn now(&self) -> usize {
        #[cfg(test)]
        if self.is_deep_for_test.load(Relaxed) {
            return DEPTH_MAX;
        }
        let asked = self.asked.fetch_add(1, Relaxed);
        match asked % TRY_EACH {
            0 => return 1,
            1 => return DEPTH_MAX,
            _ => {}
        }
        let all = match self.gain.load(Relaxed) {
            0 => DEPTH_MAX,
            gain if gain < GAIN_LEAST => 1,
            // Deeper than the gain, or a device that could do more would not be noticed.
            gain => (gain as usize).div_ceil(500).min(DEPTH_MAX),
        };
        (all / (self.reading.load(Relaxed) + 1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(alone: u64, (places, at_once): (usize, u64)) -> ReadDepth {
        let depth = ReadDepth::default();
        for _ in 0..100 {
            depth.note(1, Duration::from_micros(alone));
            depth.note(places, Duration::from_micros(at_once));
        }
        depth
    }

    fn usual(depth: &ReadDepth) -> usize {
        depth.asked.store(2, Relaxed);
        depth.now()
    }

    #[test]
    fn the_depth_is_twice_what_the_device_gains_by_it() {
        assert_eq!(usual(&ReadDepth::default()), DEPTH_MAX, "nothing was measured");
        assert_eq!(usual(&noted(60, (8, 160))), 6, "eight places in the time of 2.7");
        assert_eq!(usual(&noted(60, (8, 60))), DEPTH_MAX, "all at the same time");
        assert_eq!(usual(&noted(60, (8, 480))), 1, "one after the other");
        assert_eq!(usual(&noted(60, (8, 4800))), 1, "and processors are busy");
    }

    #[test]
    fn a_few_readers_measure_again_where_it_does_not_pay() {
        let depth = noted(60, (8, 480));
        let tried = (0..2560).filter(|_| depth.now() > 1).count();
        assert_eq!(tried, 10);
        let deep = noted(60, (8, 60));
        assert_eq!((0..2560).filter(|_| deep.now() == 1).count(), 10);
        (0..200).for_each(|_| depth.note(8, Duration::from_micros(100)));
        assert_eq!(usual(&depth), 10, "the device has become faster");
    }

    #[test]
    fn readers_share_the_device() {
        let depth = noted(60, (8, 60));
        let first = depth.begin();
        assert_eq!(usual(&depth), DEPTH_MAX / 2);
        let others: Vec<_> = (0..15).map(|_| depth.begin()).collect();
        assert_eq!(usual(&depth), 1);
        drop((first, others));
        assert_eq!(usual(&depth), DEPTH_MAX);
    }

    #[test]
    fn times_at_their_extremes_are_no_fault() {
        let depth = ReadDepth::default();
        for time in [Duration::ZERO, Duration::MAX] {
            for places in [0, 1, 2, usize::MAX] {
                depth.note(places, time);
                assert!((1..=DEPTH_MAX).contains(&depth.now()));
            }
        }
    }
}
