//! The operating system's file system.
//!
//! Files are advised as read at random, because read-ahead (of megabytes on some devices) would
//! multiply the cost of every point read. Large reads are still issued whole.
#![expect(clippy::disallowed_methods, reason = "this is the one way to the operating system's files")]

use super::rooted_fs::RootedVfs;
use super::{LockError, LockMode, Metadata, OpenMode, Vfs, VfsFile, VfsLock, lock_file, page_cache};
use crate::sync::Arc;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatVfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The operating system's file system. Stateless: all instances are the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct StdVfs;

impl Vfs for StdVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        open((CWD, path), mode)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        metadata((CWD, directory(path)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        list((CWD, directory(dir)))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        rename((CWD, from), (CWD, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        hard_link((CWD, from), (CWD, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        remove((CWD, path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        open_directory((CWD, directory(dir)))?.sync_all()
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        lock(None, path, mode)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = retry(|| rustix::fs::statvfs(directory(dir)))?;
        Ok(free_bytes(&space))
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        page_cache::identity(&open_directory((CWD, directory(dir)))?)
    }

    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        Ok(Some(Arc::new(RootedVfs::open(dir)?)))
    }
}

/// A path, and the directory at which it begins if it is relative.
pub(super) type At<'a> = (BorrowedFd<'a>, &'a Path);

pub(super) fn open((dir, path): At<'_>, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
    let flags = match mode {
        OpenMode::Read => OFlags::RDONLY,
        OpenMode::ReadWrite => OFlags::RDWR,
        OpenMode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
    };
    let file = open_with((dir, path), flags)?;
    advise_random(&file);
    Ok(Arc::new(StdFile::new(file)))
}

fn open_with((dir, path): At<'_>, flags: OFlags) -> io::Result<File> {
    // The mode with which the standard library creates files: the process's mask removes bits from
    // it.
    let mode = Mode::from_raw_mode(0o666);
    retry(|| rustix::fs::openat(dir, path, flags | OFlags::CLOEXEC, mode)).map(File::from)
}

/// Opens a directory for listing, syncing, or as the start of paths. Anything else is refused, as
/// syncing a file here would hide a mistake.
pub(super) fn open_directory(at: At<'_>) -> io::Result<File> {
    open_with(at, OFlags::RDONLY | OFlags::DIRECTORY)
}

pub(super) fn metadata((dir, path): At<'_>) -> io::Result<Option<Metadata>> {
    match retry(|| rustix::fs::statat(dir, path, AtFlags::empty())) {
        Ok(stat) => {
            let kind = FileType::from_raw_mode(stat.st_mode);
            let is_dir = kind == FileType::Directory;
            let len = if is_dir { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) };
            Ok(Some(Metadata { len, is_dir, is_socket: kind == FileType::Socket }))
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(super) fn list(at: At<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::new(open_directory(at)?)? {
        let entry = entry?;
        // A foreign name that is not Unicode is no error, and is no name of a store's file however
        // it is spelt.
        let name = entry.file_name().to_string_lossy();
        if !matches!(&*name, "." | "..") {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

pub(super) fn rename((from_dir, from): At<'_>, (to_dir, to): At<'_>) -> io::Result<()> {
    retry(|| rustix::fs::renameat(from_dir, from, to_dir, to))
}

pub(super) fn hard_link((from_dir, from): At<'_>, (to_dir, to): At<'_>) -> io::Result<()> {
    match retry(|| rustix::fs::linkat(from_dir, from, to_dir, to, AtFlags::empty())) {
        // FAT and other file systems without links answer EPERM.
        Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            Err(io::Error::new(io::ErrorKind::Unsupported, error))
        }
        outcome => outcome,
    }
}

pub(super) fn remove((dir, path): At<'_>) -> io::Result<()> {
    retry(|| rustix::fs::unlinkat(dir, path, AtFlags::empty()))
}

pub(super) fn free_bytes(space: &StatVfs) -> u64 {
    space.f_bavail.saturating_mul(space.f_frsize)
}

/// Locks the file at `path`, which begins at `root` if that is given.
pub(super) fn lock(
    root: Option<&Arc<File>>,
    path: &Path,
    mode: LockMode,
) -> Result<Box<dyn VfsLock>, LockError> {
    let at = (root.map_or(CWD, |root| root.as_fd()), path);
    let file = open_lock_file(at, mode).map_err(LockError::Io)?;
    let wanted = match mode {
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
    };
    match try_flock(&file, wanted) {
        Ok(true) => {}
        Ok(false) => return Err(LockError::Held(holder(file, mode))),
        Err(error) => return Err(LockError::Io(error)),
    }
    let file = StdFile::new(file);
    if mode == LockMode::Exclusive {
        lock_file::write_pid(&file).map_err(LockError::Io)?;
    }
    let process = std::process::id();
    Ok(Box::new(StdLock { file, root: root.cloned(), path: path.to_path_buf(), process }))
}

/// The parent of a path of one name is the empty path, which means the directory at which relative
/// paths begin.
pub(super) fn directory(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// An open file of the operating system.
#[derive(Debug)]
struct StdFile {
    file: File,
    #[cfg(all(target_os = "linux", not(miri)))]
    write_out: super::write_out::WriteOut,
}

impl StdFile {
    fn new(file: File) -> Self {
        Self {
            file,
            #[cfg(all(target_os = "linux", not(miri)))]
            write_out: super::write_out::WriteOut::default(),
        }
    }
}

impl VfsFile for StdFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn read_now_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        // The kernel takes -1 for the position of the file.
        if i64::try_from(offset).is_err() {
            return Ok(None);
        }
        let read = rustix::io::preadv2(
            &self.file,
            &mut [io::IoSliceMut::new(buffer)],
            offset,
            rustix::io::ReadWriteFlags::NOWAIT,
        );
        // EAGAIN: not in the page cache. EOPNOTSUPP, EINVAL or ENOSYS: a file system or a kernel that cannot tell.
        // Any other failure is one of the read that follows.
        Ok(read.ok())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // Loops over short writes and interruptions.
        self.file.write_all_at(bytes, offset)
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        let mut flags = retry(|| rustix::fs::fcntl_getfl(&self.file))?;
        flags.set(OFlags::DIRECT, is_direct);
        match retry(|| rustix::fs::fcntl_setfl(&self.file, flags)) {
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            outcome => outcome,
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match retry(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len)) {
            // Kernels and file systems without the call answer ENOSYS; NFS before 4.2 and others
            // EOPNOTSUPP.
            Err(error) if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            outcome => outcome,
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(all(target_os = "linux", not(miri)))]
        self.write_out.check()?;
        self.file.sync_data()
    }

    fn prefetch(&self, offset: u64, len: u64) {
        advise_needed(&self.file, offset, len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.write_out.start(&self.file, offset, len)
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn remember(&self) -> io::Result<super::Reminder> {
        super::mapped::remember(&self.file)
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn map(
        &self,
        offset: u64,
        piece_bytes: usize,
        count: usize,
    ) -> io::Result<Vec<Box<dyn super::MappedPiece>>> {
        super::mapped::map(&self.file, offset, piece_bytes, count)
    }
}

#[cfg(target_os = "linux")]
fn advise_random(file: &File) {
    // Advice that is refused costs only speed.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
}

#[cfg(not(target_os = "linux"))]
fn advise_random(_file: &File) {}

/// In pieces of 128 KiB: one call makes the kernel read no more than the device's read-ahead, and
/// that is its default.
#[cfg(target_os = "linux")]
fn advise_needed(file: &File, offset: u64, len: u64) {
    const PIECE_BYTES: u64 = 128 << 10;
    let end = offset.saturating_add(len);
    let mut at = offset;
    while let Some(piece) = std::num::NonZeroU64::new(PIECE_BYTES.min(end - at)) {
        // Advice that is refused costs only speed, and the next piece would be refused as well.
        if rustix::fs::fadvise(file, at, Some(piece), rustix::fs::Advice::WillNeed).is_err() {
            return;
        }
        at += piece.get();
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_needed(_file: &File, _offset: u64, _len: u64) {}

pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Opens a lock file. A shared lock needs no permission to write, so that a store on a read-only
/// medium can be read; then the lock file must exist.
fn open_lock_file(at: At<'_>, mode: LockMode) -> io::Result<File> {
    if mode == LockMode::Shared {
        match open_with(at, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
    open_with(at, OFlags::RDWR | OFlags::CREATE)
}

/// True if the lock was granted. Locks belong to the open file, so two openings in one process
/// conflict, too.
fn try_flock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match retry(|| rustix::fs::flock(file, operation)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// The holder of a lock that was denied. The process id in the file is the last exclusive holder's,
/// so it says nothing if shared holders are in the way.
fn holder(file: File, denied: LockMode) -> Option<u32> {
    if denied == LockMode::Exclusive
        && let Ok(true) = try_flock(&file, FlockOperation::NonBlockingLockShared)
    {
        return None;
    }
    lock_file::pid_in(&StdFile::new(file))
}

/// A lock of the operating system, released when it is dropped, at the latest with the process.
#[derive(Debug)]
struct StdLock {
    file: StdFile,
    /// The directory at which `path` begins, if not the working directory.
    root: Option<Arc<File>>,
    path: PathBuf,
    /// The process that took it: a forked process that drops its copy has nothing to release.
    process: u32,
}

impl VfsLock for StdLock {
    fn is_current(&self) -> io::Result<bool> {
        let locked = self.file.file.metadata()?;
        let dir = self.root.as_ref().map_or(CWD, |root| root.as_fd());
        match retry(|| rustix::fs::statat(dir, &self.path, AtFlags::empty())) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for StdLock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // If the file were only closed, it would stay locked while a process forked meanwhile has
        // it open, too.
        if let Err(error) = rustix::fs::flock(&self.file.file, FlockOperation::Unlock) {
            tracing::debug!(%error, "cannot unlock a file: closing it releases the lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_lock_is_released_by_who_took_it_though_a_forked_process_has_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let file = open_lock_file((CWD, &path), LockMode::Exclusive).unwrap();
        assert!(try_flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap());
        // The state in the child after a fork: the same opening of the file.
        let _of_the_child = file.try_clone().unwrap();
        let lock = |process| {
            let file = StdFile::new(file.try_clone().unwrap());
            StdLock { file, root: None, path: path.clone(), process }
        };
        let other = open_lock_file((CWD, &path), LockMode::Exclusive).unwrap();
        drop(lock(std::process::id() + 1));
        assert!(
            !try_flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap(),
            "the child has released it"
        );
        drop(lock(std::process::id()));
        assert!(try_flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap());
    }

    #[test]
    fn behaves_as_a_file_system() {
        let directory = tempfile::tempdir().unwrap();
        super::super::conformance::check(&StdVfs, directory.path());
    }

    #[test]
    fn a_lock_held_by_another_process_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        drop(StdVfs.lock(&path, LockMode::Exclusive).unwrap());
        // flock(1) holds the lock while it runs the shell, which writes its own id and waits.
        let Ok(mut other) = Command::new("flock")
            .args(["--nonblock", "--no-fork"])
            .arg(&path)
            .args(["sh", "-c", r#"echo $$ > "$0"; echo held; read line"#])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            return;
        };
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(other.stdout.take().unwrap()), &mut line).unwrap();
        let denied = StdVfs.lock(&path, LockMode::Exclusive);
        assert!(matches!(denied, Err(LockError::Held(Some(pid))) if pid == other.id()), "{denied:?}");
        drop(other.stdin.take());
        other.wait().unwrap();
        StdVfs.lock(&path, LockMode::Exclusive).unwrap();
    }

    #[test]
    fn a_shared_lock_needs_no_permission_to_write() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        fs::write(&path, "").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        StdVfs.lock(&path, LockMode::Shared).unwrap();
    }

    #[test]
    fn a_lock_whose_file_has_lost_its_name_is_not_current() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let lock = StdVfs.lock(&path, LockMode::Exclusive).unwrap();
        assert!(lock.is_current().unwrap());
        StdVfs.remove(&path).unwrap();
        assert!(!lock.is_current().unwrap());
        let other = StdVfs.lock(&path, LockMode::Exclusive).unwrap();
        assert!(!lock.is_current().unwrap(), "another file has the name");
        assert!(other.is_current().unwrap());
    }

    #[test]
    fn only_directories_are_synced_as_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        assert!(StdVfs.sync_dir(&path).is_err());
        StdVfs.sync_dir(directory.path()).unwrap();
    }

    #[test]
    fn the_empty_path_is_the_working_directory() {
        let dir = Path::new("cantle").parent().unwrap();
        assert!(StdVfs.list(dir).unwrap().contains(&"src".to_owned()));
        assert_eq!(StdVfs.metadata(dir).unwrap(), Some(Metadata { len: 0, is_dir: true, is_socket: false }));
        assert!(StdVfs.available_bytes(dir).is_ok() && StdVfs.page_cache_identity(dir).is_ok());
        StdVfs.sync_dir(dir).unwrap();
    }

    #[test]
    fn the_identity_of_the_page_cache_is_the_same_throughout_a_file_system() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let identity = StdVfs.page_cache_identity(directory.path()).unwrap();
        assert_eq!(StdVfs.page_cache_identity(&inner).unwrap(), identity);
        assert!(StdVfs.page_cache_identity(&inner.join("missing")).is_err());
    }
}
