//! What the modules under test use of the file system.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    Read,
    ReadWrite,
    CreateNew,
}

pub trait Vfs: Send + Sync + Debug + 'static {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

pub trait VfsFile: Send + Sync + Debug {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}
