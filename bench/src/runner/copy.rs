//! Copies of data sets, and cold caches.

use crate::failure::{Failure, Result, on};
use rustix::fs::{Advice, SeekFrom, fadvise, ftruncate, ioctl_ficlone, seek, syncfs};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes that are copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Files that a copy shares with its original.
#[derive(Debug, Default)]
pub struct Shared(Vec<(PathBuf, (u64, SystemTime))>);

impl Shared {
    /// Fails if one was written to since the copy: then the original has changed.
    pub fn check(&self) -> Result {
        for (path, before) in &self.0 {
            if stamp(path).map_err(on("look at", path))? != *before {
                let what =
                    "was written to through a copy that shares it: its engine does not write such files once";
                return Err(Failure(format!("{} {what}", path.display())));
            }
        }
        Ok(())
    }
}

fn stamp(path: &Path) -> io::Result<(u64, SystemTime)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified()?))
}

/// Copies a directory: files that are written once by a hard link, others by reference if the file
/// system can, else byte by byte without holes.
pub fn tree(from: &Path, to: &Path, is_written_once: &dyn Fn(&Path) -> bool) -> Result<Shared> {
    let mut shared = Shared::default();
    fs::create_dir_all(to).map_err(on("create", to))?;
    for entry in fs::read_dir(from).map_err(on("list", from))? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            shared.0.extend(tree(&path, &target, is_written_once)?.0);
        } else if is_written_once(&path) {
            let before = stamp(&path).map_err(on("look at", &path))?;
            fs::hard_link(&path, &target).map_err(on("link", &path))?;
            shared.0.push((path, before));
        } else {
            file(&path, &target).map_err(on("copy", &path))?;
        }
    }
    Ok(shared)
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
        // No data after `at`: the rest is a hole.
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

/// Writes everything below `dir` to the device and drops it from the page cache, so that every
/// engine begins with a cold page cache. The original of the copy stays in the page cache: no
/// engine reads it, and the next copy is faster.
pub fn drop_caches(dir: &Path) -> Result {
    syncfs(File::open(dir).map_err(on("open", dir))?)?;
    forget(dir).map_err(on("drop caches of", dir))?;
    // Names and inodes, too; only root is allowed to.
    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
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
        tree(&from, &to, &|_| false).unwrap();
        drop_caches(dir.path()).unwrap();
        for name in ["inner/plain", "sparse", "empty"] {
            assert!(fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap(), "{name}");
        }
        let bytes = crate::measure::space::allocated_bytes(&to).unwrap();
        assert!(bytes < 8 << 20, "{bytes}");
    }

    #[test]
    fn what_is_written_once_is_shared_and_a_write_to_it_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("inner/1.table"), "once").unwrap();
        fs::write(from.join("MANIFEST"), "often").unwrap();
        let is_once = |path: &Path| path.extension().is_some_and(|extension| extension == "table");
        let shared = tree(&from, &to, &is_once).unwrap();
        fs::write(to.join("MANIFEST"), "again and again").unwrap();
        shared.check().unwrap();
        assert_eq!(fs::read(from.join("MANIFEST")).unwrap(), b"often");
        File::options().write(true).open(to.join("inner/1.table")).unwrap().write_all_at(b"!", 4).unwrap();
        let noticed = shared.check().unwrap_err().0;
        assert!(noticed.contains("1.table"), "{noticed}");
    }

    #[test]
    fn to_remove_a_copy_leaves_what_it_shares() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("1.table"), "once").unwrap();
        let shared = tree(&from, &to, &|_| true).unwrap();
        fs::remove_dir_all(&to).unwrap();
        shared.check().unwrap();
        assert_eq!(fs::read(from.join("1.table")).unwrap(), b"once");
    }
}
