//! Every workload of up to three operations on a fresh store, at every call that changes something.

use super::check::{Moment, Seen};
use super::trails::Trails;
use crate::history::{History, Marks, Progress};
use crate::images::record;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use crate::workload::{self, Change, Op};
use cantle::Durability;
use cantle::vfs::{FaultVfs, MemVfs};
use std::sync::Arc;
use std::time::Duration;

const DURABILITIES: [(&str, Durability); 3] =
    [("process", Durability::Process), ("sync", Durability::Sync), ("buffered", Durability::Buffered)];

/// The most operations of a workload.
const LENGTH: usize = 3;

/// One step of a workload on a fresh store.
#[derive(Debug, Clone)]
enum Step {
    Op(Op),
    /// The store is closed and opened again.
    Reopen,
}

/// The steps that workloads consist of.
fn alphabet() -> Vec<Step> {
    let put = |n, bytes: usize| Change::Put(n, vec![b'a' + n as u8; bytes].into());
    let ops = [
        Op::One("default", put(0, 40)),
        // More than a page, so that it can be torn at a page boundary.
        Op::One("default", put(1, 6000)),
        Op::One("default", Change::Delete(0)),
        Op::One("default", Change::DeleteRange(0, 2)),
        Op::Batch(vec![("default", put(0, 50)), ("default", put(1, 60)), ("default", Change::Delete(2))]),
        Op::Batch(vec![("default", put(0, 70)), ("second", put(0, 900))]),
        Op::Create("second"),
        Op::Drop("second"),
        Op::Sync,
        Op::Compact,
        Op::Backup,
        // Reads the keys that it deletes.
        Op::Transaction(vec![("default", put(0, 80)), ("default", Change::DeleteRange(1, 3))]),
    ];
    let durable = Op::Durable("default", put(2, 60));
    ops.into_iter().map(Step::Op).chain([Step::Reopen, Step::Op(durable)]).collect()
}

/// One workload: its steps, and its durability.
struct Case {
    steps: Vec<usize>,
    durability: usize,
}

impl Case {
    fn name(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(usize::to_string).collect();
        format!("{}:{}", DURABILITIES[self.durability].0, steps.join("."))
    }

    fn parse(text: &str) -> Option<Self> {
        let (durability, steps) = text.split_once(':')?;
        let durability = DURABILITIES.iter().position(|(name, _)| *name == durability)?;
        let steps: Option<Vec<usize>> =
            steps.split('.').filter(|step| !step.is_empty()).map(|s| s.parse().ok()).collect();
        Some(Self { steps: steps?, durability })
    }

    /// True if each of its operations is possible at its place.
    fn is_admissible(&self, alphabet: &[Step]) -> bool {
        let mut has_second = false;
        self.steps.iter().all(|&step| match &alphabet[step] {
            Step::Op(Op::Create(_)) => !std::mem::replace(&mut has_second, true),
            Step::Op(Op::Drop(_)) => std::mem::replace(&mut has_second, false),
            Step::Op(Op::Batch(changes)) => has_second || changes.iter().all(|(name, _)| *name == "default"),
            _ => true,
        })
    }
}

/// All workloads, each with the durability that `durability` returns, or with every one if it
/// returns `None`.
fn cases(alphabet: &[Step], durability: impl Fn(&[usize]) -> Option<usize>) -> Vec<Case> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..LENGTH {
        let until = all.len();
        for at in from..until {
            for step in 0..alphabet.len() {
                all.push([&all[at][..], &[step]].concat());
            }
        }
        from = until;
    }
    all.into_iter()
        .flat_map(|steps| {
            let only = durability(&steps);
            let durabilities =
                (0..DURABILITIES.len()).filter(move |&index| only.is_none_or(|only| only == index));
            durabilities.map(move |durability| Case { steps: steps.clone(), durability })
        })
        .filter(|case| case.is_admissible(alphabet))
        .collect()
}

/// The durability of a workload. It is random for the steps before the last, so that workloads with
/// different last steps have all of them in turn, and another one in each of three consecutive
/// rounds.
fn drawn(steps: &[usize], seed: u64, round: usize) -> usize {
    let (last, before) = steps.split_last().map_or((0, steps), |(last, before)| (*last, before));
    let mixed = before.iter().fold(seed, |mixed, &step| Rng::new(mixed ^ (step as u64 + 1)).next());
    (mixed as usize % DURABILITIES.len() + last + round) % DURABILITIES.len()
}

/// Runs all workloads once. The `round`s of one `seed` give each of them one durability after the
/// other.
pub fn all(visit: &Visit, trails: &Trails, seed: u64, round: usize) {
    let alphabet = alphabet();
    let cases = cases(&alphabet, |steps| (steps.len() > 1).then(|| drawn(steps, seed, round)));
    let images_seed = visit.round_seed();
    visit.each(&cases, |case| run(visit, trails, &alphabet, case, images_seed));
    visit.count("times that all short workloads were done", 1);
}

/// Runs all workloads with every durability, in an order that follows from a seed, a few at a time.
pub struct Shuffled {
    alphabet: Vec<Step>,
    cases: Vec<Case>,
    next: usize,
}

impl Shuffled {
    /// Number of workloads at a time.
    const SOME: usize = 128;

    pub fn new(seed: u64) -> Self {
        let alphabet = alphabet();
        let mut cases = cases(&alphabet, |_| None);
        let mut rng = Rng::new(seed);
        for last in (1..cases.len()).rev() {
            cases.swap(last, rng.below(last as u64 + 1) as usize);
        }
        Self { alphabet, cases, next: 0 }
    }

    /// Runs the next ones. After the last it begins again, with other random images.
    pub fn some(&mut self, visit: &Visit, trails: &Trails, seed: u64) {
        let until = self.cases.len().min(self.next + Self::SOME);
        visit.each(&self.cases[self.next..until], |case| run(visit, trails, &self.alphabet, case, seed));
        if visit.is_over() {
            return;
        }
        self.next = until;
        if until == self.cases.len() {
            self.next = 0;
            visit.count("times that all short workloads were done with every durability", 1);
        }
    }
}

/// Runs the workload with this name.
pub fn one(visit: &Visit, trails: &Trails, name: &str) {
    let case = Case::parse(name)
        .unwrap_or_else(|| panic!("{name:?} is no case, as sync:0.3.8, threads:7 and long:7 are"));
    run(visit, trails, &alphabet(), &case, visit.round_seed());
}

/// Runs a workload. `seed` is that of the random images.
fn run(visit: &Visit, trails: &Trails, alphabet: &[Step], case: &Case, seed: u64) {
    let name = case.name();
    let setup = Setup {
        layout: visit.layout,
        durability: DURABILITIES[case.durability].1,
        // Only the checkpoints of the workload, so that a case is the same each time.
        checkpoint_interval: Duration::from_secs(3600),
        chunk_bytes: 64 << 10,
        log_bytes: 4096,
        as_published: false,
        // The workloads of one durability flush, those of the other index logs.
        log_is_level_0: case.durability != 0,
        threads: 1,
    };
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let progress = Progress::at(0, 0);
    let mut history = History::default();
    let mut images = None;
    // The steps before the last are a shorter workload, which is checked by itself.
    let mut db = {
        if case.steps.is_empty() {
            images = Some(record(&fault, &memory, &progress, 1, usize::MAX));
        }
        Some(setup.open(Arc::new(fault.clone())).unwrap_or_else(|error| panic!("{name}: {error}")))
    };
    for (index, &step) in case.steps.iter().enumerate() {
        if index + 1 == case.steps.len() {
            images = Some(record(&fault, &memory, &progress, 1, usize::MAX));
        }
        match &alphabet[step] {
            Step::Op(op) => {
                history.push(op);
                progress.begin();
                let open = db.as_ref().expect("an open store");
                workload::run(open, op, &setup.keyspace(), index as u64)
                    .unwrap_or_else(|error| panic!("{name}: {op:?}: {error}"));
                progress.finish(workload::is_sync(op));
            }
            Step::Reopen => {
                let open = db.take().expect("an open store");
                open.close().unwrap_or_else(|error| panic!("{name}: closing: {error}"));
                progress.all_is_durable();
                drop(open);
                db = Some(
                    setup.open(Arc::new(fault.clone())).unwrap_or_else(|error| panic!("{name}: {error}")),
                );
            }
        }
    }
    fault.clear_rule();
    let end = (memory.kill(), progress.now());
    drop(db);
    let images = images.map(|images| std::mem::take(&mut *images.lock().unwrap())).unwrap_or_default();
    let mut seen = Seen::default();
    visit.count("short workloads", 1);
    visit.count("calls", images.len() as u64);
    let moments = images.iter().map(|image| (&image.vfs, image.marks, image.at.as_str()));
    for (index, (memory, marks, at)) in moments.chain([(&end.0, end.1, "nothing more")]).enumerate() {
        let context = format!("CANTLE_TEST_CASE={name}, call {index}, before {at}");
        let marks = Marks { begun: marks.begun.max(marks.acknowledged), ..marks };
        Moment { setup: &setup, history: &history, marks, memory, trails, context: &context }.check(
            visit,
            seed.wrapping_mul(1 << 20).wrapping_add(index as u64),
            &mut seen,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_the_first_the_second_and_the_last_with_each_durability() {
        let alphabet = alphabet();
        let cases = cases(&alphabet, |steps| Some(drawn(steps, 0, 0)));
        for place in 0..LENGTH {
            for (step, what) in alphabet.iter().enumerate() {
                for durability in 0..DURABILITIES.len() {
                    let is_that = |case: &&Case| {
                        case.steps.len() == LENGTH
                            && case.steps[place] == step
                            && case.durability == durability
                    };
                    let found = cases.iter().filter(is_that).count();
                    assert!(found > 0 || is_never(what, place), "{step} at {place}");
                }
            }
        }
    }

    /// True if the step needs a keyspace that cannot exist yet.
    fn is_never(step: &Step, place: usize) -> bool {
        let needs_second = match step {
            Step::Op(Op::Drop(_)) => true,
            Step::Op(Op::Batch(changes)) => changes.iter().any(|(name, _)| *name == "second"),
            _ => false,
        };
        needs_second && place == 0
    }

    #[test]
    fn three_rounds_give_each_workload_every_durability() {
        let mut durabilities: Vec<_> = (0..3).map(|round| drawn(&[3, 1, 4], 1, round)).collect();
        durabilities.sort_unstable();
        assert_eq!(durabilities, [0, 1, 2]);
    }
}
