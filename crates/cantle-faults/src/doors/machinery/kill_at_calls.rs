//! A process is killed at every system call that it makes while it runs the script; in some cases
//! another is killed while it opens the store after that. System calls also fail: as the operating
//! system fails them, not a [`cantle::vfs::FaultVfs`], so that the reaction of `StdVfs` is tested,
//! too. Stores of one durability read by a ring of the kernel ([`Part::asks_for_ring`]). Whatever
//! fails of the ring, no operation fails, as the store then reads by other calls.

use super::child::{DURABILITIES, Ended, Part, Role, Running, durability_of, name_of};
use super::{script, strace};
use crate::history::{Death, History, Marks};
use crate::rings;
use crate::rng::Rng;
use crate::visit::Visit;
use crate::workload::{self, Op};
use cantle::{Durability, LayoutKind};
use std::process::Command;
use std::time::Duration;

/// In `cargo test`: the number of kills, of errors, and of errors of rings, for each durability.
const SAMPLE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);
/// The calls that fail, with their errors. (The runtime calls `mmap` for the stacks of threads, and
/// dies if that fails.)
const ERRORS: [(&str, &[&str]); 13] = [
    ("fdatasync", &["EIO", "ENOSPC", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("pwrite64", &["EIO", "ENOSPC", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("openat", &["EMFILE", "ENOSPC", "EIO"]),
    ("ftruncate", &["EIO"]),
    ("fallocate", &["EOPNOTSUPP", "ENOSPC", "EINTR"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO"]),
    ("mlock2", &["EPERM", "ENOMEM"]),
    ("io_uring_setup", &["EPERM", "ENOSYS", "EMFILE"]),
    ("io_uring_register", &["EINVAL"]),
    ("io_uring_enter", &["EINTR", "EAGAIN", "EBUSY", "ENXIO"]),
];

/// One fault: at the n-th call of a kind.
#[derive(Debug, Clone)]
struct Case {
    durability: Durability,
    call: String,
    n: u64,
    /// An error instead of a kill.
    error: Option<String>,
    /// True if the call fails from then on.
    is_lasting: bool,
}

impl Case {
    fn name(&self) -> String {
        let Self { durability, call, n, error, is_lasting } = self;
        let error = error.as_ref().map_or_else(|| "KILL".to_owned(), String::clone);
        let lasting = if *is_lasting { "+" } else { "" };
        format!("{}:{call}:{n}{lasting}:{error}", name_of(*durability))
    }

    fn is_of_ring(&self) -> bool {
        self.error.is_some() && self.call.starts_with("io_uring")
    }

    fn parse(text: &str) -> Option<Self> {
        let [durability, call, n, error] = text.split(':').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            durability: durability_of(durability)?,
            call: call.to_owned(),
            n: n.trim_end_matches('+').parse().ok()?,
            error: (error != "KILL").then(|| error.to_owned()),
            is_lasting: n.ends_with('+'),
        })
    }

    fn apply(&self, command: &Command) -> Command {
        let what = self.error.as_ref().map_or("signal=KILL".to_owned(), |error| format!("error={error}"));
        let when = if self.is_lasting { format!("{}+", self.n) } else { self.n.to_string() };
        strace::injected(command, &self.call, &what, &when)
    }
}

pub fn enter(visit: &Visit) {
    if !strace::is_possible(visit) {
        return;
    }
    rings::are_possible(visit);
    if let Some(name) = &visit.case {
        let case = Case::parse(name)
            .unwrap_or_else(|| panic!("{name:?} is no case, as sync:fdatasync:3:EIO is one"));
        return go_through(visit, &case, 0);
    }
    for seed in visit.rounds() {
        let mut rng = Rng::new(seed);
        let mut cases = Vec::new();
        for durability in DURABILITIES {
            let (kills, errors) = cases_of(visit, durability);
            let (of_rings, errors) = errors.into_iter().partition(Case::is_of_ring);
            for mut some in [kills, errors, of_rings] {
                // In random order, as the time may end before the last.
                for last in (1..some.len()).rev() {
                    some.swap(last, rng.below(last as u64 + 1) as usize);
                }
                some.truncate(if visit.is_long() { usize::MAX } else { SAMPLE });
                cases.extend(some);
            }
        }
        for last in (1..cases.len()).rev() {
            cases.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let total = cases.len() as u64;
        visit.each(&cases, |case| go_through(visit, case, seed));
        if visit.is_long() && !visit.is_over() {
            visit.count("times that all were gone through", 1);
        }
        visit.count("cases drawn", total);
    }
}

pub fn part(visit: &Visit, durability: Durability, dir: &tempfile::TempDir) -> Part {
    let path = dir.path().join("store");
    Part { role: Role::Script, path, layout: visit.layout, durability, seed: 0 }
}

/// Every call that the script makes, and the errors that calls of its kind may return.
fn cases_of(visit: &Visit, durability: Durability) -> (Vec<Case>, Vec<Case>) {
    let dir = tempfile::tempdir().unwrap();
    let part = part(visit, durability, &dir);
    let record = dir.path().join("calls");
    let ended = Running::start(&mut strace::recorded(&part.command(&visit.program), &record)).wait(PATIENCE);
    assert!(ended.lines.iter().any(|line| line == "closed"), "{:?} {}", ended.lines.last(), ended.errors);
    let counts = ended.lines.iter().find_map(|line| line.strip_prefix("counts "));
    let does_all = counts.is_some_and(|counts| counts.split(' ').all(|count| count != "0"));
    // Other layouts do not have all of this.
    let does_all = does_all || visit.layout != LayoutKind::default();
    assert!(does_all, "the script wants splits, rebalances, merges and checkpoints: {counts:?}");
    let counts = strace::counts(&std::fs::read_to_string(record).unwrap(), &part.path);
    visit.count("system calls found", counts.values().map(|range| range.end() - range.start() + 1).sum());
    let (mut kills, mut errors) = (Vec::new(), Vec::new());
    for (call, range) in counts {
        let kinds = ERRORS.iter().find(|(name, _)| *name == call).map_or(&[][..], |(_, kinds)| kinds);
        for n in range {
            let case = Case { durability, call: call.clone(), n, error: None, is_lasting: false };
            for &kind in kinds {
                let error = Some(kind.to_owned());
                errors.push(Case { error: error.clone(), ..case.clone() });
                // An interrupted call is repeated, without a limit.
                if kind != "EINTR" {
                    errors.push(Case { error, is_lasting: true, ..case.clone() });
                }
            }
            kills.push(case);
        }
    }
    (kills, errors)
}

fn go_through(visit: &Visit, case: &Case, seed: u64) {
    run(visit, case, seed).unwrap_or_else(|found| panic!("--case {}: {found}", case.name()));
}

/// The script's progress as it was reported to the child, in numbers of operations.
pub fn marks(ended: &Ended, ops: &[Op]) -> Marks {
    let mut marks = Marks { durable: 0, acknowledged: 0, begun: 0 };
    for line in &ended.lines {
        if line.starts_with("begin ") {
            marks.begun += 1;
        } else if line.starts_with("done ") {
            marks.acknowledged += 1;
            if workload::is_sync(&ops[marks.acknowledged as usize - 1]) {
                marks.durable = marks.acknowledged;
            }
        } else if line == "closed" && death(ended) == Death::Process {
            marks.durable = marks.acknowledged;
        }
    }
    marks
}

/// The operation of the script at which the process died; `kill-in-phases` knows the phase of the
/// thread.
fn phase(ended: &Ended, ops: &[Op], marks: Marks) -> &'static str {
    if !ended.lines.iter().any(|line| line == "opened") {
        return "killed while it opened";
    }
    if ended.lines.iter().any(|line| line == "closed") {
        return "killed while it read again";
    }
    match ops.get(marks.begun.saturating_sub(1) as usize) {
        _ if marks.acknowledged as usize == ops.len() => "killed while it closed",
        Some(Op::Batch(_) | Op::Transaction(_)) => "killed while it was asked for a batch",
        Some(Op::Sync) => "killed while it was asked for a sync",
        Some(Op::Compact) => "killed while it was asked to compact",
        Some(Op::Create(_) | Op::Drop(_) | Op::Metadata(_)) => "killed while it was asked for a keyspace",
        _ => "killed while it was asked for a put",
    }
}

fn run(visit: &Visit, case: &Case, seed: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let part = part(visit, case.durability, &dir);
    let ops = script::ops();
    let mut history = History::default();
    ops.iter().for_each(|op| history.push(op));
    let ended = Running::start(&mut case.apply(&part.command(&visit.program))).wait(PATIENCE);
    if let Some(found) = ended.is_by_itself() {
        return Err(found);
    }
    let marks = marks(&ended, &ops);
    let has_failed = ended.lines.iter().any(|line| line.starts_with("failed"));
    ended.count_places(visit);
    if case.error.is_some() {
        visit.count("calls failed", 1);
        visit.count(if has_failed { "failures reported" } else { "failures survived" }, 1);
        if case.is_of_ring() {
            visit.count("calls of rings failed", 1);
            if has_failed {
                return Err(format!("failed with its ring: {:?}", ended.lines));
            }
        }
    } else if ended.status.code() == Some(0) {
        // The threads were scheduled differently, and none reached the call.
        visit.count("calls not reached", 1);
        if has_failed {
            return Err(format!("failed although nothing was done to it: {:?}", ended.lines.last()));
        }
    } else {
        visit.count(phase(&ended, &ops, marks), 1);
        visit.count("processes killed", 1);
    }
    let mut rng = Rng::new(seed ^ case.n);
    let again = match rng.below(4) {
        0 => killed_while_it_recovers(visit, &part, &mut rng)?,
        _ => String::new(),
    };
    let failed: Vec<_> = ended.lines.iter().filter(|line| line.starts_with("failed")).collect();
    check(visit, &part, &history, marks, death(&ended)).map_err(|found| format!("{failed:?}: {again}{found}"))
}

/// A store that turned read-only reports that writes since the last checkpoint may be lost.
pub fn death(ended: &Ended) -> Death {
    let is_read_only = ended.lines.iter().any(|line| line.starts_with("read-only"));
    if is_read_only { Death::Power } else { Death::Process }
}

pub fn check(
    visit: &Visit,
    part: &Part,
    history: &History,
    marks: Marks,
    death: Death,
) -> Result<(), String> {
    let db = part.open().map_err(|error| format!("cannot open: {error}"))?;
    let found = workload::contents(&db, &part.setup().keyspace()).map_err(|error| error.to_string())?;
    history.check(&found, marks, death, part.durability)?;
    db.put("after", "fault").and_then(|()| db.sync()).map_err(|error| error.to_string())?;
    let report = db.verify().map_err(|error| format!("cannot verify: {error}"))?;
    if !report.is_ok() {
        return Err(format!("{report:?}"));
    }
    visit.count("stores checked", 1);
    Ok(())
}

/// A second process opens the store that the first left, and is killed at some call.
fn killed_while_it_recovers(visit: &Visit, part: &Part, rng: &mut Rng) -> Result<String, String> {
    let calls =
        ["pwrite64", "fdatasync", "fsync", "openat", "unlink", "rename", "fallocate", "pread64", "mmap"];
    let call = calls[rng.below(calls.len() as u64) as usize];
    // Some calls are the loader's.
    let n = 1 + rng.below(if matches!(call, "openat" | "mmap" | "pread64") { 30 } else { 8 });
    let opening = Part { role: Role::Open, ..part.clone() };
    let command = opening.command(&visit.program);
    let mut command = strace::injected(&command, call, "signal=KILL", &n.to_string());
    killed_again(visit, &mut command, &format!("{call} {n}"))
}

/// Runs a process that opens a store and is killed at `place`, if it gets there; the result
/// describes that.
pub fn killed_again(visit: &Visit, command: &mut Command, place: &str) -> Result<String, String> {
    let ended = Running::start(command).wait(PATIENCE);
    if let Some(found) = ended.is_by_itself() {
        return Err(format!("opening, killed at {place}: {found}"));
    }
    if let Some(failed) = ended.lines.iter().find(|line| line.starts_with("failed")) {
        return Err(format!("opening, killed at {place}: {failed}"));
    }
    if ended.status.code() == Some(0) {
        return Ok(String::new());
    }
    visit.count("processes killed while they recover", 1);
    visit.count("processes killed", 1);
    Ok(format!("then killed while it opened, at {place}: "))
}
