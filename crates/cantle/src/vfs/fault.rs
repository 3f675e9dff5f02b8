//! A file system that fails on purpose.
//!
//! [`FaultVfs`] passes every call to another file system, after a rule has seen it and decided its
//! outcome. The rule runs outside all locks, on the thread of the call, so it may use the file
//! system itself, take a crash image of it, or wait.
//!
//! Thread safety: the rule may be replaced at any time; calls that run keep the one they began with.

mod file;
mod rule;

pub use rule::{Call, Failure, Operation, Verdict};

use self::file::FaultFile;
use super::{LockError, LockMode, MemVfs, Metadata, OpenMode, Vfs, VfsFile, VfsLock};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, RwLock};
use std::fmt;
use std::io;
use std::path::Path;

type Rule = Arc<dyn Fn(&Call<'_>) -> Verdict + Send + Sync>;

/// A file system that passes calls to another, or fails them, as a rule decides. Clones are the
/// same, and views share the rule and the counts.
#[derive(Clone)]
pub struct FaultVfs {
    inner: Arc<dyn Vfs>,
    /// `inner`, if it can lose the changes that a failed sync covers.
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

    /// Gives one call of a kind a verdict: the next one after `skipped` others. All other calls
    /// pass.
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

    /// Number of calls of a kind, including failed ones.
    pub fn count(&self, operation: Operation) -> u64 {
        self.shared.calls_of_kind[operation as usize].load(Ordering::Relaxed)
    }

    /// Number of calls.
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

    /// A call that cannot be done in part and cannot lose anything.
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

    /// Over a [`MemVfs`] the rule runs between the opening of the lock file and the lock, where
    /// other threads may run as well.
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

    /// Not counted as a call, as it only opens the directory.
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
}
