//! Group commit: one sync serves all writers that wait.

use super::file::Active;
use super::writer::{Inner, Journal, Lsn, STEP_BYTES};
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::types::error::{Attempt, Error, Result};
use std::time::Duration;

/// A group waits for those who will come again for no longer than this part of what the last sync took,
const PATIENCE_FRACTION: u32 = 4;
/// and not at all where that is less than this, as who sleeps may be woken 50 µs late (the timer's slack),
const PATIENCE_MIN: Duration = Duration::from_micros(20);
/// or longer than this.
const PATIENCE_MAX: Duration = Duration::from_millis(5);

impl Journal {
    /// Waits until the record is durable. Whoever comes first syncs for all that are enqueued by then, those who
    /// were in the last group and come again at once included.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        let mut inner = self.inner.lock();
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

    /// Waits for as many writers as there were lately. Without it two groups take turns: those whose group was just
    /// synced come back a moment after the next has begun with the others only, and each sync serves half of them.
    fn gather<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let patience = (inner.sync_time / PATIENCE_FRACTION).min(PATIENCE_MAX);
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

    /// Waits until everything that is enqueued now is durable. Who rewrites records of logs without the numbers
    /// of their batches must wait for their commits first: else a batch that died would live on in part.
    pub fn wait_durable(&self) -> Result<()> {
        let enqueued = self.inner.lock().enqueued;
        self.wait(enqueued)
    }

    /// Writes and syncs what is in the buffer, without holding the lock meanwhile. A failure is final.
    pub(super) fn sync_group<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.sync_group_and_begin(None, inner)
    }

    /// As `sync_group`; records that come from here on go to the file `next`, if one is given.
    pub(super) fn sync_group_and_begin<'a>(
        &'a self,
        next: Option<Active>,
        mut inner: MutexGuard<'a, Inner>,
    ) -> MutexGuard<'a, Inner> {
        let group = inner.enqueued;
        let bytes = std::mem::take(&mut inner.buffer);
        let Some(active) = &mut inner.active else { return inner };
        let (id, file, path, offset) = (active.id, active.file.clone(), active.path.clone(), active.len);
        // Later records are placed behind this group.
        active.len += bytes.len() as u64;
        let end = active.len;
        if next.is_some() {
            inner.retire_active(next);
        }
        inner.busy = true;
        drop(inner);
        let begun = now();
        // Those of the group may be written already, beside a commit.
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
