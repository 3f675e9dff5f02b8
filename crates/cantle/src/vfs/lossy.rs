//! A file system some of whose bytes cannot be read, for repairs.
//!
//! A failed read is tried again page by page. Pages that still fail are read as zeros, which no
//! checksum accepts as data, and are recorded. Nothing can be written.
//!
//! Thread safety: the record of unreadable pages has its own lock.

use super::{LockError, LockMode, Metadata, OpenMode, Vfs, VfsFile, VfsLock};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const PAGE_BYTES: u64 = 4096;
/// Maximum number of unreadable pages that are recorded; others are read as zeros, too.
const NOTES_MAX: usize = 10_000;

type Notes = Arc<Mutex<BTreeMap<(PathBuf, u64), Arc<io::Error>>>>;

/// A file system that reads `inner`.
#[derive(Debug, Clone)]
pub(crate) struct LossyVfs {
    inner: Arc<dyn Vfs>,
    notes: Notes,
}

impl LossyVfs {
    pub(crate) fn new(inner: Arc<dyn Vfs>) -> Self {
        Self { inner, notes: Notes::default() }
    }

    /// The pages that could not be read so far, by file and offset.
    pub(crate) fn unreadable(&self) -> Vec<(PathBuf, u64, Arc<io::Error>)> {
        let notes = self.notes.lock();
        notes.iter().map(|((path, offset), error)| (path.clone(), *offset, error.clone())).collect()
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::PermissionDenied.into())
}

impl Vfs for LossyVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        if mode == OpenMode::CreateNew {
            return refused();
        }
        let inner = self.inner.open(path, OpenMode::Read)?;
        Ok(Arc::new(LossyFile { inner, path: path.to_path_buf(), notes: self.notes.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.inner.metadata(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        self.inner.lock(path, mode)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.inner.available_bytes(dir)
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        self.inner.page_cache_identity(dir)
    }

    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let bound = |inner| Arc::new(Self { inner, notes: self.notes.clone() }) as Arc<dyn Vfs>;
        Ok(self.inner.rooted(dir)?.map(bound))
    }
}

#[derive(Debug)]
struct LossyFile {
    inner: Arc<dyn VfsFile>,
    path: PathBuf,
    notes: Notes,
}

impl LossyFile {
    fn read_pages(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = self.inner.len()?;
        let wanted = (len.saturating_sub(offset)).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let page_end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            let piece_end = wanted.min((page_end - offset) as usize);
            let piece = &mut buffer[done..piece_end];
            if let Err(error) = self.inner.read_exact_at(piece, at) {
                piece.fill(0);
                let mut notes = self.notes.lock();
                if notes.len() < NOTES_MAX {
                    notes.entry((self.path.clone(), at - at % PAGE_BYTES)).or_insert(Arc::new(error));
                }
            }
            done = piece_end;
        }
        Ok(wanted)
    }
}

impl VfsFile for LossyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset).or_else(|_| self.read_pages(buffer, offset))
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        refused()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.inner.prefetch(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict};

    #[test]
    fn what_cannot_be_read_is_zeros_and_the_rest_is_there() {
        let memory = MemVfs::new();
        let path = Path::new("file");
        let bytes: Vec<u8> = (0..20_000u32).map(|n| n as u8 | 1).collect();
        memory.open(path, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
        let faulty = FaultVfs::over_memory(memory);
        // Every read that touches the third page fails.
        faulty.set_rule(|call| {
            let within = call.offset < 12288 && call.offset + call.len > 8192;
            if call.operation == Operation::ReadAt && within {
                Verdict::Fail(Failure::EIO)
            } else {
                Verdict::Pass
            }
        });
        let lossy = LossyVfs::new(Arc::new(faulty));
        let file = lossy.open(path, OpenMode::Read).unwrap();
        let mut read = vec![7; 30_000];
        assert_eq!(file.read_at(&mut read, 100).unwrap(), 19_900);
        let mut expected = bytes.clone();
        expected[8192..12288].fill(0);
        assert!(read[..19_900] == expected[100..]);
        let noted: Vec<u64> = lossy.unreadable().into_iter().map(|(_, offset, _)| offset).collect();
        assert_eq!(noted, [8192]);
    }
}
