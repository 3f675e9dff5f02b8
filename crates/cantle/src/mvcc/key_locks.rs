//! Locks of keys, for layouts that have no lock of their own between keyspace and key.
//!
//! Keys are spread over *stripes* by their hash. A write holds the stripes of the keys that it writes, and that its transaction has
//! read, from its preparation to its end; a range, which may have any key, takes all of them. So writes of one key have an order,
//! `update` and the validation of transactions are exclusive, and writers of other keys rarely wait.
//!
//! Invariant: stripes are taken in ascending order, each once, by everybody: nobody waits in a circle.
//!
//! Thread safety: everything may be called from any thread.

use crate::filter::bloom;
use crate::sync::{Mutex, MutexGuard};
use crate::types::order::KeyOrder;

/// A write of one key meets another of 255 others once in so many; a range takes them all in microseconds.
const STRIPES: usize = 256;

/// The stripes of one keyspace.
pub struct KeyLocks {
    stripes: Box<[Mutex<()>]>,
}

/// Held until dropped.
#[must_use]
pub struct HeldKeys<'a>(#[expect(dead_code, reason = "held")] Vec<MutexGuard<'a, ()>>);

impl KeyLocks {
    pub fn new() -> Self {
        Self::with_stripes(STRIPES)
    }

    /// The same with another number of stripes, for models.
    pub fn with_stripes(stripes: usize) -> Self {
        Self { stripes: (0..stripes.max(1)).map(|_| Mutex::new(())).collect() }
    }

    /// Locks keys of this order. Waits for others that hold one of them, or a range.
    pub fn lock<'k>(&self, order: &KeyOrder, keys: impl Iterator<Item = &'k [u8]>) -> HeldKeys<'_> {
        let mut stripes: Vec<usize> = keys.map(|key| self.stripe(order, key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        HeldKeys(stripes.into_iter().map(|stripe| self.stripes[stripe].lock()).collect())
    }

    /// Locks every key.
    pub fn lock_all(&self) -> HeldKeys<'_> {
        HeldKeys(self.stripes.iter().map(|stripe| stripe.lock()).collect())
    }

    fn stripe(&self, order: &KeyOrder, key: &[u8]) -> usize {
        // Equal keys may have different bytes.
        if order.hashable() { (bloom::hash(key) >> 32) as usize % self.stripes.len() } else { 0 }
    }
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self::new()
    }
}
