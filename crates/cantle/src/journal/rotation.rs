//! Journal files: begun at a checkpoint, and removed once a checkpoint covers them.

use super::file::Active;
use super::writer::Journal;
use crate::files::file_name;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::types::error::{Attempt, Error, Result};
use std::path::Path;

/// Minimum length in bytes at which a checkpoint begins a new file. A new file takes two syncs,
/// while reading this many bytes of records adds no noticeable time to an opening.
pub(super) const ROTATE_BYTES_MIN: u64 = 64 << 10;

impl Journal {
    pub(super) fn create(&self) -> Result<Active> {
        let id = self.files.next_id();
        let path = self.files.path(FileKind::Journal, id);
        let header = FileHeader {
            kind: FileKind::Journal,
            keyspace: 0,
            store: self.files.store,
            file: id,
            epoch: self.files.epoch,
            base_version: 0,
        };
        // A journal with its final name always has its header, whatever a power loss leaves of the
        // rest.
        let temporary = self.files.dir.join(format!("{}.tmp", file_name(FileKind::Journal, id)));
        let vfs = &*self.files.vfs;
        let created = self.files.create_temporary(&temporary);
        let file = created.map_err(|e| Error::io(Attempt::Create, &temporary, e))?;
        let written = file
            .write_at(&header.encode(), 0)
            .map_err(|e| Error::io(Attempt::Write, &temporary, e))
            .and_then(|()| {
                let synced = canary!(UNSYNCED_JOURNAL_HEADER else file.sync_data());
                synced.map_err(|e| Error::sync_unreferenced(&temporary, e))
            })
            .and_then(|()| {
                vfs.rename(&temporary, &path).map_err(|e| Error::io(Attempt::Rename, &temporary, e))
            })
            // The name must be durable before a sync of the data means anything.
            .and_then(|()| canary!(UNNAMED_JOURNAL else self.files.sync_names()));
        if let Err(error) = written {
            self.files.abandon(&temporary, &path);
            return Err(error);
        }
        Ok(Active {
            id,
            path,
            file,
            header,
            len: HEADER_BYTES,
            durable_bytes: HEADER_BYTES,
            allocated_bytes: HEADER_BYTES,
            max_version: 0,
            max_batch: 0,
        })
    }

    /// Begins a new file with the next record if the present one is long, so that the present one
    /// can be removed when a checkpoint covers it. The checkpoint decides the batches below
    /// `next_batch`. On a full disk, or if no more files can be open, the present file stays for
    /// now.
    pub fn rotate(&self, next_batch: u64) -> Result<()> {
        let mut inner = self.lock_sound()?;
        let Some(active) = &inner.active else { return Ok(()) };
        if active.max_batch >= next_batch {
            // The checkpoint covers the writes of these batches, and writes of threads that read
            // them, but only the journal records that they committed.
            inner = self.sync_group(inner);
            if let Some(error) = &inner.failed {
                return Err(error.clone());
            }
        } else if active.len + (inner.buffer.len() as u64) < ROTATE_BYTES_MIN {
            return Ok(());
        }
        if inner.buffer.is_empty() && inner.reserved_bytes == 0 {
            inner.retire_active(None);
            return Ok(());
        }
        drop(inner);
        // Created beforehand: announced writers must not wait for its syncs.
        let next = self.create().and_then(|mut next| {
            let ready = self.lock_sound().and_then(|inner| {
                // Writers between `reserve` and `enqueue` count on their space.
                next.reserve(HEADER_BYTES + inner.reserved_bytes, || self.step_bytes())?;
                Ok(inner)
            });
            match ready {
                Ok(inner) => Ok((next, inner)),
                Err(error) => {
                    self.remove(&next.path);
                    Err(error)
                }
            }
        });
        let (next, mut inner) = match next {
            Err(error) if error.is_no_space() || error.is_unopened() => return Ok(()),
            next => next?,
        };
        if inner.buffer.is_empty() {
            inner.retire_active(Some(next));
        } else {
            inner = self.sync_group_and_begin(Some(next), inner);
        }
        inner.failed.clone().map_or(Ok(()), Err)
    }

    /// Number of the first file that a recovery to a checkpoint of `version` needs. The checkpoint
    /// decides the batches below `next_batch`.
    pub fn first_needed(&self, version: u64, next_batch: u64) -> u64 {
        let inner = self.inner.lock();
        let needed = inner.old.iter().filter(|journal| !journal.is_covered(version, next_batch));
        let old = needed.map(|journal| journal.id);
        let active = inner.active.as_ref().map(|active| active.id);
        old.chain(active).min().unwrap_or_else(|| self.files.peek_id())
    }

    /// Removes the files that such a checkpoint covers. Call it once the checkpoint is durable.
    pub fn retire(&self, version: u64, next_batch: u64) {
        let covered: Vec<_> =
            self.inner.lock().old.extract_if(.., |journal| journal.is_covered(version, next_batch)).collect();
        for journal in covered {
            self.remove(&journal.path);
        }
    }

    /// Bytes of all journal files.
    pub fn bytes(&self) -> u64 {
        self.inner.lock().active.as_ref().map_or(0, |active| active.allocated_bytes)
    }

    fn remove(&self, path: &Path) {
        if let Err(error) = self.files.vfs.remove(path) {
            tracing::warn!(path = %path.display(), %error, "cannot remove a journal file");
        }
    }
}
