//! The newest part of a log, indexed in memory: key → place in the log.
//!
//! Thread safety: one writer at a time (who holds the chunk's lock) inserts; any number of readers search and
//! walk without waiting. Entries are never removed; the whole part goes when it is indexed on disk.
//!
//! While the chunk has a munk nobody searches its log: then operations are only *noted*, in the order of writing, and
//! sorted in when the munk goes (`settle`) or the part is indexed on disk.

use crate::log::op::range_delete::RangeTombstone;
use crate::mvcc::CommitCell;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::types::entry::{EntryCursor, EntryRef, Kind};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use arc_swap::ArcSwap;
use bytes::Bytes;
use crossbeam_skiplist::SkipMap;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;

/// Where a record stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub offset: u64,
    pub len: u32,
}

/// Orders by key, then newest version first, then latest place first.
trait Position {
    fn order(&self) -> &KeyOrder;
    fn key(&self) -> &[u8];
    fn version(&self) -> u64;
    fn offset(&self) -> u64;
}

impl PartialEq for dyn Position + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for dyn Position + '_ {}
impl PartialOrd for dyn Position + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for dyn Position + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order()
            .compare(self.key(), other.key())
            .then_with(|| other.version().cmp(&self.version()))
            .then_with(|| other.offset().cmp(&self.offset()))
    }
}

struct MemoryKey {
    order: KeyOrder,
    key: Box<[u8]>,
    version: u64,
    offset: u64,
}

impl Position for MemoryKey {
    fn order(&self) -> &KeyOrder {
        &self.order
    }
    fn key(&self) -> &[u8] {
        &self.key
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn offset(&self) -> u64 {
        self.offset
    }
}

impl PartialEq for MemoryKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for MemoryKey {}
impl PartialOrd for MemoryKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for MemoryKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let (this, other): (&dyn Position, &dyn Position) = (self, other);
        this.cmp(other)
    }
}
impl<'a> Borrow<dyn Position + 'a> for MemoryKey {
    fn borrow(&self) -> &(dyn Position + 'a) {
        self
    }
}

/// A place in the order to search from.
struct Probe<'a> {
    order: &'a KeyOrder,
    key: &'a [u8],
    version: u64,
    offset: u64,
}

impl Position for Probe<'_> {
    fn order(&self) -> &KeyOrder {
        self.order
    }
    fn key(&self) -> &[u8] {
        self.key
    }
    fn version(&self) -> u64 {
        self.version
    }
    fn offset(&self) -> u64 {
        self.offset
    }
}

struct MemoryEntry {
    kind: Kind,
    len: u32,
    cell: Option<CommitCell>,
}

impl MemoryEntry {
    fn is_visible(&self) -> bool {
        self.cell.as_ref().is_none_or(|cell| cell.is_committed())
    }
}

/// What memory an entry takes beside its key: the key's and the entry's structs, the allocation's header and a
/// tower of 4/3 links on average.
const ENTRY_BYTES: u64 = 128;

/// The in-memory index of a part of a log.
pub struct MemoryPart {
    order: KeyOrder,
    map: SkipMap<MemoryKey, MemoryEntry>,
    noted: Mutex<Vec<(MemoryKey, MemoryEntry)>>,
    tombstones: ArcSwap<Vec<RangeTombstone>>,
    bytes: AtomicU64,
    /// The memory of all parts there are, this one's included until it is dropped.
    total_bytes: Arc<AtomicU64>,
}

/// What a search for a key found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryHit {
    pub kind: Kind,
    pub version: u64,
    pub place: Place,
}

impl MemoryPart {
    /// An empty part, whose memory counts in `total_bytes` for as long as anybody holds it.
    pub fn new(order: KeyOrder, total_bytes: Arc<AtomicU64>) -> Self {
        let (map, noted, tombstones) = (SkipMap::new(), Mutex::default(), ArcSwap::default());
        Self { order, map, noted, tombstones, bytes: AtomicU64::new(0), total_bytes }
    }

    fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.total_bytes.fetch_add(bytes, Relaxed);
    }

    pub fn insert(&self, key: &[u8], version: u64, kind: Kind, place: Place, cell: Option<CommitCell>) {
        let memory_key =
            MemoryKey { order: self.order.clone(), key: key.into(), version, offset: place.offset };
        self.map.insert(memory_key, MemoryEntry { kind, len: place.len, cell });
        self.grow(ENTRY_BYTES + key.len() as u64);
    }

    /// As `insert`, where readers have a munk to look into.
    pub fn note(&self, key: &[u8], version: u64, kind: Kind, place: Place) {
        let memory_key =
            MemoryKey { order: self.order.clone(), key: key.into(), version, offset: place.offset };
        self.noted.lock().push((memory_key, MemoryEntry { kind, len: place.len, cell: None }));
        self.grow(ENTRY_BYTES + key.len() as u64);
    }

    /// Lets readers find what was noted. Everything noted must be committed.
    pub fn settle(&self) {
        for (key, entry) in self.noted.lock().drain(..) {
            self.map.insert(key, entry);
        }
    }

    pub fn insert_tombstone(&self, tombstone: RangeTombstone) {
        let mut tombstones = Vec::clone(&self.tombstones.load());
        tombstones.push(tombstone);
        self.tombstones.store(Arc::new(tombstones));
        self.grow(ENTRY_BYTES);
    }

    pub fn tombstones(&self) -> Arc<Vec<RangeTombstone>> {
        self.tombstones.load_full()
    }

    pub fn len(&self) -> usize {
        self.map.len() + self.noted.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.tombstones.load().is_empty()
    }

    /// The newest visible entry of `key` at or below version `at`.
    pub fn get(&self, key: &[u8], at: u64) -> Option<MemoryHit> {
        let probe = Probe { order: &self.order, key, version: at, offset: u64::MAX };
        let mut entry = self.map.lower_bound(Bound::Included(&probe as &dyn Position));
        while let Some(found) = entry {
            if self.order.compare(&found.key().key, key) != Ordering::Equal {
                return None;
            }
            if found.value().is_visible() {
                return Some(hit_of(found.key(), found.value()));
            }
            entry = found.next();
        }
        None
    }

    /// The greatest key. Of what was noted it knows nothing.
    pub fn last_key(&self) -> Option<Bytes> {
        self.map.back().map(|entry| Bytes::copy_from_slice(&entry.key().key))
    }

    /// The greatest key but for the last. Of what was noted it knows nothing.
    pub fn key_before_last(&self) -> Option<Bytes> {
        let last = self.map.back()?;
        let is_other = |key: &[u8]| self.order.compare(key, &last.key().key) != Ordering::Equal;
        let before = self.map.iter().rev().find(|entry| is_other(&entry.key().key))?;
        Some(Bytes::copy_from_slice(&before.key().key))
    }

    /// Whether more than so many of its entries have keys up to this one. Of what was noted it knows nothing.
    pub fn has_more_up_to(&self, key: &[u8], count: usize) -> bool {
        let beyond = self.map.iter().nth(count);
        beyond.is_some_and(|entry| self.order.compare(&entry.key().key, key) != Ordering::Greater)
    }

    /// The newest visible entry of `key` that stands before `before` in the log. Of what was noted it knows nothing.
    pub fn get_before(&self, key: &[u8], before: u64) -> Option<MemoryHit> {
        let probe = Probe { order: &self.order, key, version: u64::MAX, offset: u64::MAX };
        let mut entry = self.map.lower_bound(Bound::Included(&probe as &dyn Position));
        while let Some(found) = entry {
            if self.order.compare(&found.key().key, key) != Ordering::Equal {
                return None;
            }
            if found.key().offset < before && found.value().is_visible() {
                return Some(hit_of(found.key(), found.value()));
            }
            entry = found.next();
        }
        None
    }

    /// Visits the keys of all entries with the lengths of their records, noted ones too, in no order.
    pub fn for_each_length(&self, mut visit: impl FnMut(&[u8], u32)) {
        self.map.iter().for_each(|entry| visit(&entry.key().key, entry.value().len));
        self.noted.lock().iter().for_each(|(key, entry)| visit(&key.key, entry.len));
    }

    /// Visits every entry in order, noted ones too. Only while nobody writes.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], MemoryHit)) {
        let mut noted = self.noted.lock();
        noted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut noted = noted.iter().peekable();
        for entry in &self.map {
            while let Some((key, noted)) = noted.next_if(|(key, _)| key < entry.key()) {
                visit(&key.key, hit_of(key, noted));
            }
            visit(&entry.key().key, hit_of(entry.key(), entry.value()));
        }
        noted.for_each(|(key, entry)| visit(&key.key, hit_of(key, entry)));
    }
}

fn hit_of(key: &MemoryKey, entry: &MemoryEntry) -> MemoryHit {
    MemoryHit { kind: entry.kind, version: key.version, place: Place { offset: key.offset, len: entry.len } }
}

impl Drop for MemoryPart {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

/// Walks a memory part. Finds its place anew at each step, so that it holds nothing but the part.
pub struct MemoryCursor<F> {
    part: Arc<MemoryPart>,
    current: Option<(Box<[u8]>, MemoryHit)>,
    read: F,
}

impl<F: FnMut(Place) -> Result<Bytes> + Send> MemoryCursor<F> {
    pub fn new(part: Arc<MemoryPart>, read: F) -> Self {
        Self { part, current: None, read }
    }

    fn take(&mut self, forward: bool, from: Bound<&dyn Position>) {
        let mut entry =
            if forward { self.part.map.lower_bound(from) } else { self.part.map.upper_bound(from) };
        // What is not committed yet is not there.
        while let Some(found) = &entry
            && !found.value().is_visible()
        {
            entry = if forward { found.next() } else { found.prev() };
        }
        self.current = entry.map(|found| (found.key().key.clone(), hit_of(found.key(), found.value())));
    }

    fn step(&mut self, forward: bool) {
        if let Some((key, hit)) = self.current.take() {
            let order = self.part.order.clone();
            let probe = Probe { order: &order, key: &key, version: hit.version, offset: hit.place.offset };
            self.take(forward, Bound::Excluded(&probe));
        }
    }

    fn seek_to(&mut self, key: &[u8], forward: bool) {
        let order = self.part.order.clone();
        // Before every version of the key.
        let probe = Probe { order: &order, key, version: u64::MAX, offset: u64::MAX };
        let bound: Bound<&dyn Position> =
            if forward { Bound::Included(&probe) } else { Bound::Excluded(&probe) };
        self.take(forward, bound);
    }
}

impl<F: FnMut(Place) -> Result<Bytes> + Send> EntryCursor for MemoryCursor<F> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.take(true, Bound::Unbounded);
        Ok(())
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.take(false, Bound::Unbounded);
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.seek_to(key, true);
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.seek_to(key, false);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        self.step(true);
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        self.step(false);
        Ok(())
    }
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.as_ref().map(|(key, hit)| EntryRef { key, version: hit.version, kind: hit.kind })
    }
    fn position(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, hit)| hit.place.offset)
    }
    fn value(&mut self) -> Result<Bytes> {
        match &self.current {
            Some((_, hit)) if hit.kind == Kind::Put => (self.read)(hit.place),
            _ => Ok(Bytes::new()),
        }
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
        let place = |offset| Place { offset, len: 1 };
        part.insert(b"b", 1, Kind::Put, place(1), None);
        part.note(b"c", 1, Kind::Put, place(2));
        part.note(b"a", 2, Kind::Put, place(3));
        part.note(b"b", 3, Kind::Put, place(4));
        let all = [(b"a".to_vec(), 2), (b"b".to_vec(), 3), (b"b".to_vec(), 1), (b"c".to_vec(), 1)];
        assert_eq!(entries(&part), all);
        assert_eq!(part.len(), 4);
        assert_eq!(part.get(b"b", u64::MAX).map(|hit| hit.version), Some(1), "readers have a munk");
        part.settle();
        assert_eq!(part.get(b"b", u64::MAX).map(|hit| hit.version), Some(3));
        assert_eq!(part.get(b"b", 2).map(|hit| hit.version), Some(1));
        assert_eq!(entries(&part), all);
    }
}
