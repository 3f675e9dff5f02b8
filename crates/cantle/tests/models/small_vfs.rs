//! The parts of the file system that the modules under test use.

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

pub type Reminder = Box<dyn Debug + Send + Sync>;

pub trait VfsFile: Send + Sync + Debug {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn remember(&self) -> io::Result<Reminder> {
        Ok(Box::new(()))
    }
}
