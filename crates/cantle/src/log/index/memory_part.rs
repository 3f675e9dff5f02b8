//! The newest part of a log, indexed in memory: key → place in the log.
//!
//! Thread safety: several threads insert, in a chunk only the one that holds the chunk's lock. Any
//! number of readers search and walk without waiting. Entries are never removed; the whole part is
//! dropped when it is indexed on disk.
//!
//! While the chunk has a munk, its log is not searched. Operations are then only *noted*, in the
//! order of writing, and sorted in when the munk is evicted (`merge_deferred`) or the part is
//! indexed on disk.

pub use super::memtable::Item;
use super::memtable::{Entry, Full, Mark, SkipList};
use super::range_deletes::RangeDeletes;
pub use super::record_ptr::RecordPtr;
use crate::log::op::range_delete::RangeTombstone;
use crate::mvcc::CommitCell;
use crate::sync::atomic::AtomicU64;
use crate::sync::{Arc, random};
use crate::types::entry::{EntryCursor, EntryRef, Kind};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use arc_swap::ArcSwap;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::Deref;

/// Bytes that a range delete takes beside its bounds: its struct, its place among the others, and the
/// allocations' headers.
const TOMBSTONE_BYTES: u64 = 160;

/// The in-memory index of a part of a log.
pub struct MemoryPart {
    list: SkipList,
    tombstones: ArcSwap<RangeDeletes>,
}

/// The entry that a search for a key found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryHit {
    pub kind: Kind,
    pub version: u64,
    pub place: RecordPtr,
}

impl MemoryPart {
    /// An empty part. Its memory counts in `total_bytes` until the part is dropped.
    pub fn new(order: KeyOrder, total_bytes: Arc<AtomicU64>) -> Self {
        Self { list: SkipList::new(order, random::u64(), total_bytes), tombstones: ArcSwap::default() }
    }

    /// Inserts an operation read from a file, which may have more of them than one part holds.
    ///
    /// # Errors
    /// `Full` if the part has reached 8 GiB of memory.
    pub fn try_insert(&self, key: &[u8], version: u64, kind: Kind, place: RecordPtr) -> Result<(), Full> {
        self.list.insert(Item { key, version, kind, place, cell: None, value: None })
    }

    /// Inserts an operation of a write.
    pub fn insert(&self, key: &[u8], version: u64, kind: Kind, place: RecordPtr, cell: Option<CommitCell>) {
        self.insert_item(Item { key, version, kind, place, cell, value: None });
    }

    /// Inserts an operation of a write, with its value if reads are to find it in memory.
    pub fn insert_item(&self, item: Item<'_>) {
        let inserted = self.list.insert(item);
        inserted.unwrap_or_else(|full| unreachable!("{full}"));
    }

    /// As `insert`, while readers search a munk instead: the operation is not sorted in yet.
    pub fn note(&self, key: &[u8], version: u64, kind: Kind, place: RecordPtr) {
        let noted = self.list.note(Item { key, version, kind, place, cell: None, value: None });
        noted.unwrap_or_else(|full| unreachable!("{full}"));
    }

    /// Sorts in the noted operations, so that readers find them. All of them must be committed.
    pub fn merge_deferred(&self) {
        self.list.merge_deferred();
    }

    pub fn insert_tombstone(&self, tombstone: RangeTombstone) {
        let bounds_bytes: usize = tombstone.bounds.keys().map(<[u8]>::len).sum();
        self.list.charge(TOMBSTONE_BYTES + bounds_bytes as u64);
        let tombstone = Arc::new(tombstone);
        self.tombstones.rcu(|tombstones| {
            let mut tombstones = RangeDeletes::clone(tombstones);
            tombstones.insert(self.list.order(), tombstone.clone());
            tombstones
        });
    }

    pub fn tombstones(&self) -> impl Deref<Target = Arc<RangeDeletes>> {
        self.tombstones.load()
    }

    /// Number of operations, those included that are only noted.
    pub fn len(&self) -> usize {
        self.list.len() + self.tombstones.load().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn is_of(&self, entry: &Entry<'_>, key: &[u8]) -> bool {
        self.list.order().compare(entry.key(), key) == Ordering::Equal
    }

    /// The newest visible entry of `key` at or below version `at`.
    pub fn get(&self, key: &[u8], at: u64) -> Option<MemoryHit> {
        self.find(key, at).map(hit_of)
    }

    /// The same, with the value if it is in memory.
    pub fn get_with_value(&self, key: &[u8], at: u64) -> Option<(MemoryHit, Option<Bytes>)> {
        let entry = self.find(key, at)?;
        Some((hit_of(entry), entry.value().map(Bytes::copy_from_slice)))
    }

    fn find(&self, key: &[u8], at: u64) -> Option<Entry<'_>> {
        let first = self.list.seek(key, at);
        let mut of_key = std::iter::successors(first, Entry::next).take_while(|entry| self.is_of(entry, key));
        of_key.find(Entry::is_visible)
    }

    /// The greatest key. Ignores noted operations.
    pub fn last_key(&self) -> Option<Bytes> {
        self.list.last().map(|entry| Bytes::copy_from_slice(entry.key()))
    }

    /// The greatest key before the last. Ignores noted operations.
    pub fn key_before_last(&self) -> Option<Bytes> {
        let before = self.list.seek_before(self.list.last()?.key())?;
        Some(Bytes::copy_from_slice(before.key()))
    }

    /// True if more than `count` entries have keys up to this one. Ignores noted operations.
    pub fn has_more_up_to(&self, key: &[u8], count: usize) -> bool {
        let beyond = self.entries().nth(count);
        beyond.is_some_and(|entry| self.list.order().compare(entry.key(), key) != Ordering::Greater)
    }

    /// The newest visible entry of `key` before `before` in the log. Ignores noted operations.
    pub fn get_before(&self, key: &[u8], before: u64) -> Option<MemoryHit> {
        let first = self.list.seek(key, u64::MAX);
        let of_key = std::iter::successors(first, Entry::next).take_while(|entry| self.is_of(entry, key));
        of_key.filter(|entry| entry.place().offset < before && entry.is_visible()).map(hit_of).next()
    }

    /// All entries except noted ones, in order.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        std::iter::successors(self.list.first(), Entry::next)
    }

    /// Visits the keys of all entries, noted ones included, with the lengths of their records. In
    /// no order.
    pub fn for_each_length(&self, mut visit: impl FnMut(&[u8], u32)) {
        self.list.for_each(|entry| visit(entry.key(), entry.place().len));
    }

    /// Visits every entry in order, noted ones included. Only while nobody writes.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], MemoryHit)) {
        let mut visit = |entry: Entry<'_>| visit(entry.key(), hit_of(entry));
        let mut noted = self.list.noted().into_iter().peekable();
        for entry in self.entries() {
            while let Some(noted) = noted.next_if(|noted| noted.is_before(&entry)) {
                visit(noted);
            }
            visit(entry);
        }
        noted.for_each(visit);
    }
}

fn hit_of(entry: Entry<'_>) -> MemoryHit {
    MemoryHit { kind: entry.kind(), version: entry.version(), place: entry.place() }
}

/// Walks a memory part. A mark holds its position.
pub struct MemoryCursor<F> {
    part: Arc<MemoryPart>,
    current: Option<Mark>,
    read: F,
}

impl<F: FnMut(RecordPtr) -> Result<Bytes> + Send> MemoryCursor<F> {
    pub fn new(part: Arc<MemoryPart>, read: F) -> Self {
        Self { part, current: None, read }
    }

    fn current(&self) -> Option<Entry<'_>> {
        self.current.map(|mark| self.part.list.at(mark))
    }

    /// The place of the record of the entry under the cursor.
    pub fn place(&self) -> Option<RecordPtr> {
        self.current().map(|entry| entry.place())
    }
}

/// The first of these entries that is committed; uncommitted ones are not visible yet.
fn visible<'a>(first: Option<Entry<'a>>, step: impl Fn(&Entry<'a>) -> Option<Entry<'a>>) -> Option<Mark> {
    std::iter::successors(first, step).find(Entry::is_visible).map(|entry| entry.mark())
}

impl<F: FnMut(RecordPtr) -> Result<Bytes> + Send> EntryCursor for MemoryCursor<F> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.current = visible(self.part.list.first(), Entry::next);
        Ok(())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.current = visible(self.part.list.last(), Entry::prev);
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.current = visible(self.part.list.seek(key, u64::MAX), Entry::next);
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.current = visible(self.part.list.seek_before(key), Entry::prev);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.current = self.current().and_then(|entry| visible(entry.next(), Entry::next));
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.current = self.current().and_then(|entry| visible(entry.prev(), Entry::prev));
        Ok(())
    }
    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.current()?;
        Some(EntryRef { key: entry.key(), version: entry.version(), kind: entry.kind() })
    }
    fn position(&self) -> u64 {
        self.current().map_or(0, |entry| entry.place().offset)
    }
    fn value(&mut self) -> Result<Bytes> {
        let Some(entry) = self.current().filter(|entry| entry.kind() == Kind::Put) else {
            return Ok(Bytes::new());
        };
        if let Some(value) = entry.value() {
            return Ok(Bytes::copy_from_slice(value));
        }
        let place = entry.place();
        (self.read)(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(part: &MemoryPart) -> Vec<(Vec<u8>, u64)> {
        let mut entries = Vec::new();
        part.for_each(|key, hit| entries.push((key.to_vec(), hit.version)));
        entries
    }

    #[test]
    fn what_is_noted_stands_in_order_and_is_found_once_it_is_settled() {
        let part = MemoryPart::new(KeyOrder::Bytewise, Arc::default());
        let place = |offset| RecordPtr { offset, len: 1 };
        part.insert(b"b", 1, Kind::Put, place(1), None);
        part.note(b"c", 1, Kind::Put, place(2));
        part.note(b"a", 2, Kind::Put, place(3));
        part.note(b"b", 3, Kind::Put, place(4));
        let all = [(b"a".to_vec(), 2), (b"b".to_vec(), 3), (b"b".to_vec(), 1), (b"c".to_vec(), 1)];
        assert_eq!(entries(&part), all);
        assert_eq!(part.len(), 4);
        assert_eq!(part.get(b"b", u64::MAX).map(|hit| hit.version), Some(1), "readers have a munk");
        part.merge_deferred();
        assert_eq!(part.get(b"b", u64::MAX).map(|hit| hit.version), Some(3));
        assert_eq!(part.get(b"b", 2).map(|hit| hit.version), Some(1));
        assert_eq!(entries(&part), all);
    }
}
