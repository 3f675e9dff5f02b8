//! Errors of callers and disks: each returns its own error, and does no other harm.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod arguments;
mod directories;
mod flipped_bits;
mod handles;

use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(vfs: &MemVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(1 << 20)
        .background_threads(1)
        .default_keyspace(KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10)))
}

fn open(vfs: &MemVfs) -> Db {
    options(vfs).open("store").unwrap()
}

fn write_file(vfs: &MemVfs, path: impl AsRef<Path>, bytes: &[u8]) {
    vfs.open(path.as_ref(), OpenMode::CreateNew).unwrap().write_at(bytes, 0).unwrap();
}

fn read_file(vfs: &MemVfs, path: impl AsRef<Path>) -> Vec<u8> {
    let file = vfs.open(path.as_ref(), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The files of a directory, in order.
fn files(vfs: &MemVfs, dir: &str) -> Vec<PathBuf> {
    let mut names = vfs.list(Path::new(dir)).unwrap();
    names.sort();
    names.into_iter().map(|name| Path::new(dir).join(name)).collect()
}
