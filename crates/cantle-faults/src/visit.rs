//! One visit of a door: its parameters, its duration, and its counters.

use crate::rng::Rng;
use cantle::LayoutKind;
use cantle::labs::Capabilities;
use std::any::Any;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Factor on the work of the tests: `CANTLE_TEST_FACTOR`, 1 if unset.
pub fn factor() -> u64 {
    std::env::var("CANTLE_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// The message of a panic.
pub fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

/// The amount of work of a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// This many times the work of `cargo test`; the same work each time.
    Rounds(u64),
    /// Until a time.
    Until(Instant),
    /// Until this number of states of stores were opened and checked.
    States(u64),
}

/// Number of states of stores in a tally: the sum of all counters whose names begin with `states`.
pub fn states_of(tally: &BTreeMap<&'static str, u64>) -> u64 {
    let is_one = |what: &str| what == "states" || what.starts_with("states ");
    tally.iter().filter(|(what, _)| is_one(what)).map(|(_, count)| count).sum()
}

/// The parameters and the counters of one visit of a door.
#[derive(Debug)]
pub struct Visit {
    pub layout: LayoutKind,
    pub seed: u64,
    pub effort: Effort,
    /// One case alone, by the name that a finding gave it.
    pub case: Option<String>,
    /// The command `cantle-faults`, whose hidden subcommand doors run in processes of their own.
    pub program: PathBuf,
    /// The seed with which the running round would be the first.
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

    /// The work of `cargo test`. `CANTLE_TEST_CASE` names one case to run alone.
    pub fn for_test() -> Self {
        let case = std::env::var("CANTLE_TEST_CASE").ok();
        Self::new(LayoutKind::default(), 0, Effort::Rounds(factor())).of_case(case)
    }

    /// Only the case of this name, if there is a name.
    pub fn of_case(mut self, case: Option<String>) -> Self {
        self.case = case;
        self
    }

    /// True if the time is over, or all requested work is done.
    pub fn is_over(&self) -> bool {
        match self.effort {
            Effort::Rounds(_) => false,
            Effort::Until(end) => Instant::now() >= end,
            Effort::States(states) => self.states() >= states,
        }
    }

    /// True if this is more work than that of `cargo test`.
    pub fn is_long(&self) -> bool {
        !matches!(self.effort, Effort::Rounds(_))
    }

    /// Number of states of stores that were opened and checked.
    pub fn states(&self) -> u64 {
        states_of(&self.tally.lock().unwrap())
    }

    /// The rounds of a door that has no end of its own, each with a seed of its own.
    pub fn rounds(&self) -> impl Iterator<Item = u64> {
        let rounds = match self.effort {
            Effort::Rounds(rounds) => rounds,
            Effort::Until(_) | Effort::States(_) => u64::MAX,
        };
        (0..rounds).take_while(|_| !self.is_over()).map(|round| {
            // The first round of seed 0 is the one of `cargo test`.
            let seed = self.seed.wrapping_add(round);
            self.round_seed.store(seed, Relaxed);
            if seed == 0 { 0 } else { Rng::new(seed).next() }
        })
    }

    /// The seed with which the running round, or the last one, is the first.
    pub fn round_seed(&self) -> u64 {
        self.round_seed.load(Relaxed)
    }

    /// Adds to a counter.
    pub fn count(&self, what: &'static str, more: u64) {
        *self.tally.lock().unwrap().entry(what).or_default() += more;
    }

    /// Records a test that is left out for lack of `needed`, with the reason. Panics if
    /// `CANTLE_REQUIRE_MACHINERY` requires it: a list, separated by commas, or `1` for everything.
    pub fn skip(&self, needed: &'static str, why: impl std::fmt::Display) {
        let what = format!("no {needed}: {why}");
        let required = std::env::var("CANTLE_REQUIRE_MACHINERY").unwrap_or_default();
        let is_required = required.split(',').any(|name| name == needed || name == "1");
        assert!(!is_required, "{what}; CANTLE_REQUIRE_MACHINERY={required} says that it must be here");
        self.note_skipped(what);
    }

    /// True if the layout under test has a capability. If it does not, the report lists the test as
    /// left out.
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
            // Not by a macro: libtest captures the output of macros.
            let _ = writeln!(std::io::stderr(), "left out, as there is {what}");
            skipped.push(what);
        }
    }

    /// The counters.
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        self.tally.lock().unwrap().clone()
    }

    /// Prints the counters and the tests that were left out, in a test: past the capture of
    /// libtest.
    pub fn tell(&self, door: &str) {
        let mut out = std::io::stderr().lock();
        // A failure to print is ignored.
        let _ = writeln!(out, "{door}: {:?}", self.tally());
        for skipped in self.skipped() {
            let _ = writeln!(out, "{door}: skipped: {skipped}");
        }
    }

    /// The tests that were left out.
    pub fn skipped(&self) -> Vec<String> {
        self.skipped.lock().unwrap().clone()
    }

    /// Runs `work` on all items, with a thread per core; ends early when the time is over, and
    /// panics if `work` does.
    pub fn each<T: Sync>(&self, items: &[T], work: impl Fn(&T) + Sync) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        self.each_of(threads, items, work);
    }

    /// As `each`, with this number of threads: for work that mostly waits.
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

/// If a thread panics, the others get no more items.
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
