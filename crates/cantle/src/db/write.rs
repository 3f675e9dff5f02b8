//! Writes: from arguments to acknowledgement.
//!
//! A write passes: checks → the brake → `prepare` (locks, room) → room in the journal → announcement and version →
//! `append` → commit record → `publish` → end of the announcement → locks released → the sync that it waits for.

use super::batch::{OwnedOp, WriteBatch, keep_last};
use super::commit::{Announceable, op_bytes};
use super::keyspace::KeyspaceInner;
use super::stalls::Watched;
use super::store::Store;
use crate::layout::{Op, ReadSet};
use crate::maintenance::Call;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::time::now;
use crate::types::bounds::Bounds;
use crate::types::durability::Durability;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::types::span::is_empty_range;
use crate::types::value::Value;
use bytes::Bytes;
use std::time::Duration;

/// Duration from which a write is reported as a stall.
const STALL: Duration = Duration::from_millis(100);

/// A keyspace, with the operations on it and the keys and ranges that were read of it.
pub(super) struct KeyspaceWrite {
    pub(super) keyspace: Arc<KeyspaceInner>,
    pub(super) ops: Vec<OwnedOp>,
    /// Empty except for a transaction.
    pub(super) reads: ReadSet,
}

impl KeyspaceWrite {
    pub(super) fn lend(&self) -> Vec<Op<'_>> {
        self.ops.iter().map(OwnedOp::lend).collect()
    }
}

impl Store {
    /// Begins a call that may write to the store's files, or that may take long. Closing waits for
    /// it.
    #[inline]
    pub(super) fn begin_call(&self) -> Result<Call<'_>> {
        self.substrate.calls.begin().ok_or(Error::Closed)
    }

    pub(super) fn check_open(&self) -> Result<()> {
        self.substrate.health.check_open()
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            self.check_open()?;
            let reason = self.substrate.health.reason();
            return Err(Error::ReadOnly {
                reason: reason.unwrap_or_else(|| "it was opened read-only".into()),
            });
        }
        self.substrate.health.check_writable()
    }

    fn note_duration(&self, elapsed: Duration, watched: &Watched<'_>) {
        self.write_longest_nanos.fetch_max(elapsed.as_nanos() as u64, Relaxed);
        if elapsed >= STALL {
            let (waited, queued) = (watched.waited(), self.substrate.pool.queued());
            tracing::warn!(?elapsed, ?waited, queued, "a write stalled");
        }
    }

    pub(super) fn write_one(&self, keyspace: &Arc<KeyspaceInner>, op: Op<'_>) -> Result<()> {
        let ops = [op];
        let _call = self.begin_call()?;
        self.check_ops(keyspace, &ops)?;
        let (started, watched) = (now(), self.stalls.watch());
        self.brake(&ops)?;
        let frees = ops.iter().all(|op| op.kind != Kind::Put);
        let lsn = self.with_reserve(frees, || {
            let mut prepared = keyspace.layout.prepare(&ops, ReadSet::NONE)?;
            self.commit(&mut [(&mut *prepared, keyspace.id, &ops)], None)
        })?;
        self.acknowledge(lsn, None)?;
        self.note_duration(started.elapsed(), &watched);
        Ok(())
    }

    /// Runs a write. A write that only deletes may use the disk space that is set aside for
    /// deletes.
    fn with_reserve<T>(&self, frees: bool, mut run: impl FnMut() -> Result<T>) -> Result<T> {
        if frees {
            return self.substrate.freeing(run);
        }
        run().inspect_err(|error| {
            if error.is_no_space() {
                self.substrate.reserve.note_full();
                self.substrate.pool.wake();
            }
        })
    }

    pub(super) fn delete_range(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Result<()> {
        if is_empty_range(&keyspace.order, &bounds) {
            keyspace.order.check()?;
            self.check_writable()?;
            return keyspace.check();
        }
        self.write_one(keyspace, Op::delete_range(&bounds))
    }

    pub(super) fn write_batch(&self, batch: WriteBatch, durability: Option<Durability>) -> Result<()> {
        self.check_writable()?;
        let mut parts: Vec<KeyspaceWrite> = Vec::new();
        for (keyspace, op) in batch.ops {
            let keyspace = keyspace.unwrap_or_else(|| self.default.clone());
            if op.bounds.as_ref().is_some_and(|bounds| is_empty_range(&keyspace.order, bounds)) {
                keyspace.order.check()?;
                continue;
            }
            // Not compared by number: a keyspace of another store may have the same.
            match parts.iter_mut().find(|part| Arc::ptr_eq(&part.keyspace, &keyspace)) {
                Some(part) => part.ops.push(op),
                None => parts.push(KeyspaceWrite { keyspace, ops: vec![op], reads: ReadSet::default() }),
            }
        }
        if let Some(foreign) = parts.iter().find(|part| !self.owns(&part.keyspace)) {
            return Err(Error::InvalidArgument(format!(
                "keyspace {:?} belongs to another store",
                foreign.keyspace.name
            )));
        }
        for part in &mut parts {
            self.check_ops(&part.keyspace, &part.lend())?;
            keep_last(&part.keyspace.order, &mut part.ops);
        }
        self.write_keyspaces(parts, None, durability)
    }

    /// Writes the parts as one. Each part is for a keyspace of its own, with one operation per key.
    /// For a transaction, `since` is the version at which it read: if anything that it read has
    /// changed since, nothing is written.
    pub(super) fn write_keyspaces(
        &self,
        mut parts: Vec<KeyspaceWrite>,
        since: Option<u64>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let (started, watched) = (now(), self.stalls.watch());
        let _call = self.begin_call()?;
        // All writers take locks in this order.
        parts.sort_by_key(|part| part.keyspace.id);
        let parts: Vec<_> = parts.iter().map(|part| (part, part.lend())).collect();
        for (part, ops) in &parts {
            self.check_ops(&part.keyspace, ops)?;
        }
        if parts.is_empty() {
            return self.acknowledge(None, durability);
        }
        // Checked before anything is announced: a `Sync` store has the batch in one record of the
        // journal.
        let ops = || parts.iter().flat_map(|(_, ops)| ops);
        self.options.limits.check_batch(ops().map(op_bytes).sum(), ops().count())?;
        for (_, ops) in parts.iter().filter(|(_, ops)| !ops.is_empty()) {
            self.brake(ops)?;
        }
        let frees = ops().all(|op| op.kind != Kind::Put);
        let lsn = self.with_reserve(frees, || {
            let conflict = |part: &KeyspaceWrite, changed| Error::conflict(&part.keyspace.name, changed);
            // Before anything is locked, for layouts that can. Changes made meanwhile are looked
            // for below.
            let mut validated = Vec::new();
            for (part, _) in parts.iter().filter(|_| since.is_some()) {
                let found = part.keyspace.layout.validate(&part.reads, since.unwrap_or_default())?;
                if let Some(changed) = found.conflict {
                    return Err(conflict(part, changed));
                }
                validated.push(found);
            }
            let mut prepared = Vec::with_capacity(parts.len());
            for (part, ops) in &parts {
                prepared.push(part.keyspace.layout.prepare(ops, &part.reads)?);
            }
            // From here on, the keys that were read are locked. `layout` explains why this precedes
            // the announcement.
            for ((write, (part, _)), validated) in prepared.iter().zip(&parts).zip(&validated) {
                if let Some(changed) = write.conflict_since(validated.since)? {
                    return Err(conflict(part, changed));
                }
            }
            drop(validated);
            let writes = prepared.iter_mut().zip(&parts);
            let mut writes: Vec<Announceable<'_, '_>> =
                writes.map(|(write, (part, ops))| (&mut **write, part.keyspace.id, &ops[..])).collect();
            self.commit(&mut writes, durability)
        })?;
        self.acknowledge(lsn, durability).map_err(|error| self.not_durable(error))?;
        self.note_duration(started.elapsed(), &watched);
        Ok(())
    }

    /// The error of a write that took effect, but could not be made as durable as the caller asked
    /// for. If the store turned read-only, it is unknown if a later opening finds the write, and
    /// the error is returned as it is.
    fn not_durable(&self, error: Error) -> Error {
        // A store that is being closed is sound: closing waits for this call.
        match self.substrate.health.check_sound() {
            Ok(()) => Error::NotDurable { source: Box::new(error) },
            Err(_) => error,
        }
    }

    /// Replaces the value of a key if it is `expected`; `None` is an absent key. Returns true if it
    /// was.
    pub(super) fn compare_and_swap(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let ops = [new.map_or_else(|| Op::delete(key), |value| Op::put(key, value))];
        let _call = self.begin_call()?;
        self.check_ops(keyspace, &ops)?;
        // Most calls that do not swap end here, without a lock.
        if self.get(keyspace, key, u64::MAX)?.as_deref() != expected {
            return Ok(false);
        }
        let _watched = self.stalls.watch();
        let done = self.write_if(keyspace, &ops, |current| current == expected)?;
        let Some(lsn) = done else { return Ok(false) };
        self.acknowledge(lsn, None).map(|()| true)
    }

    /// Writes a checked operation on one key if `holds` is true for the key's value; returns `None`
    /// if not.
    fn write_if(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        ops: &[Op<'_>; 1],
        holds: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<Option<Option<u64>>> {
        self.brake(ops)?;
        self.with_reserve(ops[0].kind == Kind::Delete, || {
            let mut prepared = keyspace.layout.prepare(ops, ReadSet::NONE)?;
            // From here on, no other writer can change the key.
            let current = keyspace.layout.get(ops[0].key, u64::MAX)?;
            keyspace.order.check()?;
            let holds = holds(current.as_deref());
            canary!(UPDATE_LOST => let holds = true);
            if !holds {
                return Ok(None);
            }
            self.commit(&mut [(&mut *prepared, keyspace.id, ops)], None).map(Some)
        })
    }

    pub(super) fn update(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Value>> {
        loop {
            let old = self.get(keyspace, key, u64::MAX)?;
            let new = change(old.as_deref()).map(Bytes::from);
            let ops = [new.as_ref().map_or_else(|| Op::delete(key), |value| Op::put(key, value))];
            // Begun after `change`, which may take any time: closing waits for calls.
            let _call = self.begin_call()?;
            self.check_ops(keyspace, &ops)?;
            let _watched = self.stalls.watch();
            // If the key still has the value that `change` was given, the outcome is as if all had
            // happened now. Otherwise `change` runs again.
            let done = self.write_if(keyspace, &ops, |current| current == old.as_deref())?;
            let Some(lsn) = done else { continue };
            self.acknowledge(lsn, None)?;
            return Ok(new.map(Value::new));
        }
    }

    fn owns(&self, keyspace: &Arc<KeyspaceInner>) -> bool {
        Arc::ptr_eq(keyspace, &self.default)
            || self.keyspaces.read().values().any(|ours| Arc::ptr_eq(ours, keyspace))
            || keyspace.check().is_err()
    }

    pub(super) fn check_ops(&self, keyspace: &KeyspaceInner, ops: &[Op<'_>]) -> Result<()> {
        self.check_writable()?;
        keyspace.check()?;
        let limits = &self.options.limits;
        for op in ops {
            limits.check_key(op.key)?;
            limits.check_value(op.value)?;
            for bound in op.bounds.into_iter().flat_map(Bounds::keys) {
                limits.check_bound(bound)?;
            }
        }
        Ok(())
    }

    /// Slows the writer if maintenance is behind, and refuses puts while the disk is full.
    fn brake(&self, ops: &[Op<'_>]) -> Result<()> {
        self.secure_before_write()?;
        let puts = ops.iter().any(|op| op.kind == Kind::Put);
        if puts {
            self.substrate.reserve.wait_while_puts_are_paused();
        }
        if puts && self.substrate.reserve.is_spent() {
            self.substrate.reserve.maintain();
            if self.substrate.reserve.is_spent() {
                self.substrate.pool.wake();
                return Err(Error::io(Attempt::Append, &self.path, std::io::ErrorKind::StorageFull.into()));
            }
        }
        self.substrate.throttle.delay(ops.iter().map(Op::user_bytes).sum::<u64>() as usize);
        Ok(())
    }
}
