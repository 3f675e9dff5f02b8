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
#[cfg(test)]
mod tests;

use super::cursor::Cursor;
use super::handle::{Db, Handle};
use super::keyspace::{Keyspace, KeyspaceInner};
use super::range::Range;
use super::snapshot::Snapshot;
use super::write::KeyspaceWrite;
use crate::db::WriteOptions;
use crate::layout::{Op, PairCursor};
use crate::mvcc::KeySpan;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::random::{self, Rng};
use crate::sync::{Arc, Mutex, thread};
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::error::{Error, Result};
use crate::types::value::Value;
use bytes::Bytes;
use overlay::{Overlay, OverlayCursor};
use read_set::{Reads, TrackedCursor};
use std::time::Duration;

/// The first pause of `transact` after a conflict is at most this long: about what a commit takes.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
/// The pause doubles with each conflict up to this one.
const PAUSE_LONGEST: Duration = Duration::from_millis(5);

/// Reads and writes that take effect together at the moment when they are committed, or not at all.
///
/// ```
/// # fn main() -> cantle::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cantle::Db::open(dir.path().join("store"))?;
/// # db.put("seats/12A", "free")?;
/// let mut tx = db.transaction();
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
/// [`Db::transact`] does the same and runs it again after a conflict.
///
/// # What it sees
///
/// All reads are of one moment, that of [`Db::transaction`], with the transaction's own writes laid over it, in
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
/// Transactions are *strictly serializable*, together with puts, deletes, batches, [`update`](Db::update), range
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
/// It may be sent to other threads, and read by several at once.
#[must_use = "dropping a transaction rolls it back"]
pub struct Transaction {
    snapshot: Snapshot,
    shared: Arc<Shared>,
    /// By their place in `shared`. Copied when something is written while a range reads them.
    writes: Vec<Arc<Overlay>>,
}

/// What a transaction shares with its ranges and cursors.
pub(super) struct Shared {
    /// `None` once the transaction is over.
    read: Mutex<Option<Vec<Touched>>>,
}

/// A keyspace, and what was read of it.
struct Touched {
    keyspace: Arc<KeyspaceInner>,
    reads: Reads,
}

impl Shared {
    /// Notes reads of a keyspace, which reach callers only if this succeeds: nobody vouches for them when the
    /// transaction is over.
    fn note<T>(&self, keyspace: usize, note: impl FnOnce(&mut Reads) -> T) -> Result<T> {
        let mut read = self.read.lock();
        let touched = read.as_mut().and_then(|read| read.get_mut(keyspace));
        let over = || Error::InvalidArgument("the transaction of this range or cursor is over".into());
        touched.map(|touched| note(&mut touched.reads)).ok_or_else(over)
    }

    /// The place of a keyspace.
    fn place(&self, keyspace: &Arc<KeyspaceInner>) -> usize {
        let mut read = self.read.lock();
        let Some(read) = read.as_mut() else { return 0 };
        // Not by number: another store's may have the same.
        match read.iter().position(|touched| Arc::ptr_eq(&touched.keyspace, keyspace)) {
            Some(place) => place,
            None => {
                read.push(Touched { keyspace: keyspace.clone(), reads: Reads::default() });
                read.len() - 1
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
        let shared = Arc::new(Shared { read: Mutex::new(Some(Vec::new())) });
        Self { snapshot, shared, writes: Vec::new() }
    }

    fn own(&self) -> &Arc<KeyspaceInner> {
        &self.snapshot.handle.store.default
    }

    /// The key's value: what the transaction wrote, or else what was there when it began. Fails as
    /// [`Db::get`] does.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.own(), key.as_ref())
    }

    /// The key's value in a keyspace.
    pub fn get_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(&keyspace.inner, key.as_ref())
    }

    /// Lends the key's value to `read` without copying it.
    pub fn get_with<T>(&self, key: impl AsRef<[u8]>, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.read_with(self.own(), key.as_ref(), read)
    }

    /// Lends the key's value in a keyspace to `read` without copying it.
    pub fn get_with_in<T>(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.read_with(&keyspace.inner, key.as_ref(), read)
    }

    /// Whether the key has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// Whether the key has a value in a keyspace.
    pub fn contains_key_in(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_with_in(keyspace, key, |_| ())?.is_some())
    }

    /// Stores a pair when the transaction is committed. Fails as [`Db::put`] does for its arguments and in a store
    /// that cannot be written to; other errors come with the commit.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let own = self.own().clone();
        self.write(&own, key.as_ref(), Some(value.as_ref()))
    }

    /// Stores a pair in a keyspace.
    pub fn put_in(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write(&keyspace.inner, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key, if it is there, when the transaction is committed. Fails as `put` does.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let own = self.own().clone();
        self.write(&own, key.as_ref(), None)
    }

    /// Removes a key from a keyspace.
    pub fn delete_in(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(&keyspace.inner, key.as_ref(), None)
    }

    /// Removes every key of the range when the transaction is committed: those that it sees, those that it has put, and
    /// those that others put there meanwhile. Nothing is read, so nobody's put conflicts with it. What the transaction puts
    /// into the range later stays. Fails as `put` does.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        let own = self.own().clone();
        self.write_range(&own, Bounds::of(&range))
    }

    /// Removes every key of the range from a keyspace.
    pub fn delete_range_in(&mut self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        self.write_range(&keyspace.inner, Bounds::of(&range))
    }

    /// The pairs of the range, in order and from either end, with the writes made up to now. The transaction may
    /// write while the range is walked; what it writes then shows in later ranges. Once the transaction is over the
    /// range gives [`Error::InvalidArgument`].
    pub fn range(&self, range: impl KeyRange) -> Range {
        self.range_of(self.own(), Bounds::of(&range))
    }

    /// The pairs of the range in a keyspace.
    pub fn range_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Range {
        self.range_of(&keyspace.inner, Bounds::of(&range))
    }

    /// The pairs whose keys start with `prefix`, as a range has them. Under a comparator every pair is looked at,
    /// and counts as read.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_of(self.own(), prefix.as_ref())
    }

    /// The pairs of a keyspace whose keys start with `prefix`.
    pub fn prefix_in(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Range {
        self.prefix_of(&keyspace.inner, prefix.as_ref())
    }

    /// A cursor over the range, with the writes made up to now.
    pub fn cursor(&self, range: impl KeyRange) -> Cursor {
        self.cursor_of(self.own(), Bounds::of(&range))
    }

    /// A cursor over the range in a keyspace.
    pub fn cursor_in(&self, keyspace: &Keyspace, range: impl KeyRange) -> Cursor {
        self.cursor_of(&keyspace.inner, Bounds::of(&range))
    }

    /// Makes the writes take effect, as of now, provided that what was read still holds. Acknowledged at the store's
    /// durability. Without writes it does nothing and succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if it does not hold: run the transaction again. [`Error::NoKeyspace`] if a keyspace that
    /// was read or written has been dropped; otherwise as [`Db::write`]. Nothing was written then, unless the error
    /// says that a sync failed.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::new())
    }

    /// Commits, and may ask for more durability than the store's. If the checkpoint fails that this takes, it is committed all the same
    /// ([`Error::NotDurable`]).
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let touched = self.shared.read.lock().take().unwrap_or_default();
        let store = &self.snapshot.handle.store;
        let done = if self.writes.iter().all(|writes| writes.is_empty()) {
            store.check_open()
        } else {
            let parts =
                touched.into_iter().enumerate().map(|(place, Touched { keyspace, reads })| KeyspaceWrite {
                    ops: self.writes.get(place).map_or_else(Vec::new, |writes| writes.ops()),
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

    /// Forgets the writes. Dropping the transaction does the same.
    pub fn rollback(self) {
        drop(self);
    }

    /// What the transaction has written to a key. If it has not, the key counts as read.
    fn written(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Option<Bytes>>> {
        self.snapshot.check(keyspace)?;
        let place = self.shared.place(keyspace);
        let written = self.writes.get(place).and_then(|writes| writes.get(key));
        keyspace.order.check()?;
        if written.is_none() {
            self.shared.note(place, |reads| reads.add_key(key))?;
        }
        Ok(written)
    }

    fn read(&self, keyspace: &Arc<KeyspaceInner>, key: &[u8]) -> Result<Option<Value>> {
        let value = match self.written(keyspace, key)? {
            Some(written) => written,
            None => {
                let at = self.snapshot.guard.version();
                self.snapshot.handle.store.get(keyspace, key, at)?
            }
        };
        Ok(value.map(Value::new))
    }

    fn read_with<T>(
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

    fn write(&mut self, keyspace: &Arc<KeyspaceInner>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.snapshot.check(keyspace)?;
        let op = value.map_or_else(|| Op::delete(key), |value| Op::put(key, value));
        self.overlay(keyspace, op)?.set(Bytes::copy_from_slice(key), value.map(Bytes::copy_from_slice));
        Ok(())
    }

    fn write_range(&mut self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Result<()> {
        self.snapshot.check(keyspace)?;
        self.overlay(keyspace, Op::delete_range(&bounds))?.delete_range(bounds);
        Ok(())
    }

    /// Where an operation is to be noted, if it is one that the keyspace takes.
    fn overlay(&mut self, keyspace: &Arc<KeyspaceInner>, op: Op<'_>) -> Result<&mut Overlay> {
        self.snapshot.handle.store.check_ops(keyspace, &[op])?;
        let place = self.shared.place(keyspace);
        while self.writes.len() <= place {
            self.writes.push(Arc::default());
        }
        if self.writes[place].is_empty() {
            self.writes[place] = Arc::new(Overlay::new(keyspace.order.clone()));
        }
        Ok(Arc::make_mut(&mut self.writes[place]))
    }

    fn view(&self, keyspace: &Arc<KeyspaceInner>) -> View {
        let place = self.shared.place(keyspace);
        let overlay = self.writes.get(place).filter(|writes| !writes.is_empty()).cloned();
        View { shared: self.shared.clone(), place, overlay }
    }

    fn range_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Range {
        Range::new(&self.snapshot, keyspace, bounds).within(self.view(keyspace))
    }

    fn prefix_of(&self, keyspace: &Arc<KeyspaceInner>, prefix: &[u8]) -> Range {
        Range::with_prefix(&self.snapshot, keyspace, prefix).within(self.view(keyspace))
    }

    fn cursor_of(&self, keyspace: &Arc<KeyspaceInner>, bounds: Bounds) -> Cursor {
        Cursor::within(&self.snapshot, keyspace, bounds, &self.view(keyspace))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.shared.read.lock().take();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl Db {
    /// Begins a transaction, which reads the store as it is now. Waits for writes that are under way, as
    /// [`snapshot`](Self::snapshot) does.
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(&self.handle)
    }

    /// Runs a transaction and commits it, again and again until it has met no conflict, with pauses in between that
    /// grow to some milliseconds. Returns what the last run returned. `run` may therefore be called several times
    /// and should have no effects but on the transaction: if it writes what it has read past the transaction, it
    /// conflicts with itself for ever. Every conflict is another's success, so somebody always makes progress; a
    /// transaction that reads much, or for long, among many short ones may have to try often.
    ///
    /// ```
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cantle::Db::open(dir.path().join("store"))?;
    /// # db.put("ada", [10])?;
    /// # db.put("bob", [0])?;
    /// let left = db.transact(|tx| {
    ///     let (from, to) = (tx.get("ada")?.map_or(0, |n| n[0]), tx.get("bob")?.map_or(0, |n| n[0]));
    ///     tx.put("ada", [from - 3])?;
    ///     tx.put("bob", [to + 3])?;
    ///     Ok(from - 3)
    /// })?;
    /// assert_eq!(left, 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// What `run` returns; the transaction is then rolled back. What [`commit`](Transaction::commit) returns, save
    /// for conflicts.
    pub fn transact<T>(&self, mut run: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut rng: Option<Rng> = None;
        let mut pause = PAUSE_FIRST;
        loop {
            let mut transaction = self.transaction();
            let result = run(&mut transaction)?;
            match transaction.commit() {
                Err(error) if error.is_conflict() => {
                    // At random, lest those who met meet again.
                    let rng = rng.get_or_insert_with(|| Rng::new(random::u64()));
                    thread::sleep(Duration::from_nanos(rng.below(pause.as_nanos() as u64)));
                    pause = (pause * 2).min(PAUSE_LONGEST);
                }
                done => return done.map(|()| result),
            }
        }
    }
}

const _: fn() = || {
    fn assert<T: Send + Sync + 'static>() {}
    assert::<Transaction>();
};
