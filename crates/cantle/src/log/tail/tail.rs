//! The end of a log: gives access to appends that may not be in the log's file yet, or were written
//! to it lately.
//!
//! An append *waits* at the place of the log's tail: in memory only (`Durability::Buffered`), or in
//! a slot of the write buffer, which outlives the process. A *drain* writes all waiting bytes by
//! one call. Written bytes *stay* in memory for a while, if they may be read from the log
//! ([`recent`](super::recent)). A reader asks the tail first, and then the file.
//!
//! ```text
//!   log     ├──────────────┼───────────────┼─────────────────┤ end
//!             in the file    in the file     waits
//!                            and stays       (slot, memory)
//!                                          ^ in_file
//! ```
//!
//! There are two locks. `writing` is taken to write to the file, and held over the calls. `waiting`
//! is taken by the same threads, by appends, and by readers of waiting bytes, and held for a copy
//! only: a get never waits for the disk here.
//!
//! Invariants:
//!
//! * The file has all bytes before the waiting ones. The offset of the first waiting byte is
//!   `in_file`. Readers compare their offset with it: below it they take no lock but that of the
//!   bytes that stay, and only if there are some.
//! * `in_file` is raised after the call that drains. It is lowered only by truncating an append,
//!   which no reader has seen.
//! * Only whole appends that count are drained from memory.
//!
//! After a failed drain everything goes on waiting. Readers find it there, and a process that dies
//! leaves it in its slot. The next append, checkpoint or closing tries again, and reports the
//! error.

use crate::files::{Promise, StoreFile};
use crate::format::header::HEADER_BYTES;
use crate::log::LogMemory;
use crate::log::tail::recent::RecentEnd;
use crate::log::tail::waiting::Waiting;
use crate::log::tail::write_buffer::WriteBuffer;
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Mutex, RwLock};
use crate::types::error::{Attempt, Error, Result};

/// The smallest unit of space in most file systems, in bytes.
const PAGE_BYTES: u64 = 4096;

pub struct Tail {
    file: Arc<StoreFile>,
    /// Offset from which on bytes may wait; `u64::MAX` if none do.
    in_file: AtomicU64,
    /// Taken before `waiting`.
    writing: Mutex<()>,
    /// Appends that wait in memory take only this lock; all other changes hold `writing`, too.
    waiting: RwLock<Waiting>,
    /// Offset up to which the file may have been written, including failed writes. 0 in a log of an
    /// earlier epoch, which is not appended to. Changed under `writing`.
    touched: AtomicU64,
    /// True if written bytes stay in memory, as set by the last append.
    stays: AtomicBool,
    /// Space promised for bytes that wait in memory only. `None` if none do.
    promise: Option<Promise>,
    /// The runs that stay in memory; `None` for a log that is not appended to.
    recent: Option<(Arc<LogMemory>, Arc<RecentEnd>)>,
}

/// The places besides its file that an append may be kept in.
#[derive(Clone, Copy)]
pub struct TailMemory<'a> {
    /// The write buffer, if the append may wait in it.
    pub write_buffer: Option<&'a Arc<WriteBuffer>>,
    /// True if it stays in memory after it was written.
    pub stays: bool,
}

impl Tail {
    /// The end of a log that is not appended to: everything is in the file.
    pub fn ended(file: Arc<StoreFile>) -> Self {
        Self {
            file,
            in_file: AtomicU64::new(u64::MAX),
            writing: Mutex::default(),
            waiting: RwLock::new(Waiting::Nowhere { warm: false }),
            touched: AtomicU64::new(0),
            stays: AtomicBool::new(false),
            promise: None,
            recent: None,
        }
    }

    /// The end of a new log. Appends wait in the write buffer, if there is one.
    pub fn new(file: Arc<StoreFile>, memory: Arc<LogMemory>) -> Self {
        Self { recent: Some((memory, Arc::new(RecentEnd::new()))), ..Self::ended(file) }
    }

    /// The end of a new log whose appends wait in memory until a drain. `promise`: the space for
    /// them.
    pub fn in_memory(file: Arc<StoreFile>, memory: Arc<LogMemory>, promise: Promise) -> Self {
        Self {
            in_file: AtomicU64::new(HEADER_BYTES),
            waiting: RwLock::new(Waiting::Memory { base: HEADER_BYTES, bytes: Vec::new() }),
            promise: Some(promise),
            ..Self::new(file, memory)
        }
    }

    /// Appends `records` records at `offset`, the end of the log.
    pub fn append(
        &self,
        TailMemory { write_buffer, stays }: TailMemory<'_>,
        (bytes, records): (&[u8], u64),
        offset: u64,
    ) -> Result<()> {
        self.stays.store(stays, Relaxed);
        if self.promise.is_some() {
            self.waiting.write().push(bytes, records, offset);
            return Ok(());
        }
        let _writing = waits::lock(&self.writing);
        let write_buffer = write_buffer
            .filter(|write_buffer| write_buffer.is_sound() && bytes.len() <= write_buffer.append_bytes_max());
        let waits = |waiting: &mut Waiting| write_buffer.is_some() && waiting.push(bytes, records, offset);
        {
            let waiting = &mut *self.waiting.write();
            if let Waiting::Nowhere { warm } = waiting
                && std::mem::replace(warm, true)
                && let Some(lease) = write_buffer.and_then(|buffer| buffer.lease(self.file.id, offset))
            {
                *waiting = Waiting::Slot(lease);
                self.note(waiting);
            }
            if waits(waiting) {
                return Ok(());
            }
        }
        self.drain_to(u64::MAX)?;
        if waits(&mut self.waiting.write()) {
            return Ok(());
        }
        self.write(bytes, offset, stays)?;
        self.set_base(offset + bytes.len() as u64);
        Ok(())
    }

    /// `len` bytes at `at`, if they are in memory. All others are in the file.
    pub fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        if at >= self.in_file.load(Acquire)
            && let Some(bytes) = self.waiting.read().read(at, len)
        {
            return Some(bytes);
        }
        let (memory, end) = self.recent.as_ref()?;
        memory.recent.read(end, at, len)
    }

    /// Number of bytes that wait in memory only.
    pub fn in_memory_bytes(&self) -> u64 {
        // Takes no lock for other logs, whose appends call this as well.
        self.promise.as_ref().map_or(0, |_| self.waiting.read().in_memory_bytes())
    }

    /// Takes over the space that is promised for bytes that wait in memory.
    pub fn take_promise(&self, from: &Promise, bytes: u64) {
        if let Some(promise) = &self.promise {
            from.hand_over(bytes, promise);
        }
    }

    /// Bytes of the page that the first record may begin, which has to be promised in addition.
    pub fn unpromised_page(len: u64) -> u64 {
        if len == HEADER_BYTES { PAGE_BYTES } else { 0 }
    }

    /// Writes all waiting bytes to the file; if they wait in memory, only those before `len`, the
    /// end of the log.
    pub fn drain(&self, len: u64) -> Result<()> {
        let _writing = waits::lock(&self.writing);
        self.drain_to(len)
    }

    /// As `drain`, and releases the slot.
    pub fn release(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.drain_to(len)?;
        if self.promise.is_none() {
            let waiting = &mut *self.waiting.write();
            *waiting = Waiting::Nowhere { warm: false };
            self.note(waiting);
        }
        Ok(())
    }

    /// Writes bytes that do not wait at `offset`, after everything that was drained.
    pub fn write_behind(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let _writing = waits::lock(&self.writing);
        self.write(bytes, offset, false)?;
        self.set_base(offset + bytes.len() as u64);
        Ok(())
    }

    /// Removes the appends after `len`.
    pub fn truncate(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.forget_recent(len);
        let kept = {
            let waiting = &mut *self.waiting.write();
            if !waiting.truncate(len) {
                // The slot of a process that dies may still have it.
                return Err(self.failed(Attempt::Truncate));
            }
            waiting.counted_in_file(len)
        };
        // An append that could not open the file left nothing there, and the file may still fail to
        // open.
        if self.touched.load(Relaxed) > kept {
            let handle = self.file.handle()?;
            handle.set_len(kept).map_err(|e| Error::io(Attempt::Truncate, &self.file.path, e))?;
            self.touched.store(kept, Relaxed);
        }
        self.lower_base(kept);
        Ok(())
    }

    /// Overwrites the bytes that `truncate` could not remove, in place, which takes no space. All
    /// of them: a record after other bytes would count as proof of damage.
    pub fn zero_tail(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.forget_recent(len);
        let kept = self.waiting.read().counted_in_file(len);
        let handle = self.file.handle()?;
        let end = handle.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))?;
        // From the end, and less than a record at a time, so that no record remains after zeros if
        // this fails, too. Fallback when truncation fails: few bytes, not performance-critical.
        const ZEROS: [u8; 8] = [0; 8];
        let mut left = end;
        while left > kept {
            let from = left.saturating_sub(ZEROS.len() as u64).max(kept);
            let zeros = &ZEROS[..(left - from) as usize];
            self.file.write_at(zeros, from)?;
            left = from;
        }
        self.lower_base(kept);
        Ok(())
    }

    /// Writes the waiting bytes to the file. Readers find them in memory until they are in the
    /// file, and do not wait.
    fn drain_to(&self, len: u64) -> Result<()> {
        let (bytes, base) = {
            let waiting = self.waiting.read();
            (waiting.before(len).ok_or_else(|| self.failed(Attempt::Append))?, waiting.base())
        };
        if bytes.is_empty() {
            return Ok(());
        }
        self.write(&bytes, base, self.stays.load(Relaxed))?;
        if let Some(promise) = &self.promise {
            promise.redeem(bytes.len() as u64 + Self::unpromised_page(base));
        }
        let waiting = &mut *self.waiting.write();
        waiting.set_drained(bytes.len());
        self.note(waiting);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64, stays: bool) -> Result<()> {
        // Opened first: an append that cannot open the file leaves nothing to truncate.
        let _open = self.file.handle()?;
        self.touched.fetch_max(offset + bytes.len() as u64, Relaxed);
        waits::timed(Cause::Device, || self.file.write_at(bytes, offset))?;
        if let Some((memory, end)) = self.recent.as_ref().filter(|_| stays) {
            memory.recent.keep(end, offset, bytes, memory.recent_limit_bytes());
        }
        Ok(())
    }

    fn forget_recent(&self, len: u64) {
        if let Some((_, end)) = &self.recent {
            end.truncate(len);
        }
    }

    /// Records that the file has everything up to `base`, and nothing waits.
    fn set_base(&self, base: u64) {
        let waiting = &mut *self.waiting.write();
        waiting.set_base(base);
        self.note(waiting);
    }

    /// Records that the file ends at `kept`, or will end there if bytes are waiting.
    fn lower_base(&self, kept: u64) {
        let waiting = &mut *self.waiting.write();
        if let Waiting::Slot(lease) = waiting
            && kept < lease.base()
        {
            lease.set_base(kept);
        }
        self.note(waiting);
    }

    fn note(&self, waiting: &Waiting) {
        self.in_file.store(waiting.base(), Release);
    }

    /// The error for waiting bytes that are lost, as the write buffer's file failed.
    fn failed(&self, attempt: Attempt) -> Error {
        let lost = std::io::Error::other("the file WRITE-BUFFER cannot be read or written any more");
        Error::io(attempt, &self.file.path, lost)
    }
}
