//! Locks: each belongs to a file, whatever its name.

use super::file::LiveFile;
use super::names::Entry;
use super::{MemFile, MemVfs, Shared};
use crate::sync::Arc;
use crate::vfs::{LockError, LockMode, VfsLock, lock_file};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The holders of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holders {
    Exclusive,
    Shared(usize),
}

impl MemVfs {
    /// The file that [`lock`](crate::vfs::Vfs::lock) would lock now, if there is one. This and
    /// `lock_opened` are the two halves of a lock; between them others may remove the file's name.
    pub(in crate::vfs) fn open_lock(&self, path: &Path) -> Option<LockFile> {
        let names = self.shared.names.read();
        let place = self.place(&names, path).ok()?;
        names.file(&place).ok().map(|file| LockFile(Arc::clone(file)))
    }

    /// Locks the file in `opened`; without it, the file at `path`, which is created if missing.
    pub(in crate::vfs) fn lock_opened(
        &self,
        opened: Option<LockFile>,
        path: &Path,
        mode: LockMode,
    ) -> Result<Box<dyn VfsLock>, LockError> {
        let file = match opened {
            Some(LockFile(file)) => file,
            None => {
                let names = &mut *self.shared.names.write();
                let place = self.place(names, path).map_err(LockError::Io)?;
                match names.find(&place) {
                    None => self.shared.create(names, &place),
                    Some(_) => names.file(&place).cloned(),
                }
                .map_err(LockError::Io)?
            }
        };
        let id = file.data.id;
        let written = MemFile::new(Arc::clone(&self.shared), file, true);
        if !self.shared.acquire(id, mode) {
            let exclusive = self.shared.locks.lock().get(&id) == Some(&Holders::Exclusive);
            return Err(LockError::Held(if exclusive { lock_file::pid_in(&written) } else { None }));
        }
        let lock = MemLock { vfs: self.clone(), path: path.to_path_buf(), id };
        if mode == LockMode::Exclusive {
            lock_file::write_pid(&written).map_err(LockError::Io)?;
        }
        Ok(Box::new(lock))
    }
}

impl Shared {
    fn acquire(&self, file: u64, mode: LockMode) -> bool {
        let mut locks = self.locks.lock();
        match (mode, locks.get_mut(&file)) {
            (LockMode::Exclusive, None) => drop(locks.insert(file, Holders::Exclusive)),
            (LockMode::Shared, None) => drop(locks.insert(file, Holders::Shared(1))),
            (LockMode::Shared, Some(Holders::Shared(count))) => *count += 1,
            _ => return false,
        }
        true
    }

    fn release(&self, file: u64) {
        let mut locks = self.locks.lock();
        match locks.get_mut(&file) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(locks.remove(&file)),
        }
    }
}

/// A file that is about to be locked.
pub(in crate::vfs) struct LockFile(Arc<LiveFile>);

/// A lock, held until dropped.
struct MemLock {
    /// The file system, or view, through which the lock was taken.
    vfs: MemVfs,
    path: PathBuf,
    /// The number of the locked file.
    id: u64,
}

impl VfsLock for MemLock {
    fn is_current(&self) -> io::Result<bool> {
        let names = self.vfs.shared.names.read();
        let named = names.find(&self.vfs.place(&names, &self.path)?);
        Ok(matches!(named, Some(Entry::File(file)) if file.data.id == self.id))
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.vfs.shared.release(self.id);
    }
}

impl fmt::Debug for MemLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MemLock").field(&self.path).finish()
    }
}
