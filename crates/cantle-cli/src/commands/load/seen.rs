//! Keys that a load has written: a Bloom filter that spares a get for most keys that are new.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Bits of the filter: 16 MiB. For up to 10 million keys, fewer than 1 in 100 new keys are taken for
/// old ones; beyond, more are, which costs a get for each.
const BITS: u64 = 1 << 27;

/// Bits that each key sets: with 4, and 13 bits of memory a key, about 0.5 % of new keys are taken for
/// old ones.
const PROBES: u64 = 4;

/// A set of keys that has false positives, and no false negatives.
pub(super) struct Seen(Vec<u64>);

impl Seen {
    /// The empty set. Its memory is taken as keys are inserted.
    pub(super) fn new() -> Self {
        Self(vec![0; (BITS / 64) as usize])
    }

    /// Inserts a key; false if it certainly was not there before.
    pub(super) fn insert(&mut self, key: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        // Double hashing: the step is odd, so that all probes differ.
        let step = hash.rotate_left(32) | 1;
        let mut was_there = true;
        for probe in 0..PROBES {
            let bit = hash.wrapping_add(probe.wrapping_mul(step)) % BITS;
            let (word, mask) = (&mut self.0[(bit / 64) as usize], 1 << (bit % 64));
            was_there &= *word & mask != 0;
            *word |= mask;
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_forgotten_and_few_new_ones_are_taken_for_old() {
        let mut seen = Seen::new();
        let false_positives = (0..200_000u64).filter(|key| seen.insert(&key.to_be_bytes())).count();
        assert!(false_positives < 200, "{false_positives}");
        assert!((0..200_000u64).all(|key| seen.insert(&key.to_be_bytes())));
    }
}
