//! The merge itself: a binary heap of sources, ordered by the entries under their cursors.

use crate::types::entry::{EntryCursor, EntryRef};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;

/// Walks several sources as one. A walk has the direction of the seek that began it; to reverse it,
/// seek again.
pub struct MergeCursor {
    order: KeyOrder,
    sources: Vec<Box<dyn EntryCursor>>,
    /// The sources that have an entry, as a heap: the one with the next entry is at the root.
    heap: Vec<usize>,
    forward: bool,
}

impl MergeCursor {
    /// `sources` from the newest to the oldest.
    pub fn new(order: KeyOrder, sources: Vec<Box<dyn EntryCursor>>) -> Self {
        Self { order, heap: Vec::with_capacity(sources.len()), sources, forward: true }
    }

    pub fn seek_to_first(&mut self) -> Result<()> {
        self.start(true, |source| source.seek_to_first())
    }

    pub fn seek_to_last(&mut self) -> Result<()> {
        self.start(false, |source| source.seek_to_last())
    }

    /// To the newest entry of the first key at or after `key`; then forward.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.announce(key);
        self.start(true, |source| source.seek(key))
    }

    /// To the oldest entry of the last key before `key`; then back.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.announce(key);
        self.start(false, |source| source.seek_before(key))
    }

    /// Moves one entry further, in the direction of the walk.
    pub fn advance(&mut self) -> Result<()> {
        let Some(&top) = self.heap.first() else { return Ok(()) };
        let source = &mut self.sources[top];
        let moved = if self.forward { source.next() } else { source.prev() };
        if let Err(error) = moved {
            self.heap.clear();
            return Err(error);
        }
        if self.sources[top].entry().is_none() {
            let last = self.heap.len() - 1;
            self.heap.swap(0, last);
            self.heap.pop();
        }
        self.sift_down(0);
        Ok(())
    }

    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.heap.first().and_then(|&top| self.sources[top].entry())
    }

    /// Index of the source of the entry: 0 is the newest.
    pub fn source(&self) -> usize {
        self.heap.first().copied().unwrap_or_default()
    }

    /// The entry's position in its source.
    pub fn position(&self) -> u64 {
        self.heap.first().map_or(0, |&top| self.sources[top].position())
    }

    pub fn value(&mut self) -> Result<Bytes> {
        match self.heap.first() {
            Some(&top) => self.sources[top].value(),
            None => Ok(Bytes::new()),
        }
    }

    /// Makes the device read for all sources at once: first the indexes, and then the blocks that they name (SifrDB
    /// §4.3 begins ranges so). The first one that needs it reads at once anyway.
    fn announce(&mut self, key: &[u8]) {
        if self.sources.len() > 1 {
            self.heap.clear();
            let mut begin = false;
            for source in &mut self.sources {
                begin |= source.announce_index(begin);
            }
            for source in &mut self.sources {
                begin |= source.announce(key, begin);
            }
        }
    }

    fn start(
        &mut self,
        forward: bool,
        mut seek: impl FnMut(&mut dyn EntryCursor) -> Result<()>,
    ) -> Result<()> {
        self.forward = forward;
        // Empty until all are positioned.
        let mut positioned = std::mem::take(&mut self.heap);
        positioned.clear();
        for (index, source) in self.sources.iter_mut().enumerate() {
            seek(&mut **source)?;
            if source.entry().is_some() {
                positioned.push(index);
            }
        }
        self.heap = positioned;
        for index in (0..self.heap.len() / 2).rev() {
            self.sift_down(index);
        }
        Ok(())
    }

    /// True if source `a` comes before source `b` in the walk.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (Some(x), Some(y)) = (self.sources[a].entry(), self.sources[b].entry()) else { return false };
        let order = self.order.compare(x.key, y.key).then_with(|| a.cmp(&b));
        if self.forward { order == Ordering::Less } else { order == Ordering::Greater }
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let mut first = index;
            for child in [2 * index + 1, 2 * index + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[first]) {
                    first = child;
                }
            }
            if first == index {
                return;
            }
            self.heap.swap(index, first);
            index = first;
        }
    }
}
