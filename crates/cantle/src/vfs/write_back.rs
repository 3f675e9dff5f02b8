//! A file system whose write-back can fail. It reports failures as Linux does: once for each open
//! file, and to nobody if the inode was evicted.
//!
//! The kernel writes dirty pages back at any time. If that fails, the pages count as clean and the
//! inode remembers the error. A sync of an open file reports the error if it happened since the
//! file was opened or last reported it. A file that is opened after the failure reports it only if
//! no other file did. An inode without an open file may be evicted together with its record of
//! errors: then the next sync succeeds, and writes are lost silently.
//!
//! Thread safety: a lock guards the records of the inodes; it is never held together with another
//! lock.

use super::{
    LockError, LockMode, MappedPiece, MemFile, MemVfs, Metadata, OpenMode, Reminder, Vfs, VfsFile, VfsLock,
};
use crate::sync::{Arc, Mutex};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// A [`MemVfs`] whose write-back fails on request. Clones are the same.
#[derive(Debug, Clone)]
pub struct WriteBackVfs {
    memory: MemVfs,
    inodes: Arc<Mutex<HashMap<u64, Inode>>>,
}

/// The record of an inode.
#[derive(Debug, Default)]
struct Inode {
    /// Number of failures of its write-back so far.
    failures: u64,
    /// True if a sync has reported the last of them.
    is_reported: bool,
    /// Number of open files and of reminders.
    open: usize,
}

impl WriteBackVfs {
    /// Over a file system in memory, whose crash images still show the durable content.
    pub fn new(memory: MemVfs) -> Self {
        Self { memory, inodes: Arc::default() }
    }

    /// Simulates a failed write-back of the dirty pages of a file: programs continue to read them,
    /// and no sync makes them durable.
    pub fn fail_write_back(&self, path: &Path) -> io::Result<()> {
        let file = self.memory.open_file(path, OpenMode::Read)?;
        file.lose_unsynced();
        let mut inodes = self.inodes.lock();
        let inode = inodes.entry(file.id()).or_default();
        inode.failures += 1;
        inode.is_reported = false;
        Ok(())
    }

    /// Simulates the eviction of an inode; false if it is impossible, as a file is open on it.
    pub fn evict(&self, path: &Path) -> io::Result<bool> {
        let file = self.memory.open_file(path, OpenMode::Read)?;
        let mut inodes = self.inodes.lock();
        let is_open = inodes.get(&file.id()).is_some_and(|inode| inode.open > 0);
        if !is_open {
            inodes.remove(&file.id());
        }
        Ok(!is_open)
    }
}

impl Vfs for WriteBackVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let inner = self.memory.open_file(path, mode)?;
        let inode = OpenInode::new(&self.inodes, inner.id());
        let seen = inode.look(|inode| if inode.is_reported { inode.failures } else { 0 });
        Ok(Arc::new(WriteBackFile { inner, inode, seen: Mutex::new(seen) }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.memory.metadata(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.memory.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.memory.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_dir(dir)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        self.memory.lock(path, mode)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.memory.available_bytes(dir)
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        self.memory.page_cache_identity(dir)
    }
}

/// Keeps an inode from being evicted.
#[derive(Debug)]
struct OpenInode {
    inodes: Arc<Mutex<HashMap<u64, Inode>>>,
    id: u64,
}

impl OpenInode {
    fn new(inodes: &Arc<Mutex<HashMap<u64, Inode>>>, id: u64) -> Self {
        inodes.lock().entry(id).or_default().open += 1;
        Self { inodes: Arc::clone(inodes), id }
    }

    fn look<T>(&self, look: impl FnOnce(&mut Inode) -> T) -> T {
        look(self.inodes.lock().entry(self.id).or_default())
    }
}

impl Drop for OpenInode {
    fn drop(&mut self) {
        self.look(|inode| inode.open -= 1);
    }
}

/// An open file, with the number of the inode's failures that it need not report any more.
#[derive(Debug)]
struct WriteBackFile {
    inner: Arc<MemFile>,
    inode: OpenInode,
    seen: Mutex<u64>,
}

impl WriteBackFile {
    /// True if a failure is to be reported, and marks it as reported.
    fn takes_failure(&self) -> bool {
        self.inode.look(|inode| {
            let mut seen = self.seen.lock();
            let is_new = *seen < inode.failures;
            *seen = inode.failures;
            inode.is_reported |= is_new;
            is_new
        })
    }
}

impl VfsFile for WriteBackFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.inner.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()?;
        if self.takes_failure() { Err(rustix::io::Errno::IO.into()) } else { Ok(()) }
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.inner.prefetch(offset, len);
    }

    /// Reports no earlier failure: as on Linux, only syncs do.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.start_writeback(offset, len)
    }

    fn remember(&self) -> io::Result<Reminder> {
        Ok(Box::new(OpenInode::new(&self.inode.inodes, self.inner.id())))
    }

    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        self.inner.map(offset, piece_bytes, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::CrashPlan;

    const PATH: &str = "/file";

    /// A file with unsynced bytes.
    fn written() -> (MemVfs, WriteBackVfs, Arc<dyn VfsFile>) {
        let memory = MemVfs::new();
        let vfs = WriteBackVfs::new(memory.clone());
        let file = vfs.open(Path::new(PATH), OpenMode::CreateNew).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        vfs.sync_dir(Path::new("/")).unwrap();
        (memory, vfs, file)
    }

    fn open(vfs: &WriteBackVfs) -> Arc<dyn VfsFile> {
        vfs.open(Path::new(PATH), OpenMode::ReadWrite).unwrap()
    }

    fn survives(memory: &MemVfs) -> bool {
        let crashed = memory.crash(&CrashPlan::KEEP_ALL);
        let file = crashed.open(Path::new(PATH), OpenMode::Read).unwrap();
        let mut bytes = [0; 5];
        file.read_at(&mut bytes, 0).unwrap() == 5 && bytes == *b"bytes"
    }

    #[test]
    fn without_a_failure_it_behaves_as_a_file_system() {
        super::super::conformance::check(&WriteBackVfs::new(MemVfs::new()), Path::new("/"));
        let (memory, _vfs, file) = written();
        file.sync_data().unwrap();
        assert!(survives(&memory));
    }

    #[test]
    fn every_open_file_reports_a_failure_once_and_later_ones_only_if_nobody_did() {
        let (memory, vfs, file) = written();
        let other = open(&vfs);
        vfs.fail_write_back(Path::new(PATH)).unwrap();
        let later = open(&vfs);
        assert!(!vfs.evict(Path::new(PATH)).unwrap(), "files are open on it");
        for file in [&file, &other, &later] {
            assert!(file.sync_data().is_err());
            file.sync_data().unwrap();
        }
        open(&vfs).sync_data().unwrap();
        assert!(!survives(&memory), "a sync that follows a failure makes nothing durable");
    }

    #[test]
    fn an_inode_that_is_to_be_remembered_is_not_evicted() {
        let (_memory, vfs, file) = written();
        let reminder = file.remember().unwrap();
        drop(file);
        vfs.fail_write_back(Path::new(PATH)).unwrap();
        assert!(!vfs.evict(Path::new(PATH)).unwrap());
        assert!(open(&vfs).sync_data().is_err());
        drop(reminder);
        assert!(vfs.evict(Path::new(PATH)).unwrap());
    }

    #[test]
    fn a_failure_of_an_evicted_inode_is_reported_to_nobody() {
        let (memory, vfs, file) = written();
        drop(file);
        vfs.fail_write_back(Path::new(PATH)).unwrap();
        assert!(open(&vfs).sync_data().is_err(), "not evicted yet");
        vfs.fail_write_back(Path::new(PATH)).unwrap();
        assert!(vfs.evict(Path::new(PATH)).unwrap());
        open(&vfs).sync_data().unwrap();
        assert!(!survives(&memory));
    }
}
