//! Group commit: one sync serves all writers that wait.

use super::file::Active;
use super::writer::{Inner, Journal, Lsn, STEP_BYTES};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::sync::waits::{self, Cause};
use crate::types::error::{Attempt, Error, Result};
use std::time::Duration;

/// Maximum wait of a group for returning writers: the time of the last sync divided by this.
const PATIENCE_FRACTION: u32 = 4;
/// A group does not wait if that time is shorter than this: a sleeping thread may wake 50 µs
/// late (the timer's slack).
const PATIENCE_MIN: Duration = Duration::from_micros(20);
/// Maximum wait of a group for returning writers in any case.
pub(super) const PATIENCE_MAX: Duration = Duration::from_millis(5);

impl Journal {
    /// Waits until the record is durable. The first thread to arrive syncs for all records that are
    /// enqueued by then. It first waits a moment for the writers of the last group, in case they
    /// write again at once.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        let inner = waits::lock(&self.inner);
        if inner.durable >= lsn {
            return Ok(());
        }
        waits::timed(Cause::Device, || self.wait_from(inner, lsn))
    }

    fn wait_from<'a>(&'a self, mut inner: MutexGuard<'a, Inner>, lsn: Lsn) -> Result<()> {
        loop {
            if inner.durable >= lsn {
                return Ok(());
            }
            if let Some(error) = &inner.failed {
                return Err(error.clone());
            }
            if inner.busy {
                self.synced.wait(&mut inner);
            } else {
                inner = self.gather(inner);
                inner = self.sync_group(inner);
            }
        }
    }

    /// Waits until as many writers have enqueued as were in the last group. Otherwise two groups
    /// would alternate: writers whose group was just synced return shortly after the next sync has
    /// begun, and each sync serves half of the writers.
    fn gather<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let patience = (inner.sync_time / PATIENCE_FRACTION).min(self.patience_max);
        let awaited = inner.durable + inner.writers;
        if patience < PATIENCE_MIN || inner.enqueued >= awaited {
            return inner;
        }
        let until = now() + patience;
        inner.busy = true;
        while inner.enqueued < awaited && !self.gathered.wait_until(&mut inner, until).timed_out() {}
        inner.busy = false;
        inner
    }

    /// Waits until everything that is enqueued now is durable. Code that rewrites log records
    /// without their batch numbers must call this first, to wait for the commits of these batches:
    /// otherwise an uncommitted batch would survive in part.
    pub fn wait_durable(&self) -> Result<()> {
        let enqueued = self.inner.lock().enqueued;
        self.wait(enqueued)
    }

    /// Writes and syncs the buffer, with the lock released meanwhile. A failure is final.
    pub(super) fn sync_group<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.sync_group_and_begin(None, inner)
    }

    /// As `sync_group`. Later records go to the file `next`, if one is given.
    pub(super) fn sync_group_and_begin<'a>(
        &'a self,
        next: Option<Active>,
        mut inner: MutexGuard<'a, Inner>,
    ) -> MutexGuard<'a, Inner> {
        let group = inner.enqueued;
        let bytes = std::mem::take(&mut inner.buffer);
        let Some(active) = &mut inner.active else { return inner };
        let (id, file, path, offset) = (active.id, active.file.clone(), active.path.clone(), active.len);
        // Later records are placed after this group.
        active.len += bytes.len() as u64;
        let end = active.len;
        if next.is_some() {
            inner.retire_active(next);
        }
        inner.busy = true;
        drop(inner);
        let begun = now();
        // The group's records may be written already, together with a commit record.
        let written = if bytes.is_empty() { Ok(()) } else { file.write_at(&bytes, offset) };
        let done = written.map_err(|e| Error::io(Attempt::Append, &path, e)).and_then(|()| {
            let synced = canary!(UNSYNCED_JOURNAL else file.sync_data());
            synced.map_err(|e| Error::io(Attempt::Sync, &path, e))
        });
        let sync_time = begun.elapsed();
        self.syncs.fetch_add(1, Relaxed);
        let mut inner = self.inner.lock();
        inner.busy = false;
        inner.writers = inner.enqueued - inner.durable;
        inner.sync_time = sync_time;
        match done {
            Ok(()) => {
                inner.durable = group;
                if let Some(active) = inner.active.as_mut().filter(|active| active.id == id) {
                    active.durable_bytes = end;
                }
                // The vector's memory serves the next group.
                if inner.buffer.is_empty() && bytes.capacity() <= STEP_BYTES as usize {
                    inner.buffer = bytes;
                    inner.buffer.clear();
                }
            }
            Err(error) => inner.failed = Some(error),
        }
        self.synced.notify_all();
        inner
    }
}
