//! Operations finished per interval. A mean hides stalls; these counts do not.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Length of the intervals that are counted.
const FINE_MS: u64 = 100;

/// Maximum number of short intervals in a report; longer runs are reported per second.
const FINE_MAX: usize = 200;

/// Counts of a thread, or of all.
#[derive(Debug, Clone, Default)]
pub struct Counts(Vec<u64>);

impl Counts {
    /// An operation finished `elapsed` after the start.
    pub fn record(&mut self, elapsed: Duration) {
        let interval = (elapsed.as_millis() / u128::from(FINE_MS)) as usize;
        if interval >= self.0.len() {
            self.0.resize(interval + 1, 0);
        }
        self.0[interval] += 1;
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        for (sum, count) in self.0.iter_mut().zip(&other.0) {
            *sum += count;
        }
    }

    /// The summary.
    pub fn timeline(&self) -> Timeline {
        let seconds: Vec<u64> =
            self.0.chunks((1000 / FINE_MS) as usize).map(|second| second.iter().sum()).collect();
        let stalls = Stalls {
            longest_gap_ms: longest_gap(&self.0) * FINE_MS,
            slow_seconds_share: slow_share(&seconds),
            slowest_second_share: slowest_share(&seconds),
        };
        let (interval_ms, counts) =
            if self.0.len() > FINE_MAX { (1000, seconds) } else { (FINE_MS, self.0.clone()) };
        Timeline { interval_ms, counts, stalls }
    }
}

/// Operations over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Length of an interval, in ms: a second, or less in short runs.
    pub interval_ms: u64,
    /// Operations that finished in each.
    pub counts: Vec<u64>,
    /// Stalls, as far as the counts show them.
    pub stalls: Stalls,
}

/// Measures of unevenness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// The longest time in which no operation finished, in ms, in steps of 100 ms.
    pub longest_gap_ms: u64,
    /// The share of seconds with less than a tenth of the median second's operations.
    pub slow_seconds_share: f64,
    /// The slowest second's operations as a share of the median second's; 1 in runs of less than
    /// three seconds.
    pub slowest_second_share: f64,
}

fn longest_gap(counts: &[u64]) -> u64 {
    let (mut longest, mut current) = (0, 0);
    for &count in counts {
        current = if count == 0 { current + 1 } else { 0 };
        longest = longest.max(current);
    }
    longest
}

/// The median of complete seconds, and these seconds.
fn whole(seconds: &[u64]) -> Option<(f64, &[u64])> {
    let (_, whole) = seconds.split_last()?;
    let mut sorted = whole.to_vec();
    sorted.sort_unstable();
    let median = *sorted.get(sorted.len() / 2)?;
    (whole.len() > 1 && median > 0).then_some((median as f64, whole))
}

fn slow_share(seconds: &[u64]) -> f64 {
    whole(seconds).map_or(0.0, |(median, whole)| {
        whole.iter().filter(|&&count| (count as f64) < median / 10.0).count() as f64 / whole.len() as f64
    })
}

fn slowest_share(seconds: &[u64]) -> f64 {
    whole(seconds).map_or(1.0, |(median, whole)| whole.iter().copied().min().unwrap_or(0) as f64 / median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_told_from_an_even_pace() {
        let mut counts = Counts::default();
        for ms in (0..10_000).filter(|ms| !(3_000..5_500).contains(ms)) {
            counts.record(Duration::from_millis(ms));
        }
        let timeline = counts.timeline();
        assert_eq!((timeline.interval_ms, timeline.counts.len()), (100, 100));
        assert_eq!(timeline.stalls.longest_gap_ms, 2_500);
        // Two of the nine complete seconds had no operation and one had half as many.
        assert!((timeline.stalls.slow_seconds_share - 2.0 / 9.0).abs() < 1e-9, "{timeline:?}");
        assert_eq!(timeline.stalls.slowest_second_share, 0.0);
    }

    #[test]
    fn long_runs_are_kept_by_the_second_and_short_ones_have_no_slow_second() {
        let mut counts = Counts::default();
        (0..30_000).for_each(|ms| counts.record(Duration::from_millis(ms)));
        let timeline = counts.timeline();
        assert_eq!((timeline.interval_ms, timeline.counts.len()), (1000, 30));
        let mut short = Counts::default();
        short.record(Duration::from_millis(50));
        assert_eq!(short.timeline().stalls, Stalls { slowest_second_share: 1.0, ..Stalls::default() });
        assert_eq!(Counts::default().timeline().counts.len(), 0);
    }
}
