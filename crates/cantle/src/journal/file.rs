//! The files of a journal: the one that is written, and older ones.

use crate::format::header::FileHeader;
use crate::sync::Arc;
use crate::sync::waits::{self, Cause};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::VfsFile;
use std::path::PathBuf;

/// A journal file that is not written any more.
#[derive(Debug, Clone)]
pub struct OldJournal {
    pub id: u64,
    pub path: PathBuf,
    pub max_version: u64,
    /// The greatest number of a batch whose commit is recorded only in this journal. 0 for a file
    /// of an earlier epoch: the fate of its batches is in the record that began this epoch.
    pub max_batch: u64,
}

impl OldJournal {
    /// True if a checkpoint of `version` makes the file superfluous. The checkpoint decides the
    /// batches below `next_batch`.
    pub fn is_covered(&self, version: u64, next_batch: u64) -> bool {
        self.max_version <= version && self.max_batch < next_batch
    }
}

/// The file that records are written to.
pub struct Active {
    pub id: u64,
    pub path: PathBuf,
    pub file: Arc<dyn VfsFile>,
    pub header: FileHeader,
    /// Bytes written.
    pub len: u64,
    /// Bytes durable.
    pub durable_bytes: u64,
    /// Bytes that the file system has allocated.
    pub allocated_bytes: u64,
    pub max_version: u64,
    pub max_batch: u64,
}

impl Active {
    /// Lets the file system allocate at least `needed` bytes, rounded up to a multiple of the step.
    pub fn reserve(&mut self, needed: u64, step_bytes: impl FnOnce() -> u64) -> Result<()> {
        if needed <= self.allocated_bytes {
            return Ok(());
        }
        let mut allocated = needed.next_multiple_of(step_bytes());
        let done = waits::timed(Cause::Allocation, || {
            self.file.allocate(allocated).or_else(|_| {
                // On a full disk, `needed` bytes may still be free.
                allocated = needed;
                self.file.allocate(allocated)
            })
        });
        match done {
            Ok(()) => {}
            // Without preallocation a full disk shows at the write.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {}
            Err(error) => return Err(Error::io(Attempt::Extend, &self.path, error)),
        }
        self.allocated_bytes = allocated;
        Ok(())
    }
}
