//! The end of a log's file: what waits for it in the write buffer, and what was written to it lately.
//!
//! `Segment` comes here for each append and for whatever looks at the end of the file. There are two locks. `writing` is taken
//! by who changes the end of the log, appends (under the chunk's lock) and checkpoints, and is held over calls on the file.
//! `lease` is taken by them and by readers of what is buffered, and is held for a copy: a get never waits for the disk here.
//!
//! Invariants: without a lease the file has the whole log. With one, the file has what stands before `lease.base()`, and
//! `drained` is the same number, which readers compare their place with: below it they read the file and take no lock.
//! It is raised after the call that drains, and lowered only by who takes back an append, which no reader knows of.
//!
//! A drain that fails leaves everything buffered: readers find it there, a dead process leaves it there, and it is
//! tried again by the next append, checkpoint or closing, which report the error.

use crate::files::StoreFile;
use crate::log::LogMemory;
use crate::log::tail::recent::RecentEnd;
use crate::log::tail::write_buffer::{Lease, WriteBuffer};
use crate::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};

pub struct FileEnd {
    /// From here on records may be buffered; `u64::MAX` without a lease.
    drained: AtomicU64,
    /// Taken before `lease`.
    writing: Mutex<Writing>,
    /// Changed by who holds `writing`.
    lease: Mutex<Option<Lease>>,
    /// Up to here the file may have been written to, by writes that failed as well; of one of an earlier epoch, nothing was
    /// appended. Changed by who holds `writing`.
    written: AtomicU64,
    recent: Arc<RecentEnd>,
}

/// Where what is appended to a log may be besides its file.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// Before it is written, if it may be buffered.
    pub write_buffer: Option<&'a Arc<WriteBuffer>>,
    /// Whose memory it stays in when it has been written, if somebody may read it from the log.
    pub recent: Option<&'a Arc<LogMemory>>,
}

#[derive(Default)]
struct Writing {
    /// It was appended to since the last checkpoint: another append is worth a slot.
    warm: bool,
    /// As the last append said.
    recent: Option<Arc<LogMemory>>,
}

impl Default for FileEnd {
    fn default() -> Self {
        Self {
            drained: AtomicU64::new(u64::MAX),
            writing: Mutex::default(),
            lease: Mutex::default(),
            written: AtomicU64::new(0),
            recent: Arc::new(RecentEnd::new()),
        }
    }
}

impl FileEnd {
    /// Appends `records` records at `offset`, where the log ends.
    pub fn append(
        &self,
        file: &StoreFile,
        Places { write_buffer, recent }: Places<'_>,
        (bytes, records): (&[u8], u64),
        offset: u64,
    ) -> Result<()> {
        let writing = &mut *self.writing.lock();
        let write_buffer = write_buffer
            .filter(|write_buffer| write_buffer.is_sound() && bytes.len() <= write_buffer.append_bytes_max());
        if writing.recent.is_some() != recent.is_some() {
            writing.recent = recent.cloned();
        }
        let recent = writing.recent.as_ref();
        let mut lease = self.lease.lock();
        if lease.is_none() && std::mem::replace(&mut writing.warm, true) {
            *lease = write_buffer.and_then(|write_buffer| write_buffer.lease(file.id, offset));
            self.note(&lease);
        }
        if let Some(lease) = lease.as_mut() {
            debug_assert_eq!(lease.end(), offset, "appends to the end");
            if write_buffer.is_some() && lease.fits(bytes.len()) && lease.push(bytes, records) {
                return Ok(());
            }
        }
        drop(lease);
        self.drain_to(file, recent)?;
        if write_buffer.is_some()
            && let Some(lease) = self.lease.lock().as_mut()
            && lease.fits(bytes.len())
            && lease.push(bytes, records)
        {
            return Ok(());
        }
        self.write(file, bytes, offset, recent)?;
        self.set_base(offset + bytes.len() as u64);
        Ok(())
    }

    /// `len` buffered bytes at `offset`; `None` if they are in the file.
    pub fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        if offset < self.drained.load(Acquire) {
            return None;
        }
        self.lease.lock().as_ref()?.read(offset, len)
    }

    /// `len` bytes at `offset` that were written to the file lately.
    pub fn read_recent(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        self.recent.read(offset, len)
    }

    /// Has everything that was appended in the file.
    pub fn drain(&self, file: &StoreFile) -> Result<()> {
        let writing = self.writing.lock();
        self.drain_to(file, writing.recent.as_ref())
    }

    /// The same, and leaves the slot to others.
    pub fn release(&self, file: &StoreFile) -> Result<()> {
        let writing = &mut *self.writing.lock();
        self.drain_to(file, writing.recent.as_ref())?;
        *writing = Writing::default();
        let lease = &mut *self.lease.lock();
        *lease = None;
        self.note(lease);
        Ok(())
    }

    /// Writes at `offset`, behind everything that was drained, bytes that are not buffered.
    pub fn write_behind(&self, file: &StoreFile, bytes: &[u8], offset: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.write(file, bytes, offset, None)?;
        self.set_base(offset + bytes.len() as u64);
        Ok(())
    }

    /// Writes what was buffered in memory, and never in the write buffer.
    pub fn write_from_memory(&self, file: &StoreFile, bytes: &[u8], offset: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.write(file, bytes, offset, None)
    }

    /// Takes back what was appended behind `len`.
    pub fn truncate(&self, file: &StoreFile, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.recent.truncate(len);
        let base = match &mut *self.lease.lock() {
            Some(lease) => {
                lease.truncate(len);
                if !lease.is_kept() {
                    // A dead process may leave it there.
                    return Err(failed(Attempt::Truncate, file));
                }
                lease.base()
            }
            None => u64::MAX,
        };
        let kept = len.min(base);
        // An append that could not even open the file has left nothing there: nor can it be opened now.
        if self.written.load(Relaxed) > kept {
            let handle = file.handle()?;
            handle.set_len(kept).map_err(|e| Error::io(Attempt::Truncate, &file.path, e))?;
            self.written.store(kept, Relaxed);
        }
        if len < base {
            self.set_base(len);
        }
        Ok(())
    }

    /// Overwrites what `cut` could not cut off; in place, which takes no space. All of it: a record behind what is none
    /// would tell of damage.
    pub fn zero_tail(&self, file: &StoreFile, len: u64) -> Result<()> {
        let _writing = self.writing.lock();
        self.recent.truncate(len);
        let base = self.lease.lock().as_ref().map_or(u64::MAX, Lease::base);
        let kept = len.min(base);
        let handle = file.handle()?;
        let end = handle.len().map_err(|e| Error::io(Attempt::Measure, &file.path, e))?;
        // From the end, and less than a record at once: so no record is left behind zeros if that fails, too, and be it half
        // way. Who comes here has a disk that cannot even shorten a file, and few bytes; nobody waits for speed.
        const ZEROS: [u8; 8] = [0; 8];
        let mut left = end;
        while left > kept {
            let from = left.saturating_sub(ZEROS.len() as u64).max(kept);
            let zeros = &ZEROS[..(left - from) as usize];
            file.write_at(zeros, from)?;
            left = from;
        }
        if kept < base {
            self.set_base(kept);
        }
        Ok(())
    }

    /// Writes what is buffered to the file. Readers find it in the slot until it is there, and wait for nothing.
    fn drain_to(&self, file: &StoreFile, recent: Option<&Arc<LogMemory>>) -> Result<()> {
        let (buffered, base) = {
            let lease = self.lease.lock();
            let Some(lease) = lease.as_ref() else { return Ok(()) };
            let buffered = lease.buffered().into_owned();
            if buffered.is_empty() {
                return Ok(());
            }
            if !lease.is_readable() {
                return Err(failed(Attempt::Append, file));
            }
            (buffered, lease.base())
        };
        self.write(file, &buffered, base, recent)?;
        if let Some(lease) = self.lease.lock().as_mut() {
            lease.set_drained();
            self.drained.store(lease.base(), Release);
        }
        Ok(())
    }

    fn write(
        &self,
        file: &StoreFile,
        bytes: &[u8],
        offset: u64,
        recent: Option<&Arc<LogMemory>>,
    ) -> Result<()> {
        // Nothing is left to take back of an append that could not even open the file.
        let _open = file.handle()?;
        self.written.fetch_max(offset + bytes.len() as u64, Relaxed);
        file.write_at(bytes, offset)?;
        if let Some(memory) = recent {
            memory.recent.keep(&self.recent, offset, bytes, memory.recent_limit_bytes());
        }
        Ok(())
    }

    /// The file has everything up to `base`, and nothing is buffered.
    fn set_base(&self, base: u64) {
        if let Some(lease) = self.lease.lock().as_mut() {
            lease.set_base(base);
            self.drained.store(base, Release);
        }
    }

    fn note(&self, lease: &Option<Lease>) {
        self.drained.store(lease.as_ref().map_or(u64::MAX, Lease::base), Release);
    }
}

/// What was buffered for the log failed it.
fn failed(attempt: Attempt, file: &StoreFile) -> Error {
    Error::io(
        attempt,
        &file.path,
        std::io::Error::other("the file WRITE-BUFFER cannot be read or written any more"),
    )
}
