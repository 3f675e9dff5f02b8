//! The interface of layouts: one trait, [`Layout`], that each of the published designs implements.
//!
//! A write goes through a layout in steps. A write that touches several logs, keyspaces or layouts
//! thus has one commit point:
//!
//! * *prepare* takes the locks that order the write, and makes room for it. Then the write is
//!   announced and gets its version;
//! * *append* writes it to every log. Then the journal commits it;
//! * *publish* makes it readable. Then the commit cell makes all of it visible at once;
//! * *index* does the work that is due under the locks, and releases them;
//! * *after unlock* runs once the locks of all keyspaces are released, and may wait for locks
//!   again.
//!
//! Between announcement and publication a write does not wait for space, syncs or back-pressure.
//!
//! # Transactions
//!
//! A transaction reads at a snapshot and writes when it is committed. Its [read set](ReadSet) is
//! *prepared* together with its writes: the preparation also holds the locks of the keys read, so
//! none of them changes until the preparation is dropped. Between preparation and announcement the
//! transaction is *validated*: if something in the read set has changed since the snapshot
//! ([`PreparedWrite::conflict_since`]), the transaction fails. Otherwise its reads count as made at
//! this moment.
//!
//! Reads and writes of a transaction thus happen at one moment, that of its commit: gets, writes
//! and other transactions have an order in which each happened alone. For snapshots the order is
//! that of versions, and the two must agree. Let a transaction *T* read something that a write *W*
//! overwrites: *T* comes first, and a snapshot that sees *W* must see *T*. It does if the version
//! of *T* is not above that of *W*. *W* cannot be prepared while *T* is. Either *W* was prepared
//! before, and *T*'s validation finds it; or *W* is prepared after *T* was dropped. In this case
//! *W* takes its version after *T* did, from a clock that does not go back. Hence *T* may be
//! validated before it is announced, and should be: validation may read files for long, and an
//! announced write must not. (If a layout does not hold locks on the read set, a transaction has to
//! be announced first. Otherwise *W* could take its version between *T*'s validation and *T*'s
//! announcement, and a snapshot between the two would see *W* alone.)

pub mod factory;
mod flsm_options;
mod forest_options;
pub mod kind;
pub mod options;
pub mod stats;
pub mod verify;
pub mod written_rows;

use crate::fetch::{Together, Unfetched};
use crate::format::bounds::encode_bounds;
use crate::log::op::record::OP_BYTES_MAX;
use crate::mvcc::{CommitCell, KeySpan, SnapshotGuard};
use crate::records::record_bytes_max;
use crate::run::walk::{Areas, Walk};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::Result;
use bytes::Bytes;
use options::Settings;
use stats::{KeyspaceStats, RegionInfo, Report};
use std::any::Any;

/// One operation of a write. It borrows the writer's bytes: a layout copies them once, to their
/// final place.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    pub kind: Kind,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The range that a range delete deletes; `None` for other operations.
    pub bounds: Option<&'a Bounds>,
}

impl<'a> Op<'a> {
    pub fn put(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { kind: Kind::Put, key, value, bounds: None }
    }

    pub fn delete(key: &'a [u8]) -> Self {
        Self { kind: Kind::Delete, key, value: &[], bounds: None }
    }

    pub fn delete_range(bounds: &'a Bounds) -> Self {
        Self { kind: Kind::DeleteRange, key: &[], value: &[], bounds: Some(bounds) }
    }

    /// Length of the key plus that of the value.
    pub fn user_bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }

    /// Maximum length of its record in a log.
    pub fn logged_bytes_max(&self) -> u64 {
        let bounds = self.bounds.map_or(0, |bounds| encode_bounds(bounds).len());
        record_bytes_max(OP_BYTES_MAX + self.key.len() + self.value.len() + bounds) as u64
    }
}

/// The version and the batch number of an announced write.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    pub version: u64,
    /// The number of the spanning batch; 0 if the write touches only one log.
    pub batch: u64,
}

/// Keys and ranges of a keyspace that a transaction has read. They must not change between its
/// snapshot and its commit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Keys that were looked up, whether found or not. Ascending.
    pub keys: Vec<Bytes>,
    /// Ranges that were walked. Ascending, not empty, and disjoint.
    pub spans: Vec<Bounds>,
}

impl ReadSet {
    /// The read set of a plain write.
    pub const NONE: &'static Self = {
        static NONE: ReadSet = ReadSet { keys: Vec::new(), spans: Vec::new() };
        &NONE
    };

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }
}

/// A write that holds the locks of its keys, and of the keys that its transaction has read.
pub trait PreparedWrite {
    /// A place in the read set that has changed since the snapshot with this version; `None` if
    /// nothing has. Call it before the write is announced.
    ///
    /// A change is a committed entry, delete or range delete with a greater version. The snapshot
    /// must still be open: every merge keeps the entries that it sees, and hence also the entries
    /// that hide them now, deletes included. If the snapshot does *not* see a key, a merge may drop
    /// a later put together with a later delete. The key is then absent as before, and for a reader
    /// of values nothing has changed.
    fn conflict_since(&self, version: u64) -> Result<Option<Bounds>>;
    /// Number of logs and manifest edits that the write will be written to. More than one need a
    /// commit record.
    fn logs(&self) -> usize;
    /// The keys that the write covers, for snapshots that wait for it.
    fn span(&self) -> KeySpan;
    /// Appends the write, not visible yet. After an error call `revoke`.
    fn append(&mut self, stamp: Stamp) -> Result<()>;
    /// Undoes the append, so that no later opening finds the write: truncates a log of its own, or
    /// appends to a shared log a record that voids it. If neither is possible, the store turns
    /// read-only.
    fn revoke(&mut self);
    /// Makes the write readable, once `cell` (if any) is committed.
    fn publish(&mut self, cell: Option<&CommitCell>);
    /// Does the work that is due after the write is no longer announced and before its locks are
    /// released, such as indexing a part of a log. Then releases the locks.
    fn index(&mut self);
    /// Does the work that may wait for locks again. Called after all locks of the write are
    /// released, in its other keyspaces too.
    fn after_unlock(&mut self);
}

/// Walks the pairs that a snapshot sees. Every movement returns true if there is a pair at the new
/// position.
pub trait PairCursor: Send {
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    fn seek_to_first(&mut self) -> Result<bool>;
    fn seek_to_last(&mut self) -> Result<bool>;
    fn next(&mut self) -> Result<bool>;
    fn prev(&mut self) -> Result<bool>;
    /// The key and the value at the cursor's position, borrowed.
    fn pair(&self) -> Option<(&[u8], &[u8])>;
    /// The same pair, owned. It pins nothing but the record or the block that it is in.
    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.pair().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
    }
}

impl<A: Areas<Area: Send> + Send> PairCursor for Walk<A> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_forward(Some(key), false)
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_forward(None, false)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.seek_back(None)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        Walk::next(self)
    }

    fn prev(&mut self) -> Result<bool> {
        Walk::prev(self)
    }

    #[inline]
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        Walk::pair(self)
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        Walk::owned_pair(self)
    }
}

/// Distance by which a keyspace's background work lags behind its writers. The store brakes by the
/// greatest pressure of its keyspaces.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// 0 if maintenance keeps up, 1 if writers must be as slow as maintenance.
    pub overload: f64,
    /// Bytes of disk space that maintenance frees per second.
    pub freed_bytes_per_second: f64,
}

/// The result of a validation without locks.
pub struct Validated {
    /// A place in the read set that has changed, if one was found.
    pub conflict: Option<Bounds>,
    /// The version as of which the whole read set is known to be unchanged. It is the version of an
    /// open snapshot: the transaction's, or `_snapshot`.
    pub since: u64,
    /// Held until the write is prepared and `conflict_since` has checked the newer versions.
    pub _snapshot: Option<SnapshotGuard>,
}

/// The occasion of maintenance at an opening or a closing. A process may live too briefly for
/// background maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Leaves to closings the work that they do, but does it for a store whose process was killed
    /// before it could close.
    Opening,
    Closing,
}

/// Limits on the maintenance of one opening or closing, over all keyspaces.
#[derive(Debug, Clone, Copy)]
pub struct Upkeep {
    pub moment: Moment,
    /// Bytes that may still be read and written. A file that is many times over its bound is merged
    /// in any case.
    pub bytes: u64,
    /// Bytes of logs that may still be sorted into compressed tables.
    pub compressed_bytes: u64,
}

impl Upkeep {
    /// Bytes that an opening or closing reads and writes at most: about 10 ms of work.
    const BYTES: u64 = 2 << 20;
    /// Bytes that a closing sorts into compressed tables at most: some 50 ms of reading and
    /// compressing with LZ4. An opening compresses nothing, as maintenance does it soon after.
    const COMPRESSED_BYTES: u64 = 16 << 20;

    pub fn of(moment: Moment) -> Self {
        let compressed_bytes = match moment {
            Moment::Opening => 0,
            Moment::Closing => Self::COMPRESSED_BYTES,
        };
        Self { moment, bytes: Self::BYTES, compressed_bytes }
    }
}

/// A keyspace in one of the designs.
///
/// `Any` is a supertrait so that a layout's own tests get the concrete type back.
pub trait Layout: Any + Send + Sync {
    /// The newest value of `key` at or below version `at`.
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>>;
    /// Calls `read` with that value, without a copy if the value lies in memory; false if there is
    /// none.
    fn get_with(&self, key: &[u8], at: u64, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.get(key, at)?;
        Ok(value.map(|value| read(&value)).is_some())
    }
    /// As `get`, for one of many keys whose reads are made together. After [`Unfetched::Requested`] it is
    /// called again, with the same version.
    fn get_together(&self, key: &[u8], at: u64, fetch: &Together) -> Result<Option<Bytes>, Unfetched> {
        let _ = fetch;
        Ok(self.get(key, at)?)
    }
    /// The pairs within `bounds` that `snapshot` sees.
    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor>;
    /// Looks for changes of the read set since version `since`, before any lock is taken.
    /// [`PreparedWrite::conflict_since`] then checks only the versions above [`Validated::since`].
    /// A layout whose locks cover few keys need not do anything here.
    fn validate(&self, _reads: &ReadSet, since: u64) -> Result<Validated> {
        Ok(Validated { conflict: None, since, _snapshot: None })
    }
    /// Begins a write of these operations, which take effect in their order. Range deletes apart,
    /// no two concern the same key. `reads` is the transaction's read set in this keyspace. Either
    /// may be empty.
    fn prepare<'a>(&'a self, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>>;
    /// Approximate bytes on disk of the keys within the bounds.
    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64>;
    /// Sorts and cleans the files that overlap the bounds, now.
    fn compact(&self, bounds: &Bounds) -> Result<()>;
    /// Replaces the settings, from the next maintenance on.
    fn set_options(&self, settings: Settings);
    fn stats(&self) -> KeyspaceStats;
    /// The key ranges that the layout manages, in order.
    fn regions(&self) -> Vec<RegionInfo>;
    /// Reads and checks all files, and adds to `report`.
    fn verify(&self, report: &mut Report);
    /// Called every few milliseconds. Starts the maintenance that is due.
    fn tick(&self);
    /// Number of accesses since opening. A keyspace whose number does not change is idle, unless it
    /// is busy.
    fn accesses(&self) -> u64;
    /// True while maintenance runs or is due.
    fn is_busy(&self) -> bool;
    /// The pressure at present. Called after each tick.
    fn pressure(&self) -> Pressure;
    /// Does the maintenance of an opening or a closing; true if files were replaced. Subtracts the
    /// work from `upkeep`.
    fn tidy(&self, _upkeep: &mut Upkeep) -> bool {
        false
    }
    /// Before closing: writes the state that the next opening would otherwise have to compute
    /// again.
    fn before_close(&self) -> Result<()>;
    /// The keyspace was dropped for good: from here on nothing is written, and nothing is appended
    /// to the manifest. Waits for work that is under way.
    fn retire(&self);
    /// The keyspace is gone: releases its references to files. Reads of older snapshots may go on.
    fn release(&self);
}
