//! Optimistic, serializable transactions.
//!
//! A transaction reads at a snapshot, with its own writes laid over it ([`overlay`]), and notes what it reads
//! ([`read_set`]). Committing, it holds the keys that it read and those that it writes, makes sure that nothing of
//! what it read has changed since the snapshot, and writes like a batch: `layout` has the steps and why they make
//! for a serial order.

mod hidden;
mod overlay;
mod ranges;
mod read_set;
mod run;
#[cfg(test)]
mod tests;

use super::cursor::Cursor;
use super::handle::Handle;
use super::keyspace::KeyspaceInner;
use super::range::Range;
use super::snapshot::Snapshot;
use super::write::KeyspaceWrite;
use crate::db::WriteOptions;
use crate::layout::{Op, PairCursor};
use crate::mvcc::KeySpan;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::{Arc, Mutex};
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::error::{Error, Result};
use crate::types::value::{Key, Value};
use bytes::Bytes;
use overlay::{Overlay, OverlayCursor};
use read_set::{Reads, TrackedCursor};
pub(super) use run::run_until_committed;

/// Reads and writes that take effect together at the moment when they are committed, or not at all.
///
/// ```
/// # fn main() -> cantle::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cantle::Db::open(dir.path().join("store"))?;
/// # db.put("seats/12A", "free")?;
/// let tx = db.transaction();
/// if tx.get("seats/12A")?.is_some_and(|seat| seat == "free") {
///     tx.put("seats/12A", "ada")?;
/// }
/// match tx.commit() {
///     Err(error) if error.is_conflict() => println!("somebody was faster: {error}"),
///     done => done?,
/// }
/// # assert_eq!(db.get("seats/12A")?.as_deref(), Some(&b"ada"[..]));
/// # Ok(()) }
/// ```
///
/// [`Db::transact`](crate::Db::transact) does the same and runs it again after a conflict.
///
/// # What it sees
///
/// All reads are of one moment, that of [`Db::transaction`](crate::Db::transaction), with the transaction's own writes laid over it, in
/// ranges and cursors too. Nobody else sees these before [`commit`](Self::commit); dropped or [rolled
/// back](Self::rollback), the transaction leaves no trace.
///
/// # What conflicts
///
/// A commit fails with [`Error::Conflict`] if a key that the transaction looked up (found or not) has been written
/// to since it began, or any key of a range as far as the range was consumed: `tx.range(..).take(10)` read up to
/// the tenth pair, `tx.range(..).rev().take(10)` from the tenth pair from the end on, a cursor whatever it moved
/// across. Any put or delete counts, even of the value that was there before, and any range delete; of a key that was
/// absent and is again absent a put and delete in between may go unnoticed. What a transaction only writes does not
/// conflict, ranges that it deletes included, nor do look-ups of keys that it wrote or deleted before, and one that wrote
/// nothing never does. What was walked over counts, though the transaction had written or deleted it before.
///
/// # Isolation
///
/// Transactions are *strictly serializable*, together with puts, deletes, batches, [`update`](crate::Db::update), range
/// deletes and snapshots: all of them could have happened one at a time, each at a moment between its call and its
/// return. For transactions that wrote something and gets the same holds; about a get and a snapshot (or a
/// transaction that only read) together see the crate's `ARCHITECTURE.md`. What a transaction reads is consistent
/// even if it will not be committed. Creating and dropping keyspaces is outside of all this.
///
/// # Cost
///
/// What is read and what is written is kept in memory until the end, outside the store's budget: about a hundred
/// bytes and the key for each key looked up, two keys for each range or seek of a cursor or range deleted, and the
/// pairs written.
/// Committing locks the chunks of all that, so their writers wait for its microseconds; where something was written
/// to such a chunk since the transaction began, what was written is read. Like a snapshot, an open transaction has
/// the versions kept that it sees.
///
/// # Threads
///
/// It may be sent to other threads and used by several at once. Each read and each write is a step of its own: two threads that call
/// [`pop_first`](Self::pop_first) on one transaction at the same time may get the same pair.
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction {
    snapshot: Snapshot,
    shared: Arc<Shared>,
}

/// Reads and writes of one keyspace in a transaction: [`Transaction::keyspace`].
#[derive(Debug, Clone, Copy)]
pub struct TransactionView<'a> {
    pub(super) transaction: &'a Transaction,
    pub(super) keyspace: &'a Arc<KeyspaceInner>,
}

/// The state that a transaction shares with its ranges and cursors.
pub(super) struct Shared {
    /// `None` once the transaction is over.
    touched: Mutex<Option<Vec<Touched>>>,
}

/// A keyspace, and what was read of it and written to it.
struct Touched {
    keyspace: Arc<KeyspaceInner>,
    reads: Reads,
    /// Copied when something is written while a range reads it.
    writes: Arc<Overlay>,
}

impl Shared {
    /// Calls `change` with what was done to a keyspace, by its place. Reads reach callers only if this succeeds: no commit validates them
    /// once the transaction is over.
    fn with<T>(&self, place: usize, change: impl FnOnce(&mut Touched) -> T) -> Result<T> {
        let mut touched = self.touched.lock();
        let touched = touched.as_mut().and_then(|touched| touched.get_mut(place));
        let over = || Error::InvalidArgument("the transaction of this range or cursor is over".into());
        touched.map(change).ok_or_else(over)
    }

    /// The place of a keyspace.
    fn place(&self, keyspace: &Arc<KeyspaceInner>) -> usize {
        let mut touched = self.touched.lock();
        let Some(touched) = touched.as_mut() else { return 0 };
        // Not by number: another store's may have the same.
        match touched.iter().position(|touched| Arc::ptr_eq(&touched.keyspace, keyspace)) {
            Some(place) => place,
            None => {
                let (reads, writes) = (Reads::default(), Arc::default());
                touched.push(Touched { keyspace: keyspace.clone(), reads, writes });
                touched.len() - 1
            }
        }
    }
}

/// How a range or a cursor of a transaction sees a keyspace: as it was when it was asked for.
pub(super) struct View {
    shared: Arc<Shared>,
    place: usize,
    overlay: Option<Arc<Overlay>>,
}

impl View {
    /// A cursor over what the transaction sees, which notes what it walks over. `base` walks the snapshot.
    pub(super) fn cursor(
        &self,
        base: Box<dyn PairCursor>,
        keyspace: &KeyspaceInner,
        bounds: Bounds,
    ) -> Box<dyn PairCursor> {
        let (shared, order) = (self.shared.clone(), keyspace.order.clone());
        let base = match &self.overlay {
            Some(overlay) => Box::new(OverlayCursor::new(base, overlay.clone(), bounds.clone())),
            None => base,
        };
        Box::new(TrackedCursor::new(base, shared, self.place, order, bounds))
    }
}

impl Transaction {
    fn begin(handle: &Arc<Handle>) -> Self {
        let snapshot = Snapshot::take(handle, KeySpan::ALL);
        let shared = Arc::new(Shared { touched: Mutex::new(Some(Vec::new())) });
        Self { snapshot, shared }
    }

    pub(super) fn default_keyspace(&self) -> &Arc<KeyspaceInner> {
        &self.snapshot.handle.store.default
    }

    /// Makes the writes take effect, as of now, provided that what was read still holds. Acknowledged at the store's
    /// durability. Without writes it does nothing and succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if it does not hold: run the transaction again. [`Error::NoKeyspace`] if a keyspace that
    /// was read or written has been dropped; otherwise as [`Db::write`](crate::Db::write). Nothing was written then, unless the error
    /// says that a sync failed.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::new())
    }

    /// Commits, and may ask for more durability than the store's. If the checkpoint fails that this takes, it is committed all the same
    /// ([`Error::NotDurable`]).
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let touched = self.shared.touched.lock().take().unwrap_or_default();
        let store = &self.snapshot.handle.store;
        let done = if touched.iter().all(|touched| touched.writes.is_empty()) {
            store.check_open()
        } else {
            let parts = touched.into_iter().map(|Touched { keyspace, reads, writes }| KeyspaceWrite {
                ops: writes.ops(),
                reads: reads.to_read_set(&keyspace.order),
                keyspace,
            });
            let parts = parts.filter(|part| !part.ops.is_empty() || !part.reads.is_empty()).collect();
            store.write_keyspaces(parts, Some(self.snapshot.guard.version()), options.durability)
        };
        match &done {
            Ok(()) | Err(Error::NotDurable { .. }) => store.transactions.committed.fetch_add(1, Relaxed),
            Err(error) if error.is_conflict() => store.transactions.conflicts.fetch_add(1, Relaxed),
            Err(_) => 0,
        };
        done
    }

    /// Drops the writes, as dropping the transaction does.
    pub fn rollback(self) {
        drop(self);
    }

    /// The value or the delete that the transaction has written to a key. A key without one counts as read.
    fn written(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Option<Bytes>>> {
        self.snapshot.check(keyspace)?;
        let place = self.shared.place(keyspace);
        let written = self.shared.with(place, |touched| {
            let written = touched.writes.get(key);
            if written.is_none() {
                touched.reads.add_key(key);
            }
            written
        })?;
        keyspace.order.check().map(|()| written)
    }

    pub(super) fn read(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Value>> {
        let value = match self.written(keyspace, key)? {
            Some(written) => written,
            None => {
                let at = self.snapshot.guard.version();
                self.snapshot.handle.store.get(keyspace, key, at)?
            }
        };
        Ok(value.map(Value::new))
    }

    pub(super) fn read_with<T>(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        match self.written(keyspace, key)? {
            Some(written) => Ok(written.map(|value| read(&value))),
            None => {
                let at = self.snapshot.guard.version();
                self.snapshot.handle.store.get_with(keyspace, key, at, read)
            }
        }
    }

    fn write(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let op = value.map_or_else(|| Op::delete(key), |value| Op::put(key, value));
        self.overlay(keyspace, op, |writes| {
            writes.set(Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice));
        })
    }

    fn write_range(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Result<()> {
        let op_bounds = bounds.clone();
        self.overlay(keyspace, Op::delete_range(&op_bounds), |writes| writes.delete_range(bounds))
    }

    /// Adds an operation to the writes of a keyspace, if the keyspace takes it.
    fn overlay(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        op: Op<'_>,
        add: impl FnOnce(&mut Overlay),
    ) -> Result<()> {
        self.snapshot.check(keyspace)?;
        self.snapshot.handle.store.check_ops(keyspace, &[op])?;
        self.shared.with(self.shared.place(keyspace), |touched| {
            if touched.writes.is_empty() {
                touched.writes = Arc::new(Overlay::new(keyspace.order.clone()));
            }
            add(Arc::make_mut(&mut touched.writes));
        })
    }

    fn view(&self, keyspace: &Arc<KeyspaceInner>) -> View {
        let place = self.shared.place(keyspace);
        let writes = self.shared.with(place, |touched| touched.writes.clone()).ok();
        let overlay = writes.filter(|writes| !writes.is_empty());
        View { shared: self.shared.clone(), place, overlay }
    }

    pub(super) fn range_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Range {
        Range::new(&self.snapshot, keyspace, bounds).within(self.view(keyspace))
    }

    pub(super) fn prefix_of(&self, keyspace: &Arc<KeyspaceInner>, prefix: &[u8]) -> Range {
        Range::with_prefix(&self.snapshot, keyspace, prefix).within(self.view(keyspace))
    }

    pub(super) fn cursor_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Cursor {
        Cursor::within(&self.snapshot, keyspace, bounds, &self.view(keyspace))
    }
}

macro_rules! writes {
    ($type:ty) => {
        impl $type {
            /// Stores a pair when the transaction is committed. Fails as [`Db::put`](crate::Db::put) does for its arguments and in a store
            /// that cannot be written to; other errors come with the commit.
            pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write(keyspace, key.as_ref(), Some(value.as_ref()))
            }

            /// Removes a key, if it is there, when the transaction is committed. Fails as `put` does.
            pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write(keyspace, key.as_ref(), None)
            }

            /// Removes every key of the range when the transaction is committed: those that it sees, those that it has put,
            /// and those that others put there meanwhile. Nothing is read: no other put conflicts with it. Pairs that the
            /// transaction puts into the range later stay. Fails as `put` does.
            pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write_range(keyspace, Bounds::of(&range))
            }

            /// Removes the pair with the least key when the transaction is committed, and returns it; `None` if there is no pair. Every
            /// key up to that one counts as read. Fails as `get` and `put` do.
            pub fn pop_first(&self) -> Result<Option<(Key, Value)>> {
                self.pop(self.first()?)
            }

            /// As [`pop_first`](Self::pop_first), for the greatest key.
            pub fn pop_last(&self) -> Result<Option<(Key, Value)>> {
                self.pop(self.last()?)
            }

            fn pop(&self, pair: Option<(Key, Value)>) -> Result<Option<(Key, Value)>> {
                pair.map(|pair| self.delete(&pair.0).map(|()| pair)).transpose()
            }

            /// Stores a pair when the transaction is committed, unless the key has a value; returns true if it had none. Fails as
            /// `get` and `put` do.
            pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
                self.compare_and_swap(key, None::<&[u8]>, Some(value))
            }

            /// Replaces the key's value by `new` when the transaction is committed, if the value is `expected`; `None` is an absent key.
            /// Returns true if it was. Fails as `get` and `put` do.
            pub fn compare_and_swap(
                &self,
                key: impl AsRef<[u8]>,
                expected: Option<impl AsRef<[u8]>>,
                new: Option<impl AsRef<[u8]>>,
            ) -> Result<bool> {
                let expected = expected.as_ref().map(AsRef::as_ref);
                let matches = match self.get_with(&key, |value| Some(value) == expected)? {
                    Some(matches) => matches,
                    None => expected.is_none(),
                };
                match new {
                    Some(new) if matches => self.put(key, new)?,
                    None if matches => self.delete(key)?,
                    _ => {}
                }
                Ok(matches)
            }
        }
    };
}

writes!(Transaction);
writes!(TransactionView<'_>);

impl Drop for Transaction {
    fn drop(&mut self) {
        self.shared.touched.lock().take();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn assert<T: Send + Sync + 'static>() {}
    assert::<Transaction>();
};
