//! One write in progress.

use super::keyspace::Keyspace;
use crate::format::bounds::encode_bounds;
use crate::layout::{Op, PreparedWrite, ReadSet, Stamp};
use crate::log::op::range_delete::RangeTombstone;
use crate::log::shared::{Appended, SharedLog};
use crate::mvcc::key_locks::HeldKeys;
use crate::mvcc::{CommitCell, KeySpan};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use std::ops::Bound;

pub struct Write<'a> {
    keyspace: &'a Keyspace,
    ops: &'a [Op<'a>],
    reads: &'a ReadSet,
    held: Option<HeldKeys<'a>>,
    /// `None` if nothing is written.
    log: Option<Arc<SharedLog>>,
    stamp: Stamp,
    appended: Option<Appended>,
}

impl<'a> Write<'a> {
    pub fn prepare(keyspace: &'a Keyspace, ops: &'a [Op<'a>], reads: &'a ReadSet) -> Result<Self> {
        // Before the locks: the first access reads logs.
        keyspace.map()?;
        let has_ranges = !reads.spans.is_empty() || ops.iter().any(|op| op.bounds.is_some());
        let keys = || ops.iter().map(|op| op.key).chain(reads.keys.iter().map(|key| &key[..]));
        let locks = &keyspace.locks;
        let stamp = Stamp { version: 0, batch: 0 };
        loop {
            let log = if ops.is_empty() { None } else { Some(keyspace.active()?) };
            let held = if has_ranges { locks.lock_all() } else { locks.lock(&keyspace.env.order, keys()) };
            // The log may have been abandoned, or the keyspace retired, before the locks were held.
            if log.as_ref().is_none_or(|log| keyspace.is_active(log)) {
                return Ok(Self { keyspace, ops, reads, held: Some(held), log, stamp, appended: None });
            }
        }
    }
}

/// A place in the read set that has changed after the first version, up to the second.
pub fn changed(keyspace: &Keyspace, reads: &ReadSet, versions: (u64, u64)) -> Result<Option<Bounds>> {
    let map = keyspace.map()?.read();
    let key = |key: &bytes::Bytes| Bounds {
        start: Bound::Included(key.to_vec()),
        end: Bound::Included(key.to_vec()),
    };
    let mut read = reads.keys.iter().map(key).chain(reads.spans.iter().cloned());
    Ok(read.find(|bounds| map.changed(bounds, versions).is_some()))
}

impl PreparedWrite for Write<'_> {
    fn conflict_since(&self, version: u64) -> Result<Option<Bounds>> {
        changed(self.keyspace, self.reads, (version, u64::MAX))
    }

    fn logs(&self) -> usize {
        usize::from(self.log.is_some())
    }

    fn span(&self) -> KeySpan {
        KeySpan::ALL
    }

    fn append(&mut self, stamp: Stamp) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        self.stamp = stamp;
        let bounds: Vec<_> = self.ops.iter().map(|op| op.bounds.map(encode_bounds)).collect();
        let ops = self.ops.iter().zip(&bounds);
        let ops: Vec<_> =
            ops.map(|(op, bounds)| (op.kind, op.key, bounds.as_deref().unwrap_or(op.value))).collect();
        self.appended = Some(log.append(&self.keyspace.env, (stamp.version, stamp.batch), &ops)?);
        Ok(())
    }

    fn revoke(&mut self) {
        let Some(log) = &self.log else { return };
        let health = &self.keyspace.substrate.health;
        let fail = |error: Error| {
            health.fail(format!(
                "a write that failed could not be taken back ({error}): find out what is wrong with the disk, then reopen the \
                 store, where that write may be found"
            ));
        };
        if let Some(appended) = self.appended.take()
            // On a full disk, uses the reserved space: otherwise the store would turn read-only for
            // lack of a few bytes.
            && let Err(error) = self.keyspace.substrate.reserve.with(|| log.revoke(&self.keyspace.env, &appended))
        {
            fail(error);
        }
        if log.is_broken() {
            if let Err(error) = log.segment.zero_tail(log.segment.len()) {
                fail(error);
            }
            self.keyspace.abandon(log);
        }
    }

    fn publish(&mut self, cell: Option<&CommitCell>) {
        let (Some(log), Some(appended), Ok(map)) = (&self.log, self.appended.take(), self.keyspace.map())
        else {
            return;
        };
        let version = self.stamp.version;
        let memory = log.segment.loaded().and_then(|parts| parts.memory.clone());
        let mut map = map.write();
        for (op, &place) in self.ops.iter().zip(&appended.places) {
            match op.bounds {
                Some(bounds) => map.delete_range(bounds, version, cell),
                None => map.write(op.key, (op.kind == Kind::Put).then_some(op.value), version, cell),
            }
            let Some(memory) = &memory else { continue };
            match op.bounds.cloned() {
                Some(bounds) => {
                    let (offset, cell) = (place.offset, cell.cloned());
                    memory.insert_tombstone(RangeTombstone { bounds, version, offset, cell });
                }
                None => memory.insert(op.key, version, op.kind, place, cell.cloned()),
            }
        }
        drop(map);
        self.keyspace.writes.fetch_add(self.ops.len() as u64, Relaxed);
        self.keyspace.operations.fetch_add(self.ops.len() as u64, Relaxed);
    }

    fn index(&mut self) {
        self.held = None;
    }

    fn after_unlock(&mut self) {}
}
