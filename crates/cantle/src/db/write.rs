//! Reads and writes: from arguments to acknowledgement.
//!
//! A write passes: checks → the brake → `prepare` (locks, room) → room in the journal → announcement and version →
//! `append` → commit record → `publish` → end of the announcement → locks released → the sync that it waits for.

use super::batch::{WriteBatch, keep_last, range_op};
use super::keyspace::KeyspaceInner;
use super::store::Store;
use crate::format::bounds::encode_bounds;
use crate::format::limits::{BATCH_BYTES_MAX, BATCH_OP_BYTES, RECORD_BYTES_MAX};
use crate::journal::{JournalOp, JournalRecord, Lsn, Reservation, Uncommitted};
use crate::layout::{Op, PreparedWrite, ReadSet, Stamp};
use crate::maintenance::Call;
use crate::mvcc::{Announced, CommitCell, KeySpan};
use crate::substrate::Substrate;
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

/// What stands around an operation in a journal record, at most: keyspace, kind, two lengths.
const JOURNAL_OP_BYTES: usize = 5 + 1 + 10 + 10;
/// A commit record, or the head of a write's.
const JOURNAL_HEAD_BYTES: usize = 1 + 4 * 10;

/// So the journal has room in one record for whatever `Limits::check_batch` lets pass.
const _: () = assert!(JOURNAL_OP_BYTES <= BATCH_OP_BYTES);
const _: () = assert!((BATCH_BYTES_MAX + JOURNAL_HEAD_BYTES) as u64 <= RECORD_BYTES_MAX);

/// A write that takes longer is reported.
const STALL: Duration = Duration::from_millis(100);

/// A read met damage.
pub(super) fn note_corruption(error: &Error) {
    if error.is_corruption() {
        tracing::error!(%error, "corruption");
    }
}

/// A keyspace, and what is done to it and was read of it.
pub(super) struct KeyspaceWrite {
    pub(super) keyspace: Arc<KeyspaceInner>,
    pub(super) ops: Vec<Op>,
    /// Of a transaction.
    pub(super) reads: ReadSet,
}

impl Store {
    /// Begins a call that may write to the store's files, or that takes long. Closing waits for it.
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

    pub(super) fn get(&self, keyspace: &KeyspaceInner, key: &[u8], at: u64) -> Result<Option<Bytes>> {
        self.check_open()?;
        keyspace.check_at(at)?;
        let found = keyspace.layout.get(key, at).inspect_err(note_corruption);
        keyspace.order.check().and(found)
    }

    /// Lends the value to `read`.
    pub(super) fn get_with<T>(
        &self,
        keyspace: &KeyspaceInner,
        key: &[u8],
        at: u64,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.check_open()?;
        keyspace.check_at(at)?;
        let (mut read, mut result) = (Some(read), None);
        let mut lend = |value: &[u8]| result = read.take().map(|read| read(value));
        let found = keyspace.layout.get_with(key, at, &mut lend).inspect_err(note_corruption);
        keyspace.order.check().and(found)?;
        Ok(result)
    }

    fn note_duration(&self, elapsed: Duration) {
        self.write_longest_nanos.fetch_max(elapsed.as_nanos() as u64, Relaxed);
        if elapsed >= STALL {
            tracing::warn!(?elapsed, queued = self.substrate.pool.queued(), "a write stalled");
        }
    }

    pub(super) fn write_one(&self, keyspace: &Arc<KeyspaceInner>, op: Op) -> Result<()> {
        let ops = [op];
        let _call = self.begin_call()?;
        self.check_ops(keyspace, &ops)?;
        let started = now();
        self.brake(&ops)?;
        let frees = ops.iter().all(|op| op.kind != Kind::Put);
        let lsn = self.with_reserve(frees, || {
            let mut prepared = keyspace.layout.prepare(&ops, ReadSet::NONE)?;
            self.commit(&mut [(&mut *prepared, keyspace.id, &ops)], None)
        })?;
        self.acknowledge(lsn, None)?;
        self.note_duration(started.elapsed());
        Ok(())
    }

    /// Runs a write; one that only deletes may use the space that is set aside for that.
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
        self.write_one(keyspace, range_op(bounds))
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
            // Not by number: another store's may have the same.
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
            self.check_ops(&part.keyspace, &part.ops)?;
            keep_last(&part.keyspace.order, &mut part.ops);
        }
        self.write_keyspaces(parts, None, durability)
    }

    /// Writes the parts, each of its own keyspace and with one operation for a key, as one. Those of a transaction
    /// read at version `since`; if that is not what there is any more, nothing is written.
    pub(super) fn write_keyspaces(
        &self,
        mut parts: Vec<KeyspaceWrite>,
        since: Option<u64>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let started = now();
        let _call = self.begin_call()?;
        // Locks are taken in this order by everybody.
        parts.sort_by_key(|part| part.keyspace.id);
        for part in &parts {
            self.check_ops(&part.keyspace, &part.ops)?;
        }
        if parts.is_empty() {
            return self.acknowledge(None, durability);
        }
        // Before anything is announced: a `Sync` store has it in one record of the journal.
        let ops = || parts.iter().flat_map(|part| &part.ops);
        self.options.limits.check_batch(ops().map(op_bytes).sum(), ops().count())?;
        for part in parts.iter().filter(|part| !part.ops.is_empty()) {
            self.brake(&part.ops)?;
        }
        let frees = parts.iter().flat_map(|part| &part.ops).all(|op| op.kind != Kind::Put);
        let lsn = self.with_reserve(frees, || {
            let conflict = |part: &KeyspaceWrite, changed| Error::conflict(&part.keyspace.name, changed);
            // Before anything is locked, for layouts that can; what changes meanwhile is looked for below.
            let mut validated = Vec::new();
            for part in parts.iter().filter(|_| since.is_some()) {
                let found = part.keyspace.layout.validate(&part.reads, since.unwrap_or_default())?;
                if let Some(changed) = found.conflict {
                    return Err(conflict(part, changed));
                }
                validated.push(found);
            }
            let mut prepared = Vec::with_capacity(parts.len());
            for part in &parts {
                prepared.push(part.keyspace.layout.prepare(&part.ops, &part.reads)?);
            }
            // What was read is held from here on. Why before the announcement: `layout`.
            for ((write, part), validated) in prepared.iter().zip(&parts).zip(&validated) {
                if let Some(changed) = write.conflict_since(validated.since)? {
                    return Err(conflict(part, changed));
                }
            }
            drop(validated);
            let writes = prepared.iter_mut().zip(&parts);
            let mut writes: Vec<Announceable<'_, '_>> =
                writes.map(|(write, part)| (&mut **write, part.keyspace.id, &part.ops[..])).collect();
            self.commit(&mut writes, durability)
        })?;
        self.acknowledge(lsn, durability).map_err(|error| self.not_durable(error))?;
        self.note_duration(started.elapsed());
        Ok(())
    }

    /// The error of a write that took place, where what failed is only to make it as durable as was asked for. In a store that turned
    /// read-only nobody knows whether a later opening finds it.
    fn not_durable(&self, error: Error) -> Error {
        // Not whether it is being closed, which waits for this call.
        match self.substrate.health.check_sound() {
            Ok(()) => Error::NotDurable { source: Box::new(error) },
            Err(_) => error,
        }
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
            let (kind, value) = match &new {
                Some(value) => (Kind::Put, value.clone()),
                None => (Kind::Delete, Bytes::new()),
            };
            let ops = [Op { kind, key: Bytes::copy_from_slice(key), value, bounds: None }];
            // Not while `change` runs, which may take as long as it likes.
            let _call = self.begin_call()?;
            self.check_ops(keyspace, &ops)?;
            self.brake(&ops)?;
            let done = self.with_reserve(kind != Kind::Put, || {
                let mut prepared = keyspace.layout.prepare(&ops, ReadSet::NONE)?;
                // Nobody else writes the key from here on: if it still has the value that `change` was given, the
                // outcome is as if all had happened now. Else it is run again.
                let is_current = keyspace.layout.get(key, u64::MAX)? == old;
                canary!(UPDATE_LOST => let is_current = true);
                if !is_current {
                    return Ok(None);
                }
                self.commit(&mut [(&mut *prepared, keyspace.id, &ops)], None).map(Some)
            })?;
            let Some(lsn) = done else { continue };
            self.acknowledge(lsn, None)?;
            return Ok(new.map(Value::new));
        }
    }

    /// Whether the journal tells of a write, so that one sync of it makes the write durable. In a store that is not `Sync` it tells
    /// of those that ask for more than the store gives, if all that was written before is durable: a crash leaves a prefix. Of
    /// a batch over several logs it tells there that it committed, at once and not with a group: a checkpoint makes it durable.
    fn is_journaled(&self, spanning: bool, durability: Option<Durability>) -> bool {
        let substrate = &self.substrate;
        let asks_for_more = durability.is_some_and(|wanted| wanted > substrate.durability);
        substrate.durability == Durability::Sync || (asks_for_more && !spanning && self.is_all_journaled())
    }

    /// Whether the journal tells of everything that no checkpoint covers.
    fn is_all_journaled(&self) -> bool {
        canary!(DURABLE_WITH_A_GAP => return true);
        let durable = self.substrate.checkpoints.durable_version();
        self.substrate.unjournaled.is_none_beyond(durable)
    }

    /// Announces a write, and says whether the journal will tell of it: in a store that is not `Sync`, that shows for good only now.
    fn announce(&self, span: KeySpan, journaled: bool) -> (Announced<'_>, bool) {
        let Substrate { mvcc, unjournaled, durability, .. } = &*self.substrate;
        if *durability == Durability::Sync {
            return (mvcc.announce(span), true);
        }
        if journaled {
            let announced = mvcc.announce(span);
            if self.is_all_journaled() {
                return (announced, true);
            }
        }
        (unjournaled.announce(mvcc, span), false)
    }

    /// Announces prepared writes, appends and commits them under one version, and shows them.
    fn commit(
        &self,
        writes: &mut [Announceable<'_, '_>],
        durability: Option<Durability>,
    ) -> Result<Option<Lsn>> {
        let substrate = &self.substrate;
        let parts: usize = writes.iter().map(|(write, _, _)| write.logs()).sum();
        if parts == 0 {
            return Ok(None); // range deletes of nothing
        }
        let spanning = parts > 1;
        // A range delete that drops chunks is one edit, but shows in each of them.
        let ranges = writes.iter().any(|(_, _, ops)| ops.iter().any(|op| op.bounds.is_some()));
        let several = ranges || spanning || writes.iter().map(|(_, _, ops)| ops.len()).sum::<usize>() > 1;
        let journaled = self.is_journaled(spanning, durability);
        let reservation = match (journaled, spanning) {
            (true, _) => Some(journal_bytes(writes)),
            (false, true) => Some(JOURNAL_HEAD_BYTES),
            (false, false) => None,
        };
        let reservation = reservation.map(|bytes| substrate.journal.reserve(bytes)).transpose();
        let reservation = reservation.map_err(|error| substrate.checked(error))?;
        let span = writes.iter().map(|(write, _, _)| write.span()).fold(KeySpan::EMPTY, KeySpan::hull);
        let cell = several.then(CommitCell::new);
        canary!(BATCH_SEEN_IN_HALF => let cell = None);
        let (announced, journaled) = self.announce(span, journaled);
        let reservation = reservation.filter(|_| journaled || spanning);
        // Who closes the store waits for the writes that were announced before.
        substrate.health.check_writable()?;
        let batch = if spanning { substrate.batches.take() } else { 0 };
        let stamp = Stamp { version: announced.version(), batch };
        let lsn = match self.append(writes, stamp, reservation, journaled) {
            Ok(lsn) => lsn,
            Err(Uncommitted::Surely(error)) => {
                writes.iter_mut().for_each(|(write, _, _)| write.revoke());
                return Err(error);
            }
            // Before the locks go: nobody writes behind it.
            Err(Uncommitted::Perhaps(error)) => {
                self.doubt_batch(&error);
                return Err(error);
            }
        };
        for (write, _, _) in writes.iter_mut() {
            write.publish(cell.as_ref());
        }
        if let Some(cell) = &cell {
            cell.commit();
        }
        drop(announced);
        writes.iter_mut().for_each(|(write, _, _)| write.index());
        writes.iter_mut().for_each(|(write, _, _)| write.after_unlock());
        Ok(lsn)
    }

    fn doubt_batch(&self, error: &Error) {
        self.substrate.health.fail(format!(
            "a batch that failed may be found after all ({error}): find out what is wrong with the disk, then reopen the store"
        ));
    }

    fn append(
        &self,
        writes: &mut [Announceable<'_, '_>],
        stamp: Stamp,
        reservation: Option<Reservation<'_>>,
        journaled: bool,
    ) -> std::result::Result<Option<Lsn>, Uncommitted> {
        let appended = writes.iter_mut().try_for_each(|(write, _, _)| write.append(stamp));
        // A write may have to sync what it writes, if nothing else keeps a failure of the kernel in mind (`files::unsynced`).
        appended.map_err(|error| Uncommitted::Surely(self.substrate.checked(error)))?;
        let Some(reservation) = reservation else { return Ok(None) };
        let journal = &self.substrate.journal;
        // Room was made before: what fails here is the device.
        if journaled {
            let ops = writes.iter().flat_map(|(_, keyspace, ops)| ops.iter().map(move |op| (*keyspace, op)));
            let ops: Vec<_> = ops.map(|(keyspace, op)| (keyspace, op, journal_value(op))).collect();
            let encoded =
                ops.iter().map(|(keyspace, op, value)| (*keyspace, op.kind, &op.key[..], &value[..]));
            let enqueued = journal.enqueue(reservation, stamp.batch, stamp.version, encoded);
            enqueued.map(Some).map_err(Uncommitted::Surely)
        } else {
            canary!(COMMIT_LEFT_OUT => return Ok(None));
            journal.commit(reservation, stamp.batch, stamp.version).map(|()| None)
        }
    }

    /// Waits until the write is as durable as was asked for.
    fn acknowledge(&self, lsn: Option<Lsn>, durability: Option<Durability>) -> Result<()> {
        let substrate = &self.substrate;
        if let Some(lsn) = lsn {
            return substrate.journal.wait(lsn).map_err(|error| substrate.sync_failed(error));
        }
        // What the journal does not tell of, a checkpoint makes durable.
        match durability {
            Some(wanted) if wanted > substrate.durability => substrate.checkpoint(),
            _ => Ok(()),
        }
    }

    /// Applies what the journal kept from before a power loss. The old journal stays until a checkpoint covers it. On
    /// a full disk uses the space set aside, and that of the files that the crash left behind.
    pub(super) fn replay(
        &self,
        records: Vec<JournalRecord>,
        orphans: &mut Vec<std::path::PathBuf>,
    ) -> Result<()> {
        for record in records {
            let JournalRecord::Write { ops, .. } = record else { continue };
            let parts = self.replayed_writes(ops)?;
            self.replay_with_room(&parts, orphans)?;
        }
        Ok(())
    }

    /// A write that found no space is tried again with more, unless the last attempt could not be taken back: its edits would hide
    /// those of the next, and what it buffered would stand in the way.
    fn replay_with_room(&self, parts: &[KeyspaceWrite], orphans: &mut Vec<std::path::PathBuf>) -> Result<()> {
        loop {
            let Err(error) = self.replay_write(parts) else { return Ok(()) };
            if !error.is_no_space() || self.substrate.health.check_sound().is_err() {
                return Err(error);
            }
            if self.substrate.reserve.give_back() {
                continue;
            }
            if orphans.is_empty() {
                return Err(error);
            }
            self.remove_orphans_now(orphans)?;
        }
    }

    fn replayed_writes(&self, ops: Vec<JournalOp>) -> Result<Vec<KeyspaceWrite>> {
        let mut parts: Vec<KeyspaceWrite> = Vec::new();
        for op in ops {
            // Of a keyspace that was dropped nothing needs to be kept.
            let Some(keyspace) = self.all_keyspaces().into_iter().find(|keyspace| keyspace.id == op.keyspace)
            else {
                continue;
            };
            let bounds = match op.kind {
                Kind::DeleteRange => Some(decode_journal_bounds(&op.value)?),
                _ => None,
            };
            let value = if bounds.is_some() { Bytes::new() } else { Bytes::from(op.value) };
            let op = Op { kind: op.kind, key: Bytes::from(op.key), value, bounds };
            match parts.iter_mut().find(|part| part.keyspace.id == keyspace.id) {
                Some(part) => part.ops.push(op),
                None => parts.push(KeyspaceWrite { keyspace, ops: vec![op], reads: ReadSet::default() }),
            }
        }
        parts.sort_by_key(|part| part.keyspace.id);
        Ok(parts)
    }

    fn replay_write(&self, parts: &[KeyspaceWrite]) -> Result<()> {
        let mut prepared = Vec::with_capacity(parts.len());
        for part in parts {
            prepared.push(part.keyspace.layout.prepare(&part.ops, &part.reads)?);
        }
        let spanning = prepared.iter().map(|write| write.logs()).sum::<usize>() > 1;
        // It is a batch of this epoch, and needs a commit record in case the process dies.
        let journal = &self.substrate.journal;
        let reservation = spanning.then(|| journal.reserve(JOURNAL_HEAD_BYTES)).transpose()?;
        let announced = self.substrate.unjournaled.announce(&self.substrate.mvcc, KeySpan::ALL);
        let batch = if spanning { self.substrate.batches.take() } else { 0 };
        let stamp = Stamp { version: announced.version(), batch };
        let appended = prepared.iter_mut().try_for_each(|write| write.append(stamp));
        let appended = appended.map_err(|error| Uncommitted::Surely(self.substrate.checked(error)));
        let appended = appended.and_then(|()| {
            reservation.map_or(Ok(()), |room| journal.commit(room, stamp.batch, stamp.version))
        });
        match appended {
            Ok(()) => {}
            Err(Uncommitted::Surely(error)) => {
                prepared.iter_mut().for_each(|write| write.revoke());
                return Err(error);
            }
            // The next who opens the store replays again.
            Err(Uncommitted::Perhaps(error)) => {
                self.doubt_batch(&error);
                return Err(error);
            }
        }
        for write in &mut prepared {
            write.publish(None);
        }
        drop(announced);
        prepared.iter_mut().for_each(|write| write.index());
        prepared.iter_mut().for_each(|write| write.after_unlock());
        Ok(())
    }

    fn owns(&self, keyspace: &Arc<KeyspaceInner>) -> bool {
        Arc::ptr_eq(keyspace, &self.default)
            || self.keyspaces.read().values().any(|ours| Arc::ptr_eq(ours, keyspace))
            || keyspace.check().is_err()
    }

    pub(super) fn check_ops(&self, keyspace: &KeyspaceInner, ops: &[Op]) -> Result<()> {
        self.check_writable()?;
        keyspace.check()?;
        let limits = &self.options.limits;
        for op in ops {
            limits.check_key(&op.key)?;
            limits.check_value(&op.value)?;
            for bound in op.bounds.iter().flat_map(Bounds::keys) {
                limits.check_bound(bound)?;
            }
        }
        Ok(())
    }

    /// Slows the writer, if maintenance is behind; turns puts away while the disk is full.
    fn brake(&self, ops: &[Op]) -> Result<()> {
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
        self.substrate.throttle.delay(ops.iter().map(|op| op.key.len() + op.value.len()).sum());
        Ok(())
    }
}

/// A prepared write, its keyspace's number, and its operations.
type Announceable<'a, 'b> = (&'a mut (dyn PreparedWrite + 'b), u32, &'b [Op]);

fn journal_value(op: &Op) -> Bytes {
    match &op.bounds {
        Some(bounds) => Bytes::from(encode_bounds(bounds)),
        None => op.value.clone(),
    }
}

fn decode_journal_bounds(value: &[u8]) -> Result<Bounds> {
    crate::format::bounds::decode_bounds(&mut crate::format::codec::Decoder::new(value))
        .map_err(|what| Error::corruption("journal", 0, format!("a range delete {}", what.0)))
}

/// Bytes of an operation's key, value and bounds.
fn op_bytes(op: &Op) -> usize {
    let bounds = op.bounds.as_ref().map_or(0, |bounds| encode_bounds(bounds).len());
    op.key.len() + op.value.len() + bounds
}

fn journal_bytes(writes: &[Announceable<'_, '_>]) -> usize {
    let ops = writes.iter().flat_map(|(_, _, ops)| ops.iter());
    JOURNAL_HEAD_BYTES + ops.map(|op| JOURNAL_OP_BYTES + op_bytes(op)).sum::<usize>()
}
