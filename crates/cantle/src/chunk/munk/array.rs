//! The array of entries: the prefixes, contiguous for searching, and the slots, for walking.
//!
//! Thread safety: one writer. Readers follow `next` and `sorted` with `Acquire`, which shows them
//! all fields of the slots that these refer to.
#![expect(unsafe_code, reason = "a slot's records are as long-lived as the munk, which only the munk knows")]

use super::fetch::fetch;
use super::record::{Link, Record, RecordPtr};
use crate::memory::paged_vec::PagedVec;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64};

/// One key.
#[derive(Default)]
struct Slot {
    newest: Link,
    /// The next key's slot; 0 after the last.
    next: AtomicU32,
}

/// See the drawing in `mod.rs`.
pub struct Slots {
    /// By slot. Slot 0 is before all keys.
    prefixes: PagedVec<AtomicU64>,
    slots: PagedVec<Slot>,
    sorted: AtomicU32,
    bypasses: AtomicU32,
}

impl Slots {
    /// Slots for these keys, with room for more.
    ///
    /// # Safety
    /// The records, everything that can be reached from them, and their cells outlive the slots.
    pub unsafe fn new(keys: impl ExactSizeIterator<Item = (u64, RecordPtr)>, room: usize) -> Self {
        let sorted = keys.len();
        let capacity = sorted + room;
        assert!(capacity < u32::MAX as usize, "a munk holds less than four billion keys");
        let mut prefixes = PagedVec::with_capacity(capacity + 1);
        let mut slots = PagedVec::with_capacity(capacity + 1);
        slots.push(Slot { next: AtomicU32::new(u32::from(sorted > 0)), ..Slot::default() });
        prefixes.push(AtomicU64::new(0));
        for (prefix, record) in keys {
            let slot = slots.len();
            let next = AtomicU32::new(if slot < sorted { slot as u32 + 1 } else { 0 });
            let newest = Link::default();
            // SAFETY: promised by the caller.
            unsafe { newest.set(Some(record)) };
            slots.push(Slot { newest, next });
            prefixes.push(AtomicU64::new(prefix));
        }
        slots.fill_with(Slot::default);
        prefixes.fill_with(AtomicU64::default);
        Self { prefixes, slots, sorted: AtomicU32::new(sorted as u32), bypasses: AtomicU32::new(0) }
    }

    /// The prefixes of the sorted slots: that of slot `i + 1` at `i`.
    #[inline]
    pub fn sorted_prefixes(&self) -> &[AtomicU64] {
        &self.prefixes[1..=self.sorted.load(Acquire) as usize]
    }

    #[inline]
    pub fn sorted(&self) -> u32 {
        self.sorted.load(Acquire)
    }

    #[inline]
    pub fn prefix(&self, slot: u32) -> u64 {
        self.prefixes[slot as usize].load(Relaxed)
    }

    #[inline]
    pub fn next(&self, slot: u32) -> u32 {
        self.slots[slot as usize].next.load(Acquire)
    }

    /// The newest record of a slot; `None` only for slot 0.
    #[inline]
    pub fn newest(&self, slot: u32) -> Option<&Record> {
        self.slots[slot as usize].newest.get()
    }

    /// Prefetches the beginning of the record a few slots ahead, for callers that read records slot
    /// by slot. After overwrites, the records of neighbouring keys are anywhere in memory.
    #[inline]
    pub fn fetch_ahead(&self, slot: u32) {
        const AHEAD: usize = 6;
        if let Some(record) = self.slots.get(slot as usize + AHEAD).and_then(|slot| slot.newest.get()) {
            let start = std::ptr::from_ref(record).cast::<[u8; 64]>();
            (0..4).for_each(|line| fetch(start.wrapping_add(line)));
        }
    }

    /// The key of a slot that is linked.
    #[inline]
    pub fn key(&self, slot: u32) -> &[u8] {
        self.newest(slot).map_or(&[], Record::key)
    }

    pub fn len(&self) -> usize {
        self.sorted.load(Acquire) as usize + self.bypasses.load(Relaxed) as usize
    }

    pub fn room(&self) -> usize {
        self.slots.len() - 1 - self.len()
    }

    pub fn bytes(&self) -> u64 {
        Self::bytes_of(self.slots.len())
    }

    /// Memory of this many slots.
    pub fn bytes_of(slots: usize) -> u64 {
        (slots * (size_of::<Slot>() + size_of::<AtomicU64>())) as u64
    }

    /// Makes `record` the newest of the slot's key. Only for the writer.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn overwrite(&self, slot: u32, record: RecordPtr) {
        // SAFETY: promised by the caller.
        unsafe { self.slots[slot as usize].newest.set(Some(record)) };
    }

    /// Number of keys in bypasses.
    pub fn bypasses(&self) -> u32 {
        self.bypasses.load(Relaxed)
    }

    /// Inserts a key after that of slot `before`, and returns its slot; `None` if there is no room.
    /// Only for the writer.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    pub unsafe fn insert(&self, before: u32, prefix: u64, record: RecordPtr) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let (sorted, bypasses) = (self.sorted.load(Relaxed), self.bypasses.load(Relaxed));
        let after = self.next(before);
        let slot = if after == 0 { sorted + 1 } else { self.slots.len() as u32 - 1 - bypasses };
        debug_assert!(after != 0 || before == sorted, "the last sorted key ends the list");
        self.prefixes[slot as usize].store(prefix, Relaxed);
        // SAFETY: promised by the caller.
        unsafe { self.slots[slot as usize].newest.set(Some(record)) };
        self.slots[slot as usize].next.store(after, Relaxed);
        // Publishes the slot, and everything that was written to it.
        self.slots[before as usize].next.store(slot, Release);
        if after == 0 {
            self.sorted.store(slot, Release);
        } else {
            self.bypasses.store(bypasses + 1, Relaxed);
        }
        Some(slot)
    }
}
