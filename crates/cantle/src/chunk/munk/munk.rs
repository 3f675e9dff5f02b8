//! A munk's parts and its gets.

use super::arena::Arena;
use super::array::Slots;
use super::chain::visible;
use super::record::{Record, RecordPtr};
use super::search::Located;
use super::towers::Towers;
use crate::mvcc::CommitCell;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use crate::types::prefix::PrefixOf;

/// A chunk in memory.
pub struct Munk {
    // Immutable.
    pub(super) order: KeyOrder,
    pub(super) prefix: PrefixOf,
    /// The memory of all munks.
    pub(super) total_bytes: Arc<AtomicU64>,

    // Atomic: written under `writer`, read by anyone.
    pub(super) slots: Slots,
    pub(super) towers: Towers,
    pub(super) counts: Counts,

    pub(super) writer: Mutex<Writer>,
}

/// State of the writer.
pub struct Writer {
    /// Holds the blocks of all reachable records.
    pub(super) arena: Arena,
    /// Cells of the batches whose records may still point to them.
    pub(super) cells: Vec<Arc<CommitCell>>,
    /// A cell that is never committed: the batch of withdrawn records.
    pub(super) never: Option<Arc<CommitCell>>,
    /// The records of the last batch, until it is known to be decided.
    pub(super) undecided: Vec<RecordPtr>,
    /// While a copy is made, the records written since it was begun.
    pub(super) since: Option<Vec<RecordPtr>>,
}

#[derive(Default)]
pub struct Counts {
    pub(super) block_bytes: AtomicU64,
    /// Bytes of the blocks that records use.
    pub(super) filled_bytes: AtomicU64,
    pub(super) cell_bytes: AtomicU64,
    pub(super) live_bytes: AtomicU64,
    /// Number of steps that inserts had to walk.
    pub(super) steps: AtomicU64,
    /// Approximate number of keys deleted since the munk was sorted: cursors skip them.
    pub(super) dead_keys: AtomicU64,
}

/// Cost of sorting one key, in steps of a walk: it reads the key's record in memory.
const STEPS_PER_KEY: u64 = 8;
/// Fewer steps than this never justify sorting.
const STEPS_MIN: u64 = 1024;

impl Munk {
    /// The newest visible version of `key` at or below `at`, if it is a value; `u64::MAX` for the
    /// newest of all.
    pub fn get(&self, key: &[u8], at: u64) -> Option<&[u8]> {
        let record = self.find(key, at)?;
        (record.kind() == Kind::Put).then(|| record.value())
    }

    /// As [`get`](Self::get), with the version, and also if the key was deleted there.
    pub fn find(&self, key: &[u8], at: u64) -> Option<&Record> {
        match self.locate(key) {
            Located::Found { slot, .. } => visible(|| self.slots.newest(slot), at),
            Located::Gap { .. } => None,
        }
    }

    /// Number of keys, including deleted ones that still have a slot.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of new keys for which there is room.
    pub fn room(&self) -> usize {
        self.slots.room()
    }

    /// All memory that the munk holds, shared blocks included.
    pub fn bytes(&self) -> u64 {
        let counts = &self.counts;
        self.own_bytes() + counts.cell_bytes.load(Relaxed) + counts.block_bytes.load(Relaxed)
    }

    /// Bytes of the reachable records.
    pub fn live_bytes(&self) -> u64 {
        self.counts.live_bytes.load(Relaxed)
    }

    /// Bytes of unreachable records in its blocks. A rebalance frees them; in blocks that are
    /// shared since a split, once all their holders are rebalanced.
    pub fn garbage_bytes(&self) -> u64 {
        self.counts.filled_bytes.load(Relaxed).saturating_sub(self.live_bytes())
    }

    /// Approximate number of keys deleted since the munk was sorted.
    pub fn dead_keys(&self) -> u64 {
        self.counts.dead_keys.load(Relaxed)
    }

    /// Number of towers over its bypasses.
    pub fn towers(&self) -> u64 {
        self.towers.len()
    }

    /// True if sorting the munk anew pays: inserts walked as many steps as that costs, or there is
    /// no room.
    pub fn is_tangled(&self) -> bool {
        self.room() == 0 || self.counts.steps.load(Relaxed) > self.len() as u64 * STEPS_PER_KEY + STEPS_MIN
    }

    /// Bytes counted in the total, except for blocks, which are counted when they are allocated.
    pub fn own_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.prefix.bytes() + self.slots.bytes() + self.towers.bytes()
    }
}

impl Drop for Munk {
    fn drop(&mut self) {
        let bytes = self.own_bytes() + self.counts.cell_bytes.load(Relaxed);
        self.total_bytes.fetch_sub(bytes, Relaxed);
    }
}
