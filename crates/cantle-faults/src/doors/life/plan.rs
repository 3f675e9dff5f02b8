//! The writes of a life: each follows from the seed and its number alone, so that the seed and the
//! number of writes determine the contents of the store.

use crate::rng::Rng;
use cantle::WriteBatch;
use std::ops::Range;

/// The order in which new keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
    /// In the order of time under each of some prefixes.
    Composite,
    Random,
}

impl Order {
    pub const ALL: [Self; 4] = [Self::Ascending, Self::Descending, Self::Composite, Self::Random];
}

/// Lengths of a life's values, in bytes; 0 for a mix of the others.
pub const VALUE_BYTES: [usize; 5] = [16, 100, 1000, 3000, 0];

/// Prefixes of composite keys.
const PREFIXES: u64 = 7;

/// Length of a season, in written bytes: then the kind of writes may change. Minimum and maximum
/// numbers of writes follow.
const SEASON_BYTES: u64 = 192 << 10;
const SEASON_MIN: u64 = 40;
const SEASON_MAX: u64 = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Season {
    Filling,
    Overwriting,
    /// The oldest keys are deleted.
    Deleting,
    Mixed,
}

/// One change of a pair or of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Vec<u8>, usize),
    Delete(Vec<u8>),
    DeleteRange(Range<Vec<u8>>),
}

/// The writes of a life.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub order: Order,
    /// 0 for all of [`VALUE_BYTES`].
    pub value_bytes: usize,
    /// Number of writes at the beginning that put new keys only.
    pub filling: u64,
}

/// The bytes of a value that the write of this number puts.
pub fn value(write: u64, len: usize) -> Vec<u8> {
    let (len, rest) = (len.max(8), Rng::new(write).next().to_le_bytes());
    let mut bytes = write.to_le_bytes().to_vec();
    bytes.reserve(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&rest);
    }
    bytes.truncate(len);
    bytes
}

/// The number of the write that put this value; `None` if none did.
pub fn write_of(bytes: &[u8]) -> Option<u64> {
    let write = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    (value(write, bytes.len()) == bytes).then_some(write)
}

impl Plan {
    /// The plan of a seed, which begins with about this many bytes of new keys. 20 consecutive
    /// seeds have every order and every length.
    pub fn of(seed: u64, filling_bytes: u64) -> Self {
        let (order, length) = (seed % 4, seed / 4 % 5);
        let (order, value_bytes) = (Order::ALL[order as usize], VALUE_BYTES[length as usize]);
        let plan = Self { seed, order, value_bytes, filling: 0 };
        Self { filling: filling_bytes / plan.mean_bytes(), ..plan }
    }

    /// The key with this number; numbers grow from write to write.
    pub fn key(&self, number: u64) -> Vec<u8> {
        let text = match self.order {
            Order::Ascending => format!("{number:010}"),
            Order::Descending => format!("{:010}", 9_999_999_999 - number),
            Order::Composite => format!("{:02}/{:08}", number % PREFIXES, number / PREFIXES),
            Order::Random => format!("{:016x}", Rng::new(number ^ self.seed << 32).next()),
        };
        text.into_bytes()
    }

    /// A range that begins at a key and ends some neighbours later: at most 10, or 1,000 if it is
    /// long.
    fn range(&self, number: u64, is_long: bool) -> Range<Vec<u8>> {
        let from = self.key(number);
        let common = match (self.order, is_long) {
            (Order::Random, true) => 1,
            (Order::Random, false) => 3,
            (_, true) => from.len() - 3,
            (_, false) => from.len() - 1,
        };
        let to = [&from[..common], b"~"].concat();
        from..to
    }

    /// Approximate number of bytes of a write.
    pub fn mean_bytes(&self) -> u64 {
        let value_bytes = match self.value_bytes {
            0 => VALUE_BYTES.iter().sum::<usize>() / (VALUE_BYTES.len() - 1),
            bytes => bytes,
        };
        value_bytes as u64 + 16
    }

    fn len(&self, rng: &mut Rng) -> usize {
        match self.value_bytes {
            0 => VALUE_BYTES[rng.below(VALUE_BYTES.len() as u64 - 1) as usize],
            bytes => bytes,
        }
    }

    fn season(&self, write: u64) -> Season {
        let season = write / (SEASON_BYTES / self.mean_bytes()).clamp(SEASON_MIN, SEASON_MAX);
        match Rng::new(self.seed ^ season << 20).below(10) {
            _ if write < self.filling => Season::Filling,
            0..5 => Season::Filling,
            5 => Season::Overwriting,
            6 | 7 => Season::Deleting,
            _ => Season::Mixed,
        }
    }

    /// The changes of one write, which are one batch.
    pub fn write(&self, write: u64) -> Vec<Change> {
        let mut rng = Rng::new(self.seed.rotate_left(32) ^ write);
        let season = self.season(write);
        let count = if rng.below(16) == 0 { 2 + rng.below(3) } else { 1 };
        (0..count).map(|part| self.change(&mut rng, season, write * 4 + part)).collect()
    }

    fn change(&self, rng: &mut Rng, season: Season, number: u64) -> Change {
        let any = rng.below(number + 1);
        match (season, rng.below(20)) {
            (Season::Deleting, 0..16) => Change::Delete(self.key(number / 2 - number / 2 % 4)),
            (Season::Deleting, 16) => Change::DeleteRange(self.range(any, true)),
            (Season::Deleting | Season::Mixed, 18) => Change::DeleteRange(self.range(any, false)),
            (Season::Mixed, 0..6) => Change::Delete(self.key(any)),
            (Season::Overwriting, 0..18) | (Season::Mixed, 6..12) => {
                Change::Put(self.key(any - any % 4), self.len(rng))
            }
            _ => Change::Put(self.key(number), self.len(rng)),
        }
    }
}

/// The batch that is written to the store.
pub fn batch(write: u64, changes: &[Change]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for change in changes {
        match change {
            Change::Put(key, len) => batch.put(key, value(write, *len)),
            Change::Delete(key) => batch.delete(key),
            Change::DeleteRange(range) => batch.delete_range(range.clone()),
        };
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_names_its_write_and_no_other_bytes_do() {
        for len in [8, 16, 3000] {
            let mut bytes = value(77, len);
            assert_eq!((bytes.len(), write_of(&bytes)), (len, Some(77)));
            bytes[len - 1] ^= 1;
            // The shortest values only have space for the number.
            assert_ne!(write_of(&bytes), Some(77));
            assert!(len == 8 || write_of(&bytes).is_none());
        }
        assert_eq!(write_of(b"short"), None);
    }

    #[test]
    fn keys_come_in_the_order_that_the_plan_names() {
        let keys = |order| -> Vec<Vec<u8>> {
            let plan = Plan { seed: 1, order, value_bytes: 16, filling: 0 };
            (0..50).map(|number| plan.key(number)).collect()
        };
        assert!(keys(Order::Ascending).is_sorted());
        assert!(keys(Order::Descending).iter().rev().is_sorted());
        assert!(keys(Order::Composite).iter().step_by(PREFIXES as usize).is_sorted());
        assert!(!keys(Order::Random).is_sorted());
    }

    #[test]
    fn twenty_seeds_in_a_row_have_every_order_and_length() {
        let plans: std::collections::HashSet<_> =
            (40..60).map(|seed| Plan::of(seed, 0)).map(|plan| (plan.order as u8, plan.value_bytes)).collect();
        assert_eq!(plans.len(), Order::ALL.len() * VALUE_BYTES.len());
    }
}
