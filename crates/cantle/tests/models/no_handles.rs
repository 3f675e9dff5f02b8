//! Replaces the library's limit of open files: no file stays open.

use crate::vfs::VfsFile;
use std::io;
use std::sync::Arc;

/// No table is opened.
pub struct TablesMax;

#[derive(Debug)]
pub struct Handles;

impl Handles {
    pub fn new() -> Self {
        Self
    }

    pub fn tables_max(&self) -> TablesMax {
        TablesMax
    }

    pub fn in_use_max(&self) -> usize {
        usize::MAX
    }

    pub fn insert(&self, _: u64, _: Arc<dyn VfsFile>) {}

    pub fn remove(&self, _: u64) {}

    pub fn clear(&self) {}

    pub fn get_or_open(
        &self,
        _: u64,
        open: impl Fn() -> io::Result<Arc<dyn VfsFile>>,
    ) -> io::Result<Arc<dyn VfsFile>> {
        open()
    }

    pub fn retrying<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        open()
    }
}
