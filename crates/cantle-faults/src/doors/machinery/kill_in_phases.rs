//! A process is killed before every call that it makes in an opening, a batch, a rebalance, a
//! split, a merge, a checkpoint and a closing, on any thread; in some cases another is killed while
//! it opens the store after that.
//!
//! This complements `kill-at-calls`. There `strace` counts, and the n-th call of a kind is that of
//! the thread which reaches it first. Hence calls of background threads are seldom hit, and their
//! phase is unknown.

use super::child::{DURABILITIES, Part, Role, Running, durability_of, name_of};
use super::kill_at_calls::{check, death, killed_again, marks, part};
use super::phases::{self, Phase};
use super::script;
use crate::history::History;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Durability, LayoutKind};
use std::time::Duration;

/// In `cargo test`: the number of kills in each phase, for each durability.
const SAMPLE: u64 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Case {
    durability: Durability,
    phase: Phase,
    n: u64,
}

impl Case {
    fn name(&self) -> String {
        format!("{}:{}:{}", name_of(self.durability), self.phase.name(), self.n)
    }

    fn parse(text: &str) -> Option<Self> {
        let [durability, phase, n] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
        let (durability, phase) = (durability_of(durability)?, Phase::of_name(phase)?);
        Some(Self { durability, phase, n: n.parse().ok()? })
    }
}

pub fn enter(visit: &Visit) {
    if let Some(name) = &visit.case {
        let case =
            Case::parse(name).unwrap_or_else(|| panic!("{name:?} is no case, as process:split:3 is one"));
        return go_through(visit, &case, visit.seed);
    }
    for (round, seed) in visit.rounds().enumerate() {
        let mut rng = Rng::new(seed);
        let mut cases = Vec::new();
        for durability in DURABILITIES {
            for (phase, calls) in calls(visit, durability) {
                if round == 0 {
                    visit.count(phase.calls(), calls);
                }
                let case = |n| Case { durability, phase, n };
                if visit.is_long() {
                    cases.extend((1..=calls).map(case));
                } else {
                    cases.extend((0..SAMPLE).map(|_| case(1 + rng.below(calls))));
                }
            }
        }
        // In random order, as the time may end before the last.
        for last in (1..cases.len()).rev() {
            cases.swap(last, rng.below(last as u64 + 1) as usize);
        }
        visit.each(&cases, |case| go_through(visit, case, seed));
        if visit.is_long() && !visit.is_over() {
            visit.count("times that all were gone through", 1);
        }
    }
}

/// Number of calls that the script makes in each phase.
fn calls(visit: &Visit, durability: Durability) -> Vec<(Phase, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let mut command = part(visit, durability, &dir).command(&visit.program);
    phases::order(&mut command, None);
    let ended = Running::start(&mut command).wait(PATIENCE);
    let counts = ended.lines.iter().find_map(|line| line.strip_prefix("calls "));
    let counts = counts.and_then(phases::parse_counts);
    let counts = counts.unwrap_or_else(|| panic!("{:?} {}", ended.lines.last(), ended.errors));
    // Other layouts do not have all phases.
    let does_all = counts.iter().all(|(_, calls)| *calls > 0) || visit.layout != LayoutKind::default();
    assert!(does_all, "the script wants all of it: {counts:?}");
    counts.into_iter().filter(|(_, calls)| *calls > 0).collect()
}

fn go_through(visit: &Visit, case: &Case, seed: u64) {
    run(visit, case, seed).unwrap_or_else(|found| panic!("--case {}: {found}", case.name()));
}

fn run(visit: &Visit, case: &Case, seed: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let part = part(visit, case.durability, &dir);
    let ops = script::ops();
    let mut history = History::default();
    ops.iter().for_each(|op| history.push(op));
    let mut command = part.command(&visit.program);
    phases::order(&mut command, Some((case.phase, case.n)));
    let ended = Running::start(&mut command).wait(PATIENCE);
    if let Some(found) = ended.is_by_itself() {
        return Err(found);
    }
    if let Some(failed) = ended.lines.iter().find(|line| line.starts_with("failed")) {
        return Err(failed.clone());
    }
    if ended.status.code() == Some(0) {
        // The threads were scheduled differently, and there were fewer calls.
        visit.count("calls not reached", 1);
    } else {
        visit.count(case.phase.killed(), 1);
        visit.count("processes killed", 1);
    }
    let mut rng = Rng::new(seed ^ case.n);
    let again =
        if rng.below(4) == 0 { killed_while_it_opens(visit, &part, &mut rng)? } else { String::new() };
    check(visit, &part, &history, marks(&ended, &ops), death(&ended))
        .map_err(|found| format!("{again}{found}"))
}

/// A second process opens the store that the first left, and is killed at some call.
fn killed_while_it_opens(visit: &Visit, part: &Part, rng: &mut Rng) -> Result<String, String> {
    let n = 1 + rng.below(60);
    let mut command = Part { role: Role::Open, ..part.clone() }.command(&visit.program);
    phases::order(&mut command, Some((Phase::Open, n)));
    killed_again(visit, &mut command, &format!("call {n}"))
}
