//! Counters of the reads of a guard. They are in memory only, and begin at 0 when the store is opened.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Reads of a guard since it was last merged.
#[derive(Default)]
pub struct Tally {
    /// Entries and runs that reads passed over.
    debt: AtomicU64,
    /// True after many seeks without a write (PebblesDB §4.2).
    is_sought: AtomicBool,
}

impl Tally {
    pub fn debt(&self) -> u64 {
        self.debt.load(Relaxed)
    }

    pub fn is_sought(&self) -> bool {
        self.is_sought.load(Relaxed)
    }

    /// Adds the cost of a read, in entries that it passed over.
    pub fn owe(&self, entries: u64) {
        self.debt.fetch_add(entries, Relaxed);
    }

    pub fn seek(&self) {
        self.is_sought.store(true, Relaxed);
    }

    /// The counters of the guard after a merge of its tables.
    pub fn merged(&self) -> Self {
        Self::default()
    }
}

impl Clone for Tally {
    fn clone(&self) -> Self {
        Self { debt: AtomicU64::new(self.debt()), is_sought: AtomicBool::new(self.is_sought()) }
    }
}
