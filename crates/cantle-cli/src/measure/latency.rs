//! Latencies of operations by type, as high-dynamic-range histograms.

use crate::failure::{Failure, Outcome};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longest latency that is distinguished, in nanoseconds: an hour. Longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits that percentiles keep.
const DIGITS: u8 = 3;

/// One histogram; each thread has its own and they are added up at the end.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

/// The reported figures of one type of operation, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    /// Operations measured.
    pub(crate) count: u64,
    /// Arithmetic mean.
    pub(crate) mean_ns: f64,
    /// Median.
    pub(crate) p50_ns: u64,
    /// Ninety in a hundred were at most as slow.
    pub(crate) p90_ns: u64,
    /// 99 in 100.
    pub(crate) p99_ns: u64,
    /// 999 in 1,000.
    pub(crate) p99_9_ns: u64,
    /// 9,999 in 10,000.
    pub(crate) p99_99_ns: u64,
    /// The slowest.
    pub(crate) max_ns: u64,
}

impl Latencies {
    /// Empty.
    pub(crate) fn new() -> Outcome<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS);
        histogram.map(Self).map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Counts one operation.
    pub(crate) fn record(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS);
        self.0.saturating_record(took_ns.max(1));
    }

    /// Adds another thread's operations.
    pub(crate) fn add(&mut self, other: &Self) -> Outcome {
        self.0.add(&other.0).map_err(|error| Failure::Failed(error.to_string()))
    }

    /// The figures; `None` if there was no operation.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        (!self.0.is_empty()).then(|| Percentiles {
            count: self.0.len(),
            mean_ns: self.0.mean(),
            p50_ns: self.0.value_at_quantile(0.5),
            p90_ns: self.0.value_at_quantile(0.9),
            p99_ns: self.0.value_at_quantile(0.99),
            p99_9_ns: self.0.value_at_quantile(0.999),
            p99_99_ns: self.0.value_at_quantile(0.9999),
            max_ns: self.0.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_two_threads_are_those_of_all_operations() {
        let (mut first, mut second) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        for us in 1..=5_000u64 {
            first.record(Duration::from_micros(us));
            second.record(Duration::from_micros(us + 5_000));
        }
        first.add(&second).unwrap();
        let all = first.percentiles().unwrap();
        assert_eq!(all.count, 10_000);
        for (found, us) in
            [(all.p50_ns, 5_000), (all.p90_ns, 9_000), (all.p99_ns, 9_900), (all.max_ns, 10_000)]
        {
            assert!(found.abs_diff(us * 1000) <= us * 2, "{found} for {us} µs");
        }
        assert!(all.p99_9_ns <= all.p99_99_ns && all.p99_99_ns <= all.max_ns);
    }

    #[test]
    fn nothing_measured_is_no_figure_and_extremes_are_kept() {
        let mut latencies = Latencies::new().unwrap();
        assert_eq!(latencies.percentiles(), None);
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.percentiles().unwrap().count, 2);
    }
}
