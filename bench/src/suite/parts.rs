//! Steps, rows and tables that the suites of log-structured stores share: a store is filled, settled and read in one
//! turn.

use super::builder::{Builder, panel, point, series};
use super::measure::Measure;
use super::rows::Against::RocksDb;
use super::rows::{Against, Bound, Quantity, Row};
use super::{Cell, Panel, View};
use crate::job::{Order, Step};
use cantle_workloads::generator::Distribution::{self, Uniform};
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload::{self, C};

/// Reads and seeks of the papers' micro-benchmarks, and operations of their YCSB runs.
pub const OPERATIONS: f64 = 10e6;

pub const FILL: &[&str] = &["fill"];
pub const SETTLED: &[&str] = &["fill", "settle"];
/// The steps of a store that is filled, and read when it is settled.
pub const READ: [&str; 6] = ["fill", "settle", "gets", "seeks", "seeks-50", "settle-after"];

pub fn bounds<const N: usize>(bounds: [(Against, f64); N]) -> Vec<Bound> {
    bounds.map(|(against, at)| Bound { against, at }).into()
}

pub fn row<const N: usize, const M: usize>(
    title: impl Into<String>,
    cell: &str,
    quantity: Quantity,
    goals: [(Against, f64); N],
    musts: [(Against, f64); M],
) -> Row {
    Row { title: title.into(), cell: cell.into(), quantity, goals: bounds(goals), musts: bounds(musts) }
}

/// A row of a ratio to the best RocksDB.
pub fn rate(title: &str, cell: &str, steps: &'static [&'static str], goal: f64, must: f64) -> Row {
    row(title, cell, Quantity::Rate(steps), [(RocksDb, goal)], [(RocksDb, must)])
}

impl Builder {
    /// Gets, as many as the papers' at the run's scale.
    pub fn gets(&self, records: u64) -> Step {
        let operations = self.scaled(OPERATIONS);
        Step::Run {
            name: "gets".into(),
            workload: C,
            distribution: Some(Uniform),
            theta: 0.0,
            records,
            warmup: (operations / 4).min(records),
            operations,
            with_appends: false,
        }
    }

    /// The same of seeks.
    pub fn seek(&self, name: &str, records: u64, nexts: u64) -> Step {
        Step::Seek { name: name.into(), records, nexts, operations: self.scaled(OPERATIONS) }
    }

    /// Reads of a settled store, and the wait for the merges that they caused.
    pub fn reads(&self, records: u64) -> Vec<Step> {
        vec![
            self.gets(records),
            self.seek("seeks", records, 0),
            self.seek("seeks-50", records, 50),
            settle("settle-after"),
        ]
    }

    /// A cell that fills its own store.
    pub fn filling(&self, id: &str, sizes: Sizes, memory: f64, steps: Vec<Step>) -> Cell {
        let threads = self.threads();
        Cell { sizes, memory, ..Cell::new(format!("{id}/{sizes}"), 0, steps, threads) }
    }
}

/// Gets of many records at once.
pub fn get_many(builder: &Builder, records: u64, at_once: u64) -> Step {
    let operations = builder.scaled(OPERATIONS) / at_once;
    Step::GetMany { name: "gets-at-once".into(), records, at_once, operations }
}

pub fn fill(name: &str, records: u64, order: Order, round: u64) -> Step {
    Step::Fill { name: name.into(), records, first: 0, order, round }
}

pub fn settle(name: &str) -> Step {
    Step::Settle { name: name.into() }
}

/// A table of every engine for each of these steps, with the bytes of the process beside those of the
/// device.
pub fn tables(title: &str, cell: &str, steps: &[&'static str]) -> Vec<Panel> {
    let columns = vec![
        Measure::Throughput,
        Measure::Duration,
        Measure::Dirtied,
        Measure::Written,
        Measure::DeviceWritten,
        Measure::Read,
        Measure::Space,
        Measure::ProcessorPerOperation,
        Measure::Resident,
        Measure::Longest,
    ];
    let table = |step: &&'static str| {
        let points = vec![point("", cell.to_string(), step)];
        panel(format!("{title}: {step}"), "", View::Table(columns.clone()), vec![series("", points)])
    };
    steps.iter().map(table).collect()
}

pub fn run(
    name: &str,
    workload: Workload,
    distribution: Option<Distribution>,
    records: u64,
    operations: u64,
) -> Step {
    Step::Run {
        name: name.into(),
        workload,
        distribution,
        theta: super::evendb::THETA,
        records,
        warmup: (operations / 4).min(records),
        operations,
        with_appends: false,
    }
}
