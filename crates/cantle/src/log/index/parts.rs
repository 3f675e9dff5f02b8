//! What a log consists of, at one moment: its parts, and what is known of all of them together.

use crate::format::header::FileHeader;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::memory_part::MemoryPart;
use crate::log::index::view::MergedIndex;
use crate::log::op::record::key_digest;
use crate::sync::Arc;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use std::cell::Cell;
use std::sync::OnceLock;

/// A stretch behind the indexed parts of a log of an earlier epoch in which operations are lost: what they wrote hides
/// whatever is older, whether in this log or in files beneath.
#[derive(Debug, Clone)]
pub struct Hole {
    pub offset: u64,
    /// The digest of the one key that is concerned; else any may be.
    pub digest: Option<u32>,
    pub error: Error,
}

/// Of fewer parts one after the other is asked.
const APART_PARTS_MIN: usize = 4;

/// The parts of a segment, newest first.
pub struct Parts {
    pub header: FileHeader,
    pub memory: Option<Arc<MemoryPart>>,
    pub indexed: Vec<Arc<IndexedPart>>,
    /// The same in key order, if none overlaps another: found out by the first who asks and is told where all begin and end.
    apart: OnceLock<Option<Box<[Arc<IndexedPart>]>>>,
    /// In the order in which they lie.
    holes: Vec<Hole>,
    /// Of the indexed parts; as these never change, neither does it.
    pub view: MergedIndex,
}

impl Parts {
    pub fn new(header: FileHeader, memory: Option<Arc<MemoryPart>>, indexed: Vec<Arc<IndexedPart>>) -> Self {
        let view = MergedIndex::new(indexed.iter().map(|part| part.entries).sum());
        Self { header, memory, indexed, apart: OnceLock::new(), holes: Vec::new(), view }
    }

    pub fn with_holes(mut self, holes: Vec<Hole>) -> Self {
        canary!(HOLES_FORGOTTEN => let holes = Vec::new());
        self.holes = holes;
        self
    }

    /// The indexed parts that may have a key, newest first. Those that are passed over are counted.
    pub fn that_may_have<'a>(
        &'a self,
        order: &'a KeyOrder,
        key: &'a [u8],
        passed_over: &'a Cell<usize>,
    ) -> impl Iterator<Item = &'a Arc<IndexedPart>> {
        let (one, several) = match self.apart(order) {
            Some(apart) => (part_of(apart, order, key), &[][..]),
            None => (None, &self.indexed[..]),
        };
        if several.is_empty() {
            passed_over.set(self.indexed.len() - usize::from(one.is_some()));
        }
        one.into_iter().chain(several).filter(|part| {
            let lacks = part.lacks(order, key);
            passed_over.set(passed_over.get() + usize::from(lacks));
            !lacks
        })
    }

    /// The indexed parts in key order, if none overlaps another, as they do not where keys were inserted in order: a get asks one of
    /// them instead of passing over all others.
    fn apart(&self, order: &KeyOrder) -> Option<&[Arc<IndexedPart>]> {
        if let Some(known) = self.apart.get() {
            return known.as_deref();
        }
        let is_known = |part: &Arc<IndexedPart>| part.ends.get().is_some();
        if self.indexed.len() >= APART_PARTS_MIN && !self.indexed.iter().all(is_known) {
            // They may become known.
            return None;
        }
        self.apart.get_or_init(|| in_key_order(&self.indexed, order)).as_deref()
    }

    /// The last stretch in which an operation on `key` may be lost.
    pub fn hole_of(&self, key: &[u8]) -> Option<&Hole> {
        if self.holes.is_empty() {
            return None;
        }
        let digest = key_digest(key);
        self.holes.iter().rev().find(|hole| hole.digest.is_none_or(|lost| lost == digest))
    }

    /// For who reads many keys: a pair may be missing anywhere, or be an older one.
    pub fn check_whole(&self) -> Result<()> {
        self.holes.first().map_or(Ok(()), |hole| Err(hole.error.clone()))
    }
}

/// `None` if they overlap, have range deletes or are too few to be worth it.
fn in_key_order(parts: &[Arc<IndexedPart>], order: &KeyOrder) -> Option<Box<[Arc<IndexedPart>]>> {
    if parts.len() < APART_PARTS_MIN || parts.iter().any(|part| part.known_keys().is_none()) {
        return None;
    }
    let mut sorted = parts.to_vec();
    order.sort_by(&mut sorted, |a, b| order.compare(ends(a).0, ends(b).0));
    let are_apart = sorted.windows(2).all(|pair| order.compare(ends(&pair[0]).1, ends(&pair[1]).0).is_lt());
    are_apart.then(|| sorted.into())
}

fn ends(part: &IndexedPart) -> (&[u8], &[u8]) {
    part.known_keys().unwrap_or_default()
}

/// The last of the parts in key order that begins at the key or before.
fn part_of<'a>(parts: &'a [Arc<IndexedPart>], order: &KeyOrder, key: &[u8]) -> Option<&'a Arc<IndexedPart>> {
    let begins_behind = |part: &Arc<IndexedPart>| {
        part.known_keys().is_some_and(|(first, _)| order.compare(key, first).is_lt())
    };
    let behind = parts.partition_point(|part| !begins_behind(part));
    behind.checked_sub(1).and_then(|last| parts.get(last))
}
