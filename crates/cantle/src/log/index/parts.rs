//! The parts of a log at one moment, and data about all of them together.

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

/// A stretch after the indexed parts of a log of an earlier epoch in which operations are lost. A
/// lost operation hides everything older, in this log and in the files beneath.
#[derive(Debug, Clone)]
pub struct Hole {
    pub offset: u64,
    /// Digest of the one key whose operation is lost; `None` if it may be any key.
    pub digest: Option<u32>,
    pub error: Error,
}

/// Minimum number of parts for a search by key order. With fewer parts, comparing a key with the
/// ends of each costs as much as a search.
const APART_PARTS_MIN: usize = 4;

/// The parts of a segment, newest first.
pub struct Parts {
    pub header: FileHeader,
    pub memory: Option<Arc<MemoryPart>>,
    pub indexed: Vec<Arc<IndexedPart>>,
    /// The indexed parts in key order, if no two overlap. Set by the first get after the ends of all parts are known.
    apart: OnceLock<Option<Box<[Arc<IndexedPart>]>>>,
    /// In the order of their offsets.
    holes: Vec<Hole>,
    /// The sorted view of the indexed parts. It stays valid, because these parts never change.
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

    /// Number of range deletes.
    pub fn range_deletes(&self) -> usize {
        let in_memory = self.memory.as_ref().map_or(0, |memory| memory.tombstones().len());
        in_memory + self.indexed.iter().map(|part| part.tombstones.len()).sum::<usize>()
    }

    /// The indexed parts that may have a key, newest first. Sets `passed_over` to the number of
    /// parts without it, as far as the iterator went.
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

    /// The indexed parts in key order, if no two overlap. Parts do not overlap if keys were
    /// inserted in order: a get then finds its one part by a binary search.
    fn apart(&self, order: &KeyOrder) -> Option<&[Arc<IndexedPart>]> {
        if let Some(known) = self.apart.get() {
            return known.as_deref();
        }
        let is_known = |part: &Arc<IndexedPart>| part.ends.get().is_some();
        if self.indexed.len() >= APART_PARTS_MIN && !self.indexed.iter().all(is_known) {
            // A later get may know the ends of all parts.
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

    /// Fails if there is a hole. For reads of many keys: any pair may be missing or outdated.
    pub fn check_whole(&self) -> Result<()> {
        self.holes.first().map_or(Ok(()), |hole| Err(hole.error.clone()))
    }
}

/// Sorts the parts by key. `None` if two parts overlap, if one has range deletes, or if there are
/// fewer than [`APART_PARTS_MIN`].
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

/// The last of the parts in key order whose first key is at most `key`.
fn part_of<'a>(parts: &'a [Arc<IndexedPart>], order: &KeyOrder, key: &[u8]) -> Option<&'a Arc<IndexedPart>> {
    let begins_behind = |part: &Arc<IndexedPart>| {
        part.known_keys().is_some_and(|(first, _)| order.compare(key, first).is_lt())
    };
    let behind = parts.partition_point(|part| !begins_behind(part));
    behind.checked_sub(1).and_then(|last| parts.get(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::Directly;
    use crate::format::bounds::encode_bounds;
    use crate::log::env::LogEnv;
    use crate::log::read::learn::learn;
    use crate::log::segment::Segment;
    use crate::log::test_support::{log_env, new_log, reopened, write};
    use crate::types::bounds::Bounds;
    use crate::types::entry::Kind;
    use crate::vfs::{MemVfs, Vfs};
    use std::ops::Bound;

    fn key(number: u32) -> Vec<u8> {
        format!("{number:04}").into_bytes()
    }

    /// A log with a part for each of these ranges of keys.
    fn log_of(env: &LogEnv, ranges: &[std::ops::Range<u32>]) -> Arc<Segment> {
        let log = new_log(env, false);
        for (range, version) in ranges.iter().zip(1..) {
            range.clone().step_by(3).for_each(|number| {
                write(env, &log, version, &[(Kind::Put, &key(number), b"value")]);
            });
            log.seal(env).unwrap();
        }
        log.segment
    }

    /// The parts to ask for a key, by their starts, are those that do not lack it.
    fn check(parts: &Parts, env: &LogEnv) {
        for number in 0..1000 {
            let (key, passed_over) = (key(number), Cell::new(0));
            let asked: Vec<u64> =
                parts.that_may_have(&env.order, &key, &passed_over).map(|part| part.start).collect();
            let expected = parts.indexed.iter().filter(|part| !part.lacks(&env.order, &key));
            assert_eq!(asked, expected.map(|part| part.start).collect::<Vec<_>>(), "key {number}");
            assert_eq!(passed_over.get() + asked.len(), parts.indexed.len());
        }
    }

    fn env() -> (Arc<dyn Vfs>, Arc<LogEnv>) {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let env = log_env(&vfs, 1);
        (vfs, env)
    }

    #[test]
    fn a_get_asks_one_of_the_parts_that_do_not_overlap() {
        let (_, env) = env();
        // Neither in the order in which they were written, nor right one after the other.
        let segment = log_of(&env, &[100..200, 700..900, 300..400, 10..11, 400..500]);
        let parts = segment.parts(&env).unwrap();
        assert!(parts.apart(&env.order).is_some());
        check(&parts, &env);
    }

    #[test]
    fn a_get_asks_every_part_that_overlaps_newest_first() {
        let (_, env) = env();
        // The first and the last share one key.
        let segment = log_of(&env, &[100..200, 700..900, 300..400, 500..501, 199..250]);
        let parts = segment.parts(&env).unwrap();
        assert!(parts.apart(&env.order).is_none());
        check(&parts, &env);
    }

    #[test]
    fn a_part_with_a_range_delete_is_asked_for_every_key() {
        let (_, env) = env();
        let log = new_log(&env, false);
        for number in 0..5 {
            write(&env, &log, 1, &[(Kind::Put, &key(number * 100), b"value")]);
            if number == 2 {
                let bounds = Bounds { start: Bound::Unbounded, end: Bound::Included(key(999)) };
                write(&env, &log, 2, &[(Kind::DeleteRange, b"", &encode_bounds(&bounds))]);
            }
            log.seal(&env).unwrap();
        }
        let parts = log.segment.parts(&env).unwrap();
        assert!(parts.apart(&env.order).is_none());
        check(&parts, &env);
        let asked = parts.that_may_have(&env.order, &key(1), &Cell::new(0)).count();
        assert_eq!(asked, 1, "the one with the range delete");
    }

    #[test]
    fn parts_of_an_earlier_epoch_are_all_asked_until_their_ends_are_known() {
        let (vfs, env) = env();
        let checkpoint = log_of(&env, &[0..100, 300..400, 100..200, 200..300]).sync().unwrap();
        let later = log_env(&vfs, 2);
        let segment = reopened(&later, checkpoint, 1, false);
        let parts = segment.parts(&later).unwrap();
        let asked = |parts: &Parts| parts.that_may_have(&later.order, &key(150), &Cell::new(0)).count();
        assert_eq!(asked(&parts), 4);
        for part in &parts.indexed {
            check(&parts, &later);
            learn(&later, &segment, &parts.header, part, &Directly).unwrap();
        }
        assert!(parts.apart(&later.order).is_some());
        check(&parts, &later);
        assert_eq!(asked(&parts), 1);
    }
}
