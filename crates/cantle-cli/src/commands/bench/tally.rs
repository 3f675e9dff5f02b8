//! Counts of one worker thread, or of all.

use crate::failure::Outcome;
use crate::measure::latency::Latencies;
use crate::measure::timeline::Timeline;
use cantle_workloads::workload::Operation;
use std::time::Duration;

/// See [`super::phase`]: each worker has its own, and they are added up at the end.
pub(crate) struct Tally {
    /// In the order of [`Operation::NAMES`].
    pub(crate) latencies: Vec<Latencies>,
    /// How long the longest operation took, and when it ended.
    pub(crate) longest: (Duration, Duration),
    /// Operations over time.
    pub(crate) timeline: Timeline,
    /// From the phase's start to the end of the last operation.
    pub(crate) took: Duration,
    pub(crate) operations: u64,
    /// Bytes of keys and values written.
    pub(crate) bytes_written: u64,
    /// Bytes of keys and values that gets and scans returned.
    pub(crate) bytes_read: u64,
    /// Rows that scans returned.
    pub(crate) rows_scanned: u64,
    /// Gets that found nothing although the record exists: each is an error of the store.
    pub(crate) missing: u64,
    /// Values that belong to another key, and rows out of order: each is an error of the store.
    pub(crate) wrong: u64,
}

impl Tally {
    pub(crate) fn new() -> Outcome<Self> {
        Ok(Self {
            latencies: Operation::NAMES.iter().map(|_| Latencies::new()).collect::<Outcome<_>>()?,
            longest: (Duration::ZERO, Duration::ZERO),
            timeline: Timeline::default(),
            took: Duration::ZERO,
            operations: 0,
            bytes_written: 0,
            bytes_read: 0,
            rows_scanned: 0,
            missing: 0,
            wrong: 0,
        })
    }

    /// Counts an operation that took `took` and ended `elapsed` after the phase's start.
    pub(crate) fn record(&mut self, operation: Operation, took: Duration, elapsed: Duration) {
        self.latencies[operation.index()].record(took);
        self.longest = self.longest.max((took, elapsed));
        self.timeline.record(elapsed);
        self.took = elapsed;
        self.operations += 1;
    }

    /// Adds another thread's counts.
    pub(crate) fn add(&mut self, other: &Self) -> Outcome {
        for (sum, latencies) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.add(latencies)?;
        }
        self.longest = self.longest.max(other.longest);
        self.timeline.add(&other.timeline);
        self.took = self.took.max(other.took);
        self.operations += other.operations;
        self.bytes_written += other.bytes_written;
        self.bytes_read += other.bytes_read;
        self.rows_scanned += other.rows_scanned;
        self.missing += other.missing;
        self.wrong += other.wrong;
        Ok(())
    }
}
