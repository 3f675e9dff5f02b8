//! A step as its threads see it.

use super::filled::Filled;
use crate::failure::{Failure, Result};
use crate::job::{Job, Order, Step};
use cantle_workloads::analytics::{self, Analytics};
use cantle_workloads::generator::{Chooser, Distribution, Permutation, Random};
use cantle_workloads::population::Population;
use cantle_workloads::workload::Workload;
use std::path::PathBuf;
use std::time::Duration;

/// Random bytes from which values are cut.
const FILLER_BYTES: usize = 1 << 20;

/// A step as its threads see it.
pub struct Work {
    pub mix: Mix,
    /// Records or events that exist.
    pub population: Population,
    pub operations: u64,
    pub record_bytes: u64,
    pub filler: Vec<u8>,
    pub seed: u64,
    /// Time after which the step ends, even if operations are left.
    pub longest: Duration,
}

/// The kind of work.
pub enum Mix {
    Workload {
        workload: Workload,
        chooser: Option<Chooser>,
        insert_order: Option<Permutation>,
        filled: Filled,
    },
    /// Each of the records once.
    Fill {
        filled: Filled,
        order: Option<Permutation>,
        is_first: bool,
    },
    /// Delete each of the records.
    Delete {
        filled: Filled,
        order: Option<Permutation>,
    },
    Seek {
        chooser: Chooser,
        rows: u64,
        filled: Filled,
    },
    GetMany {
        chooser: Chooser,
        at_once: u64,
        filled: Filled,
    },
    Ingest(Analytics),
    Analyse(Analytics),
    Replay(PathBuf),
}

impl Work {
    /// Prepares a step of at most `longest`, over the records that an earlier fill left.
    pub fn new(job: &Job, step: &Step, filled: Option<&Filled>, longest: Duration) -> Result<Self> {
        let mut filler = vec![0; FILLER_BYTES];
        Random::stream(job.seed, u64::MAX - 3).fill(&mut filler);
        let seed = job.seed;
        let work = |mix, existing, operations, record_bytes| Self {
            mix,
            population: Population::new(existing),
            operations,
            record_bytes,
            filler,
            seed: Random::stream(seed, operations).bits(),
            longest,
        };
        let event_bytes = (analytics::KEY_BYTES + analytics::VALUE_BYTES) as u64;
        let record_bytes = job.sizes.record_bytes();
        // A fill may have ended before all of its records existed.
        let there = |records: u64| filled.cloned().unwrap_or_else(|| Filled::whole(records));
        Ok(match step {
            Step::Load { .. } => return Err(Failure::new("a load is not measured")),
            Step::Settle { .. } => return Err(Failure::new("a wait has no operations")),
            Step::Run { workload, distribution, theta, records, operations, .. } => {
                let filled = there(*records);
                let records = filled.records;
                let chooser = distribution.map(|distribution| {
                    // The seed alone determines which records are hot, for every workload.
                    Chooser::new(distribution, records.max(1), *theta, seed)
                });
                let insert_order = (*workload == Workload::InsertRandom && *operations > 0)
                    .then(|| Permutation::new(*operations, seed));
                let mix = Mix::Workload { workload: *workload, chooser, insert_order, filled };
                work(mix, records, *operations, record_bytes)
            }
            Step::Fill { records, first, order, round: 0, .. } => {
                let filled = Filled::new(0, *records, *first, *order, seed);
                let operations = job.records_max.map_or(*records, |most| most.min(*records));
                work(Mix::Fill { filled, order: None, is_first: true }, 0, operations, record_bytes)
            }
            Step::Fill { records, order, round, .. } => {
                let filled = there(*records);
                let records = filled.records;
                let order = (*order == Order::Random && records > 0)
                    .then(|| Permutation::new(records, seed.wrapping_add(*round)));
                work(Mix::Fill { filled, order, is_first: false }, records, records, record_bytes)
            }
            Step::Delete { records, .. } => {
                let filled = there(*records);
                let records = filled.records;
                let order = (records > 0).then(|| Permutation::new(records, seed.wrapping_sub(1)));
                work(Mix::Delete { filled, order }, records, records, record_bytes)
            }
            Step::Seek { records, nexts, operations, .. } => {
                let filled = there(*records);
                let records = filled.records;
                let chooser = Chooser::new(Distribution::Uniform, records.max(1), 0.0, seed);
                work(Mix::Seek { chooser, rows: nexts + 1, filled }, records, *operations, record_bytes)
            }
            Step::GetMany { records, at_once, operations, .. } => {
                let filled = there(*records);
                let records = filled.records;
                let chooser = Chooser::new(Distribution::Uniform, records.max(1), 0.0, seed);
                work(Mix::GetMany { chooser, at_once: *at_once, filled }, records, *operations, record_bytes)
            }
            Step::Ingest { shape, events, .. } => {
                work(Mix::Ingest(Analytics::new(*shape, seed)), 0, *events, event_bytes)
            }
            Step::Analyse { shape, events, operations, .. } => {
                work(Mix::Analyse(Analytics::new(*shape, seed)), *events, *operations, event_bytes)
            }
            Step::Replay { file, .. } => work(Mix::Replay(file.clone()), 0, u64::MAX, 0),
        })
    }

    /// The records that the store has after `done` operations of a fill, or after a delete; `None` for other
    /// work. A delete that ended early leaves records, which no step reads.
    pub fn filled(&self, done: u64) -> Option<Filled> {
        match &self.mix {
            Mix::Fill { filled, is_first: true, .. } => Some(filled.of(done)),
            Mix::Delete { filled, .. } => Some(filled.of(0)),
            _ => None,
        }
    }

    /// Number of records that exist after `done` operations.
    pub fn existing(&self, done: u64) -> u64 {
        match self.mix {
            Mix::Fill { is_first: true, .. } => done,
            Mix::Delete { .. } => self.population.existing() - done,
            _ => self.population.existing(),
        }
    }
}
