//! A file of a [`MemVfs`](super::MemVfs): its content for programs, its content on disk, and the
//! difference.

use super::Shared;
use super::content::{Content, PAGE_BYTES, page_slices};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, RwLock};
use crate::vfs::{DIRECT_BYTES, MappedPiece, VfsFile};
use std::borrow::Cow;
use std::io;

/// Maximum length of a file in bytes, as on Linux.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Maximum number of stores to mapped bytes of a file that are kept separately. Older ones count as
/// written back: there are too many to keep, and no test may rely on losing them.
const STORES_MAX: usize = 64;

/// A change of a file that no sync has made durable.
#[derive(Debug, Clone)]
pub(super) struct Unsynced {
    /// Ascending in the order of the changes of all files and names.
    pub(super) number: u64,
    pub(super) change: Change,
    /// True for a store to mapped bytes.
    pub(super) is_store: bool,
}

/// A change of a file.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
    Allocate(u64),
}

impl Change {
    /// The file's length after the change, given the length before.
    pub(super) fn len_after(&self, before: u64) -> u64 {
        match self {
            Self::Write { offset, bytes } => before.max(offset + bytes.len() as u64),
            Self::SetLen(len) => *len,
            Self::Allocate(len) => before.max(*len),
        }
    }

    /// Applies the change to `content`.
    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.write_at(bytes, *offset),
            Self::SetLen(len) => content.set_len(*len),
            Self::Allocate(len) => content.reserve(*len),
        }
    }
}

/// Both images of a file. `durable` with `unsynced` applied is `content`, unless a failed sync lost
/// something.
#[derive(Debug, Clone, Default)]
pub(super) struct FileState {
    /// The content for programs: the page cache.
    pub(super) content: Arc<Content>,
    /// The content that is certainly on the disk.
    pub(super) durable: Arc<Content>,
    /// Changes since the last sync, oldest first. Empty in a file system without history.
    pub(super) unsynced: Vec<Unsynced>,
    /// Pages for which `content` is charged.
    pub(super) occupied_pages: u64,
}

impl FileState {
    /// A file whose content is completely on disk.
    pub(super) fn durable(content: Arc<Content>) -> Self {
        let occupied_pages = content.occupied_pages();
        Self { durable: Arc::clone(&content), content, unsynced: Vec::new(), occupied_pages }
    }

    /// Writes back the dirty pages, whole and with their current content.
    fn sync(&mut self) {
        if self.unsynced.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for unsynced in self.unsynced.drain(..) {
            match unsynced.change {
                Change::Write { offset, bytes } => {
                    durable.take_pages(&self.content, offset, bytes.len() as u64);
                    durable.set_len(durable.len().max(offset + bytes.len() as u64));
                }
                change => change.apply(durable),
            }
        }
        durable.set_len(self.content.len());
    }
}

/// A file, independent of its names.
#[derive(Debug)]
pub(super) struct FileData {
    /// Unique in the file system, and the same in copies of it: crashes derive seeds from it.
    pub(super) id: u64,
    pub(super) state: RwLock<FileState>,
}

impl FileData {
    /// Makes everything durable. The caller holds the names.
    pub(super) fn sync(&self) {
        self.state.write().sync();
    }

    /// As [`MemFile::lose_unsynced`]. The caller holds the names.
    pub(super) fn lose_unsynced(&self) {
        self.state.write().unsynced.clear();
    }
}

/// The space of a file system.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) capacity_bytes: AtomicU64,
    used_pages: AtomicU64,
}

impl Space {
    pub(super) fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes: AtomicU64::new(capacity_bytes), used_pages: AtomicU64::new(0) }
    }

    pub(super) fn available_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed).saturating_sub(self.used_bytes())
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_pages.load(Ordering::Relaxed).saturating_mul(PAGE_BYTES)
    }

    fn take(&self, pages: u64) -> io::Result<()> {
        let capacity_pages = self.capacity_bytes.load(Ordering::Relaxed) / PAGE_BYTES;
        self.used_pages
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(pages).filter(|&total| pages == 0 || total <= capacity_pages)
            })
            .map(drop)
            .map_err(|_| io::ErrorKind::StorageFull.into())
    }

    fn give_back(&self, pages: u64) {
        self.used_pages.fetch_sub(pages, Ordering::Relaxed);
    }
}

/// A file that has a name or an open handle, and therefore takes space. The durable image and the
/// name changes hold only the [`FileData`], so that a removed file's space is free at once.
#[derive(Debug)]
pub(super) struct LiveFile {
    pub(super) data: Arc<FileData>,
    space: Arc<Space>,
}

impl LiveFile {
    /// Charges `space` for the pages of the file, beyond the capacity if need be.
    pub(super) fn new(data: Arc<FileData>, space: Arc<Space>) -> Arc<Self> {
        space.used_pages.fetch_add(data.state.read().occupied_pages, Ordering::Relaxed);
        Arc::new(Self { data, space })
    }
}

impl Drop for LiveFile {
    fn drop(&mut self) {
        self.space.give_back(self.data.state.read().occupied_pages);
    }
}

/// An open file of a [`MemVfs`](super::MemVfs).
#[derive(Debug)]
pub struct MemFile {
    shared: Arc<Shared>,
    file: Arc<LiveFile>,
    writable: bool,
    is_direct: AtomicBool,
}

impl MemFile {
    pub(super) fn new(shared: Arc<Shared>, file: Arc<LiveFile>, writable: bool) -> Self {
        Self { shared, file, writable, is_direct: AtomicBool::new(false) }
    }

    /// A number that no other file of its file system has, whatever the file's names.
    pub(in crate::vfs) fn id(&self) -> u64 {
        self.file.data.id
    }

    /// Does what a failed fsync does on Linux: the dirty pages count as clean, so that programs
    /// continue to read them but no later sync writes them, unless they are dirtied again.
    pub fn lose_unsynced(&self) {
        let _consistent = self.shared.names.read();
        self.file.data.lose_unsynced();
    }

    /// Runs a change while the file system is locked against copies, which see it whole or not at
    /// all.
    fn change<T>(&self, act: impl FnOnce(&mut FileState, &Space) -> io::Result<T>) -> io::Result<T> {
        if !self.writable {
            return Err(rustix::io::Errno::BADF.into());
        }
        let _consistent = self.shared.names.read();
        act(&mut self.file.data.state.write(), &self.file.space)
    }
}

/// Records a change, if the file system has a history.
fn note(shared: &Shared, state: &mut FileState, change: Change, is_store: bool) {
    if !shared.history {
        return;
    }
    if is_store && state.unsynced.len() >= STORES_MAX && state.unsynced[0].is_store {
        let oldest = state.unsynced.remove(0);
        oldest.change.apply(Arc::make_mut(&mut state.durable));
    }
    state.unsynced.push(Unsynced { number: shared.next_change(), change, is_store });
}

impl VfsFile for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.file.data.state.read().content.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let is_aligned = |number: u64| number.is_multiple_of(DIRECT_BYTES as u64);
        let numbers = [offset, bytes.len() as u64, bytes.as_ptr().addr() as u64];
        if self.is_direct.load(Ordering::Relaxed) && !numbers.into_iter().all(is_aligned) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.change(|state, space| {
            offset
                .checked_add(bytes.len() as u64)
                .filter(|&end| end <= FILE_BYTES_MAX)
                .ok_or(io::ErrorKind::FileTooLarge)?;
            let mut written = 0;
            let mut outcome = Ok(());
            for piece in page_slices(offset, bytes.len()) {
                if !state.content.occupies(piece.page) {
                    if let Err(full) = space.take(1) {
                        outcome = Err(full);
                        break;
                    }
                    state.occupied_pages += 1;
                }
                written = piece.end;
            }
            let bytes = &bytes[..written];
            if !bytes.is_empty() {
                Arc::make_mut(&mut state.content).write_at(bytes, offset);
                note(&self.shared, state, Change::Write { offset, bytes: bytes.into() }, false);
            }
            outcome
        })
    }

    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        self.is_direct.store(is_direct, Ordering::Relaxed);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|state, space| {
            if len > FILE_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let content = Arc::make_mut(&mut state.content);
            content.set_len(len);
            let occupied_pages = content.occupied_pages();
            space.give_back(state.occupied_pages - occupied_pages);
            state.occupied_pages = occupied_pages;
            note(&self.shared, state, Change::SetLen(len), false);
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(|state, space| {
            if len > FILE_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let occupied_pages = state.content.occupied_pages_if_reserved(len);
            space.take(occupied_pages - state.occupied_pages)?;
            state.occupied_pages = occupied_pages;
            Arc::make_mut(&mut state.content).reserve(len);
            note(&self.shared, state, Change::Allocate(len), false);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.data.state.read().content.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let _consistent = self.shared.names.read();
        self.file.data.sync();
        Ok(())
    }

    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        if !self.writable {
            return Err(rustix::io::Errno::ACCESS.into());
        }
        let piece = |index: usize| {
            let start = offset + (index * piece_bytes) as u64;
            let (shared, file) = (Arc::clone(&self.shared), Arc::clone(&self.file));
            Box::new(MemPiece { shared, file, start, bytes: piece_bytes }) as Box<dyn MappedPiece>
        };
        Ok((0..count).map(piece).collect())
    }
}

/// Mapped bytes of a file. They survive the death of a process. A loss of power leaves any part of
/// the stores since the last sync, as with writes.
#[derive(Debug)]
struct MemPiece {
    shared: Arc<Shared>,
    file: Arc<LiveFile>,
    start: u64,
    bytes: usize,
}

impl MappedPiece for MemPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at, "bytes behind a piece");
        let _consistent = self.shared.names.read();
        let state = &mut *self.file.data.state.write();
        let offset = self.start + at as u64;
        Arc::make_mut(&mut state.content).write_at(bytes, offset);
        note(&self.shared, state, Change::Write { offset, bytes: bytes.into() }, true);
    }

    fn set_word(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word is aligned");
        self.write(at, &word.to_le_bytes());
    }

    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]> {
        assert!(at <= self.bytes && len <= self.bytes - at, "bytes behind a piece");
        let mut bytes = vec![0; len];
        self.file.data.state.read().content.read_at(&mut bytes, self.start + at as u64);
        Cow::Owned(bytes)
    }
}
