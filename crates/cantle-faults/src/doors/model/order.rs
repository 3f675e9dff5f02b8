//! The orders under test, and keys of the model that follow them.

use cantle::{Comparator, KeyspaceOptions};
use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Bytewise,
    /// Bytewise, the other way round, with a prefix cache.
    Reverse,
    /// Equal keys may differ in their bytes.
    CaseInsensitive,
}

impl Order {
    pub const ALL: [Self; 3] = [Self::Bytewise, Self::Reverse, Self::CaseInsensitive];

    pub fn cmp(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Reverse => b.cmp(a),
            Self::CaseInsensitive => {
                a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase))
            }
        }
    }

    /// `options` with this order.
    pub fn apply(self, options: KeyspaceOptions) -> KeyspaceOptions {
        if self == Self::Bytewise { options } else { options.comparator(Arc::new(self)) }
    }
}

impl Comparator for Order {
    fn name(&self) -> &str {
        match self {
            Self::Bytewise => "test.bytewise",
            Self::Reverse => "test.reverse",
            Self::CaseInsensitive => "test.case-insensitive",
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
        (*self == Self::Reverse).then(|| !u64::from_be_bytes(first))
    }
}

/// A key in its order.
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
