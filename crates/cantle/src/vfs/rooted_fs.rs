//! A view of the operating system's file system that is bound to one directory.
//!
//! The directory is opened once. Paths below the path by which it was opened are resolved at its
//! descriptor (`openat`, `renameat`, `unlinkat` and so on). Therefore their meaning does not change
//! if the directory is renamed, another takes its place, or the working directory changes. The path
//! itself is used for messages only. All other paths have the same meaning as for [`StdVfs`].
//!
//! Thread safety: nothing changes after opening.

use super::std_fs::{self, At, StdVfs, directory, retry};
use super::{LockError, LockMode, Metadata, OpenMode, Vfs, VfsFile, VfsLock, page_cache};
use crate::sync::Arc;
use rustix::fd::AsFd;
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The file system as seen from one directory.
#[derive(Debug)]
pub(super) struct RootedVfs {
    root: Arc<File>,
    /// The path of the directory when it was opened. Now it may lead to another one.
    path: PathBuf,
}

impl RootedVfs {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let root = Arc::new(std_fs::open_directory((CWD, directory(path)))?);
        Ok(Self { root, path: path.to_path_buf() })
    }

    /// The part of a path below the directory.
    fn inside<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).ok().filter(|inside| inside.is_relative()).map(directory)
    }

    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        match self.inside(path) {
            Some(inside) => (self.root.as_fd(), inside),
            None => (CWD, directory(path)),
        }
    }

    fn is_root(&self, path: &Path) -> bool {
        self.inside(path) == Some(Path::new("."))
    }
}

/// True if the kernel reports failed writes to a caller that syncs a file system.
#[cfg(target_os = "linux")]
fn tells_of_failures() -> bool {
    const SINCE: (u32, u32) = (5, 8);
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    matches!((numbers.next(), numbers.next()), (Some(Some(major)), Some(Some(minor))) if (major, minor) >= SINCE)
}

impl Vfs for RootedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        std_fs::open(self.at(path), mode)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        std_fs::metadata(self.at(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        std_fs::list(self.at(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let Some(inside) = self.inside(dir) else { return StdVfs.create_dir_all(dir) };
        let mut made = PathBuf::new();
        for name in inside.iter().filter(|name| *name != ".") {
            made.push(name);
            let mode = Mode::from_raw_mode(0o777);
            match retry(|| rustix::fs::mkdirat(&*self.root, &made, mode)) {
                Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
                    let found = std_fs::metadata((self.root.as_fd(), &made))?;
                    if !found.is_some_and(|found| found.is_dir) {
                        return Err(error);
                    }
                }
                done => done?,
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std_fs::rename(self.at(from), self.at(to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std_fs::hard_link(self.at(from), self.at(to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std_fs::remove(self.at(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.is_root(dir) {
            // Open already, so the limit of open files or a revoked permission cannot make this
            // fail.
            self.root.sync_all()
        } else {
            std_fs::open_directory(self.at(dir))?.sync_all()
        }
    }

    /// Since Linux 5.8 the descriptor of the directory reports writes that failed since it was
    /// opened. File systems whose page cache has no identity may ignore a sync.
    #[cfg(target_os = "linux")]
    fn sync_files(&self, dir: &Path) -> io::Result<()> {
        if !self.is_root(dir) || !tells_of_failures() || self.page_cache_identity(dir)?.is_none() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        retry(|| rustix::fs::syncfs(&*self.root))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        match self.inside(path) {
            Some(inside) => std_fs::lock(Some(&self.root), inside, mode),
            None => std_fs::lock(None, path, mode),
        }
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        if !self.is_root(dir) {
            return StdVfs.available_bytes(dir);
        }
        Ok(std_fs::free_bytes(&retry(|| rustix::fs::fstatvfs(&*self.root))?))
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        if !self.is_root(dir) {
            return StdVfs.page_cache_identity(dir);
        }
        page_cache::identity(&self.root)
    }

    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let root = Arc::new(std_fs::open_directory(self.at(dir))?);
        Ok(Some(Arc::new(Self { root, path: dir.to_path_buf() })))
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "somebody else who moves directories")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn behaves_as_a_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let view = StdVfs.rooted(directory.path()).unwrap().unwrap();
        super::super::conformance::check(&*view, directory.path());
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        let (beside, view) = (directory.path().join("beside"), StdVfs.rooted(&below).unwrap().unwrap());
        fs::create_dir(&beside).unwrap();
        super::super::conformance::check(&*view, &beside);
    }

    #[test]
    fn a_view_follows_its_directory_and_leaves_alone_what_takes_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::create_dir(&old).unwrap();
        let view = StdVfs.rooted(&old).unwrap().unwrap();
        let create = |name: &str| drop(view.open(&old.join(name), OpenMode::CreateNew).unwrap());
        create("a");
        let lock = view.lock(&old.join("LOCK"), LockMode::Exclusive).unwrap();
        fs::rename(&old, &new).unwrap();
        fs::create_dir(&old).unwrap();
        fs::write(old.join("a"), "theirs").unwrap();
        create("b");
        view.rename(&old.join("b"), &old.join("c")).unwrap();
        view.hard_link(&old.join("c"), &old.join("d")).unwrap();
        view.create_dir_all(&old.join("e/f")).unwrap();
        view.remove(&old.join("a")).unwrap();
        view.sync_dir(&old).unwrap();
        assert!(lock.is_current().unwrap());
        let mut names = view.list(&old).unwrap();
        names.sort();
        assert_eq!(names, ["LOCK", "c", "d", "e"]);
        assert_eq!(
            view.metadata(&old.join("c")).unwrap(),
            Some(Metadata { len: 0, is_dir: false, is_socket: false })
        );
        assert_eq!(fs::read(old.join("a")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(&old).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&new).unwrap().count(), 4);
    }
}
