//! One visit of a door: with what, for how long, and what was done.

use crate::rng::Rng;
use cantle::{Capabilities, LayoutKind};
use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// How many times as much the tests do: `CANTLE_TEST_FACTOR`, 1 if unset.
pub fn factor() -> u64 {
    std::env::var("CANTLE_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// What a thread panicked with.
pub fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// How much a door does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// So many times what `cargo test` does; the same each time.
    Rounds(u64),
    /// Whatever there is time for.
    Until(Instant),
    /// Until so many states of stores were opened and checked.
    States(u64),
}

/// How many states of stores a tally has: whatever it counts under a name that begins so.
pub fn states_of(tally: &BTreeMap<&'static str, u64>) -> u64 {
    let is_one = |what: &str| what == "states" || what.starts_with("states ");
    tally.iter().filter(|(what, _)| is_one(what)).map(|(_, count)| count).sum()
}

/// See the module.
#[derive(Debug)]
pub struct Visit {
    pub layout: LayoutKind,
    pub seed: u64,
    pub effort: Effort,
    /// One case alone, by the name that a finding gave it.
    pub case: Option<String>,
    /// The command `cantle-faults`, whose hidden part doors play in processes of their own.
    pub program: PathBuf,
    /// What `seed` would have to be for the round under way to be the first.
    round_seed: Arc<AtomicU64>,
    tally: Arc<Mutex<BTreeMap<&'static str, u64>>>,
    skipped: Arc<Mutex<Vec<String>>>,
}

impl Visit {
    pub fn new(layout: LayoutKind, seed: u64, effort: Effort) -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        Self {
            layout,
            seed,
            effort,
            case: None,
            program,
            round_seed: Arc::new(seed.into()),
            tally: Arc::default(),
            skipped: Arc::default(),
        }
    }

    /// What `cargo test` does. `CANTLE_TEST_CASE` names one case alone.
    pub fn for_test() -> Self {
        let case = std::env::var("CANTLE_TEST_CASE").ok();
        Self::new(LayoutKind::default(), 0, Effort::Rounds(factor())).of_case(case)
    }

    /// Only the case of this name, if there is a name.
    pub fn of_case(mut self, case: Option<String>) -> Self {
        self.case = case;
        self
    }

    /// Whether the time is up, or all is done that was asked for.
    pub fn is_over(&self) -> bool {
        match self.effort {
            Effort::Rounds(_) => false,
            Effort::Until(end) => Instant::now() >= end,
            Effort::States(states) => self.states() >= states,
        }
    }

    /// Whether this is more than what `cargo test` does.
    pub fn is_long(&self) -> bool {
        !matches!(self.effort, Effort::Rounds(_))
    }

    /// How many states of stores were opened and checked.
    pub fn states(&self) -> u64 {
        states_of(&self.tally.lock().unwrap())
    }

    /// The rounds of a door that never ends by itself, each with a seed of its own.
    pub fn rounds(&self) -> impl Iterator<Item = u64> {
        let rounds = match self.effort {
            Effort::Rounds(rounds) => rounds,
            Effort::Until(_) | Effort::States(_) => u64::MAX,
        };
        (0..rounds).take_while(|_| !self.is_over()).map(|round| {
            // The first round of seed 0 is what `cargo test` does.
            let seed = self.seed.wrapping_add(round);
            self.round_seed.store(seed, Relaxed);
            if seed == 0 { 0 } else { Rng::new(seed).next() }
        })
    }

    /// The seed with which the round under way, or the last one, is the first.
    pub fn round_seed(&self) -> u64 {
        self.round_seed.load(Relaxed)
    }

    /// Counts what was done.
    pub fn count(&self, what: &'static str, more: u64) {
        *self.tally.lock().unwrap().entry(what).or_default() += more;
    }

    /// Says what could not be done here for want of `needed`, and why. Panics if `CANTLE_REQUIRE_MACHINERY` says that it must be there: a
    /// list, separated by commas, or `1` for all of it.
    pub fn skip(&self, needed: &'static str, why: impl std::fmt::Display) {
        let what = format!("no {needed}: {why}");
        let required = std::env::var("CANTLE_REQUIRE_MACHINERY").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == needed || name == "1");
        assert!(!is_required, "{what}; CANTLE_REQUIRE_MACHINERY={required} says that it must be here");
        self.note_skipped(what);
    }

    /// True if the layout under test can do something. If it cannot, the report says so.
    pub fn is_capable(&self, act: &str, can: impl FnOnce(Capabilities) -> bool) -> bool {
        let is_capable = can(self.layout.capabilities());
        if !is_capable {
            self.note_skipped(format!("no duty of layout {} to {act}", self.layout));
        }
        is_capable
    }

    fn note_skipped(&self, what: String) {
        let mut skipped = self.skipped.lock().unwrap();
        if !skipped.contains(&what) {
            // Not by a macro: tests would keep that to themselves.
            let _ = writeln!(std::io::stderr(), "left out, as there is {what}");
            skipped.push(what);
        }
    }

    /// What was counted.
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        self.tally.lock().unwrap().clone()
    }

    /// Says what was done and what could not be, in a test: past the capture of what tests print.
    pub fn tell(&self, door: &str) {
        let mut out = std::io::stderr().lock();
        // Nobody reads it, if that fails.
        let _ = writeln!(out, "{door}: {:?}", self.tally());
        for skipped in self.skipped() {
            let _ = writeln!(out, "{door}: skipped: {skipped}");
        }
    }

    /// What could not be done.
    pub fn skipped(&self) -> Vec<String> {
        self.skipped.lock().unwrap().clone()
    }

    /// Works on all items, with a thread per core; ends early when the time is up, and panics as `work` does.
    pub fn each<T: Sync>(&self, items: &[T], work: impl Fn(&T) + Sync) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        self.each_of(threads, items, work);
    }

    /// The same with so many threads: for work that mostly waits.
    pub fn each_of<T: Sync>(&self, threads: usize, items: &[T], work: impl Fn(&T) + Sync) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let _rest = LeftOnPanic { next: &next, items: items.len() };
                        while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
                            if self.is_over() {
                                return;
                            }
                            work(item);
                        }
                    })
                })
                .collect();
            for worker in workers {
                if let Err(panic) = worker.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
    }
}

/// Whoever panics leaves nothing for the others to go on with.
struct LeftOnPanic<'a> {
    next: &'a AtomicUsize,
    items: usize,
}

impl Drop for LeftOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.next.store(self.items, Relaxed);
        }
    }
}
