//! Writing to the end of a segment: append, flush, truncate, sync.

use crate::files::Promise;
use crate::format::limits::RECORD_BYTES_MAX;
use crate::log::DirtyLog;
use crate::log::env::LogEnv;
use crate::log::index::indexed_part::{IndexRequest, build_index};
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::parts::Parts;
use crate::log::segment::Segment;
use crate::log::tail::{Tail, TailMemory};
use crate::manifest::SegmentEdit;
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use crate::sync::{Arc, thread_local};
use crate::types::error::{Attempt, Error, Result};
use std::cell::Cell;
use std::sync::Weak;

/// The greatest capacity of a record buffer, in bytes, that a thread keeps: every thread that
/// writes has one.
const RECORD_BUFFER_BYTES_MAX: usize = 16 << 10;

/// Records that wait in memory only are written to the file once they reach this many bytes.
const IN_MEMORY_BYTES_MAX: u64 = 1 << 20;

thread_local! {
    static RECORD_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `run` with an empty buffer for the records of an append. It is this thread's own buffer,
/// so most appends allocate none.
pub fn with_record_buffer<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A new one if this thread is already in an append, or is ending.
    let mut buffer = RECORD_BUFFER.try_with(Cell::take).unwrap_or_default();
    let done = run(&mut buffer);
    if buffer.capacity() <= RECORD_BUFFER_BYTES_MAX {
        buffer.clear();
        let _ = RECORD_BUFFER.try_with(|kept| kept.set(buffer));
    }
    done
}

impl Segment {
    /// Appends `records` records at `offset`, the present end; does not publish them. `is_read`:
    /// reads look for them in this log, as they are in no munk.
    pub fn append(
        &self,
        env: &LogEnv,
        (bytes, records): (&[u8], usize),
        offset: u64,
        is_read: bool,
    ) -> Result<()> {
        let stays = is_read && env.options().recent_appends;
        let places = TailMemory { write_buffer: env.write_buffer(), stays };
        self.tail.append(places, (bytes, records as u64), offset)
    }

    /// Marks the end of appends: drains the tail and releases its slot. If this fails, the bytes go
    /// on waiting in memory, and the next checkpoint tries again.
    pub fn end_appends(&self) -> Result<()> {
        self.tail.release(self.len())
    }

    /// Takes over the space that is promised for records that wait in memory.
    pub fn take_promise(&self, from: &Promise, bytes: u64) {
        self.tail.take_promise(from, bytes);
    }

    /// Bytes of the page that the first record may begin, which has to be promised in addition.
    pub fn unpromised_page(&self) -> u64 {
        Tail::unpromised_page(self.len())
    }

    /// Writes waiting bytes to the file.
    pub fn flush(&self) -> Result<()> {
        self.tail.drain(self.len())
    }

    /// The same if many bytes wait in memory only.
    pub fn flush_if_long(&self) -> Result<()> {
        if self.tail.in_memory_bytes() < IN_MEMORY_BYTES_MAX { Ok(()) } else { self.flush() }
    }

    /// Removes the appends after `len`. If this fails, the segment must not be written any more.
    pub fn truncate(&self, len: u64) -> Result<()> {
        self.tail.truncate(len)
    }

    /// Overwrites the bytes after `len` with zeros, so that no reader of the log finds a record
    /// there. For a segment that is not written any more.
    pub fn zero_tail(&self, len: u64) -> Result<()> {
        self.tail.zero_tail(len)
    }

    /// Indexes the memory part on disk and begins a new one. The log has `operations` operations up
    /// to `end`. Returns the new end of the log. If this fails, part of an index may stand after
    /// `end`.
    pub fn seal_part(&self, env: &LogEnv, part_start: u64, end: u64, operations: u64) -> Result<u64> {
        let Some(parts) = self.loaded() else { return Ok(end) };
        let Some(memory) = parts.memory.as_ref().filter(|memory| !memory.is_empty()) else { return Ok(end) };
        self.flush()?;
        let request = IndexRequest {
            header: &parts.header,
            order: &self.order,
            memory: &env.memory,
            start: part_start,
            end,
            operations,
            previous: parts.indexed.first().map_or(RecordPtr { offset: 0, len: 0 }, |part| part.at),
            voids: self.voids.peek().map(|voids| voids.lock().clone()).unwrap_or_default(),
            search: env.options().search,
            filter_bits_per_key: env.options().filter_bits_per_key,
            record_bytes_max: RECORD_BYTES_MAX,
        };
        let (bytes, part) = build_index(&request, memory)?;
        // The memory part may have been sorted by a comparator that has failed.
        self.order.check()?;
        self.tail.write_behind(&bytes, end)?;
        let new_end = end + bytes.len() as u64;
        env.counters.log_bytes_written.add(bytes.len() as u64);
        let mut indexed = Vec::with_capacity(parts.indexed.len() + 1);
        indexed.push(Arc::new(part));
        indexed.extend_from_slice(&parts.indexed);
        let memory = Some(Arc::new(env.memory_part()));
        self.parts.store(Some(Arc::new(Parts::new(parts.header, memory, indexed))));
        if let Some(voids) = self.voids.peek() {
            voids.lock().clear();
        }
        self.set_len(new_end);
        Ok(new_end)
    }

    /// Records that an operation of this version was written.
    pub fn note_version(&self, version: u64) {
        if self.newest_version() < version {
            self.newest_version.store(version, Relaxed);
        }
    }

    /// Marks the segment dirty; true if it was clean.
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.swap(true, AcqRel)
    }

    /// Makes the segment durable as it is now, and returns its length.
    pub fn sync(&self) -> Result<SegmentEdit> {
        // An exchange: a writer that finds the mark still set has its write seen by the code below.
        self.dirty.swap(false, AcqRel);
        // Read before the length: the counts may be too low for it, never too high. A later opening
        // counts the rest again.
        let of = |count: &AtomicU64| count.load(Relaxed);
        let counts = SegmentEdit {
            garbage_bytes: of(&self.garbage_bytes),
            user_bytes: of(&self.user_bytes),
            puts: of(&self.puts),
            large_bytes: of(&self.large_bytes),
            uncounted_from: self.uncounted_from(),
            ..SegmentEdit::default()
        };
        let (len, part) = match self.loaded() {
            // Read before the length: a part that is sealed in between stands after it.
            Some(parts) => {
                let part = parts.indexed.first().map_or((0, 0), |part| (part.at.offset, part.at.len));
                (self.len().max(part.0 + u64::from(part.1)), part)
            }
            // Unloaded again: the next loading scans what stands after the recorded part.
            None => (self.len(), self.recorded.part),
        };
        self.tail.release(self.len())?;
        self.file.sync()?;
        Ok(SegmentEdit { file: self.file.id, len, part, ..counts })
    }

    /// True if a checkpoint must determine the length of this segment of an earlier epoch.
    pub fn is_unaccounted(&self) -> Result<bool> {
        let len = self.file.handle()?.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))?;
        Ok(self.open_ended && len != self.recorded.len)
    }
}

impl DirtyLog for Segment {
    fn sync(&self) -> Result<SegmentEdit> {
        Segment::sync(self)
    }

    fn is_obsolete(&self) -> bool {
        !self.file.is_referenced()
    }
}

/// A segment of an earlier epoch whose end is not known yet. Syncing it makes durable the writes of
/// the process that died.
pub struct OpenEnded {
    /// Weak, so that this does not keep the env alive: it waits in a list that the env itself
    /// reaches, and if nobody writes, it waits for ever.
    pub env: Weak<LogEnv>,
    pub segment: Arc<Segment>,
}

impl DirtyLog for OpenEnded {
    fn sync(&self) -> Result<SegmentEdit> {
        if !self.segment.is_unaccounted()? {
            return Ok(self.segment.recorded);
        }
        let Some(env) = self.env.upgrade() else { return Ok(self.segment.recorded) };
        match self.segment.parts(&env).and_then(|_| self.segment.sync()) {
            Err(error) if error.is_corruption() => {
                // The damage must neither keep the rest from becoming durable nor be forgotten:
                // readers get the error.
                tracing::error!(%error, "a log is damaged");
                let Ok(handle) = self.segment.file.handle() else { return Ok(self.segment.recorded) };
                let path = &self.segment.file.path;
                self.segment.file.sync()?;
                let file_bytes = handle.len().map_err(|e| Error::io(Attempt::Measure, path, e))?;
                Ok(SegmentEdit { len: file_bytes.max(self.segment.recorded.len), ..self.segment.recorded })
            }
            done => done,
        }
    }

    fn is_obsolete(&self) -> bool {
        !self.segment.file.is_referenced()
    }
}
