//! The report of a repair.

use crate::sync::Arc;
use crate::types::error::Error;
use std::collections::HashSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Maximum number of damaged places, and of ranges, that a report lists: a hostile file must not
/// fill the memory.
const TOLD_MAX: usize = 10_000;

/// Progress of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairProgress {
    /// Bytes of files read.
    pub bytes: u64,
    /// Approximate number of bytes of all files to read.
    pub total_bytes: u64,
    /// Pairs saved.
    pub pairs: u64,
}

/// The keyspaces that a repair saved, and the damage that it found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Each keyspace of the new store.
    pub keyspaces: Vec<RepairedKeyspace>,
    /// Tables and logs read.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Each damaged place with its file and offset.
    pub damage: Vec<Error>,
    /// Number of damaged places that the list omits.
    pub damage_untold: u64,
    /// Files of which nothing was used, and the reason.
    pub left_out: Vec<LeftOut>,
    /// Other entries of the damaged store's directory, which are no files of a store.
    pub other_files: Vec<PathBuf>,
    /// Keys whose newest version may be lost: pairs may be missing, or have an older value.
    pub uncertain: Vec<UncertainKeys>,
    /// Number of ranges that the list omits.
    pub uncertain_untold: u64,
    /// Files that may bring back deleted pairs, older values or older deletes, with the ranges of
    /// keys: without a manifest, it is not known if they still count there.
    pub may_return: Vec<ReturnedKeys>,
    /// Number of ranges that the list omits.
    pub may_return_untold: u64,
    /// Other facts about the new store.
    pub notes: Vec<String>,
}

/// One keyspace of the new store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairedKeyspace {
    /// The name of the keyspace.
    pub name: String,
    /// Pairs saved.
    pub pairs: u64,
    /// Bytes of the keys and values of these pairs.
    pub bytes: u64,
}

/// A file of which nothing was used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
    /// True if the file may have held pairs that are missing now.
    pub loses: bool,
}

/// A range of keys that damage concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UncertainKeys {
    /// The keyspace's name in the new store.
    pub keyspace: String,
    /// The bounds of the range.
    pub keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// The damaged file.
    pub path: PathBuf,
    /// Offset of the damage in the file, in bytes.
    pub offset: u64,
}

/// A range of keys in which a file may bring back deleted pairs or older values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReturnedKeys {
    /// The keyspace's name in the new store.
    pub keyspace: String,
    /// The bounds of the range.
    pub keys: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// The file.
    pub path: PathBuf,
}

impl RepairReport {
    /// True if the new store has everything that the old one had.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty() && self.uncertain.is_empty() && self.left_out.iter().all(|file| !file.loses)
    }

    /// Pairs saved in all keyspaces.
    pub fn pairs(&self) -> u64 {
        self.keyspaces.iter().map(|keyspace| keyspace.pairs).sum()
    }
}

/// The report in progress: each place is reported once, however often it is met.
#[derive(Default)]
pub(super) struct Findings {
    pub report: RepairReport,
    places: HashSet<(PathBuf, u64)>,
    ranges: HashSet<(String, PathBuf, u64)>,
}

impl Findings {
    pub fn damage(&mut self, error: Error) {
        let place = place_of(&error);
        if !self.places.insert(place) {
            return;
        }
        if self.report.damage.len() < TOLD_MAX {
            self.report.damage.push(error);
        } else {
            self.report.damage_untold += 1;
            self.places.clear();
        }
    }

    /// Adds damage by which pairs of these keys may be missing or outdated.
    pub fn lost(&mut self, error: Error, keyspace: &str, keys: (Bound<Vec<u8>>, Bound<Vec<u8>>)) {
        let (path, offset) = place_of(&error);
        self.damage(error);
        // A file that several chunks share is met once for each of them.
        if !self.ranges.insert((format!("{keyspace} {keys:?}"), path.clone(), offset)) {
            return;
        }
        if self.report.uncertain.len() < TOLD_MAX {
            let keyspace = keyspace.to_owned();
            self.report.uncertain.push(UncertainKeys { keyspace, keys, path, offset });
        } else {
            self.report.uncertain_untold += 1;
            self.ranges.clear();
        }
    }

    /// Adds a range in which a file may bring back deleted pairs or older values.
    pub fn may_return(&mut self, path: &Path, keyspace: &str, keys: (Bound<Vec<u8>>, Bound<Vec<u8>>)) {
        let told = &mut self.report.may_return;
        if told.len() >= TOLD_MAX {
            self.report.may_return_untold += 1;
            return;
        }
        let (keyspace, path) = (keyspace.to_owned(), path.to_path_buf());
        let returned = ReturnedKeys { keyspace, keys, path };
        if told.last() != Some(&returned) {
            told.push(returned);
        }
    }

    pub fn leave_out(&mut self, path: &Path, why: impl Into<String>, loses: bool) {
        if self.report.left_out.iter().all(|left| left.path != path) {
            self.report.left_out.push(LeftOut { path: path.to_path_buf(), why: why.into(), loses });
        }
    }

    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.report.notes.contains(&note) {
            self.report.notes.push(note);
        }
    }

    pub fn unreadable(&mut self, pages: Vec<(PathBuf, u64, Arc<std::io::Error>)>) {
        for (path, offset, error) in pages {
            // The failed read is the cause of any other damage found on this page.
            let error = Error::corruption(path, offset, format!("a page cannot be read: {error}"));
            if self.report.damage.len() < TOLD_MAX {
                self.report.damage.push(error);
            }
        }
    }
}

fn place_of(error: &Error) -> (PathBuf, u64) {
    match error {
        Error::Corruption { path, offset, .. } => (path.clone(), *offset),
        Error::Io { path, .. } | Error::NoSpace { path, .. } | Error::UnsupportedFormat { path, .. } => {
            (path.clone(), 0)
        }
        other => (PathBuf::from(other.to_string()), 0),
    }
}
