//! A bounded number of open files.

use crate::error::is_out_of_files;
use crate::sync::Arc;
use crate::vfs::VfsFile;
use quick_cache::sync::Cache;
use std::io;

/// Open handles by file number, the least useful of which are closed when there are too many. A handle that
/// somebody still uses stays open until he lets go of it.
pub struct Handles {
    open: Cache<u64, Arc<dyn VfsFile>>,
}

impl Handles {
    /// Half of what the process may open: the rest is the application's.
    pub fn new() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
        Self { open: Cache::new(usize::try_from(limit / 2).unwrap_or(512).clamp(32, 65_536)) }
    }

    pub fn insert(&self, id: u64, handle: Arc<dyn VfsFile>) {
        self.open.insert(id, handle);
    }

    pub fn remove(&self, id: u64) {
        self.open.remove(&id);
    }

    pub fn clear(&self) {
        self.open.clear();
    }

    pub fn get_or_open(
        &self,
        id: u64,
        open: impl Fn() -> io::Result<Arc<dyn VfsFile>>,
    ) -> io::Result<Arc<dyn VfsFile>> {
        if let Some(handle) = self.open.get(&id) {
            return Ok(handle);
        }
        let handle = self.retrying(open)?;
        self.open.insert(id, handle.clone());
        Ok(handle)
    }

    /// Opens; where the process has too many files open, closes ours that idle and tries once more.
    pub fn retrying<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        open().or_else(|error| {
            if is_out_of_files(&error) {
                self.clear();
                open()
            } else {
                Err(error)
            }
        })
    }
}

impl std::fmt::Debug for Handles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handles").field("open", &self.open.len()).finish()
    }
}
