//! Two guards of level 1, each with two guards of level 2 below it, while logs are merged into level 1,
//! guards are merged down and within the last level, and runs move down as they are.
//!
//! Properties:
//!
//! * *Recency.* The versions of a key never ascend towards older runs.
//! * *Cover.* A get finds the version that was last installed, or a later one.
//! * Nothing is in two runs of one guard of which one was merged into the other.

use super::lsm::busy::{Busy, Claim, Claims};
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::sync::{Arc, Mutex, MutexGuard};
use shuttle::thread::{spawn, yield_now};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An error of the code around the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The runs that a merge has taken are counted from the newest when it is installed.
    CountsFromTheNewest,
    /// A run moves out of a guard while a merge takes from it.
    SinksWhatIsTaken,
    /// A merge is installed over the guards of its start.
    InstallsOverItsStart,
}

/// Numbers of what the model has tried.
#[derive(Debug, Default)]
pub struct Done {
    pub merges_down: AtomicUsize,
    pub merges_within: AtomicUsize,
    /// Merges that began while another one ran.
    pub at_once: AtomicUsize,
    pub sunk: AtomicUsize,
    /// Merges that were asked for and had to wait.
    pub awaited: AtomicUsize,
}

/// Number of keys: one for each guard of level 2.
const KEYS: usize = 4;
/// Number of guards of level 1.
const TOPS: usize = 2;
/// Number of merges of logs.
const LOGS: u64 = 4;

/// The version of each key in a run, if it has the key.
type Run = [Option<u64>; KEYS];

/// A guard's runs, newest first.
type Guard = Vec<Run>;

/// The guards of level 1, then those of level 2.
type Guards = [Guard; TOPS + KEYS];

/// The guards of level 2 below one of level 1.
fn below(top: usize) -> Range<usize> {
    let children = KEYS / TOPS;
    TOPS + top * children..TOPS + (top + 1) * children
}

/// The guard of level 1 that has a key.
fn top_of(key: usize) -> usize {
    key / (KEYS / TOPS)
}

/// A merge of the runs of a guard, counted from the oldest, into others.
struct Planned {
    from: usize,
    taken: Range<usize>,
    into: Vec<usize>,
    output: Run,
    start: Guards,
}

struct Store {
    claims: Claims,
    guards: Mutex<Guards>,
    /// The last version of all keys that was installed.
    installed: AtomicU64,
    fault: Fault,
    done: std::sync::Arc<Done>,
}

/// The newest versions of runs.
fn merged(runs: &[Run]) -> Run {
    std::array::from_fn(|key| runs.iter().find_map(|run| run[key]))
}

/// The part of a run that a guard has.
fn part(run: &Run, guard: usize) -> Run {
    std::array::from_fn(|key| {
        let is_within = guard == TOPS + key || guard == top_of(key);
        run[key].filter(|_| is_within)
    })
}

impl Store {
    fn guards(&self) -> MutexGuard<'_, Guards> {
        self.guards.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock(&self) -> MutexGuard<'_, Busy> {
        self.claims.lock()
    }

    fn check(&self) {
        let guards = self.guards().clone();
        for key in 0..KEYS {
            let runs = guards[top_of(key)].iter().chain(&guards[TOPS + key]);
            let versions: Vec<u64> = runs.filter_map(|run| run[key]).collect();
            assert!(versions.is_sorted_by(|a, b| a > b), "broken: key {key} has {versions:?}");
        }
    }

    fn get(&self, key: usize) {
        let least = self.installed.load(SeqCst);
        let guards = self.guards().clone();
        let found = merged(&guards[top_of(key)])[key].or(merged(&guards[TOPS + key])[key]);
        assert!(found.unwrap_or(0) >= least, "broken: key {key} has {found:?}, and had {least}");
    }

    /// Begins a merge, as `Lsm::run_next` does; `None` if others are in the way.
    fn begin<'a>(&'a self, busy: MutexGuard<'a, Busy>, claim: Claim) -> impl Drop + use<'a> {
        if busy.merges() > 0 {
            self.done.at_once.fetch_add(1, Relaxed);
        }
        self.claims.claim(busy, claim)
    }

    /// Waits until others admit a merge, as one that a user asks for, and begins it with the guards of
    /// that moment.
    fn begin_asked(&self, claim: Claim) -> (impl Drop + use<'_>, Guards) {
        let mut busy = self.lock();
        while !busy.admits(&claim) {
            self.done.awaited.fetch_add(1, Relaxed);
            self.claims.wait(busy);
            busy = self.lock();
        }
        let start = self.guards().clone();
        (self.begin(busy, claim), start)
    }

    /// Merges a log with this version of every key into level 1.
    fn merge_logs(&self, version: u64) {
        let claim = Claim { from: Vec::new(), into: (0..TOPS as u64).collect(), logs: true };
        let (claimed, _) = self.begin_asked(claim);
        yield_now();
        let busy = self.lock();
        for (top, guard) in self.guards().iter_mut().take(TOPS).enumerate() {
            guard.insert(0, part(&[Some(version); KEYS], top));
        }
        self.installed.store(version, SeqCst);
        drop(busy);
        drop(claimed);
        self.check();
    }

    /// The merge of a guard: of level 1 into those below, of level 2 within it.
    fn plan(&self, guard: usize) -> Option<Planned> {
        let start = self.guards().clone();
        let runs = &start[guard];
        let least = if guard < TOPS { 1 } else { 2 };
        (runs.len() >= least).then(|| Planned {
            from: guard,
            taken: 0..runs.len(),
            into: if guard < TOPS { below(guard).collect() } else { vec![guard] },
            output: merged(runs),
            start: start.clone(),
        })
    }

    fn merge_guard(&self, guard: usize) {
        let busy = self.lock();
        if busy.is_awaited() {
            return;
        }
        let Some(planned) = self.plan(guard) else { return };
        let into = planned.into.iter().map(|&id| id as u64).collect();
        let claim = Claim { from: vec![guard as u64], into, logs: false };
        if !busy.admits(&claim) {
            return;
        }
        let claimed = self.begin(busy, claim);
        yield_now();
        let busy = self.lock();
        self.install(&planned);
        drop(busy);
        drop(claimed);
        let count = if guard < TOPS { &self.done.merges_down } else { &self.done.merges_within };
        count.fetch_add(1, Relaxed);
        self.check();
    }

    /// `Changing::apply_piece`.
    fn install(&self, planned: &Planned) {
        let mut guards = self.guards();
        if self.fault == Fault::InstallsOverItsStart {
            *guards = planned.start.clone();
        }
        let runs = std::mem::take(&mut guards[planned.from]);
        let count = runs.len();
        let left = runs.into_iter().enumerate().filter(|(place, _)| {
            let age = count - 1 - place;
            match self.fault {
                Fault::CountsFromTheNewest => *place >= planned.taken.len(),
                _ => !planned.taken.contains(&age),
            }
        });
        guards[planned.from] = left.map(|(_, run)| run).collect();
        for &guard in &planned.into {
            let output = part(&planned.output, guard);
            guards[guard].insert(0, output);
        }
    }

    /// Merges everything below a guard of level 1 into level 2, as a user asks for.
    fn sort(&self, top: usize) {
        let all: Vec<u64> = std::iter::once(top).chain(below(top)).map(|id| id as u64).collect();
        let claim = Claim { from: all.clone(), into: all[1..].to_vec(), logs: false };
        let (claimed, start) = self.begin_asked(claim);
        let plan = |child: usize| {
            let runs: Vec<Run> = start[top].iter().chain(&start[child]).copied().collect();
            (child, merged(&runs))
        };
        let outputs: Vec<(usize, Run)> = below(top).map(plan).collect();
        yield_now();
        let busy = self.lock();
        let mut guards = self.guards();
        let left = guards[top].len().checked_sub(start[top].len());
        assert!(left.is_some(), "broken: runs of guard {top} are gone");
        guards[top].truncate(left.unwrap_or(0));
        for (child, output) in outputs {
            guards[child] = vec![part(&output, child)];
        }
        drop(guards);
        drop(busy);
        drop(claimed);
        self.check();
    }

    /// Moves the oldest run of a guard of level 1 down, if it has keys of one guard there.
    fn sink(&self, top: usize) {
        let busy = self.lock();
        let mut guards = self.guards();
        let is_taken = busy.is_taken_from(top as u64) && self.fault != Fault::SinksWhatIsTaken;
        let Some(oldest) = guards[top].last().copied().filter(|_| !is_taken) else { return };
        // The double has keys of all guards in a run: each has its part of it.
        if below(top).any(|child| busy.is_put_into(child as u64) && self.fault != Fault::SinksWhatIsTaken) {
            return;
        }
        guards[top].pop();
        for child in below(top) {
            guards[child].insert(0, part(&oldest, child));
        }
        self.done.sunk.fetch_add(1, Relaxed);
        drop(guards);
        drop(busy);
        self.check();
    }
}

/// Logs, guards of both levels and moves at the same time, with a reader of all keys.
pub fn everything(fault: Fault, done: &std::sync::Arc<Done>) {
    let store = Arc::new(Store {
        claims: Claims::default(),
        guards: Mutex::new(Guards::default()),
        installed: AtomicU64::new(0),
        fault,
        done: done.clone(),
    });
    let run = |act: fn(&Store)| {
        let store = store.clone();
        spawn(move || act(&store))
    };
    let threads = [
        run(|store| (1..=LOGS).for_each(|version| store.merge_logs(version))),
        run(|store| (0..TOPS).for_each(|top| store.sort(top))),
        run(|store| [0, 2, 1, 0].into_iter().for_each(|guard| store.merge_guard(guard))),
        run(|store| [1, 0, 3, 2, 0].into_iter().for_each(|guard| store.merge_guard(guard))),
        run(|store| [0, 1, 0].into_iter().for_each(|top| store.sink(top))),
        run(|store| (0..KEYS).for_each(|key| store.get(key))),
    ];
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    store.claims.wait_for_all();
    assert_eq!(store.lock().merges(), 0);
    for key in 0..KEYS {
        store.get(key);
    }
}
