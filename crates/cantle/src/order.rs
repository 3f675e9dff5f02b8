//! The order of keys: bytewise, or a comparator named in the keyspace.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A user-defined order of keys, fixed for the life of a keyspace and checked by name at each open.
///
/// It must be a total order that never changes: the bytes on disk are laid out by it. It is called from
/// many threads at once and must not panic.
pub trait Comparator: Send + Sync + 'static {
    /// The name that the keyspace records. Change it whenever the order changes.
    fn name(&self) -> &str;

    /// Orders two keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// Whether keys that compare equal are always identical bytes. Where not, hashed structures
    /// (Bloom filters) are switched off for the keyspace.
    fn equal_is_identical(&self) -> bool {
        true
    }

    /// Eight bytes that order as the keys do: `a < b` implies `prefix(a) <= prefix(b)`. Without one there
    /// is no prefix cache.
    fn prefix(&self, _key: &[u8]) -> Option<u64> {
        None
    }
}

/// The order of one keyspace. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) enum KeyOrder {
    #[default]
    Bytewise,
    Custom(Arc<dyn Comparator>),
}

/// The name under which the bytewise order is recorded.
pub(crate) const BYTEWISE: &str = "cantle.bytewise";

impl KeyOrder {
    #[inline]
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            Self::Custom(order) => order.compare(a, b),
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Bytewise => BYTEWISE,
            Self::Custom(order) => order.name(),
        }
    }

    /// Whether equal keys have equal hashes.
    pub(crate) fn hashable(&self) -> bool {
        match self {
            Self::Bytewise => true,
            Self::Custom(order) => order.equal_is_identical(),
        }
    }

    /// An order-preserving prefix: the first eight bytes, big endian, padded with zeros.
    #[inline]
    pub(crate) fn prefix(&self, key: &[u8]) -> Option<u64> {
        match self {
            Self::Bytewise => {
                let mut bytes = [0; 8];
                let length = key.len().min(8);
                bytes[..length].copy_from_slice(&key[..length]);
                Some(u64::from_be_bytes(bytes))
            }
            Self::Custom(order) => order.prefix(key),
        }
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
