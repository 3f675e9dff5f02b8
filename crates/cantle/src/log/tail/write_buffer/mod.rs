//! The write buffer: appends to logs wait here, safe from the death of the process, until many are
//! written to their file at once.
//!
//! An append costs a system call, which costs more than everything else in a put, the more so under
//! the chunk's lock. Instead, the file `WRITE-BUFFER` is mapped into memory and divided into
//! *slots*. A slot buffers the tail of one log: the bytes exactly as they will stand in the log. An
//! append is a copy into the slot. When the slot is full, its bytes are *drained*: written to the
//! log by one call. The bytes of a slot are in the page cache, as are those of the log's file.
//!
//! ```text
//!   file    ├─ head, 4 KiB ─┼─ slot 0 ─┼─ slot 1 ─┼─ …
//!
//!   slot    0         8          16
//!           ├─────────┼──────────┼─────────┼─────────┼─ …
//!           │ file id │ state    │ record  │ record  │
//!             u64       u64
//! ```
//!
//! `state` is one word: the offset in the log of the buffered bytes, their number, and a check over
//! both and the file's number. Every change of a slot thus takes effect by the store of one word:
//!
//! * *append*: first the new bytes after the buffered ones, then the word that counts them. After a
//!   kill in between they do not count.
//! * *drain*: first the bytes to the log, then the word that says that none is buffered, with the
//!   offset of the next one. After a kill in between, the next opening writes the same bytes to the
//!   same place again.
//! * *lease* of a slot to another log: the word zero, the file's number, the word. The slot had
//!   been drained before, or its log was obsolete.
//! * *cut* of an append that failed: the word that counts fewer bytes.
//!
//! Invariants:
//!
//! * All bytes of a log before those in its slot are in its file.
//! * Bytes of a slot that its word does not count are never read.
//! * A slot's piece of the mapping belongs to its lease alone, which is used under the segment's
//!   lock (`log/tail/tail.rs`).
//!
//! Records carry checksums that are salted with store, file and offset, so wrong slots are detected
//! (`recover.rs`).
//!
//! After a power loss the last checkpoint counts, for which everything was drained and synced: the
//! write buffer is neither synced nor read then. The file of an earlier opening is removed at each
//! opening. The new one is created by the first append that is buffered.
//!
//! The file has `SLOTS_MIN` slots at first, and twice as many each time that none is free. It
//! shrinks to `SLOTS_MIN` when the store has buffered nothing for a while (`give_back`). The head
//! counts slots that exist. It is written after the space of new slots was allocated, and before
//! the space of removed slots is released, so a process that is killed in between leaves no slot
//! beyond the end. Removed slots are leased to no log.
//!
//! A store into the mapping cannot fail, even if the device or the file system of the file does;
//! the failure shows afterwards (`MappedPiece::backing`). Then nothing more is buffered: the
//! buffered bytes are drained, and records go to their logs by system calls, which report errors.
//! The file may still show bytes that were drained; this does no harm, as long as none of them is
//! cut: a cut fails then.
//!
//! There is no write buffer if the page cache cannot be vouched for, nor while less than 2 GiB of
//! the disk is free. With it a drain always finds room, as all slots together are less than a
//! hundredth of that.

mod format;
mod recover;

pub use recover::{open, read, recover, recover_open};

use crate::files::Files;
use crate::files::space::PLENTY_BYTES;
use crate::log::LogMemory;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{Backing, MappedPiece, OpenMode, VfsFile};
use format::{BASE_MAX, HEAD_BYTES, Head, SLOT_HEAD_BYTES, State};
use std::io;

pub const WRITE_BUFFER_FILE: &str = "WRITE-BUFFER";
/// Name of the file while it is being created.
const TEMPORARY: &str = "WRITE-BUFFER.tmp";
/// Length of a slot in bytes: some twenty records of usual length, which share the cost of the call
/// that drains them. A longer slot would save less than it costs in memory.
const SLOT_BYTES: usize = 16 << 10;
/// Maximum number of slots: 16 MiB, enough for the logs of 8 GiB of chunks of usual length.
const SLOTS_MAX: usize = 1024;
/// Number of slots at first: 128 KiB, for small or idle stores, of which a process may have
/// hundreds open.
const SLOTS_MIN: usize = 8;

/// The slots of one store.
pub struct WriteBuffer {
    files: Arc<Files>,
    memory: Arc<LogMemory>,
    /// Number of slots in the file.
    slots: AtomicUsize,
    /// Free slots; those that were used before are at the end, as their memory exists.
    free: Mutex<Vec<Slot>>,
    /// Taken before `free`.
    growth: Mutex<Growth>,
    /// True once the file failed: nothing more is buffered.
    failed: AtomicBool,
    leases: AtomicU64,
    drains: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

/// State of growing and shrinking.
#[derive(Default)]
struct Growth {
    /// True once the file could not be extended: it does not grow any more.
    refused: bool,
    /// Number of leases at the last check for idleness.
    leases: u64,
}

/// Totals of the bytes drained since opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    pub drains: u64,
    pub records: u64,
    pub bytes: u64,
}

#[derive(Debug)]
struct Slot {
    piece: Box<dyn MappedPiece>,
    /// Number of the slot in the file.
    index: usize,
    /// True if its memory was ever used.
    touched: bool,
}

impl WriteBuffer {
    /// An empty write buffer. Its file is created later. The content of the last one was recovered,
    /// or does not count.
    pub fn create(files: Arc<Files>, memory: Arc<LogMemory>) -> Result<Option<Self>> {
        remove(&files)?;
        let available = files.vfs.available_bytes(&files.dir);
        let available = available.map_err(|e| Error::io(Attempt::LookAt, &files.dir, e))?;
        let write_buffer = Self {
            files,
            memory,
            slots: AtomicUsize::new(0),
            free: Mutex::default(),
            growth: Mutex::default(),
            failed: AtomicBool::new(false),
            leases: AtomicU64::new(0),
            drains: AtomicU64::new(0),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        let has_plenty = available.saturating_sub(end_of(SLOTS_MAX)) > PLENTY_BYTES;
        Ok(has_plenty.then_some(write_buffer))
    }

    /// Creates or extends the file, if allowed. A thread that finds another one doing so gets no
    /// slot.
    fn grow(&self) -> Option<()> {
        let mut growth = self.growth.try_lock()?;
        if growth.refused || !self.is_sound() {
            return None;
        }
        let slots = self.slots.load(Relaxed);
        let wanted = slots.max(SLOTS_MIN).min(SLOTS_MAX - slots);
        let taken_bytes = self.memory.write_buffer.take_up_to((wanted * SLOT_BYTES) as u64);
        let more = taken_bytes as usize / SLOT_BYTES;
        let used_bytes = (more * SLOT_BYTES) as u64;
        self.memory.write_buffer.give_back(taken_bytes - used_bytes);
        if more == 0 {
            return None;
        }
        let extended = if slots == 0 { self.make(more) } else { self.extend(slots, more) };
        match extended {
            Ok(pieces) => {
                self.slots.store(slots + more, Relaxed);
                let slot = |(index, piece)| Slot { piece, index: slots + index, touched: false };
                let new: Vec<Slot> = pieces.into_iter().enumerate().map(slot).collect();
                self.free.lock().splice(0..0, new.into_iter().rev());
                Some(())
            }
            Err(error) => {
                tracing::debug!(%error, slots, "cannot extend the write buffer");
                self.memory.write_buffer.give_back(used_bytes);
                growth.refused = true;
                None
            }
        }
    }

    fn head(&self, slots: usize) -> Vec<u8> {
        let (store, epoch) = (self.files.store, self.files.epoch);
        Head { store, epoch, slot_bytes: SLOT_BYTES as u32, slots: slots as u32 }.encode()
    }

    fn make(&self, slots: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let [temporary, path] = [TEMPORARY, WRITE_BUFFER_FILE].map(|name| self.files.dir.join(name));
        let make = || {
            let file = self.files.create_temporary(&temporary)?;
            file.write_at(&self.head(slots), 0)?;
            // A store into a page without disk space would kill the process.
            file.allocate(end_of(slots))?;
            let pieces = file.map(HEAD_BYTES, SLOT_BYTES, slots)?;
            // A file with the final name is complete; if it is not, it is damaged.
            self.files.vfs.rename(&temporary, &path)?;
            Ok(pieces)
        };
        make().inspect_err(|_| self.close())
    }

    fn extend(&self, slots: usize, more: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let path = self.files.dir.join(WRITE_BUFFER_FILE);
        let file = self.files.vfs.open(&path, OpenMode::ReadWrite)?;
        file.allocate(end_of(slots + more))?;
        let pieces = file.map(end_of(slots), SLOT_BYTES, more)?;
        self.write_head(&*file, slots, slots + more)?;
        Ok(pieces)
    }

    /// Writes the present number of slots. If that fails, the head is unchanged, or nothing more is
    /// buffered.
    fn write_head(&self, file: &dyn VfsFile, before: usize, slots: usize) -> io::Result<()> {
        let written = file.write_at(&self.head(slots), 0);
        if written.is_err()
            && let Err(error) = file.write_at(&self.head(before), 0)
        {
            tracing::warn!(%error, "the write buffer's head may be damaged: records go to their logs directly");
            self.failed.store(true, Relaxed);
        }
        written
    }

    /// Shrinks the file to its first size, if no slot was leased since the last call and none is
    /// leased now. Call it every few seconds.
    pub fn give_back(&self) {
        let Some(mut growth) = self.growth.try_lock() else { return };
        let (leases, slots) = (self.leases.load(Relaxed), self.slots.load(Relaxed));
        let was_leased = std::mem::replace(&mut growth.leases, leases) != leases;
        if was_leased || slots <= SLOTS_MIN || !self.is_sound() {
            return;
        }
        let gone = {
            let mut free = self.free.lock();
            if free.len() < slots {
                return;
            }
            let (kept, gone): (Vec<Slot>, Vec<Slot>) =
                std::mem::take(&mut *free).into_iter().partition(|slot| slot.index < SLOTS_MIN);
            *free = kept;
            gone
        };
        self.slots.store(SLOTS_MIN, Relaxed);
        let touched = gone.iter().filter(|slot| slot.touched).count();
        self.memory.write_buffer_used.give_back((touched * SLOT_BYTES) as u64);
        self.memory.write_buffer.give_back((gone.len() * SLOT_BYTES) as u64);
        // The removed slots cannot be reached any more.
        drop(gone);
        let path = self.files.dir.join(WRITE_BUFFER_FILE);
        let cut = || -> io::Result<()> {
            let file = self.files.vfs.open(&path, OpenMode::ReadWrite)?;
            self.write_head(&*file, slots, SLOTS_MIN)?;
            file.set_len(end_of(SLOTS_MIN))
        };
        if let Err(error) = cut() {
            // The head may count slots that are not used any more; their words say that nothing is
            // buffered. The file does not grow again.
            tracing::debug!(%error, "cannot shrink the write buffer");
            growth.refused = true;
        }
    }

    /// Length of the file on disk.
    pub fn file_bytes(&self) -> u64 {
        match self.slots.load(Relaxed) {
            0 => 0,
            slots => end_of(slots),
        }
    }

    pub fn drained(&self) -> Drained {
        Drained {
            drains: self.drains.load(Relaxed),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// Maximum length of an append that is worth buffering: of longer ones a slot would hold only
    /// one or two.
    pub fn append_bytes_max(&self) -> usize {
        (SLOT_BYTES - SLOT_HEAD_BYTES) / 3
    }

    /// A slot for the tail of log `file`, which ends at `base`; `None` if none is free.
    pub fn lease(self: &Arc<Self>, file: u64, base: u64) -> Option<Lease> {
        if base >= BASE_MAX {
            return None;
        }
        let mut slot = self.take_slot()?;
        self.leases.fetch_add(1, Relaxed);
        if !slot.touched {
            slot.touched = true;
            self.memory.write_buffer_used.counter().fetch_add(SLOT_BYTES as u64, Relaxed);
        }
        slot.piece.set_word(8, 0);
        slot.piece.set_word(0, file);
        let mut lease =
            Lease { write_buffer: self.clone(), slot: Some(slot), file, base, len: 0, records: 0 };
        lease.set_state();
        lease.is_kept().then_some(lease)
    }

    fn take_slot(&self) -> Option<Slot> {
        if let Some(slot) = self.free.lock().pop() {
            return Some(slot);
        }
        waits::timed(Cause::Allocation, || self.grow())?;
        self.free.lock().pop()
    }

    /// True if appends may be buffered: no store into the file has failed.
    pub fn is_sound(&self) -> bool {
        !self.failed.load(Relaxed)
    }

    /// Removes the file. Everything was drained, and nothing is appended any more.
    pub fn close(&self) {
        if let Err(error) = remove(&self.files) {
            tracing::debug!(%error, "cannot remove the write buffer");
        }
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        let touched = self.free.lock().iter().filter(|slot| slot.touched).count();
        self.memory.write_buffer_used.give_back((touched * SLOT_BYTES) as u64);
        self.memory.write_buffer.give_back((*self.slots.get_mut() * SLOT_BYTES) as u64);
    }
}

/// Length of a file with this number of slots.
fn end_of(slots: usize) -> u64 {
    HEAD_BYTES + (slots * SLOT_BYTES) as u64
}

/// Removes the files of an earlier opening.
pub fn remove(files: &Files) -> Result<()> {
    [TEMPORARY, WRITE_BUFFER_FILE].into_iter().try_for_each(|name| {
        let path = files.dir.join(name);
        match files.vfs.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(Attempt::Remove, &path, error))
            }
            _ => Ok(()),
        }
    })
}

/// A slot while it buffers the tail of one log.
pub struct Lease {
    write_buffer: Arc<WriteBuffer>,
    /// `None` only while it is dropped.
    slot: Option<Slot>,
    file: u64,
    /// Offset of the buffered bytes in the log.
    base: u64,
    len: usize,
    records: u64,
}

impl Lease {
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The end of the buffered bytes in the log.
    pub fn end(&self) -> u64 {
        self.base + self.len as u64
    }

    /// Appends bytes. False, with nothing appended, if they do not fit or would not survive the
    /// process.
    pub fn push(&mut self, bytes: &[u8], records: u64) -> bool {
        if self.len + bytes.len() > SLOT_BYTES - SLOT_HEAD_BYTES || self.base >= BASE_MAX {
            return false;
        }
        let at = SLOT_HEAD_BYTES + self.len;
        self.piece().write(at, bytes);
        self.len += bytes.len();
        self.records += records;
        self.set_state();
        if self.is_kept() {
            return true;
        }
        self.len -= bytes.len();
        self.records -= records;
        self.set_state();
        false
    }

    /// True if the buffered bytes are in the file, as far as is known. The first time that they are
    /// not, buffering ends.
    fn is_kept(&self) -> bool {
        let backing = self.backing();
        if backing != Backing::File && !self.write_buffer.failed.swap(true, Relaxed) {
            tracing::warn!(?backing, "the write buffer's file has failed: records go to their logs directly");
        }
        backing == Backing::File
    }

    fn backing(&self) -> Backing {
        self.slot.as_ref().map_or(Backing::File, |slot| slot.piece.backing())
    }

    /// The buffered bytes; `None` if they cannot be read any more.
    pub fn buffered(&self) -> Option<Vec<u8>> {
        let bytes = self.slot.as_ref().map(|slot| slot.piece.read(SLOT_HEAD_BYTES, self.len).into_owned());
        let bytes = bytes.unwrap_or_default();
        (bytes.is_empty() || self.backing() != Backing::Lost).then_some(bytes)
    }

    /// Bytes by their offset in the log, if all of them are buffered.
    pub fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let at = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        let within = at.checked_add(len).is_some_and(|end| end <= self.len);
        let slot = self.slot.as_ref().filter(|_| within)?;
        Some(slot.piece.read(SLOT_HEAD_BYTES + at, len).into_owned())
    }

    /// Records that the buffered bytes are in the log.
    pub fn set_drained(&mut self) {
        self.write_buffer.drains.fetch_add(1, Relaxed);
        self.write_buffer.records.fetch_add(self.records, Relaxed);
        self.write_buffer.bytes.fetch_add(self.len as u64, Relaxed);
        self.set_base(self.end());
    }

    /// Records that the log's file ends at `base`, and nothing is buffered.
    pub fn set_base(&mut self, base: u64) {
        (self.base, self.len, self.records) = (base, 0, 0);
        self.set_state();
    }

    /// Drops the buffered bytes from `end` on; false if the file may still count them.
    pub fn truncate(&mut self, end: u64) -> bool {
        let len = end.saturating_sub(self.base).min(self.len as u64);
        self.len = len as usize;
        self.set_state();
        self.is_kept()
    }

    fn piece(&mut self) -> &mut dyn MappedPiece {
        match &mut self.slot {
            Some(slot) => &mut *slot.piece,
            None => unreachable!("given back when dropped"),
        }
    }

    fn set_state(&mut self) {
        let word = State { base: self.base, len: self.len }.encode(self.file);
        self.piece().set_word(8, word);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // The slot's words stay: if its log was not drained, this may be the only copy.
        if let Some(slot) = self.slot.take() {
            self.write_buffer.free.lock().push(slot);
        }
    }
}
