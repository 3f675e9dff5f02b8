//! A file system in memory that knows which changes a power loss would leave.
//!
//! Besides the current content, every file keeps the image that its last sync made durable, and the
//! changes since. Every directory does the same with its names. From these, [`MemVfs::crash`] makes
//! a new, independent file system as a power loss could leave it, and [`MemVfs::kill`] one as the
//! death of the process would. It is pessimistic: a synced file is lost nevertheless until its
//! directory is synced, and so is a directory until its parent is.
//!
//! Thread safety: `names` guards the directories. A thread that changes a file holds it shared, and
//! a copy of the file system holds it exclusively, so that the copy is of one point in time. A
//! file's state has its own lock, taken after `names`.

mod content;
mod copy;
mod crash;
mod file;
mod lock;
mod names;
mod pending;

pub use crash::{CrashPlan, Survival, Tail};
pub use file::MemFile;
pub use pending::{PendingChange, PendingKind};

use self::file::{FileData, FileState, LiveFile, Space};
use self::lock::Holders;
use self::names::{DirEntry, Entry, Names, clean};
use super::{LockError, LockMode, Metadata, OpenMode, Vfs, VfsFile, VfsLock};
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
    /// The directory that a bound view is bound to.
    root: Option<Arc<MemRoot>>,
}

/// A directory that a view is bound to.
#[derive(Debug)]
struct MemRoot {
    /// The path under which the view was opened.
    given: PathBuf,
    /// The current path, which [`MemVfs::move_directory`] changes. Read under `names`.
    current: Mutex<PathBuf>,
}

/// The state that the handles of one file system share.
#[derive(Debug)]
struct Shared {
    /// Identifies the page cache: the same in a copy that lost nothing.
    instance: u64,
    /// True if unsynced changes are remembered.
    history: bool,
    space: Arc<Space>,
    next_file: AtomicU64,
    /// Numbers the changes of files and names.
    next_change: AtomicU64,
    names: RwLock<Names>,
    /// By the number of the locked file: a lock belongs to the file, whatever its name.
    locks: Mutex<HashMap<u64, Holders>>,
    /// Directories that views are bound to.
    roots: Mutex<Vec<Weak<MemRoot>>>,
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

    /// Limits the space of all files together, in units of 4 KiB a page; writes beyond it fail with
    /// `StorageFull` and leave the prefix that fitted. `None` lifts the limit. Existing files keep
    /// their space.
    pub fn set_capacity_bytes(&self, capacity_bytes: Option<u64>) {
        self.shared.space.capacity_bytes.store(capacity_bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Bytes that all files together take, in units of 4 KiB a page. Reserved pages count; holes do
    /// not, and neither do files without a name or an open handle.
    pub fn allocated_bytes(&self) -> u64 {
        self.shared.space.used_bytes()
    }

    /// Loses the unsynced name changes of a directory, as a failed sync of it may: programs
    /// continue to see them, but no later sync makes them durable.
    pub fn lose_unsynced_names(&self, dir: &Path) {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        names.unsynced.retain(|change| change.directory != dir);
    }

    /// Loses unsynced changes of the files of a directory, as a failed sync of all of them may
    /// ([`MemFile::lose_unsynced`]).
    pub fn lose_unsynced_files(&self, dir: &Path) {
        let names = &mut *self.shared.names.write();
        let dir = self.clean(names, dir);
        names.files_in(&dir).for_each(|file| file.lose_unsynced());
    }

    /// Moves a directory to another path, as a user may while a store in it is open. The move is
    /// durable at once; the contents are as durable as before. Views that are bound to the
    /// directory follow it. Fails with `AlreadyExists` if there is something at `to`, and with
    /// `InvalidInput` for a move of a directory into itself.
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

    /// Opens a file as [`Vfs::open`] does, and returns its own type.
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

    /// Gives a file a name, which replaces the file that had it.
    fn set(&self, names: &mut Names, place: &DirEntry, file: &Arc<LiveFile>) -> io::Result<()> {
        names.entries(&place.directory)?.insert(place.name.clone(), Entry::File(Arc::clone(file)));
        if self.history {
            let set = (place.name.clone(), Entry::File(Arc::clone(&file.data)));
            names.record(self.next_change(), &place.directory, None, Some(set), None);
        }
        Ok(())
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
            return Ok(Some(Metadata { len: 0, is_dir: true, is_socket: false }));
        }
        Ok(match names.find(&DirEntry::of(&path)?) {
            Some(Entry::File(file)) => {
                Some(Metadata { len: file.data.state.read().content.len(), is_dir: false, is_socket: false })
            }
            Some(Entry::Directory) => Some(Metadata { len: 0, is_dir: true, is_socket: false }),
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
            // Two names of one file: POSIX keeps both.
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

#[cfg(test)]
mod tests;
