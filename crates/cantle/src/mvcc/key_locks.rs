//! Locks of keys, for layouts that have no lock of their own between keyspace and key.
//!
//! Keys are spread over *stripes* by their hash. A write holds the stripes of the keys that it
//! writes, and of those that its transaction has read, from its preparation to its end. A range,
//! which may contain any key, takes all stripes. Therefore writes of one key have an order,
//! `update` and the validation of transactions are exclusive, and writers of other keys rarely
//! wait.
//!
//! Invariant: every thread takes stripes in ascending order, each once, so there is no deadlock.
//!
//! Thread safety: everything may be called from any thread.

use crate::filter::bloom;
use crate::sync::{Mutex, MutexGuard, waits};
use crate::types::order::KeyOrder;

/// Number of stripes. With 256, one in 256 pairs of concurrent single-key writes shares a stripe,
/// and a range still takes all stripes in microseconds.
const STRIPES: usize = 256;

/// The stripes of one keyspace.
pub struct KeyLocks {
    stripes: Box<[Mutex<()>]>,
}

/// Stripes that are locked until this is dropped.
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

    /// Locks `keys`, which are in this order. Waits for holders of one of them, or of a range.
    pub fn lock<'k>(&self, order: &KeyOrder, keys: impl Iterator<Item = &'k [u8]>) -> HeldKeys<'_> {
        let mut stripes: Vec<usize> = keys.map(|key| self.stripe(order, key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        HeldKeys(stripes.into_iter().map(|stripe| waits::lock(&self.stripes[stripe])).collect())
    }

    /// Locks every key.
    pub fn lock_all(&self) -> HeldKeys<'_> {
        HeldKeys(self.stripes.iter().map(waits::lock).collect())
    }

    fn stripe(&self, order: &KeyOrder, key: &[u8]) -> usize {
        // Without hashing all keys share one stripe, since equal keys may have different bytes.
        if order.hashable() { (bloom::hash(key) >> 32) as usize % self.stripes.len() } else { 0 }
    }
}

impl Default for KeyLocks {
    fn default() -> Self {
        Self::new()
    }
}
