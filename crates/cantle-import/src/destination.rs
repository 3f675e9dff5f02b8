//! The new store: built beside its place, and renamed when it is whole.
//!
//! ```text
//!   NAME.importing/IMPORTING    says what this is; locked by the process that builds the store
//!   NAME.importing/store        the store, until it is renamed to NAME
//! ```
//!
//! Invariants: NAME is a whole, durable store or not there; what is in NAME.importing is no store
//! for whoever opens it, and belongs to whoever has the lock. An import that fails removes it; one
//! that was killed leaves it to the next.

use crate::error::{Error, Result};
use crate::import::Import;
use cantle::{Db, KEY_BYTES_MAX, Keyspace, VALUE_BYTES_MAX, WriteBatch};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".importing";
const MARKER: &str = "IMPORTING";
const STORE: &str = "store";

/// Few system calls, and little memory.
const BATCH_PAIRS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;

pub(crate) struct Destination {
    db: Db,
    keyspace: Keyspace,
    batch: WriteBatch,
    batch_bytes: usize,
    pub pairs: u64,
    bytes: u64,
    /// The last key, while keys come in order: then all of them differ.
    last: Option<Vec<u8>>,
    in_order: bool,
    /// Dropped last: the store's threads are gone before its directory is.
    staging: Staging,
}

impl Destination {
    /// Begins a store that is to be at `path`, which must not lie in `source`.
    pub fn create(path: &Path, source: Option<&Path>, import: &Import) -> Result<Self> {
        let staging = Staging::create(path, source)?;
        let options = import.options.clone().create_if_missing(true).error_if_exists(true).read_only(false);
        let options = match &import.keyspace_options {
            Some(given) if import.keyspace == "default" => options.default_keyspace(given.clone()),
            _ => options,
        };
        let db = options.open(staging.path.join(STORE))?;
        let keyspace =
            db.keyspace_with(&import.keyspace, import.keyspace_options.clone().unwrap_or_default())?;
        Ok(Self {
            db,
            keyspace,
            batch: WriteBatch::new(),
            batch_bytes: 0,
            pairs: 0,
            bytes: 0,
            last: None,
            in_order: true,
            staging,
        })
    }

    /// The directory for files that are gone when the import ends.
    pub fn scratch(&self) -> &Path {
        &self.staging.path
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        within_limits(key, value)?;
        if self.in_order {
            self.in_order = self.last.as_deref().is_none_or(|last| last < key);
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        }
        self.batch.keyspace(&self.keyspace).put(key, value);
        self.batch_bytes += key.len() + value.len();
        self.pairs += 1;
        self.bytes += (key.len() + value.len()) as u64;
        if self.batch.len() >= BATCH_PAIRS || self.batch_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { Ok(self.db.write(batch)?) }
    }

    /// Makes everything durable, and puts the store where it is to be. Returns its pairs and their
    /// bytes.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        self.flush()?;
        if !self.in_order {
            (self.pairs, self.bytes) = (0, 0);
            for pair in self.keyspace.range(..) {
                let (key, value) = pair?;
                self.pairs += 1;
                self.bytes += (key.len() + value.len()) as u64;
            }
        }
        self.db.sync()?;
        self.db.close()?;
        let Self { staging, db, keyspace, pairs, bytes, .. } = self;
        drop((db, keyspace));
        staging.finish()?;
        Ok((pairs, bytes))
    }
}

fn within_limits(key: &[u8], value: &[u8]) -> Result<()> {
    let what = if key.len() > KEY_BYTES_MAX {
        format!("the key has {} bytes; a store takes at most 1 MiB", key.len())
    } else if value.len() > VALUE_BYTES_MAX {
        format!("the value has {} bytes; a store takes at most 1 GiB", value.len())
    } else {
        return Ok(());
    };
    Err(Error::TooLarge { key: key[..key.len().min(64)].to_vec(), what })
}

/// The directory that the store is built in. Removed when this is dropped.
struct Staging {
    /// The path of the store to come.
    target: PathBuf,
    path: PathBuf,
    /// Has the lock.
    marker: File,
}

impl Staging {
    fn create(target: &Path, source: Option<&Path>) -> Result<Self> {
        let target = resolve(target)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            let what = format!("{} names no directory that could be created", target.display());
            return Err(Error::InvalidArgument(what));
        };
        if let Some(source) = source {
            let source = source.canonicalize().map_err(|error| Error::io("look at", source, error))?;
            if parent.starts_with(&source) {
                let what = format!(
                    "{} lies in the source, which must not be changed: give another path",
                    target.display()
                );
                return Err(Error::InvalidArgument(what));
            }
        }
        check_free(&target)?;
        let mut named = name.to_owned();
        named.push(SUFFIX);
        let path = parent.join(named);
        create_directories(parent)?;
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Only what an import leaves is removed.
                let names = fs::read_dir(&path).map_err(|error| Error::io("list", &path, error))?;
                for entry in names {
                    let name = entry.map_err(|error| Error::io("list", &path, error))?.file_name();
                    if name != MARKER && name != STORE {
                        return Err(Error::DestinationExists { path });
                    }
                }
            }
            created => created.map_err(|error| Error::io("create directory", &path, error))?,
        }
        let marker = take_marker(&path)?;
        let staging = Self { target, path, marker };
        // Another import may have been ending just now.
        check_free(&staging.target)?;
        staging.begin()?;
        Ok(staging)
    }

    fn begin(&self) -> Result<()> {
        remove_tree(&self.path.join(STORE))?;
        let text = format!(
            "An import into {} is under way, or was interrupted.\nThis is no store: import again, or remove this directory.\n",
            self.target.display()
        );
        let written = self.marker.set_len(0).and_then(|()| (&self.marker).write_all(text.as_bytes()));
        written.map_err(|error| Error::io("write", self.path.join(MARKER), error))?;
        sync(&self.path)
    }

    /// Puts the store to its place.
    fn finish(self) -> Result<()> {
        // Replaces an empty directory and nothing else.
        fs::rename(self.path.join(STORE), &self.target).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory => Error::DestinationExists { path: self.target.clone() },
            _ => Error::io("rename the finished store to", &self.target, error),
        })?;
        sync(self.target.parent().unwrap_or(&self.target))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A file that cannot be removed is removed by the next import.
        let _ = remove_tree(&self.path.join(STORE));
        let _ = fs::remove_file(self.path.join(MARKER));
        let _ = fs::remove_dir(&self.path);
    }
}

/// The path with its parents as they really are, as far as they exist.
fn resolve(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).map_err(|error| Error::io("look at", path, error))?;
    let mut missing = Vec::new();
    for ancestor in absolute.ancestors() {
        match ancestor.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, name| path.join(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match ancestor.file_name() {
                Some(name) => missing.push(name.to_owned()),
                None => break,
            },
            Err(error) => return Err(Error::io("look at", ancestor, error)),
        }
    }
    Err(Error::InvalidArgument(format!("{} goes through directories that do not exist", path.display())))
}

/// There is nothing, or an empty directory.
fn check_free(path: &Path) -> Result<()> {
    let taken = || Error::DestinationExists { path: path.to_path_buf() };
    match fs::read_dir(path) {
        Ok(mut names) => {
            if names.next().is_none() {
                Ok(())
            } else {
                Err(taken())
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(taken()),
        Err(error) => Err(Error::io("list", path, error)),
    }
}

fn create_directories(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(|error| Error::io("create directory", path, error))
}

fn take_marker(staging: &Path) -> Result<File> {
    let path = staging.join(MARKER);
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let marker = opened.map_err(|error| Error::io("create", &path, error))?;
    match flock(&marker, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::UnderWay { path: staging.to_path_buf() }),
        Err(error) => return Err(Error::io("lock", path, error.into())),
    }
    // Whoever had it may have removed it before the lock was ours.
    let same =
        |named: fs::Metadata, ours: fs::Metadata| (named.dev(), named.ino()) == (ours.dev(), ours.ino());
    match fs::metadata(&path).and_then(|named| Ok(same(named, marker.metadata()?))) {
        Ok(true) => Ok(marker),
        _ => Err(Error::UnderWay { path: staging.to_path_buf() }),
    }
}

fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

fn sync(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| Error::io("sync directory", dir, error))
}
