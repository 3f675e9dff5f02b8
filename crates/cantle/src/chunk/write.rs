//! Writes (EvenDB §3.3): the locks of the chunks concerned, the logs, and what makes it all visible.
//!
//! The steps and their order are the layout trait's (`layout`). What is particular here: a range delete that
//! covers a chunk whole becomes an edit of the manifest, at a cost that does not depend on what the chunk holds;
//! where it covers a part, a record in that chunk's log.

use super::Chunks;
use crate::cache::rows::Stripe;
use crate::canary::Canary;
use crate::chunk::chunk::{Active, Chunk, ChunkWriter};
use crate::chunk::cleaning::Cleaning;
use crate::chunk::context::Context;
use crate::chunk::edit::{ChunkEdit, ChunkRecord};
use crate::chunk::munk::Full;
use crate::files::Promise;
use crate::filter::bloom;
use crate::format::bounds::encode_bounds;
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::layout::{Op, PreparedWrite, ReadSet, Stamp};
use crate::log::index::memory_part::Place;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::{Link, LogOp};
use crate::log::segment::Segment;
use crate::mvcc::{CommitCell, KeySpan};
use crate::records::{encode_record, record_bytes_max};
use crate::run::run::{Dropped, Run, Source};
use crate::sync::{
    Arc,
    atomic::Ordering::{Acquire, Relaxed},
};
use crate::types::bounds::Bounds;
use crate::types::durability::Durability;
use crate::types::entry::Content;
use crate::types::entry::Kind;
use crate::types::entry::large_part;
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use bytes::Bytes;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use std::collections::HashMap;

/// The least length of a part of a log before it is indexed on disk.
const PART_BYTES_MIN: u64 = 64 << 10;
/// An indexed part is at least this fraction of the log before it, so that the number of parts grows with the
/// logarithm of the log's length only.
const PART_FRACTION: u64 = 16;
/// More entries than this would make indexing a part a noticeable pause (some milliseconds).
const PART_ENTRIES_MAX: usize = 32 << 10;
/// Operations of longer batches are looked at after the write in the order of filters.
const ANY_ORDER_OPS_MAX: usize = 1024;
/// Buffered records are written once there is this much of them.
const BUFFER_BYTES_MAX: u64 = 1 << 20;
/// What stands around an operation in a record: kind, version, batch, link, two lengths.
const OP_BYTES_MAX: usize = 1 + 5 * 10 + 3;

type WriterGuard = ArcMutexGuard<RawMutex, ChunkWriter>;

/// A write on its way.
pub struct Write<'a> {
    chunks: &'a Chunks,
    ops: &'a [Op],
    reads: &'a ReadSet,
    units: Vec<Unit>,
    /// What is looked after once the locks are released.
    written: Vec<WrittenUnit>,
    cleaning: Option<Cleaning>,
    /// The manifest was told which chunks are dropped.
    drop_told: bool,
    /// Space for what is buffered.
    promise: Option<Promise>,
}

/// What is written to one chunk.
struct Unit {
    chunk: Arc<Chunk>,
    guard: WriterGuard,
    /// Indexes of the operations.
    ops: Vec<usize>,
    effect: Effect,
    stamp: Stamp,
    /// Where each operation stands, and the log's end once they are published.
    places: Vec<Place>,
    new_end: u64,
    /// What the operation behind these says of them.
    new_link: Link,
    published: bool,
    /// The log that it went to.
    segment: Option<Arc<Segment>>,
}

/// What was written to one chunk.
struct WrittenUnit {
    chunk: Arc<Chunk>,
    /// Indexes of the operations, and where they stand in the log.
    ops: Vec<usize>,
    places: Vec<Place>,
    version: u64,
    /// `None` if the chunk was dropped.
    segment: Option<Arc<Segment>>,
}

/// What a write does to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Its operations are appended to the log.
    Log,
    /// A range delete covers the chunk: its files are dropped, nothing is logged.
    Drop,
    /// Nothing, but the lock is held. A range delete finds nothing there: what is put meanwhile must not precede
    /// it. Or a transaction has read there.
    Nothing,
}

impl<'a> Write<'a> {
    pub fn prepare(chunks: &'a Chunks, ops: &'a [Op], reads: &'a ReadSet) -> Result<Self> {
        if chunks.released.load(Acquire) {
            return Err(Error::NoKeyspace("(dropped)".into()));
        }
        let mut write = Self {
            chunks,
            ops,
            reads,
            units: Vec::new(),
            written: Vec::new(),
            cleaning: None,
            drop_told: false,
            promise: None,
        };
        // Until no chunk was split or merged between finding and locking it.
        while !write.lock()? {
            if chunks.released.load(Acquire) {
                return Err(Error::NoKeyspace("(dropped)".into()));
            }
        }
        chunks.context.order.check()?;
        if chunks.context.substrate.durability == Durability::Buffered {
            // Memory holds no more than can be written.
            write.promise = Some(chunks.context.substrate.reserve.promise(write.buffered_bytes_max())?);
        }
        Ok(write)
    }

    /// Finds and locks the chunks; false if one of them turned out to be replaced.
    fn lock(&mut self) -> Result<bool> {
        self.units.clear();
        if let [op] = self.ops
            && op.kind != Kind::DeleteRange
            && self.reads.is_empty()
        {
            let chunk = self.chunks.index.find(&op.key);
            self.chunks.context.order.check()?;
            return self.lock_chunk(chunk, vec![0]);
        }
        let mut found: Vec<(Arc<Chunk>, Vec<usize>)> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut take = |chunk: Arc<Chunk>, op: Option<usize>| {
            let place = *places.entry(chunk.id).or_insert_with(|| {
                found.push((chunk, Vec::new()));
                found.len() - 1
            });
            found[place].1.extend(op);
        };
        for (index, op) in self.ops.iter().enumerate() {
            match &op.bounds {
                Some(bounds) => {
                    self.chunks.overlapping(bounds).into_iter().for_each(|chunk| take(chunk, Some(index)))
                }
                None => take(self.chunks.index.find(&op.key), Some(index)),
            }
        }
        self.reads.keys.iter().for_each(|key| take(self.chunks.index.find(key), None));
        for bounds in &self.reads.spans {
            self.chunks.overlapping(bounds).into_iter().for_each(|chunk| take(chunk, None));
        }
        // In key order, as everybody who locks several.
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

    fn lock_chunk(&mut self, chunk: Arc<Chunk>, ops: Vec<usize>) -> Result<bool> {
        let mut guard = Mutex::lock_arc(&chunk.writer);
        if guard.retired && !Canary::RETIRED_CHUNK_WRITTEN.is_planted() {
            return Ok(false);
        }
        let range_delete = match ops[..] {
            [op] => self.ops[op].bounds.as_ref(),
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
        self.units.push(Unit {
            chunk,
            guard,
            ops,
            effect,
            stamp,
            places: Vec::new(),
            new_end: 0,
            new_link: Link::default(),
            published: false,
            segment: None,
        });
        Ok(true)
    }

    /// Marks the cached rows of what is written: before it shows, and once it does.
    fn outdate_rows(&self, mark: impl Fn(&Stripe)) {
        if Canary::ROWS_NOT_OUTDATED.is_planted() {
            return;
        }
        let Some(rows) = &self.chunks.context.rows else { return };
        for op in self.ops {
            mark(if op.bounds.is_some() { rows.of_all() } else { rows.of_key(bloom::hash(&op.key)) });
        }
    }

    /// Cached rows of chunks that are read from files go on with the new values.
    fn update_rows(&self) {
        let Some(rows) = &self.chunks.context.rows else { return };
        if self.ops.iter().any(|op| op.bounds.is_some()) || Canary::ROWS_NOT_OUTDATED.is_planted() {
            return;
        }
        for unit in self.units.iter().filter(|unit| unit.chunk.munk.load().is_none()) {
            let puts = unit.ops.iter().map(|&index| &self.ops[index]).filter(|op| op.kind == Kind::Put);
            puts.for_each(|op| rows.update(&op.key, bloom::hash(&op.key), &op.value));
        }
    }

    /// How many bytes of records a flush may have to write, the pages that they begin included.
    fn buffered_bytes_max(&self) -> u64 {
        let op = |op: &Op| {
            let bounds = op.bounds.as_ref().map_or(0, |bounds| encode_bounds(bounds).len());
            (record_bytes_max(OP_BYTES_MAX + op.key.len() + op.value.len() + bounds)) as u64
        };
        let unit = |unit: &Unit| {
            let page = unit.guard.active.as_ref().map_or(0, |active| active.segment.unpromised_page());
            page + unit.ops.iter().map(|&index| op(&self.ops[index])).sum::<u64>()
        };
        self.units.iter().filter(|unit| unit.effect == Effect::Log).map(unit).sum()
    }

    fn units_to(&mut self, effect: Effect) -> impl Iterator<Item = &mut Unit> {
        self.units.iter_mut().filter(move |unit| unit.effect == effect)
    }

    /// Tells the manifest which chunks are dropped.
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

    /// Takes back what the manifest was told: a later checkpoint would take it for committed.
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
        if Canary::CONFLICT_IGNORED.is_planted() {
            return Ok(None);
        }
        let chunks = self.units.iter().map(|unit| &*unit.chunk);
        crate::chunk::validate::conflict_since(&self.chunks.context, chunks, self.reads, version)
    }

    fn parts(&self) -> usize {
        let count = |effect| self.units.iter().filter(|unit| unit.effect == effect).count();
        count(Effect::Log) + count(Effect::Drop).min(1)
    }

    fn span(&self) -> KeySpan {
        let order = &self.chunks.context.order;
        let of = |op: &Op| match (&op.bounds, order.prefix(&op.key)) {
            (None, Some(prefix)) => KeySpan::key(prefix),
            _ => KeySpan::ALL,
        };
        self.ops.iter().map(of).fold(KeySpan::EMPTY, KeySpan::hull)
    }

    fn append(&mut self, stamp: Stamp) -> Result<()> {
        let context = &self.chunks.context;
        let mut bytes = Vec::new();
        let ops = self.ops;
        for unit in &mut self.units {
            unit.stamp = stamp;
            if unit.effect == Effect::Log {
                bytes.clear();
                unit.append(context, ops, &mut bytes)?;
            }
        }
        self.append_drop(stamp)
    }

    fn undo(&mut self) {
        let context = self.chunks.context.clone();
        if !Canary::APPEND_NOT_UNDONE.is_planted() {
            self.units_to(Effect::Log).for_each(|unit| unit.undo(&context));
        }
        self.undo_drop();
    }

    fn publish(&mut self, cell: Option<&CommitCell>) {
        let counters = &self.chunks.context.counters;
        let user_bytes: usize = self.ops.iter().map(|op| op.key.len() + op.value.len()).sum();
        counters.user_bytes_written.add(user_bytes as u64);
        counters.writes.add(self.ops.len() as u64);
        self.outdate_rows(Stripe::enter);
        for unit in &mut self.units {
            unit.note_version();
            match unit.effect {
                Effect::Log => unit.publish(self.chunks, self.ops, cell, self.promise.as_ref()),
                Effect::Drop => unit.publish_drop(self.chunks, cell),
                Effect::Nothing => {}
            }
        }
    }

    fn settle(&mut self) {
        self.outdate_rows(Stripe::leave);
        self.update_rows();
        for unit in &mut self.units {
            // One at a time: the others are due again at the next write.
            if self.cleaning.is_none() {
                self.cleaning = self.chunks.begin_cleaning(&unit.chunk);
            }
            if let Err(error) = unit.settle(self.chunks) {
                // The part stays in memory, where it serves as well; indexing is tried again.
                tracing::warn!(%error, "cannot index a part of a log");
            }
        }
        let units = self.units.drain(..).filter(|unit| unit.effect != Effect::Nothing);
        self.written.extend(units.map(|Unit { chunk, ops, places, stamp, segment, .. }| WrittenUnit {
            chunk,
            ops,
            places,
            version: stamp.version,
            segment,
        }));
    }

    fn finish(&mut self) {
        // First, as others go on writing what it must catch up with, and what follows may sleep.
        if let Some(cleaning) = self.cleaning.take() {
            self.chunks.clean(cleaning);
        }
        for WrittenUnit { chunk, ops, places, version, segment } in self.written.drain(..) {
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
            // So each piece of a filter that is asked about them is read once, however small the cache is.
            let mut ops: Vec<_> = ops.collect();
            ops.sort_by_cached_key(|(op, _)| bloom::hash(&op.key));
            self.chunks.after_write(&chunk, (&segment, version), ops.into_iter());
        }
    }
}

impl Unit {
    fn append(&mut self, context: &Context, ops: &[Op], bytes: &mut Vec<u8>) -> Result<()> {
        let stamp = self.stamp;
        let buffered = context.substrate.durability == Durability::Buffered;
        let Some(active) = &self.guard.active else { return Err(Error::Closed) };
        let Some(parts) = active.segment.loaded() else { return Err(Error::Closed) };
        let header = parts.header;
        self.places.clear();
        self.new_link = active.link;
        let last = self.ops.len() - 1;
        for (index, &op) in self.ops.iter().enumerate() {
            let op = &ops[op];
            let bounds = op.bounds.as_ref().map(encode_bounds);
            let record = LogOp {
                kind: op.kind,
                version: stamp.version,
                batch: stamp.batch,
                more: index < last,
                link: self.new_link,
                key: &op.key,
                value: bounds.as_deref().unwrap_or(&op.value),
            };
            self.new_link = self.new_link.next(op.kind, &op.key);
            let offset = active.end + bytes.len() as u64;
            let before = bytes.len();
            encode_record(&header, offset, record.payload_bytes(header.base_version), bytes, |out| {
                record.encode(header.base_version, out);
            });
            self.places.push(Place { offset, len: (bytes.len() - before) as u32 });
            if buffered {
                active.segment.buffer(offset, Bytes::copy_from_slice(&bytes[before..]));
            }
        }
        self.new_end = active.end + bytes.len() as u64;
        if buffered {
            return Ok(());
        }
        let is_read = self.chunk.munk.load().is_none();
        active.segment.append(context, (bytes, self.ops.len()), active.end, is_read)
    }

    /// For transactions that will ask what changed.
    fn note_version(&self) {
        if self.effect != Effect::Nothing {
            self.chunk.note_version(self.stamp.version);
        }
        if let (Effect::Log, Some(active)) = (self.effect, &self.guard.active) {
            active.segment.note_version(self.stamp.version);
        }
    }

    fn undo(&mut self, context: &Context) {
        if self.published || self.new_end == 0 {
            return;
        }
        let Some(active) = &self.guard.active else { return };
        active.segment.unbuffer(active.end);
        self.guard.take_back(&context.substrate.health);
    }

    fn publish(&mut self, chunks: &Chunks, ops: &[Op], cell: Option<&CommitCell>, promise: Option<&Promise>) {
        let Some(active) = &mut self.guard.active else { return };
        let segment = active.segment.clone();
        let Some(memory) = segment.loaded().and_then(|parts| parts.memory.clone()) else { return };
        let munk = self.chunk.munk.load_full();
        // A get that found no munk a moment ago may still search the log. Of single puts it may miss those that came
        // since, but of a batch it must not see the range delete without the put behind it.
        let notes = !self.ops.iter().any(|&op| ops[op].bounds.is_some());
        let mut deleted = Vec::new();
        let (mut user_bytes, mut puts, mut large_bytes, mut outdated_bytes) = (0, 0, 0, 0);
        for (&op, &place) in self.ops.iter().zip(&self.places) {
            let op = &ops[op];
            let version = self.stamp.version;
            match (&op.bounds, &munk) {
                (Some(bounds), _) => {
                    let (bounds, offset, cell_of_log) = (bounds.clone(), place.offset, cell.cloned());
                    memory.insert_tombstone(RangeTombstone { bounds, version, offset, cell: cell_of_log });
                    if let (Some(munk), Some(bounds)) = (&munk, &op.bounds) {
                        let range = (
                            bounds.start.as_ref().map(Vec::as_slice),
                            bounds.end.as_ref().map(Vec::as_slice),
                        );
                        outdated_bytes += munk.delete_range(range, version, cell, chunks.is_needed());
                    }
                }
                (None, Some(munk)) => {
                    if notes {
                        memory.note(&op.key, version, op.kind, place);
                    } else {
                        memory.insert(&op.key, version, op.kind, place, cell.cloned());
                    }
                    let content = Content { key: &op.key, version, kind: op.kind, value: &op.value };
                    let outdated = munk.insert(content, cell, chunks.is_needed());
                    let (mut bytes, older) =
                        outdated.unwrap_or_else(|Full| unreachable!("room was made for the keys"));
                    if op.kind == Kind::Put && bytes > 0 && Canary::NEW_VALUE_COUNTED.is_planted() {
                        bytes = (op.key.len() + op.value.len()) as u64;
                    }
                    outdated_bytes += bytes;
                    if bytes > 0
                        && let Some(below) = chunks.pinned_below(older, version)
                    {
                        chunks.add_pinned(&segment, bytes, below);
                    }
                }
                (None, None) => {
                    memory.insert(&op.key, version, op.kind, place, cell.cloned());
                    if op.kind == Kind::Delete {
                        deleted.push(op);
                    }
                }
            }
            if op.kind == Kind::Put {
                let op_bytes = (op.key.len() + op.value.len()) as u64;
                user_bytes += op_bytes;
                large_bytes += large_part(op_bytes);
                puts += 1;
            }
        }
        for op in deleted {
            let in_order = self.guard.note_delete(&chunks.context.order, &op.key);
            self.chunk.deleted_in_order.fetch_max(in_order, Relaxed);
        }
        let Some(active) = &mut self.guard.active else { return };
        let written = self.new_end - active.end;
        active.end = self.new_end;
        active.link = self.new_link;
        if let Some(promise) = promise {
            segment.take_promise(promise, written + segment.unpromised_page());
        }
        segment.set_len(self.new_end);
        segment.user_bytes.fetch_add(user_bytes, Relaxed);
        segment.puts.fetch_add(puts, Relaxed);
        if large_bytes > 0 {
            segment.large_bytes.fetch_add(large_bytes, Relaxed);
        }
        if outdated_bytes > 0 {
            chunks.add_garbage(&segment, outdated_bytes);
        }
        chunks.context.totals.user_bytes.fetch_add(user_bytes as i64, Relaxed);
        chunks.context.totals.puts.fetch_add(puts as i64, Relaxed);
        chunks.context.totals.log_bytes.fetch_add(written as i64, Relaxed);
        let context = &chunks.context;
        context.log.counters.log_bytes_written.add(written);
        context.substrate.dirty.add_bytes(written);
        if segment.mark_dirty() {
            context.substrate.dirty.add(segment.clone());
        }
        self.segment = Some(segment);
        self.published = true;
        self.chunk.touch_write(self.ops.len() as u64, &chunks.jobs.ticks);
    }

    fn publish_drop(&mut self, chunks: &Chunks, cell: Option<&CommitCell>) {
        // What is written from now on goes to another file, so that files are dropped whole.
        self.guard.active = None;
        chunks.drop_munk(&self.chunk, &mut self.guard);
        let before = self.chunk.funk.load_full();
        let mut funk = (*before).clone();
        for file in funk.files.iter_mut().filter(|file| file.dropped.is_none()) {
            file.dropped =
                Some(Dropped { version: self.stamp.version, batch: self.stamp.batch, cell: cell.cloned() });
        }
        chunks.account(&before.sizes(), &funk.sizes());
        self.chunk.funk.store(Arc::new(funk));
        chunks.context.counters.chunks_dropped.add(1);
        self.published = true;
    }

    fn settle(&mut self, chunks: &Chunks) -> Result<()> {
        let context = &chunks.context;
        let Some(active) = &self.guard.active else { return Ok(()) };
        if context.substrate.durability == Durability::Buffered
            && active.segment.buffered_bytes() >= BUFFER_BYTES_MAX
        {
            active.segment.flush()?;
        }
        let part_bytes = active.end - active.part_start;
        let by_length = part_bytes_max(&context.options(), active.end);
        let entries = active
            .segment
            .loaded()
            .and_then(|parts| parts.memory.as_ref().map(|memory| memory.len()))
            .unwrap_or(0);
        if part_bytes >= by_length || entries >= PART_ENTRIES_MAX {
            chunks.index_part(&mut self.guard)?;
        }
        Ok(())
    }
}

/// How long the newest part of a log of `log_bytes` may become.
fn part_bytes_max(options: &crate::chunk::options::ChunkOptions, log_bytes: u64) -> u64 {
    let full = options.log_bytes.unwrap_or(options.chunk_bytes) / u64::from(options.filter_partitions.max(1));
    full.max(PART_BYTES_MIN).max(log_bytes / PART_FRACTION)
}

impl Chunks {
    /// Makes sure that the chunk has a segment to append to.
    pub fn ensure_active(&self, chunk: &Arc<Chunk>, writer: &mut ChunkWriter) -> Result<()> {
        if writer.active.is_some() {
            return Ok(());
        }
        let context = &self.context;
        let (file, _, header) =
            context.files.create(FileKind::Log, context.keyspace, context.substrate.mvcc.current())?;
        let edit = ChunkEdit::Log { chunk: chunk.id, file: file.id, epoch: file.epoch };
        let created = file.write_at(&header.encode(), 0).and_then(|()| context.publish(&edit));
        if let Err(error) = created {
            context.files.discard(&file);
            return Err(error);
        }
        file.retain();
        let segment = Arc::new(Segment::create(file, header, context));
        segment.set_len(HEADER_BYTES);
        if context.substrate.durability == Durability::Buffered {
            segment.begin_buffering();
        }
        let before = chunk.funk.load_full();
        let mut funk = (*before).clone();
        let file = Run {
            source: Source::Log(segment.clone()),
            span: chunk.span.clone().into(),
            dropped: None,
            share_bytes: None,
        };
        funk.files.insert(0, file);
        self.account(&before.sizes(), &funk.sizes());
        chunk.funk.store(Arc::new(funk));
        let (end, part_start, link) = (HEADER_BYTES, HEADER_BYTES, Link::default());
        writer.active = Some(Active { segment, end, part_start, link });
        Ok(())
    }

    /// Indexes the newest part of the active log on disk, if there is one. It stays in memory where that fails.
    pub fn index_part(&self, writer: &mut ChunkWriter) -> Result<()> {
        if writer.active.is_none() {
            return Ok(());
        }
        self.context.substrate.journal.settle().map_err(|error| self.context.substrate.sync_failed(error))?;
        let Some(active) = &mut writer.active else { return Ok(()) };
        let sealed =
            active.segment.seal_part(&self.context, active.part_start, active.end, active.link.ordinal);
        let new_end = match sealed {
            Ok(new_end) => new_end,
            Err(error) => {
                writer.take_back(&self.context.substrate.health);
                return Err(error);
            }
        };
        self.context.totals.log_bytes.fetch_add((new_end - active.end) as i64, Relaxed);
        if new_end != active.end {
            self.context.substrate.dirty.add_bytes(new_end - active.end);
            if active.segment.mark_dirty() {
                self.context.substrate.dirty.add(active.segment.clone());
            }
        }
        active.end = new_end;
        active.part_start = new_end;
        Ok(())
    }
}
