//! The n-th call of a workload fails, for n = 1, 2, 3, … until the workload completes: in every way
//! that a call can fail, once or from then on, alone or followed by another failure. While the
//! store is open it must hold all acknowledged writes and report the failure; after a crash it must
//! open and hold everything that was promised.

mod run;

use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload::{self, Op};
use cantle::Durability;
use cantle::vfs::Operation::{self, Remove, SetLen, SyncData, SyncDir, WriteAt};
use cantle::vfs::{Failure, Verdict};
use run::{Reached, run};
use std::sync::Mutex;
use std::time::Duration;

/// Operations of the workload.
const OPERATIONS: usize = 70;

/// The operations at which a keyspace is created, the store is backed up, and a keyspace is
/// dropped, instead of the drawn ones.
const CREATION: usize = 12;
const BACKUP: usize = 30;
const DROP: usize = 60;

/// The calls that fail after the first one.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// None.
    No,
    /// The same call, from then on.
    Always,
    /// One more: the next of these kinds, or any that changes something.
    Once(&'static [Operation], Verdict),
}

/// A way for calls to fail.
#[derive(Debug, Clone, Copy)]
struct Way {
    name: &'static str,
    first: Verdict,
    then: Then,
}

const fn once(name: &'static str, first: Verdict) -> Way {
    Way { name, first, then: Then::No }
}

const fn always(name: &'static str, first: Verdict) -> Way {
    Way { name, first, then: Then::Always }
}

const fn twice(name: &'static str, first: Verdict, operations: &'static [Operation], second: Verdict) -> Way {
    Way { name, first, then: Then::Once(operations, second) }
}

const IO: Verdict = Verdict::Fail(Failure::EIO);
const NO_SPACE: Verdict = Verdict::Fail(Failure::ENOSPC);
const SHORT: Verdict = Verdict::ShortWrite { bytes: 13, failure: Failure::ENOSPC };
const DONE: Verdict = Verdict::FailDone(Failure::EIO);
const LOST: Verdict = Verdict::FailLost(Failure::EIO);

const WAYS: [Way; 20] = [
    once("EIO", IO),
    once("ENOSPC", NO_SPACE),
    once("EMFILE", Verdict::Fail(Failure::EMFILE)),
    once("EINTR", Verdict::Fail(Failure::EINTR)),
    once("short write", SHORT),
    once("done, yet EIO", DONE),
    once("lost, and EIO", LOST),
    always("EIO from then on", IO),
    always("ENOSPC from then on", NO_SPACE),
    always("EMFILE from then on", Verdict::Fail(Failure::EMFILE)),
    always("done, yet EIO from then on", DONE),
    always("lost, and EIO from then on", LOST),
    twice("ENOSPC, then EIO at a sync", NO_SPACE, &[SyncData, SyncDir], IO),
    twice("ENOSPC, then a sync that loses", NO_SPACE, &[SyncData, SyncDir], LOST),
    twice("short write, then no truncation", SHORT, &[SetLen], IO),
    twice("EIO, then no removal", IO, &[Remove], IO),
    twice("EIO twice", IO, &[], IO),
    twice("ENOSPC twice", NO_SPACE, &[], NO_SPACE),
    twice("a sync that loses, then no writing", LOST, &[WriteAt], IO),
    twice("done, yet EIO, then a short write", DONE, &[WriteAt], SHORT),
];

const DURABILITIES: [Durability; 3] = [Durability::Process, Durability::Sync, Durability::Buffered];

/// One workload, one call of it, one way.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    durability: usize,
    way: usize,
    call: u64,
}

impl Case {
    fn name(&self) -> String {
        format!("{}.{}.{}.{}", self.seed, self.durability, self.way, self.call)
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|number| number.parse().ok()).collect();
        let [seed, durability, way, call] = numbers?[..] else { return None };
        let (durability, way) = (durability as usize, way as usize);
        (durability < DURABILITIES.len() && way < WAYS.len()).then_some(Self { seed, durability, way, call })
    }
}

fn setup(visit: &Visit, case: &Case) -> Setup {
    Setup {
        layout: visit.layout,
        checkpoint_interval: Duration::from_millis(20),
        log_bytes: 8192,
        ..Setup::random(&mut Rng::new(9 + case.seed), DURABILITIES[case.durability])
    }
}

/// Random operations, except for some that are drawn too seldom. If one of them fails, later ones
/// that depend on it are left out.
fn operations(case: &Case) -> Vec<Op> {
    let mut rng = Rng::new(77 + case.seed.wrapping_mul(31) + case.durability as u64);
    let mut state = workload::State::from([
        ("default".into(), Default::default()),
        ("second".into(), Default::default()),
    ]);
    let mut operations = Vec::with_capacity(OPERATIONS);
    for place in 0..OPERATIONS {
        let op = match place {
            CREATION => Op::Create("third"),
            BACKUP => Op::Backup,
            DROP => Op::Drop("second"),
            _ => workload::draw(&mut rng, &state, 3000),
        };
        workload::apply(&mut state, &op);
        operations.push(op);
    }
    operations
}

/// Every call with one of the ways in turn; with all of them if there is time.
pub fn enter(visit: &Visit) {
    if let Some(name) = &visit.case {
        let case = Case::parse(name).unwrap_or_else(|| panic!("{name:?} is no case, as 0.1.3.250 is one"));
        run(visit, &case);
        return;
    }
    for seed in visit.rounds() {
        let seed = seed % 1_000_000;
        for durability in 0..DURABILITIES.len() {
            // In tests each call fails in one of the ways, its neighbours in others.
            let turns = if visit.is_long() { 0..WAYS.len() } else { durability * 7..durability * 7 + 1 };
            for turn in turns {
                every_call(visit, seed, durability, turn);
            }
        }
    }
}

/// The outcome of a workload's calls.
#[derive(Default)]
struct Covered {
    /// Calls that failed.
    failed: u64,
    /// Number of calls of the shortest run without a failure: all of them must have failed in
    /// another run.
    shortest: Option<u64>,
    /// The first calls that no run reached.
    unreached: Vec<u64>,
}

/// Lets each call of a workload fail until the workload completes. Background calls come at
/// different times, so neither the n-th call nor the number of calls is the same each time: two
/// consecutive blocks of calls must each have one that was not reached.
fn every_call(visit: &Visit, seed: u64, durability: usize, turn: usize) {
    const BLOCK: u64 = 64;
    const SHORT_BLOCKS: u32 = 2;
    let covered = Mutex::new(Covered::default());
    let (mut first, mut short_blocks) = (0, 0);
    while short_blocks < SHORT_BLOCKS && !visit.is_over() {
        let calls: Vec<u64> = (first..first + BLOCK).collect();
        let before = covered.lock().unwrap().unreached.len();
        visit.each(&calls, |&call| {
            let way = (call as usize + turn) % WAYS.len();
            let reached = run(visit, &Case { seed, durability, way, call });
            let mut covered = covered.lock().unwrap();
            match reached {
                Reached::Failed => covered.failed += 1,
                Reached::Through { calls } => {
                    covered.shortest = Some(covered.shortest.map_or(calls, |shortest| shortest.min(calls)));
                    covered.unreached.push(call);
                }
            }
        });
        let is_short = covered.lock().unwrap().unreached.len() > before;
        short_blocks = if is_short { short_blocks + 1 } else { 0 };
        first += BLOCK;
    }
    let covered = covered.into_inner().unwrap();
    visit.count("calls of the workloads that failed", covered.failed);
    if short_blocks < SHORT_BLOCKS {
        return;
    }
    let Covered { failed, shortest, unreached } = covered;
    let all = shortest.unwrap_or_default();
    let missed: Vec<u64> = unreached.into_iter().filter(|&call| call < all).collect();
    assert!(
        missed.is_empty() && all > 0 && failed >= all,
        "seed {seed}, {durability}, {turn}: of {all} calls {failed} failed; missed were {missed:?}"
    );
    visit.count("workloads of which every call failed", 1);
    visit.count("calls of the workloads", all);
}
