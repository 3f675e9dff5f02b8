//! Counters of the reads and writes of a guard, and the number of runs that follows from them. They are
//! in memory only, and begin at 0 when the store is opened.
//!
//! A guard with *k* runs makes a seek search *k* of them, and rewrites about one *k*-th of what a guard
//! with one run does. The sum of both costs is least at the root of their ratio. Guards that are read
//! thus become sorted runs, and guards that are written collect tables (PebblesDB §3.5 has one number
//! for all).

use super::pick::FAN_OUT;
use crate::lsm::shape::RUN_COST;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of runs that follows from reads and writes.
pub const RUNS_MOST: usize = 12;
/// Seeks and cost of writes that are assumed before any is counted: a new guard may have 6 runs.
const PRIOR: (u64, u64) = (13, 2880);

/// The bit of the debt that is set after many seeks without a write (PebblesDB §4.2), until the guard is merged.
const SOUGHT: u64 = 1 << 63;

/// Reads and writes of a guard.
#[derive(Default)]
pub struct Tally {
    /// Entries and runs that reads passed over since the guard was last merged, and [`SOUGHT`]: each idle
    /// keyspace has a guard.
    debt: AtomicU64,
    /// Seeks, and the cost of merging what came into the guard from above, in entries that a scan passes
    /// over. Both are halved by each job that brings some.
    seeks: AtomicU64,
    writes: AtomicU64,
    /// Cost of merging what the present job brings.
    coming: AtomicU64,
}

/// Number of runs of a guard for which its seeks and the rewriting of what this cost once cost least.
pub fn runs_for(seeks: u64, writes: u64) -> usize {
    let read_cost = seeks.saturating_add(PRIOR.0) as f64 * RUN_COST as f64;
    // With one run, an entry is rewritten for about each of the guards of the level above that lie here.
    let write_cost = writes.saturating_add(PRIOR.1) as f64 * FAN_OUT as f64;
    let runs = (write_cost / read_cost).sqrt().round() as usize;
    runs.clamp(1, RUNS_MOST)
}

impl Tally {
    pub fn debt(&self) -> u64 {
        self.debt.load(Relaxed) & !SOUGHT
    }

    pub fn is_sought(&self) -> bool {
        self.debt.load(Relaxed) & SOUGHT != 0
    }

    /// Number of runs that the guard may have.
    pub fn runs(&self) -> usize {
        runs_for(self.seeks.load(Relaxed), self.writes.load(Relaxed))
    }

    /// Counts a seek.
    pub fn seek(&self) {
        self.seeks.fetch_add(1, Relaxed);
    }

    /// Adds the cost of a read, in entries that it passed over.
    pub fn owe(&self, entries: u64) {
        self.debt.fetch_add(entries, Relaxed);
    }

    /// Notes that many seeks had no write between them.
    pub fn note_sought(&self) {
        self.debt.fetch_or(SOUGHT, Relaxed);
    }

    /// Counts the cost of merging what a job brings into the guard.
    pub fn bring(&self, cost: u64) {
        self.coming.fetch_add(cost, Relaxed);
    }

    /// Ends a job.
    pub fn settle(&self) {
        let coming = self.coming.swap(0, Relaxed);
        if coming > 0 {
            self.seeks.store(self.seeks.load(Relaxed) / 2, Relaxed);
            self.writes.store((self.writes.load(Relaxed) / 2).saturating_add(coming), Relaxed);
        }
    }

    /// The counters of the guard after a merge of its tables.
    pub fn merged(&self) -> Self {
        Self { debt: AtomicU64::default(), ..self.clone() }
    }

    /// The counters of a guard with this part of the keys.
    pub fn part(&self, share: f64) -> Self {
        let part = |count: &AtomicU64| AtomicU64::new((count.load(Relaxed) as f64 * share) as u64);
        Self {
            seeks: part(&self.seeks),
            writes: part(&self.writes),
            coming: part(&self.coming),
            ..Self::default()
        }
    }

    /// The counters of a guard with the keys of two.
    pub fn joined(&self, other: &Self) -> Self {
        // Each seek of a range that lies in both counted twice, which does not matter much.
        let sum = |a: &AtomicU64, b: &AtomicU64| AtomicU64::new(a.load(Relaxed) + b.load(Relaxed));
        Self {
            seeks: sum(&self.seeks, &other.seeks),
            writes: sum(&self.writes, &other.writes),
            coming: sum(&self.coming, &other.coming),
            ..Self::default()
        }
    }
}

impl Clone for Tally {
    fn clone(&self) -> Self {
        let count = |count: &AtomicU64| AtomicU64::new(count.load(Relaxed));
        Self {
            debt: count(&self.debt),
            seeks: count(&self.seeks),
            writes: count(&self.writes),
            coming: count(&self.coming),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runs_follows_from_seeks_and_writes() {
        let writes =
            |seeks: u64| [0, 1_000, 10_000, 100_000, 1_000_000].map(|writes| runs_for(seeks, 4 * writes));
        assert_eq!(writes(0), [6, 9, 12, 12, 12]);
        assert_eq!(writes(200), [1, 2, 6, 12, 12]);
        assert_eq!(writes(2_000), [1, 1, 2, 6, 12]);
        assert_eq!(writes(20_000), [1, 1, 1, 2, 6]);
        assert_eq!(
            [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)].map(|(s, w)| runs_for(s, w)),
            [12, 1, 1]
        );
    }

    #[test]
    fn counts_are_halved_by_jobs_that_bring_entries() {
        let tally = Tally::default();
        let counts = |tally: &Tally| (tally.seeks.load(Relaxed), tally.writes.load(Relaxed));
        (0..100).for_each(|_| tally.seek());
        tally.settle();
        assert_eq!(counts(&tally), (100, 0), "a job that brings nothing");
        tally.bring(600);
        tally.bring(400);
        tally.settle();
        assert_eq!(counts(&tally), (50, 1000), "once for a job");
        tally.settle();
        tally.bring(1000);
        tally.settle();
        assert_eq!(counts(&tally), (25, 1500));
        assert_eq!(counts(&tally.part(0.2)), (5, 300));
        assert_eq!(counts(&tally.joined(&tally.part(0.2))), (30, 1800));
        tally.owe(7);
        tally.note_sought();
        assert_eq!((tally.clone().debt(), tally.clone().is_sought()), (7, true));
        let merged = tally.merged();
        assert_eq!((merged.debt(), merged.is_sought(), counts(&merged)), (0, false, (25, 1500)));
    }
}
