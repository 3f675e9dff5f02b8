//! Eight bytes of each key, which decide nearly all comparisons.
//!
//! In bytewise order they are taken after the common prefix of the keys that are compared, because
//! composite keys that lie together share more than eight bytes. A key without the common prefix
//! sorts before or after all keys that have it.

use crate::types::order::KeyOrder;

/// Maps keys to numbers that order as the keys do: `a < b` implies `of(a) <= of(b)`.
pub struct PrefixOf {
    /// The common prefix of the keys; empty unless the order is bytewise.
    common: Box<[u8]>,
}

impl PrefixOf {
    /// For keys between `first` and `last`.
    pub fn between(order: &KeyOrder, first: &[u8], last: &[u8]) -> Self {
        let common = match order {
            KeyOrder::Bytewise => first.iter().zip(last).take_while(|(a, b)| a == b).count(),
            KeyOrder::Custom(_) => 0,
        };
        Self { common: first[..common].into() }
    }

    /// `None` if the order has a key without a prefix: keys are then compared whole, even if
    /// prefixes were stored before.
    #[inline]
    pub fn of(&self, order: &KeyOrder, key: &[u8]) -> Option<u64> {
        if let KeyOrder::Custom(_) = order {
            return order.prefix(key);
        }
        Some(match key.strip_prefix(&*self.common) {
            Some(rest) => first_eight(rest),
            None if key < &*self.common => 0,
            None => u64::MAX,
        })
    }

    pub fn bytes(&self) -> u64 {
        self.common.len() as u64
    }
}

/// The first eight bytes as a number: big endian, padded with zeros.
#[inline]
fn first_eight(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(eight)
}
