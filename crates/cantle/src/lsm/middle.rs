//! The key in the middle of what a merge writes into a group. A long group is divided there, which moves
//! no data (PebblesDB §3.3 inserts guards so).
//!
//! The number of keys is known only at their end. Therefore they pass in *stretches* of equal length, at
//! first short ones: of each the key that shares the fewest leading bytes with the key before it is kept.
//! When there are many stretches, each two become one.

use crate::run::cut::{separator, shared_prefix};
use crate::types::order::KeyOrder;
use bytes::Bytes;

/// Length of the first stretches in bytes, and their greatest number.
const STRETCH_BYTES: u64 = 256;
const STRETCHES_MAX: usize = 32;
/// A longer key begins no group: it would be kept in memory.
const KEY_BYTES_MAX: usize = 64;

/// The keys that a group may be divided at, while its entries pass.
pub struct Middle {
    stretch_bytes: u64,
    passed_bytes: u64,
    before: Option<Bytes>,
    stretches: Vec<Place>,
}

/// The second half of a group, more or less.
#[derive(Debug, Clone, PartialEq)]
pub struct Half {
    pub start: Bytes,
    /// Its part of the bytes.
    pub share: f64,
    /// Bytes of both halves.
    pub bytes: u64,
}

impl Half {
    /// The one of two that was found in more bytes; the newer one if they are about as many.
    pub fn better(older: Option<Self>, newer: Option<Self>) -> Option<Self> {
        let is_newer_better = |older: &Self, newer: &Self| newer.bytes >= older.bytes / 2;
        match (older, newer) {
            (Some(older), Some(newer)) if !is_newer_better(&older, &newer) => Some(older),
            (older, newer) => newer.or(older),
        }
    }
}

/// The place at which a group may be divided.
#[derive(Debug, PartialEq)]
pub enum Division {
    At(Half),
    /// Nowhere: a merge left this many bytes in one table, as they are a long value, or versions of one key
    /// that snapshots see.
    Nowhere {
        bytes: u64,
    },
}

/// A place between two neighbouring keys.
struct Place {
    key: Bytes,
    /// Number of leading bytes that it shares with the key before it.
    shared: usize,
    /// Bytes before it.
    from_bytes: u64,
}

impl Middle {
    pub fn new() -> Self {
        Self { stretch_bytes: STRETCH_BYTES, passed_bytes: 0, before: None, stretches: Vec::new() }
    }

    /// Passes the next key, which takes `bytes`.
    pub fn pass(&mut self, order: &KeyOrder, key: &Bytes, bytes: u64) {
        if let Some(before) = self.before.replace(key.clone()) {
            let shared = shared_prefix(order, &before, key);
            let place = || Place { key: key.clone(), shared, from_bytes: self.passed_bytes };
            let stretch = (self.passed_bytes / self.stretch_bytes) as usize;
            match self.stretches.last_mut() {
                Some(last) if (last.from_bytes / self.stretch_bytes) as usize == stretch => {
                    if shared < last.shared {
                        *last = place();
                    }
                }
                _ => self.stretches.push(place()),
            }
        }
        self.passed_bytes += bytes;
        if self.stretches.len() > STRETCHES_MAX {
            self.stretch_bytes *= 2;
            let stretch_of = |place: &Place| place.from_bytes / self.stretch_bytes;
            self.stretches.dedup_by(|later, earlier| {
                let is_same = stretch_of(later) == stretch_of(earlier);
                if is_same && later.shared < earlier.shared {
                    std::mem::swap(later, earlier);
                }
                is_same
            });
        }
    }

    /// The place in the middle fourth of the bytes where neighbours share the fewest leading bytes; `None` if
    /// there are too few keys.
    pub fn finish(self, order: &KeyOrder) -> Option<Half> {
        let (eighth, half) = (self.passed_bytes / 8, self.passed_bytes / 2);
        let is_in_the_middle = |place: &&Place| (3 * eighth..=5 * eighth).contains(&place.from_bytes);
        let middle = self.stretches.iter().filter(is_in_the_middle);
        let best = middle.min_by_key(|place| (place.shared, place.from_bytes.abs_diff(half)))?;
        let start = separator(order, &best.key, best.shared);
        let share = 1.0 - best.from_bytes as f64 / self.passed_bytes as f64;
        (start.len() <= KEY_BYTES_MAX).then_some(Half { start, share, bytes: self.passed_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn middle_of(keys: impl Iterator<Item = (String, u64)>) -> Option<String> {
        let mut middle = Middle::new();
        for (key, bytes) in keys {
            middle.pass(&KeyOrder::Bytewise, &Bytes::from(key), bytes);
        }
        assert!(middle.stretches.len() <= STRETCHES_MAX);
        let half = middle.finish(&KeyOrder::Bytewise)?;
        assert!((0.37..0.63).contains(&half.share), "{half:?}");
        Some(String::from_utf8(half.start.to_vec()).unwrap())
    }

    #[test]
    fn half_of_the_bytes_are_before_the_middle() {
        for count in [100, 3000, 70_000] {
            let middle = middle_of((0..count).map(|number| (format!("{number:08}"), 100))).unwrap();
            let number: f64 = format!("{middle:0<8}").parse().unwrap();
            let part = number / f64::from(count);
            assert!((0.3..0.7).contains(&part), "{middle} of {count}");
        }
        let skewed = (0..1000).map(|number| (format!("{number:08}"), if number < 100 { 1000 } else { 10 }));
        let middle: u64 = format!("{:0<8}", middle_of(skewed).unwrap()).parse().unwrap();
        assert!((35..80).contains(&middle), "{middle}");
        let two =
            (0..1000).map(|number| (format!("{}{number:04}", if number < 400 { "a" } else { "b" }), 100));
        assert_eq!(middle_of(two).as_deref(), Some("b"), "the shares are of the place");
    }

    #[test]
    fn whole_prefixes_stay_together_where_that_costs_little() {
        let keys = (0..5000).map(|number| (format!("user {:03}/{:03}", number / 500, number % 500), 50));
        assert_eq!(middle_of(keys).unwrap().len(), "user 005".len());
    }

    #[test]
    fn what_was_found_in_more_bytes_stays() {
        let half = |start: &'static str, bytes| Some(Half { start: start.into(), share: 0.5, bytes });
        assert_eq!(Half::better(None, half("a", 1)), half("a", 1));
        assert_eq!(Half::better(half("a", 1), None), half("a", 1));
        assert_eq!(Half::better(half("a", 100), half("b", 49)), half("a", 100));
        assert_eq!(Half::better(half("a", 100), half("b", 50)), half("b", 50));
    }

    #[test]
    fn few_keys_and_long_ones_have_none() {
        assert_eq!(middle_of(std::iter::empty()), None);
        assert_eq!(middle_of([("a".to_owned(), 1 << 20)].into_iter()), None);
        let long = |number: u64| (format!("{}{number:08}", "x".repeat(100)), 100);
        assert_eq!(middle_of((0..1000).map(long)), None);
        let late = (0..1000).map(|number| (format!("{number:08}"), if number == 0 { 1 << 30 } else { 1 }));
        assert_eq!(middle_of(late), None, "nearly all is before the second key");
    }
}
