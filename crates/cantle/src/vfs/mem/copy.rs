//! Copies of a file system, as a power loss may leave it, and as the death of all processes does.

use super::file::{FileData, FileState, LiveFile, Space};
use super::names::{Entry, LiveTree, SavedTree, Tree};
use super::{CrashPlan, MemVfs, crash, new_instance};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

impl MemVfs {
    /// A new file system as a power loss at this moment could leave this one, which does not
    /// change. The same plan and the same history give the same bytes. Its locks are free, its
    /// contents are durable, and its page cache has another identity.
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

    /// A new file system as the death of all processes would leave this one, which does not change:
    /// nothing is lost, the page cache is the same, the locks are free.
    pub fn kill(&self) -> Self {
        self.copy(self.shared.instance)
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

/// The files of a copy, so that names of one file are names of one file in the copy, too.
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
    fn live_tree(&self, saved: &SavedTree, space: &Arc<Space>) -> LiveTree {
        let mut live: HashMap<u64, Arc<LiveFile>> = HashMap::new();
        map_tree(saved, |file| {
            let live =
                live.entry(file.id).or_insert_with(|| LiveFile::new(Arc::clone(file), Arc::clone(space)));
            Arc::clone(live)
        })
    }
}

fn map_tree<F, G>(tree: &Tree<F>, mut map: impl FnMut(&F) -> G) -> Tree<G> {
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
