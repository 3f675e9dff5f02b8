//! The skip list: inserting, searching, walking.
//!
//! Invariants:
//! * On each level the nodes are in order: key ascending, version descending, place in the log
//!   descending, arena offset descending. No two are equal.
//! * A node on a level is on all levels below. It is linked from the lowest level up, so a walk
//!   that descends from a node finds it on the level below.
//! * Nodes are never removed.
//!
//! Thread safety: several threads insert. A link changes by a compare-and-swap from the following
//! node to the new node, whose own link to the following node is set before. A thread whose
//! compare-and-swap fails searches again from the same predecessor. Readers follow links and never
//! wait.
//!
//! An order that contradicts itself, as a comparator that has failed may, puts nodes in any order.
//! No walk is endless even then: each level remains a chain.
#![expect(unsafe_code, reason = "follows links to nodes, which live as long as the list")]

use super::arena::{Arena, Full};
use super::node::{self, BaseVersion, Item, LINKS_MAX, Node};
use crate::log::index::record_ptr::RecordPtr;
use crate::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use std::cmp::Ordering;
use std::sync::atomic::AtomicU64 as Numbers;

/// A link to no node.
const NONE: u32 = 0;

/// The next list's number.
static NUMBERS: Numbers = Numbers::new(0);

/// An ordered list of operations.
pub struct SkipList {
    order: KeyOrder,
    /// Distinguishes the list's marks from those of other lists.
    number: u64,
    /// Determines, together with the number of a node, the node's number of links.
    seed: u64,
    arena: Arena,
    base: BaseVersion,
    /// The first node on each level.
    heads: [AtomicU32; LINKS_MAX],
    /// For each level, a node that was recently the last one, or 0: if keys ascend, the next node
    /// goes after it.
    tails: [AtomicU32; LINKS_MAX],
    /// Number of levels that have nodes. May lag behind.
    levels: AtomicUsize,
    /// Number of nodes, linked and noted.
    len: AtomicUsize,
    /// True once a node with a cell was written: cells have to be dropped with the list.
    has_cells: AtomicBool,
    /// The last noted node. Each noted node's lowest link points to the one noted before it.
    noted: Mutex<u32>,
}

/// A position in a list that a cursor keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    list: u64,
    node: u32,
}

/// An operation in a list.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    list: &'a SkipList,
    /// Not 0.
    at: u32,
    node: Node,
}

/// The two nodes around a place in a level; 0 before the first and after the last.
#[derive(Clone, Copy, Default)]
struct Gap {
    before: u32,
    behind: u32,
}

/// A place in the order of nodes.
struct Probe<'a> {
    key: &'a [u8],
    prefix: Option<u64>,
    version: u64,
    offset: u64,
    at: u32,
}

impl SkipList {
    /// An empty list. Its memory counts in `total_bytes` until it is dropped. The seed keeps the
    /// shape of the list unknown to users who choose the keys.
    pub fn new(order: KeyOrder, seed: u64, total_bytes: Arc<AtomicU64>) -> Self {
        Self {
            order,
            number: NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            seed,
            arena: Arena::new(total_bytes),
            base: BaseVersion::default(),
            heads: std::array::from_fn(|_| AtomicU32::new(NONE)),
            tails: std::array::from_fn(|_| AtomicU32::new(NONE)),
            levels: AtomicUsize::new(1),
            len: AtomicUsize::new(0),
            has_cells: AtomicBool::new(false),
            noted: Mutex::default(),
        }
    }

    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Number of operations, including noted ones.
    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Charges bytes that lie beside the list and are freed with it.
    pub fn charge(&self, bytes: u64) {
        self.arena.charge(bytes);
    }

    /// Inserts an operation.
    ///
    /// # Errors
    /// `Full` if the list has reached 8 GiB. Nothing was inserted then.
    pub fn insert(&self, item: Item<'_>) -> Result<(), Full> {
        let at = self.write(item)?;
        self.link(at);
        Ok(())
    }

    /// Stores an operation that walks do not find until [`merge_deferred`](Self::merge_deferred) is
    /// called.
    ///
    /// # Errors
    /// As `insert`.
    pub fn note(&self, item: Item<'_>) -> Result<(), Full> {
        let at = self.write(item)?;
        let mut noted = self.noted.lock();
        self.entry(at).link(0).store(*noted, Relaxed);
        *noted = at;
        Ok(())
    }

    /// Inserts the noted operations.
    pub fn merge_deferred(&self) {
        let mut noted = self.noted.lock();
        // In the order in which they were noted, as keys may ascend.
        let mut turned = NONE;
        while let Some(entry) = self.entry_at(*noted) {
            *noted = entry.link(0).load(Relaxed);
            entry.link(0).store(turned, Relaxed);
            turned = entry.at;
        }
        while let Some(entry) = self.entry_at(turned) {
            turned = entry.link(0).load(Relaxed);
            self.link(entry.at);
        }
    }

    /// Visits every operation, including noted ones, in no order. An operation that is sorted in
    /// meanwhile may be visited twice.
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'_>)) {
        let noted = self.noted.lock();
        std::iter::successors(self.entry_at(*noted), Entry::next).for_each(&mut visit);
        drop(noted);
        std::iter::successors(self.first(), Entry::next).for_each(visit);
    }

    /// The operations that were noted, in the order of the list.
    pub fn noted(&self) -> Vec<Entry<'_>> {
        let noted = self.noted.lock();
        let mut all: Vec<_> = std::iter::successors(self.entry_at(*noted), Entry::next).collect();
        drop(noted);
        self.order.sort_by(&mut all, |a, b| a.compare(&b.probe()));
        all
    }

    /// The first operation.
    pub fn first(&self) -> Option<Entry<'_>> {
        self.entry_at(self.heads[0].load(Acquire))
    }

    /// The last operation.
    pub fn last(&self) -> Option<Entry<'_>> {
        self.around(|_| true).0
    }

    /// The first operation on `key` at or below `version`, or else the first on the next greater
    /// key.
    pub fn seek(&self, key: &[u8], version: u64) -> Option<Entry<'_>> {
        let probe = Probe { key, prefix: self.order.prefix(key), version, offset: u64::MAX, at: u32::MAX };
        let is_before = |entry: &Entry<'_>| entry.compare(&probe) == Ordering::Less;
        // Not the present successor of the node before: another thread may have inserted a lesser
        // one there.
        self.around(is_before).1
    }

    /// The last operation on a smaller key.
    pub fn seek_before(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.before(&Probe {
            key,
            prefix: self.order.prefix(key),
            version: u64::MAX,
            offset: u64::MAX,
            at: u32::MAX,
        })
    }

    /// The operation at a mark of this list.
    pub fn at(&self, mark: Mark) -> Entry<'_> {
        assert_eq!(mark.list, self.number, "a mark of another list");
        self.entry(mark.node)
    }

    fn before(&self, probe: &Probe<'_>) -> Option<Entry<'_>> {
        self.around(|entry| entry.compare(probe) == Ordering::Less).0
    }

    /// The last operation of the leading ones that satisfy a condition, and the one that was found
    /// to follow it.
    fn around(&self, is_before: impl Fn(&Entry<'_>) -> bool) -> (Option<Entry<'_>>, Option<Entry<'_>>) {
        let mut before = None;
        // A node that is known, from the level above, not to satisfy the condition.
        let mut behind = NONE;
        for level in (0..self.levels.load(Relaxed)).rev() {
            before = self.last_on(level, before, &mut behind, &is_before);
        }
        (before, self.entry_at(behind))
    }

    /// As `around`, on one level and starting at `before`. `behind` is the following node.
    #[inline]
    fn last_on<'a>(
        &'a self,
        level: usize,
        mut before: Option<Entry<'a>>,
        behind: &mut u32,
        is_before: &impl Fn(&Entry<'_>) -> bool,
    ) -> Option<Entry<'a>> {
        loop {
            let next = self.link_of(before, level).load(Acquire);
            if next == *behind {
                return before;
            }
            match self.entry_at(next).filter(is_before) {
                Some(entry) => before = Some(entry),
                None => {
                    *behind = next;
                    return before;
                }
            }
        }
    }

    fn link_of<'a>(&'a self, entry: Option<Entry<'a>>, level: usize) -> &'a AtomicU32 {
        entry.map_or(&self.heads[level], |entry| entry.link(level))
    }

    /// Writes a node that is not linked yet.
    fn write(&self, item: Item<'_>) -> Result<u32, Full> {
        let prefix = match &self.order {
            // The key itself begins with it.
            KeyOrder::Bytewise => None,
            KeyOrder::Custom(_) => self.order.prefix(item.key),
        };
        let has_cell = item.cell.is_some();
        let number = self.len.fetch_add(1, Relaxed);
        let links = links(self.seed, number as u64);
        match node::write((&self.arena, &self.base), item, links, prefix) {
            Ok(at) => {
                if has_cell {
                    self.has_cells.store(true, Relaxed);
                }
                Ok(at)
            }
            Err(full) => {
                self.len.fetch_sub(1, Relaxed);
                Err(full)
            }
        }
    }

    /// Links a node that was written.
    fn link(&self, at: u32) {
        let entry = self.entry(at);
        let probe = entry.probe();
        let is_before = |other: &Entry<'_>| other.compare(&probe) == Ordering::Less;
        let links = entry.node.links();
        let places = self.behind_all(links, is_before).unwrap_or_else(|| self.places(links, is_before));
        for (level, &Gap { before, mut behind }) in places.iter().enumerate().take(links) {
            let mut before = self.entry_at(before);
            loop {
                entry.link(level).store(behind, Relaxed);
                // Publishes the node's bytes, and its links up to this level.
                let link = self.link_of(before, level);
                if link.compare_exchange(behind, at, Release, Relaxed).is_ok() {
                    break;
                }
                // Another thread has inserted here meanwhile.
                behind = NONE;
                before = self.last_on(level, before, &mut behind, &is_before);
            }
            if behind == NONE {
                self.tails[level].store(at, Release);
            }
        }
        self.levels.fetch_max(links, Relaxed);
    }

    /// The places of a node on its levels.
    fn places(&self, links: usize, is_before: impl Fn(&Entry<'_>) -> bool) -> [Gap; LINKS_MAX] {
        let (mut before, mut behind) = (None, NONE);
        let mut places = [Gap::default(); LINKS_MAX];
        for level in (0..self.levels.load(Relaxed).max(links)).rev() {
            before = self.last_on(level, before, &mut behind, &is_before);
            places[level] = Gap { before: before.map_or(NONE, |entry| entry.at), behind };
        }
        places
    }

    /// The places of a node that comes after all others, without a search; `None` if it does not.
    fn behind_all(&self, links: usize, is_before: impl Fn(&Entry<'_>) -> bool) -> Option<[Gap; LINKS_MAX]> {
        let mut places = [Gap::default(); LINKS_MAX];
        for (place, tail) in places.iter_mut().zip(&self.tails).take(links) {
            place.before = tail.load(Acquire);
        }
        let last = self.entry_at(places[0].before)?;
        // A node was on the lowest level before it became a tail. If nothing follows this one now,
        // the tails of the levels above are not after it.
        (last.link(0).load(Acquire) == NONE && is_before(&last)).then_some(places)
    }

    fn entry_at(&self, at: u32) -> Option<Entry<'_>> {
        (at != NONE).then(|| self.entry(at))
    }

    /// The entry of a node that was linked or noted, or written by this thread.
    #[inline]
    fn entry(&self, at: u32) -> Entry<'_> {
        // SAFETY: all callers have the offset of a node of this list: from `write`, from a link
        // that was followed with `Acquire`, from `noted` under its lock, or from a mark, which is
        // made from an entry.
        Entry { list: self, at, node: unsafe { Node::at(&self.arena, at) } }
    }
}

impl Drop for SkipList {
    fn drop(&mut self) {
        if !self.has_cells.load(Relaxed) {
            return;
        }
        for first in [self.heads[0].load(Acquire), *self.noted.lock()] {
            let mut next = self.entry_at(first);
            while let Some(entry) = next {
                next = entry.next();
                // SAFETY: the list is being dropped, so nobody else accesses it, and each node is
                // in exactly one of the two chains.
                unsafe { entry.node.drop_cell() };
            }
        }
    }
}

impl<'a> Entry<'a> {
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        // SAFETY: the list is borrowed for as long.
        unsafe { self.node.key() }
    }

    #[inline]
    pub fn version(&self) -> u64 {
        self.node.version(&self.list.base)
    }

    pub fn kind(&self) -> Kind {
        self.node.kind()
    }

    /// The operation's place in the log.
    pub fn place(&self) -> RecordPtr {
        self.node.place()
    }

    /// The value, if it was inserted with one.
    pub fn value(&self) -> Option<&'a [u8]> {
        // SAFETY: as above.
        unsafe { self.node.value() }
    }

    /// True once the operation's batch is committed.
    #[inline]
    pub fn is_visible(&self) -> bool {
        self.node.is_visible()
    }

    pub fn mark(&self) -> Mark {
        Mark { list: self.list.number, node: self.at }
    }

    /// True if it comes before another entry of the same list.
    pub fn is_before(&self, other: &Entry<'_>) -> bool {
        self.compare(&other.probe()) == Ordering::Less
    }

    /// The operation after this one.
    #[inline]
    pub fn next(&self) -> Option<Entry<'a>> {
        self.list.entry_at(self.link(0).load(Acquire))
    }

    /// The operation before this one.
    pub fn prev(&self) -> Option<Entry<'a>> {
        self.list.before(&self.probe())
    }

    #[inline]
    fn link(&self, level: usize) -> &'a AtomicU32 {
        // SAFETY: as above. A node has a link for each level on which a walk finds it, and at least
        // the lowest.
        unsafe { self.node.link(level) }
    }

    #[inline]
    fn prefix(&self) -> Option<u64> {
        match &self.list.order {
            KeyOrder::Bytewise => self.list.order.prefix(self.key()),
            KeyOrder::Custom(_) => self.node.prefix(),
        }
    }

    fn probe(&self) -> Probe<'a> {
        let (key, prefix) = (self.key(), self.prefix());
        Probe { key, prefix, version: self.version(), offset: self.place().offset, at: self.at }
    }

    #[inline]
    fn compare(&self, probe: &Probe<'_>) -> Ordering {
        match (self.prefix(), probe.prefix) {
            (Some(own), Some(other)) if own != other => return own.cmp(&other),
            _ => {}
        }
        let keys = self.list.order.compare(self.key(), probe.key);
        keys.then_with(|| probe.version.cmp(&self.version()))
            .then_with(|| probe.offset.cmp(&self.place().offset))
            .then_with(|| probe.at.cmp(&self.at))
    }
}

/// Number of links of a node: one, plus one with a chance of one in four, and so on, as a hash of
/// its number decides.
fn links(seed: u64, number: u64) -> usize {
    let mixed = crate::sync::random::mix(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (1 + mixed.trailing_zeros() as usize / 2).min(LINKS_MAX)
}
