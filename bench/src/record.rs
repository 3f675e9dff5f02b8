//! The files of a run: `run.json`, and `results.jsonl` with one line per trial.

use crate::engine::{Durability, Spec};
use crate::measure::latency::Percentiles;
use crate::measure::process::{Counters, DeviceCounters};
use crate::measure::space::{Space, TableSizes};
use crate::measure::timeline::Timeline;
use crate::suite::Cell;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The circumstances of a run; a run is resumed only under the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The plan of the run.
    pub plan: Plan,
    /// The command lines.
    pub commands: Vec<String>,
    /// The project's revision, with `+` if there were changes.
    pub revision: String,
    /// The machine.
    pub machine: BTreeMap<String, String>,
    /// The reason why the limit of memory was not in force, if it was not.
    pub memory_limit_missing: Option<String>,
}

/// The parameters that determine the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The suite's name.
    pub suite: String,
    /// The selected figures, or the trace that is replayed.
    pub only: Vec<String>,
    /// Parts of the names of the selected cells.
    pub cells: Vec<String>,
    /// Sizes of data sets, if not the paper's.
    pub sizes: Vec<u64>,
    /// Sizes of the analytics trace, if not the paper's.
    pub trace_sizes: Vec<u64>,
    /// Engines, in the order of their turns.
    pub engines: Vec<Spec>,
    /// The share of the paper's data, memory and operations.
    pub scale: f64,
    /// The memory limit.
    pub memory_bytes: u64,
    /// Memory budget of the stores.
    pub budget_bytes: u64,
    /// The failure that an acknowledged write survives.
    pub durability: Durability,
    /// Threads that run operations.
    pub threads: u64,
    /// Background threads of the stores.
    pub background_threads: usize,
    /// Turns of each engine.
    pub rounds: u64,
    /// The longest time of a measured step.
    pub seconds_max: f64,
    /// The longest time of a step that only writes: stores can defer sorting for a while, and the
    /// step must be long enough to show it.
    pub writing_seconds_max: f64,
    /// The longest time of all turns at a cell, if there is a limit: steps end early, fills as well.
    #[serde(default)]
    pub cell_seconds_max: Option<f64>,
    /// The longest time of the whole run, if there is a limit.
    #[serde(default)]
    pub suite_seconds_max: Option<f64>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Plan {
    /// The memory limit at a cell.
    pub fn memory_at(&self, cell: &Cell) -> u64 {
        (self.memory_bytes as f64 * cell.memory) as u64
    }

    /// The memory budget of the stores at a cell.
    pub fn budget_at(&self, cell: &Cell) -> u64 {
        (self.budget_bytes as f64 * cell.memory) as u64
    }

    /// True if results of both are comparable: they may only differ in the selection.
    pub fn is_as(&self, other: &Self) -> bool {
        let of =
            |plan: &Self| Self { only: Vec::new(), cells: Vec::new(), engines: Vec::new(), ..plan.clone() };
        of(self) == of(other)
    }

    /// Adds the selection of another run with the same circumstances. An empty list of figures or
    /// cells means all.
    fn join(&mut self, other: &Self) {
        for (ours, theirs) in [(&mut self.only, &other.only), (&mut self.cells, &other.cells)] {
            if ours.is_empty() || theirs.is_empty() {
                ours.clear();
            } else {
                join(ours, theirs);
            }
        }
        join(&mut self.engines, &other.engines);
    }
}

impl Run {
    /// This run as a continuation of `before`.
    pub fn after(&self, before: &Self) -> Self {
        let mut run = Self { plan: before.plan.clone(), commands: before.commands.clone(), ..self.clone() };
        run.plan.join(&self.plan);
        join(&mut run.commands, &self.commands);
        run
    }
}

/// Appends the items that are missing.
fn join<T: Clone + PartialEq>(ours: &mut Vec<T>, theirs: &[T]) {
    for item in theirs {
        if !ours.contains(item) {
            ours.push(item.clone());
        }
    }
}

/// One line of `results.jsonl`: one engine's turn at one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The cell's name.
    pub cell: String,
    /// The engine.
    pub engine: Spec,
    /// The round, from 0.
    pub round: u64,
    /// Seconds since 1970 when it ended.
    pub ended_at: u64,
    /// The measurements, or the reason for a failure.
    pub outcome: Result<Outcome, String>,
}

/// The measurements of a child process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The engine's version.
    pub version: String,
    /// Its configuration.
    pub configuration: String,
    /// Differences between its behaviour and that of the other engines.
    pub caveats: Vec<String>,
    /// Measures that are missing, with reasons.
    pub notes: Vec<String>,
    /// Time to open the store, in ms.
    pub open_ms: f64,
    /// Time to close it, in ms.
    pub close_ms: f64,
    /// Peak memory of the control group, page cache included.
    pub group_peak_bytes: Option<u64>,
    /// Bytes that the control group read from and wrote to devices, from the opening to the end.
    pub group_device_bytes: Option<(u64, u64)>,
    /// Random reads per second of blocks of the store's files, measured before the engine's turn.
    #[serde(default)]
    pub device_reads: Option<f64>,
    /// The measurements of each step, by its name.
    pub steps: BTreeMap<String, Measured>,
}

/// The measurements of one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Operations that finished.
    pub operations: u64,
    /// Time from the first operation to the last, in s. For a wait: until the last background work.
    pub seconds: f64,
    /// True if the time was over before the operations, or before the store was settled.
    #[serde(default)]
    pub is_cut: bool,
    /// By kind of operation.
    pub latency: BTreeMap<String, Percentiles>,
    /// Over time.
    pub timeline: Timeline,
    /// The kernel's counters of the process, the final sync included.
    pub counters: Counters,
    /// Counters of the device, for all processes.
    pub device: Option<DeviceCounters>,
    /// Processor cycles.
    pub cycles: Option<u64>,
    /// Bytes of keys and values written.
    pub user_bytes_written: u64,
    /// Bytes of keys and values that gets and scans returned.
    pub user_bytes_read: u64,
    /// Gets and gets within read-modify-writes.
    pub gets: u64,
    /// Rows that scans returned.
    pub rows: u64,
    /// Reads that found nothing although the record exists: each is an error of the store or of its
    /// adapter.
    pub missing: u64,
    /// Values of another key, or rows out of order: errors likewise.
    pub wrong: u64,
    /// The longest first operation of a thread, in nanoseconds.
    #[serde(default)]
    pub first_ns: Option<u64>,
    /// The longest append of the bare writer beside the step, in nanoseconds, if there was one.
    #[serde(default)]
    pub append_longest_ns: Option<u64>,
    /// Peak resident memory.
    pub peak_resident_bytes: Option<u64>,
    /// Bytes on disk over time.
    pub space: Space,
    /// Sizes of the store's tables at the end of a wait.
    #[serde(default)]
    pub table_sizes: Option<TableSizes>,
    /// The sync at the end.
    pub sync_s: f64,
    /// Changes of the store's own statistics during the step, of gauges as of counters. Maxima, whose
    /// names have the word `longest`, are those since the opening.
    pub figures: BTreeMap<String, f64>,
}

impl Measured {
    /// Operations per second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.operations as f64 / self.seconds } else { 0.0 }
    }
}
