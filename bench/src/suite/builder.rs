//! Collects cells and figures. A cell that several figures use is run once.

use super::rows::Row;
use super::{Cell, Figure, Panel, Point, Series, Suite, View};
use crate::engine::{Durability, Spec};
use crate::job::Step;
use crate::record::Plan;
use cantle_workloads::analytics::Shape;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::RECORD_BYTES;
use cantle_workloads::workload::Workload;
use std::collections::HashSet;

/// Parameters that a run chooses.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// The share of the paper's data and operations.
    pub scale: f64,
    /// Sizes of data sets in the paper's GB, instead of the experiments' own.
    pub sizes: Vec<u64>,
    /// Sizes of the analytics trace, instead of the paper's.
    pub trace_sizes: Vec<u64>,
    /// Number of threads, in experiments that do not vary it.
    pub threads: u64,
    /// The memory limit.
    pub memory_bytes: u64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            scale: 1.0 / 64.0,
            sizes: Vec::new(),
            trace_sizes: Vec::new(),
            threads: 2,
            memory_bytes: 256 << 20,
        }
    }
}

impl From<&Plan> for Parameters {
    fn from(plan: &Plan) -> Self {
        Self {
            scale: plan.scale,
            sizes: plan.sizes.clone(),
            trace_sizes: plan.trace_sizes.clone(),
            threads: plan.threads,
            memory_bytes: plan.memory_bytes,
        }
    }
}

/// Operations of a YCSB experiment in the paper (§5.3).
const OPERATIONS: f64 = 80e6;

/// Numbers of scans: fewer for longer scans (YoDB §5.1 has 4 to 16 million).
const SCANS: [(Workload, f64); 3] = [(Workload::E10, 16e6), (Workload::E100, 8e6), (Workload::E1000, 4e6)];

/// Operations on the production data after it was ingested (§5.2).
const QUERIES: f64 = 40e6;

/// Collects the cells and figures of a suite.
pub struct Builder {
    parameters: Parameters,
    cells: Vec<Cell>,
    figures: Vec<Figure>,
    rows: Vec<Row>,
}

impl Builder {
    /// A builder without cells.
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, cells: Vec::new(), figures: Vec::new(), rows: Vec::new() }
    }

    /// Names of figures.
    pub fn figures(&self) -> impl Iterator<Item = &'static str> {
        self.figures.iter().map(|figure| figure.id)
    }

    /// The sizes of an experiment: those of the run, or `paper`.
    pub fn sizes(&self, paper: &[u64]) -> Vec<u64> {
        if self.parameters.sizes.is_empty() { paper.to_vec() } else { self.parameters.sizes.clone() }
    }

    /// The sizes of the analytics trace: those of the run for it, or for everything, or `paper`.
    pub fn trace_sizes(&self, paper: &[u64]) -> Vec<u64> {
        let asked = &self.parameters.trace_sizes;
        if asked.is_empty() { self.sizes(paper) } else { asked.clone() }
    }

    /// The size of an experiment with only one: the run's largest, or `paper`.
    pub fn size(&self, paper: u64) -> u64 {
        self.sizes(&[paper]).into_iter().max().unwrap_or(paper)
    }

    /// Number of threads, in experiments that do not vary it.
    pub fn threads(&self) -> u64 {
        self.parameters.threads
    }

    /// This share of the run's memory, or the one that is `least` bytes, if that is more.
    pub fn share_of_memory(&self, share: f64, least: u64) -> f64 {
        share.max(least as f64 / self.parameters.memory_bytes.max(1) as f64).min(1.0)
    }

    /// The memory limit of cells with this share of the memory.
    pub fn memory(&self, share: f64) -> f64 {
        self.parameters.memory_bytes as f64 * share
    }

    /// Number of records of a data set of this many of the paper's gigabytes.
    pub fn records(&self, gigabytes: u64) -> u64 {
        ((gigabytes as f64 * 1e9 * self.parameters.scale / RECORD_BYTES as f64) as u64).max(1)
    }

    /// The size of that data set in this run, for titles and axes: 64 of the paper's gigabytes at a scale of 1/64 are `1 GB`.
    pub fn shown(&self, gigabytes: u64) -> String {
        let megabytes = (self.records(gigabytes) * RECORD_BYTES) as f64 / 1e6;
        // A data set has whole records, and so a little less than its name says.
        match megabytes {
            999.5.. => format!("{} GB", (megabytes / 100.0).round() / 10.0),
            1.0.. => format!("{} MB", megabytes.round()),
            _ => format!("{} kB", (megabytes * 1e3).round()),
        }
    }

    fn operations(&self, workload: Workload) -> u64 {
        let scans = SCANS.iter().find(|(scanning, _)| *scanning == workload);
        self.scaled(scans.map_or(OPERATIONS, |(_, operations)| *operations))
    }

    /// This number of the paper's operations or records at the run's scale.
    pub fn scaled(&self, operations: f64) -> u64 {
        ((operations * self.parameters.scale) as u64).max(1)
    }

    /// The cell of a YCSB experiment.
    pub fn ycsb(&mut self, workload: Workload, asked: Distribution, theta: f64, size: u64) -> String {
        self.ycsb_by(workload, asked, theta, size, self.threads())
    }

    /// The same with this number of threads.
    pub fn ycsb_by(
        &mut self,
        workload: Workload,
        asked: Distribution,
        theta: f64,
        size: u64,
        threads: u64,
    ) -> String {
        let cell = self.ycsb_cell(workload, asked, theta, size, threads);
        self.add(cell)
    }

    /// The same, returned for changes and not added.
    pub fn ycsb_cell(
        &self,
        workload: Workload,
        asked: Distribution,
        theta: f64,
        size: u64,
        threads: u64,
    ) -> Cell {
        let distribution = workload.distribution(asked);
        let records = if workload.is_insert() { 0 } else { self.records(size) };
        let operations = if workload.is_insert() { self.records(size) } else { self.operations(workload) };
        let mut id = workload.name().to_string();
        if let Some(distribution) = distribution {
            id += &format!("/{}", distribution.name());
            let is_skewed = distribution != Distribution::Uniform;
            if is_skewed && theta != super::evendb::THETA {
                id += &format!("-{theta}");
            }
        }
        id += &format!("/{size}GB");
        if threads != self.parameters.threads {
            id += &format!("/{threads}-threads");
        }
        let step = Step::Run {
            name: "run".into(),
            workload,
            distribution,
            theta,
            records,
            // Enough to show which records are popular; the paper only states that there is a
            // warm-up.
            warmup: if workload.is_insert() { 0 } else { (operations / 4).min(records) },
            operations,
            with_appends: false,
        };
        Cell::new(id, records, vec![step], threads)
    }

    /// The cell of an ingestion and the queries after it.
    pub fn production(&mut self, size: u64) -> String {
        let (shape, events) = (Shape::default(), self.records(size));
        let steps = vec![
            Step::Ingest { name: "ingest".into(), shape, events },
            Step::Analyse { name: "analyse".into(), shape, events, operations: self.scaled(QUERIES) },
        ];
        let id = format!("analytics/{size}GB");
        let threads = self.threads();
        self.add(Cell::new(id, 0, steps, threads))
    }

    /// Adds a cell, unless it exists. Returns its name.
    pub fn add(&mut self, mut cell: Cell) -> String {
        if let Some(durability) = cell.durability {
            cell.id += match durability {
                Durability::Process => "/process",
                Durability::Sync => "/sync",
            };
        }
        let id = cell.id.clone();
        if !self.cells.iter().any(|other| other.id == id) {
            self.cells.push(cell);
        }
        id
    }

    /// Adds a figure.
    pub fn figure(
        &mut self,
        id: &'static str,
        title: &str,
        claim: &'static str,
        note: &'static str,
        panels: Vec<Panel>,
    ) {
        self.figures.push(Figure { id, title: title.into(), claim, note, panels });
    }

    /// Adds rows to the table of goals.
    pub fn rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.rows.extend(rows);
    }

    /// The suite of the figures whose names begin with one of `only`, and of the cells that they
    /// use.
    pub fn finish(mut self, only: &[String]) -> Suite {
        let is_wanted =
            |id: &str| only.is_empty() || only.iter().any(|wanted| id.starts_with(wanted.as_str()));
        self.figures.retain(|figure| is_wanted(figure.id));
        let series = self.figures.iter().flat_map(|figure| &figure.panels).flat_map(|panel| &panel.series);
        let seen: HashSet<&str> = series.flat_map(|s| &s.points).map(|point| point.cell.as_str()).collect();
        self.cells.retain(|cell| seen.contains(cell.id.as_str()));
        self.rows.retain(|row| seen.contains(row.cell.as_str()));
        // A data set is loaded once, used and removed: cells with the same data set are
        // consecutive.
        self.cells.sort_by_key(|cell| (cell.records, cell.data_set(), cell.data_bytes()));
        Suite { cells: self.cells, figures: self.figures, rows: self.rows }
    }
}

/// A panel.
pub fn panel(title: impl Into<String>, across: &'static str, view: View, series: Vec<Series>) -> Panel {
    Panel { title: title.into(), across, view, series }
}

/// A line.
pub fn series(name: impl Into<String>, points: Vec<Point>) -> Series {
    Series { name: name.into(), points }
}

/// A point of every engine.
pub fn point(label: impl Into<String>, cell: String, step: &'static str) -> Point {
    Point { label: label.into(), cell, step, engine: None }
}

/// A point of one engine.
pub fn point_of(label: impl Into<String>, cell: String, step: &'static str, engine: Spec) -> Point {
    Point { engine: Some(engine), ..point(label, cell, step) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_name_the_sizes_of_the_run() {
        let shown =
            |scale: f64, size: u64| Builder::new(Parameters { scale, ..Parameters::default() }).shown(size);
        assert_eq!(shown(1.0 / 64.0, 64), "1 GB");
        assert_eq!(shown(1.0 / 64.0, 4), "62 MB");
        assert_eq!(shown(1.0 / 16.0, 4), "250 MB");
        assert_eq!(shown(0.4, 4), "1.6 GB");
    }
}
