//! The power fails while a store is repaired or destroyed. An unfinished repair is not a store, and
//! a finished one holds everything. A store that is being destroyed holds everything, or an opening
//! reports that it does not. A destroyed store stays destroyed.

use super::enumerate::plans;
use crate::history::{History, Progress};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::{STORE, Setup};
use crate::visit::Visit;
use crate::workload::{self, Op, State};
use cantle::vfs::{FaultVfs, MemVfs};
use cantle::{Durability, Error};
use std::collections::HashSet;
use std::sync::Arc;

const REPAIRED: &str = "/repaired";

/// Operations on the store before.
const OPERATIONS: u64 = 30;

/// The operation on the store.
#[derive(Debug, Clone, Copy)]
enum Task {
    Repair,
    Destroy,
}

/// Repairs a store and destroys one.
pub fn some(visit: &Visit, seed: u64) {
    visit.each(&[Task::Repair, Task::Destroy], |&task| run(visit, seed, task));
}

/// Runs both tasks of a seed.
pub fn one(visit: &Visit, seed: u64) {
    some(visit, seed);
}

fn run(visit: &Visit, seed: u64, task: Task) {
    let mut rng = Rng::new(seed);
    let setup = Setup { layout: visit.layout, ..Setup::random(&mut rng, Durability::Process) };
    let memory = MemVfs::new();
    let state = fill(&setup, &memory, &mut rng);
    let fault = FaultVfs::over_memory(memory.clone());
    let images = record(&fault, &memory, &Progress::at(0, 0), 1, usize::MAX);
    let options = setup.image_options(Arc::new(fault.clone()));
    let context = format!("CANTLE_TEST_CASE=upkeep:{seed}, {task:?}");
    let done = match task {
        Task::Repair => cantle::Db::repair(STORE, REPAIRED, options).map(drop),
        Task::Destroy => cantle::Db::destroy(STORE, options),
    };
    done.unwrap_or_else(|error| panic!("{context}: {error}"));
    fault.clear_rule();
    let images = std::mem::take(&mut *images.lock().unwrap());
    let moments = images.iter().map(|image| (&image.vfs, image.at.as_str()));
    let end = memory.kill();
    let mut seen = HashSet::new();
    for (vfs, at) in moments.chain([(&end, "nothing more")]) {
        let is_done = std::ptr::eq(vfs, &end);
        let plans = plans(vfs, rng.next());
        visit.count("images", plans.len() as u64);
        for plan in plans {
            if visit.is_over() {
                return;
            }
            let image = vfs.crash(&plan);
            if !seen.insert((image.fingerprint(), is_done)) {
                continue;
            }
            visit.count("states of repairs and destructions", 1);
            check(&setup, image, &state, task, is_done)
                .unwrap_or_else(|found| panic!("{context}, before {at}; {plan:?}: {found}"));
        }
    }
}

/// Fills and closes a store; returns its contents.
fn fill(setup: &Setup, memory: &MemVfs, rng: &mut Rng) -> State {
    let mut history = History::default();
    let db = setup.open(Arc::new(memory.clone())).unwrap();
    for serial in 0..OPERATIONS {
        let op = workload::draw(rng, history.now(), 1500);
        if !matches!(op, Op::Backup) {
            history.push(&op);
            workload::run(&db, &op, &setup.keyspace(), serial).unwrap();
        }
    }
    db.close().unwrap();
    history.now().clone()
}

fn check(setup: &Setup, image: MemVfs, expected: &State, task: Task, is_done: bool) -> Result<(), String> {
    let path = match task {
        Task::Repair => REPAIRED,
        Task::Destroy => STORE,
    };
    let opened = setup.image_options(Arc::new(image)).create_if_missing(false).open(path);
    let found = opened.and_then(|db| workload::contents(&db, &setup.keyspace()));
    match (task, is_done, found) {
        (Task::Destroy, true, Ok(_)) => Err("it is there again".into()),
        (Task::Destroy, true, Err(Error::NotFound { .. })) => Ok(()),
        (_, true, Err(error)) => Err(format!("it was done, but: {error}")),
        (_, false, Err(_)) => Ok(()),
        (_, _, Ok(found)) if found == *expected => Ok(()),
        (_, _, Ok(found)) => {
            Err(format!("it opens, and differs by{}", workload::difference(&found, expected)))
        }
    }
}
