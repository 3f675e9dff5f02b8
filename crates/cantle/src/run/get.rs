//! Gets: looking up one key in a stack of runs, through the indexes of its logs and tables.

use super::run::{Run, Source};
use super::stack::RunStack;
use crate::block::BlockCursor;
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
use crate::sync::time::now;
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
    pub fn get(&self, env: &RunEnv, key: &[u8], hash: u64, at: u64) -> Result<Answer> {
        get(env, self.files.iter(), key, hash, at)
    }
}

/// Looks up `key`, which has this hash, at version `at`, in runs of which the newest comes first.
pub fn get<'a>(
    env: &RunEnv,
    runs: impl Iterator<Item = &'a Run>,
    key: &[u8],
    hash: u64,
    at: u64,
) -> Result<Answer> {
    let counters = &env.counters;
    let begun = now();
    let mut asked = 0;
    for file in runs {
        let order = &env.order;
        if !file.span.contains(order, key) || !file.is_visible(at) || file.is_dropped_at(order, key, at) {
            continue;
        }
        asked += 1;
        let found = match &file.source {
            Source::Log(segment) => get_in_log(env, segment, key, hash, at)?,
            Source::Table(table) => {
                get_in_table(env, table, key, hash, at)?.map(|found| (found, Served::Table))
            }
        };
        if let Some((found, served)) = found {
            let value = match found {
                Found::Value(value) => Some(value),
                Found::Deleted => None,
            };
            let counter = match (&value, served) {
                (None, _) => &counters.gets_absent,
                (_, Served::LogMemory) => &counters.gets_log_memory,
                (_, Served::LogIndex) => &counters.gets_log_index,
                (_, Served::Table) => &counters.gets_table,
            };
            counter.add_since(begun);
            counters.get_runs.add(asked);
            return Ok(Answer { value, served: Some(served) });
        }
    }
    counters.gets_absent.add_since(begun);
    counters.get_runs.add(asked);
    Ok(Answer { value: None, served: None })
}

/// Offset in the log of the newest of `tombstones` that covers `key` and counts at `at`.
pub fn newest_tombstone(env: &RunEnv, tombstones: &RangeDeletes, key: &[u8], at: u64) -> Option<u64> {
    let covering = tombstones.covering(&env.order, key);
    let counting = covering.filter(|t| t.is_visible(at) && env.recovery.is_alive(t.version));
    counting.map(|t| t.offset).max()
}

fn get_in_log(
    env: &RunEnv,
    segment: &Segment,
    key: &[u8],
    hash: u64,
    at: u64,
) -> Result<Option<(Found, Served)>> {
    let parts = segment.parts(env)?;
    let found = parts.memory.as_ref().map(|memory| get_in_memory(env, memory, key, at));
    if let Some(hole) = parts.hole_of(key) {
        // The lost operations hide everything older.
        let offset = |(hit, _): &MemoryValue| hit.place.offset;
        let newest = found.as_ref().and_then(|(hit, deleted)| hit.as_ref().map(offset).max(*deleted));
        if newest.is_none_or(|offset| offset < hole.offset) {
            return Err(hole.error.clone());
        }
    }
    if let Some((hit, deleted)) = found
        && let Some(found) = resolve(segment, &parts, hit, deleted)?
    {
        return Ok(Some((found, Served::LogMemory)));
    }
    let (passed_over, mut found) = (Cell::new(0), None);
    for part in parts.that_may_have(&env.order, key, &passed_over) {
        let deleted = newest_tombstone(env, &part.tombstones, key, at);
        if !segment.may_contain(env, &parts.header, part, hash)? {
            env.counters.filter_skips.add(1);
            if deleted.is_some() {
                found = Some((Found::Deleted, Served::LogIndex));
                break;
            }
            continue;
        }
        let hit = if part.root.len > 0 {
            learn::learn(env, segment, &parts.header, part)?;
            find_indexed(env, segment, &parts, part.root, key, at)?
        } else {
            search_part(env, segment, &parts, part, key, at)?
        };
        if hit.is_none() && part.filter.len > 0 {
            env.counters.filter_false_positives.add(1);
        }
        if let Some(settled) = resolve(segment, &parts, hit.map(|hit| (hit, None)), deleted)? {
            found = Some((settled, Served::LogIndex));
            break;
        }
    }
    env.log.counters.parts_passed_over.add(passed_over.get() as u64);
    Ok(found)
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

/// The later of an entry and a range delete in one part counts.
fn resolve(
    segment: &Segment,
    parts: &Parts,
    hit: Option<MemoryValue>,
    deleted: Option<u64>,
) -> Result<Option<Found>> {
    let hit = hit.filter(|(hit, _)| deleted.is_none_or(|offset| hit.place.offset > offset));
    Ok(match hit {
        Some((hit, value)) if hit.kind == Kind::Put => Some(Found::Value(match value {
            Some(value) => value,
            None => segment.read_value(&parts.header, hit.place)?,
        })),
        // Tables alone refer to values elsewhere.
        Some((hit, _)) if hit.kind == Kind::PutApart => {
            let what = "the index of a log has an entry of a table";
            return Err(Error::corruption(&segment.file.path, hit.place.offset, what));
        }
        Some(_) => Some(Found::Deleted),
        None => deleted.map(|_| Found::Deleted),
    })
}

/// Searches a part's index: the root, then one block, or a second one if a key's versions fill the
/// first.
pub fn find_indexed(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    root: RecordPtr,
    key: &[u8],
    at: u64,
) -> Result<Option<MemoryHit>> {
    find_indexed_before(env, segment, parts, root, (key, at), u64::MAX)
}

/// As [`find_indexed`], limited to records before `before` in the log.
pub fn find_indexed_before(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    root: RecordPtr,
    (key, at): (&[u8], u64),
    before: u64,
) -> Result<Option<MemoryHit>> {
    let malformed = |place| segment.malformed_block(place);
    let mut roots = BlockCursor::new(segment.index_block(env, &parts.header, root)?, env.order.clone());
    roots.seek(key).map_err(malformed(root))?;
    while roots.entry().is_some() {
        let place = decode_place(&mut Decoder::new(&roots.value())).map_err(malformed(root))?;
        let mut block = BlockCursor::new(segment.index_block(env, &parts.header, place)?, env.order.clone());
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

fn get_in_table(
    env: &RunEnv,
    handle: &Arc<TableHandle>,
    key: &[u8],
    hash: u64,
    at: u64,
) -> Result<Option<Found>> {
    let has_deleted = handle.has_deleted;
    let table = handle.open(&env.tables, &env.files, &env.order, &env.cache)?;
    let alive = |version| env.recovery.is_alive(version);
    let deleted = if has_deleted { table.deleted_at(key, at, &alive)? } else { None };
    let covered = deleted.map(|_| Found::Deleted);
    if has_deleted && table.meta().entries == 0 {
        return Ok(covered);
    }
    Ok(match table.get(key, hash, at, &alive)? {
        TableGet::Found { version, .. } if deleted > Some(version) => covered,
        TableGet::Found { kind: Kind::Put, value, .. } => Some(Found::Value(value)),
        TableGet::Found { kind: Kind::PutApart, value, .. } => {
            let mut referred = ReferredLogs::default();
            referred.add_table(handle);
            Some(Found::Value(referred.read(env, key, &value)?))
        }
        TableGet::Found { .. } => Some(Found::Deleted),
        TableGet::FilteredOut => {
            env.counters.filter_skips.add(1);
            covered
        }
        TableGet::Absent => {
            env.counters.filter_false_positives.add(1);
            covered
        }
    })
}
