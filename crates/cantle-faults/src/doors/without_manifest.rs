//! The manifest is gone, at every point of the jobs of a store: after a kill, and after losses of power
//! that leave whatever names and bytes they may. A repair then saves every pair that was durable. A pair
//! that was deleted, an older value or an older delete comes back only from a file that the report names,
//! with a range that has the key. In layouts over levels none comes back, as no file is damaged.
//!
//! The stores are small and do many jobs: regions and logs of a few kilobytes, many deletes of both
//! kinds, checkpoints and compactions between them, and iterators that keep obsolete files.

use crate::history::{Death, History, Marks, Progress};
use crate::images::{Image, record};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::setup::STORE;
use crate::visit::Visit;
use crate::workload::{self, Change, KEYS, Op, Pairs, key};
use cantle::repair::RepairReport;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, PendingKind, Survival, Tail, Vfs};
use cantle::{Db, Durability, Error, KeyspaceOptions, LayoutKind, LayoutOptions, Options, Resources};
use std::collections::{HashSet, VecDeque};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const TARGET: &str = "/saved";
/// Workloads of a round.
const WORKLOADS: u64 = 4;
/// Operations of a workload, each of them on a few pairs.
const OPERATIONS: u64 = 90;
/// Moments of a workload that are checked, in the short form and in a long run.
const MOMENTS: [usize; 2] = [40, 400];
/// Losses of power at a moment, besides those that keep all names or none.
const LOSSES: [usize; 2] = [4, 40];

pub fn enter(visit: &Visit) {
    if let Some(case) = &visit.case {
        let seed = case.parse().unwrap_or_else(|_| panic!("{case:?} is no seed of a workload"));
        return one(visit, seed);
    }
    for seed in visit.rounds() {
        let seeds: Vec<u64> = (0..WORKLOADS).map(|number| seed.wrapping_add(number)).collect();
        visit.each(&seeds, |&seed| one(visit, seed));
    }
}

/// Resources that the stores share which are only looked at.
fn shared() -> Resources {
    static SHARED: OnceLock<Resources> = OnceLock::new();
    SHARED.get_or_init(|| Resources::new(4 << 20, 1)).clone()
}

struct Store {
    layout: LayoutKind,
    durability: Durability,
}

impl Store {
    fn keyspace(&self) -> KeyspaceOptions {
        let layout = LayoutOptions::from(self.layout)
            .with("chunk_bytes", 64 << 10)
            .with("log_bytes", 8 << 10)
            .with("guard_bytes", 4 << 10)
            .with("generation_bytes", 4 << 10)
            .with("max_sstables_per_guard", 3)
            .with("log_is_level_0", self.durability == Durability::Process);
        KeyspaceOptions::new().layout(layout)
    }

    fn options(&self, vfs: Arc<dyn Vfs>) -> Options {
        Options::new()
            .vfs(vfs)
            .durability(self.durability)
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(self.keyspace())
    }
}

/// The next operation: few keys are written and deleted again and again.
fn draw(rng: &mut Rng) -> Op {
    let near = rng.below(KEYS);
    let put = |rng: &mut Rng, number: u64| {
        let stamp = rng.next().to_le_bytes();
        let bytes = 8 + rng.below(300) as usize;
        Change::Put(number % KEYS, stamp.into_iter().cycle().take(bytes).collect())
    };
    match rng.below(20) {
        0..=5 => {
            let changes = (0..8).map(|number| ("default", put(rng, near + 3 * number))).collect();
            Op::Batch(changes)
        }
        6..=8 => Op::One("default", put(rng, near)),
        9..=12 => {
            Op::Batch((0..6).map(|number| ("default", Change::Delete((near + number) % KEYS))).collect())
        }
        13 => Op::One("default", Change::DeleteRange(near, near + 1 + rng.below(KEYS / 3))),
        14 => Op::One("default", Change::DeleteRange(0, KEYS)),
        15 | 16 => Op::Sync,
        17 => Op::Compact,
        18 => Op::CompactRange(near, near + 1 + rng.below(KEYS / 4)),
        _ => Op::One("default", Change::Delete(near)),
    }
}

/// A load in key order, as long as a generation: its log may become a table as it is, where a guard is divided.
fn draw_in_order(rng: &mut Rng) -> Op {
    let first = rng.below(KEYS);
    let numbers = first..KEYS.min(first + 30);
    let stamp = rng.next().to_le_bytes();
    let value = || stamp.into_iter().cycle().take(150).collect();
    Op::Batch(numbers.map(|number| ("default", Change::Put(number, value()))).collect())
}

/// The beginning of some workloads: a table has replaced a part of a file of which another guard still reads the rest, and
/// goes by a range delete. The pairs that were deleted before, and that the range delete does not cover, are in the file.
fn removal(rng: &mut Rng) -> VecDeque<Op> {
    let first = 2 + rng.below(KEYS - 100);
    let (edge, end) = (first + 1 + rng.below(8), first + 16);
    let mut put = |bytes: usize, numbers: &mut dyn Iterator<Item = u64>| {
        let value: Arc<[u8]> = rng.next().to_le_bytes().into_iter().cycle().take(bytes).collect();
        Op::Batch(numbers.map(|number| ("default", Change::Put(number, value.clone()))).collect())
    };
    VecDeque::from([
        put(40, &mut (first..=end).chain([first + 20])),
        Op::Compact,
        // It becomes a part of the tables as it is, and divides the guard before its first key, which the table has.
        put(200, &mut (first + 20..first + 60)),
        Op::Batch((first..edge).map(|number| ("default", Change::Delete(number))).collect()),
        Op::CompactRange(first, end),
        // A third guard, so that the second one is left alone below.
        put(200, &mut (first + 60..first + 90)),
        Op::CompactRange(0, 1),
        Op::One("default", Change::DeleteRange(edge, end + 1)),
        Op::CompactRange(first + 80, first + 90),
    ])
}

fn one(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed ^ 0x3a_41fe57);
    let durability = [Durability::Process, Durability::Process, Durability::Sync][rng.below(3) as usize];
    let store = Store { layout: visit.layout, durability };
    let (memory, progress, mut history) = (MemVfs::new(), Progress::at(0, 0), History::default());
    let fault = FaultVfs::over_memory(memory.clone());
    let moments = MOMENTS[usize::from(visit.is_long())];
    let images = record(&fault, &memory, &progress, 1 + rng.below(12), 40 * moments);
    let (mut serial, mut is_compacted) = (0, false);
    let mut planned = if rng.below(2) == 0 { removal(&mut rng) } else { VecDeque::new() };
    while serial < OPERATIONS {
        let options = store.options(Arc::new(fault.clone())).memory_budget(1 << 20).background_threads(1);
        let db = options.open(STORE).unwrap();
        let mut held = Vec::new();
        let until = OPERATIONS.min(serial + 20 + rng.below(OPERATIONS));
        while serial < until {
            let in_order = std::mem::take(&mut is_compacted) && rng.below(2) == 0;
            let op = match planned.pop_front() {
                Some(op) => op,
                None if in_order => draw_in_order(&mut rng),
                None => draw(&mut rng),
            };
            is_compacted = matches!(op, Op::Compact);
            history.push(&op);
            progress.begin();
            workload::run(&db, &op, &store.keyspace(), serial)
                .unwrap_or_else(|error| panic!("CANTLE_TEST_CASE={seed}, {op:?}: {error}"));
            progress.finish(workload::is_sync(&op));
            serial += 1;
            match rng.below(12) {
                0 => held.extend(Some(db.range(..)).map(|mut range| (range.next(), range))),
                1 => held.clear(),
                _ => {}
            }
        }
        held.clear();
        db.close().unwrap();
        progress.all_is_durable();
    }
    fault.clear_rule();
    visit.count("workloads", 1);
    let mut images = std::mem::take(&mut *images.lock().unwrap());
    images.push(Image { vfs: memory.kill(), marks: progress.now(), call: None, at: "anything else".into() });
    let checked = Checked { visit, seed, store: &store, history: &history };
    let mut seen = HashSet::new();
    let step = images.len().div_ceil(moments).max(1);
    for image in images.iter().skip(rng.below(step as u64) as usize).step_by(step) {
        checked.moment(image, &mut rng, &mut seen);
    }
}

/// Ways to lose power now: above all, removals and creations of files that are durable in any order.
fn losses(memory: &MemVfs, rng: &mut Rng, most: usize) -> Vec<CrashPlan> {
    use Survival::{Before, Everything, Nothing, Only, Without};
    let plan = |names, data| CrashPlan { seed: 0, names, data, tail: Tail::Cut };
    let mut drawn = Vec::new();
    for change in memory.pending().iter().filter(|change| matches!(change.kind, PendingKind::Name)) {
        let number = change.number;
        drawn.extend([plan(Without(number), Everything), plan(Only(number), Everything)]);
        drawn.push(plan(Before(number), Everything));
    }
    while drawn.len() > most {
        drawn.swap_remove(rng.below(drawn.len() as u64) as usize);
    }
    drawn.extend([plan(Nothing, Nothing), plan(Everything, Nothing), plan(Everything, Everything)]);
    drawn.push(CrashPlan::random(rng.next()));
    drawn
}

struct Checked<'a> {
    visit: &'a Visit,
    seed: u64,
    store: &'a Store,
    history: &'a History,
}

impl Checked<'_> {
    fn moment(&self, image: &Image, rng: &mut Rng, seen: &mut HashSet<(u128, Marks, bool)>) {
        let plans = losses(&image.vfs, rng, LOSSES[usize::from(self.visit.is_long())]);
        let lost = plans.into_iter().map(|plan| (image.vfs.crash(&plan), Death::Power, format!("{plan:?}")));
        let killed = (image.vfs.kill(), Death::Process, "process killed".to_owned());
        for (vfs, death, what) in std::iter::once(killed).chain(lost) {
            if self.visit.is_over() {
                return;
            }
            remove_manifests(&vfs);
            if !seen.insert((vfs.fingerprint(), image.marks, death == Death::Power)) {
                continue;
            }
            self.visit.count("states without a manifest", 1);
            self.state(&vfs, image.marks, death).unwrap_or_else(|found| {
                let seed = self.seed;
                panic!("CANTLE_TEST_CASE={seed}, before {}; {what}: {found}", image.at)
            });
        }
    }

    fn state(&self, vfs: &MemVfs, marks: Marks, death: Death) -> Result<(), String> {
        let low = match (death, self.store.durability) {
            (Death::Process, _) | (_, Durability::Sync) => marks.acknowledged,
            _ => marks.durable,
        } as usize;
        let high = (marks.begun as usize).min(self.history.states.len() - 1);
        let options = || self.store.options(Arc::new(vfs.clone())).resources(shared());
        let report = match Db::repair(STORE, TARGET, options()) {
            Ok(report) => report,
            // Nothing of the store was durable yet, or all of it was deleted.
            Err(Error::NotFound { .. } | Error::NotAStore { .. } | Error::Corruption { .. })
                if (low..=high).any(|state| self.pairs(state).is_empty()) =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("cannot be repaired: {error}")),
        };
        let db = options().create_if_missing(false).open(TARGET);
        let db = db.map_err(|error| format!("what was repaired does not open: {error}"))?;
        let found = db.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value[..].into())));
        let found = found.collect::<cantle::Result<Pairs>>().map_err(|error| error.to_string())?;
        self.visit.count("files replaced by others", report.left_out.len() as u64);
        for number in 0..KEYS {
            self.pair(&key(number), &found, (low, high), &report)
                .map_err(|wrong| format!("{}: {wrong}; {:?}", key(number).escape_ascii(), report.notes))?;
        }
        Ok(())
    }

    fn pairs(&self, state: usize) -> &Pairs {
        &self.history.states[state]["default"]
    }

    fn pair(
        &self,
        key: &[u8],
        found: &Pairs,
        (low, high): (usize, usize),
        report: &RepairReport,
    ) -> Result<(), String> {
        let found = found.get(key);
        let now: Vec<_> = (low..=high).map(|state| self.pairs(state).get(key)).collect();
        if now.contains(&found) {
            return Ok(());
        }
        if !(0..low).any(|state| self.pairs(state).get(key) == found) {
            return Err("it never had this value".into());
        }
        let (is_deleted, what) = match (found, now.contains(&None)) {
            (None, _) => (false, "it was durable, and is lost"),
            (_, true) => (true, "it was deleted, and is back"),
            (_, false) => (false, "it has an older value than the durable one"),
        };
        let is_named = |path: &PathBuf| path.starts_with(STORE);
        let mut named = report.may_return.iter().filter(|named| is_named(&named.path));
        let may_return = !matches!(self.store.layout, LayoutKind::Flsm | LayoutKind::Forest);
        if may_return && named.any(|named| named.keys.contains(&key.to_vec())) {
            let counter = if is_deleted {
                "deleted pairs that came back, named"
            } else {
                "older values and deletes, named"
            };
            self.visit.count(counter, 1);
            return Ok(());
        }
        let why = if may_return { ", and the report names no file" } else { "" };
        Err(format!("{what}{why}"))
    }
}

fn remove_manifests(vfs: &MemVfs) {
    let dir = Path::new(STORE);
    for name in vfs.list(dir).unwrap_or_default().iter().filter(|name| name.starts_with("MANIFEST")) {
        vfs.remove(&dir.join(name)).unwrap();
    }
}
