//! The records that exist while threads add to them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Assigns numbers to new records, and knows a number below which all of them exist, so that
/// readers of recent records do not read one that another thread has not yet written.
#[derive(Debug)]
pub struct Population {
    /// The next number to assign.
    next: AtomicU64,
    /// All records below exist. Written under `ahead`, read without it.
    existing: AtomicU64,
    /// Records at or above `existing` that exist.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Population {
    /// The records `0..existing`.
    pub fn new(existing: u64) -> Self {
        Self {
            next: AtomicU64::new(existing),
            existing: AtomicU64::new(existing),
            ahead: Mutex::new(BTreeSet::new()),
        }
    }

    /// The number for a new record, which the caller writes and then reports by
    /// [`Population::written`].
    pub fn claim(&self) -> u64 {
        // Only uniqueness is required of this counter.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that `record`, claimed before, exists now.
    pub fn written(&self, record: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut existing = self.existing.load(Ordering::Relaxed);
        ahead.insert(record);
        while ahead.remove(&existing) {
            existing += 1;
        }
        // Release: a thread that reads this number also sees the writes of the records below it.
        self.existing.store(existing, Ordering::Release);
    }

    /// All records below this number exist.
    pub fn existing(&self) -> u64 {
        self.existing.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_exists_once_all_before_it_do() {
        let population = Population::new(10);
        assert_eq!((population.claim(), population.claim(), population.claim()), (10, 11, 12));
        population.written(12);
        assert_eq!(population.existing(), 10);
        population.written(10);
        assert_eq!(population.existing(), 11);
        population.written(11);
        assert_eq!(population.existing(), 13);
    }

    #[test]
    fn threads_claim_each_number_once() {
        let population = Population::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5_000).for_each(|_| population.written(population.claim())));
            }
        });
        assert_eq!(population.existing(), 20_000);
        assert!(population.ahead.lock().unwrap().is_empty());
    }
}
