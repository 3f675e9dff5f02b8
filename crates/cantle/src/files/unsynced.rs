//! Failures of the kernel to write back a file's pages, kept until a sync reports them.
//!
//! Handles are closed when too many are open, even those of dirty files. The kernel may then fail
//! to write the pages back, and evict the inode together with its record of the failure. A sync by
//! a handle that is opened later reports success, and acknowledged writes are lost silently.
//! Therefore the inode stays in memory ([`VfsFile::remember`]) from the first write to the next
//! successful sync. If that is impossible, each write is synced before its handle may be closed.
//!
//! Thread safety: everything may be called from any thread. The lock is held during writes, which
//! their caller serialises anyway, and during no sync except that of a write whose inode cannot be
//! kept.

use crate::sync::{Arc, Mutex};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{Reminder, VfsFile};
use std::io;
use std::path::Path;

#[derive(Debug, Default)]
pub struct Unsynced {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Keeps the inode in memory. `None` if every earlier write is durable, or a running sync holds
    /// it.
    reminder: Option<Reminder>,
    /// A sync failed: no later one can tell if earlier writes are durable.
    failed: bool,
}

impl Unsynced {
    /// Writes to the file of `handle`, which stays open meanwhile.
    pub fn write(&self, handle: &dyn VfsFile, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.state.lock();
        if state.failed {
            return Err(failed_before(path));
        }
        canary!(FAILURE_EVICTED => return handle.write_at(bytes, offset).map_err(|e| Error::io(Attempt::Append, path, e)));
        if state.reminder.is_none() {
            match handle.remember() {
                Ok(reminder) => state.reminder = Some(reminder),
                Err(error) => tracing::debug!(%error, "the inode may be evicted: each log write is synced"),
            }
        }
        handle.write_at(bytes, offset).map_err(|e| Error::io(Attempt::Append, path, e))?;
        if state.reminder.is_some() {
            return Ok(());
        }
        let synced = handle.sync_data();
        state.failed = synced.is_err();
        synced.map_err(|e| Error::io(Attempt::Sync, path, e))
    }

    /// Syncs the file by the handle that `open` returns.
    pub fn sync(&self, path: &Path, open: impl FnOnce() -> Result<Arc<dyn VfsFile>>) -> Result<()> {
        // Taken first: a write that comes meanwhile may be too late for this sync, and keeps the
        // inode for the next.
        let reminder = {
            let mut state = self.state.lock();
            if state.failed {
                return Err(failed_before(path));
            }
            state.reminder.take()
        };
        let handle = match open() {
            Ok(handle) => handle,
            Err(error) => {
                let mut state = self.state.lock();
                state.reminder = state.reminder.take().or(reminder);
                return Err(error);
            }
        };
        canary!(UNSYNCED_LOG else handle.sync_data()).map_err(|error| {
            self.state.lock().failed = true;
            Error::io(Attempt::Sync, path, error)
        })
    }
}

fn failed_before(path: &Path) -> Error {
    Error::io(Attempt::Sync, path, io::Error::other("a sync of it failed before"))
}
