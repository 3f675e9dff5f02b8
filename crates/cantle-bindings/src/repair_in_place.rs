//! A repair that leaves the repaired store where the damaged one was.
//!
//! ```text
//!   PATH is read → PATH.repairing is filled → both change their names at once
//!     → what is PATH.repairing now goes, or keeps a name of its own if not all of it could be saved
//!     → files that are no store's, and were beside it, go back to PATH
//! ```
//!
//! PATH is the directory itself: of a symbolic link, or of "PATH/.", the one that it leads to. Of one that is missing, or has no store's
//! files, an empty store is made, as LevelDB does.
//!
//! Invariants: PATH is a whole store at every moment, the old one or the new; nobody writes to it from the first look to the exchange,
//! as it is locked; nothing is removed but what this has made, or an interrupted one where it starts over, and a store of which everything
//! was saved.

use cantle::{Error, Options, RepairReport};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// How a repair in place goes about it.
pub struct RepairInPlace<'a> {
    /// How stores are opened.
    pub options: &'a Options,
    /// What the damaged store is called from now on if not all of it could be saved: the store's name, this, and a number from the
    /// second one on.
    pub kept_suffix: &'a str,
    /// Whether a store that an interrupted repair left goes without a word. Else it is in the way.
    pub starts_over: bool,
}

/// Why a repair ended.
#[derive(Debug)]
pub enum Failure {
    /// What the library says.
    Store(Error),
    /// What could not be done ("list"), to which file, and why.
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
    /// The store is open, here or elsewhere; the directory is another kind of store's; it has no place beside it; what the system refuses.
    pub fn repair(&self, path: &Path) -> Result<()> {
        if is_nothing(path)? {
            return self.create(path);
        }
        // What changes names must be the directory, not a link to it.
        let path = &fs::canonicalize(path).map_err(system("look at", path))?;
        let filled = &beside(path, ".repairing")?;
        self.clear(filled, path)?;
        let before = Lock::take(path)?;
        let report = match cantle::Db::repair(path, filled, self.options.clone()) {
            Ok(report) => report,
            Err(Error::NotFound { .. }) => return self.create(path),
            Err(error) => {
                // Somebody else may have made it just now.
                if !matches!(error, Error::AlreadyExists { .. } | Error::NotAStore { .. }) {
                    let _ = destroy(filled);
                }
                return Err(error.into());
            }
        };
        let held = match before {
            // The repair has made the file.
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
            // Gone with the store, unless there was something else in it.
            let _ = fs::remove_dir(&old);
        }
        sync(parent(path))
    }

    fn create(&self, path: &Path) -> Result<()> {
        let options = self.options.clone().create_if_missing(true).error_if_exists(false);
        Ok(options.open(path)?.close()?)
    }

    /// Sees to it that nothing is where the repaired store is to be filled.
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
            // What was beside a store whose repair was interrupted after the exchange.
            let names = fs::read_dir(filled).map_err(system("list", filled))?;
            let files: io::Result<Vec<_>> = names.map(|name| Ok(name?.path())).collect();
            bring(&files.map_err(system("list", filled))?, path)?;
            fs::remove_dir(filled).map_err(system("remove", filled))?;
        }
        Ok(())
    }

    /// Gives the damaged store a name of its own.
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

/// The lock of a store, shared: nobody can write to it while it is held, and a repair can read it.
enum Lock {
    Held(File),
    /// There is no such file, and so nobody who has the store open.
    Absent,
    /// Somebody has the store open.
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

/// Whether there is no directory, or nothing in it.
fn is_nothing(path: &Path) -> Result<bool> {
    match fs::read_dir(path) {
        Ok(mut names) => Ok(names.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(system("list", path)(error)),
    }
}

/// Whether the repaired store has everything of the old one.
fn is_whole(report: &RepairReport) -> bool {
    report.damage.is_empty() && report.uncertain.is_empty() && !report.left_out.iter().any(|file| file.loses)
}

/// Moves files into the repaired store's directory, but over none that is there.
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

/// The path with something behind its last name.
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
