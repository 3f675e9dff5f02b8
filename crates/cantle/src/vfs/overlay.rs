//! A file system whose changes stay in memory, over one that it only reads.
//!
//! For read-only openings that must still recover: recovery truncates logs, renames files and
//! writes a manifest, and none of that may change a store that the caller may not change. Content
//! stays in the lower file system until a file is first written; then the whole file is copied
//! (unless all writes are after its end). Names that were added, moved or removed are kept here and
//! hide those of the lower file system.
//!
//! Locks are those of the lower file system (they may create the lock file there, and cannot be
//! taken in a directory that is only here), and so is the identity of the page cache. Others must
//! not change the lower file system meanwhile, which its lock ensures. Paths must not contain `..`,
//! or one file would seem to be two.
//!
//! Thread safety: `state` guards the names; a file's source has its own lock, taken after `state`.
//! Nothing is synced, since nothing here outlives the process.

mod file;

use self::file::{Node, OverlayFile, Source};
use super::{LockError, LockMode, MemVfs, Metadata, OpenMode, Vfs, VfsFile, VfsLock};
use crate::sync::{Arc, Mutex, RwLock};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// A file system that reads `lower` and keeps every change in memory. Clones are the same.
#[derive(Debug, Clone)]
pub struct OverlayVfs {
    lower: Arc<dyn Vfs>,
    /// The content of created and changed files, each under a number.
    upper: MemVfs,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Names that differ from the lower file system's, and files that are open for writing. `None`
    /// hides a name.
    names: HashMap<PathBuf, Option<Arc<Node>>>,
    /// Unchanged files that are open for reading, so that their readers see a later change.
    reading: HashMap<PathBuf, Weak<Node>>,
    /// The size of `reading` at which entries of closed files are dropped from it.
    reading_max: usize,
    /// Directories that the lower file system does not have.
    directories: BTreeSet<PathBuf>,
    next_upper: u64,
}

impl OverlayVfs {
    /// Reads `lower`, which it never changes except by taking locks.
    pub fn new(lower: Arc<dyn Vfs>) -> Self {
        Self { lower, upper: MemVfs::without_history(), state: Arc::default() }
    }

    /// The file system that holds the changes, for limiting the memory that they may take.
    pub fn upper(&self) -> &MemVfs {
        &self.upper
    }

    fn is_dir(&self, state: &State, path: &Path) -> io::Result<bool> {
        Ok(state.directories.contains(path) || self.lower.metadata(path)?.is_some_and(|at| at.is_dir))
    }

    /// The file at `path`; `NotFound` if there is none, or it was removed.
    fn node(&self, state: &mut State, path: &Path, changing: bool) -> io::Result<Arc<Node>> {
        match state.names.get(path) {
            Some(Some(node)) => return Ok(Arc::clone(node)),
            Some(None) => return Err(io::ErrorKind::NotFound.into()),
            None => {}
        }
        if self.is_dir(state, path)? {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let node = match state.reading.get(path).and_then(Weak::upgrade) {
            Some(node) => node,
            None => {
                let source = Source::Lower(self.lower.open(path, OpenMode::Read)?);
                Arc::new(Node { source: RwLock::new(source) })
            }
        };
        if changing {
            state.reading.remove(path);
            state.names.insert(path.to_path_buf(), Some(Arc::clone(&node)));
        } else {
            if state.reading.len() >= state.reading_max {
                state.reading.retain(|_, node| node.strong_count() > 0);
                // Twice the rest, so that pruning costs O(1) for each opening.
                state.reading_max = 2 * state.reading.len() + 64;
            }
            state.reading.insert(path.to_path_buf(), Arc::downgrade(&node));
        }
        Ok(node)
    }

    fn exists(&self, state: &State, path: &Path) -> io::Result<bool> {
        match state.names.get(path) {
            Some(node) => Ok(node.is_some()),
            None => Ok(state.directories.contains(path) || self.lower.metadata(path)?.is_some()),
        }
    }

    /// Checks that a name may be added at `path`.
    fn check_parent(&self, state: &State, path: &Path) -> io::Result<()> {
        let parent = path.parent().ok_or(io::ErrorKind::IsADirectory)?;
        // The parent of a relative path of one name is the working directory.
        let parent = if parent == Path::new("") { Path::new(".") } else { parent };
        if self.is_dir(state, parent)? { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn create_upper(&self, state: &mut State) -> io::Result<Arc<dyn VfsFile>> {
        let name = PathBuf::from(state.next_upper.to_string());
        state.next_upper += 1;
        let file = self.upper.open(&name, OpenMode::CreateNew)?;
        // Only the open handle is needed. Without a name the space is free once the handle is
        // dropped.
        self.upper.remove(&name)?;
        Ok(file)
    }
}

impl Vfs for OverlayVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let state = &mut *self.state.lock();
        let node = match mode {
            OpenMode::Read => self.node(state, path, false)?,
            OpenMode::ReadWrite => self.node(state, path, true)?,
            OpenMode::CreateNew => {
                if self.exists(state, path)? {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.check_parent(state, path)?;
                let source = Source::Upper(self.create_upper(state)?);
                let node = Arc::new(Node { source: RwLock::new(source) });
                state.names.insert(path.to_path_buf(), Some(Arc::clone(&node)));
                node
            }
        };
        Ok(Arc::new(OverlayFile { overlay: self.clone(), node, writable: mode != OpenMode::Read }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Option<Metadata>> {
        let state = self.state.lock();
        match state.names.get(path) {
            Some(Some(node)) => {
                Ok(Some(Metadata { len: node.source.read().file().len()?, is_dir: false, is_socket: false }))
            }
            Some(None) => Ok(None),
            None if state.directories.contains(path) => {
                Ok(Some(Metadata { len: 0, is_dir: true, is_socket: false }))
            }
            None => self.lower.metadata(path),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        let mut listed: BTreeSet<String> = match self.lower.list(dir) {
            Ok(names) => names.into_iter().collect(),
            // The lower file system may have a file there that was removed here.
            Err(_) if state.directories.contains(dir) => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        let text = |name: &OsStr| name.to_string_lossy().into_owned();
        for (path, node) in &state.names {
            if path.parent() == Some(dir)
                && let Some(name) = path.file_name()
            {
                if node.is_some() {
                    listed.insert(text(name))
                } else {
                    listed.remove(&text(name))
                };
            }
        }
        for path in state.directories.iter().filter(|path| path.parent() == Some(dir)) {
            listed.extend(path.file_name().map(text));
        }
        Ok(listed.into_iter().collect())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        let mut missing = Vec::new();
        for above in dir.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            if state.names.get(above).is_some_and(Option::is_some) {
                let at_the_end = above == dir;
                let kind =
                    if at_the_end { io::ErrorKind::AlreadyExists } else { io::ErrorKind::NotADirectory };
                return Err(kind.into());
            }
            if self.is_dir(state, above)? {
                break;
            }
            if !state.names.contains_key(above) && self.lower.metadata(above)?.is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            missing.push(above.to_path_buf());
        }
        for above in missing {
            state.names.remove(&above);
            state.directories.insert(above);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        self.check_parent(state, to)?;
        if self.is_dir(state, to)? {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let node = self.node(state, from, true)?;
        if let Some(Some(other)) = state.names.get(to)
            && Arc::ptr_eq(other, &node)
        {
            return Ok(());
        }
        state.reading.remove(to);
        state.names.insert(to.to_path_buf(), Some(node));
        state.names.insert(from.to_path_buf(), None);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        self.check_parent(state, to)?;
        let node = self.node(state, from, true)?;
        if self.exists(state, to)? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.names.insert(to.to_path_buf(), Some(node));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.state.lock();
        if !self.exists(state, path)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        if !state.names.contains_key(path) && self.is_dir(state, path)? {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        state.reading.remove(path);
        state.names.insert(path.to_path_buf(), None);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let state = self.state.lock();
        if self.is_dir(&state, dir)? { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn VfsLock>, LockError> {
        self.lower.lock(path, mode)
    }

    /// The space left in memory, not in the lower file system.
    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.upper.available_bytes(dir)
    }

    fn page_cache_identity(&self, dir: &Path) -> io::Result<Option<Vec<u8>>> {
        self.lower.page_cache_identity(dir)
    }

    /// The names and files here belong to paths, and so to every view alike.
    fn rooted(&self, dir: &Path) -> io::Result<Option<Arc<dyn Vfs>>> {
        let bound = |lower| Arc::new(Self { lower, ..self.clone() }) as Arc<dyn Vfs>;
        Ok(self.lower.rooted(dir)?.map(bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(vfs: &dyn Vfs, path: &str, bytes: &[u8]) {
        vfs.open(Path::new(path), OpenMode::CreateNew).unwrap().write_at(bytes, 0).unwrap();
    }

    fn read(vfs: &dyn Vfs, path: &str) -> Vec<u8> {
        let file = vfs.open(Path::new(path), OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn list(vfs: &dyn Vfs, dir: &str) -> Vec<String> {
        let mut names = vfs.list(Path::new(dir)).unwrap();
        names.sort();
        names
    }

    /// Three files in `/db`, and an overlay over them.
    fn store() -> (MemVfs, OverlayVfs) {
        let lower = MemVfs::new();
        lower.create_dir_all(Path::new("/db")).unwrap();
        for name in ["a", "b", "c"] {
            write(&lower, &format!("/db/{name}"), name.repeat(3).as_bytes());
        }
        (lower.clone(), OverlayVfs::new(Arc::new(lower)))
    }

    #[test]
    fn behaves_as_a_file_system() {
        let lower = MemVfs::new();
        let dir = Path::new("/store/files");
        lower.create_dir_all(dir).unwrap();
        super::super::conformance::check_in(&OverlayVfs::new(Arc::new(lower)), dir);
    }

    #[test]
    fn every_change_leaves_the_lower_file_system_untouched() {
        let (lower, overlay) = store();
        let before = lower.kill();
        overlay.open(Path::new("/db/a"), OpenMode::ReadWrite).unwrap().write_at(b"X", 1).unwrap();
        overlay.rename(Path::new("/db/b"), Path::new("/db/c")).unwrap();
        overlay.hard_link(Path::new("/db/c"), Path::new("/db/d")).unwrap();
        overlay.open(Path::new("/db/d"), OpenMode::ReadWrite).unwrap().set_len(1).unwrap();
        write(&overlay, "/db/e", b"new");
        overlay.create_dir_all(Path::new("/db/x/y")).unwrap();
        write(&overlay, "/db/x/y/z", b"deep");

        assert_eq!(list(&overlay, "/db"), ["a", "c", "d", "e", "x"]);
        assert_eq!(list(&overlay, "/db/x"), ["y"]);
        assert_eq!(read(&overlay, "/db/a"), b"aXa");
        assert_eq!(read(&overlay, "/db/c"), b"b", "two names of one file");
        assert_eq!(read(&overlay, "/db/d"), b"b");
        assert_eq!(read(&overlay, "/db/x/y/z"), b"deep");

        assert_eq!(list(&lower, "/db"), list(&before, "/db"));
        for path in ["/db/a", "/db/b", "/db/c"] {
            assert_eq!(read(&lower, path), read(&before, path));
        }
    }

    #[test]
    fn removed_files_stay_hidden_and_can_be_created_anew() {
        let (lower, overlay) = store();
        let path = Path::new("/db/a");
        let reader = overlay.open(path, OpenMode::Read).unwrap();
        overlay.remove(path).unwrap();
        assert!(overlay.metadata(path).unwrap().is_none());
        assert_eq!(overlay.remove(path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(list(&overlay, "/db"), ["b", "c"]);
        write(&overlay, "/db/a", b"other");
        assert_eq!(read(&overlay, "/db/a"), b"other");
        assert_eq!(reader.len().unwrap(), 3, "an open handle goes on reading what it opened");
        assert_eq!(read(&lower, "/db/a"), b"aaa");
    }

    #[test]
    fn a_reader_from_before_the_first_write_sees_it() {
        let (_, overlay) = store();
        let path = Path::new("/db/a");
        let reader = overlay.open(path, OpenMode::Read).unwrap();
        overlay.open(path, OpenMode::ReadWrite).unwrap().write_at(b"longer", 3).unwrap();
        let mut bytes = [0; 9];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"aaalonger");
    }

    #[test]
    fn what_is_written_behind_a_file_is_no_reason_to_copy_it() {
        let (_, overlay) = store();
        let file = overlay.open(Path::new("/db/a"), OpenMode::ReadWrite).unwrap();
        file.write_at(b"bb", 4).unwrap();
        file.write_at(b"cc", 6).unwrap();
        assert_eq!(overlay.upper().available_bytes(Path::new("/")).unwrap(), u64::MAX - 4096);
        assert_eq!(read(&overlay, "/db/a"), b"aaa\0bbcc");
        let mut middle = [0; 4];
        file.read_exact_at(&mut middle, 2).unwrap();
        assert_eq!(&middle, b"a\0bb");
        file.write_at(b"X", 2).unwrap();
        assert_eq!(read(&overlay, "/db/a"), b"aaX\0bbcc");
        file.set_len(4).unwrap();
        assert_eq!(read(&overlay, "/db/a"), b"aaX\0");
    }

    #[test]
    fn locks_are_the_lower_file_systems() {
        let (lower, overlay) = store();
        let held = overlay.lock(Path::new("/db/LOCK"), LockMode::Shared).unwrap();
        assert!(matches!(lower.lock(Path::new("/db/LOCK"), LockMode::Exclusive), Err(LockError::Held(None))));
        drop(held);
        lower.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap();
    }

    #[test]
    fn a_copy_that_does_not_fit_fails_and_leaves_the_file_readable() {
        let (_, overlay) = store();
        overlay.upper().set_capacity_bytes(Some(0));
        let file = overlay.open(Path::new("/db/a"), OpenMode::ReadWrite).unwrap();
        assert_eq!(file.write_at(b"X", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(read(&overlay, "/db/a"), b"aaa");
    }
}
