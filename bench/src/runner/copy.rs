//! Copies of data sets, and cold caches.

use crate::failure::{Result, on};
use rustix::fs::{Advice, SeekFrom, fadvise, ftruncate, ioctl_ficlone, seek, syncfs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Copies a directory: by reference where the file system can, else byte for byte, holes left out.
pub fn tree(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to).map_err(on("create", to))?;
    for entry in fs::read_dir(from).map_err(on("list", from))? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            tree(&path, &target)?;
        } else {
            file(&path, &target).map_err(on("copy", &path))?;
        }
    }
    Ok(())
}

fn file(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = File::create(to)?;
    if ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    let length = source.metadata()?.len();
    ftruncate(&target, length)?;
    let mut at = 0;
    let mut piece = vec![0; PIECE_BYTES as usize];
    while at < length {
        // No data behind `at`: the rest is a hole.
        let Ok(start) = seek(&source, SeekFrom::Data(at)) else { break };
        let end = seek(&source, SeekFrom::Hole(start)).unwrap_or(length);
        at = start;
        while at < end {
            let part = &mut piece[..(end - at).min(PIECE_BYTES) as usize];
            source.read_exact_at(part, at)?;
            target.write_all_at(part, at)?;
            at += part.len() as u64;
        }
    }
    Ok(())
}

/// Writes everything below `dir` to the device and forgets it, so that every engine begins with a cold page cache and
/// none is charged for what another has read.
pub fn drop_caches(dir: &Path) -> Result {
    syncfs(File::open(dir).map_err(on("open", dir))?)?;
    forget(dir).map_err(on("drop caches of", dir))?;
    // Names and inodes too; only root may.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    Ok(())
}

fn forget(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            fadvise(File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_same_bytes_and_holes_stay_holes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("inner/plain"), vec![7; 3_000_000]).unwrap();
        let sparse = File::create(from.join("sparse")).unwrap();
        sparse.write_all_at(b"here", 8 << 20).unwrap();
        sparse.set_len(64 << 20).unwrap();
        File::create(from.join("empty")).unwrap();
        tree(&from, &to).unwrap();
        drop_caches(dir.path()).unwrap();
        for name in ["inner/plain", "sparse", "empty"] {
            assert!(fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap(), "{name}");
        }
        let bytes = crate::measure::space::allocated_bytes(&to).unwrap();
        assert!(bytes < 8 << 20, "{bytes}");
    }
}
