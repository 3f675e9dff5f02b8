//! A random-looking bijection of `0..n` in constant memory.

use super::random::mix;

/// Rounds of the Feistel network. Four rounds with a good round function make a good pseudorandom
/// permutation (Luby and Rackoff), which is enough here.
const ROUNDS: usize = 4;

/// A Feistel network over the smallest even number of bits that hold `n`, repeated until the result
/// is below `n`: the domain is less than four times `n`, so that takes fewer than four steps on
/// average.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The bijection of `0..n` (`n` from 1 to 2^62) of this seed.
    pub fn new(n: u64, seed: u64) -> Self {
        assert!((1..=1 << 62).contains(&n), "a permutation of {n} numbers");
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(2);
        let mut keys = [0; ROUNDS];
        for (round, key) in keys.iter_mut().enumerate() {
            *key = mix(mix(seed) ^ (round as u64 + 1));
        }
        Self { n, half_bits: bits.div_ceil(2), keys }
    }

    /// The image of `index` (below `n`).
    pub fn apply(&self, index: u64) -> u64 {
        assert!(index < self.n, "{index} of a permutation of {}", self.n);
        let mut value = index;
        // Cycle walking: the orbit of `index` returns below `n`, at the latest at `index` itself.
        loop {
            value = self.encrypt(value);
            if value < self.n {
                return value;
            }
        }
    }

    fn encrypt(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_hit_exactly_once() {
        for n in [1, 2, 3, 4, 5, 16, 17, 1000, 16_384, 65_537] {
            let permutation = Permutation::new(n, 9);
            let mut seen = vec![false; n as usize];
            for index in 0..n {
                let at = permutation.apply(index) as usize;
                assert!(!std::mem::replace(&mut seen[at], true), "{at} twice in {n}");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered_and_seeds_differ() {
        let n = 1 << 20;
        let (first, second) = (Permutation::new(n, 1), Permutation::new(n, 2));
        let near = (1..1000).filter(|&i| first.apply(i).abs_diff(first.apply(i - 1)) < n / 100).count();
        assert!(near < 60, "{near} of 1000 neighbours stayed near");
        assert!((0..100).filter(|&i| first.apply(i) == second.apply(i)).count() < 3);
    }
}
