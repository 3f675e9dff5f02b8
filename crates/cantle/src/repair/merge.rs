//! Merges all sources into the newest entry of each key, unless a newer range delete covers it.

use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;

/// The age of entries of one key and of range deletes: the greatest is the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Newness(pub [u64; 3]);

/// Entries in key order; of the entries of one key, the newest comes first.
pub(super) trait Source {
    /// The next entry, if there is one.
    fn head(&self) -> Option<(&[u8], Newness, Kind)>;
    /// The value of the next entry.
    fn value(&mut self) -> Result<Bytes>;
    /// Moves to the entry after it.
    fn advance(&mut self) -> Result<()>;
}

/// A range delete.
#[derive(Debug, Clone)]
pub(super) struct RangeDelete {
    pub newness: Newness,
    pub bounds: Bounds,
    /// The range delete counts only for keys in this span.
    pub span: Span,
}

impl RangeDelete {
    fn begins_by(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let by_bounds = match &self.bounds.start {
            Bound::Unbounded => true,
            Bound::Included(start) => order.compare(start, key) != Ordering::Greater,
            Bound::Excluded(start) => order.compare(start, key) == Ordering::Less,
        };
        let by_span = self.span.start.as_ref();
        by_bounds && by_span.is_none_or(|start| order.compare(start, key) != Ordering::Greater)
    }

    fn ends_before(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let by_bounds = match &self.bounds.end {
            Bound::Unbounded => false,
            Bound::Included(end) => order.compare(end, key) == Ordering::Less,
            Bound::Excluded(end) => order.compare(end, key) != Ordering::Greater,
        };
        by_bounds || self.span.ends_before(order, key)
    }

    /// The first key that it may cover (`None` is before all keys), and true if it begins after
    /// that key.
    fn start(&self, order: &KeyOrder) -> (Option<&[u8]>, bool) {
        let (bound, behind) = match &self.bounds.start {
            Bound::Unbounded => (None, false),
            Bound::Included(start) => (Some(&start[..]), false),
            Bound::Excluded(start) => (Some(&start[..]), true),
        };
        match (bound, self.span.start.as_deref()) {
            (Some(a), Some(b)) if order.compare(a, b) == Ordering::Less => (Some(b), false),
            (None, start) => (start, false),
            (start, _) => (start, behind),
        }
    }
}

/// Merges sources.
pub(super) struct Merge {
    order: KeyOrder,
    sources: Vec<Box<dyn Source>>,
    /// Sources that are not at their end; the one with the next entry is the root.
    heap: Vec<usize>,
    /// Range deletes that begin after the last key; the next one is the last.
    coming: Vec<RangeDelete>,
    /// Range deletes that have begun, the newest first. One that has ended is removed when it comes
    /// to the top, as keys ascend.
    begun: BinaryHeap<Begun>,
}

struct Begun(RangeDelete);

impl PartialEq for Begun {
    fn eq(&self, other: &Self) -> bool {
        self.0.newness == other.0.newness
    }
}

impl Eq for Begun {}

impl PartialOrd for Begun {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Begun {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.newness.cmp(&other.0.newness)
    }
}

impl Merge {
    pub fn new(order: KeyOrder, sources: Vec<Box<dyn Source>>, mut deletes: Vec<RangeDelete>) -> Self {
        order.sort_by(&mut deletes, |a, b| match (a.start(&order), b.start(&order)) {
            ((Some(a), a_behind), (Some(b), b_behind)) => order.compare(b, a).then(b_behind.cmp(&a_behind)),
            ((a, _), (b, _)) => b.is_some().cmp(&a.is_some()),
        });
        let heap: Vec<usize> =
            (0..sources.len()).filter(|&source| sources[source].head().is_some()).collect();
        let mut merge = Self { order, sources, heap, coming: deletes, begun: BinaryHeap::new() };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(place);
        }
        merge
    }

    /// The next pair.
    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Bytes)>> {
        while let Some(&top) = self.heap.first() {
            let Some((key, newness, kind)) = self.sources[top].head() else { return Ok(None) };
            let key = key.to_vec();
            let lives = kind == Kind::Put && !self.is_deleted(&key, newness);
            let value = if lives { Some(self.sources[top].value()?) } else { None };
            self.pass(&key)?;
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Skips all entries of the key.
    fn pass(&mut self, key: &[u8]) -> Result<()> {
        while let Some(&top) = self.heap.first() {
            let Some((head, ..)) = self.sources[top].head() else { break };
            if self.order.compare(head, key) == Ordering::Greater {
                break;
            }
            self.sources[top].advance()?;
            if self.sources[top].head().is_none() {
                let last = self.heap.len() - 1;
                self.heap.swap(0, last);
                self.heap.pop();
            }
            self.sift_down(0);
        }
        Ok(())
    }

    fn is_deleted(&mut self, key: &[u8], newness: Newness) -> bool {
        while let Some(next) = self.coming.pop_if(|next| next.begins_by(&self.order, key)) {
            self.begun.push(Begun(next));
        }
        while self.begun.peek().is_some_and(|newest| newest.0.ends_before(&self.order, key)) {
            self.begun.pop();
        }
        self.begun.peek().is_some_and(|newest| newest.0.newness > newness)
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        match (self.sources[a].head(), self.sources[b].head()) {
            (Some((a_key, a_newness, _)), Some((b_key, b_newness, _))) => {
                let order = self.order.compare(a_key, b_key).then(b_newness.cmp(&a_newness)).then(a.cmp(&b));
                order == Ordering::Less
            }
            _ => false,
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let mut first = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == place {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sorter::{Entry, Sorter};
    use super::*;
    use crate::sync::Arc;
    use crate::vfs::{MemVfs, Vfs};
    use proptest::prelude::*;
    use std::path::Path;

    fn bound(kind: u8, key: u8) -> Bound<Vec<u8>> {
        match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(vec![key]),
            _ => Bound::Excluded(vec![key]),
        }
    }

    proptest! {
        #[test]
        fn a_key_lives_unless_something_newer_deletes_it(
            entries in proptest::collection::vec((0u8..30, any::<bool>()), 0..120),
            deletes in proptest::collection::vec(((0u8..3, 0u8..30), (0u8..3, 0u8..30), 0u64..120), 0..12),
        ) {
            let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
            let mut sources = Vec::new();
            let mut expected = Vec::new();
            let covers = |key: u8, version: u64| deletes.iter().any(|&((a, from), (b, to), at)| {
                let bounds = Bounds { start: bound(a, from), end: bound(b, to) };
                crate::types::span::contains(&bounds, &KeyOrder::Bytewise, &[key]) && at > version
            });
            for key in 0..30 {
                let newest = (0..entries.len()).rev().find(|&at| entries[at].0 == key);
                if let Some(at) = newest
                    && entries[at].1
                    && !covers(key, at as u64)
                {
                    expected.push((vec![key], Bytes::from(vec![at as u8])));
                }
            }
            for part in 0..3 {
                let mut sorter = Sorter::new(KeyOrder::Bytewise, 1 << 20, &vfs, Path::new(""));
                for (at, &(key, put)) in entries.iter().enumerate().filter(|(at, _)| at % 3 == part) {
                    let kind = if put { Kind::Put } else { Kind::Delete };
                    let (key, value) = (Bytes::from(vec![key]), Bytes::from(vec![at as u8]));
                    sorter.push(Entry { key, newness: Newness([at as u64, 0, 0]), kind, value }).unwrap();
                }
                sources.extend(sorter.finish().unwrap());
            }
            let range_deletes = deletes.iter().map(|&((a, from), (b, to), at)| RangeDelete {
                newness: Newness([at, 0, 0]),
                bounds: Bounds { start: bound(a, from), end: bound(b, to) },
                span: Span::default(),
            });
            let mut merge = Merge::new(KeyOrder::Bytewise, sources, range_deletes.collect());
            let mut found = Vec::new();
            while let Some(pair) = merge.next().unwrap() {
                found.push(pair);
            }
            prop_assert_eq!(found, expected);
        }
    }
}
