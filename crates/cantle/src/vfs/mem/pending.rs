//! The pending changes: those that no sync has made durable, and about which a loss of power would
//! decide. With them every image of a file system can be enumerated, and a fingerprint identifies
//! equal images.

use super::content::Content;
use super::file::Change;
use super::names::Entry;
use super::{MemVfs, Names};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// A change that no sync has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingChange {
    /// Ascending in the order of the changes of all files and names; a
    /// [`Survival`](super::Survival) refers to it.
    pub number: u64,
    /// The kind of the change.
    pub kind: PendingKind,
}

/// The kind of a pending change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingKind {
    /// A name was added or removed.
    Name,
    /// A file was truncated, extended or given space.
    Length,
    /// Bytes of a file were written.
    Write {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Bytes of a file were stored in its mapping.
    Store {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
}

impl MemVfs {
    /// The changes that no sync has made durable, oldest first. Changes of files without a name are
    /// omitted, as nobody will see them.
    pub fn pending(&self) -> Vec<PendingChange> {
        let names = self.shared.names.write();
        let mut pending: Vec<PendingChange> = names
            .unsynced
            .iter()
            .map(|change| PendingChange { number: change.number, kind: PendingKind::Name })
            .collect();
        for file in files(&names).values() {
            pending.extend(file.state.read().unsynced.iter().map(|unsynced| {
                let kind = match &unsynced.change {
                    Change::Write { offset, bytes } if unsynced.is_store => {
                        PendingKind::Store { offset: *offset, len: bytes.len() as u64 }
                    }
                    Change::Write { offset, bytes } => {
                        PendingKind::Write { offset: *offset, len: bytes.len() as u64 }
                    }
                    Change::SetLen(_) | Change::Allocate(_) => PendingKind::Length,
                };
                PendingChange { number: unsynced.number, kind }
            }));
        }
        pending.sort_unstable_by_key(|change| change.number);
        pending
    }

    /// A hash of all names and bytes that programs see: equal for file systems that look the same.
    pub fn fingerprint(&self) -> u128 {
        let names = self.shared.names.read();
        let mut hash = Xxh3::new();
        let directories: BTreeMap<_, _> = names.live.iter().collect();
        for (directory, entries) in directories {
            hash.update(directory.as_os_str().as_encoded_bytes());
            for (name, entry) in entries {
                hash.update(&[0]);
                hash.update(name.as_encoded_bytes());
                if let Entry::File(file) = entry {
                    Content::hash(&file.data.state.read().content, &mut hash);
                }
            }
            hash.update(&[1]);
        }
        hash.digest128()
    }
}

/// Every file that has a name, for programs or on disk, or may get one by a pending change.
fn files(names: &Names) -> BTreeMap<u64, std::sync::Arc<super::file::FileData>> {
    let mut files = BTreeMap::new();
    for entry in names.live.values().flat_map(BTreeMap::values) {
        if let Entry::File(file) = entry {
            files.insert(file.data.id, file.data.clone());
        }
    }
    let saved = names.durable.values().flat_map(BTreeMap::values);
    let set = names.unsynced.iter().filter_map(|change| change.set.as_ref().map(|(_, entry)| entry));
    for entry in saved.chain(set) {
        if let Entry::File(file) = entry {
            files.insert(file.id, file.clone());
        }
    }
    files
}
