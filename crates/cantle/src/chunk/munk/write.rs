//! Puts, deletes and range deletes (EvenDB §3.3), by one writer at a time.
#![expect(unsafe_code, reason = "links records; the munk keeps what it links")]

use super::arena::Arena;
use super::chain::{Above, sift, visible, without_last_deletes};
use super::record::{Record, RecordPtr};
use super::search::Located;
use super::towers::Towers;
use super::{Munk, Writer};
use crate::mvcc::CommitCell;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::entry::Content;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use std::cmp::Ordering;
use std::ops::Bound;

/// The munk has no room for another key: nothing was written. Sort the munk anew, with room, or
/// evict it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Memory of a batch's cell in bytes: its own count and flag, the munk's count, and the munk's
/// link.
const CELL_BYTES: u64 = 64;

impl Munk {
    /// Writes one version of a key. With `cell` it belongs to a batch, and is invisible until that
    /// is committed.
    ///
    /// Returns the bytes of key and value of the version that this overwrites, and that version's
    /// number. `needed` is promised by the caller as in `mod.rs`.
    pub fn insert(
        &self,
        content: Content<'_>,
        cell: Option<&CommitCell>,
        needed: impl Fn(u64, u64) -> bool,
    ) -> Result<(u64, u64), Full> {
        let mut writer = self.writer.lock();
        writer.decide(cell);
        let (before, steps) = match self.locate(content.key) {
            Located::Found { slot, steps } => {
                self.walked(steps);
                let outdated = self.outdated_at(slot);
                self.overwrite(&mut writer, slot, content, cell, &needed);
                return Ok(outdated);
            }
            Located::Gap { before, steps, .. } => (before, steps),
        };
        self.walked(steps);
        if content.kind == Kind::Delete {
            return Ok((0, 0)); // a key without a record does not exist
        }
        if self.slots.room() == 0 {
            return Err(Full);
        }
        let record = self.write(&mut writer, content, cell);
        let prefix = self.prefix.of(&self.order, content.key);
        // SAFETY: the record is in the munk's arena, its cell among the munk's.
        let slot = unsafe { self.slots.insert(before, prefix.unwrap_or(0), record) };
        if let Some(slot) = slot.filter(|slot| *slot > self.slots.sorted()) {
            let is_before = |other| self.compare(other, content.key, prefix) == Ordering::Less;
            self.towers.build(slot, Towers::height_of(self.slots.bypasses()), is_before);
        }
        Ok((0, 0))
    }

    /// Deletes every key in the range; with `cell`, as part of a batch. Returns the bytes of keys
    /// and values that this deletes.
    pub fn delete_range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        version: u64,
        cell: Option<&CommitCell>,
        needed: impl Fn(u64, u64) -> bool,
    ) -> u64 {
        let mut writer = self.writer.lock();
        writer.decide(cell);
        let mut outdated_bytes = 0;
        let (start, end) = range;
        let mut slot = match start {
            Bound::Unbounded => self.slots.next(0),
            Bound::Included(key) | Bound::Excluded(key) => match self.locate(key) {
                Located::Found { slot, .. } if matches!(start, Bound::Included(_)) => slot,
                Located::Found { slot, .. } => self.slots.next(slot),
                Located::Gap { behind, .. } => behind,
            },
        };
        while slot != 0 && is_before(&self.order, self.slots.key(slot), end) {
            let content = Content { key: self.slots.key(slot), version, kind: Kind::Delete, value: &[] };
            outdated_bytes += self.outdated_at(slot).0;
            self.overwrite(&mut writer, slot, content, cell, &needed);
            slot = self.slots.next(slot);
        }
        outdated_bytes
    }

    /// The bytes and the version of the pair that a get finds at the slot.
    fn outdated_at(&self, slot: u32) -> (u64, u64) {
        let newest =
            visible(|| self.slots.newest(slot), u64::MAX).filter(|newest| newest.kind() == Kind::Put);
        newest.map_or((0, 0), |newest| ((newest.key().len() + newest.value().len()) as u64, newest.version()))
    }

    fn overwrite(
        &self,
        writer: &mut Writer,
        slot: u32,
        content: Content<'_>,
        cell: Option<&CommitCell>,
        needed: impl Fn(u64, u64) -> bool,
    ) {
        let newest = self.slots.newest(slot);
        let cell = cell.map(|cell| writer.adopt(cell, self));
        let batch = cell.as_deref();
        if content.kind == Kind::Delete && is_deleted(newest, batch) {
            return;
        }
        if let (Some(batch), Some(newest)) = (batch, newest)
            && newest.cell().is_some_and(|cell| std::ptr::eq(cell, batch))
        {
            // A reader of this record could see the commit before it finds the newer record.
            let never = writer.never.get_or_insert_default();
            // SAFETY: the munk holds it and gives it to nobody who would commit it.
            unsafe { newest.withdraw(never) };
        }
        let was_dead = newest.is_some_and(|newest| newest.kind() == Kind::Delete);
        match (was_dead, content.kind) {
            (false, Kind::Delete) => add(&self.counts.dead_keys, 1),
            (true, Kind::Put) => subtract(&self.counts.dead_keys, self.dead_keys().min(1)),
            _ => {}
        }
        let record = self.write(writer, content, batch);
        let above = batch.map_or(Above::Version(content.version), Above::Batch);
        let (mut kept, mut dropped_bytes) = (Vec::new(), 0);
        sift(newest, above, needed, |record, stays| {
            if stays {
                kept.push(record);
            } else {
                dropped_bytes += record.size();
            }
        });
        let dropped = kept.split_off(without_last_deletes(&kept));
        dropped_bytes += dropped.iter().map(|record| record.size()).sum::<u64>();
        relink(&kept);
        // SAFETY: both are in the munk's arena, as is everything that can be reached from them.
        unsafe {
            record.get().older().set(kept.first().map(|record| record.ptr()));
            self.slots.overwrite(slot, record);
        }
        subtract(&self.counts.live_bytes, dropped_bytes);
    }

    fn write(&self, writer: &mut Writer, content: Content<'_>, cell: Option<&CommitCell>) -> RecordPtr {
        let cell = cell.map(|cell| writer.adopt(cell, self));
        let record = writer.arena.write(content, cell.as_deref());
        if cell.is_some() {
            writer.undecided.push(record);
        }
        if let Some(since) = &mut writer.since {
            since.push(record);
        }
        self.count_blocks(&writer.arena);
        // SAFETY: just written to the munk's arena.
        add(&self.counts.live_bytes, unsafe { record.get() }.size());
        record
    }

    fn count_blocks(&self, arena: &Arena) {
        self.counts.block_bytes.store(arena.bytes(), Relaxed);
        self.counts.filled_bytes.store(arena.filled_bytes(), Relaxed);
    }

    fn walked(&self, steps: u64) {
        if steps > 0 {
            add(&self.counts.steps, steps);
        }
    }
}

impl Writer {
    /// Called before a write of the batch `next`, or of none: if the last batch was another, it is
    /// decided.
    pub fn decide(&mut self, next: Option<&CommitCell>) {
        let Some(last) = self.cells.last() else { return };
        if last.is_committed() {
            for record in self.undecided.drain(..) {
                // SAFETY: in the munk's arena.
                let record = unsafe { record.get() };
                if record.cell().is_some_and(CommitCell::is_committed) {
                    record.forget_cell();
                }
            }
        } else if !next.is_some_and(|next| next.is_same(last)) {
            self.undecided.clear();
        }
    }

    /// Holds the batch's cell for as long as the munk.
    fn adopt(&mut self, cell: &CommitCell, munk: &Munk) -> Arc<CommitCell> {
        if let Some(last) = self.cells.last()
            && last.is_same(cell)
        {
            return last.clone();
        }
        let cell = Arc::new(cell.clone());
        self.cells.push(cell.clone());
        add(&munk.counts.cell_bytes, CELL_BYTES);
        munk.total_bytes.fetch_add(CELL_BYTES, Relaxed);
        cell
    }
}

/// Links these records to one another, skipping the records between them.
pub fn relink(records: &[&Record]) {
    for (index, record) in records.iter().enumerate() {
        let older = records.get(index + 1).map(|record| record.ptr());
        if record.older().get().map(Record::ptr) != older {
            // SAFETY: `older` was reachable from this record before.
            unsafe { record.older().set(older) };
        }
    }
}

/// True if a key with these records is deleted from the point of view of a writer, which sees its
/// own batch.
fn is_deleted(newest: Option<&Record>, batch: Option<&CommitCell>) -> bool {
    let counts = |record: &Record| {
        record
            .cell()
            .is_none_or(|cell| cell.is_committed() || batch.is_some_and(|own| std::ptr::eq(own, cell)))
    };
    let mut current = newest;
    while let Some(record) = current {
        if counts(record) {
            return record.kind() == Kind::Delete;
        }
        current = record.older().get();
    }
    true
}

fn is_before(order: &KeyOrder, key: &[u8], end: Bound<&[u8]>) -> bool {
    match end {
        Bound::Unbounded => true,
        Bound::Included(end) => order.compare(key, end) != Ordering::Greater,
        Bound::Excluded(end) => order.compare(key, end) == Ordering::Less,
    }
}

/// Only for the one writer: other threads only read.
fn add(count: &AtomicU64, bytes: u64) {
    count.store(count.load(Relaxed) + bytes, Relaxed);
}

fn subtract(count: &AtomicU64, bytes: u64) {
    count.store(count.load(Relaxed) - bytes, Relaxed);
}
