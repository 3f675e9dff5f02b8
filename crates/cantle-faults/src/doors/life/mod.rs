//! Life after recovery: a store is filled, killed, opened, heavily used and killed again, and so
//! on.
//!
//! A store that was just opened has structures that no new one has: logs of an earlier opening with
//! tails that no index covers, files that several chunks share, edits that no checkpoint covers.
//! Here these are read until they are loaded, split and merged, and written to. The keys come in
//! every order, with values of 16 B to 3 kB, on stores with small chunks and on stores with default
//! options.
//!
//! ```text
//!   open ── compare ── hot gets ── writes, scans, merges; readers beside ── hot gets ── close ── open ── compare, verify
//!    ▲                                   │
//!    └────── killed at any call ─────────┘
//! ```
//!
//! Every write follows from the seed and its number (`plan`). Hence a store must hold the pairs of
//! some number of writes, no fewer than were promised and no more than had begun (`model`).

mod model;
mod plan;
mod tuning;
mod usage;

pub use model::{Model, read_all};
pub use plan::Plan;
pub use tuning::Tuning;
pub use usage::{Usage, Watch};

use super::Door;
use crate::history::{Death, Marks, Progress};
use crate::images::record;
use crate::layouts::OfChunk;
use crate::rng::Rng;
use crate::setup::STORE;
use crate::visit::Visit;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs};
use cantle::{Db, Durability, LayoutKind};
use std::ops::RangeInclusive;
use std::sync::Arc;

pub const LIFE: Door =
    Door { name: "life", about: "stores that were killed are opened and used hard, and killed again", enter };

/// Lives of a round: for each order and length one with small chunks, and one with chunks of the
/// default size.
const LIVES: u64 = 40;
/// Number of lives at the same time: most of their time they wait for maintenance.
const SIDE_BY_SIDE: usize = 12;
/// Number of kills of one store.
const CYCLES: u64 = 3;
/// Minimum and maximum number of writes that fill a store at the beginning of a life. Each cycle
/// adds about a fourth of the writes that filled it.
const WRITES_MIN: u64 = 100;
const WRITES_MAX: u64 = 12_000;

fn enter(visit: &Visit) {
    if let Some(case) = &visit.case {
        let seed = case.parse().unwrap_or_else(|_| panic!("{case:?} is no case, as 7 is one"));
        for _ in visit.rounds() {
            checked(visit, seed);
        }
        return;
    }
    for seed in visit.rounds() {
        // The low byte of a seed is its turn, so that the seed alone determines the life.
        let base = seed & !0xff;
        let seeds: Vec<u64> = (base..base + LIVES).collect();
        visit.each_of(SIDE_BY_SIDE, &seeds, |&seed| checked(visit, seed));
    }
}

fn checked(visit: &Visit, seed: u64) {
    let life = Life::of(seed, visit);
    life.live(visit).unwrap_or_else(|found| {
        panic!("{found}\nCANTLE_TEST_CASE={seed}, {:?}, {:?}", life.plan, life.tuning);
    });
    visit.count("lives", 1);
}

/// The plan of a seed, and the options of its stores.
pub fn life_of(seed: u64, layout: LayoutKind) -> (Plan, Tuning) {
    let tuning = Tuning::of(seed, layout);
    (Plan::of(seed, tuning.filling_bytes(seed)), tuning)
}

/// Number of writes in each cycle of a store; the first cycle fills it.
pub fn writes_of(plan: &Plan, cycle: u64, rng: &mut Rng) -> u64 {
    let writes = plan.filling.clamp(WRITES_MIN, WRITES_MAX);
    if cycle == 0 { writes } else { writes / 4 + rng.below(writes / 4) }
}

/// A store after the death of its process, and bounds of its contents.
struct Left {
    memory: MemVfs,
    /// Minimum number of writes that it must hold: these were durable.
    durable: u64,
    /// Range of the number of writes that it may hold.
    promised: RangeInclusive<u64>,
}

struct Life {
    plan: Plan,
    tuning: Tuning,
}

impl Watch for Progress {
    fn begun(&self) {
        self.begin();
    }

    fn finished(&self, is_durable: bool) {
        self.finish(is_durable);
    }

    fn all_is_durable(&self) {
        Self::all_is_durable(self);
    }
}

impl Life {
    fn of(seed: u64, visit: &Visit) -> Self {
        let (plan, tuning) = life_of(seed, visit.layout);
        Self { plan, tuning }
    }

    fn live(&self, visit: &Visit) -> Result<(), String> {
        let mut rng = Rng::new(self.plan.seed);
        let mut left = Left { memory: MemVfs::new(), durable: 0, promised: 0..=0 };
        for cycle in 0..CYCLES {
            if visit.is_over() {
                return Ok(());
            }
            let lived = self.cycle(visit, left, cycle, &mut rng);
            left = lived.map_err(|found| format!("cycle {cycle}: {found}"))?;
        }
        let Left { memory, promised, .. } = left;
        self.check(memory, promised, &mut rng, visit).map_err(|found| format!("at last: {found}"))
    }

    /// Opens the remaining store, uses it, and returns the store that the next death leaves.
    fn cycle(&self, visit: &Visit, left: Left, cycle: u64, rng: &mut Rng) -> Result<Left, String> {
        let Left { memory, durable, promised } = left;
        let fault = FaultVfs::over_memory(memory.clone());
        let open = |rng: &mut Rng| self.tuning.options(rng).vfs(Arc::new(fault.clone())).open(STORE);
        let db = open(rng).map_err(|error| format!("cannot open: {error}"))?;
        let mut model = self.found(&db, promised)?;
        let writes = writes_of(&self.plan, cycle, rng);
        let progress = Progress::at(model.writes, durable);
        // The call before which it is killed; every other time it is killed after all work is done.
        let call = if rng.below(2) == 0 { rng.below(4 * writes) } else { u64::MAX / 4 };
        let images = record(&fault, &memory, &progress, 2 * (1 + call), 1);
        let usage =
            Usage { db: &db, plan: &self.plan, durability: self.tuning.durability, watch: &*progress };
        let used = match cycle {
            0 => usage.fill(&mut model, writes),
            _ => usage.run(&mut model, rng, writes),
        };
        fault.clear_rule();
        count_maintenance(visit, &db);
        used?;
        let image = images.lock().unwrap().pop();
        let image = image.map_or_else(|| (memory.kill(), progress.now()), |image| (image.vfs, image.marks));
        let all = model.writes..=model.writes;
        // In half of the cases the process continues and closes its store.
        if rng.below(2) == 0 {
            db.close().map_err(|error| format!("cannot close: {error}"))?;
        }
        drop(db);
        self.check(memory, all, rng, visit).map_err(|found| format!("closed and opened: {found}"))?;
        Ok(self.death(image, rng, visit))
    }

    /// A death at the moment of an image.
    fn death(&self, (image, marks): (MemVfs, Marks), rng: &mut Rng, visit: &Visit) -> Left {
        let (death, memory) = match rng.below(4) {
            0 => (Death::Power, image.crash(&CrashPlan::random(rng.next()))),
            _ => (Death::Process, image),
        };
        // Writes that a `Sync` store acknowledges are durable. Other writes that an opening found
        // are durable only after a checkpoint.
        let keeps_all = death == Death::Process && self.tuning.durability != Durability::Buffered;
        visit.count(if death == Death::Power { "losses of power" } else { "processes killed" }, 1);
        let first = if keeps_all { marks.acknowledged } else { marks.durable };
        Left { memory, durable: marks.durable, promised: first..=marks.begun }
    }

    /// Opens a store, compares and verifies it, twice.
    fn check(
        &self,
        memory: MemVfs,
        promised: RangeInclusive<u64>,
        rng: &mut Rng,
        visit: &Visit,
    ) -> Result<(), String> {
        let mut promised = promised;
        for opening in ["once", "twice"] {
            let options = self.tuning.options(rng).vfs(Arc::new(memory.clone()));
            let context = |found| format!("opened {opening}: {found}");
            let db = options.open(STORE).map_err(|error| context(format!("cannot open: {error}")))?;
            let model = self.found(&db, promised).map_err(context)?;
            promised = model.writes..=model.writes;
            let report = db.verify().map_err(|error| context(format!("cannot verify: {error}")))?;
            if !report.is_ok() {
                return Err(context(format!("{report:?}")));
            }
            db.close().map_err(|error| context(format!("cannot close: {error}")))?;
            visit.count("stores checked", 1);
        }
        Ok(())
    }

    fn found(&self, db: &Db, promised: RangeInclusive<u64>) -> Result<Model, String> {
        Model::find(&self.plan, &read_all(db)?, promised)
    }
}

/// Counts the work of maintenance on a store since it was opened.
fn count_maintenance(visit: &Visit, db: &Db) {
    let stats = db.stats();
    for keyspace in &stats.keyspaces {
        visit.count("writes", keyspace.writes);
        visit.count("munks loaded", keyspace.of_chunk().munk_loads);
        visit.count("rebalances", keyspace.of_chunk().rebalances);
        visit.count("splits", keyspace.of_chunk().splits);
        visit.count("splits of an end", keyspace.of_chunk().end_splits);
        visit.count("merges", keyspace.of_chunk().merges);
    }
    visit.count("checkpoints", stats.checkpoints);
}
