//! The orders under test, and keys of the model that follow them.

use cantle::{Comparator, KeyspaceOptions};
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Bytewise,
    /// Descending bytewise order, with a prefix cache: the empty key is the last.
    Reverse,
    /// Shorter keys first, without a prefix.
    LengthFirst,
    /// Equal keys may differ in their bytes, but not in their prefix.
    CaseInsensitive,
    /// Descending; about every third key has no prefix, whichever keys are its neighbours.
    PartlyPrefixed,
}

impl Order {
    pub const ALL: [Self; 5] =
        [Self::Bytewise, Self::Reverse, Self::LengthFirst, Self::CaseInsensitive, Self::PartlyPrefixed];

    pub fn cmp(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Reverse | Self::PartlyPrefixed => b.cmp(a),
            Self::LengthFirst => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            Self::CaseInsensitive => cmp_ignoring_case(a, b),
        }
    }

    /// `options` with this order.
    pub fn apply(self, options: KeyspaceOptions) -> KeyspaceOptions {
        if self == Self::Bytewise { options } else { options.comparator(Arc::new(self)) }
    }
}

/// Compares many bytes at a time: keys may be long and differ near their ends only, and one byte at a time would take most
/// of the time of the door.
fn cmp_ignoring_case(a: &[u8], b: &[u8]) -> Ordering {
    by_units(a, b, 4096, |a, b| by_units(a, b, 64, by_byte))
}

/// The order by the first units that are not equal in each byte, and differ for `by`; then by length.
fn by_units(a: &[u8], b: &[u8], unit: usize, by: impl Fn(&[u8], &[u8]) -> Ordering) -> Ordering {
    let units = a.chunks(unit).zip(b.chunks(unit)).filter(|(a, b)| a != b);
    let differs = units.map(|(a, b)| by(a, b)).find(|order| order.is_ne());
    differs.unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn by_byte(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
}

impl Comparator for Order {
    fn name(&self) -> &str {
        match self {
            Self::Bytewise => "test.bytewise",
            Self::Reverse => "test.reverse",
            Self::LengthFirst => "test.length-first",
            Self::CaseInsensitive => "test.case-insensitive",
            Self::PartlyPrefixed => "test.partly-prefixed",
        }
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.cmp(a, b)
    }

    fn equal_is_identical(&self) -> bool {
        *self != Self::CaseInsensitive
    }

    fn prefix(&self, key: &[u8]) -> Option<u64> {
        let mut first = [0; 8];
        let length = key.len().min(8);
        first[..length].copy_from_slice(&key[..length]);
        let has_none = || key.iter().fold(0, |sum, &byte| sum + u32::from(byte)) % 3 == 0;
        match self {
            Self::Reverse => Some(!u64::from_be_bytes(first)),
            Self::CaseInsensitive => Some(u64::from_be_bytes(first.map(|byte| byte.to_ascii_lowercase()))),
            Self::PartlyPrefixed => (!has_none()).then(|| !u64::from_be_bytes(first)),
            Self::Bytewise | Self::LengthFirst => None,
        }
    }
}

/// A key with its order.
#[derive(Debug, Clone)]
pub struct OrderedKey {
    pub order: Order,
    pub bytes: Rc<[u8]>,
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for OrderedKey {}

#[cfg(test)]
mod tests {
    use super::Order;
    use crate::rng::Rng;

    #[test]
    fn keys_compare_as_their_lower_case_does() {
        let mut rng = Rng::new(1);
        let mut key = || -> Vec<u8> {
            let len = [0, 1, 63, 64, 65, 128, 130, 4096, 4100][rng.below(9) as usize];
            let mut key = vec![b'a'; len];
            for _ in 0..rng.below(3).min(len as u64) {
                key[rng.below(len as u64) as usize] = b"AbB"[rng.below(3) as usize];
            }
            key
        };
        for _ in 0..20_000 {
            let (a, b) = (key(), key());
            let expected = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
            assert_eq!(Order::CaseInsensitive.cmp(&a, &b), expected, "{a:?} {b:?}");
        }
    }
}
