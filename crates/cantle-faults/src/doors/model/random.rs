//! Random numbers that a seed determines.

use crate::rng::Rng;

pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// The numbers of one operation, independent of other operations.
    pub fn of_operation(seed: u64, operation: u64) -> Self {
        Self(Rng::new(Rng::new(seed).next() ^ operation))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// A number less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
