//! A repair that puts the repaired store in the place of the damaged one.
//!
//! ```text
//!   PATH is read → PATH.repairing is filled → the two directories exchange their names
//!     → the old store, now PATH.repairing, is removed, or gets a name of its own if not all of it could be saved
//!     → files in it that belong to no store are moved back to PATH
//! ```
//!
//! PATH is the directory itself: for a symbolic link, or for "PATH/.", the directory that it leads
//! to. If PATH is missing, or has no files of a store, an empty store is created, as LevelDB does.
//!
//! Invariants:
//!
//! * PATH is a complete store at every moment, the old one or the new one.
//! * No other process writes to PATH from the first look to the exchange, because it is locked.
//! * Only three things are removed: files that this repair has made, those that an interrupted
//!   repair has made if this one starts over, and a store of which everything was saved.

use cantle::repair::RepairReport;
use cantle::{Error, Options};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Settings of a repair in place.
pub struct RepairInPlace<'a> {
    /// Options with which stores are opened.
    pub options: &'a Options,
    /// Suffix of the damaged store's new name if not all of it could be saved. From the second such
    /// store on, a number follows.
    pub kept_suffix: &'a str,
    /// True if a store that an interrupted repair left is removed. Otherwise such a store is an
    /// error.
    pub starts_over: bool,
}

/// The reason why a repair failed.
#[derive(Debug)]
pub enum Failure {
    /// An error of the library.
    Store(Error),
    /// The operation that failed ("list"), its file, and the error.
    System(&'static str, PathBuf, io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

type Result<T> = std::result::Result<T, Failure>;

fn system<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Failure {
    let path = path.to_path_buf();
    move |error| Failure::System(what, path, error.into())
}

impl RepairInPlace<'_> {
    /// Repairs the store of a directory.
    ///
    /// # Errors
    ///
    /// The store is open, here or elsewhere; the directory belongs to another kind of store, or has
    /// no place beside it; errors of the system.
    pub fn repair(&self, path: &Path) -> Result<()> {
        if is_nothing(path)? {
            return self.create(path);
        }
        // The exchange needs the directory itself, not a link to it.
        let path = &fs::canonicalize(path).map_err(system("look at", path))?;
        let filled = &beside(path, ".repairing")?;
        self.clear(filled, path)?;
        let before = Lock::take(path)?;
        let report = match cantle::Db::repair(path, filled, self.options.clone()) {
            Ok(report) => report,
            Err(Error::NotFound { .. }) => return self.create(path),
            Err(error) => {
                // Another process may have made the directory just now.
                if !matches!(error, Error::AlreadyExists { .. } | Error::NotAStore { .. }) {
                    let _ = destroy(filled);
                }
                return Err(error.into());
            }
        };
        let held = match before {
            // The repair has created the lock file.
            Lock::Absent => Lock::take(path)?,
            before => before,
        };
        let Lock::Held(lock) = held else {
            destroy(filled)?;
            let opened = io::Error::new(io::ErrorKind::WouldBlock, "the store was opened meanwhile");
            return Err(system("lock", &path.join(LOCK_FILE))(opened));
        };
        renameat_with(CWD, path, CWD, filled, RenameFlags::EXCHANGE)
            .map_err(system("exchange with the damaged store, which is to be done by hand,", filled))?;
        drop(lock);
        sync(parent(path))?;
        let old = if is_whole(&report) {
            destroy(filled)?;
            filled.clone()
        } else {
            let kept = self.keep(path, filled)?;
            let (damage, uncertain) = (report.damage.len(), report.uncertain.len());
            tracing::warn!(kept = %kept.display(), damage, uncertain, "a repair could not save everything");
            kept
        };
        let names = report.other_files.iter().filter_map(|other| other.file_name());
        bring(&names.map(|name| old.join(name)).collect::<Vec<_>>(), path)?;
        if is_whole(&report) {
            // The directory is removed unless there is something else in it.
            let _ = fs::remove_dir(&old);
        }
        sync(parent(path))
    }

    fn create(&self, path: &Path) -> Result<()> {
        let options = self.options.clone().create_if_missing(true).error_if_exists(false);
        Ok(options.open(path)?.close()?)
    }

    /// Makes sure that nothing is in the place where the repaired store will be filled.
    fn clear(&self, filled: &Path, path: &Path) -> Result<()> {
        if fs::symlink_metadata(filled).is_err() {
            return Ok(());
        }
        if !self.starts_over {
            let what = "there is something already, perhaps of a repair that was interrupted: remove it";
            return Err(system("repair into", filled)(io::Error::new(io::ErrorKind::AlreadyExists, what)));
        }
        destroy(filled)?;
        if filled.exists() {
            // Other files that were in a store whose repair was interrupted after the exchange.
            let names = fs::read_dir(filled).map_err(system("list", filled))?;
            let files: io::Result<Vec<_>> = names.map(|name| Ok(name?.path())).collect();
            bring(&files.map_err(system("list", filled))?, path)?;
            fs::remove_dir(filled).map_err(system("remove", filled))?;
        }
        Ok(())
    }

    /// Renames the damaged store to a name of its own.
    fn keep(&self, path: &Path, old: &Path) -> Result<PathBuf> {
        let mut number = 1;
        loop {
            let suffix = self.kept_suffix;
            let kept =
                beside(path, &if number == 1 { suffix.to_owned() } else { format!("{suffix}-{number}") })?;
            match renameat_with(CWD, old, CWD, &kept, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(kept),
                Err(Errno::EXIST | Errno::NOTEMPTY) => number += 1,
                Err(error) => return Err(system("keep", old)(error)),
            }
        }
    }
}

const LOCK_FILE: &str = "LOCK";

/// The shared lock of a store: no process can write to the store while it is held, and a repair can
/// read it.
enum Lock {
    Held(File),
    /// There is no lock file, so no process has the store open.
    Absent,
    /// A process has the store open.
    Taken,
}

impl Lock {
    fn take(path: &Path) -> Result<Self> {
        let file = path.join(LOCK_FILE);
        let opened = match File::open(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            opened => opened.map_err(system("open", &file))?,
        };
        match flock(&opened, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Self::Held(opened)),
            Err(Errno::WOULDBLOCK) => Ok(Self::Taken),
            Err(error) => Err(system("lock", &file)(error)),
        }
    }
}

/// Removes a store's files, and its directory unless there is something else in it.
fn destroy(path: &Path) -> Result<()> {
    cantle::Db::destroy(path, Options::new())?;
    let _ = fs::remove_dir(path);
    Ok(())
}

/// True if there is no directory, or nothing in it.
fn is_nothing(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut names) => Ok(names.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(system("list", path)(error)),
    }
}

/// True if the repaired store has everything of the old one.
fn is_whole(report: &RepairReport) -> bool {
    report.damage.is_empty() && report.uncertain.is_empty() && !report.left_out.iter().any(|file| file.loses)
}

/// Moves files into the repaired store's directory, but does not replace any file there.
fn bring(files: &[PathBuf], new: &Path) -> Result<()> {
    for file in files {
        let Some(name) = file.file_name() else { continue };
        match renameat_with(CWD, file, CWD, new.join(name), RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(error) => return Err(system("move", file)(error)),
        }
    }
    if files.is_empty() { Ok(()) } else { sync(new) }
}

/// The path with a suffix after its last name.
fn beside(path: &Path, suffix: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let what = format!("{} has no name: a repair needs a place beside it", path.display());
        return Err(Error::InvalidArgument(what).into());
    };
    let mut name = OsString::from(name);
    name.push(suffix);
    Ok(path.with_file_name(name))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn sync(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(system("sync directory", directory))
}
