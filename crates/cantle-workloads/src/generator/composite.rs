//! Zipf over composite keys: a popular primary attribute, and a uniform choice within it (EvenDB
//! §5.3.1).

use super::{Permutation, Random, Zipf};

/// Values of the primary attribute: the 14 most significant bits of the key.
const PREFIXES: u64 = 1 << 14;

/// Record number = prefix × n / 16384 + a uniform remainder. The seed permutes the ranks of
/// prefixes, so that hot prefixes are scattered, but hot keys of one prefix are neighbours.
#[derive(Debug, Clone)]
pub struct Composite {
    records: u64,
    ranks: Zipf,
    prefixes: Permutation,
}

impl Composite {
    /// Over `records` records.
    pub fn new(records: u64, theta: f64, seed: u64) -> Self {
        Self { records, ranks: Zipf::new(PREFIXES, theta), prefixes: Permutation::new(PREFIXES, seed) }
    }

    /// The frequency of the most popular record: that of the most popular prefix, shared by its
    /// records.
    pub fn hottest(&self) -> f64 {
        self.ranks.hottest() * PREFIXES as f64 / self.records.max(PREFIXES) as f64
    }

    /// The first record of `prefix`. With fewer records than prefixes some prefixes are empty.
    fn start(&self, prefix: u64) -> u64 {
        (u128::from(prefix) * u128::from(self.records) / u128::from(PREFIXES)) as u64
    }

    /// The next record number.
    pub fn next(&self, random: &mut Random) -> u64 {
        let prefix = self.prefixes.apply(self.ranks.next(random));
        let (start, end) = (self.start(prefix), self.start(prefix + 1));
        // An empty prefix gives the record after it.
        start + random.below((end - start).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// The purpose of the distribution: few prefixes get most operations, and none of their keys is
    /// hot.
    #[test]
    fn hot_keys_lie_together() {
        let records = 16_384 * 100;
        let composite = Composite::new(records, 0.99, 5);
        let mut random = Random::new(6);
        let draws = 400_000u32;
        let (mut by_prefix, mut by_key) = (HashMap::new(), HashMap::new());
        for _ in 0..draws {
            let record = composite.next(&mut random);
            *by_prefix.entry(record / 100).or_insert(0u32) += 1;
            *by_key.entry(record).or_insert(0u32) += 1;
        }
        let mut counts: Vec<u32> = by_prefix.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The hottest of 16384 prefixes has 1 / zeta(16384, 0.99) = 9.3 % of all operations.
        let hottest = f64::from(counts[0]) / f64::from(draws);
        assert!((hottest - 0.093).abs() < 0.004, "{hottest}");
        // 1 % of the prefixes get more than half of the operations.
        assert!(counts.iter().take(164).sum::<u32>() > draws / 2);
        let hottest_key = by_key.values().max().copied().unwrap_or(0);
        assert!(f64::from(hottest_key) / f64::from(draws) < 0.0015);
    }

    #[test]
    fn hot_prefixes_are_scattered_by_the_seed() {
        let hot = |seed| Composite::new(1 << 20, 0.99, seed).prefixes.apply(0);
        assert_ne!(hot(1), hot(2));
        assert_ne!(hot(1), 0);
    }
}
