//! Every workload of up to three operations on a fresh store, at every call that changes something.

use super::check::{Moment, Seen};
use crate::history::{History, Marks, Progress};
use crate::images::record;
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

/// Something done to a fresh store.
#[derive(Debug, Clone)]
enum Step {
    Op(Op),
    /// Closed and opened again.
    Reopen,
}

/// What workloads are made of.
fn alphabet() -> Vec<Step> {
    let put = |n, bytes: usize| Change::Put(n, vec![b'a' + n as u8; bytes].into());
    let ops = [
        Op::One("default", put(0, 40)),
        // More than a page, so that it can be torn at one.
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
    ];
    ops.into_iter().map(Step::Op).chain([Step::Reopen]).collect()
}

/// One workload: which steps, and how they are acknowledged.
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

    /// Whether each of its operations makes sense where it stands.
    fn is_admissible(&self, alphabet: &[Step]) -> bool {
        let mut has_second = false;
        let last = self.steps.len().saturating_sub(1);
        self.steps.iter().enumerate().all(|(place, &step)| match &alphabet[step] {
            // What follows does not touch it, and what came long before does not matter to it.
            Step::Op(Op::Backup) => place == last && last < LENGTH - 1,
            Step::Op(Op::Create(_)) => !std::mem::replace(&mut has_second, true),
            Step::Op(Op::Drop(_)) => std::mem::replace(&mut has_second, false),
            Step::Op(Op::Batch(changes)) => has_second || changes.iter().all(|(name, _)| *name == "default"),
            _ => true,
        })
    }
}

/// All that are to be gone through: with every durability the short ones, and in tests the long ones with one of them in turn.
fn cases(visit: &Visit, alphabet: &[Step]) -> Vec<Case> {
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
    let in_turn = !visit.is_long();
    all.into_iter()
        .enumerate()
        .flat_map(|(turn, steps)| {
            let only = (in_turn && steps.len() == LENGTH).then_some(turn % DURABILITIES.len());
            let durabilities =
                (0..DURABILITIES.len()).filter(move |&index| only.is_none_or(|only| only == index));
            durabilities.map(move |durability| Case { steps: steps.clone(), durability })
        })
        .filter(|case| case.is_admissible(alphabet))
        .collect()
}

/// Goes through all of them.
pub fn all(visit: &Visit) {
    let alphabet = alphabet();
    let cases = cases(visit, &alphabet);
    visit.each(&cases, |case| run(visit, &alphabet, case));
}

/// Goes through the one of a name.
pub fn one(visit: &Visit, name: &str) {
    let case = Case::parse(name).unwrap_or_else(|| panic!("{name:?} is no case, as sync:0.3.8 is one"));
    run(visit, &alphabet(), &case);
}

fn run(visit: &Visit, alphabet: &[Step], case: &Case) {
    let name = case.name();
    let setup = Setup {
        layout: visit.layout,
        durability: DURABILITIES[case.durability].1,
        // Nothing but what is asked for, so that a case is the same each time.
        checkpoint_interval: Duration::from_secs(3600),
        chunk_bytes: 64 << 10,
        log_bytes: 4096,
        log_index: true,
        threads: 1,
    };
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let progress = Progress::at(0, 0);
    let mut history = History::default();
    let mut images = None;
    // What came before the last step is the last step of a shorter workload.
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
                // The lock goes with the last handle.
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
    let mut seen = Seen::new();
    visit.count("workloads", 1);
    visit.count("calls", images.len() as u64);
    let moments = images.iter().map(|image| (&image.vfs, image.marks, image.at.as_str()));
    for (index, (memory, marks, at)) in moments.chain([(&end.0, end.1, "nothing more")]).enumerate() {
        let context = format!("CANTLE_TEST_CASE={name}, call {index}, before {at}");
        let marks = Marks { begun: marks.begun.max(marks.acknowledged), ..marks };
        Moment { setup: &setup, history: &history, marks, memory, context: &context }.check(
            visit,
            index as u64,
            &mut seen,
        );
    }
}
