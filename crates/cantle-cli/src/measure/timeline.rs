//! Operations finished per 100 ms: a mean hides stalls, this does not.

use std::time::Duration;

/// Length of one interval, in milliseconds.
pub(crate) const INTERVAL_MS: u64 = 100;

/// Counts operations by the interval in which they finished. Each thread has its own; they are
/// added up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    counts: Vec<u32>,
}

impl Timeline {
    /// Counts an operation that finished `elapsed` after the start.
    pub(crate) fn record(&mut self, elapsed: Duration) {
        let interval = (elapsed.as_millis() / u128::from(INTERVAL_MS)) as usize;
        if interval >= self.counts.len() {
            self.counts.resize(interval + 1, 0);
        }
        self.counts[interval] += 1;
    }

    /// Adds another thread's counts.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    /// The longest time without a single finished operation, in whole intervals: 0 if there was one
    /// in each.
    pub(crate) fn longest_gap(&self) -> Duration {
        let (mut longest, mut current) = (0u64, 0u64);
        for &count in &self.counts {
            current = if count == 0 { current + 1 } else { 0 };
            longest = longest.max(current);
        }
        Duration::from_millis(longest * INTERVAL_MS)
    }

    /// The fewest operations in an interval, the last, incomplete one left out; `None` below two
    /// intervals.
    pub(crate) fn slowest_interval(&self) -> Option<u32> {
        let (_, complete) = self.counts.split_last()?;
        complete.iter().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: &[u64]) -> Timeline {
        let mut timeline = Timeline::default();
        for &ms in ms {
            timeline.record(Duration::from_millis(ms));
        }
        timeline
    }

    #[test]
    fn a_stall_of_all_threads_is_a_gap_and_of_one_is_not() {
        let mut first = at(&[10, 20, 150, 610]);
        assert_eq!(first.longest_gap(), Duration::from_millis(400));
        assert_eq!(first.slowest_interval(), Some(0));
        first.add(&at(&[250, 350, 450, 550, 650, 750]));
        assert_eq!(first.longest_gap(), Duration::ZERO);
        assert_eq!(first.slowest_interval(), Some(1));
    }

    #[test]
    fn short_runs_have_no_slowest_interval() {
        assert_eq!(at(&[]).slowest_interval(), None);
        assert_eq!(at(&[99]).slowest_interval(), None);
        assert_eq!(at(&[]).longest_gap(), Duration::ZERO);
    }
}
