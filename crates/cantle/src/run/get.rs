//! Gets: looking up one key in a stack of runs, through the indexes of its logs and tables.

use super::run::{Run, Source};
use super::stack::RunStack;
use crate::block::BlockCursor;
use crate::fetch::Fetch;
use crate::format::codec::Decoder;
use crate::log::index::indexed_part::{IndexedPart, decode_place};
use crate::log::index::memory_part::{MemoryHit, MemoryPart, RecordPtr};
use crate::log::index::parts::Parts;
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::read::learn;
use crate::log::segment::Segment;
use crate::run::env::RunEnv;
use crate::run::referred::ReferredLogs;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::sync::time::{Instant, now};
use crate::table::TableGet;
use crate::table::TableHandle;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use bytes::Bytes;
use std::cell::Cell;
use std::cmp::Ordering;

/// Result of a get.
#[derive(Debug)]
pub struct Answer {
    pub value: Option<Bytes>,
    /// The place of the key or of its deletion; `None` if neither was found.
    pub served: Option<Served>,
}

/// The newest entry of a key in one source.
pub enum Found {
    Value(Bytes),
    Deleted,
}

/// The place that served a get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    LogMemory,
    LogIndex,
    Table,
}

impl RunStack {
    /// Looks up `key`, which has this hash, at version `at`, in the newest source first.
    pub fn get<F: Fetch>(
        &self,
        env: &RunEnv,
        key: &[u8],
        hash: u64,
        at: u64,
        fetch: &F,
    ) -> Result<Answer, F::Stop> {
        get(env, self.files.iter(), key, hash, at, fetch)
    }
}

/// Looks up `key`, which has this hash, at version `at`, in runs of which the newest comes first.
pub fn get<'a, F: Fetch>(
    env: &RunEnv,
    runs: impl Iterator<Item = &'a Run>,
    key: &[u8],
    hash: u64,
    at: u64,
    fetch: &F,
) -> Result<Answer, F::Stop> {
    let begun = now();
    let (passed, has_key) = Default::default();
    let search = Search { env, key, hash, at, fetch, passed: &passed, has_key: &has_key };
    for run in runs {
        if let Some(found) = search.in_run(run)? {
            return Ok(answer(env, Some(found), &passed, begun));
        }
    }
    Ok(answer(env, None, &passed, begun))
}

/// Counts a get, which may have searched in several ways, and makes its result.
pub(super) fn answer(
    env: &RunEnv,
    found: Option<(Found, Served)>,
    passed: &Passed,
    begun: Instant,
) -> Answer {
    let (value, served) = match found {
        Some((Found::Value(value), served)) => (Some(value), Some(served)),
        Some((Found::Deleted, served)) => (None, Some(served)),
        None => (None, None),
    };
    let counters = &env.counters;
    let counter = match (&value, served) {
        (None, _) | (_, None) => &counters.gets_absent,
        (_, Some(Served::LogMemory)) => &counters.gets_log_memory,
        (_, Some(Served::LogIndex)) => &counters.gets_log_index,
        (_, Some(Served::Table)) => &counters.gets_table,
    };
    counter.add_since(begun);
    passed.count(env);
    Answer { value, served }
}

/// Number of files and parts of files that a get asked, passed over, or searched in vain.
#[derive(Default, Clone)]
pub(super) struct Passed {
    asked: Cell<u64>,
    filter_skips: Cell<u64>,
    filter_false_positives: Cell<u64>,
    parts: Cell<u64>,
}

impl Passed {
    fn set(&self, other: &Self) {
        self.asked.set(other.asked.get());
        self.filter_skips.set(other.filter_skips.get());
        self.filter_false_positives.set(other.filter_false_positives.get());
        self.parts.set(other.parts.get());
    }

    fn count(&self, env: &RunEnv) {
        let add = |counter: &Counter, number: &Cell<u64>| {
            if number.get() > 0 {
                counter.add(number.get());
            }
        };
        env.counters.get_runs.add(self.asked.get());
        add(&env.counters.filter_skips, &self.filter_skips);
        add(&env.counters.filter_false_positives, &self.filter_false_positives);
        add(&env.log.counters.parts_passed_over, &self.parts);
    }
}

fn add_one(number: &Cell<u64>) {
    number.set(number.get() + 1);
}

/// Offset in the log of the newest of `tombstones` that covers `key` and counts at `at`.
pub fn newest_tombstone(env: &RunEnv, tombstones: &RangeDeletes, key: &[u8], at: u64) -> Option<u64> {
    let covering = tombstones.covering(&env.order, key);
    let counting = covering.filter(|t| t.is_visible(at) && env.recovery.is_alive(t.version));
    counting.map(|t| t.offset).max()
}

/// A get of one key.
pub(super) struct Search<'a, F> {
    pub env: &'a RunEnv,
    pub key: &'a [u8],
    pub hash: u64,
    pub at: u64,
    pub fetch: &'a F,
    pub passed: &'a Passed,
    /// Set when the key was found, before its value is read.
    pub has_key: &'a Cell<bool>,
}

impl<F: Fetch> Search<'_, F> {
    /// The entry of the key in a run, if it has one.
    #[inline]
    pub fn in_run(&self, run: &Run) -> Result<Option<(Found, Served)>, F::Stop> {
        // First, as most runs of a get end here, and neither span nor marks are looked at.
        if let Source::Table(table) = &run.source
            && table.is_known_to_lack(&self.env.cache, self.hash)
        {
            add_one(&self.passed.asked);
            add_one(&self.passed.filter_skips);
            return Ok(None);
        }
        let order = &self.env.order;
        if !run.span.contains(order, self.key)
            || !run.is_visible(self.at)
            || run.is_dropped_at(order, self.key, self.at)
        {
            return Ok(None);
        }
        let before = self.passed.clone();
        add_one(&self.passed.asked);
        let found = match &run.source {
            Source::Log(segment) => self.in_log(segment),
            Source::Table(table) => self.in_table(table).map(|found| Some((found?, Served::Table))),
        };
        // A search that waits for a read begins again, and counts once.
        found.inspect_err(|_| self.passed.set(&before))
    }

    fn in_log(&self, segment: &Segment) -> Result<Option<(Found, Served)>, F::Stop> {
        let Self { env, key, hash, at, fetch, .. } = *self;
        let parts = segment.parts(env)?;
        let found = parts.memory.as_ref().map(|memory| get_in_memory(env, memory, key, at));
        if let Some(hole) = parts.hole_of(key) {
            // The lost operations hide everything older.
            let offset = |(hit, _): &MemoryValue| hit.place.offset;
            let newest = found.as_ref().and_then(|(hit, deleted)| hit.as_ref().map(offset).max(*deleted));
            if newest.is_none_or(|offset| offset < hole.offset) {
                return Err(hole.error.clone().into());
            }
        }
        if let Some((hit, deleted)) = found
            && let Some(found) = self.resolve(segment, &parts, hit, deleted)?
        {
            return Ok(Some((found, Served::LogMemory)));
        }
        let (passed_over, mut found) = (Cell::new(0), None);
        for part in parts.that_may_have(&env.order, key, &passed_over) {
            let deleted = newest_tombstone(env, &part.tombstones, key, at);
            if !segment.may_contain(env, &parts.header, part, hash, fetch)? {
                add_one(&self.passed.filter_skips);
                if deleted.is_some() {
                    found = Some((Found::Deleted, Served::LogIndex));
                    break;
                }
                continue;
            }
            let hit = if part.root.len > 0 {
                learn::learn(env, segment, &parts.header, part, fetch)?;
                find_indexed(env, segment, &parts, part.root, (key, at), u64::MAX, fetch)?
            } else {
                fetch.before_long_read()?;
                search_part(env, segment, &parts, part, key, at)?
            };
            if hit.is_none() && part.filter.len > 0 {
                add_one(&self.passed.filter_false_positives);
            }
            if let Some(settled) = self.resolve(segment, &parts, hit.map(|hit| (hit, None)), deleted)? {
                found = Some((settled, Served::LogIndex));
                break;
            }
        }
        self.passed.parts.set(self.passed.parts.get() + passed_over.get() as u64);
        Ok(found)
    }

    /// The later of an entry and a range delete in one part counts.
    fn resolve(
        &self,
        segment: &Segment,
        parts: &Parts,
        hit: Option<MemoryValue>,
        deleted: Option<u64>,
    ) -> Result<Option<Found>, F::Stop> {
        let hit = hit.filter(|(hit, _)| deleted.is_none_or(|offset| hit.place.offset > offset));
        Ok(match hit {
            Some((hit, value)) if hit.kind == Kind::Put => Some(Found::Value(match value {
                Some(value) => value,
                None => {
                    self.has_key.set(true);
                    segment.fetch_value(&parts.header, hit.place, self.fetch)?
                }
            })),
            // Tables alone refer to values elsewhere.
            Some((hit, _)) if hit.kind == Kind::PutApart => {
                let what = "the index of a log has an entry of a table";
                return Err(Error::corruption(&segment.file.path, hit.place.offset, what).into());
            }
            Some(_) => Some(Found::Deleted),
            None => deleted.map(|_| Found::Deleted),
        })
    }

    fn in_table(&self, handle: &Arc<TableHandle>) -> Result<Option<Found>, F::Stop> {
        let Self { env, key, hash, at, fetch, .. } = *self;
        let has_deleted = handle.has_deleted;
        let table = handle.open(&env.tables, &env.files, &env.order, &env.cache)?;
        let alive = |version| env.recovery.is_alive(version);
        let deleted = if has_deleted { table.deleted_at(key, at, &alive, fetch)? } else { None };
        let covered = deleted.map(|_| Found::Deleted);
        if has_deleted && table.meta().entries == 0 {
            return Ok(covered);
        }
        Ok(match table.get(key, hash, at, &alive, fetch)? {
            TableGet::Found { version, .. } if deleted > Some(version) => covered,
            TableGet::Found { kind: Kind::Put, value, .. } => Some(Found::Value(value)),
            TableGet::Found { kind: Kind::PutApart, value, .. } => {
                self.has_key.set(true);
                let mut referred = ReferredLogs::default();
                referred.add_table(handle);
                Some(Found::Value(referred.read(env, key, &value, fetch)?))
            }
            TableGet::Found { .. } => Some(Found::Deleted),
            TableGet::FilteredOut => {
                add_one(&self.passed.filter_skips);
                covered
            }
            TableGet::Absent => {
                if table.has_filter() {
                    add_one(&self.passed.filter_false_positives);
                }
                covered
            }
        })
    }
}

/// The newest entry and the newest range delete, as of one moment: a batch may hold both, in either
/// order, and may be committed at any time. Searches again if a range delete became visible
/// meanwhile.
fn get_in_memory(
    env: &RunEnv,
    memory: &MemoryPart,
    key: &[u8],
    at: u64,
) -> (Option<MemoryValue>, Option<u64>) {
    let tombstone = || newest_tombstone(env, &memory.tombstones(), key, at);
    let mut before = tombstone();
    loop {
        let hit = memory.get_with_value(key, at);
        let after = tombstone();
        if before == after {
            return (hit, after);
        }
        before = after;
    }
}

/// An entry, with its value if that is in memory.
type MemoryValue = (MemoryHit, Option<Bytes>);

/// Searches a part's index: the root, then one block, or a second one if a key's versions fill the
/// first. Only records before `before` in the log count.
pub fn find_indexed<F: Fetch>(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    root: RecordPtr,
    (key, at): (&[u8], u64),
    before: u64,
    fetch: &F,
) -> Result<Option<MemoryHit>, F::Stop> {
    let malformed = |place| segment.malformed_block(place);
    let block_at = |place| segment.fetch_index_block(env, &parts.header, place, fetch);
    let mut roots = BlockCursor::new(block_at(root)?, env.order.clone());
    roots.seek(key).map_err(malformed(root))?;
    while roots.entry().is_some() {
        let place = decode_place(&mut Decoder::new(&roots.value())).map_err(malformed(root))?;
        let mut block = BlockCursor::new(block_at(place)?, env.order.clone());
        block.seek_version(key, at).map_err(malformed(place))?;
        while let Some(entry) = block.entry() {
            if env.order.compare(entry.key, key) != Ordering::Equal {
                return Ok(None);
            }
            if env.recovery.is_alive(entry.version) {
                let (kind, version) = (entry.kind, entry.version);
                let at = decode_place(&mut Decoder::new(&block.value())).map_err(malformed(place))?;
                if at.offset < before {
                    return Ok(Some(MemoryHit { kind, version, place: at }));
                }
            }
            block.next().map_err(malformed(place))?;
        }
        roots.next().map_err(malformed(root))?;
    }
    Ok(None)
}

/// Searches a part without an index from end to end (EvenDB §3.3).
pub fn search_part(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    part: &IndexedPart,
    key: &[u8],
    at: u64,
) -> Result<Option<MemoryHit>> {
    let mut newest: Option<MemoryHit> = None;
    segment.scan_part(&parts.header, part, |place, op| {
        let counts = op.version <= at && env.recovery.counts(parts.header.epoch, op.version, op.batch);
        if op.kind != Kind::DeleteRange && counts && env.order.compare(op.key, key) == Ordering::Equal {
            // Later in the log is newer.
            newest = Some(MemoryHit { kind: op.kind, version: op.version, place });
        }
        Ok(())
    })?;
    Ok(newest)
}
