//! The range index: maps a key to the range that contains it (EvenDB §3.3, §4).
//!
//! The paper's index is a sorted array of all ranges' minimal keys, rebuilt at each split and flipped
//! atomically. Here the array has two levels, blocks of about √n ranges and a list of about √n blocks, so that
//! a split copies O(√n) entries. A [`View`] is immutable; blocks that a change does not touch are shared between
//! the old view and the new one.
//!
//! ```text
//!   view    first keys of the blocks:   lowest      k40          k81
//!                                         │          │            │
//!   blocks                          lowest k7 k21   k40 k52 k60   k81 k90      minimal keys -> ranges
//! ```
//!
//! *Cost*, with n ranges: `find` compares O(log n) keys, and compares all but those with the same
//! prefix as the sought key as integers in a contiguous array. `replace` copies the list of blocks
//! and at most three blocks. None of the blocks exceeds 2√n' (n' being the greatest n since the
//! block was last written), so the cost is O(√n) and the entries removed and added. A million
//! ranges: some thousands of entries, tens of microseconds, for each split.
//!
//! *Invariants.* There is at least one range. The first range's key stands for "lowest", whatever
//! its bytes are: no key lies before it. The keys of the others ascend strictly in the keyspace's
//! order, and none of them consists of the same bytes as the first one's. (Therefore, under a
//! comparator that does not sort the empty key first, no range is split at the empty key.)
//!
//! Thread safety: readers take no lock and never wait. Writers take turns under a mutex. A `find`
//! that begins after `replace` returned finds the new ranges. One that ran before it may hold a
//! range that has been replaced, so a range is marked as retired after the flip, and a reader that
//! finds it retired asks again.

use crate::sync::{Arc, ArcSwap, Mutex};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::ops::{Deref, Range};

/// The index of one keyspace's ranges. See the module.
pub(crate) struct RangeIndex<T> {
    current: ArcSwap<View<T>>,
    /// Held by a writer from reading the current view to flipping it.
    writer: Mutex<()>,
}

impl<T> RangeIndex<T> {
    /// From the ranges' minimal keys, ascending; the first one stands for "lowest".
    pub(crate) fn new(order: KeyOrder, entries: Vec<(Bytes, Arc<T>)>) -> Self {
        Self { current: ArcSwap::from_pointee(View::new(order, entries)), writer: Mutex::new(()) }
    }

    /// The current view, for long use.
    pub(crate) fn view(&self) -> Arc<View<T>> {
        self.current.load_full()
    }

    /// The current view, for short use: cheaper than [`view`](Self::view), but few should be held
    /// at once.
    pub(crate) fn load(&self) -> impl Deref<Target = Arc<View<T>>> + use<T> {
        self.current.load()
    }

    /// The range that contains `key`. It may have been replaced in the meantime; see the module.
    pub(crate) fn find(&self, key: &[u8]) -> Arc<T> {
        self.current.load().find(key).clone()
    }

    /// Checks that `replace` will find these neighbours, and that ranges which begin with `keys`
    /// and end at `end` fit in their place. The error is the reason if not. The answer holds as
    /// long as nobody else may replace these ranges.
    pub(crate) fn check_replace(
        &self,
        removed: &[&Arc<T>],
        keys: &[Bytes],
        end: Option<&Bytes>,
    ) -> Result<(), &'static str> {
        let view = self.current.load();
        let first_key = keys.first().ok_or("nothing takes the place of what is removed")?;
        let place = view.place_for(first_key, removed.len(), keys.iter())?;
        let mut next = Some(place.from);
        for range in removed {
            if !next.is_some_and(|position| Arc::ptr_eq(view.range(position), range)) {
                return Err("a range that is to be removed is not there");
            }
            next = next.and_then(|position| view.after(position));
        }
        if place.limit.map(|limit| view.key(limit)) != end {
            return Err("the next range begins elsewhere");
        }
        Ok(())
    }

    /// Replaces `remove_count` neighbouring ranges, from the one with the minimal key
    /// `remove_first_key` on, by `add` in one flip. The first added key equals the first removed
    /// one. Returns the number of entries copied.
    ///
    /// # Panics
    ///
    /// If there are no such ranges, or `add` does not fit in their place. Then the caller, who
    /// alone may replace these ranges, has lost track of them, and has not called `check_replace`
    /// before. Nothing is changed in this case.
    pub(crate) fn replace(
        &self,
        remove_first_key: &[u8],
        remove_count: usize,
        add: Vec<(Bytes, Arc<T>)>,
    ) -> usize {
        let _turn = self.writer.lock();
        let (view, copied) = self.current.load().replaced(remove_first_key, remove_count, add);
        self.current.store(Arc::new(view));
        copied
    }
}

/// The ranges at one moment.
pub(crate) struct View<T> {
    order: KeyOrder,
    /// The first key of each block.
    first_keys: Keys,
    blocks: Vec<Arc<Block<T>>>,
    /// Number of ranges in all blocks.
    len: usize,
}

struct Block<T> {
    keys: Keys,
    ranges: Vec<Arc<T>>,
}

impl<T> View<T> {
    fn new(order: KeyOrder, entries: Vec<(Bytes, Arc<T>)>) -> Self {
        assert!(!entries.is_empty(), "an index has at least one range");
        let len = entries.len();
        let blocks = cut(&order, entries, target_len(len));
        Self::of_blocks(order, blocks, len)
    }

    fn of_blocks(order: KeyOrder, blocks: Vec<Arc<Block<T>>>, len: usize) -> Self {
        let first_keys = blocks.iter().map(|block| block.keys.keys[0].clone()).collect();
        Self { first_keys: Keys::new(&order, first_keys), order, blocks, len }
    }

    /// The range that contains `key`.
    pub(crate) fn find(&self, key: &[u8]) -> &Arc<T> {
        self.range(self.position(key, Bound::AtOrBefore))
    }

    /// The last range that begins before `key`, or the last range without a key: the start of a
    /// walk downwards from `key`. The first range begins before every key.
    pub(crate) fn find_last_before(&self, key: Option<&[u8]>) -> &Arc<T> {
        self.range(match key {
            Some(key) => self.position(key, Bound::Before),
            None => self.last_position(),
        })
    }

    /// All ranges with their minimal keys, ascending.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        Iter { view: self, next: Some(Position::FIRST) }
    }

    /// The range with the lowest keys.
    pub(crate) fn first(&self) -> &Arc<T> {
        self.range(Position::FIRST)
    }

    /// The ranges from the one that contains `key` on, or all ranges without a key. The empty key
    /// is not the least in every order, so a caller that takes some ranges at a time begins without
    /// a key.
    pub(crate) fn iter_from_or_first(&self, key: Option<&[u8]>) -> Iter<'_, T> {
        key.map_or_else(|| self.iter(), |key| self.iter_from(key))
    }

    /// The ranges from the one that contains `key` on.
    pub(crate) fn iter_from(&self, key: &[u8]) -> Iter<'_, T> {
        Iter { view: self, next: Some(self.position(key, Bound::AtOrBefore)) }
    }

    /// The number of ranges: at least one.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn is_lowest(&self, min_key: &[u8]) -> bool {
        self.first_keys.keys[0] == min_key
    }

    /// The last range within the bound; the first range is within every bound.
    fn position(&self, key: &[u8], bound: Bound) -> Position {
        let prefix = self.order.prefix(key);
        let block = self.first_keys.last_within(&self.order, key, prefix, bound);
        Position { block, entry: self.blocks[block].keys.last_within(&self.order, key, prefix, bound) }
    }

    fn range(&self, position: Position) -> &Arc<T> {
        &self.blocks[position.block].ranges[position.entry]
    }

    fn key(&self, position: Position) -> &Bytes {
        &self.blocks[position.block].keys.keys[position.entry]
    }

    fn last_position(&self) -> Position {
        let block = self.blocks.len() - 1;
        Position { block, entry: self.blocks[block].ranges.len() - 1 }
    }

    fn after(&self, Position { block, entry }: Position) -> Option<Position> {
        if entry + 1 < self.blocks[block].ranges.len() {
            Some(Position { block, entry: entry + 1 })
        } else {
            (block + 1 < self.blocks.len()).then_some(Position { block: block + 1, entry: 0 })
        }
    }

    /// The position of the range that begins with this key.
    fn position_of(&self, min_key: &[u8]) -> Option<Position> {
        if self.is_lowest(min_key) {
            return Some(Position::FIRST);
        }
        let found = self.position(min_key, Bound::AtOrBefore);
        if *self.key(found) == min_key {
            return Some(found);
        }
        // A failed comparator may have led to a wrong place, so all keys are compared. The ranges
        // are replaced on disk already, so the index must follow.
        self.order.failure()?;
        let mut next = Some(Position::FIRST);
        while let Some(position) = next {
            if *self.key(position) == min_key {
                return Some(position);
            }
            next = self.after(position);
        }
        None
    }

    /// The positions of `remove_count` neighbours that begin with this key, or the reason why
    /// `keys` cannot take their place.
    fn place_for<'k>(
        &self,
        first_key: &[u8],
        remove_count: usize,
        keys: impl Iterator<Item = &'k Bytes> + Clone,
    ) -> Result<Replaced, &'static str> {
        let from = self.position_of(first_key).ok_or("no range begins with the first key to remove")?;
        if keys.clone().next().is_none_or(|key| key != first_key) {
            return Err("the first added key is not the first removed");
        }
        if remove_count == 0 {
            return Err("a range that is added takes the place of none");
        }
        // The last block touched, and the number of its entries to remove.
        let (mut last, mut remove_upto) = (from.block, from.entry + remove_count);
        while remove_upto > self.blocks[last].ranges.len() {
            remove_upto -= self.blocks[last].ranges.len();
            last += 1;
            if last == self.blocks.len() {
                return Err("more ranges are to be removed than there are");
            }
        }
        let limit = self.after(Position { block: last, entry: remove_upto - 1 });
        let ascends = keys.clone().zip(keys.clone().skip(1)).enumerate().all(|(index, (key, next))| {
            !self.is_lowest(next)
                && ((from == Position::FIRST && index == 0) || self.order.compare(key, next).is_lt())
        });
        let is_below = |limit| {
            // A single range that replaces several begins where the first of them did.
            keys.clone().skip(1).last().is_none_or(|key| self.order.compare(key, self.key(limit)).is_lt())
        };
        // A failed comparator gives any answer. The ranges are replaced on disk already, so the
        // index must follow.
        if !(ascends && limit.is_none_or(is_below)) && self.order.failure().is_none() {
            return Err("the added keys do not ascend, or reach the next range's");
        }
        Ok(Replaced { from, end: Position { block: last, entry: remove_upto }, limit })
    }

    /// The view after a change, and the number of entries (of blocks and of the list of blocks)
    /// that were copied.
    fn replaced(&self, first_key: &[u8], remove_count: usize, add: Vec<(Bytes, Arc<T>)>) -> (Self, usize) {
        let place = self.place_for(first_key, remove_count, add.iter().map(|(key, _)| key));
        let Replaced { from, end, .. } = place.unwrap_or_else(|why| panic!("{why}"));
        let last = end.block;
        let len = self.len - remove_count + add.len();
        let target = target_len(len);
        let head = self.blocks[from.block].entries(0..from.entry);
        let tail = self.blocks[last].entries(end.entry..self.blocks[last].ranges.len());
        let mut touched = from.block..last + 1;
        let mut entries: Vec<_> = head.chain(add).chain(tail).collect();
        // A block that has become small is joined with a neighbour, so that the list of blocks
        // stays short.
        if entries.len() < target / 2 {
            if touched.start > 0 {
                touched.start -= 1;
                let before = &self.blocks[touched.start];
                entries.splice(0..0, before.entries(0..before.ranges.len()));
            } else if let Some(behind) = self.blocks.get(touched.end) {
                touched.end += 1;
                entries.extend(behind.entries(0..behind.ranges.len()));
            }
        }
        let copied_entries = entries.len();
        let mut blocks = Vec::with_capacity(self.blocks.len() + 1 + copied_entries / target);
        blocks.extend_from_slice(&self.blocks[..touched.start]);
        blocks.extend(cut(&self.order, entries, target));
        blocks.extend_from_slice(&self.blocks[touched.end..]);
        let copied = copied_entries + blocks.len();
        (Self::of_blocks(self.order.clone(), blocks, len), copied)
    }
}

impl<T> Block<T> {
    fn entries(&self, range: Range<usize>) -> impl Iterator<Item = (Bytes, Arc<T>)> {
        let keys = self.keys.keys[range.clone()].iter().cloned();
        keys.zip(self.ranges[range].iter().cloned())
    }
}

/// Target length of blocks: √n, but at least 16, so that small indexes do not consist of tiny
/// blocks.
fn target_len(len: usize) -> usize {
    len.isqrt().max(16)
}

/// Blocks of `target` to `2 * target` entries, or one that is shorter.
fn cut<T>(order: &KeyOrder, entries: Vec<(Bytes, Arc<T>)>, target: usize) -> Vec<Arc<Block<T>>> {
    let total = entries.len();
    let pieces = if total <= 2 * target { 1 } else { total / target };
    let mut entries = entries.into_iter();
    (0..pieces)
        .map(|piece| {
            let piece_len = (piece + 1) * total / pieces - piece * total / pieces;
            let (keys, ranges) = entries.by_ref().take(piece_len).unzip();
            Arc::new(Block { keys: Keys::new(order, keys), ranges })
        })
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    block: usize,
    entry: usize,
}

impl Position {
    const FIRST: Self = Self { block: 0, entry: 0 };
}

/// The positions of ranges to replace.
struct Replaced {
    from: Position,
    /// The position after the last of these ranges, in the last block that has some of them.
    end: Position,
    /// The next range, if there is one.
    limit: Option<Position>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtOrBefore,
    Before,
}

/// Ascending keys. The first one counts as within every bound.
struct Keys {
    keys: Vec<Bytes>,
    /// The order-preserving prefixes of the keys; empty if the order has none.
    prefixes: Vec<u64>,
}

impl Keys {
    fn new(order: &KeyOrder, keys: Vec<Bytes>) -> Self {
        // The first key is never compared, and the lowest range's key may be no key of the order.
        let prefixes = keys.iter().enumerate().map(|(index, key)| match index {
            0 => Some(0),
            _ => order.prefix(key),
        });
        Self { prefixes: prefixes.collect::<Option<_>>().unwrap_or_default(), keys }
    }

    /// The last key within the bound.
    fn last_within(&self, order: &KeyOrder, key: &[u8], prefix: Option<u64>, bound: Bound) -> usize {
        let (mut low, mut high) = (1, self.keys.len());
        if let (Some(prefix), Some((_, prefixes))) = (prefix, self.prefixes.split_first()) {
            low = 1 + prefixes.partition_point(|&other| other < prefix);
            high = low + prefixes[low - 1..].partition_point(|&other| other == prefix);
        }
        let within = |other: &Bytes| match (order.compare(other, key), bound) {
            (Ordering::Less, _) | (Ordering::Equal, Bound::AtOrBefore) => true,
            (Ordering::Equal, Bound::Before) | (Ordering::Greater, _) => false,
        };
        low - 1 + self.keys[low..high].partition_point(within)
    }
}

/// Ranges with their minimal keys, ascending.
pub(crate) struct Iter<'a, T> {
    view: &'a View<T>,
    next: Option<Position>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (&'a Bytes, &'a Arc<T>);

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.next?;
        self.next = self.view.after(position);
        Some((self.view.key(position), self.view.range(position)))
    }
}
