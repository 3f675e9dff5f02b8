//! The layout in the model of commits: two keyspaces over three logs, with the steps of a prepared
//! write in the order of `chunk/write.rs` and `chunk/chunk_write.rs`.
//!
//! An append goes to the end of what was published: after a write that failed or is in doubt, the
//! next one overwrites it.

use crate::db::store::Store;
use crate::log::DirtyLog;
use crate::manifest::SegmentEdit;
use crate::model::disk::{Change, Disk, LOGS, PLACES, Record};
use crate::model::substrate::failure;
use crate::model::{Fault, one_in};
use crate::mvcc::{CommitCell, KeySpan};
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::Ordering::AcqRel;
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Result};
use crate::types::order::KeyOrder;

/// The library's operation (`layout/mod.rs`).
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    pub kind: Kind,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub bounds: Option<&'a Bounds>,
}

impl Op<'_> {
    pub fn user_bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    pub version: u64,
    pub batch: u64,
}

/// The part of the library's interface that a commit uses (`layout/mod.rs`).
pub trait PreparedWrite {
    fn logs(&self) -> usize;
    fn span(&self) -> KeySpan;
    fn append(&mut self, stamp: Stamp) -> Result<()>;
    fn revoke(&mut self);
    fn publish(&mut self, cell: Option<&CommitCell>);
    fn index(&mut self);
    fn after_unlock(&mut self);
}

#[derive(Clone)]
pub struct Entry {
    pub write: usize,
    pub version: u64,
    pub places: u8,
    cell: Option<CommitCell>,
}

pub struct Log {
    index: usize,
    disk: Arc<Disk>,
    /// The number of published records.
    writer: Mutex<usize>,
    /// The index in memory, in the order of writing.
    entries: Mutex<Vec<Entry>>,
    /// The published length.
    len: Mutex<usize>,
    dirty: AtomicBool,
}

impl Log {
    pub fn new(index: usize, disk: Arc<Disk>) -> Self {
        Self {
            index,
            disk,
            writer: Mutex::new(0),
            entries: Mutex::default(),
            len: Mutex::new(0),
            dirty: AtomicBool::new(false),
        }
    }

    /// The entries that a reader at this version sees, the oldest first.
    pub fn visible(&self, at: u64) -> Vec<Entry> {
        let entries = self.entries.lock().clone();
        let is_visible =
            |entry: &Entry| entry.version <= at && entry.cell.as_ref().is_none_or(CommitCell::is_committed);
        entries.into_iter().filter(is_visible).collect()
    }
}

impl DirtyLog for Log {
    fn sync(&self) -> Result<SegmentEdit> {
        self.dirty.swap(false, AcqRel);
        let len = *self.len.lock() as u64;
        self.disk.sync_log(self.index);
        Ok(SegmentEdit { file: self.index as u64, len })
    }

    fn is_obsolete(&self) -> bool {
        false
    }
}

struct Unit<'a> {
    log: &'a Arc<Log>,
    end: MutexGuard<'a, usize>,
    places: u8,
}

/// The part of a write in one keyspace.
pub struct Write<'a> {
    store: &'a Store,
    write: usize,
    change: Change,
    units: Vec<Unit<'a>>,
    stamp: Stamp,
    cell: Option<CommitCell>,
    is_appended: bool,
    is_revoked: bool,
    /// The logs keep the write, although it failed.
    is_left_behind: bool,
    is_published: bool,
}

impl<'a> Write<'a> {
    /// Locks the logs, in their order.
    pub fn prepare(store: &'a Store, keyspace: u32, write: usize, change: Change) -> Self {
        let places_of = |log: usize| {
            let is_of = |index: &usize| PLACES[*index].keyspace == keyspace && PLACES[*index].log == log;
            (0..PLACES.len()).filter(is_of).fold(0, |places, index| places | (1 << index)) & change.places
        };
        let units = (0..LOGS).map(|log| (log, places_of(log))).filter(|(_, places)| *places != 0);
        let lock = |(log, places): (usize, u8)| {
            let log: &Arc<Log> = &store.logs[log];
            Unit { log, end: log.writer.lock(), places }
        };
        Self {
            store,
            write,
            change,
            units: units.map(lock).collect(),
            stamp: Stamp { version: 0, batch: 0 },
            cell: None,
            is_appended: false,
            is_revoked: false,
            is_left_behind: false,
            is_published: false,
        }
    }

    /// True if the write was appended, and nobody knows what will become of it.
    pub fn is_doubtful(&self) -> bool {
        self.is_left_behind || (self.is_appended && !self.is_revoked && !self.is_published)
    }

    fn show(&self) {
        for unit in &self.units {
            let mut places: Vec<u8> = (0..PLACES.len())
                .map(|index| unit.places & (1 << index))
                .filter(|place| *place != 0)
                .collect();
            if self.change.deletes {
                places = vec![unit.places]; // one entry
            }
            for places in places {
                let (write, version) = (self.write, self.stamp.version);
                unit.log.entries.lock().push(Entry { write, version, places, cell: self.cell.clone() });
            }
        }
    }

    fn mark_dirty(&self) {
        for unit in &self.units {
            if !unit.log.dirty.swap(true, AcqRel) {
                self.store.substrate.dirty.add(unit.log.clone());
            }
        }
    }
}

impl PreparedWrite for Write<'_> {
    fn logs(&self) -> usize {
        self.units.len()
    }

    fn span(&self) -> KeySpan {
        if self.store.fault == Fault::SpansTooLittle {
            return KeySpan::EMPTY;
        }
        if self.change.deletes {
            return KeySpan::ALL;
        }
        let places = self.units.iter().fold(0, |places, unit| places | unit.places);
        let of =
            |index: usize| KeyOrder::Bytewise.prefix(PLACES[index].key).map_or(KeySpan::ALL, KeySpan::key);
        let written = (0..PLACES.len()).filter(|index| places & (1 << index) != 0);
        written.map(of).fold(KeySpan::EMPTY, KeySpan::hull)
    }

    fn append(&mut self, stamp: Stamp) -> Result<()> {
        self.stamp = stamp;
        self.is_appended = true;
        for unit in &self.units {
            let record = Record {
                write: self.write,
                version: stamp.version,
                batch: stamp.batch,
                places: unit.places,
                deletes: self.change.deletes,
            };
            // A failed append may leave the record, too.
            let fails = one_in(16);
            if !fails || one_in(2) {
                self.store.disk.append(unit.log.index, *unit.end, record);
            }
            if fails {
                return Err(failure(Attempt::Append));
            }
        }
        if self.store.fault == Fault::ShowsAtAppend {
            self.show();
        }
        Ok(())
    }

    fn revoke(&mut self) {
        self.is_revoked = true;
        if self.store.fault == Fault::DoesNotRevoke {
            return;
        }
        for unit in &self.units {
            if one_in(8) {
                self.is_left_behind = true;
                self.store.substrate.health.fail("a log cannot be truncated".into());
            } else {
                self.store.disk.truncate(unit.log.index, *unit.end, self.write);
            }
        }
    }

    fn publish(&mut self, cell: Option<&CommitCell>) {
        self.cell = cell.cloned();
        if !matches!(self.store.fault, Fault::ShowsAtAppend | Fault::ShowsLate) {
            self.show();
        }
        for unit in &mut self.units {
            *unit.end += 1;
            *unit.log.len.lock() = *unit.end;
        }
        if self.store.fault != Fault::MarksDirtyLate {
            self.mark_dirty();
        }
        self.is_published = true;
    }

    fn index(&mut self) {
        if self.store.fault == Fault::ShowsLate {
            self.show();
        }
        if self.store.fault == Fault::MarksDirtyLate {
            self.mark_dirty();
        }
        self.store.disk.show(self.write);
        self.units.clear();
    }

    fn after_unlock(&mut self) {}
}

impl Drop for Write<'_> {
    /// Runs before the locks go.
    fn drop(&mut self) {
        if self.is_doubtful() && !std::thread::panicking() {
            let is_read_only = self.store.substrate.health.check_sound().is_err();
            assert!(is_read_only, "broken: locks of a batch in doubt go while the store accepts writes");
        }
    }
}
