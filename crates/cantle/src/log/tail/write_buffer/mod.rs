//! The write buffer: where appends to logs wait, safe from the death of the process, until many go to their file at once.
//!
//! An append costs a system call, which costs more than everything else in a put, and the more so under the chunk's
//! lock. The file `WRITE-BUFFER` is mapped into memory instead and cut into *slots*. A slot buffers the tail of one log: the
//! bytes exactly as they will stand in the log. An append is a copy into the slot; when the slot is full, what is in
//! it is *drained*: written to the log by one call. What is in the slot is in the page cache, as what is in the file is.
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
//! `state` is one word: where in the log the buffered bytes belong, how many there are, and a check over both and the
//! file's number. So every change of a slot takes effect by the store of one word:
//!
//! * *append*: the bytes behind the buffered ones, then the word that counts them. Killed between, they do not count.
//! * *drain*: the bytes to the log, then the word that says that none is buffered and where the next belongs. Killed
//!   between, the next opening writes the same bytes to the same place again.
//! * *lease*, of a slot to another log: the word zero, the file's number, the word. Before, the slot had been drained
//!   or its log had lost its worth.
//! * *cut*, of an append that is taken back: the word that counts less.
//!
//! Invariants: everything of a log before what its slot buffers is in its file; what the slot does not count is in no
//! reader's way; and a slot's piece of the mapping belongs to its lease alone, which is used under the segment's lock
//! (`log/tail/tail.rs`). Records carry checksums that are salted with store, file and offset, so that a slot that lies
//! is found out (`recover.rs`).
//!
//! After a loss of power, whatever the file holds, the last checkpoint counts, for which all was drained and synced:
//! the write buffer is neither synced nor read then. What an earlier opening left is removed at each opening, and the file is made with the first
//! append that is buffered.
//!
//! The file has `SLOTS_MIN` slots at first, twice as many each time that none is free, and as many as at first once a store has
//! buffered nothing for a while (`give_back`). The head counts slots that are there: it is written after the space of more was
//! allocated, and before the space of some is given back, so a process that is killed in between leaves no slot beyond the end.
//! Slots that are given back are leased to nobody.
//!
//! A file that fails (its device, its file system) cannot refuse a store; it shows afterwards (`MappedPiece::backing`). Then nothing more
//! is buffered: what is there is drained, and records go to their logs by system calls, which say what fails. That the file still
//! shows what was drained does no harm, as long as nothing of it is taken back: a cut fails then.
//!
//! There is no write buffer where nobody could vouch for the page cache, nor while less than 2 GiB of the disk is free: a
//! drain always finds room then, as all slots together are less than a hundredth of that.

mod format;
mod recover;

pub use recover::{open, read, recover, recover_open};

use crate::files::Files;
use crate::files::space::PLENTY_BYTES;
use crate::log::LogMemory;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{Backing, MappedPiece, OpenMode, VfsFile};
use format::{BASE_MAX, HEAD_BYTES, Head, SLOT_HEAD_BYTES, State};
use std::io;

pub const WRITE_BUFFER_FILE: &str = "WRITE-BUFFER";
/// While it is being made.
const TEMPORARY: &str = "WRITE-BUFFER.tmp";
/// Some twenty records of the usual length: the call that drains them is paid by each with a twentieth, and a longer
/// slot would save less than it costs in memory.
const SLOT_BYTES: usize = 16 << 10;
/// 16 MiB: the logs of 8 GiB of chunks at their usual length.
const SLOTS_MAX: usize = 1024;
/// 128 KiB: what a store takes that is small or idle, of which a process may have some hundred open.
const SLOTS_MIN: usize = 8;

/// The slots of one store.
pub struct WriteBuffer {
    files: Arc<Files>,
    memory: Arc<LogMemory>,
    /// In the file.
    slots: AtomicUsize,
    /// Those that were used before at the end, as their memory is there.
    free: Mutex<Vec<Slot>>,
    /// Taken before `free`.
    growth: Mutex<Growth>,
    /// Whether the file failed: nothing more is buffered.
    failed: AtomicBool,
    leases: AtomicU64,
    drains: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
}

/// For who changes how many slots there are.
#[derive(Default)]
struct Growth {
    /// It could not be made longer: it stays as it is.
    refused: bool,
    /// Slots leased up to when it was last asked whether the store is idle.
    leases: u64,
}

/// What went through the write buffer since opening.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drained {
    pub drains: u64,
    pub records: u64,
    pub bytes: u64,
}

#[derive(Debug)]
struct Slot {
    piece: Box<dyn MappedPiece>,
    /// Where in the file it is.
    index: usize,
    /// Whether its memory was ever used.
    touched: bool,
}

impl WriteBuffer {
    /// An empty write buffer, whose file is yet to be made. Whatever the last one held was recovered, or does not count.
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

    /// Makes the file, or makes it longer, if that may be. Who finds somebody at it does without a slot.
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
                tracing::debug!(%error, slots, "the write buffer does not grow");
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
            // A store into a page that the disk has no room for would kill the process.
            file.allocate(end_of(slots))?;
            let pieces = file.map(HEAD_BYTES, SLOT_BYTES, slots)?;
            // Under its own name it is whole: if it is not, it is damaged.
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

    /// Says how many slots there are now. If that fails, the head is as it was, or nothing more is buffered.
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

    /// Shortens the file to what it was at first, if nobody has leased a slot since the last call and nobody has one. To be
    /// called every few seconds.
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
        // Nobody reaches what is cut off any more.
        drop(gone);
        let path = self.files.dir.join(WRITE_BUFFER_FILE);
        let cut = || -> io::Result<()> {
            let file = self.files.vfs.open(&path, OpenMode::ReadWrite)?;
            self.write_head(&*file, slots, SLOTS_MIN)?;
            file.set_len(end_of(SLOTS_MIN))
        };
        if let Err(error) = cut() {
            // Slots that the head counts and nobody uses say that nothing is buffered. It does not grow again.
            tracing::debug!(%error, "the write buffer stays as long as it was");
            growth.refused = true;
        }
    }

    /// What the file takes on disk.
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

    /// The longest append that is worth buffering: of longer ones a drain would carry one or two only.
    pub fn append_bytes_max(&self) -> usize {
        (SLOT_BYTES - SLOT_HEAD_BYTES) / 3
    }

    /// A slot for the tail of log `file`, which ends at `base`; `None` if there is none.
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
        self.grow()?;
        self.free.lock().pop()
    }

    /// Whether anything may be buffered: no store has failed to reach the file.
    pub fn is_sound(&self) -> bool {
        !self.failed.load(Relaxed)
    }

    /// All was drained, and nobody will append any more.
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

/// Where a file of so many slots ends.
fn end_of(slots: usize) -> u64 {
    HEAD_BYTES + (slots * SLOT_BYTES) as u64
}

/// Removes what another opening left.
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
    /// Until it is given back.
    slot: Option<Slot>,
    file: u64,
    /// Where the buffered bytes belong in the log.
    base: u64,
    len: usize,
    records: u64,
}

impl Lease {
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Behind what is buffered.
    pub fn end(&self) -> u64 {
        self.base + self.len as u64
    }

    /// Appends bytes; `false`, and nothing was appended, if they do not fit, or would be gone with the process.
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

    /// Whether what was buffered is in the file, as far as is known. From the first time that it is not, nothing is buffered.
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

    /// What is buffered; `None` if it cannot be read any more.
    pub fn buffered(&self) -> Option<Vec<u8>> {
        let bytes = self.slot.as_ref().map(|slot| slot.piece.read(SLOT_HEAD_BYTES, self.len).into_owned());
        let bytes = bytes.unwrap_or_default();
        (bytes.is_empty() || self.backing() != Backing::Lost).then_some(bytes)
    }

    /// Buffered bytes by their place in the log, if they are.
    pub fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let at = usize::try_from(offset.checked_sub(self.base)?).ok()?;
        let within = at.checked_add(len).is_some_and(|end| end <= self.len);
        let slot = self.slot.as_ref().filter(|_| within)?;
        Some(slot.piece.read(SLOT_HEAD_BYTES + at, len).into_owned())
    }

    /// What was buffered is in the log.
    pub fn set_drained(&mut self) {
        self.write_buffer.drains.fetch_add(1, Relaxed);
        self.write_buffer.records.fetch_add(self.records, Relaxed);
        self.write_buffer.bytes.fetch_add(self.len as u64, Relaxed);
        self.set_base(self.end());
    }

    /// The log's file ends at `base`, and nothing is buffered.
    pub fn set_base(&mut self, base: u64) {
        (self.base, self.len, self.records) = (base, 0, 0);
        self.set_state();
    }

    /// Forgets what is buffered from `end` on; false if the file may go on saying that it is there.
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
        // What the slot says stays: if its log was not drained, it may be the last that knows.
        if let Some(slot) = self.slot.take() {
            self.write_buffer.free.lock().push(slot);
        }
    }
}
