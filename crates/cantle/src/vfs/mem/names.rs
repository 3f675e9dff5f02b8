//! The directories of a [`MemVfs`](super::MemVfs): the names that programs see, those on the disk,
//! and the changes in between.
//!
//! Directories are identified by their path from the root, which is the empty path. They are never
//! removed, but may be moved.

use super::file::{FileData, LiveFile};
use crate::sync::Arc;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The target of a name.
#[derive(Debug, Clone)]
pub(super) enum Entry<F> {
    File(F),
    Directory,
}

/// The directories and their entries.
pub(super) type Tree<F> = HashMap<PathBuf, BTreeMap<OsString, Entry<F>>>;

/// The names that programs see.
pub(super) type LiveTree = Tree<Arc<LiveFile>>;

/// The names on the disk.
pub(super) type SavedTree = Tree<Arc<FileData>>;

/// A change of a directory that no sync of it has made durable. It takes effect whole or not at
/// all.
#[derive(Debug, Clone)]
pub(super) struct NameChange {
    /// Ascending in the order of the changes of all files and names.
    pub(super) number: u64,
    pub(super) directory: PathBuf,
    pub(super) unset: Option<OsString>,
    pub(super) set: Option<(OsString, Entry<Arc<FileData>>)>,
    /// The change of another directory without which this one must not take effect: a file that is
    /// moved between directories may be in both after a power loss, but never in neither.
    pub(super) after: Option<u64>,
}

impl NameChange {
    pub(super) fn apply(&self, tree: &mut SavedTree) {
        let entries = tree.entry(self.directory.clone()).or_default();
        if let Some(name) = &self.unset {
            entries.remove(name);
        }
        if let Some((name, entry)) = &self.set {
            entries.insert(name.clone(), entry.clone());
        }
    }
}

/// Both images of the directories.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) live: LiveTree,
    pub(super) durable: SavedTree,
    /// Oldest first. Empty in a file system without history.
    pub(super) unsynced: Vec<NameChange>,
}

impl Names {
    /// Only the root, durable.
    pub(super) fn new() -> Self {
        let mut names = Self::default();
        names.live.insert(PathBuf::new(), BTreeMap::new());
        names.durable.insert(PathBuf::new(), BTreeMap::new());
        names
    }

    /// The entry at a place; `None` if there is none.
    pub(super) fn find(&self, place: &DirEntry) -> Option<&Entry<Arc<LiveFile>>> {
        self.live.get(&place.directory)?.get(&place.name)
    }

    /// The file at a place.
    pub(super) fn file(&self, place: &DirEntry) -> io::Result<&Arc<LiveFile>> {
        match self.find(place) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(self.why_missing(&place.directory)),
        }
    }

    /// The entries of a directory, for changes.
    pub(super) fn entries(
        &mut self,
        directory: &Path,
    ) -> io::Result<&mut BTreeMap<OsString, Entry<Arc<LiveFile>>>> {
        let missing = self.why_missing(directory);
        self.live.get_mut(directory).ok_or(missing)
    }

    /// All files that have a name.
    pub(super) fn files(&self) -> impl Iterator<Item = &FileData> {
        self.live.keys().flat_map(|directory| self.files_in(directory))
    }

    /// The files of one directory.
    pub(super) fn files_in(&self, directory: &Path) -> impl Iterator<Item = &FileData> {
        let entries = self.live.get(directory).into_iter().flat_map(|entries| entries.values());
        entries.filter_map(|entry| match entry {
            Entry::File(file) => Some(&*file.data),
            Entry::Directory => None,
        })
    }

    /// The error for a missing entry: one of the directories above it may be a file.
    pub(super) fn why_missing(&self, directory: &Path) -> io::Error {
        let through_a_file = directory
            .ancestors()
            .filter_map(DirEntry::of_clean)
            .any(|place| matches!(self.find(&place), Some(Entry::File(_))));
        if through_a_file { io::ErrorKind::NotADirectory.into() } else { io::ErrorKind::NotFound.into() }
    }

    /// Records a change under a number, which it returns.
    pub(super) fn record(
        &mut self,
        number: u64,
        directory: &Path,
        unset: Option<OsString>,
        set: Option<(OsString, Entry<Arc<FileData>>)>,
        after: Option<u64>,
    ) -> u64 {
        self.unsynced.push(NameChange { number, directory: directory.to_path_buf(), unset, set, after });
        number
    }

    /// Moves a directory to another place. The move is durable, but makes nothing else durable.
    pub(super) fn move_directory(&mut self, from: &DirEntry, to: &DirEntry) -> io::Result<()> {
        match self.find(from) {
            Some(Entry::Directory) => {}
            Some(Entry::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(self.why_missing(&from.directory)),
        }
        if self.find(to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (old, new) = (from.path(), to.path());
        if new.starts_with(&old) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.entries(&to.directory)?.insert(to.name.clone(), Entry::Directory);
        self.entries(&from.directory)?.remove(&from.name);
        // A name that is not durable yet does not become so.
        if self.durable.get_mut(&from.directory).and_then(|names| names.remove(&from.name)).is_some() {
            self.durable.entry(to.directory.clone()).or_default().insert(to.name.clone(), Entry::Directory);
        }
        move_tree(&mut self.live, &old, &new);
        move_tree(&mut self.durable, &old, &new);
        for change in &mut self.unsynced {
            if let Some(moved) = moved(&change.directory, &old, &new) {
                change.directory = moved;
            } else if change.directory == from.directory
                && let Some((name, Entry::Directory)) = &mut change.set
                && *name == from.name
            {
                (change.directory, *name) = (to.directory.clone(), to.name.clone());
            }
        }
        Ok(())
    }

    /// Makes the changes of a directory durable, together with those of others that must not be
    /// missing.
    pub(super) fn sync(&mut self, directory: &Path) {
        let mut due: HashMap<PathBuf, u64> = HashMap::from([(directory.to_path_buf(), u64::MAX)]);
        // A change comes before those that depend on it, so one pass backwards finds all.
        for change in self.unsynced.iter().rev() {
            let is_due = due.get(&change.directory).is_some_and(|&last| change.number <= last);
            if let (true, Some(after)) = (is_due, change.after)
                && let Some(other) = self.unsynced.iter().find(|other| other.number == after)
            {
                let last = due.entry(other.directory.clone()).or_insert(after);
                *last = (*last).max(after);
            }
        }
        let durable = &mut self.durable;
        self.unsynced.retain(|change| {
            let is_due = due.get(&change.directory).is_some_and(|&last| change.number <= last);
            if is_due {
                change.apply(durable);
            }
            !is_due
        });
    }
}

fn move_tree<F>(tree: &mut Tree<F>, old: &Path, new: &Path) {
    let paths: Vec<_> = tree.keys().filter_map(|path| Some((path.clone(), moved(path, old, new)?))).collect();
    for (path, to) in paths {
        if let Some(entries) = tree.remove(&path) {
            tree.insert(to, entries);
        }
    }
}

/// The new path of an entry after a directory was moved, if the entry lies in it.
pub(super) fn moved(path: &Path, old: &Path, new: &Path) -> Option<PathBuf> {
    path.strip_prefix(old).ok().map(|inside| new.iter().chain(inside).collect())
}

/// A name and the directory that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirEntry {
    pub(super) directory: PathBuf,
    pub(super) name: OsString,
}

impl DirEntry {
    /// Fails for the root, which has no name.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Self::of_clean(&clean(path)).ok_or_else(|| io::ErrorKind::IsADirectory.into())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    fn of_clean(path: &Path) -> Option<Self> {
        Some(Self { directory: path.parent()?.to_path_buf(), name: path.file_name()?.to_os_string() })
    }
}

/// The path from the root, without `.` and `..`. There is no working directory: relative paths
/// begin at the root, too.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => drop(clean.pop()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    clean
}
