//! Disk space kept aside, so that on a full disk deletes and rebalances can still free some.
//!
//! The file `RESERVE` holds allocated blocks. Who frees space (a delete, a rebalance, a checkpoint) gives them
//! back to the file system when he meets a full disk, and tries again. While the reserve is spent, puts fail at
//! once, so that they don't eat what is meant for freeing space; it is set up again as soon as there is room.

use crate::error::{Error, Result};
use crate::files::Files;
use crate::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use crate::sync::{Arc, Mutex};
use crate::vfs::OpenMode;
use std::io;

pub const RESERVE_FILE: &str = "RESERVE";
/// At most this much, and at most a 64th of what is free: enough for a rebalance of some chunks.
const RESERVE_BYTES_MAX: u64 = 32 << 20;
const RESERVE_FRACTION: u64 = 64;
/// With more than this free there is no need to keep any aside.
const PLENTY_BYTES: u64 = RESERVE_FRACTION * RESERVE_BYTES_MAX;
/// Below this a reserve is of no use.
const RESERVE_BYTES_MIN: u64 = 64 << 10;

pub struct Reserve {
    files: Option<Arc<Files>>,
    spent: AtomicBool,
    /// Whether the file is there.
    kept: Mutex<bool>,
}

impl Reserve {
    /// Sets the reserve up, if there is room.
    pub fn new(files: Arc<Files>) -> Self {
        let reserve = Self { files: Some(files), spent: AtomicBool::new(false), kept: Mutex::new(false) };
        reserve.maintain();
        reserve
    }

    /// For stores that write nothing.
    pub fn none() -> Self {
        Self { files: None, spent: AtomicBool::new(false), kept: Mutex::new(false) }
    }

    /// Whether the reserve was given back, because the disk is full.
    pub fn is_spent(&self) -> bool {
        self.spent.load(Acquire)
    }

    /// Runs what frees space; on a full disk gives the reserve back and runs it once more. Not if it was a sync that
    /// found the disk full: a second one would succeed, whatever the first has lost.
    pub fn with<T>(&self, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        match run() {
            Err(error) if error.is_no_space() && !error.is_sync() && self.give_back() => run(),
            done => done,
        }
    }

    /// Gives the reserved blocks to the file system; false if they were given back before.
    pub fn give_back(&self) -> bool {
        let mut kept = self.kept.lock();
        *kept = false;
        let Some(files) = &self.files else { return false };
        let path = files.dir.join(RESERVE_FILE);
        let first = !self.spent.swap(true, Release);
        if first {
            tracing::warn!(path = %path.display(), "the disk is full: the space set aside is used");
            if let Err(error) = files.vfs.remove(&path) {
                tracing::debug!(%error, "there was no space set aside");
            }
        }
        first
    }

    /// To be called now and then: keeps the reserve once space becomes short, and sets it up again when there is
    /// room for it and for something beside it.
    pub fn maintain(&self) {
        match self.set_up() {
            Ok(true) => {
                if self.spent.swap(false, Release) {
                    tracing::info!("there is space again: writes go on");
                }
            }
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "cannot set space aside"),
        }
    }

    /// Whether there is enough space, kept aside or free.
    fn set_up(&self) -> Result<bool> {
        let mut kept = self.kept.lock();
        let Some(files) = &self.files else { return Ok(true) };
        if *kept {
            return Ok(true);
        }
        let path = files.dir.join(RESERVE_FILE);
        let available =
            files.vfs.available_bytes(&files.dir).map_err(|e| Error::io("measure", &files.dir, e))?;
        let bytes = (available / RESERVE_FRACTION).min(RESERVE_BYTES_MAX);
        if available > PLENTY_BYTES {
            return Ok(true);
        }
        if bytes < RESERVE_BYTES_MIN {
            // On so small a disk writes may use all of it, and go on as long as there is any.
            return Ok(available >= RESERVE_BYTES_MIN);
        }
        let create = || -> io::Result<()> {
            if files.vfs.metadata(&path)?.is_some() {
                return Ok(());
            }
            files.vfs.open(&path, OpenMode::CreateNew)?.allocate(bytes)
        };
        match create() {
            Ok(()) => *kept = true,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(error) => {
                if let Err(error) = files.vfs.remove(&path) {
                    tracing::debug!(%error, "there was no space set aside");
                }
                return Err(Error::io("allocate", &path, error));
            }
        }
        Ok(true)
    }
}
