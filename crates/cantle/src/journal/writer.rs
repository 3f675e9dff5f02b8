//! Appending to the journal: reserve space, then write the record.

use super::file::{Active, OldJournal};
use super::group::PATIENCE_MAX;
use super::record::JournalRecord;
use crate::files::Files;
use crate::format::limits::{RECORD_BYTES_MAX, check_record};
use crate::records::{encode_record, record_bytes_max};
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::waits::{self, Cause};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use std::time::Duration;

/// A position in the order of journal records, within one opening of the store.
pub type Lsn = u64;

/// Growth step of journal files in bytes. A step is allocated on disk before it is used.
pub(super) const STEP_BYTES: u64 = 1 << 20;
/// A step is at most this part of the free space, but not less than `STEP_BYTES_MIN`.
const STEP_FRACTION: u64 = 64;
const STEP_BYTES_MIN: u64 = 16 << 10;

/// The journal of an open store.
pub struct Journal {
    pub(super) files: Arc<Files>,
    pub(super) inner: Mutex<Inner>,
    pub(super) synced: Condvar,
    /// Signalled when as many records are enqueued as the gathering thread waits for.
    pub(super) gathered: Condvar,
    pub syncs: AtomicU64,
    pub writes: AtomicU64,
    /// The longest payload that readers accept.
    pub(super) record_bytes_max: u64,
    /// Maximum wait of a group for returning writers.
    pub(super) patience_max: Duration,
}

#[derive(Default)]
pub(super) struct Inner {
    pub active: Option<Active>,
    pub old: Vec<OldJournal>,
    /// Records that wait for the next group.
    pub buffer: Vec<u8>,
    /// Bytes reserved for writers that have not enqueued yet.
    pub reserved_bytes: u64,
    pub enqueued: Lsn,
    pub durable: Lsn,
    /// True while a thread gathers, writes or syncs a group with the lock released.
    pub busy: bool,
    /// Number of records in the last group, plus those enqueued during its sync: about as many
    /// writers are expected for the next group.
    pub writers: u64,
    /// Duration of the last sync, its write included.
    pub sync_time: Duration,
    pub failed: Option<Error>,
}

impl Inner {
    pub fn retire_active(&mut self, next: Option<Active>) {
        if let Some(Active { id, path, max_version, max_batch, .. }) =
            std::mem::replace(&mut self.active, next)
        {
            self.old.push(OldJournal { id, path, max_version, max_batch });
        }
    }
}

impl Journal {
    pub fn new(files: Arc<Files>, old: Vec<OldJournal>) -> Self {
        Self {
            files,
            inner: Mutex::new(Inner { old, ..Inner::default() }),
            synced: Condvar::new(),
            gathered: Condvar::new(),
            syncs: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            record_bytes_max: RECORD_BYTES_MAX,
            patience_max: PATIENCE_MAX,
        }
    }

    /// Makes sure that a record of `payload_bytes` will find space. A reservation is used by
    /// exactly one `commit` or `enqueue`, or released when it is dropped. Refuses a record that
    /// readers would not accept.
    pub fn reserve(&self, payload_bytes: usize) -> Result<Reservation<'_>> {
        let limit = self.record_bytes_max;
        check_record("a write", payload_bytes, limit)?;
        let bytes = record_bytes_max(payload_bytes) as u64;
        let mut inner = waits::lock(&self.inner);
        if let Some(error) = &inner.failed {
            return Err(error.clone());
        }
        if inner.active.is_none() {
            inner.active = Some(waits::timed(Cause::Allocation, || self.create())?);
        }
        let waiting = inner.buffer.len() as u64 + inner.reserved_bytes;
        let Some(active) = &mut inner.active else { return Err(Error::Closed) };
        active.reserve(active.len + waiting + bytes, || self.step_bytes())?;
        inner.reserved_bytes += bytes;
        Ok(Reservation { journal: self, bytes })
    }

    /// Growth step in bytes: when the disk fills up, a small part of the free space.
    pub(super) fn step_bytes(&self) -> u64 {
        let available = self.files.vfs.available_bytes(&self.files.dir).unwrap_or(u64::MAX);
        (available / STEP_FRACTION).clamp(STEP_BYTES_MIN, STEP_BYTES).next_power_of_two()
    }

    /// Writes a batch's commit record: once this returns, the batch survives the end of the process.
    pub fn commit(
        &self,
        reservation: Reservation<'_>,
        batch: u64,
        version: u64,
    ) -> std::result::Result<(), Uncommitted> {
        let mut payload = Vec::with_capacity(24);
        JournalRecord::encode_commit(&mut payload, batch, version);
        let mut inner = self.lock_idle();
        drop_reservation(reservation, &mut inner);
        let Inner { active, buffer, .. } = &mut *inner;
        let Some(active) = active else { return Err(Uncommitted::Surely(Error::Closed)) };
        if !buffer.is_empty() {
            // Records in the buffer come before this one. Writers that wait for them sync them.
            let written = active.file.write_at(buffer, active.len);
            written.map_err(|e| Uncommitted::Surely(Error::io(Attempt::Append, &active.path, e)))?;
            active.len += buffer.len() as u64;
            buffer.clear();
        }
        let mut bytes = Vec::new();
        encode_record(&active.header, active.len, (0, payload.len()), &mut bytes, |out| {
            out.extend_from_slice(&payload)
        });
        if let Err(error) = active.file.write_at(&bytes, active.len) {
            let error = Error::io(Attempt::Append, &active.path, error);
            // Erases the partial record, as the next record goes to the same place.
            let erased = active.file.write_at(&vec![0; bytes.len()], active.len);
            return Err(match erased {
                Ok(()) => Uncommitted::Surely(error),
                Err(_) => Uncommitted::Perhaps(error),
            });
        }
        active.len += bytes.len() as u64;
        active.max_version = active.max_version.max(version);
        active.max_batch = active.max_batch.max(batch);
        Ok(())
    }

    /// Appends a write to the buffer and returns its position in the order of records. Call it
    /// under the locks that order the write among others of its keys; `wait` for it after they are
    /// released.
    pub fn enqueue<'a>(
        &self,
        reservation: Reservation<'_>,
        batch: u64,
        version: u64,
        ops: impl ExactSizeIterator<Item = (u32, Kind, &'a [u8], &'a [u8])>,
    ) -> Result<Lsn> {
        let mut inner = waits::lock(&self.inner);
        drop_reservation(reservation, &mut inner);
        if let Some(error) = &inner.failed {
            return Err(error.clone());
        }
        let Inner { active, buffer, enqueued, durable, writers, busy, .. } = &mut *inner;
        let Some(active) = active else { return Err(Error::Closed) };
        let offset = active.len + buffer.len() as u64;
        let mut payload = Vec::new();
        let head = JournalRecord::encode_write(&mut payload, batch, version, active.durable_bytes, ops);
        encode_record(&active.header, offset, (head, payload.len()), buffer, |out| {
            out.extend_from_slice(&payload)
        });
        active.max_version = active.max_version.max(version);
        active.max_batch = active.max_batch.max(batch);
        *enqueued += 1;
        self.writes.fetch_add(1, Relaxed);
        if *busy && *enqueued == *durable + *writers {
            self.gathered.notify_one();
        }
        Ok(*enqueued)
    }

    /// As `lock_idle`, unless a sync has failed.
    pub(super) fn lock_sound(&self) -> Result<MutexGuard<'_, Inner>> {
        let inner = self.lock_idle();
        match &inner.failed {
            Some(error) => Err(error.clone()),
            None => Ok(inner),
        }
    }

    pub(super) fn lock_idle(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        while inner.busy {
            self.synced.wait(&mut inner);
        }
        inner
    }
}

/// The error of a commit record that could not be written.
#[derive(Debug)]
pub enum Uncommitted {
    /// The record is not in the file.
    Surely(Error),
    /// The record may be in the file, so all of the batch must stay where it is: if the record is
    /// found, the batch counts.
    Perhaps(Error),
}

/// Space for one record.
#[must_use]
pub struct Reservation<'a> {
    journal: &'a Journal,
    bytes: u64,
}

fn drop_reservation(reservation: Reservation<'_>, inner: &mut Inner) {
    inner.reserved_bytes -= reservation.bytes;
    std::mem::forget(reservation);
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.journal.inner.lock().reserved_bytes -= self.bytes;
    }
}
