//! Latencies as high-dynamic-range histograms.

use crate::failure::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest latency that is distinguished: an hour. Longer ones are recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits that are kept.
const DIGITS: u8 = 3;

/// Latencies of the operations of one kind, of one thread or of all.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

/// Summary of latencies, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Operations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90 of 100 operations took at most this long.
    pub p90_ns: u64,
    /// 95 of 100.
    pub p95_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// 999 of 1,000.
    pub p99_9_ns: u64,
    /// 9,999 of 10,000.
    pub p99_99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// The whole histogram: HdrHistogram's V2 format, deflated, in base64.
    pub histogram: String,
}

impl Latencies {
    /// Empty.
    pub fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)?))
    }

    /// Counts one operation.
    pub fn record(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS);
        self.0.saturating_record(took_ns.max(1));
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) -> Result {
        Ok(self.0.add(&other.0)?)
    }

    /// The summary; `None` if there was no operation.
    pub fn percentiles(&self) -> Result<Option<Percentiles>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut raw = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut raw)?;
        Ok(Some(Percentiles {
            count: self.0.len(),
            mean_ns: self.0.mean(),
            p50_ns: self.0.value_at_quantile(0.5),
            p90_ns: self.0.value_at_quantile(0.9),
            p95_ns: self.0.value_at_quantile(0.95),
            p99_ns: self.0.value_at_quantile(0.99),
            p99_9_ns: self.0.value_at_quantile(0.999),
            p99_99_ns: self.0.value_at_quantile(0.9999),
            max_ns: self.0.max(),
            histogram: STANDARD.encode(raw),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn the_raw_histogram_gives_the_same_percentiles_again() {
        let (mut first, mut second) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        assert_eq!(first.percentiles().unwrap(), None);
        for us in 1..=5_000u64 {
            first.record(Duration::from_micros(us));
            second.record(Duration::from_micros(us + 5_000));
        }
        first.add(&second).unwrap();
        let kept = first.percentiles().unwrap().unwrap();
        assert!(kept.p50_ns.abs_diff(5_000_000) < 10_000 && kept.p99_99_ns <= kept.max_ns);
        let raw = STANDARD.decode(&kept.histogram).unwrap();
        let again = Latencies(Deserializer::new().deserialize(&mut raw.as_slice()).unwrap());
        assert_eq!(again.percentiles().unwrap(), Some(kept));
    }
}
