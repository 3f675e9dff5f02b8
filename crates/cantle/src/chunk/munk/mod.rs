//! The munk: a chunk in memory (EvenDB §3.1).
//!
//! An array of entries, one for each key, that is also a linked list in key order. A prefix of the array is
//! sorted, so that it can be searched by halving; what is inserted between two sorted entries is a *bypass* that
//! the search walks.
//!
//! ```text
//!             1      2      3      4                          8
//!   prefixes  b      d      f      h      ·      ·      ·     e
//!          ┌──────┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
//!   slots  │ b    │ d    │ f    │ h    │  →   │      │   ←  │ e    │      next: 1 → 2 → 8 → 3 → 4
//!          └──┬───┴──┬───┴──┬───┴──┬───┴──────┴──────┴──────┴──┬───┘
//!     newest  │      │      │      │       room                │
//!             ▼      ▼      ▼      ▼                           ▼
//!   records  b@7    d@9 →  f@2    h@2                         e@11         in the blocks of an arena
//!                   d@4
//! ```
//!
//! A key behind all others extends the sorted prefix, from the front; another goes to the bypasses, from the
//! back. So inserts in order, as of times, leave the munk sorted. (The paper appends both at one end, where
//! one insert out of order ends the sorted prefix.)
//!
//! A key's records are linked from the newest to the oldest ([`record`]). Overwriting writes a new record and
//! swings the slot's link; what a reader holds never changes. A munk is *complete*: it has of every key of its
//! chunk the newest version and all that open snapshots need. What it does not have is not there.
//!
//! # Invariants
//!
//! * The list is sorted, one slot for each key. From slot 0, which is no key's, it leads through all of them.
//! * Slots `1..=sorted` are in the list in this order, and the last of them ends it.
//! * A slot's prefix is written before the slot is linked and never changes. Once a slot is linked, it has a
//!   record.
//! * Down a chain of records versions do not increase. At most one batch is undecided, and its records are on
//!   top.
//! * All that can be reached stays as long as the munk: blocks and cells go with it, nothing goes before. So
//!   readers need to hold nothing but the munk.
//! * A munk that was re-sorted, rebalanced, split or joined is not written any more.
//!
//! # Threads
//!
//! One writer at a time, who holds the chunk's lock. Any number of readers, who never wait: neither for the writer
//! nor for one another. Writing takes the munk's own lock as well, so that nothing else than a wrong answer
//! comes of two writers.
//!
//! # What the caller keeps
//!
//! * Versions do not decrease in the order of the writes.
//! * `needed(older, newer)` says whether an open snapshot `s` has `older <= s < newer`, of those that were open when
//!   the write was announced or later. Who reads at a version other than `u64::MAX` holds such a snapshot.
//! * A batch's writes to a munk are not mixed with others', and its cell is decided before the next write.

#![expect(dead_code, unused_imports, reason = "chunks do not have munks yet")]

mod arena;
mod array;
mod build;
mod chain;
mod cursor;
mod prefix;
mod rebalance;
mod record;
mod search;
mod versions;
mod write;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use crate::entry::Kind;
use crate::mvcc::CommitCell;
use crate::order::KeyOrder;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use arena::Arena;
use array::Slots;
use prefix::PrefixOf;
use record::RecordPtr;
use search::Place;

pub use build::MunkBuilder;
pub use cursor::MunkCursor;
pub use record::{Content, Record};
pub use versions::Versions;
pub use write::Full;

/// A chunk in memory.
pub struct Munk {
    // Immutable.
    order: KeyOrder,
    prefix: PrefixOf,
    /// The memory of all munks there are.
    total_bytes: Arc<AtomicU64>,

    // Atomic: written under `writer`, read by anyone.
    slots: Slots,
    counts: Counts,

    writer: Mutex<Writer>,
}

/// What the writer keeps.
struct Writer {
    /// Keeps the blocks of all records that can be reached.
    arena: Arena,
    /// Of the batches whose records may still point here.
    cells: Vec<Arc<CommitCell>>,
    /// The records of the last batch, until it is known to be decided.
    undecided: Vec<RecordPtr>,
}

#[derive(Default)]
struct Counts {
    block_bytes: AtomicU64,
    /// What records take of the blocks.
    filled_bytes: AtomicU64,
    cell_bytes: AtomicU64,
    live_bytes: AtomicU64,
    /// How far inserts had to walk.
    steps: AtomicU64,
}

/// A walk of one insert that is too long, though it is the only one.
const STEPS_MAX: u64 = 128;

impl Munk {
    /// The newest visible version of `key` at or below `at`, if that is a value; `u64::MAX` for the newest of all.
    pub fn get(&self, key: &[u8], at: u64) -> Option<&[u8]> {
        let record = self.find(key, at)?;
        (record.kind() == Kind::Put).then(|| record.value())
    }

    /// As [`get`](Self::get), with the version, and also if the key was deleted there.
    pub fn find(&self, key: &[u8], at: u64) -> Option<&Record> {
        match self.locate(key) {
            Place::Found { slot, .. } => chain::visible(self.slots.newest(slot), at),
            Place::Gap { .. } => None,
        }
    }

    /// The keys, of which some may be deleted.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many new keys fit in.
    pub fn room(&self) -> usize {
        self.slots.room()
    }

    /// All memory that the munk keeps, of blocks that it shares as well.
    pub fn bytes(&self) -> u64 {
        let counts = &self.counts;
        self.own_bytes() + counts.cell_bytes.load(Relaxed) + counts.block_bytes.load(Relaxed)
    }

    /// The records that can be reached.
    pub fn live_bytes(&self) -> u64 {
        self.counts.live_bytes.load(Relaxed)
    }

    /// The records in its blocks that cannot be reached: what a rebalance frees, of blocks that are shared since a
    /// split once all their holders are rebalanced.
    pub fn garbage_bytes(&self) -> u64 {
        self.counts.filled_bytes.load(Relaxed).saturating_sub(self.live_bytes())
    }

    /// Whether sorting the munk anew pays: inserts walked as many steps as that takes, or there is no room.
    pub fn is_tangled(&self) -> bool {
        self.room() == 0 || self.counts.steps.load(Relaxed) > self.len() as u64 + STEPS_MAX
    }

    /// What counts in the total beside the blocks, which count themselves.
    fn own_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.prefix.bytes() + self.slots.bytes()
    }
}

impl Drop for Munk {
    fn drop(&mut self) {
        let bytes = self.own_bytes() + self.counts.cell_bytes.load(Relaxed);
        self.total_bytes.fetch_sub(bytes, Relaxed);
    }
}
