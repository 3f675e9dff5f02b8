//! A file system that stalls.
//!
//! [`StallVfs`] passes every call to another file system, and holds chosen calls: before they take
//! place, like a disk that does not answer, or after, like a thread that is preempted before it
//! knows the outcome. A test waits until a number of calls are held ([`Stall::wait`]), checks that
//! other work continues, and releases them. The order of events is thus not left to chance.
//!
//! Thread safety: any number of calls may be held at once. There is one stall at a time, and a call
//! that was held by one is not held by the next. Stores to mapped memory are never held.

use super::{
    Call, LockError, LockMode, MappedPiece, Metadata, OpenMode, Operation, Reminder, Vfs, VfsFile, VfsLock,
};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Arc, Condvar, Mutex};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The moment at which a call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Before the call has any effect.
    Before,
    /// After the call took place, or failed, and before its caller knows.
    After,
}

type Choice = Arc<dyn Fn(&Call<'_>) -> bool + Send + Sync>;

/// A file system that passes calls to another, and holds chosen ones. Clones are the same.
#[derive(Clone)]
pub struct StallVfs {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<dyn Vfs>,
    calls: AtomicU64,
    calls_of_kind: [AtomicU64; Operation::ALL.len()],
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The current stall, if there is one; each has its own number.
    current: Option<(u64, Held, Choice)>,
    stalls: u64,
    /// Number of calls that it holds.
    held: usize,
}

/// Calls are held until this is dropped.
pub struct Stall {
    shared: Arc<Shared>,
    number: u64,
}

impl StallVfs {
    /// Passes everything to `inner`, until calls are chosen.
    pub fn new(inner: Arc<dyn Vfs>) -> Self {
        Self {
            shared: Arc::new(Shared {
                inner,
                calls: AtomicU64::new(0),
                calls_of_kind: std::array::from_fn(|_| AtomicU64::new(0)),
                state: Mutex::default(),
                changed: Condvar::new(),
            }),
        }
    }

    /// Holds the calls that are chosen from now on. Calls that an earlier stall holds are released.
    pub fn stall(&self, when: Held, choice: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Stall {
        let mut state = self.shared.state.lock();
        state.stalls += 1;
        let number = state.stalls;
        state.current = Some((number, when, Arc::new(choice)));
        state.held = 0;
        drop(state);
        self.shared.changed.notify_all();
        Stall { shared: Arc::clone(&self.shared), number }
    }
}

impl Stall {
    /// Number of calls held now.
    pub fn held(&self) -> usize {
        let state = self.shared.state.lock();
        if state.is_current(self.number) { state.held } else { 0 }
    }

    /// Waits until `calls` calls are held at once; false if that does not happen within `limit`.
    #[must_use = "calls that were never made are not held"]
    pub fn wait(&self, calls: usize, limit: Duration) -> bool {
        let mut state = self.shared.state.lock();
        let too_few = |state: &mut State| state.is_current(self.number) && state.held < calls;
        self.shared.changed.wait_while_for(&mut state, too_few, limit);
        state.is_current(self.number) && state.held >= calls
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.is_current(self.number) {
            state.current = None;
            state.held = 0;
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl State {
    fn is_current(&self, number: u64) -> bool {
        self.current.as_ref().is_some_and(|(current, ..)| *current == number)
    }
}

impl Shared {
    /// Makes a call; if chosen, it is held before or after.
    fn pass<T>(
        &self,
        (operation, path, offset, len): (Operation, &Path, u64, u64),
        act: impl FnOnce() -> T,
    ) -> T {
        let number = self.calls.fetch_add(1, Relaxed);
        let number_of_kind = self.calls_of_kind[operation as usize].fetch_add(1, Relaxed);
        let call = Call { operation, path, number, number_of_kind, offset, len };
        let stall = self.state.lock().current.clone().filter(|(.., choice)| choice(&call));
        let hold = |when: Held| {
            if let Some((number, ..)) = stall.as_ref().filter(|(_, held, _)| *held == when) {
                self.hold(*number);
            }
        };
        hold(Held::Before);
        let done = act();
        hold(Held::After);
        done
    }

    fn hold(&self, stall: u64) {
        let mut state = self.state.lock();
        if !state.is_current(stall) {
            return;
        }
        state.held += 1;
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.is_current(stall));
    }
}

impl Vfs for StallVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let operation = if mode == OpenMode::CreateNew { Operation::Create } else { Operation::Open };
        let inner = self.shared.pass((operation, path, 0, 0), || self.shared.inner.open(path, mode))?;
        Ok(Arc::new(StallFile { shared: Arc::clone(&self.shared), path: path.to_path_buf(), inner }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        self.shared.pass((Operation::Metadata, path, 0, 0), || self.shared.inner.metadata(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.shared.pass((Operation::List, dir, 0, 0), || self.shared.inner.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.shared.pass((Operation::CreateDirAll, dir, 0, 0), || self.shared.inner.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.pass((Operation::Rename, from, 0, 0), || self.shared.inner.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.shared.pass((Operation::HardLink, from, 0, 0), || self.shared.inner.hard_link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.pass((Operation::Remove, path, 0, 0), || self.shared.inner.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.shared.pass((Operation::SyncDir, dir, 0, 0), || self.shared.inner.sync_dir(dir))
    }

    fn sync_files(&self, dir: &Path) -> io::Result<()> {
        self.shared.pass((Operation::SyncFiles, dir, 0, 0), || self.shared.inner.sync_files(dir))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        self.shared.pass((Operation::Lock, path, 0, 0), || self.shared.inner.lock(path, mode))
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.shared.pass((Operation::AvailableBytes, dir, 0, 0), || self.shared.inner.available_bytes(dir))
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        let call = (Operation::PageCacheIdentity, dir, 0, 0);
        self.shared.pass(call, || self.shared.inner.page_cache_identity(dir))
    }
}

impl fmt::Debug for StallVfs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StallVfs").field("inner", &self.shared.inner).finish_non_exhaustive()
    }
}

struct StallFile {
    shared: Arc<Shared>,
    path: PathBuf,
    inner: Arc<dyn VfsFile>,
}

impl StallFile {
    fn pass<T>(&self, operation: Operation, (offset, len): (u64, u64), act: impl FnOnce() -> T) -> T {
        self.shared.pass((operation, &self.path, offset, len), act)
    }
}

impl VfsFile for StallFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = (offset, buffer.len() as u64);
        self.pass(Operation::ReadAt, range, || self.inner.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let range = (offset, bytes.len() as u64);
        self.pass(Operation::WriteAt, range, || self.inner.write_at(bytes, offset))
    }

    fn set_direct(&self, is_direct: bool) -> io::Result<()> {
        self.pass(Operation::SetDirect, (0, is_direct.into()), || self.inner.set_direct(is_direct))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.pass(Operation::SetLen, (0, len), || self.inner.set_len(len))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.pass(Operation::Allocate, (0, len), || self.inner.allocate(len))
    }

    fn len(&self) -> io::Result<u64> {
        self.pass(Operation::Len, (0, 0), || self.inner.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.pass(Operation::SyncData, (0, 0), || self.inner.sync_data())
    }

    fn prefetch(&self, offset: u64, len: u64) {
        self.pass(Operation::Prefetch, (offset, len), || self.inner.prefetch(offset, len));
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.pass(Operation::StartWriteback, (offset, len), || self.inner.start_writeback(offset, len))
    }

    fn remember(&self) -> io::Result<Reminder> {
        self.pass(Operation::Remember, (0, 0), || self.inner.remember())
    }

    fn map(&self, offset: u64, piece_bytes: usize, count: usize) -> io::Result<Vec<Box<dyn MappedPiece>>> {
        let range = (offset, (piece_bytes * count) as u64);
        self.pass(Operation::Map, range, || self.inner.map(offset, piece_bytes, count))
    }
}

impl fmt::Debug for StallFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StallFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::MemVfs;

    const LIMIT: Duration = Duration::from_secs(60);

    fn read(vfs: &dyn Vfs) -> Vec<u8> {
        let file = vfs.open(Path::new("file"), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn without_a_stall_it_behaves_as_a_file_system() {
        super::super::conformance::check(&StallVfs::new(Arc::new(MemVfs::new())), Path::new("/"));
    }

    #[test]
    fn a_chosen_call_is_held_before_or_after_it_takes_place_and_no_other_is() {
        let vfs = StallVfs::new(Arc::new(MemVfs::new()));
        let file = vfs.open(Path::new("file"), OpenMode::CreateNew).unwrap();
        for (when, expected) in [(Held::Before, &b""[..]), (Held::After, b"a")] {
            file.set_len(0).unwrap();
            let stall = vfs.stall(when, |call| call.operation == Operation::WriteAt && call.offset == 0);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| file.write_at(b"a", 0));
                assert!(stall.wait(1, LIMIT));
                assert_eq!((stall.held(), &read(&vfs)[..]), (1, expected));
                file.write_at(b"", 1).unwrap();
                assert!(!stall.wait(2, Duration::ZERO) && !writer.is_finished());
                drop(stall);
                writer.join().unwrap().unwrap();
            });
            assert_eq!(read(&vfs), b"a");
        }
    }

    #[test]
    fn a_new_stall_releases_what_the_one_before_holds() {
        let vfs = StallVfs::new(Arc::new(MemVfs::new()));
        let file = vfs.open(Path::new("file"), OpenMode::CreateNew).unwrap();
        let is_sync = |call: &Call<'_>| call.operation == Operation::SyncData;
        let first = vfs.stall(Held::Before, is_sync);
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| file.sync_data());
            assert!(first.wait(1, LIMIT));
            let second = vfs.stall(Held::Before, is_sync);
            synced.join().unwrap().unwrap();
            assert_eq!((first.held(), second.held()), (0, 0));
            drop(first);
            let synced = scope.spawn(|| file.sync_data());
            assert!(second.wait(1, LIMIT), "the end of the first has no effect on the second");
            drop(second);
            synced.join().unwrap().unwrap();
        });
    }
}
