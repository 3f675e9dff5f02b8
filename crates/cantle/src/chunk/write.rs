//! Writes (EvenDB §3.3): the locks of the chunks concerned, the logs, and publication.
//!
//! The steps and their order are those of the layout trait (`layout`). Specific to this layout: a
//! range delete that covers a whole chunk becomes an edit of the manifest, at a cost that does not
//! depend on the chunk's content. If it covers a part of a chunk, it becomes a record in that
//! chunk's log.

use super::Chunks;
use super::chunk_write::{ChunkWrite, Effect, Ops, RecordPtrs};
use crate::chunk::chunk::Chunk;
use crate::chunk::cleaning::Cleaning;
use crate::chunk::edit::{ChunkEdit, ChunkRecord};
use crate::files::Promise;
use crate::filter::bloom;
use crate::layout::written_rows::{enter, has_ranges, leave, update};
use crate::layout::{Op, PreparedWrite, ReadSet, Stamp};
use crate::log::append::with_record_buffer;
use crate::log::op::record::Link;
use crate::log::segment::Segment;
use crate::mvcc::{CommitCell, KeySpan};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, atomic::Ordering::Acquire};
use crate::types::bounds::Bounds;
use crate::types::durability::Durability;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// Maximum number of operations of a batch that are processed in their own order after the write.
/// Longer batches are processed in the order of filters.
const ANY_ORDER_OPS_MAX: usize = 1024;

/// A write in progress.
pub struct Write<'a> {
    chunks: &'a Chunks,
    ops: &'a [Op<'a>],
    reads: &'a ReadSet,
    units: SmallVec<[ChunkWrite; 1]>,
    /// The chunks written to, for the work after the locks are released.
    written: SmallVec<[WrittenChunk; 1]>,
    cleaning: Option<Cleaning>,
    /// True once the edit with the dropped chunks was appended to the manifest.
    drop_told: bool,
    /// Space promised for buffered records.
    promise: Option<Promise>,
}

/// The operations written to one chunk.
struct WrittenChunk {
    chunk: Arc<Chunk>,
    /// Indexes of the operations, and their places in the log.
    ops: Ops,
    places: RecordPtrs,
    version: u64,
    /// `None` if the chunk was dropped.
    segment: Option<Arc<Segment>>,
}

impl<'a> Write<'a> {
    pub fn prepare(chunks: &'a Chunks, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Self> {
        if chunks.released.load(Acquire) {
            return Err(Error::NoKeyspace("(dropped)".into()));
        }
        let mut write = Self {
            chunks,
            ops,
            reads,
            units: SmallVec::new(),
            written: SmallVec::new(),
            cleaning: None,
            drop_told: false,
            promise: None,
        };
        // Repeated until no chunk was split or merged between finding and locking it.
        while !write.lock()? {
            if chunks.released.load(Acquire) {
                return Err(Error::NoKeyspace("(dropped)".into()));
            }
        }
        chunks.context.order.check()?;
        if chunks.context.substrate.durability == Durability::Buffered {
            // Memory holds no more records than there is space for.
            write.promise = Some(chunks.context.substrate.reserve.promise(write.buffered_bytes_max())?);
        }
        Ok(write)
    }

    /// Finds and locks the chunks; false if one of them was replaced meanwhile.
    fn lock(&mut self) -> Result<bool> {
        self.units.clear();
        if let [op] = self.ops
            && op.kind != Kind::DeleteRange
            && self.reads.is_empty()
        {
            let chunk = self.chunks.index.find(op.key);
            self.chunks.context.order.check()?;
            return self.lock_chunk(chunk, smallvec![0]);
        }
        let mut found: Vec<(Arc<Chunk>, Ops)> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut take = |chunk: Arc<Chunk>, op: Option<usize>| {
            let place = *places.entry(chunk.id).or_insert_with(|| {
                found.push((chunk, Ops::new()));
                found.len() - 1
            });
            found[place].1.extend(op);
        };
        for (index, op) in self.ops.iter().enumerate() {
            match op.bounds {
                Some(bounds) => {
                    self.chunks.overlapping(bounds).into_iter().for_each(|chunk| take(chunk, Some(index)))
                }
                None => take(self.chunks.index.find(op.key), Some(index)),
            }
        }
        self.reads.keys.iter().for_each(|key| take(self.chunks.index.find(key), None));
        for bounds in &self.reads.spans {
            self.chunks.overlapping(bounds).into_iter().for_each(|chunk| take(chunk, None));
        }
        // In key order, as everywhere.
        let order = &self.chunks.context.order;
        order.sort_by(&mut found, |(a, _), (b, _)| compare_starts(order, a, b));
        order.check()?;
        for (chunk, ops) in found {
            if !self.lock_chunk(chunk, ops)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn lock_chunk(&mut self, chunk: Arc<Chunk>, ops: Ops) -> Result<bool> {
        let lock = || waits::timed(Cause::Lock, || Mutex::lock_arc(&chunk.writer));
        let mut guard = Mutex::try_lock_arc(&chunk.writer).unwrap_or_else(lock);
        let retired = guard.retired;
        canary!(RETIRED_CHUNK_WRITTEN => let retired = false);
        if retired {
            return Ok(false);
        }
        let range_delete = match ops[..] {
            [op] => self.ops[op].bounds,
            _ => None,
        };
        let effect = match range_delete {
            _ if ops.is_empty() => Effect::Nothing,
            Some(_) if chunk.funk.load().files.iter().all(|file| file.dropped.is_some()) => Effect::Nothing,
            Some(bounds) if chunk.span.is_within(&self.chunks.context.order, bounds) => Effect::Drop,
            _ => Effect::Log,
        };
        if effect == Effect::Log {
            self.chunks.ensure_active(&chunk, &mut guard)?;
            self.chunks.make_room(&chunk, ops.len());
        }
        let stamp = Stamp { version: 0, batch: 0 };
        self.units.push(ChunkWrite {
            chunk,
            guard,
            ops,
            effect,
            stamp,
            places: RecordPtrs::new(),
            new_end: 0,
            new_link: Link::default(),
            published: false,
            segment: None,
        });
        Ok(true)
    }

    /// Updates the cached rows of chunks without a munk with the new values.
    fn update_rows(&self) {
        let Some(rows) = &self.chunks.context.rows else { return };
        if has_ranges(self.ops) {
            return;
        }
        for unit in self.units.iter().filter(|unit| unit.chunk.munk.load().is_none()) {
            update(rows, unit.ops.iter().map(|&index| &self.ops[index]));
        }
    }

    /// Maximum bytes of records that a flush has to write, including the pages that they begin.
    fn buffered_bytes_max(&self) -> u64 {
        let unit = |unit: &ChunkWrite| {
            let page = unit.guard.active.as_ref().map_or(0, |active| active.segment.unpromised_page());
            page + unit.ops.iter().map(|&index| self.ops[index].logged_bytes_max()).sum::<u64>()
        };
        self.units.iter().filter(|unit| unit.effect == Effect::Log).map(unit).sum()
    }

    fn units_to(&mut self, effect: Effect) -> impl Iterator<Item = &mut ChunkWrite> {
        self.units.iter_mut().filter(move |unit| unit.effect == effect)
    }

    /// Appends the edit with the dropped chunks to the manifest.
    fn append_drop(&mut self, stamp: Stamp) -> Result<()> {
        let chunks: Vec<u64> = self.units_to(Effect::Drop).map(|unit| unit.chunk.id).collect();
        if chunks.is_empty() {
            return Ok(());
        }
        let edit = ChunkEdit::Drop { chunks, version: stamp.version, batch: stamp.batch };
        self.chunks.context.publish(&edit)?;
        self.drop_told = true;
        Ok(())
    }

    /// Undoes that edit: a later checkpoint would treat it as committed.
    fn undo_drop(&mut self) {
        if !std::mem::take(&mut self.drop_told) {
            return;
        }
        let restored: Vec<ChunkRecord> = self
            .units_to(Effect::Drop)
            .map(|unit| ChunkRecord::of(&unit.chunk, &unit.chunk.funk.load().files))
            .collect();
        let removed = restored.iter().map(|record| record.id).collect();
        if let Err(error) = self.chunks.context.tell(&ChunkEdit::Replace { removed, added: restored }) {
            self.chunks
                .context
                .substrate
                .health
                .fail(format!("{error}; a range delete that failed cannot be taken back: reopen the store"));
        }
    }
}

fn compare_starts(order: &KeyOrder, a: &Chunk, b: &Chunk) -> std::cmp::Ordering {
    match (&a.span.start, &b.span.start) {
        (Some(a), Some(b)) => order.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

impl PreparedWrite for Write<'_> {
    fn conflict_since(&self, version: u64) -> Result<Option<Bounds>> {
        canary!(CONFLICT_IGNORED => return Ok(None));
        let chunks = self.units.iter().map(|unit| &*unit.chunk);
        crate::chunk::validate::conflict_since(&self.chunks.context, chunks, self.reads, version)
    }

    fn logs(&self) -> usize {
        let count = |effect| self.units.iter().filter(|unit| unit.effect == effect).count();
        count(Effect::Log) + count(Effect::Drop).min(1)
    }

    fn span(&self) -> KeySpan {
        let order = &self.chunks.context.order;
        let of = |op: &Op<'_>| match (op.bounds, order.prefix(op.key)) {
            (None, Some(prefix)) => KeySpan::key(prefix),
            _ => KeySpan::ALL,
        };
        self.ops.iter().map(of).fold(KeySpan::EMPTY, KeySpan::hull)
    }

    fn append(&mut self, stamp: Stamp) -> Result<()> {
        let context = &self.chunks.context;
        let ops = self.ops;
        with_record_buffer(|bytes| {
            for unit in &mut self.units {
                unit.stamp = stamp;
                if unit.effect == Effect::Log {
                    bytes.clear();
                    unit.append(context, ops, bytes)?;
                }
            }
            Ok(())
        })?;
        self.append_drop(stamp)
    }

    fn revoke(&mut self) {
        canary!(APPEND_NOT_UNDONE => return self.undo_drop());
        let context = self.chunks.context.clone();
        self.units_to(Effect::Log).for_each(|unit| unit.undo(&context));
        self.undo_drop();
    }

    fn publish(&mut self, cell: Option<&CommitCell>) {
        let counters = &self.chunks.context.counters;
        counters.user_bytes_written.add(self.ops.iter().map(Op::user_bytes).sum());
        counters.writes.add(self.ops.len() as u64);
        self.chunks.context.rows.iter().for_each(|rows| enter(rows, self.ops));
        for unit in &mut self.units {
            unit.note_version();
            match unit.effect {
                Effect::Log => unit.publish(self.chunks, self.ops, cell, self.promise.as_ref()),
                Effect::Drop => unit.publish_drop(self.chunks, cell),
                Effect::Nothing => {}
            }
        }
    }

    fn index(&mut self) {
        self.chunks.context.rows.iter().for_each(|rows| leave(rows, self.ops));
        self.update_rows();
        for unit in &mut self.units {
            // One at a time: the others are due again at the next write.
            if self.cleaning.is_none() {
                self.cleaning = self.chunks.begin_cleaning(&unit.chunk);
            }
            // The part stays indexed in memory, which is as good.
            self.chunks.context.substrate.try_later(unit.index(self.chunks), "index a part of a log");
        }
        let units = self.units.drain(..).filter(|unit| unit.effect != Effect::Nothing);
        self.written.extend(units.map(|ChunkWrite { chunk, ops, places, stamp, segment, .. }| {
            WrittenChunk { chunk, ops, places, version: stamp.version, segment }
        }));
    }

    fn after_unlock(&mut self) {
        // First, as other threads go on writing, and the copy must catch up with them. The work
        // below may sleep.
        if let Some(cleaning) = self.cleaning.take() {
            waits::timed(Cause::Allocation, || self.chunks.clean(cleaning));
        }
        for WrittenChunk { chunk, ops, places, version, segment } in self.written.drain(..) {
            let Some(segment) = segment else {
                self.chunks.after_drop(&chunk);
                continue;
            };
            let is_long = ops.len() > ANY_ORDER_OPS_MAX;
            let ops = ops.iter().map(|&op| &self.ops[op]).zip(places);
            if !is_long {
                self.chunks.after_write(&chunk, (&segment, version), ops);
                continue;
            }
            // This order reads each piece of the filters concerned once, even if the cache is
            // small.
            let mut ops: Vec<_> = ops.collect();
            ops.sort_by_cached_key(|(op, _)| bloom::hash(op.key));
            self.chunks.after_write(&chunk, (&segment, version), ops.into_iter());
        }
    }
}
