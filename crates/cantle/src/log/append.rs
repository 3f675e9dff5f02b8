//! The end of a segment: appending, writing out, cutting, syncing.

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

/// The length up to which a thread keeps its buffer of records, in bytes: a thread that writes has one.
const RECORD_BUFFER_BYTES_MAX: usize = 16 << 10;

thread_local! {
    static RECORD_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends a buffer, empty, in which the records of an append are put together: this thread's, so that most
/// appends allocate none.
pub fn with_record_buffer<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // Another one if this thread is at an append already, or ends.
    let mut buffer = RECORD_BUFFER.try_with(Cell::take).unwrap_or_default();
    let done = run(&mut buffer);
    if buffer.capacity() <= RECORD_BUFFER_BYTES_MAX {
        buffer.clear();
        let _ = RECORD_BUFFER.try_with(|kept| kept.set(buffer));
    }
    done
}

impl Segment {
    /// Appends `records` records at `offset`, the present end; does not publish them. `is_read`: by way of
    /// this log, as they are in no munk.
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

    /// Nobody will append to it any more.
    pub fn end_appends(&self) {
        if let Err(error) = self.tail.release(self.len()) {
            // The next checkpoint tries again.
            tracing::warn!(%error, "cannot drain a log");
        }
    }

    /// Takes over the promise of space for records that wait in memory.
    pub fn take_promise(&self, from: &Promise, bytes: u64) {
        self.tail.take_promise(from, bytes);
    }

    /// The page that the first record to be promised space may begin in vain.
    pub fn unpromised_page(&self) -> u64 {
        Tail::unpromised_page(self.len())
    }

    /// Writes what waits to the file.
    pub fn flush(&self) -> Result<()> {
        self.tail.drain(self.len())
    }

    /// Bytes that wait in memory alone.
    pub fn in_memory_bytes(&self) -> u64 {
        self.tail.in_memory_bytes()
    }

    /// Takes back what was appended behind `len`. When that fails, the segment must not be written any more.
    pub fn truncate(&self, len: u64) -> Result<()> {
        self.tail.truncate(len)
    }

    /// Makes what stands behind `len` no record, so that nobody who reads the log goes on there. For a
    /// segment that is not written any more.
    pub fn zero_tail(&self, len: u64) -> Result<()> {
        self.tail.zero_tail(len)
    }

    /// Indexes the memory part on disk and begins a new one. Up to `end` the log has so many operations.
    /// Returns where the log now ends. When that fails, half an index may stand behind `end`.
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
            record_bytes_max: RECORD_BYTES_MAX,
        };
        let (bytes, part) = build_index(&request, memory)?;
        // By memory that may have been arranged by an order that failed.
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

    /// A record of this version is written.
    pub fn note_version(&self, version: u64) {
        if self.newest_version() < version {
            self.newest_version.store(version, Relaxed);
        }
    }

    /// Marks the segment dirty; true if it was clean.
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.swap(true, AcqRel)
    }

    /// Makes the segment durable as it stands and says how long it is.
    pub fn sync(&self) -> Result<SegmentEdit> {
        // An exchange, so that whoever finds the mark still there has its write seen by what follows.
        self.dirty.swap(false, AcqRel);
        // Before the length: rather too few than what stands behind it, which a later opening counts again.
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
            // The length is read first: a part sealed in between only lies behind it.
            Some(parts) => {
                let part = parts.indexed.first().map_or((0, 0), |part| (part.at.offset, part.at.len));
                (self.len().max(part.0 + u64::from(part.1)), part)
            }
            // Unloaded again: what lies behind the recorded part is scanned at the next loading.
            None => (self.len(), self.recorded.part),
        };
        self.tail.release(self.len())?;
        self.file.sync()?;
        Ok(SegmentEdit { file: self.file.id, len, part, ..counts })
    }

    /// Whether a checkpoint must find out how long this segment of an earlier epoch is.
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

/// A segment of an earlier epoch whose end is not known yet. Accounting for it makes durable what was accepted
/// from a process that died.
pub struct OpenEnded {
    /// Not to keep alive: this waits in a list that the env itself reaches, and where nobody writes, it waits
    /// for ever.
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
                // It must not keep the rest from being safe, nor be forgotten: who reads it is told.
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
