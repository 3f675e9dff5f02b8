//! One chunk's part of a write: appending under its lock, publishing, undoing.

use super::Chunks;
use crate::chunk::chunk::{Active, Chunk, ChunkWriter};
use crate::chunk::context::Context;
use crate::chunk::edit::ChunkEdit;
use crate::chunk::munk::Full;
use crate::files::{Promise, StoreFile};
use crate::format::bounds::encode_bounds;
use crate::format::header::HEADER_BYTES;
use crate::layout::{Op, Stamp};
use crate::log::index::memory_part::RecordPtr;
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::{Link, LogOp};
use crate::log::segment::Segment;
use crate::mvcc::CommitCell;
use crate::records::encode_record;
use crate::run::run::{Dropped, Run, Source};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, atomic::Ordering::Relaxed};
use crate::types::entry::Content;
use crate::types::entry::Kind;
use crate::types::entry::{LARGE_BYTES, large_part};
use crate::types::error::{Error, Result};
use parking_lot::{ArcMutexGuard, RawMutex};
use smallvec::SmallVec;

/// Minimum length in bytes of a log's part before it is indexed on disk.
const PART_BYTES_MIN: u64 = 64 << 10;
/// An indexed part is at least this fraction of the log before it, so that the number of parts only
/// grows with the logarithm of the log's length.
const PART_FRACTION: u64 = 16;
/// Maximum number of entries of a part: indexing more would be a noticeable pause (some
/// milliseconds).
const PART_ENTRIES_MAX: usize = 32 << 10;

pub(super) type WriterGuard = ArcMutexGuard<RawMutex, ChunkWriter>;

/// Indexes of operations, and their places. Most writes have one.
pub(super) type Ops = SmallVec<[usize; 1]>;
pub(super) type RecordPtrs = SmallVec<[RecordPtr; 1]>;

/// The part of a write that goes to one chunk.
pub(super) struct ChunkWrite {
    pub(super) chunk: Arc<Chunk>,
    pub(super) guard: WriterGuard,
    /// Indexes of the operations.
    pub(super) ops: Ops,
    pub(super) effect: Effect,
    pub(super) stamp: Stamp,
    /// The place of each operation, and the end of the log after they are published.
    pub(super) places: RecordPtrs,
    pub(super) new_end: u64,
    /// The link of the operation after these.
    pub(super) new_link: Link,
    pub(super) published: bool,
    /// The log that the part was appended to.
    pub(super) segment: Option<Arc<Segment>>,
}

/// The effect of a write on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Its operations are appended to the log.
    Log,
    /// A range delete covers the chunk: its files are dropped, and nothing is logged.
    Drop,
    /// Nothing is written, but the lock is held. Either a range delete covers an empty chunk, and
    /// no put may precede it meanwhile; or a transaction has read there.
    Nothing,
}

impl ChunkWrite {
    pub(super) fn append(&mut self, context: &Context, ops: &[Op<'_>], bytes: &mut Vec<u8>) -> Result<()> {
        let stamp = self.stamp;
        let Some(active) = &self.guard.active else { return Err(Error::Closed) };
        let Some(parts) = active.segment.loaded() else { return Err(Error::Closed) };
        let header = parts.header;
        self.places.clear();
        self.new_link = active.link;
        let last = self.ops.len() - 1;
        for (index, &op) in self.ops.iter().enumerate() {
            let op = &ops[op];
            let bounds = op.bounds.map(encode_bounds);
            let record = LogOp {
                kind: op.kind,
                version: stamp.version,
                batch: stamp.batch,
                more: index < last,
                link: self.new_link,
                key: op.key,
                value: bounds.as_deref().unwrap_or(op.value),
            };
            self.new_link = self.new_link.next(op.kind, op.key);
            let offset = active.end + bytes.len() as u64;
            let before = bytes.len();
            encode_record(&header, offset, record.payload_bytes(header.base_version), bytes, |out| {
                record.encode(header.base_version, out);
            });
            self.places.push(RecordPtr { offset, len: (bytes.len() - before) as u32 });
        }
        self.new_end = active.end + bytes.len() as u64;
        let is_read = self.chunk.munk.load().is_none();
        active.segment.append(context, (bytes, self.ops.len()), active.end, is_read)
    }

    /// Records the version, for the validation of transactions.
    pub(super) fn note_version(&self) {
        if self.effect != Effect::Nothing {
            self.chunk.note_version(self.stamp.version);
        }
        if let (Effect::Log, Some(active)) = (self.effect, &self.guard.active) {
            active.segment.note_version(self.stamp.version);
        }
    }

    pub(super) fn undo(&mut self, context: &Context) {
        if self.published || self.new_end == 0 {
            return;
        }
        self.guard.take_back(&context.substrate.health);
    }

    pub(super) fn publish(
        &mut self,
        chunks: &Chunks,
        ops: &[Op<'_>],
        cell: Option<&CommitCell>,
        promise: Option<&Promise>,
    ) {
        let Some(active) = &mut self.guard.active else { return };
        let segment = active.segment.clone();
        let Some(memory) = segment.loaded().and_then(|parts| parts.memory.clone()) else { return };
        let munk = self.chunk.munk.load_full();
        // A get that found no munk a moment ago may still search the log. It may miss single puts
        // that came since, but must not see a batch's range delete without the batch's later puts.
        let notes = !self.ops.iter().any(|&op| ops[op].bounds.is_some());
        let mut deleted = Vec::new();
        let (mut user_bytes, mut puts, mut large_bytes, mut outdated_bytes) = (0, 0, 0, 0);
        for (&op, &place) in self.ops.iter().zip(&self.places) {
            let op = &ops[op];
            let version = self.stamp.version;
            match (op.bounds, &munk) {
                (Some(bounds), _) => {
                    let (bounds, offset, cell_of_log) = (bounds.clone(), place.offset, cell.cloned());
                    memory.insert_tombstone(RangeTombstone { bounds, version, offset, cell: cell_of_log });
                    if let (Some(munk), Some(bounds)) = (&munk, op.bounds) {
                        let range = (
                            bounds.start.as_ref().map(Vec::as_slice),
                            bounds.end.as_ref().map(Vec::as_slice),
                        );
                        outdated_bytes += munk.delete_range(range, version, cell, chunks.is_needed());
                    }
                }
                (None, Some(munk)) => {
                    if notes {
                        memory.note(op.key, version, op.kind, place);
                    } else {
                        memory.insert(op.key, version, op.kind, place, cell.cloned());
                    }
                    let content = Content { key: op.key, version, kind: op.kind, value: op.value };
                    let outdated = munk.insert(content, cell, chunks.is_needed());
                    let (bytes, older) =
                        outdated.unwrap_or_else(|Full| unreachable!("room was made for the keys"));
                    canary!(NEW_VALUE_COUNTED => let bytes = if op.kind == Kind::Put && bytes > 0 { op.user_bytes() } else { bytes });
                    outdated_bytes += bytes;
                    if bytes > 0
                        && let Some(below) = chunks.pinned_below(older, version)
                    {
                        chunks.add_pinned(&segment, bytes, below);
                    }
                }
                (None, None) => {
                    memory.insert(op.key, version, op.kind, place, cell.cloned());
                    if op.kind == Kind::Delete {
                        deleted.push(op);
                    }
                }
            }
            if op.kind == Kind::Put {
                let op_bytes = op.user_bytes();
                user_bytes += op_bytes;
                large_bytes += large_part(op_bytes, LARGE_BYTES);
                puts += 1;
            }
        }
        for op in deleted {
            let in_order = self.guard.note_delete(&chunks.context.order, op.key);
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

    pub(super) fn publish_drop(&mut self, chunks: &Chunks, cell: Option<&CommitCell>) {
        // Later writes go to another file, so that files are dropped whole.
        self.guard.active = None;
        chunks.drop_munk(&self.chunk, &mut self.guard);
        let before = self.chunk.funk.load_full();
        let mut funk = (*before).clone();
        for file in funk.files.iter_mut().filter(|file| file.dropped.is_none()) {
            let cell = cell.cloned();
            let dropped = Dropped { version: self.stamp.version, batch: self.stamp.batch, cell };
            file.dropped = Some(Box::new(dropped));
        }
        chunks.account(&before.sizes(), &funk.sizes());
        self.chunk.funk.store(Arc::new(funk));
        chunks.context.counters.chunks_dropped.add(1);
        self.published = true;
    }

    pub(super) fn index(&mut self, chunks: &Chunks) -> Result<()> {
        let context = &chunks.context;
        let Some(active) = &self.guard.active else { return Ok(()) };
        active.segment.flush_if_long()?;
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

/// Maximum length of the newest part of a log of `log_bytes`.
fn part_bytes_max(options: &crate::chunk::settings::Settings, log_bytes: u64) -> u64 {
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
        let publish = |file: &StoreFile| {
            context.publish(&ChunkEdit::Log { chunk: chunk.id, file: file.id, epoch: file.epoch })
        };
        let create = || context.substrate.create_log(context, publish);
        let segment = waits::timed(Cause::Allocation, create)?;
        let before = chunk.funk.load_full();
        let mut funk = (*before).clone();
        let file = Run {
            source: Source::Log(segment.clone()),
            span: chunk.span.clone().into(),
            dropped: None,
            dropped_ranges: None,
            share_bytes: None,
        };
        funk.files.insert(0, file);
        self.account(&before.sizes(), &funk.sizes());
        chunk.funk.store(Arc::new(funk));
        let (end, part_start, link) = (HEADER_BYTES, HEADER_BYTES, Link::default());
        writer.active = Some(Active { segment, end, part_start, link });
        Ok(())
    }

    /// Indexes the newest part of the active log on disk, if there is one. If this fails, the part
    /// stays indexed in memory.
    pub fn index_part(&self, writer: &mut ChunkWriter) -> Result<()> {
        if writer.active.is_none() {
            return Ok(());
        }
        let substrate = &self.context.substrate;
        // If a batch failed and it is unknown if it was committed, its records stay after the end
        // of the log: an index would overwrite them.
        substrate.health.check_sound()?;
        substrate.journal.wait_durable().map_err(|error| substrate.sync_failed(error))?;
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

    /// Ends the log: the next write begins another one. Other chunks will read this log through its
    /// index on disk, instead of a memory part that is never evicted.
    pub fn index_and_end_log(&self, writer: &mut ChunkWriter) {
        let substrate = &self.context.substrate;
        substrate.try_later(self.index_part(writer), "index a part of a log");
        writer.end_log(substrate);
    }
}
