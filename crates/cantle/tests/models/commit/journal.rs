//! The journal in the model of commits: the order of steps of `journal/writer.rs`, `group.rs` and
//! `rotation.rs`. Records are not bytes, and all are in one file.

use crate::format::bounds::decode_bounds;
use crate::format::codec::Decoder;
use crate::model::disk::{Change, Disk, PLACES, id_of};
use crate::model::substrate::failure;
use crate::model::{Fault, one_in};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use shuttle::sync::Condvar;
use std::ops::RangeBounds;

pub type Lsn = u64;

/// After a failed sync the store writes nothing more.
const SYNCS_PER_FAILURE: usize = 32;

#[derive(Debug, Clone, Copy)]
pub struct JournalRecord {
    pub version: u64,
    pub batch: u64,
    /// The write, if the record carries its operations.
    pub write: Option<(usize, Change)>,
}

impl JournalRecord {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn batch(&self) -> u64 {
        self.batch
    }
}

pub struct Journal {
    disk: Arc<Disk>,
    inner: Mutex<Inner>,
    synced: Condvar,
    fault: Fault,
}

#[derive(Default)]
struct Inner {
    /// Records that wait for the next group.
    buffer: Vec<JournalRecord>,
    enqueued: Lsn,
    durable: Lsn,
    /// True while a thread writes or syncs a group with the lock released.
    busy: bool,
    max_batch: u64,
    failed: Option<Error>,
}

/// Nothing is counted.
pub struct Reservation<'a> {
    _journal: &'a Journal,
}

#[derive(Debug)]
pub enum Uncommitted {
    Surely(Error),
    Perhaps(Error),
}

impl Journal {
    pub fn new(disk: Arc<Disk>, fault: Fault) -> Self {
        Self { disk, inner: Mutex::default(), synced: Condvar::new(), fault }
    }

    pub fn reserve(&self, _: usize) -> Result<Reservation<'_>> {
        self.inner.lock().failed.clone().map_or(Ok(()), Err)?;
        if one_in(24) {
            return Err(failure(Attempt::Allocate));
        }
        Ok(Reservation { _journal: self })
    }

    pub fn commit(&self, _: Reservation<'_>, batch: u64, version: u64) -> Result<(), Uncommitted> {
        let mut inner = self.lock_idle();
        if !inner.buffer.is_empty() {
            self.disk.write_journal(std::mem::take(&mut inner.buffer));
        }
        let record = JournalRecord { version, batch, write: None };
        if one_in(16) {
            return Err(Uncommitted::Surely(failure(Attempt::Append)));
        }
        if one_in(24) {
            if one_in(2) {
                self.disk.write_journal(vec![record]);
            }
            return Err(Uncommitted::Perhaps(failure(Attempt::Append)));
        }
        self.disk.write_journal(vec![record]);
        inner.max_batch = inner.max_batch.max(batch);
        Ok(())
    }

    pub fn enqueue<'a>(
        &self,
        _: Reservation<'_>,
        batch: u64,
        version: u64,
        ops: impl ExactSizeIterator<Item = (u32, Kind, &'a [u8], &'a [u8])>,
    ) -> Result<Lsn> {
        let mut inner = self.inner.lock();
        if let Some(error) = &inner.failed {
            return Err(error.clone());
        }
        let record = JournalRecord { version, batch, write: Some(read_ops(ops)) };
        let is_first = self.fault == Fault::SwapsRecords;
        let at = if is_first { 0 } else { inner.buffer.len() };
        inner.buffer.insert(at, record);
        inner.max_batch = inner.max_batch.max(batch);
        inner.enqueued += 1;
        Ok(inner.enqueued)
    }

    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        if self.fault == Fault::DoesNotWait {
            return Ok(());
        }
        let mut inner = self.inner.lock();
        loop {
            if inner.durable >= lsn {
                return Ok(());
            }
            if let Some(error) = &inner.failed {
                return Err(error.clone());
            }
            inner = if inner.busy { self.wait_for_group(inner) } else { self.sync_group(inner) };
        }
    }

    fn wait_for_group<'a>(&self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.synced.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn sync_group<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let group = inner.enqueued;
        let records = std::mem::take(&mut inner.buffer);
        inner.busy = true;
        drop(inner);
        if !records.is_empty() {
            self.disk.write_journal(records);
        }
        let fails = one_in(SYNCS_PER_FAILURE);
        if !fails {
            self.disk.sync_journal();
        }
        let mut inner = self.inner.lock();
        inner.busy = false;
        if fails {
            inner.failed = Some(failure(Attempt::Sync));
        } else {
            inner.durable = group;
        }
        self.synced.notify_all();
        inner
    }

    fn lock_idle(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        while inner.busy {
            inner = self.wait_for_group(inner);
        }
        inner
    }

    /// Every file may be retired at any time: the records that a checkpoint covers go one by one.
    pub fn rotate(&self, next_batch: u64) -> Result<()> {
        let mut inner = self.lock_idle();
        inner.failed.clone().map_or(Ok(()), Err)?;
        if inner.max_batch >= next_batch {
            inner = self.sync_group(inner);
        }
        inner.failed.clone().map_or(Ok(()), Err)
    }

    pub fn first_needed(&self, _: u64, _: u64) -> u64 {
        0
    }

    pub fn retire(&self, version: u64, next_batch: u64) {
        self.disk.retire_journal(version, next_batch);
    }
}

/// The write that these operations are of, and what it changes.
fn read_ops<'a>(ops: impl Iterator<Item = (u32, Kind, &'a [u8], &'a [u8])>) -> (usize, Change) {
    let mut write = 0;
    let mut change = Change { places: 0, deletes: false };
    for (keyspace, kind, key, value) in ops {
        let bounds = (kind == Kind::DeleteRange).then(|| decoded(value));
        write = match &bounds {
            Some(bounds) => id_of(bounds),
            None => value.try_into().map_or(0, usize::from_be_bytes),
        };
        change.deletes = bounds.is_some();
        for (index, place) in PLACES.iter().enumerate().filter(|(_, place)| place.keyspace == keyspace) {
            let is_in = bounds.as_ref().map_or(place.key == key, |bounds| contains(bounds, place.key));
            change.places |= u8::from(is_in) << index;
        }
    }
    (write, change)
}

fn decoded(value: &[u8]) -> Bounds {
    decode_bounds(&mut Decoder::new(value))
        .unwrap_or_else(|error| panic!("bounds in the journal: {}", error.0))
}

fn contains(bounds: &Bounds, key: &[u8]) -> bool {
    let slices = (bounds.start.as_ref().map(Vec::as_slice), bounds.end.as_ref().map(Vec::as_slice));
    RangeBounds::<[u8]>::contains(&slices, key)
}
