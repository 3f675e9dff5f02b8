//! Eight bytes of each key, by which nearly all comparisons are decided.
//!
//! In bytewise order they are taken after what the keys that are compared have in common: composite keys that
//! lie together share more than eight bytes. A key outside what is common is before or behind all that have it.

use crate::types::order::KeyOrder;

/// Maps keys to numbers that order as the keys do: `a < b` implies `of(a) <= of(b)`.
pub struct PrefixOf {
    /// Empty but in bytewise order.
    common: Box<[u8]>,
}

impl PrefixOf {
    /// For keys between these two.
    pub fn between(order: &KeyOrder, first: &[u8], last: &[u8]) -> Self {
        let common = match order {
            KeyOrder::Bytewise => first.iter().zip(last).take_while(|(a, b)| a == b).count(),
            KeyOrder::Custom(_) => 0,
        };
        Self { common: first[..common].into() }
    }

    /// `None` in an order of which some key has no prefix: then keys are compared, whatever prefixes were stored before.
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

/// Big endian, padded with zeros.
#[inline]
fn first_eight(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(eight)
}
