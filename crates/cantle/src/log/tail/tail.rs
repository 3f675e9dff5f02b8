//! The end of a log: the one way to what was appended to it and may not be in its file yet, or was written
//! there lately.
//!
//! An append *waits* where the log's tail keeps it: in memory alone (`Durability::Buffered`), or in a slot of
//! the write buffer, which outlives the process. A *drain* writes what waits by one call. What was written
//! *stays* in memory for a while, if somebody may read it from the log ([`recent`](super::recent)). A reader
//! asks the tail once, and then the file.
//!
//! ```text
//!   log     ├──────────────┼───────────────┼─────────────────┤ end
//!             in the file    in the file     waits
//!                            and stays       (slot, memory)
//!                                          ^ in_file
//! ```
//!
//! There are two locks. `writing` is taken by who writes to the file, and is held over its calls. `waiting`
//! is taken by them, by appends and by readers of what waits, and is held for a copy: a get never waits for
//! the disk here.
//!
//! Invariants: the file has what stands before what waits; that place is `in_file`, which readers compare
//! theirs with: below it they take no lock but that of what stays, and that only where something does. It is
//! raised after the call that drains, and lowered only by who takes back an append, which no reader knows of.
//! Of what waits in memory only whole appends that count are written.
//!
//! A drain that fails leaves everything waiting: readers find it there, a dead process leaves it in its slot,
//! and it is tried again by the next append, checkpoint or closing, which report the error.

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
use crate::sync::{Arc, Mutex, RwLock};
use crate::types::error::{Attempt, Error, Result};

/// The least that a file takes of most file systems.
const PAGE_BYTES: u64 = 4096;

pub struct Tail {
    file: Arc<StoreFile>,
    /// From here on bytes may wait; `u64::MAX` where none do.
    in_file: AtomicU64,
    /// Taken before `waiting`.
    writing: Mutex<()>,
    /// Appends that wait in memory take this lock alone; all other changes hold `writing`, too.
    waiting: RwLock<Waiting>,
    /// Up to here the file may have been written to, by writes that failed as well; of one of an earlier
    /// epoch, nothing was appended. Changed by who holds `writing`.
    touched: AtomicU64,
    /// True if what is written stays in memory, as the last append said.
    stays: AtomicBool,
    /// Space for what waits in memory alone. None if nothing does.
    promise: Option<Promise>,
    /// The bytes that stay; `None` in a log that is not appended to.
    recent: Option<(Arc<LogMemory>, Arc<RecentEnd>)>,
}

/// The places besides its file where an append may be.
#[derive(Clone, Copy)]
pub struct TailMemory<'a> {
    /// Before it is written, if it may wait.
    pub write_buffer: Option<&'a Arc<WriteBuffer>>,
    /// It stays in memory when it has been written.
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

    /// The end of a new log, whose appends wait in the write buffer, if there is one.
    pub fn new(file: Arc<StoreFile>, memory: Arc<LogMemory>) -> Self {
        Self { recent: Some((memory, Arc::new(RecentEnd::new()))), ..Self::ended(file) }
    }

    /// The same, whose appends wait in memory until a drain. `promise`: of space for them.
    pub fn in_memory(file: Arc<StoreFile>, memory: Arc<LogMemory>, promise: Promise) -> Self {
        Self {
            in_file: AtomicU64::new(HEADER_BYTES),
            waiting: RwLock::new(Waiting::Memory { base: HEADER_BYTES, bytes: Vec::new() }),
            promise: Some(promise),
            ..Self::new(file, memory)
        }
    }

    /// Appends `records` records at `offset`, where the log ends.
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
        let _writing = self.writing.lock();
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

    /// The bytes that wait in memory alone.
    pub fn in_memory_bytes(&self) -> u64 {
        // No lock for appends of other logs, which ask this, too.
        self.promise.as_ref().map_or(0, |_| self.waiting.read().in_memory_bytes())
    }

    /// Takes over the promise of space for what waits in memory.
    pub fn take_promise(&self, from: &Promise, bytes: u64) {
        if let Some(promise) = &self.promise {
            from.hand_over(bytes, promise);
        }
    }

    /// The page that the first record to be promised space may begin in vain.
    pub fn unpromised_page(len: u64) -> u64 {
        if len == HEADER_BYTES { PAGE_BYTES } else { 0 }
    }

    /// Has in the file everything that was appended; of what waits in memory, what stands before `len`, where
    /// the log ends.
    pub fn drain(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.drain_to(len)
    }

    /// The same, and leaves a slot to others.
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

    /// Writes at `offset`, behind everything that was drained, bytes that do not wait.
    pub fn write_behind(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.write(bytes, offset, false)?;
        self.set_base(offset + bytes.len() as u64);
        Ok(())
    }

    /// Takes back what was appended behind `len`.
    pub fn truncate(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.forget_recent(len);
        let kept = {
            let waiting = &mut *self.waiting.write();
            if !waiting.truncate(len) {
                // A dead process may leave it there.
                return Err(self.failed(Attempt::Truncate));
            }
            waiting.counted_in_file(len)
        };
        // An append that could not even open the file has left nothing there: nor can it be opened now.
        if self.touched.load(Relaxed) > kept {
            let handle = self.file.handle()?;
            handle.set_len(kept).map_err(|e| Error::io(Attempt::Truncate, &self.file.path, e))?;
            self.touched.store(kept, Relaxed);
        }
        self.lower_base(kept);
        Ok(())
    }

    /// Overwrites what `truncate` could not cut off; in place, which takes no space. All of it: a record
    /// behind what is none would tell of damage.
    pub fn zero_tail(&self, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.forget_recent(len);
        let kept = self.waiting.read().counted_in_file(len);
        let handle = self.file.handle()?;
        let end = handle.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))?;
        // From the end, and less than a record at once: so no record is left behind zeros if that fails, too,
        // and be it half way. Who comes here has a disk that cannot even shorten a file, and few bytes;
        // nobody waits for speed.
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

    /// Writes what waits to the file. Readers find it where it waits until it is there, and wait for nothing.
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
        // Nothing is left to take back of an append that could not even open the file.
        let _open = self.file.handle()?;
        self.touched.fetch_max(offset + bytes.len() as u64, Relaxed);
        self.file.write_at(bytes, offset)?;
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

    /// The file has everything up to `base`, and nothing waits.
    fn set_base(&self, base: u64) {
        let waiting = &mut *self.waiting.write();
        waiting.set_base(base);
        self.note(waiting);
    }

    /// The file ends at `kept`, or will where that is what waits.
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

    /// The file of the write buffer failed bytes that waited in it.
    fn failed(&self, attempt: Attempt) -> Error {
        let lost = std::io::Error::other("the file WRITE-BUFFER cannot be read or written any more");
        Error::io(attempt, &self.file.path, lost)
    }
}
