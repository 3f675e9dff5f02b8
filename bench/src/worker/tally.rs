//! Counts of one thread.

use crate::failure::Result;
use crate::measure::latency::{Latencies, Percentiles};
use crate::measure::timeline::Counts;
use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds of operations, each with a histogram of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Write a pair.
    Put,
    /// Read a pair.
    Get,
    /// Write a new pair.
    Insert,
    /// Read pairs in key order.
    Scan,
    /// Read a pair and write it.
    ReadModifyWrite,
    /// Remove a pair.
    Delete,
    /// Read many pairs at once.
    GetMany,
}

const NAMES: [&str; 7] = ["put", "get", "insert", "scan", "read-modify-write", "delete", "get-many"];

/// Counts of one thread, or of all.
pub struct Tally {
    latencies: Vec<Latencies>,
    pub timeline: Counts,
    /// From the step's start to the end of the last operation.
    pub took: Duration,
    /// The first operation, or the longest first one of all threads.
    pub first: Option<Duration>,
    pub operations: u64,
    pub written: u64,
    pub read: u64,
    pub gets: u64,
    pub rows: u64,
    pub missing: u64,
    pub wrong: u64,
}

impl Tally {
    pub fn new() -> Result<Self> {
        Ok(Self {
            latencies: NAMES.iter().map(|_| Latencies::new()).collect::<Result<_>>()?,
            timeline: Counts::default(),
            took: Duration::ZERO,
            first: None,
            operations: 0,
            written: 0,
            read: 0,
            gets: 0,
            rows: 0,
            missing: 0,
            wrong: 0,
        })
    }

    /// Records an operation of this kind that took `took` and ended `elapsed` after the start.
    pub fn record(&mut self, kind: Kind, took: Duration, elapsed: Duration) {
        self.latencies[kind as usize].record(took);
        self.timeline.record(elapsed);
        self.took = elapsed;
        self.first.get_or_insert(took);
        self.operations += 1;
    }

    pub fn add(&mut self, other: &Self) -> Result {
        for (sum, latencies) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.add(latencies)?;
        }
        self.timeline.add(&other.timeline);
        self.took = self.took.max(other.took);
        self.first = self.first.max(other.first);
        self.operations += other.operations;
        self.written += other.written;
        self.read += other.read;
        self.gets += other.gets;
        self.rows += other.rows;
        self.missing += other.missing;
        self.wrong += other.wrong;
        Ok(())
    }

    /// Percentiles of the kinds that occurred.
    pub fn percentiles(&self) -> Result<BTreeMap<String, Percentiles>> {
        let mut found = BTreeMap::new();
        for (name, latencies) in NAMES.iter().zip(&self.latencies) {
            if let Some(percentiles) = latencies.percentiles()? {
                found.insert(name.to_string(), percentiles);
            }
        }
        Ok(found)
    }
}
