//! YCSB's skewed-latest distribution: the newest record is the most popular.

use super::{Random, Zipf};

/// Chooses `newest - rank`, where the rank is Zipf-distributed over all existing records.
#[derive(Debug, Clone)]
pub struct Latest {
    ranks: Zipf,
}

impl Latest {
    /// A distribution over `records` records at the beginning.
    pub fn new(records: u64, theta: f64) -> Self {
        Self { ranks: Zipf::new(records, theta) }
    }

    /// The next record number, if the records `0..newest` exist.
    pub fn next(&mut self, random: &mut Random, newest: u64) -> u64 {
        self.ranks.grow(newest);
        let newest = self.ranks.len();
        newest - 1 - self.ranks.next(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_records_are_preferred_and_followed_as_they_grow() {
        let mut latest = Latest::new(10_000, 0.99);
        let mut random = Random::new(8);
        for newest in [10_000u64, 10_001, 20_000] {
            let draws: Vec<u64> = (0..20_000).map(|_| latest.next(&mut random, newest)).collect();
            assert!(draws.iter().all(|&record| record < newest));
            let share = |from: u64| draws.iter().filter(|&&r| r >= from).count() as f64 / 20_000.0;
            assert!(share(newest - 1) > 0.07, "the newest of {newest} has {}", share(newest - 1));
            assert!(
                share(newest - newest / 100) > 0.45,
                "newest hundredth: {}",
                share(newest - newest / 100)
            );
        }
    }
}
