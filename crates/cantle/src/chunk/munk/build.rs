//! Builds a munk from entries in order: from a table, a merge, or another munk.
#![expect(unsafe_code, reason = "links records; the munk keeps what it links")]

use super::arena::Arena;
use super::array::Slots;
use super::record::{RecordPtr, layout};
use super::towers::Towers;
use super::{Counts, Munk, Writer};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::types::entry::Content;
use crate::types::order::KeyOrder;
use crate::types::prefix::PrefixOf;
use std::cmp::Ordering;

/// A munk that is being built.
pub struct MunkBuilder {
    order: KeyOrder,
    arena: Arena,
    /// The newest record of each key.
    newest: Vec<RecordPtr>,
    last: Option<RecordPtr>,
    live_bytes: u64,
}

impl MunkBuilder {
    /// `total_bytes` counts the memory of all munks, from the first record until the last holder is
    /// dropped. `expected_bytes` is the approximate sum of the records' bytes
    /// ([`record_bytes_of`]).
    pub fn new(order: KeyOrder, expected_bytes: u64, total_bytes: Arc<AtomicU64>) -> Self {
        Self {
            order,
            arena: Arena::new(expected_bytes, total_bytes),
            newest: Vec::new(),
            last: None,
            live_bytes: 0,
        }
    }

    /// Adds a version of a key: keys in order, the versions of each from the newest to the oldest.
    pub fn push(&mut self, content: Content<'_>) {
        let record = self.arena.write(content, None);
        // SAFETY: both are in the arena.
        let (written, last) = unsafe { (record.get(), self.last.map(|last| last.get())) };
        self.live_bytes += written.size();
        match last {
            Some(last) if self.order.compare(last.key(), written.key()) == Ordering::Equal => {
                debug_assert!(last.version() >= written.version(), "newest first");
                // SAFETY: as above.
                unsafe { last.older().set(Some(record)) };
            }
            last => {
                debug_assert!(
                    last.is_none_or(|last| {
                        self.order.compare(last.key(), written.key()) == Ordering::Less
                    }) || self.order.failure().is_some(),
                    "keys in order"
                );
                self.newest.push(record);
            }
        }
        self.last = Some(record);
    }

    /// Bytes of the records so far.
    pub fn bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The munk, with room for this many new keys.
    pub fn finish(self, room: usize) -> Munk {
        // SAFETY: the records were written to the arena and without cells.
        unsafe { Munk::of(self.order, self.arena, &self.newest, self.live_bytes, room) }
    }
}

/// Bytes of the records of `pairs` pairs, which have `bytes` of keys and values.
pub fn record_bytes_of(bytes: u64, pairs: u64) -> u64 {
    // Ends of records are aligned: half of that is lost on average.
    bytes + pairs * (layout(0).size() + layout(0).align() / 2) as u64
}

/// Bytes of a munk with these pairs, with the usual room.
pub fn bytes_of(bytes: u64, pairs: u64) -> u64 {
    let room = room_for(pairs as usize);
    record_bytes_of(bytes, pairs) + Slots::bytes_of(pairs as usize + room) + Towers::bytes_of(room)
}

/// Room for half as many new keys as there are, so that bypasses stay short, and for some more.
pub fn room_for(keys: usize) -> usize {
    keys / 2 + 64
}

impl Munk {
    /// The munk with these newest records, which are in key order.
    ///
    /// # Safety
    /// The records, and all that can be reached from them, are in the arena's blocks and have no
    /// cells.
    pub(super) unsafe fn of(
        order: KeyOrder,
        arena: Arena,
        newest: &[RecordPtr],
        live_bytes: u64,
        room: usize,
    ) -> Self {
        // SAFETY: the arena outlives this function.
        let key = |record: &RecordPtr| unsafe { record.get() }.key();
        let (first, last) = (newest.first().map_or(&[][..], key), newest.last().map_or(&[][..], key));
        let prefix = PrefixOf::between(&order, first, last);
        let keys = newest.iter().map(|record| (prefix.of(&order, key(record)).unwrap_or(0), *record));
        // SAFETY: the munk takes the arena over and keeps it for as long as the slots.
        let slots = unsafe { Slots::new(keys, room) };
        let counts = Counts { live_bytes: AtomicU64::new(live_bytes), ..Counts::default() };
        counts.block_bytes.store(arena.bytes(), Relaxed);
        counts.filled_bytes.store(arena.filled_bytes(), Relaxed);
        let munk = Self {
            order,
            prefix,
            total_bytes: arena.total_bytes().clone(),
            slots,
            towers: Towers::new(room),
            counts,
            writer: Mutex::new(Writer {
                arena,
                cells: Vec::new(),
                never: None,
                undecided: Vec::new(),
                since: None,
            }),
        };
        munk.total_bytes.fetch_add(munk.own_bytes(), Relaxed);
        munk
    }
}
