//! Optimistic, serializable transactions.
//!
//! A transaction reads at a snapshot, overlaid with its own writes ([`overlay`]), and records the
//! keys and ranges that it reads ([`read_set`]). Its commit locks the keys that were read and those
//! that are written, validates that nothing that was read has changed since the snapshot, and
//! writes like a batch. `layout` describes the steps, and why they result in a serial order.

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
use super::pop::End;
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

/// Reads and writes that take effect together at the moment of the commit, or not at all.
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
/// # Visibility
///
/// All reads see the store at one moment, that of [`Db::transaction`](crate::Db::transaction),
/// overlaid with the transaction's own writes. This is true for ranges and cursors too, with the
/// writes made before they were created. Nobody else sees the writes before
/// [`commit`](Self::commit). If the transaction is dropped or [rolled back](Self::rollback), they
/// are discarded.
///
/// # Conflicts
///
/// A commit fails with [`Error::Conflict`] if, since the transaction began, another writer has
/// written to
///
/// * a key that the transaction looked up, found or not, or
/// * a key of a range, as far as the range was consumed. `tx.range(..).take(10)` reads up to the
///   tenth pair, and `tx.range(..).rev().take(10)` from the end down to the tenth pair from there.
///   A cursor reads everything that it moves across.
///
/// Any put, delete or range delete counts, even a put of the same value. If a key was absent and is
/// absent again, a put and a delete in between may go unnoticed.
///
/// Keys that a transaction only writes do not conflict, and neither do ranges that it deletes.
/// Lookups of keys that the transaction wrote or deleted before do not count, but pairs that a
/// range or cursor moves across always count. A transaction that wrote nothing never conflicts.
///
/// # Isolation
///
/// Transactions are *strictly serializable* together with puts, deletes, batches,
/// [`update`](crate::Db::update), range deletes and snapshots: all of them could have happened one
/// at a time, each at a moment between its call and its return. The same is true for gets together
/// with transactions that wrote something. For a get together with a snapshot (or with a
/// transaction that only read), see the crate's `ARCHITECTURE.md`. The reads of a transaction are
/// consistent even if it is not committed. Creating and dropping keyspaces is outside of this
/// order.
///
/// # Cost
///
/// The reads and writes of a transaction are kept in memory until its end, outside of the store's
/// memory budget: about a hundred bytes and the key for each key looked up, two keys for each
/// range, each seek of a cursor and each deleted range, and the pairs written. A commit locks the
/// chunks of all these, so that other writers of the chunks wait for its microseconds. If a chunk
/// was written to since the transaction began, the commit reads what was written. Like a snapshot,
/// an open transaction makes the store keep the versions that it sees.
///
/// # Threads
///
/// A transaction may be sent to other threads, and several threads may use it at once. Each read
/// and each write is a step of its own: if two threads call [`pop_first`](Self::pop_first) on one
/// transaction at the same time, both may get the same pair.
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction {
    snapshot: Snapshot,
    shared: Arc<Shared>,
}

/// A view of a transaction that reads and writes one keyspace: see [`Transaction::keyspace`].
#[derive(Debug, Clone, Copy)]
pub struct TransactionView<'a> {
    pub(super) transaction: &'a Transaction,
    pub(super) keyspace: &'a Arc<KeyspaceInner>,
}

/// The state that a transaction shares with its ranges and cursors.
pub(super) struct Shared {
    /// The keyspaces that the transaction has read or written; `None` once the transaction is over.
    touched: Mutex<Option<Vec<Touched>>>,
}

/// A keyspace, with the reads of it and the writes to it.
struct Touched {
    keyspace: Arc<KeyspaceInner>,
    reads: Reads,
    /// Copied by a write while a range or cursor uses it.
    writes: Arc<Overlay>,
}

impl Shared {
    /// Calls `change` with the reads and writes of the keyspace at `place`. A read is returned to
    /// the caller only if this succeeds: once the transaction is over, no commit validates it.
    fn with<T>(&self, place: usize, change: impl FnOnce(&mut Touched) -> T) -> Result<T> {
        let mut touched = self.touched.lock();
        let touched = touched.as_mut().and_then(|touched| touched.get_mut(place));
        let over = || Error::InvalidArgument("the transaction of this range or cursor is over".into());
        touched.map(change).ok_or_else(over)
    }

    /// The place of a keyspace in `touched`, which is added if it is not there.
    fn place(&self, keyspace: &Arc<KeyspaceInner>) -> usize {
        let mut touched = self.touched.lock();
        let Some(touched) = touched.as_mut() else { return 0 };
        // Not compared by number: a keyspace of another store may have the same.
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

/// The state of a keyspace that a range or a cursor of a transaction sees: that at the creation of
/// the range or cursor.
pub(super) struct View {
    shared: Arc<Shared>,
    place: usize,
    overlay: Option<Arc<Overlay>>,
}

impl View {
    /// A cursor over the pairs that the transaction sees. It records the keys that it moves across
    /// as read. `base` is a cursor over the snapshot.
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

    /// Makes the writes take effect now, if nothing that was read has changed. When this returns,
    /// the writes have the durability of the store. Without writes, it does nothing and succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if something has changed: run the transaction again.
    /// [`Error::NoKeyspace`] if a keyspace that was read or written has been dropped; otherwise the
    /// same as those of [`Db::write`](crate::Db::write). Nothing was written then, unless the error
    /// says that a sync failed.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::new())
    }

    /// Commits with options, such as more durability than the store's. If the checkpoint for this
    /// fails, the transaction is committed all the same, and the error is [`Error::NotDurable`].
    /// Otherwise the same as [`commit`](Self::commit).
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

    /// Discards the writes, as dropping the transaction does.
    pub fn rollback(self) {
        drop(self);
    }

    /// The value or the delete that the transaction has written to a key. If there is none, records
    /// the key as read.
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

    /// Calls `answer` with the number of each key and its value. All keys count as read.
    pub(super) fn read_many(
        &self,
        keyspace: &Arc<KeyspaceInner>,
        keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
        mut answer: impl FnMut(usize, Result<Option<Bytes>>),
    ) {
        let (mut own, mut numbers, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (number, key) in keys.into_iter().enumerate() {
            match self.written(keyspace, key.as_ref()).transpose() {
                Some(written) => own.push((number, written)),
                None => {
                    numbers.push(number);
                    others.push(key);
                }
            }
        }
        own.into_iter().for_each(|(number, written)| answer(number, written));
        self.snapshot.read_many(keyspace, others, |place, found| answer(numbers[place], found));
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

    /// Adds an operation to the writes of a keyspace, if the store accepts the operation.
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
            /// Stores a pair when the transaction is committed. Fails as
            /// [`Db::put`](crate::Db::put) does for invalid arguments and in a store that cannot be
            /// written to. Other errors come with the commit.
            pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write(keyspace, key.as_ref(), Some(value.as_ref()))
            }

            /// Removes a key, if it is there, when the transaction is committed. Fails as `put` does.
            pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write(keyspace, key.as_ref(), None)
            }

            /// Removes every key of the range when the transaction is committed: keys that the
            /// transaction sees, keys that it has put, and keys that other writers have put there
            /// before the commit. Reads nothing, so no put of another writer conflicts with it.
            /// Pairs that the transaction puts into the range later stay. Fails as `put` does.
            pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
                let (transaction, keyspace) = self.target();
                transaction.write_range(keyspace, Bounds::of(&range))
            }

            /// Removes the pair with the least key when the transaction is committed, and returns
            /// it; `None` if there is no pair. Every key up to that one counts as read. Fails as
            /// `get` and `put` do.
            pub fn pop_first(&self) -> Result<Option<(Key, Value)>> {
                self.pop_as(End::First, |key, value| Ok((key, value)))
            }

            /// The same as [`pop_first`](Self::pop_first), for the pair with the greatest key.
            pub fn pop_last(&self) -> Result<Option<(Key, Value)>> {
                self.pop_as(End::Last, |key, value| Ok((key, value)))
            }

            /// As `pop_as` of a keyspace.
            pub(crate) fn pop_as<T>(
                &self,
                end: End,
                mut accept: impl FnMut(Key, Value) -> Result<T>,
            ) -> Result<Option<T>> {
                let pair = match end {
                    End::First => self.first()?,
                    End::Last => self.last()?,
                };
                let Some((key, value)) = pair else { return Ok(None) };
                let accepted = accept(key.clone(), value)?;
                self.delete(key).map(|()| Some(accepted))
            }

            /// Stores a pair when the transaction is committed, if the key is absent. Returns true
            /// if the key was absent. Fails as `get` and `put` do.
            pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
                self.compare_and_swap(key, None::<&[u8]>, Some(value))
            }

            /// Replaces the key's value by `new` when the transaction is committed, if the value is
            /// `expected`. `None` stands for an absent key. Returns true if the value was
            /// `expected`. Fails as `get` and `put` do.
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
