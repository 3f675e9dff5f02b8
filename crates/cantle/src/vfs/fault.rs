//! A file system that fails on purpose.
//!
//! [`FaultVfs`] passes every call to another file system, after a rule has seen it and decided what becomes of
//! it. The rule runs outside all locks, on the thread of the call, so it may use the file system itself, take
//! a crash image of it, or wait.
//!
//! Thread safety: the rule may be replaced at any time; calls that run keep the one they began with.

use super::{
    Backing, LockError, LockMode, MappedPiece, MemFile, MemVfs, Metadata, OpenMode, Reminder, Vfs, VfsFile,
    VfsLock,
};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, RwLock};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What a call does. `Create` is `open` with `CreateNew`, `Open` the other modes; the rest are named after the
/// methods of [`Vfs`] and [`VfsFile`]. `Store` is a store to a [`MappedPiece`], which cannot fail: it takes place
/// whatever the rule says. `Prefetch` is a hint, which nobody is told the failure of.
#[expect(missing_docs, reason = "named after the methods")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Open,
    Create,
    Metadata,
    List,
    CreateDirAll,
    Rename,
    HardLink,
    Remove,
    SyncDir,
    Lock,
    AvailableBytes,
    PageCacheIdentity,
    ReadAt,
    WriteAt,
    SetLen,
    Allocate,
    Len,
    SyncData,
    Remember,
    Map,
    Store,
    SyncFiles,
    Prefetch,
    StartWriteback,
}

impl Operation {
    /// All of them, in the order of declaration.
    pub const ALL: [Self; 24] = [
        Self::Open,
        Self::Create,
        Self::Metadata,
        Self::List,
        Self::CreateDirAll,
        Self::Rename,
        Self::HardLink,
        Self::Remove,
        Self::SyncDir,
        Self::Lock,
        Self::AvailableBytes,
        Self::PageCacheIdentity,
        Self::ReadAt,
        Self::WriteAt,
        Self::SetLen,
        Self::Allocate,
        Self::Len,
        Self::SyncData,
        Self::Remember,
        Self::Map,
        Self::Store,
        Self::SyncFiles,
        Self::Prefetch,
        Self::StartWriteback,
    ];

    /// Whether it changes files or names, or makes such changes durable.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::CreateDirAll
                | Self::Rename
                | Self::HardLink
                | Self::Remove
                | Self::SyncDir
                | Self::WriteAt
                | Self::SetLen
                | Self::Allocate
                | Self::SyncData
                | Self::Store
                | Self::SyncFiles
                | Self::StartWriteback
        )
    }
}

/// A call, as a rule sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What it does.
    pub operation: Operation,
    /// The file (under the name it was opened by) or directory; the first one where there are two.
    pub path: &'a Path,
    /// How many calls of any kind came before it.
    pub number: u64,
    /// How many calls of the same kind came before it.
    pub number_of_kind: u64,
    /// Where in the file; 0 where that means nothing.
    pub offset: u64,
    /// How many bytes, or the length asked for; 0 where that means nothing.
    pub len: u64,
}

/// The error that a call fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Of this kind, without a system error.
    Kind(io::ErrorKind),
    /// This system error.
    Errno(i32),
}

impl Failure {
    /// The device failed.
    pub const EIO: Self = Self::Errno(rustix::io::Errno::IO.raw_os_error());
    /// The file system is full.
    pub const ENOSPC: Self = Self::Errno(rustix::io::Errno::NOSPC.raw_os_error());
    /// The process has too many open files.
    pub const EMFILE: Self = Self::Errno(rustix::io::Errno::MFILE.raw_os_error());
    /// The call was interrupted by a signal.
    pub const EINTR: Self = Self::Errno(rustix::io::Errno::INTR.raw_os_error());

    fn error(self) -> io::Error {
        match self {
            Self::Kind(kind) => kind.into(),
            Self::Errno(errno) => io::Error::from_raw_os_error(errno),
        }
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It takes place.
    Pass,
    /// It fails and nothing happens.
    Fail(Failure),
    /// A write stores its first `bytes` bytes and fails; other calls fail.
    ShortWrite {
        /// How many bytes, at most those of the write, are stored.
        bytes: usize,
        /// With what it fails.
        failure: Failure,
    },
    /// It takes place, yet reports a failure: a sync whose data did reach the disk, a rename that was done.
    FailDone(Failure),
    /// A sync fails, and what it was to make durable never will be, though programs go on reading it (over a
    /// [`MemVfs`]; over others it just fails). Other calls fail.
    FailLost(Failure),
}

type Rule = Arc<dyn Fn(&Call<'_>) -> Verdict + Send + Sync>;

/// A file system that passes calls to another, or fails them, as a rule says. Clones are the same, and views share
/// the rule and the counts.
#[derive(Clone)]
pub struct FaultVfs {
    inner: Arc<dyn Vfs>,
    /// `inner`, if it can lose what it was to sync.
    memory: Option<MemVfs>,
    shared: Arc<Shared>,
}

struct Shared {
    rule: RwLock<Rule>,
    calls: AtomicU64,
    calls_of_kind: [AtomicU64; Operation::ALL.len()],
}

impl FaultVfs {
    /// Passes everything to `inner`, until a rule is set.
    pub fn new(inner: Arc<dyn Vfs>) -> Self {
        Self::build(inner, None)
    }

    /// The same over a [`MemVfs`], on which failed syncs can lose data ([`Verdict::FailLost`]).
    pub fn over_memory(inner: MemVfs) -> Self {
        Self::build(Arc::new(inner.clone()), Some(inner))
    }

    fn build(inner: Arc<dyn Vfs>, memory: Option<MemVfs>) -> Self {
        Self {
            inner,
            memory,
            shared: Arc::new(Shared {
                rule: RwLock::new(Arc::new(|_| Verdict::Pass)),
                calls: AtomicU64::new(0),
                calls_of_kind: std::array::from_fn(|_| AtomicU64::new(0)),
            }),
        }
    }

    /// Replaces the rule.
    pub fn set_rule(&self, rule: impl Fn(&Call<'_>) -> Verdict + Send + Sync + 'static) {
        *self.shared.rule.write() = Arc::new(rule);
    }

    /// Lets every call pass.
    pub fn clear_rule(&self) {
        self.set_rule(|_| Verdict::Pass);
    }

    /// Gives the next call of a kind, after `skipped` others of it, a verdict; all other calls pass.
    pub fn fail_once(&self, operation: Operation, skipped: u64, verdict: Verdict) {
        let chosen = self.count(operation) + skipped;
        self.set_rule(move |call| {
            let matches = call.operation == operation && call.number_of_kind == chosen;
            if matches { verdict } else { Verdict::Pass }
        });
    }

    /// Gives every call of a kind a verdict from now on; all other calls pass.
    pub fn fail_always(&self, operation: Operation, verdict: Verdict) {
        self.set_rule(move |call| if call.operation == operation { verdict } else { Verdict::Pass });
    }

    /// How many calls of a kind there were, failed ones included.
    pub fn count(&self, operation: Operation) -> u64 {
        self.shared.calls_of_kind[operation as usize].load(Ordering::Relaxed)
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn judge(&self, operation: Operation, path: &Path, offset: u64, len: u64) -> Verdict {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let number_of_kind = self.calls_of_kind[operation as usize].fetch_add(1, Ordering::Relaxed);
        let rule = Arc::clone(&self.rule.read());
        rule(&Call { operation, path, number, number_of_kind, offset, len })
    }

    /// A call that has nothing to write in part and nothing to lose.
    fn run<T>(
        &self,
        (operation, path, offset, len): (Operation, &Path, u64, u64),
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        match self.judge(operation, path, offset, len) {
            Verdict::Pass => call(),
            Verdict::FailDone(failure) => call().and(Err(failure.error())),
            Verdict::Fail(failure) | Verdict::FailLost(failure) | Verdict::ShortWrite { failure, .. } => {
                Err(failure.error())
            }
        }
    }
}

impl Vfs for FaultVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let operation = if mode == OpenMode::CreateNew { Operation::Create } else { Operation::Open };
        self.shared.run((operation, path, 0, 0), || {
            let (inner, memory): (Arc<dyn VfsFile>, _) = match &self.memory {
                Some(memory) => {
                    let file = memory.open_file(path, mode)?;
                    (Arc::clone(&file) as Arc<dyn VfsFile>, Some(file))
                }
                None => (self.inner.open(path, mode)?, None),
            };
            let shared = Arc::clone(&self.shared);
            let file: Arc<dyn VfsFile> =
                Arc::new(FaultFile { shared, path: path.to_path_buf(), inner, memory });
            Ok(file)
        })
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.shared.run((Operation::Metadata, path, 0, 0), || self.inner.metadata(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.shared.run((Operation::List, dir, 0, 0), || self.inner.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.shared.run((Operation::CreateDirAll, dir, 0, 0), || self.inner.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.run((Operation::Rename, from, 0, 0), || self.inner.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.run((Operation::HardLink, from, 0, 0), || self.inner.hard_link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.run((Operation::Remove, path, 0, 0), || self.inner.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        match self.shared.judge(Operation::SyncDir, dir, 0, 0) {
            Verdict::Pass => self.inner.sync_dir(dir),
            Verdict::FailDone(failure) => self.inner.sync_dir(dir).and(Err(failure.error())),
            Verdict::FailLost(failure) => {
                if let Some(memory) = &self.memory {
                    memory.lose_unsynced_names(dir);
                }
                Err(failure.error())
            }
            Verdict::Fail(failure) | Verdict::ShortWrite { failure, .. } => Err(failure.error()),
        }
    }

    fn sync_files(&self, dir: &Path) -> io::Result<()> {
        match self.shared.judge(Operation::SyncFiles, dir, 0, 0) {
            Verdict::Pass => self.inner.sync_files(dir),
            Verdict::FailDone(failure) => self.inner.sync_files(dir).and(Err(failure.error())),
            Verdict::FailLost(failure) => {
                if let Some(memory) = &self.memory {
                    memory.lose_unsynced_files(dir);
                }
                Err(failure.error())
            }
            Verdict::Fail(failure) | Verdict::ShortWrite { failure, .. } => Err(failure.error()),
        }
    }

    /// Over a [`MemVfs`] the rule runs between the opening of the lock file and the lock, as others may there.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        let opened = self.memory.as_ref().and_then(|memory| memory.open_lock(path));
        self.shared.run((Operation::Lock, path, 0, 0), || Ok(())).map_err(LockError::Io)?;
        match &self.memory {
            Some(memory) => memory.lock_opened(opened, path, mode),
            None => self.inner.lock(path, mode),
        }
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.shared.run((Operation::AvailableBytes, dir, 0, 0), || self.inner.available_bytes(dir))
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        let call = (Operation::PageCacheIdentity, dir, 0, 0);
        self.shared.run(call, || self.inner.page_cache_identity(dir))
    }

    /// No call of its own, as it does nothing but open the directory.
    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let shared = Arc::clone(&self.shared);
        let bound: Self = match &self.memory {
            Some(memory) => {
                let memory = memory.rooted_at(dir)?;
                Self { inner: Arc::new(memory.clone()), memory: Some(memory), shared }
            }
            None => match self.inner.rooted(dir)? {
                Some(inner) => Self { inner, memory: None, shared },
                None => return Ok(None),
            },
        };
        Ok(Some(Arc::new(bound)))
    }
}

impl fmt::Debug for FaultVfs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultVfs").field("inner", &self.inner).finish_non_exhaustive()
    }
}

struct FaultFile {
    shared: Arc<Shared>,
    path: PathBuf,
    inner: Arc<dyn VfsFile>,
    memory: Option<Arc<MemFile>>,
}

impl FaultFile {
    fn run<T>(
        &self,
        operation: Operation,
        (offset, len): (u64, u64),
        call: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        self.shared.run((operation, &self.path, offset, len), call)
    }

    /// A call that makes durable, or begins to.
    fn sync(&self, verdict: Verdict, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match verdict {
            Verdict::Pass => call(),
            Verdict::FailDone(failure) => call().and(Err(failure.error())),
            Verdict::FailLost(failure) => {
                if let Some(memory) = &self.memory {
                    memory.lose_unsynced();
                }
                Err(failure.error())
            }
            Verdict::Fail(failure) | Verdict::ShortWrite { failure, .. } => Err(failure.error()),
        }
    }
}

impl VfsFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = (offset, buffer.len() as u64);
        self.run(Operation::ReadAt, range, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.shared.judge(Operation::WriteAt, &self.path, offset, bytes.len() as u64) {
            Verdict::Pass => self.inner.write_at(bytes, offset),
            Verdict::FailDone(failure) => self.inner.write_at(bytes, offset).and(Err(failure.error())),
            Verdict::ShortWrite { bytes: stored, failure } => {
                let prefix = &bytes[..stored.min(bytes.len())];
                self.inner.write_at(prefix, offset).and(Err(failure.error()))
            }
            Verdict::Fail(failure) | Verdict::FailLost(failure) => Err(failure.error()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(Operation::SetLen, (0, len), || self.inner.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.run(Operation::Allocate, (0, len), || self.inner.allocate(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.run(Operation::Len, (0, 0), || self.inner.len())
    }

    fn prefetch(&self, offset: u64, len: u64) {
        if self.shared.judge(Operation::Prefetch, &self.path, offset, len) == Verdict::Pass {
            self.inner.prefetch(offset, len);
        }
    }

    /// No later sync fails for a failure here, unlike on the operating system: a caller who does not heed the error loses data.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let start = || self.inner.start_writeback(offset, len);
        let verdict = self.shared.judge(Operation::StartWriteback, &self.path, offset, len);
        self.sync(verdict, start)
    }

    fn sync_data(&self) -> io::Result<()> {
        let verdict = self.shared.judge(Operation::SyncData, &self.path, 0, 0);
        self.sync(verdict, || self.inner.sync_data())
    }

    fn remember(&self) -> io::Result<Reminder> {
        self.run(Operation::Remember, (0, 0), || self.inner.remember())
    }

    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let range = (offset, (piece_bytes * count) as u64);
        let pieces = self.run(Operation::Map, range, || self.inner.map(offset, piece_bytes, count))?;
        let wrap = |(index, inner)| {
            let (shared, path) = (Arc::clone(&self.shared), self.path.clone());
            let offset = offset + (index * piece_bytes) as u64;
            Box::new(FaultPiece { shared, path, offset, inner }) as Box<dyn MappedPiece>
        };
        Ok(pieces.into_iter().enumerate().map(wrap).collect())
    }
}

/// A mapped piece whose stores a rule sees.
struct FaultPiece {
    shared: Arc<Shared>,
    path: PathBuf,
    offset: u64,
    inner: Box<dyn MappedPiece>,
}

impl FaultPiece {
    fn tell(&self, at: usize, len: usize) {
        self.shared.judge(Operation::Store, &self.path, self.offset + at as u64, len as u64);
    }
}

impl MappedPiece for FaultPiece {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.tell(at, bytes.len());
        self.inner.write(at, bytes);
    }

    fn set_word(&mut self, at: usize, word: u64) {
        self.tell(at, 8);
        self.inner.set_word(at, word);
    }

    fn read(&self, at: usize, len: usize) -> Cow<'_, [u8]> {
        self.inner.read(at, len)
    }

    fn backing(&self) -> Backing {
        self.inner.backing()
    }
}

impl fmt::Debug for FaultPiece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultPiece").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for FaultFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FaultFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::CrashPlan;

    fn new_file(vfs: &dyn Vfs) -> Arc<dyn VfsFile> {
        vfs.open(Path::new("/file"), OpenMode::CreateNew).unwrap()
    }

    fn read(vfs: &dyn Vfs) -> Vec<u8> {
        let file = vfs.open(Path::new("/file"), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn without_a_rule_it_behaves_as_a_file_system() {
        super::super::conformance::check(&FaultVfs::over_memory(MemVfs::new()), Path::new("/"));
        super::super::conformance::check(&FaultVfs::new(Arc::new(MemVfs::new())), Path::new("/"));
    }

    #[test]
    fn the_chosen_call_fails_with_the_chosen_error_and_no_other_does() {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        let file = new_file(&vfs);
        vfs.fail_once(Operation::WriteAt, 1, Verdict::Fail(Failure::ENOSPC));
        file.write_at(b"a", 0).unwrap();
        let error = file.write_at(b"b", 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(b"c", 1).unwrap();
        assert_eq!(read(&vfs), b"ac");
        assert_eq!(vfs.count(Operation::WriteAt), 3);
        assert_eq!(vfs.count(Operation::Create), 1);
    }

    #[test]
    fn a_short_write_leaves_its_prefix() {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        let file = new_file(&vfs);
        vfs.fail_once(Operation::WriteAt, 0, Verdict::ShortWrite { bytes: 3, failure: Failure::EIO });
        assert!(file.write_at(b"abcdef", 0).is_err());
        assert_eq!(read(&vfs), b"abc");
    }

    #[test]
    fn a_sync_may_fail_after_the_fact() {
        let memory = MemVfs::new();
        let vfs = FaultVfs::over_memory(memory.clone());
        let file = new_file(&vfs);
        file.write_at(b"abc", 0).unwrap();
        vfs.fail_always(Operation::SyncData, Verdict::FailDone(Failure::EIO));
        assert!(file.sync_data().is_err());
        vfs.sync_dir(Path::new("/")).unwrap();
        assert_eq!(read(&memory.crash(&CrashPlan::LOSE_UNSYNCED)), b"abc");
    }

    #[test]
    fn what_a_failed_sync_lost_no_later_sync_brings_back() {
        let memory = MemVfs::new();
        let vfs = FaultVfs::over_memory(memory.clone());
        let file = new_file(&vfs);
        file.write_at(&[1; 8192], 0).unwrap();
        vfs.sync_dir(Path::new("/")).unwrap();
        vfs.fail_once(Operation::SyncData, 0, Verdict::FailLost(Failure::EIO));
        assert!(file.sync_data().is_err());
        assert_eq!(read(&vfs), [1; 8192], "the page cache still has it");
        file.write_at(&[2], 8191).unwrap();
        file.sync_data().unwrap();
        let left = read(&memory.crash(&CrashPlan::KEEP_ALL));
        assert_eq!(left[..4096], [0; 4096]);
        assert_eq!(left[4096..8191], [1; 4095], "a page dirtied again is written whole");
        assert_eq!(left[8191], 2);
    }

    #[test]
    fn names_that_a_failed_sync_lost_stay_lost() {
        let memory = MemVfs::new();
        let vfs = FaultVfs::over_memory(memory.clone());
        drop(new_file(&vfs));
        vfs.fail_once(Operation::SyncDir, 0, Verdict::FailLost(Failure::EIO));
        assert!(vfs.sync_dir(Path::new("/")).is_err());
        vfs.sync_dir(Path::new("/")).unwrap();
        assert!(vfs.metadata(Path::new("/file")).unwrap().is_some());
        let crashed = memory.crash(&CrashPlan::KEEP_ALL);
        assert!(crashed.metadata(Path::new("/file")).unwrap().is_none());
    }

    #[test]
    fn a_rule_may_take_a_crash_image_and_change_the_rule() {
        let memory = MemVfs::new();
        let vfs = FaultVfs::over_memory(memory.clone());
        let file = new_file(&vfs);
        let (inside, image) = (vfs.clone(), Arc::new(crate::sync::Mutex::new(None)));
        let taken = Arc::clone(&image);
        vfs.set_rule(move |call| {
            if call.operation == Operation::SyncData {
                *taken.lock() = Some(memory.crash(&CrashPlan::KEEP_ALL));
                inside.clear_rule();
            }
            Verdict::Pass
        });
        file.write_at(b"abc", 0).unwrap();
        file.sync_data().unwrap();
        file.write_at(b"def", 3).unwrap();
        let image = image.lock().take().unwrap();
        assert_eq!(read(&image), b"abc");
    }

    #[test]
    fn a_lock_fails_as_an_operating_system_error() {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        vfs.fail_once(Operation::Lock, 0, Verdict::Fail(Failure::EMFILE));
        assert!(matches!(vfs.lock(Path::new("/LOCK"), LockMode::Exclusive), Err(LockError::Io(_))));
        vfs.lock(Path::new("/LOCK"), LockMode::Exclusive).unwrap();
    }

    #[test]
    fn the_table_of_operations_is_in_the_order_of_declaration() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }
}
