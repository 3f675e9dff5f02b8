//! Counts of one worker thread, or of all.

use crate::failure::Outcome;
use crate::measure::latency::Latencies;
use crate::measure::timeline::Timeline;
use cantle_workloads::workload::Operation;
use serde::Serialize;
use std::time::Duration;

/// See [`super::phase`]: each worker has its own, and they are added up at the end.
#[derive(Serialize)]
pub(crate) struct Tally {
    /// In the order of [`Operation::NAMES`].
    #[serde(skip)]
    pub(crate) latencies: Vec<Latencies>,
    /// Duration of the longest operation, when it ended, and its name.
    #[serde(skip)]
    pub(crate) longest: (Duration, Duration, &'static str),
    /// Operations over time.
    #[serde(skip)]
    pub(crate) timeline: Timeline,
    /// From the phase's start to the end of the last operation.
    #[serde(skip)]
    pub(crate) took: Duration,
    pub(crate) operations: u64,
    /// Bytes of keys and values written.
    pub(crate) user_bytes_written: u64,
    /// Bytes of keys and values that gets and scans returned.
    pub(crate) user_bytes_read: u64,
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
            longest: (Duration::ZERO, Duration::ZERO, "operation"),
            timeline: Timeline::default(),
            took: Duration::ZERO,
            operations: 0,
            user_bytes_written: 0,
            user_bytes_read: 0,
            rows_scanned: 0,
            missing: 0,
            wrong: 0,
        })
    }

    /// Counts an operation that took `took` and ended `elapsed` after the phase's start.
    pub(crate) fn record(&mut self, operation: Operation, took: Duration, elapsed: Duration) {
        self.latencies[operation.index()].record(took);
        self.longest = self.longest.max((took, elapsed, Operation::NAMES[operation.index()]));
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
        self.user_bytes_written += other.user_bytes_written;
        self.user_bytes_read += other.user_bytes_read;
        self.rows_scanned += other.rows_scanned;
        self.missing += other.missing;
        self.wrong += other.wrong;
        Ok(())
    }
}
