//! Layouts as the rest of the store sees them: the one trait behind which the published designs stand.
//!
//! A write goes through a layout in steps, so that one that touches several logs, keyspaces or layouts has one
//! commit point: *prepare* takes the locks that order it and makes room; then it is announced and gets its
//! version; *append* writes it everywhere; the journal commits it; *publish* shows it; the commit cell makes all
//! of it visible at once; *index* does what is due before the locks go, as they do then; and once those of every
//! keyspace are gone, *after unlock* does what waits for locks again. Nothing between announcement and publication waits
//! for space, syncs or back-pressure.
//!
//! # Transactions
//!
//! A transaction reads at a snapshot and writes when it is committed. What it [has read](ReadSet) is *prepared*
//! with what it writes: a preparation holds its place in the order of the keys read as well, so nothing of them
//! changes until it is dropped. Between preparation and announcement the transaction is *validated*: if something
//! that it read has changed since its snapshot ([`PreparedWrite::conflict_since`]), it is given up; else its reads
//! are as good as made now.
//!
//! So reads and writes of a transaction happen at one moment, that of its commit, and gets, writes and other
//! transactions find an order in which each happened alone. For snapshots the order is that of versions, which must
//! agree. Let a transaction *T* read what a write *W* overwrites: *T* comes first, and a snapshot that sees *W*
//! must see *T*. It does if the version of *T* is not above that of *W*. *W* cannot be prepared while *T* is:
//! either it was before, and *T*'s validation finds it, or it is prepared once *T* is dropped, and takes its
//! version, which is read from a clock that does not go back, after *T* took its own. Hence *T* may be validated
//! before it is announced, and should be: validation may read files and take its time, which nobody who is
//! announced may. (Where what was read is not held, a transaction has to be announced first. *W* could otherwise
//! take its version between *T*'s validation and *T*'s announcement, and a snapshot between the two would see *W*
//! alone.)

pub mod factory;
pub mod kind;
pub mod options;
pub mod stats;

use crate::mvcc::{CommitCell, KeySpan, SnapshotGuard};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::Result;
use bytes::Bytes;
use options::Settings;
use stats::{KeyspaceStats, RegionInfo, Report};
use std::any::Any;

/// One operation of a write. It borrows the writer's bytes: a layout copies them once, to where they belong.
#[derive(Debug, Clone, Copy)]
pub struct Op<'a> {
    pub kind: Kind,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Of a range delete.
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

    /// The bytes of the key and of the value.
    pub fn user_bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// What an announced write carries.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    pub version: u64,
    /// The number of the spanning batch; 0 if the write touches one log only.
    pub batch: u64,
}

/// What a transaction has read of a keyspace, and what must not change therefore until it is committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Keys that were looked up, found or not: ascending.
    pub keys: Vec<Bytes>,
    /// Ranges that were walked, not empty: ascending, and apart from one another.
    pub spans: Vec<Bounds>,
}

impl ReadSet {
    /// Of a write that is no transaction's.
    pub const NONE: &'static Self = {
        static NONE: ReadSet = ReadSet { keys: Vec::new(), spans: Vec::new() };
        &NONE
    };

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.spans.is_empty()
    }
}

/// A write that holds its place in the order of its keys, and of those that its transaction has read.
pub trait PreparedWrite {
    /// Where what was read has changed since the snapshot with this version, or `None` if it is as it was. To be
    /// asked before the write is announced.
    ///
    /// A change is a committed entry, delete or range delete with a greater version. The snapshot must still be
    /// open: what it sees is kept by every merge, hence also what hides it now, a delete included. Of a key that
    /// the snapshot does *not* see, a merge may drop a later put together with a later delete; then the key is
    /// absent as before, and nothing has changed for who looks at values only.
    fn conflict_since(&self, version: u64) -> Result<Option<Bounds>>;
    /// The number of logs and manifest edits that it will write: more than one need a commit record.
    fn logs(&self) -> usize;
    /// Which keys it writes, for snapshots that wait for it.
    fn span(&self) -> KeySpan;
    /// Writes it, invisibly. After an error call `revoke`.
    fn append(&mut self, stamp: Stamp) -> Result<()>;
    /// Takes back what was appended, so that no later opening finds it: shortens a log of its own, or appends to a shared one a record
    /// that makes it void. Where neither can be done the store turns read-only.
    fn revoke(&mut self);
    /// Shows it, once `cell` (if any) is committed.
    fn publish(&mut self, cell: Option<&CommitCell>);
    /// Does what is due once the write is no longer announced, before the locks go: indexing a part of a log. Then they go.
    fn index(&mut self);
    /// Does what is due once every lock has gone, those of the same write in other keyspaces too: what waits for locks again.
    fn after_unlock(&mut self);
}

/// Walks the pairs that a snapshot sees. Every movement says whether there is a pair under the cursor.
pub trait PairCursor: Send {
    fn seek(&mut self, key: &[u8]) -> Result<bool>;
    fn seek_to_first(&mut self) -> Result<bool>;
    fn seek_to_last(&mut self) -> Result<bool>;
    fn next(&mut self) -> Result<bool>;
    fn prev(&mut self) -> Result<bool>;
    /// The key and the value under the cursor, lent.
    fn pair(&self) -> Option<(&[u8], &[u8])>;
    /// The same to keep, pinning nothing but the record or the block that it is in.
    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.pair().map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)))
    }
}

/// How far background work of a keyspace is behind its writers. The store brakes by the greatest pressure of its keyspaces.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// 0 where maintenance keeps up, 1 where writers must be as slow as it is.
    pub overload: f64,
    /// Bytes of disk space that maintenance frees in a second.
    pub freed_bytes_per_second: f64,
}

/// The outcome of looking, without locks, for changes of what a transaction has read.
pub struct Validated {
    /// A place where something has changed.
    pub conflict: Option<Bounds>,
    /// The version as of which everything that was read is known to be unchanged. It is that of an open snapshot: the transaction's, or `_snapshot`.
    pub since: u64,
    /// Kept until the write is prepared and `conflict_since` has looked at what is newer.
    pub _snapshot: Option<SnapshotGuard>,
}

/// The work that an opening or a closing does, because processes may live too briefly for maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Leaves to closings what these do, and sees to what was killed before it came to that.
    Opening,
    Closing,
}

/// The work that an opening or a closing may do, over all keyspaces.
#[derive(Debug, Clone, Copy)]
pub struct Upkeep {
    pub moment: Moment,
    /// The bytes that may still be read and written; what is many times over its bound is merged in any case.
    pub bytes: u64,
    /// The bytes of logs that may still be sorted into compressed tables.
    pub compressed_bytes: u64,
}

impl Upkeep {
    /// About 10 ms of reading and writing.
    const BYTES: u64 = 2 << 20;
    /// Some 50 ms of reading and compressing with LZ4. An opening compresses nothing: maintenance finds that soon after.
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
/// `Any`: its own tests get the type back.
pub trait Layout: Any + Send + Sync {
    /// The newest value of `key` at or below version `at`.
    fn get(&self, key: &[u8], at: u64) -> Result<Option<Bytes>>;
    /// Lends that value to `read`, without a copy where it lies in memory; false if there is none.
    fn get_with(&self, key: &[u8], at: u64, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.get(key, at)?;
        Ok(value.map(|value| read(&value)).is_some())
    }
    /// The pairs within `bounds` that `snapshot` sees.
    fn cursor(self: Arc<Self>, bounds: Bounds, snapshot: SnapshotGuard) -> Box<dyn PairCursor>;
    /// Looks for changes of what a transaction has read since version `since`, before anything is locked. What only this pass could see
    /// is left to [`PreparedWrite::conflict_since`], which looks at what is newer than [`Validated::since`]. A layout whose locks
    /// cover few keys need not do anything here.
    fn validate(&self, _reads: &ReadSet, since: u64) -> Result<Validated> {
        Ok(Validated { conflict: None, since, _snapshot: None })
    }
    /// Begins a write of these operations, which take effect in their order. Range deletes apart, no two concern the
    /// same key. `reads` is what its transaction has read here. Either may be empty.
    fn prepare<'a>(&'a self, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Box<dyn PreparedWrite + 'a>>;
    /// Bytes on disk for keys within the bounds, about.
    fn approximate_bytes(&self, bounds: &Bounds) -> Result<u64>;
    /// Sorts and cleans what overlaps the bounds, now.
    fn compact(&self, bounds: &Bounds) -> Result<()>;
    /// Takes other settings, from the next maintenance on.
    fn set_options(&self, settings: Settings);
    fn stats(&self) -> KeyspaceStats;
    /// The key ranges that it manages, in order.
    fn regions(&self) -> Vec<RegionInfo>;
    /// Reads and checks everything.
    fn verify(&self, report: &mut Report);
    /// Called every few milliseconds: starts what is due.
    fn tick(&self);
    /// Accesses since opening: a keyspace where this number stands still is idle, unless it is busy.
    fn accesses(&self) -> u64;
    /// True while maintenance is under way, or has something left to do.
    fn is_busy(&self) -> bool;
    /// As of now. Asked after each tick.
    fn pressure(&self) -> Pressure;
    /// Bounds what openings and closings leave; true if files were replaced. Takes what it does from `upkeep`.
    fn tidy(&self, _upkeep: &mut Upkeep) -> bool {
        false
    }
    /// Before closing: writes what would otherwise be found out again.
    fn before_close(&self) -> Result<()>;
    /// The keyspace was dropped for good: nothing is written and the manifest is told nothing from here on. Waits for
    /// who is at it.
    fn retire(&self);
    /// The keyspace is gone: refers to its files no longer. Reads of older snapshots may go on.
    fn release(&self);
}
