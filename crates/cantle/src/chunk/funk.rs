//! A chunk's files (the paper's *funk*): log segments, newest first, and the sorted tables beneath them.
//!
//! A funk is immutable and replaced as a whole (`Chunk::funk`), so that readers need no lock: whoever holds one
//! sees everything that the chunk held when it was current, and its active segment goes on growing under him.
//! Order is recency: what an earlier source says of a key hides what later ones say.

use crate::block::BlockCursor;
use crate::files::Totals;
use crate::format::codec::Decoder;
use crate::log::index::indexed_part::{IndexedPart, decode_place};
use crate::log::index::memory_part::{MemoryHit, MemoryPart, Place};
use crate::log::index::parts::Parts;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::read::learn;
use crate::log::segment::Segment;
use crate::mvcc::CommitCell;
use crate::run::env::RunEnv;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::table::TableGet;
use crate::table::TableHandle;
use crate::types::entry::Kind;
use crate::types::error::Result;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Everything in a file was deleted, by a range delete that covered the whole chunk.
#[derive(Debug, Clone)]
pub struct Dropped {
    pub version: u64,
    /// The spanning batch that dropped it, or 0.
    pub batch: u64,
    pub cell: Option<CommitCell>,
}

impl Dropped {
    pub fn is_visible(&self, at: u64) -> bool {
        self.version <= at && self.cell.as_ref().is_none_or(CommitCell::is_committed)
    }
}

/// What a get found.
#[derive(Debug)]
pub struct Answer {
    pub value: Option<Bytes>,
    /// What the key, or what deleted it, was found in.
    pub served: Option<Served>,
}

/// What is in a file, as far as it belongs to this chunk.
#[derive(Clone)]
pub enum Source {
    Log(Arc<Segment>),
    Table(Arc<TableHandle>),
}

/// A file that the chunk reads, alone or with others.
#[derive(Clone)]
pub struct FileRef {
    pub source: Source,
    /// Only keys in here count: files may be shared.
    pub span: Arc<Span>,
    pub dropped: Option<Dropped>,
    /// This chunk's share of a shared file in bytes; `None` for all of it.
    pub share_bytes: Option<u64>,
}

impl FileRef {
    pub fn log(&self) -> Option<&Arc<Segment>> {
        match &self.source {
            Source::Log(segment) => Some(segment),
            Source::Table(_) => None,
        }
    }

    /// Whether it is this log.
    pub fn is_of(&self, segment: &Segment) -> bool {
        self.log().is_some_and(|log| std::ptr::eq(&**log, segment))
    }

    pub fn file(&self) -> &Arc<crate::files::StoreFile> {
        match &self.source {
            Source::Log(segment) => &segment.file,
            Source::Table(table) => &table.file,
        }
    }

    /// The same file for a chunk that has fewer of its keys, and so many of its bytes.
    pub fn part(&self, span: Span, share_bytes: u64) -> Self {
        Self { span: span.into(), share_bytes: Some(share_bytes), ..self.clone() }
    }

    pub fn bytes(&self) -> u64 {
        self.share_bytes.unwrap_or_else(|| match &self.source {
            Source::Log(segment) => segment.len(),
            Source::Table(table) => table.file.bytes(),
        })
    }

    /// A chunk refers to the file from now on.
    pub fn retain(&self, totals: &Totals) {
        self.file().retain();
        if let Some(share_bytes) = self.share_bytes {
            let change = self.file().claims.claim(share_bytes, self.file().bytes());
            totals.unclaimed_bytes.fetch_add(change, Relaxed);
        }
    }

    /// A chunk no longer refers to the file; true when that made it obsolete.
    pub fn release(&self, totals: &Totals) -> bool {
        let claims = &self.file().claims;
        let mut change = claims.unclaim(self.share_bytes.unwrap_or(0));
        let last = self.file().release();
        if last {
            change += claims.end();
        }
        totals.unclaimed_bytes.fetch_add(change, Relaxed);
        last
    }

    /// Of what nobody claims of the file, as much as this chunk's share is of all shares: it keeps that on disk.
    fn unclaimed_bytes(&self) -> u64 {
        let Some(share_bytes) = self.share_bytes else { return 0 };
        let unclaimed = self.file().claims.unclaimed_bytes();
        let claimed = self.file().bytes().saturating_sub(unclaimed).max(1);
        (unclaimed as f64 * (share_bytes as f64 / claimed as f64).min(1.0)) as u64
    }

    /// Whether one of these snapshots reads from it: always, if it was not dropped.
    pub fn is_needed(&self, open_versions: &[u64]) -> bool {
        let Some(dropped) = &self.dropped else { return true };
        let base_version = match &self.source {
            Source::Log(segment) => segment.loaded().map_or(0, |parts| parts.header.base_version),
            Source::Table(table) => table.base_version,
        };
        let first = open_versions.partition_point(|&at| at < base_version);
        open_versions.get(first).is_some_and(|&at| at < dropped.version)
    }

    /// Whether a read at `at` must look here for keys of the span.
    pub fn is_visible(&self, at: u64) -> bool {
        self.dropped.as_ref().is_none_or(|dropped| !dropped.is_visible(at))
    }
}

/// The files of a chunk, newest first: logs, then tables.
#[derive(Clone, Default)]
pub struct Funk {
    pub files: Vec<FileRef>,
}

/// How much a funk's files hold.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FunkSizes {
    pub log_bytes: u64,
    pub table_bytes: u64,
    pub tables: u32,
    /// Keys and values of all puts that were not dropped.
    pub user_bytes: u64,
    /// Of these, the part that is estimated to be overwritten or deleted.
    pub garbage_bytes: u64,
    /// Files that were dropped whole.
    pub dropped_bytes: u64,
    /// What nobody has of shared files, divided among those who keep them.
    pub unclaimed_bytes: u64,
    /// What logs take beside keys and values, and tables do not: a rebalance frees it.
    pub overhead_bytes: u64,
    /// Puts, about.
    pub entries: u64,
}

/// A pair in a table takes about so many bytes beside its key and value.
const TABLE_PAIR_BYTES: u64 = 12;

impl FunkSizes {
    pub fn add(&mut self, other: &Self) {
        self.log_bytes = self.log_bytes.saturating_add(other.log_bytes);
        self.table_bytes = self.table_bytes.saturating_add(other.table_bytes);
        self.tables = self.tables.saturating_add(other.tables);
        self.user_bytes = self.user_bytes.saturating_add(other.user_bytes);
        self.garbage_bytes = self.garbage_bytes.saturating_add(other.garbage_bytes);
        self.dropped_bytes = self.dropped_bytes.saturating_add(other.dropped_bytes);
        self.unclaimed_bytes = self.unclaimed_bytes.saturating_add(other.unclaimed_bytes);
        self.entries = self.entries.saturating_add(other.entries);
        self.overhead_bytes = self.overhead_bytes.saturating_add(other.overhead_bytes);
    }
}

/// What a get found.
pub enum Found {
    Value(Bytes),
    Deleted,
}

/// Where a get was served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    LogMemory,
    LogIndex,
    Table,
}

impl Funk {
    pub fn logs(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.files.iter().filter_map(FileRef::log)
    }

    pub fn sizes(&self) -> FunkSizes {
        let mut sizes = FunkSizes::default();
        for file in &self.files {
            let bytes = file.bytes();
            sizes.unclaimed_bytes = sizes.unclaimed_bytes.saturating_add(file.unclaimed_bytes());
            match &file.source {
                Source::Log(segment) => {
                    sizes.log_bytes = sizes.log_bytes.saturating_add(bytes);
                    if file.dropped.is_none() {
                        // A shared log's contents are taken for evenly spread.
                        let share =
                            |total: u64| (total as f64 * bytes as f64 / segment.len().max(1) as f64) as u64;
                        let user_bytes = share(segment.user_bytes.load(Relaxed));
                        let entries = share(segment.puts.load(Relaxed));
                        let garbage_bytes = share(segment.garbage_bytes.load(Relaxed));
                        let sorted_bytes =
                            user_bytes.saturating_add(entries.saturating_mul(TABLE_PAIR_BYTES));
                        sizes.user_bytes = sizes.user_bytes.saturating_add(user_bytes);
                        sizes.garbage_bytes = sizes.garbage_bytes.saturating_add(garbage_bytes);
                        sizes.entries = sizes.entries.saturating_add(entries);
                        sizes.overhead_bytes =
                            sizes.overhead_bytes.saturating_add(bytes.saturating_sub(sorted_bytes));
                    }
                }
                Source::Table(table) => {
                    sizes.table_bytes = sizes.table_bytes.saturating_add(bytes);
                    sizes.tables += 1;
                    if file.dropped.is_none() {
                        let share = |total: u64| {
                            (total as f64 * bytes as f64 / table.file.bytes().max(1) as f64) as u64
                        };
                        sizes.user_bytes = sizes.user_bytes.saturating_add(share(table.user_bytes));
                        sizes.garbage_bytes = sizes.garbage_bytes.saturating_add(share(table.stale_bytes));
                        sizes.entries = sizes.entries.saturating_add(share(table.entries));
                    }
                }
            }
            if file.dropped.is_some() {
                sizes.dropped_bytes = sizes.dropped_bytes.saturating_add(bytes);
            }
        }
        sizes
    }

    /// What there is of `key`, which has this hash, at version `at`, newest source first.
    pub fn get(&self, env: &RunEnv, key: &[u8], hash: u64, at: u64) -> Result<Answer> {
        let counters = &env.counters;
        let begun = now();
        for file in &self.files {
            if !file.span.contains(&env.order, key) || !file.is_visible(at) {
                continue;
            }
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
                return Ok(Answer { value, served: Some(served) });
            }
        }
        counters.gets_absent.add_since(begun);
        Ok(Answer { value: None, served: None })
    }
}

/// The newest of `tombstones` that covers `key` and counts at `at`: where it stands in its log.
pub fn newest_tombstone(env: &RunEnv, tombstones: &[RangeTombstone], key: &[u8], at: u64) -> Option<u64> {
    let covering = |t: &&RangeTombstone| {
        t.is_visible(at) && env.recovery.is_alive(t.version) && t.covers(&env.order, key)
    };
    tombstones.iter().filter(covering).map(|t| t.offset).max()
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
        // What is lost there hides everything older.
        let newest = found.and_then(|(hit, deleted)| hit.map(|hit| hit.place.offset).max(deleted));
        if newest.is_none_or(|offset| offset < hole.offset) {
            return Err(hole.error.clone());
        }
    }
    if let Some((hit, deleted)) = found
        && let Some(found) = settle(segment, &parts, hit, deleted)?
    {
        return Ok(Some((found, Served::LogMemory)));
    }
    let (mut asked, mut looked_at) = (0, parts.indexed.len());
    let mut found = None;
    for (number, part) in parts.indexed.iter().enumerate() {
        if part.lacks(&env.order, key) {
            continue;
        }
        asked += 1;
        let deleted = newest_tombstone(env, &part.tombstones, key, at);
        if !segment.may_contain(env, &parts.header, part, hash)? {
            env.counters.filter_skips.add(1);
            if deleted.is_some() {
                (found, looked_at) = (Some((Found::Deleted, Served::LogIndex)), number + 1);
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
        if let Some(settled) = settle(segment, &parts, hit, deleted)? {
            (found, looked_at) = (Some((settled, Served::LogIndex)), number + 1);
            break;
        }
    }
    env.log.counters.parts_passed_over.add((looked_at - asked) as u64);
    Ok(found)
}

/// The newest entry and the newest range delete of one moment: a batch may hold both, in either order, and may be
/// committed at any time. Looks again if a range delete shows meanwhile.
fn get_in_memory(env: &RunEnv, memory: &MemoryPart, key: &[u8], at: u64) -> (Option<MemoryHit>, Option<u64>) {
    let tombstone = || newest_tombstone(env, &memory.tombstones(), key, at);
    let mut before = tombstone();
    loop {
        let hit = memory.get(key, at);
        let after = tombstone();
        if before == after {
            return (hit, after);
        }
        before = after;
    }
}

/// Of an entry and a range delete in one part, the later counts.
fn settle(
    segment: &Segment,
    parts: &Parts,
    hit: Option<MemoryHit>,
    deleted: Option<u64>,
) -> Result<Option<Found>> {
    let hit = hit.filter(|hit| deleted.is_none_or(|offset| hit.place.offset > offset));
    Ok(match hit {
        Some(hit) if hit.kind == Kind::Put => {
            Some(Found::Value(segment.read_value(&parts.header, hit.place)?))
        }
        Some(_) => Some(Found::Deleted),
        None => deleted.map(|_| Found::Deleted),
    })
}

/// Searches a part's index: the root, then one block, or a second one where a key's versions fill the first.
pub fn find_indexed(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    root: Place,
    key: &[u8],
    at: u64,
) -> Result<Option<MemoryHit>> {
    find_indexed_before(env, segment, parts, root, (key, at), u64::MAX)
}

/// The same, of what stands before `before` in the log.
pub fn find_indexed_before(
    env: &RunEnv,
    segment: &Segment,
    parts: &Parts,
    root: Place,
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

fn get_in_table(env: &RunEnv, table: &TableHandle, key: &[u8], hash: u64, at: u64) -> Result<Option<Found>> {
    let table = table.open(&env.tables, &env.files, &env.order, &env.cache)?;
    match table.get(key, hash, at, &|version| env.recovery.is_alive(version))? {
        TableGet::Found { kind: Kind::Put, value, .. } => Ok(Some(Found::Value(value))),
        TableGet::Found { .. } => Ok(Some(Found::Deleted)),
        TableGet::FilteredOut => {
            env.counters.filter_skips.add(1);
            Ok(None)
        }
        TableGet::Absent => {
            env.counters.filter_false_positives.add(1);
            Ok(None)
        }
    }
}
