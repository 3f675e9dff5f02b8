//! A file system in memory that knows what a power loss would leave of it.
//!
//! Beside the current content, every file keeps the image that its last sync made durable and the changes
//! since; every directory does the same with its names. [`MemVfs::crash`] makes of these a new, independent
//! file system as a power loss could leave it, [`MemVfs::kill`] one as the death of the process would. It is
//! pessimistic: a file that was synced is lost all the same until its directory is, and so is a directory
//! until its parent is.
//!
//! Thread safety: `names` guards the directories; whoever changes a file holds it shared, so that a copy of
//! the file system (which holds it exclusively) is of one point in time. A file's state has its own lock,
//! taken after `names`.

mod content;
mod crash;
mod file;
mod names;
mod pending;

pub use crash::{CrashPlan, Survival, Tail};
pub use file::MemFile;
pub use pending::{PendingChange, PendingKind};

use self::file::{FileData, FileState, LiveFile, Space};
use self::names::{DirEntry, Entry, Names, SavedTree, clean};
use super::{LockError, LockMode, Metadata, OpenMode, Vfs, VfsFile, VfsLock, lock_file};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// A file system in memory. Clones are handles to the same one; [`crash`](Self::crash) and
/// [`kill`](Self::kill) make others.
///
/// Relative and absolute paths begin at its root, which exists and is durable.
#[derive(Clone)]
pub struct MemVfs {
    shared: Arc<Shared>,
    /// Of a view that is bound to a directory.
    root: Option<Arc<MemRoot>>,
}

/// A directory that a view is bound to.
#[derive(Debug)]
struct MemRoot {
    /// The path by which the view knows it.
    given: PathBuf,
    /// The path that it has, which [`MemVfs::move_directory`] changes. Read under `names`.
    current: Mutex<PathBuf>,
}

/// What the handles of one file system share.
#[derive(Debug)]
struct Shared {
    /// Names the page cache: the same in a copy that lost nothing.
    instance: u64,
    /// Whether unsynced changes are remembered.
    history: bool,
    space: Arc<Space>,
    next_file: AtomicU64,
    /// Numbers the changes of files and names.
    next_change: AtomicU64,
    names: RwLock<Names>,
    /// By the number of the locked file: a lock is the file's, whatever its name.
    locks: Mutex<HashMap<u64, Holders>>,
    /// Directories that views are bound to.
    roots: Mutex<Vec<Weak<MemRoot>>>,
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holders {
    Exclusive,
    Shared(usize),
}

/// A number that no other file system of this process has.
fn new_instance() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl MemVfs {
    /// An empty file system, as large as memory, that remembers every unsynced change.
    pub fn new() -> Self {
        Self::empty(new_instance(), true, u64::MAX, 0)
    }

    /// An empty file system that remembers no unsynced changes, so that files that are never synced take
    /// only the memory of their content. A crash loses nothing.
    pub fn without_history() -> Self {
        Self::empty(new_instance(), false, u64::MAX, 0)
    }

    /// Limits what all files together may take, in units of 4 KiB a page; writes beyond fail with
    /// `StorageFull` and leave the prefix that fitted. `None` lifts the limit. Nothing is taken away from
    /// what there is.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.shared.space.capacity_bytes.store(capacity_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Bytes that all files together take, in units of 4 KiB a page: reserved pages count, those of holes do not, and
    /// neither do those of files without a name or an open handle.
    pub fn allocated_bytes(&self) -> u64 {
        self.shared.space.used_bytes()
    }

    /// A new file system as a power loss at this moment could leave this one, which stays as it is. The same
    /// plan and the same history give the same bytes. Nobody holds its locks, and all that it holds is
    /// durable. Its page cache is another one.
    pub fn crash(&self, plan: &CrashPlan) -> Self {
        if !self.shared.history {
            return self.copy(new_instance());
        }
        let names = self.shared.names.write();
        let surviving = crash::surviving_names(&names, plan);
        let copy = self.empty_copy(new_instance());
        let mut files = Files::default();
        {
            let mut fresh = copy.shared.names.write();
            let mut pending = vec![PathBuf::new()];
            while let Some(directory) = pending.pop() {
                let mut saved = BTreeMap::new();
                for (name, entry) in surviving.get(&directory).into_iter().flatten() {
                    let entry = match entry {
                        Entry::File(file) => Entry::File(files.copy(file, |state| {
                            FileState::durable(crash::surviving_content(file.id, state, plan))
                        })),
                        Entry::Directory => {
                            pending.push(directory.join(name));
                            Entry::Directory
                        }
                    };
                    saved.insert(name.clone(), entry);
                }
                fresh.durable.insert(directory, saved);
            }
            fresh.live = files.live_tree(&fresh.durable, &copy.shared.space);
        }
        copy
    }

    /// A new file system that is as the death of every process would leave this one, which stays as it is:
    /// nothing is lost, the page cache is the same, the locks are free.
    pub fn kill(&self) -> Self {
        self.copy(self.shared.instance)
    }

    /// Forgets the unsynced name changes of a directory, as a failed sync of it may: programs go on seeing
    /// them, and no later sync makes them durable.
    pub fn lose_unsynced_names(&self, dir: &Path) {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        names.unsynced.retain(|change| change.directory != dir);
    }

    /// Does with the files of a directory as a failed sync of all of them may ([`MemFile::lose_unsynced`]).
    pub fn lose_unsynced_files(&self, dir: &Path) {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        names.files_in(&dir).for_each(|file| file.lose_unsynced());
    }

    /// Gives a directory another path, as a user may while a store in it is open: durable at once, with everything in
    /// it as durable as before. Views that are bound to it go with it. Fails with `AlreadyExists` if there is something
    /// at `to`, and with `InvalidInput` for a directory that would be moved into itself.
    pub fn move_directory(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let (from, to) = (self.place(names, from)?, self.place(names, to)?);
        names.move_directory(&from, &to)?;
        for root in self.shared.roots.lock().iter().filter_map(Weak::upgrade) {
            let mut current = root.current.lock();
            if let Some(moved) = names::moved(&current, &from.path(), &to.path()) {
                *current = moved;
            }
        }
        Ok(())
    }

    /// The same file system, bound to the directory that is at `dir` now: see [`Vfs::rooted`].
    pub fn rooted_at(&self, dir: &Path) -> io::Result<Self> {
        let names = self.shared.names.read();
        let current = self.clean(&names, dir);
        if !names.live.contains_key(&current) {
            return Err(names.why_missing(&current));
        }
        let root = Arc::new(MemRoot { given: clean(dir), current: Mutex::new(current) });
        let mut roots = self.shared.roots.lock();
        roots.retain(|root| root.strong_count() > 0);
        roots.push(Arc::downgrade(&root));
        Ok(Self { shared: Arc::clone(&self.shared), root: Some(root) })
    }

    /// A path from the root of the file system.
    fn clean(&self, _names: &Names, path: &Path) -> PathBuf {
        let path = clean(path);
        let Some(root) = &self.root else { return path };
        let inside = path.strip_prefix(&root.given).map(|inside| root.current.lock().join(inside));
        // Joining an empty path would add a separator.
        inside.map(|path| clean(&path)).unwrap_or(path)
    }

    fn place(&self, names: &Names, path: &Path) -> io::Result<DirEntry> {
        DirEntry::of(&self.clean(names, path))
    }

    /// Opens a file as [`Vfs::open`] does, as what it is.
    pub fn open_file(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<MemFile>> {
        let file = match mode {
            OpenMode::Read | OpenMode::ReadWrite => {
                let names = self.shared.names.read();
                Arc::clone(names.file(&self.place(&names, path)?)?)
            }
            OpenMode::CreateNew => {
                let names = &mut *self.shared.names.write();
                let place = self.place(names, path)?;
                self.shared.create(names, &place)?
            }
        };
        Ok(Arc::new(MemFile::new(Arc::clone(&self.shared), file, mode != OpenMode::Read)))
    }

    /// The file that [`lock`](Vfs::lock) would lock now, if there is one. Together with `lock_opened` the two halves of
    /// a lock, between which others may remove the file's name.
    pub(super) fn open_lock(&self, path: &Path) -> Option<LockFile> {
        let names = self.shared.names.read();
        let place = self.place(&names, path).ok()?;
        names.file(&place).ok().map(|file| LockFile(Arc::clone(file)))
    }

    /// Takes the lock that `opened` stands for; without it, the one of the file at `path`, which is created if missing.
    pub(super) fn lock_opened(
        &self,
        opened: Option<LockFile>,
        path: &Path,
        mode: LockMode,
    ) -> Result<Box<dyn VfsLock>, LockError> {
        let file = match opened {
            Some(LockFile(file)) => file,
            None => {
                let names = &mut *self.shared.names.write();
                let place = self.place(names, path).map_err(LockError::Io)?;
                match names.find(&place) {
                    None => self.shared.create(names, &place),
                    Some(_) => names.file(&place).cloned(),
                }
                .map_err(LockError::Io)?
            }
        };
        let id = file.data.id;
        let written = MemFile::new(Arc::clone(&self.shared), file, true);
        if !self.shared.acquire(id, mode) {
            let exclusive = self.shared.locks.lock().get(&id) == Some(&Holders::Exclusive);
            return Err(LockError::Held(if exclusive { lock_file::pid_in(&written) } else { None }));
        }
        let lock = MemLock { vfs: self.clone(), path: path.to_path_buf(), id };
        if mode == LockMode::Exclusive {
            lock_file::write_pid(&written).map_err(LockError::Io)?;
        }
        Ok(Box::new(lock))
    }

    fn empty(instance: u64, history: bool, capacity_bytes: u64, next_file: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                instance,
                history,
                space: Arc::new(Space::new(capacity_bytes)),
                next_file: AtomicU64::new(next_file),
                next_change: AtomicU64::new(0),
                names: RwLock::new(Names::new()),
                locks: Mutex::new(HashMap::new()),
                roots: Mutex::default(),
            }),
            root: None,
        }
    }

    fn empty_copy(&self, instance: u64) -> Self {
        let capacity_bytes = self.shared.space.capacity_bytes.load(Ordering::Relaxed);
        let next_file = self.shared.next_file.load(Ordering::Relaxed);
        Self::empty(instance, self.shared.history, capacity_bytes, next_file)
    }

    fn copy(&self, instance: u64) -> Self {
        let names = self.shared.names.write();
        let copy = self.empty_copy(instance);
        copy.shared.next_change.store(self.shared.next_change.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut files = Files::default();
        {
            let mut fresh = copy.shared.names.write();
            let live: SavedTree = map_tree(&names.live, |file| files.copy(&file.data, FileState::clone));
            fresh.live = files.live_tree(&live, &copy.shared.space);
            fresh.durable = map_tree(&names.durable, |file| files.copy(file, FileState::clone));
            fresh.unsynced = names.unsynced.clone();
            for change in &mut fresh.unsynced {
                if let Some((_, Entry::File(file))) = &mut change.set {
                    *file = files.copy(file, FileState::clone);
                }
            }
        }
        copy
    }
}

/// The files of a copy, so that the names of one file are names of one file there, too.
#[derive(Default)]
struct Files {
    by_id: HashMap<u64, Arc<FileData>>,
}

impl Files {
    fn copy(&mut self, file: &FileData, state: impl FnOnce(&FileState) -> FileState) -> Arc<FileData> {
        let copy = self.by_id.entry(file.id).or_insert_with(|| {
            Arc::new(FileData { id: file.id, state: RwLock::new(state(&file.state.read())) })
        });
        Arc::clone(copy)
    }

    /// The names of `saved` as programs see them, charged to `space`.
    fn live_tree(&self, saved: &SavedTree, space: &Arc<Space>) -> names::LiveTree {
        let mut live: HashMap<u64, Arc<LiveFile>> = HashMap::new();
        map_tree(saved, |file| {
            let live =
                live.entry(file.id).or_insert_with(|| LiveFile::new(Arc::clone(file), Arc::clone(space)));
            Arc::clone(live)
        })
    }
}

fn map_tree<F, G>(tree: &names::Tree<F>, mut map: impl FnMut(&F) -> G) -> names::Tree<G> {
    let mut entries_of = |entries: &BTreeMap<_, Entry<F>>| {
        entries
            .iter()
            .map(|(name, entry)| {
                let entry = match entry {
                    Entry::File(file) => Entry::File(map(file)),
                    Entry::Directory => Entry::Directory,
                };
                (std::ffi::OsString::clone(name), entry)
            })
            .collect()
    };
    tree.iter().map(|(directory, entries)| (directory.clone(), entries_of(entries))).collect()
}

impl Shared {
    fn next_change(&self) -> u64 {
        self.next_change.fetch_add(1, Ordering::Relaxed)
    }

    fn create(&self, names: &mut Names, place: &DirEntry) -> io::Result<Arc<LiveFile>> {
        if names.find(place).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.next_file.fetch_add(1, Ordering::Relaxed);
        let data = Arc::new(FileData { id, state: RwLock::new(FileState::default()) });
        let file = LiveFile::new(data, Arc::clone(&self.space));
        self.set(names, place, &file)?;
        Ok(file)
    }

    /// Gives a file a name, in place of what had it.
    fn set(&self, names: &mut Names, place: &DirEntry, file: &Arc<LiveFile>) -> io::Result<()> {
        names.entries(&place.directory)?.insert(place.name.clone(), Entry::File(Arc::clone(file)));
        if self.history {
            let set = (place.name.clone(), Entry::File(Arc::clone(&file.data)));
            names.record(self.next_change(), &place.directory, None, Some(set), None);
        }
        Ok(())
    }

    fn acquire(&self, file: u64, mode: LockMode) -> bool {
        let mut locks = self.locks.lock();
        match (mode, locks.get_mut(&file)) {
            (LockMode::Exclusive, None) => drop(locks.insert(file, Holders::Exclusive)),
            (LockMode::Shared, None) => drop(locks.insert(file, Holders::Shared(1))),
            (LockMode::Shared, Some(Holders::Shared(count))) => *count += 1,
            _ => return false,
        }
        true
    }

    fn release(&self, file: u64) {
        let mut locks = self.locks.lock();
        match locks.get_mut(&file) {
            Some(Holders::Shared(count)) if *count > 1 => *count -= 1,
            _ => drop(locks.remove(&file)),
        }
    }
}

impl Vfs for MemVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let file: Arc<dyn VfsFile> = self.open_file(path, mode)?;
        Ok(file)
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let names = self.shared.names.read();
        let path = self.clean(&names, path);
        if names.live.contains_key(&path) {
            return Ok(Some(Metadata { len: 0, is_dir: true }));
        }
        Ok(match names.find(&DirEntry::of(&path)?) {
            Some(Entry::File(file)) => {
                Some(Metadata { len: file.data.state.read().content.len(), is_dir: false })
            }
            Some(Entry::Directory) => Some(Metadata { len: 0, is_dir: true }),
            None => None,
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.shared.names.read();
        let dir = self.clean(&names, dir);
        if let Ok(place) = DirEntry::of(&dir)
            && let Some(Entry::File(_)) = names.find(&place)
        {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let entries = names.live.get(&dir).ok_or_else(|| names.why_missing(&dir))?;
        Ok(entries.keys().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        let mut above = PathBuf::new();
        for name in dir.iter() {
            let place = DirEntry { directory: above.clone(), name: name.to_os_string() };
            above.push(name);
            match names.find(&place) {
                Some(Entry::Directory) => {}
                Some(Entry::File(_)) if above == dir => return Err(io::ErrorKind::AlreadyExists.into()),
                Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                None => {
                    names.entries(&place.directory)?.insert(place.name.clone(), Entry::Directory);
                    names.live.insert(above.clone(), BTreeMap::new());
                    if self.shared.history {
                        names.record(
                            self.shared.next_change(),
                            &place.directory,
                            None,
                            Some((place.name, Entry::Directory)),
                            None,
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let (from, to) = (self.place(names, from)?, self.place(names, to)?);
        let file = Arc::clone(names.file(&from)?);
        match names.find(&to) {
            Some(Entry::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            // Two names of one file: POSIX leaves both.
            Some(Entry::File(other)) if Arc::ptr_eq(other, &file) => return Ok(()),
            _ => {}
        }
        let set = (to.name.clone(), Entry::File(Arc::clone(&file.data)));
        names.entries(&to.directory)?.insert(to.name.clone(), Entry::File(file));
        names.entries(&from.directory)?.remove(&from.name);
        if self.shared.history {
            if from.directory == to.directory {
                names.record(self.shared.next_change(), &to.directory, Some(from.name), Some(set), None);
            } else {
                let arrival = names.record(self.shared.next_change(), &to.directory, None, Some(set), None);
                names.record(
                    self.shared.next_change(),
                    &from.directory,
                    Some(from.name),
                    None,
                    Some(arrival),
                );
            }
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let (from, to) = (self.place(names, from)?, self.place(names, to)?);
        let file = Arc::clone(names.file(&from)?);
        if names.find(&to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.shared.set(names, &to, &file)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let place = self.place(names, path)?;
        names.file(&place)?;
        names.entries(&place.directory)?.remove(&place.name);
        if self.shared.history {
            names.record(self.shared.next_change(), &place.directory, Some(place.name), None, None);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        if !names.live.contains_key(&dir) {
            return Err(names.why_missing(&dir));
        }
        names.sync(&dir);
        Ok(())
    }

    fn sync_files(&self, _dir: &Path) -> io::Result<()> {
        let names = self.shared.names.write();
        names.files().for_each(|file| file.sync());
        Ok(())
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        self.lock_opened(None, path, mode)
    }

    fn available_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.shared.space.available_bytes())
    }

    fn page_cache_identity(&self, _dir: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(Some(format!("memory {}", self.shared.instance).into_bytes()))
    }

    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        Ok(Some(Arc::new(self.rooted_at(dir)?)))
    }
}

impl Default for MemVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemVfs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemVfs").field("instance", &self.shared.instance).finish_non_exhaustive()
    }
}

/// A file that is about to be locked.
pub(super) struct LockFile(Arc<LiveFile>);

/// A lock, until dropped.
struct MemLock {
    /// As the lock was taken by it.
    vfs: MemVfs,
    path: PathBuf,
    /// The number of the locked file.
    id: u64,
}

impl VfsLock for MemLock {
    fn is_current(&self) -> io::Result<bool> {
        let names = self.vfs.shared.names.read();
        let named = names.find(&self.vfs.place(&names, &self.path)?);
        Ok(matches!(named, Some(Entry::File(file)) if file.data.id == self.id))
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.vfs.shared.release(self.id);
    }
}

impl fmt::Debug for MemLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("MemLock").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests;
