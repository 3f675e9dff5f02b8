//! The entries of a stack as one merged walk, with the range deletes that apply to them.

use crate::fetch::Directly;
use crate::log::index::memory_part::{MemoryCursor, MemoryPart, RecordPtr};
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::read::ahead::Reads;
use crate::log::read::cursor::IndexedCursor;
use crate::log::read::learn;
use crate::log::read::pass::{LogWalk, OnePass};
use crate::log::read::view::{self, ViewCursor};
use crate::merge::{MergeCursor, SkippingCursor, SpannedCursor};
use crate::read_ahead::BytesRead;
use crate::run::deleted_stretches::DeletedStretches;
use crate::run::dropped_ranges::DroppedRange;
use crate::run::env::RunEnv;
use crate::run::referred::{Copying, PlacedCursor, ReferredLogs, ReferringCursor, are_most};
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::{DeletedCursor, DeletedRange, Table};
use crate::types::entry::{EntryCursor, Kind};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// The range deletes of one source.
struct SourceTombstones {
    source: usize,
    span: Arc<Span>,
    tombstones: RangeDeletes,
    /// Those of a table that a scan asks for by key.
    table: Option<DeletedCursor>,
    /// The same as `tombstones`, for scans that ask for many keys.
    stretches: Option<DeletedStretches>,
    /// Number of places at which a scan has looked for deletes of its keys, before there were stretches.
    looked: usize,
}

impl SourceTombstones {
    /// True if one of the deletes covers the key, is seen by a snapshot of version `at`, and stands
    /// after `position` in the log.
    fn deletes(&mut self, env: &RunEnv, key: &[u8], at: u64, position: Option<u64>) -> Result<bool> {
        let (order, recovery) = (&env.order, &env.recovery);
        if !self.span.contains(order, key) {
            return Ok(false);
        }
        let is_alive = |version| recovery.is_alive(version);
        let is_behind = |offset: u64| position.is_none_or(|position| offset > position);
        if let Some(table) = &mut self.table
            && table.newest(key, at, &is_alive)?.is_some_and(is_behind)
        {
            return Ok(true);
        }
        let tombstones = &self.tombstones;
        if self.stretches.as_ref().is_some_and(|stretches| stretches.at != at) {
            self.stretches = None;
        }
        // To cut all of them pays for scans of many keys only.
        if self.stretches.is_none() && self.looked < tombstones.len() {
            self.looked += tombstones.runs();
            let near = tombstones.near(order, key).inspect(|_| self.looked += 1);
            let mut covering = near.filter(|t| t.is_visible(at) && is_alive(t.version));
            return Ok(covering.any(|t| is_behind(t.offset) && t.covers(order, key)));
        }
        let cut = || DeletedStretches::new(order, tombstones.iter(), at, is_alive);
        Ok(self.stretches.get_or_insert_with(cut).covers(order, key, position))
    }
}

/// The purpose of a walk.
enum Walk {
    /// Reads pairs, few or many. Asks a table for deletes of the keys that it meets.
    Scan,
    /// Reads versions, and needs all range deletes.
    Check,
    /// Reads everything once, adds the bytes to these, and needs all range deletes.
    Job(BytesRead, Copying),
}

/// A merged walk over files of a chunk.
pub struct Merged {
    pub cursor: MergeCursor,
    /// Number of its sources that belong to level 0: the logs above all tables, or the runs that the caller
    /// counts.
    pub in_level0: usize,
    env: Arc<RunEnv>,
    tombstones: Vec<SourceTombstones>,
    /// Counts reads of logs, except logs that are read at once.
    reads: Reads,
    /// The logs that values stand in.
    referred: Arc<ReferredLogs>,
    copying: Copying,
}

/// A range delete that covers a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covering {
    pub version: u64,
    pub source: usize,
    pub offset: u64,
}

impl Merged {
    /// Merges the files of `funk` for which `take` is true. `once` is for jobs that walk the files
    /// once and should leave no trace in the cache.
    pub fn new(env: &Arc<RunEnv>, funk: &RunStack, once: bool, take: impl Fn(&Run) -> bool) -> Result<Self> {
        let walk = if once { Walk::Job(BytesRead::default(), Copying::ALL) } else { Walk::Check };
        Self::build(env, funk, walk, None, take, |_, _| false)
    }

    /// Merges the files that a snapshot of version `at` reads, without the ranges of them that it sees
    /// dropped.
    pub fn at(env: &Arc<RunEnv>, funk: &RunStack, at: u64) -> Result<Self> {
        Self::build(env, funk, Walk::Scan, None, |run| run.is_visible(at), |_, range| range.version <= at)
    }

    /// The same where this number of the first files is level 0.
    pub fn above_groups(env: &Arc<RunEnv>, funk: &RunStack, level0: usize, at: u64) -> Result<Self> {
        let is_left_out = |_: &Run, range: &DroppedRange| range.version <= at;
        Self::build(env, funk, Walk::Scan, Some(level0), |run| run.is_visible(at), is_left_out)
    }

    /// Merges the files, and their dropped ranges, that one of these snapshots or the newest state needs.
    /// For a job that walks the files once, and adds the bytes of the blocks and records that it reads to
    /// `read`. Long values that `copying` leaves in their logs come as references.
    pub fn needed(
        env: &Arc<RunEnv>,
        funk: &RunStack,
        (read, copying): (&BytesRead, Copying),
        versions: &[u64],
    ) -> Result<Self> {
        let is_gone = |run: &Run, range: &DroppedRange| !run.is_range_needed(range, versions);
        let walk = Walk::Job(read.clone(), copying);
        Self::build(env, funk, walk, None, |run| run.is_needed(versions), is_gone)
    }

    fn build(
        env: &Arc<RunEnv>,
        funk: &RunStack,
        walk: Walk,
        level0: Option<usize>,
        take: impl Fn(&Run) -> bool,
        is_left_out: impl Fn(&Run, &DroppedRange) -> bool,
    ) -> Result<Self> {
        let is_scan = matches!(walk, Walk::Scan);
        let (once, copying) =
            if let Walk::Job(read, copying) = walk { (Some(read), copying) } else { (None, Copying::ALL) };
        let mut referred = ReferredLogs::default();
        let mut sources = Sources {
            order: env.order.clone(),
            cursors: Vec::new(),
            tombstones: Vec::new(),
            left_out: Arc::default(),
        };
        let reads = Reads::default();
        let mut in_level0 = None;
        for (place, file) in funk.files.iter().enumerate().filter(|(_, file)| take(file)) {
            if level0.map_or(file.log().is_none(), |level0| place >= level0) {
                in_level0.get_or_insert(sources.cursors.len());
            }
            let dropped = file.dropped_ranges.iter().flat_map(|ranges| ranges.list());
            let (left_out, others): (Vec<_>, Vec<_>) = dropped.partition(|range| is_left_out(file, range));
            sources.left_out = left_out.into_iter().map(|range| range.span.clone()).collect();
            match &file.source {
                Source::Log(segment) => {
                    let parts = segment.parts(env)?;
                    parts.check_whole()?;
                    let one_pass = |read: &BytesRead| {
                        let at_once =
                            segment.len() <= env.options().at_once_bytes && 2 * file.bytes() >= segment.len();
                        OnePass::new(file.span.clone(), at_once, read.clone())
                    };
                    let walk = |once| {
                        Arc::new(LogWalk {
                            env: env.log.clone(),
                            segment: segment.clone(),
                            parts: parts.clone(),
                            once,
                            reads: reads.clone(),
                        })
                    };
                    let mut log = walk(once.as_ref().map(one_pass));
                    let longest = env.options().longest_inline;
                    let mut refers_beyond = None;
                    if let Some(read) = &once
                        && !copying.is_due(&segment.file)
                        && are_most(&walk(None), longest, copying.rest)?
                    {
                        let span = file.span.clone();
                        log = walk(Some(OnePass::without_longer(span, longest, read.clone())));
                        referred.add_log(&segment.file);
                        refers_beyond = Some(longest);
                    }
                    sources.add_log(&log, &file.span, refers_beyond)?;
                }
                Source::Table(handle) => {
                    referred.add_table(handle);
                    let table = handle.open(&env.tables, &env.files, &env.order, &env.cache)?;
                    let by_key = (handle.has_deleted && is_scan).then(|| DeletedCursor::new(table.clone()));
                    let mut deletes = match handle.has_deleted && !is_scan {
                        true => deletes_of(env, &table, &file.span)?,
                        false => Vec::new(),
                    };
                    let whole = file.dropped.iter().map(|dropped| (file.span.bounds(), dropped.version));
                    let parts = others.iter().map(|range| (range.span.bounds(), range.version));
                    let parts = parts.filter(|_| once.is_some());
                    deletes.extend(whole.chain(parts).map(|(bounds, version)| RangeTombstone {
                        bounds,
                        version,
                        offset: u64::MAX,
                        cell: None,
                    }));
                    let cursor = match &once {
                        Some(read) => table.cursor_without_cache().counting(read.clone()),
                        None => table.cursor(),
                    };
                    sources.add(cursor, &file.span, RangeDeletes::new(&env.order, deletes), by_key);
                }
            }
        }
        Ok(Self {
            in_level0: in_level0.unwrap_or(sources.cursors.len()),
            cursor: MergeCursor::new(sources.order, sources.cursors),
            env: env.clone(),
            tombstones: sources.tombstones,
            reads,
            referred: Arc::new(referred),
            copying,
        })
    }

    /// All range deletes, each with the span of its file. In a scan, those of tables are not among them.
    pub fn range_deletes(&self) -> impl Iterator<Item = (&Span, &RangeTombstone)> {
        self.tombstones.iter().flat_map(|source| source.tombstones.iter().map(|t| (&*source.span, &**t)))
    }

    /// Adds the number of log reads to the scan's counter and returns it. A table's records are
    /// read by the block; a log's records are read one by one unless they are adjacent.
    pub fn count_log_reads(&self) -> u64 {
        let reads = self.reads.load(Relaxed);
        self.env.counters.scan_log_reads.add(reads);
        reads
    }

    pub fn order(&self) -> &KeyOrder {
        &self.env.order
    }

    pub fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    /// The range deletes that cover `key` and are older or equal to `at`. In a scan, those of tables are not
    /// among them.
    pub fn covering(&self, key: &[u8], at: u64) -> impl Iterator<Item = Covering> {
        let order = &self.env.order;
        self.tombstones.iter().filter(|source| source.span.contains(order, key)).flat_map(move |source| {
            let counts = move |t: &&RangeTombstone| t.is_visible(at) && self.env.recovery.is_alive(t.version);
            source.tombstones.covering(order, key).filter(counts).map(|t| Covering {
                version: t.version,
                source: source.source,
                offset: t.offset,
            })
        })
    }

    /// True if a range delete that counts at `at` is newer than the entry of `key` at this place.
    pub fn is_deleted(&mut self, key: &[u8], at: u64, source: usize, position: u64) -> Result<bool> {
        canary!(RANGE_DELETE_MISSED => return Ok(false));
        for deletes in &mut self.tombstones {
            let position = match deletes.source.cmp(&source) {
                Ordering::Less => None,
                Ordering::Equal => Some(position),
                Ordering::Greater => break,
            };
            if deletes.deletes(&self.env, key, at, position)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub fn is_alive(&self, version: u64) -> bool {
        self.env.recovery.is_alive(version)
    }

    /// The logs that values stand in.
    pub fn referred_logs(&self) -> Arc<ReferredLogs> {
        self.referred.clone()
    }

    /// The value that an entry of `key` with this value refers to.
    pub fn read_referred(&self, key: &[u8], value: &[u8]) -> Result<Bytes> {
        self.referred.read(&self.env, key, value, &Directly)
    }

    /// The kind and the value of the present entry, of this kind, as a merge passes them on.
    pub fn pass_on(&mut self, key: &[u8], kind: Kind) -> Result<(Kind, Bytes)> {
        if kind != Kind::PutApart {
            return Ok((kind, if kind == Kind::Put { self.cursor.value()? } else { Bytes::new() }));
        }
        let reference = self.cursor.value()?;
        let (_, log) = self.referred.resolve(&reference)?;
        if !self.copying.is_due(log) {
            self.env.counters.values_referred.add(1);
            return Ok((kind, reference));
        }
        self.env.counters.values_copied.add(1);
        Ok((Kind::Put, self.referred.read(&self.env, key, &reference, &Directly)?))
    }
}

/// The range deletes of a table that overlap the span, without those that recovery has undone. The
/// version is their place among the entries of the table.
fn deletes_of(env: &RunEnv, table: &Table, span: &Span) -> Result<Vec<RangeTombstone>> {
    let mut deletes = Vec::new();
    for DeletedRange { bounds, versions } in table.deleted_within(span)? {
        let alive = versions.into_iter().filter(|&version| env.recovery.is_alive(version));
        deletes.extend(alive.map(|version| RangeTombstone {
            bounds: bounds.clone(),
            version,
            offset: version,
            cell: None,
        }));
    }
    Ok(deletes)
}

/// The sources of a merge, newest first.
struct Sources {
    order: KeyOrder,
    cursors: Vec<Box<dyn EntryCursor>>,
    tombstones: Vec<SourceTombstones>,
    /// The ranges of the present file that are left out.
    left_out: Arc<[Span]>,
}

impl Sources {
    fn add(
        &mut self,
        cursor: impl EntryCursor + 'static,
        span: &Arc<Span>,
        tombstones: RangeDeletes,
        table: Option<DeletedCursor>,
    ) {
        if !tombstones.is_empty() || table.is_some() {
            let (source, span) = (self.cursors.len(), span.clone());
            let (stretches, looked) = (None, 0);
            self.tombstones.push(SourceTombstones { source, span, tombstones, table, stretches, looked });
        }
        let cursor = SpannedCursor::new(cursor, span.clone(), self.order.clone());
        self.cursors.push(match self.left_out.is_empty() {
            true => Box::new(cursor),
            false => Box::new(SkippingCursor::new(cursor, self.left_out.clone(), self.order.clone())),
        });
    }

    /// Adds a cursor over a part of a log. It shows longer records than `refers_beyond` as references.
    fn add_part(
        &mut self,
        log: &LogWalk,
        cursor: impl PlacedCursor + 'static,
        span: &Arc<Span>,
        deletes: RangeDeletes,
        refers_beyond: Option<u32>,
    ) {
        match refers_beyond {
            Some(longest) => {
                let cursor = ReferringCursor::new(cursor, log.segment.clone(), longest);
                self.add(cursor, span, deletes, None);
            }
            None => self.add(cursor, span, deletes, None),
        }
    }

    fn add_log(&mut self, log: &Arc<LogWalk>, span: &Arc<Span>, refers_beyond: Option<u32>) -> Result<()> {
        let LogWalk { env, segment, parts, once, .. } = &**log;
        if let Some(memory) = &parts.memory {
            let deletes = RangeDeletes::clone(&memory.tombstones());
            self.add_part(log, memory_cursor(log, memory.clone()), span, deletes, refers_beyond);
        }
        // A job that passes once gains nothing by a view.
        let view = if once.is_some() { None } else { view::of(log)? };
        if let Some(view) = view {
            let deletes = RangeDeletes::joined(parts.indexed.iter().map(|part| &part.tombstones));
            self.add(ViewCursor::new(log.clone(), view), span, deletes, None);
            return Ok(());
        }
        let mut read = 0;
        for (number, part) in parts.indexed.iter().enumerate() {
            // A job that passes once reads the log and not its index.
            if once.is_none() {
                learn::learn(env, segment, &parts.header, part, &Directly)?;
            }
            if part.is_outside(&env.order, span) {
                continue;
            }
            read += 1;
            if part.root.len > 0 {
                let cursor = IndexedCursor::new(log.clone(), number);
                self.add_part(log, cursor, span, part.tombstones.clone(), refers_beyond);
            } else if part.entries > 0 || !part.tombstones.is_empty() {
                // Without an index the part is sorted here and now.
                let sorted = env.memory_part();
                segment.scan_part(&parts.header, part, |place, op| {
                    if op.kind != Kind::DeleteRange
                        && env.recovery.counts(parts.header.epoch, op.version, op.batch)
                    {
                        let inserted = sorted.try_insert(op.key, op.version, op.kind, place);
                        inserted.map_err(|full| {
                            Error::corruption(&segment.file.path, place.offset, full.to_string())
                        })?;
                    }
                    Ok(())
                })?;
                let cursor = memory_cursor(log, Arc::new(sorted));
                self.add_part(log, cursor, span, part.tombstones.clone(), refers_beyond);
            }
        }
        env.counters.parts_passed_over.add((parts.indexed.len() - read) as u64);
        Ok(())
    }
}

fn memory_cursor(
    log: &Arc<LogWalk>,
    memory: Arc<MemoryPart>,
) -> MemoryCursor<impl FnMut(RecordPtr) -> Result<Bytes> + Send + use<>> {
    let log = log.clone();
    MemoryCursor::new(memory, move |place| {
        log.reads.fetch_add(1, Relaxed);
        if let Some(once) = &log.once {
            once.read.fetch_add(u64::from(place.len), Relaxed);
        }
        log.segment.read_value(&log.parts.header, place)
    })
}
