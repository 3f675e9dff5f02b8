//! Reads and writes that take effect together.

use crate::batch::write_options;
use crate::bounds::{Asked, Keys, between};
use crate::bytes_like::{Key, Value, bytes};
use crate::keyspace::{Keyspace, Space, missing};
use crate::many;
use crate::pair::{Pair, end};
use crate::range::{Listing, Range};
use crate::repr::{Shown, counted};
use crate::store::{Part, Store};
use crate::typed;
use cantle::Durability;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Reads of one moment, and writes that take effect together at commit() or at the end of a with
/// statement. If another writer has changed what the transaction read, the commit raises
/// ConflictError and writes nothing; DB.transact runs the transaction again then.
///
/// An exception within the with statement rolls back. Reads of the transaction see its own writes.
/// Its methods use the keyspace that it was begun on; keyspace() returns a view of the same
/// transaction on another keyspace.
#[pyclass(frozen, module = "cantle")]
pub struct Transaction {
    part: Arc<Part<cantle::Transaction>>,
    own: Space,
    durability: Option<Durability>,
    progress: Arc<Progress>,
}

/// State that the views of one transaction share.
#[derive(Default)]
struct Progress {
    /// Writes so far; two writes of one key are two.
    writes: AtomicU64,
    end: OnceLock<End>,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Committed,
    /// A commit met a conflict.
    Conflicted,
    /// A commit met another error.
    Failed,
    RolledBack,
}

impl End {
    fn of(done: &cantle::Result<()>) -> Self {
        match done {
            Ok(()) | Err(cantle::Error::NotDurable { .. }) => Self::Committed,
            Err(error) if error.is_conflict() => Self::Conflicted,
            Err(_) => Self::Failed,
        }
    }
}

impl Progress {
    fn count(&self, wrote: bool) {
        self.writes.fetch_add(wrote.into(), Relaxed);
    }

    /// The first end counts: after it the transaction has no content that could end.
    fn finish(&self, end: End) {
        let _ = self.end.set(end);
    }
}

impl Transaction {
    pub fn begin(
        py: Python<'_>,
        store: &Arc<Store>,
        own: Space,
        durability: Option<Durability>,
    ) -> PyResult<Self> {
        store.with(py, |db| {
            let part = Arc::new(Part::new(store, "transaction", db.transaction()));
            Ok(Self { part, own, durability, progress: Arc::default() })
        })
    }

    pub fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<cantle::Value>> {
        let space = &self.own;
        space.admit(py, key)?;
        self.part.with_in(py, &space.part, |transaction, keyspace| transaction.keyspace(keyspace).get(key))
    }

    /// Writes a value, or deletes the key.
    pub fn write(&self, py: Python<'_>, key: &[u8], value: Option<&[u8]>) -> PyResult<()> {
        let space = &self.own;
        space.admit(py, key)?;
        self.part.with_in(py, &space.part, |transaction, keyspace| match value {
            Some(value) => transaction.keyspace(keyspace).put(key, value),
            None => transaction.keyspace(keyspace).delete(key),
        })?;
        self.progress.count(true);
        Ok(())
    }

    /// Commits. Returns false after a conflict.
    pub fn try_commit(&self, py: Python<'_>) -> PyResult<bool> {
        let options = write_options(self.durability);
        self.part.consume(py, |transaction| {
            let done = transaction.commit_with(options);
            self.progress.finish(End::of(&done));
            match done {
                Err(error) if error.is_conflict() => Ok(false),
                done => done.map(|()| true),
            }
        })
    }

    /// True if a commit of its own has met a conflict.
    pub fn has_conflicted(&self) -> bool {
        self.progress.end.get() == Some(&End::Conflicted)
    }

    pub fn is_over(&self) -> bool {
        self.part.is_released()
    }

    fn list(&self, py: Python<'_>, asked: &Asked<'_>, listing: &Listing) -> PyResult<Range> {
        let space = &self.own;
        let keys = asked.keys(space.order.as_ref())?;
        self.part.with_in(py, &space.part, |transaction, keyspace| {
            let range = match keys {
                Keys::Between(bounds) => transaction.keyspace(keyspace).range(bounds),
                Keys::Prefix(prefix) => transaction.keyspace(keyspace).prefix(prefix),
            };
            Ok(Range::one_by_one(&self.part.store, &space.name, range, listing))
        })
    }
}

#[pymethods]
impl Transaction {
    /// A view of the same transaction on another keyspace. Committing either commits both.
    #[pyo3(signature = (keyspace, /))]
    fn keyspace(&self, keyspace: &Bound<'_, Keyspace>) -> Self {
        Self {
            part: self.part.clone(),
            own: keyspace.get().space.clone(),
            durability: self.durability,
            progress: self.progress.clone(),
        }
    }

    /// A view of the same transaction on a typed keyspace, with its types; a TypedTransaction.
    #[pyo3(signature = (typed, /))]
    fn typed<'py>(self_: &Bound<'py, Self>, typed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        typed::call(self_.py(), "TypedTransaction", (self_, typed))
    }

    /// The pair with the least key, or None.
    fn first(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        end(py, &self.part, &self.own, |transaction, keyspace| transaction.keyspace(keyspace).first())
    }

    /// The pair with the greatest key, or None.
    fn last(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        end(py, &self.part, &self.own, |transaction, keyspace| transaction.keyspace(keyspace).last())
    }

    /// Removes the pair with the least key when the transaction is committed, and returns it, or
    /// None. Every key up to that one counts as read.
    fn pop_first(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        let pair = end(py, &self.part, &self.own, |transaction, keyspace| {
            transaction.keyspace(keyspace).pop_first()
        })?;
        self.progress.count(pair.is_some());
        Ok(pair)
    }

    /// As pop_first(), for the greatest key.
    fn pop_last(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        let pair = end(py, &self.part, &self.own, |transaction, keyspace| {
            transaction.keyspace(keyspace).pop_last()
        })?;
        self.progress.count(pair.is_some());
        Ok(pair)
    }

    /// Stores a pair when the transaction is committed, unless the key has a value. Returns True if
    /// the pair will be stored.
    fn insert_if_absent(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<bool> {
        self.compare_and_swap(py, key, None, Some(value))
    }

    /// Replaces the key's value by new when the transaction is committed, if the value equals
    /// expected. None stands for no value. Returns True if the value will be replaced.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        expected: Option<Value<'_>>,
        new: Option<Value<'_>>,
    ) -> PyResult<bool> {
        self.own.admit(py, key.as_ref())?;
        let (key, expected, new) = (key.as_ref(), expected.as_ref(), new.as_ref());
        let (expected, new) = (expected.map(AsRef::as_ref), new.map(AsRef::as_ref));
        let swapped = self.part.with_in(py, &self.own.part, |transaction, keyspace| {
            transaction.keyspace(keyspace).compare_and_swap(key, expected, new)
        })?;
        self.progress.count(swapped);
        Ok(swapped)
    }

    /// The key's value as the transaction sees it, or default.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: Key<'_>, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.read(py, key.as_ref())?.map(|value| bytes(py, &value)).or(default))
    }

    /// The values of many keys as the transaction sees them, as Keyspace.get_many. Every key counts
    /// as read.
    #[pyo3(signature = (keys, errors="raise"))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let space = &self.own;
        many::list(py, space, keys, errors, |keys| {
            self.part.with_in(py, &space.part, |transaction, keyspace| {
                Ok(transaction.keyspace(keyspace).get_many(keys))
            })
        })
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.read(py, key.extract::<Key<'_>>()?.as_ref())?;
        value.map(|value| bytes(py, &value)).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        Ok(self.read(py, key.as_ref())?.is_some())
    }

    /// Stores a pair when the transaction is committed.
    #[pyo3(signature = (key, value))]
    fn put(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<()> {
        self.write(py, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key, if it is there, when the transaction is committed.
    #[pyo3(signature = (key))]
    fn delete(&self, py: Python<'_>, key: Key<'_>) -> PyResult<()> {
        self.write(py, key.as_ref(), None)
    }

    /// Removes every key from start to stop when the transaction is committed. stop is excluded.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let space = &self.own;
        let keys = between(space.order.as_ref(), start, stop, true, false)?;
        self.part.with_in(py, &space.part, |transaction, keyspace| {
            transaction.keyspace(keyspace).delete_range(keys)
        })?;
        self.progress.count(true);
        Ok(())
    }

    fn __setitem__(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<()> {
        self.write(py, key.as_ref(), Some(value.as_ref()))
    }

    /// As for a dict: raises KeyError if the transaction does not see the key.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = key.extract::<Key<'_>>()?;
        if self.read(py, bytes.as_ref())?.is_none() {
            return Err(missing(key));
        }
        self.write(py, bytes.as_ref(), None)
    }

    /// The pairs from start to stop, as Keyspace.range, including the transaction's own writes up
    /// to now. Pairs count as read once the range has yielded them.
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, limit=None,
        include_start=true, include_stop=false))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
        prefix: Option<Bound<'py, PyAny>>,
        reverse: bool,
        limit: Option<&Bound<'py, PyAny>>,
        include_start: bool,
        include_stop: bool,
    ) -> PyResult<Range> {
        let asked = Asked { start, stop, include_start, include_stop, prefix };
        self.list(py, &asked, &Listing::new(reverse, limit)?)
    }

    /// The pairs whose keys begin with prefix.
    #[pyo3(signature = (prefix, *, reverse=false, limit=None))]
    fn prefix<'py>(
        &self,
        py: Python<'py>,
        prefix: Bound<'py, PyAny>,
        reverse: bool,
        limit: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Range> {
        let asked = Asked { prefix: Some(prefix), ..Asked::default() };
        self.list(py, &asked, &Listing::new(reverse, limit)?)
    }

    /// Makes the writes take effect now. Raises ConflictError, and writes nothing, if another
    /// writer has changed what the transaction read. The transaction is over either way.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let options = write_options(self.durability);
        self.part.consume(py, |transaction| {
            let done = transaction.commit_with(options);
            self.progress.finish(End::of(&done));
            done
        })
    }

    /// Discards the writes. The transaction is over.
    pub fn rollback(&self, py: Python<'_>) {
        if !self.is_over() {
            self.progress.finish(End::RolledBack);
        }
        self.part.release(py);
    }

    /// True once the transaction was committed or rolled back, or its store closed.
    #[getter]
    fn closed(&self) -> bool {
        self.is_over()
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        self_.part.peek(|_| ())?;
        Ok(self_)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|raised| !raised.is_none()) {
            self.rollback(py);
            return Ok(());
        }
        // The body of the statement may have committed or rolled back.
        self.part.store.check()?;
        if self.is_over() { Ok(()) } else { self.commit(py) }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown =
            Shown { class: "cantle.Transaction", store: &self.part.store, keyspace: Some(&self.own.name) };
        shown.text(py, |details| {
            details.push(counted(self.progress.writes.load(Relaxed), "write"));
            match self.progress.end.get() {
                Some(End::Committed) => Some("committed"),
                Some(End::Conflicted) => Some("not committed: conflict"),
                Some(End::Failed) => Some("not committed: error"),
                Some(End::RolledBack) => Some("rolled back"),
                None => self.part.is_released().then_some("closed"),
            }
        })
    }
}
