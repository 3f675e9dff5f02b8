//! Guards that are chosen by the hash of keys (PebblesDB §3.2, §4.5), and the keys that merges meet of
//! them.
//!
//! A key begins a guard of level 1 if a given number of the lowest bits of its hash are set, and one of
//! each deeper level with some fewer. A key that begins a guard thus begins one in all deeper levels. The hash is
//! that of Bloom filters, which is part of the file format: the same keys give the same guards in every
//! version of the library.

use super::state::LEVELS_MAX;
use crate::filter::bloom;
use bytes::Bytes;

/// The number of lowest bits that must be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashedGuards {
    /// For a guard of level 1.
    pub top_level_bits: u32,
    /// Number of bits fewer for each deeper level.
    pub bit_decrement: u32,
}

/// A key that begins a guard of this level and of all deeper ones, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    pub key: Bytes,
    pub level: u32,
}

impl HashedGuards {
    /// Number of lowest bits that are set in the hash of each guard of a level; at least 1.
    pub fn bits(&self, level: u32) -> u32 {
        let fewer = self.bit_decrement.saturating_mul(level.saturating_sub(1));
        self.top_level_bits.saturating_sub(fewer).max(1)
    }

    /// The level nearest to level 0 in which a key begins a guard, if there is one.
    pub fn level_of(&self, key: &[u8]) -> Option<u32> {
        let ones = bloom::hash(key).trailing_ones();
        (1..=LEVELS_MAX).find(|&level| ones >= self.bits(level))
    }
}

/// The keys that a merge has met which begin guards.
pub(super) struct Met {
    guards: Option<HashedGuards>,
    /// The deepest level. Keys that begin guards of deeper ones only are met again when there are more.
    levels: u32,
    pub chosen: Vec<Chosen>,
}

/// Maximum number of chosen keys of a piece of a merge, and maximum length of one in bytes. Others are
/// met again by later merges.
const CHOSEN_MAX: usize = 1024;
const KEY_BYTES_MAX: usize = 1024;

impl Met {
    pub fn new(guards: Option<HashedGuards>, levels: u32) -> Self {
        Self { guards, levels, chosen: Vec::new() }
    }

    pub fn is_on(&self) -> bool {
        self.guards.is_some()
    }

    /// Takes note of a key that was put.
    pub fn meet(&mut self, key: &Bytes) {
        let Some(guards) = self.guards.filter(|_| self.chosen.len() < CHOSEN_MAX) else { return };
        if key.len() <= KEY_BYTES_MAX
            && let Some(level) = guards.level_of(key).filter(|&level| level <= self.levels)
        {
            self.chosen.push(Chosen { key: key.clone(), level });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_levels_need_fewer_bits() {
        let guards = HashedGuards { top_level_bits: 27, bit_decrement: 2 };
        assert_eq!([1, 2, 3, 12].map(|level| guards.bits(level)), [27, 25, 23, 5]);
        let guards = HashedGuards { top_level_bits: 8, bit_decrement: 3 };
        assert_eq!([1, 2, 3, 4, 12].map(|level| guards.bits(level)), [8, 5, 2, 1, 1]);
        let guards = HashedGuards { top_level_bits: 8, bit_decrement: 0 };
        assert_eq!([1, 12].map(|level| guards.bits(level)), [8, 8]);
    }

    /// The hash is part of the format: other guards would follow from another one.
    #[test]
    fn the_same_keys_give_the_same_guards() {
        let guards = HashedGuards { top_level_bits: 11, bit_decrement: 2 };
        let chosen = |level: u32| -> Vec<u32> {
            (0..10_000)
                .filter(|number| guards.level_of(format!("key {number:05}").as_bytes()) == Some(level))
                .collect()
        };
        assert_eq!((chosen(1), chosen(2)), (GOLDEN_1.to_vec(), GOLDEN_2.to_vec()));
        assert_eq!(chosen(3).len(), GOLDEN_3);
    }

    const GOLDEN_1: &[u32] = &[123, 4077, 5535, 7826, 8944];
    const GOLDEN_2: &[u32] =
        &[172, 950, 1786, 2268, 2662, 2960, 3240, 4823, 4894, 5365, 5692, 6109, 7106, 7166, 8453, 9789];
    const GOLDEN_3: usize = 57;

    #[test]
    fn a_merge_notes_keys_of_guards_of_the_levels_that_there_are() {
        let guards = HashedGuards { top_level_bits: 3, bit_decrement: 1 };
        let keys: Vec<Bytes> = (0..1000).map(|number| format!("key {number:05}").into()).collect();
        let met = |guards, levels| {
            let mut met = Met::new(guards, levels);
            keys.iter().for_each(|key| met.meet(key));
            met.chosen
        };
        assert!(met(None, 3).is_empty());
        let of =
            |level| keys.iter().filter(|key| guards.level_of(key).is_some_and(|own| own <= level)).count();
        assert_eq!([1, 2].map(|levels| met(Some(guards), levels).len()), [of(1), of(2)]);
        assert!(of(1) > 50 && of(2) > 2 * of(1) - 100, "{} and {} of 1000", of(1), of(2));
        let long = Bytes::from(vec![7; KEY_BYTES_MAX + 1]);
        let mut every = Met::new(Some(HashedGuards { top_level_bits: 0, bit_decrement: 0 }), 1);
        every.meet(&long);
        assert!(every.chosen.is_empty());
    }
}
