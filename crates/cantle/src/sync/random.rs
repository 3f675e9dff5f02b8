//! Randomness: unpredictable numbers that name stores and files, and a seeded generator for sampling, jitter
//! and tests. Neither is for cryptographic keys.

use super::atomic::{AtomicU64, Ordering};
use super::time;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// An unpredictable number, different in every process and on every call: a keyed hash (the key comes from the
/// operating system) of a counter, the process and the time, which keep forked processes and restored virtual
/// machines apart.
pub fn u64() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(CALLS.fetch_add(1, Ordering::Relaxed));
    hasher.write_u32(std::process::id());
    hasher.write_u64(time::unix_micros());
    hasher.finish()
}

/// An unpredictable number that will not come up twice.
pub fn u128() -> u128 {
    u128::from(u64()) << 64 | u128::from(u64())
}

/// A generator whose numbers follow from its seed: xoshiro256++ (Blackman and Vigna, 2021), seeded by
/// SplitMix64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Equal seeds give equal sequences; any seed will do.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut seed)) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        // `c ^ (b << 17)` uses the `b` from before this step, as the algorithm asks.
        result
    }

    /// A number from 0 up to, not including, `bound`; 0 if `bound` is 0. The bias, below `bound` in 2⁶⁴, does
    /// not matter for sampling.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` calls on average; always for `n` below 2.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Fills `bytes` with noise.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let noise = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&noise[..piece.len()]);
        }
    }
}

/// Mixes a number so that each bit of the result depends on all of its bits (SplitMix64's output function).
#[inline]
pub fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_seeded_generator_is_xoshiro256_plus_plus() {
        // The first outputs for the state 1, 2, 3, 4 that the reference implementation gives.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let outputs: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(outputs, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        assert_eq!(Rng::new(7), Rng::new(7));
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn bounded_numbers_reach_every_value_and_no_more() {
        let mut rng = Rng::new(1);
        let seen: HashSet<u64> = (0..1_000).map(|_| rng.below(10)).collect();
        assert_eq!(seen, (0..10).collect());
        assert_eq!(rng.below(0), 0);
        assert!(rng.one_in(1));
    }

    #[test]
    fn noise_fills_lengths_that_are_no_multiple_of_eight() {
        let mut bytes = [0; 13];
        Rng::new(3).fill(&mut bytes);
        assert!(bytes[8..].iter().any(|&byte| byte != 0));
    }

    #[test]
    fn unpredictable_numbers_differ() {
        let seen: HashSet<u128> = (0..1_000).map(|_| u128()).collect();
        assert_eq!(seen.len(), 1_000);
    }
}
