//! Files of a store in memory, as bytes; and a directory for real files.

use crate::setup::STORE;
use cantle::vfs::{MemVfs, OpenMode, StdVfs, Vfs};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory in memory, if the system has one with enough space: the device is not under test,
/// and other programs may use it.
pub fn dir_in_memory() -> std::io::Result<TempDir> {
    const BYTES_MIN: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    match StdVfs.available_bytes(memory) {
        Ok(available) if available >= BYTES_MIN => {
            tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir())
        }
        _ => tempfile::tempdir(),
    }
}

/// Names of the store's files, in order.
pub fn names(vfs: &MemVfs) -> Vec<String> {
    let mut names = vfs.list(STORE.as_ref()).unwrap();
    names.sort();
    names
}

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(STORE).join(name)
}

pub fn read(vfs: &MemVfs, name: &str) -> Vec<u8> {
    let file = vfs.open(&path(name), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Replaces a file, or creates it.
pub fn put(vfs: &MemVfs, name: &str, bytes: &[u8]) {
    let path = path(name);
    if vfs.metadata(&path).unwrap().is_some() {
        vfs.remove(&path).unwrap();
    }
    vfs.open(&path, OpenMode::CreateNew).unwrap().write_at(bytes, 0).unwrap();
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Table,
    Log,
    Manifest,
    Journal,
    WriteBuffer,
    PageCache,
    Other,
}

impl Kind {
    /// The kinds of files that a store writes for itself.
    pub const ALL: [Self; 6] =
        [Self::Table, Self::Log, Self::Manifest, Self::Journal, Self::WriteBuffer, Self::PageCache];

    pub fn of(name: &str) -> Self {
        match name {
            "WRITE-BUFFER" => Self::WriteBuffer,
            "PAGECACHE" => Self::PageCache,
            _ if name.starts_with("MANIFEST-") => Self::Manifest,
            _ if name.ends_with(".table") => Self::Table,
            _ if name.ends_with(".log") => Self::Log,
            _ if name.ends_with(".journal") => Self::Journal,
            _ => Self::Other,
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::Table => "tables",
            Self::Log => "logs",
            Self::Manifest => "manifests",
            Self::Journal => "journals",
            Self::WriteBuffer => "write buffers",
            Self::PageCache => "page cache blocks",
            Self::Other => "other files",
        }
    }
}
