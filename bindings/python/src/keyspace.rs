//! A keyspace as a mapping.

use crate::batch::{WriteBatch, write_options};
use crate::bounds::{Asked, Keys, between};
use crate::bytes_like::{Key, Value, bytes};
use crate::comparator::PythonOrder;
use crate::cursor::Cursor;
use crate::db::DEFAULT_KEYSPACE;
use crate::errors;
use crate::gap::Gap;
use crate::many;
use crate::options::durability;
use crate::pair::Pair;
use crate::plyvel_batch::PlyvelBatch;
use crate::range::{Listing, Range};
use crate::repr;
use crate::retry::until_done;
use crate::snapshot::Snapshot;
use crate::store::{Part, Store};
use crate::to_python::plain;
use crate::transaction::Transaction;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::ffi::OsStr;
use std::ops::Bound as End;
use std::sync::Arc;

/// A keyspace as several Python objects share it.
#[derive(Clone)]
pub struct Space {
    pub part: Arc<Part<cantle::Keyspace>>,
    /// The order of its keys, if that is a Python function.
    pub order: Option<Arc<PythonOrder>>,
    /// True for the keyspace that a store's own operations work on.
    pub is_default: bool,
    pub name: Arc<str>,
}

impl Space {
    pub fn store(&self) -> &Arc<Store> {
        &self.part.store
    }

    /// Refuses a key that the keyspace's order cannot compare.
    #[inline]
    pub fn admit(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        match &self.order {
            None => Ok(()),
            Some(order) => order.admit(py, key),
        }
    }
}

/// The exception of a mapping for a key that it does not have.
#[cold]
pub fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// Decision on a key after its value was read.
enum Change {
    Keep,
    Put(Vec<u8>),
    Delete,
}

/// A named, ordered map from bytes to bytes within a store.
///
/// Keys are bytes-like, up to 1 MiB, or tuples, which are encoded (see encode_key); values are
/// bytes-like, up to 1 GiB. Every method may be called from any thread.
#[pyclass(frozen, subclass, weakref, module = "cantle")]
pub struct Keyspace {
    pub space: Space,
}

impl Keyspace {
    pub fn new(store: &Arc<Store>, keyspace: cantle::Keyspace, order: Option<Arc<PythonOrder>>) -> Self {
        let name: Arc<str> = keyspace.name().into();
        let is_default = &*name == DEFAULT_KEYSPACE;
        let part = Arc::new(Part::new(store, "keyspace", keyspace));
        Self { space: Space { part, order, is_default, name } }
    }

    #[inline]
    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<cantle::Value>> {
        self.space.admit(py, key)?;
        self.space.part.with(py, |keyspace| keyspace.get(key))
    }

    fn write(
        &self,
        py: Python<'_>,
        key: &[u8],
        value: Option<&[u8]>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        self.space.admit(py, key)?;
        let Some(durability) = durability else {
            return self.space.part.with(py, |keyspace| match value {
                Some(value) => keyspace.put(key, value),
                None => keyspace.delete(key),
            });
        };
        let options = write_options(Some(self::durability(durability)?));
        let mut batch = cantle::WriteBatch::new();
        self.space.part.peek(|keyspace| {
            let mut batch = batch.keyspace(keyspace);
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        })?;
        self.space.store().with(py, |db| db.write_with(batch, options))
    }

    fn list(&self, py: Python<'_>, asked: &Asked<'_>, listing: &Listing) -> PyResult<Range> {
        let keys = asked.keys(self.space.order.as_ref())?;
        self.space.part.with(py, |keyspace| {
            let range = match keys {
                Keys::Between(bounds) => keyspace.range(bounds),
                Keys::Prefix(prefix) => keyspace.prefix(prefix),
            };
            Ok(Range::new(self.space.store(), &self.space.name, range, listing))
        })
    }

    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Range>> {
        Bound::new(py, self.list(py, &Asked::default(), &Listing::new(false, None)?)?)
    }

    /// Replaces a key's value as `decide` says, atomically. `decide` may run several times.
    fn change<T>(
        &self,
        py: Python<'_>,
        key: &[u8],
        mut decide: impl FnMut(Option<cantle::Value>) -> PyResult<(Change, T)>,
    ) -> PyResult<T> {
        until_done(py, || {
            let transaction = Transaction::begin(py, self.space.store(), self.space.clone(), None)?;
            let (change, outcome) = decide(transaction.read(py, key)?)?;
            match change {
                Change::Keep => return Ok(Some(outcome)),
                Change::Put(value) => transaction.write(py, key, Some(&value))?,
                Change::Delete => transaction.write(py, key, None)?,
            }
            Ok(transaction.try_commit(py)?.then_some(outcome))
        })
    }
}

#[pymethods]
impl Keyspace {
    /// The keyspace's name.
    #[getter]
    fn name(&self) -> &str {
        &self.space.name
    }

    /// The name of the keyspace's order: the name of a comparator, or "cantle.bytewise".
    #[getter]
    fn comparator(&self) -> PyResult<String> {
        self.space.part.peek(|keyspace| keyspace.comparator_name().to_owned())
    }

    /// Bytes that the application stores with the keyspace; at most 64 KiB. Durable once set.
    #[getter]
    fn get_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let metadata = self.space.part.with(py, |keyspace| Ok(keyspace.metadata()))?;
        Ok(PyBytes::new(py, &metadata))
    }

    #[setter]
    fn set_metadata(&self, py: Python<'_>, metadata: Value<'_>) -> PyResult<()> {
        let metadata = metadata.as_ref();
        self.space.part.with(py, |keyspace| keyspace.set_metadata(metadata))
    }

    /// Replaces the metadata by new if it equals expected, atomically. Returns True if the metadata
    /// was replaced.
    fn compare_and_swap_metadata(
        &self,
        py: Python<'_>,
        expected: Value<'_>,
        new: Value<'_>,
    ) -> PyResult<bool> {
        let (expected, new) = (expected.as_ref(), new.as_ref());
        self.space.part.with(py, |keyspace| keyspace.compare_and_swap_metadata(expected, new))
    }

    /// The key's value, or default.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: Key<'_>, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.read(py, key.as_ref())?.map(|value| bytes(py, &value)).or(default))
    }

    /// The values of many keys, as a list in the order of the keys and as of one moment; None for a
    /// key that is absent. The device reads for many keys at the same time: keys that are in no
    /// cache take a fraction of the time that as many calls of get() take.
    ///
    /// errors says what happens if a key cannot be read, as when its bytes are damaged. "raise"
    /// raises the first error in the order of the keys, once all were read. "return" puts each
    /// key's exception in the place of its value. Keys of wrong types always raise TypeError.
    #[pyo3(signature = (keys, errors="raise"))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        many::list(py, &self.space, keys, errors, |keys| {
            self.space.part.with(py, |keyspace| Ok(keyspace.get_many(keys)))
        })
    }

    /// Stores a pair. durability, "process" or "sync", asks for more than the store's own
    /// durability.
    #[pyo3(signature = (key, value, *, durability=None))]
    fn put(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>, durability: Option<&str>) -> PyResult<()> {
        self.write(py, key.as_ref(), Some(value.as_ref()), durability)
    }

    /// Removes a key, if it is there.
    #[pyo3(signature = (key, *, durability=None))]
    fn delete(&self, py: Python<'_>, key: Key<'_>, durability: Option<&str>) -> PyResult<()> {
        self.write(py, key.as_ref(), None, durability)
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.read(py, key.extract::<Key<'_>>()?.as_ref())?;
        value.map(|value| bytes(py, &value)).ok_or_else(|| missing(key))
    }

    fn __setitem__(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<()> {
        self.write(py, key.as_ref(), Some(value.as_ref()), None)
    }

    /// As for a dict: raises KeyError if there is no such key. delete() does not check.
    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = key.extract::<Key<'_>>()?;
        self.change(py, bytes.as_ref(), |old| match old {
            Some(_) => Ok((Change::Delete, ())),
            None => Err(missing(key)),
        })
    }

    fn __contains__(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        let key = key.as_ref();
        self.space.admit(py, key)?;
        self.space.part.with(py, |keyspace| keyspace.contains_key(key))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.all(py)?.call_method0("only_keys").map(Bound::unbind)
    }

    /// All keys in order, at this moment.
    fn keys(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.__iter__(py)
    }

    /// All values in the order of their keys, at this moment.
    fn values(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.all(py)?.call_method0("only_values").map(Bound::unbind)
    }

    /// All pairs in order, at this moment.
    fn items(&self, py: Python<'_>) -> PyResult<Range> {
        self.list(py, &Asked::default(), &Listing::new(false, None)?)
    }

    /// Replaces the key's value by change(value), atomically, and returns the new value. None
    /// stands for no value, as argument and as result. An exception of change leaves everything as
    /// it is. change may be called several times, and must not write to the key by itself.
    #[pyo3(signature = (key, change, /))]
    fn update(&self, py: Python<'_>, key: Key<'_>, change: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        if !change.is_callable() {
            return Err(PyTypeError::new_err("change is a function of the old value"));
        }
        self.change(py, key.as_ref(), |old| {
            let had = old.is_some();
            let new = change.call1((old.map(|old| bytes(py, &old)),))?;
            if new.is_none() {
                return Ok((if had { Change::Delete } else { Change::Keep }, None));
            }
            let value = new.extract::<Value<'_>>()?.0.into_vec();
            let result = bytes(py, &value);
            Ok((Change::Put(value), Some(result)))
        })
    }

    /// Removes the key and returns its value, atomically. If there is no such key it returns
    /// default, or raises KeyError if no default was given.
    #[pyo3(signature = (key, *default))]
    fn pop(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        default: &Bound<'_, PyTuple>,
    ) -> PyResult<Py<PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let bytes_of_key = key.extract::<Key<'_>>()?;
        self.change(py, bytes_of_key.as_ref(), |old| match old {
            Some(old) => Ok((Change::Delete, bytes(py, &old))),
            None => match default.get_item(0) {
                Ok(default) => Ok((Change::Keep, default.unbind())),
                Err(_) => Err(missing(key)),
            },
        })
    }

    /// Returns the key's value. A key without a value gets value, which is returned. Atomic.
    #[pyo3(signature = (key, value, /))]
    fn setdefault(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<Py<PyAny>> {
        self.change(py, key.as_ref(), |old| {
            Ok(match old {
                Some(old) => (Change::Keep, bytes(py, &old)),
                None => (Change::Put(value.as_ref().to_vec()), bytes(py, value.as_ref())),
            })
        })
    }

    /// Stores a pair unless the key has a value, atomically. Returns True if the pair was stored.
    fn insert_if_absent(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<bool> {
        self.compare_and_swap(py, key, None, Some(value))
    }

    /// Replaces the key's value by new if the value equals expected, atomically. None stands for no
    /// value. Returns True if the value was replaced.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Key<'_>,
        expected: Option<Value<'_>>,
        new: Option<Value<'_>>,
    ) -> PyResult<bool> {
        self.space.admit(py, key.as_ref())?;
        let (key, expected, new) = (key.as_ref(), expected.as_ref(), new.as_ref());
        let (expected, new) = (expected.map(AsRef::as_ref), new.map(AsRef::as_ref));
        self.space.part.with(py, |keyspace| keyspace.compare_and_swap(key, expected, new))
    }

    /// The pair with the least key, or None.
    fn first(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        Ok(self.space.part.with(py, cantle::Keyspace::first)?.map(Pair::from))
    }

    /// The pair with the greatest key, or None.
    fn last(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        Ok(self.space.part.with(py, cantle::Keyspace::last)?.map(Pair::from))
    }

    /// Removes the pair with the least key and returns it, atomically, or None. Each pair is
    /// returned to one caller only.
    fn pop_first(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        Ok(self.space.part.with(py, cantle::Keyspace::pop_first)?.map(Pair::from))
    }

    /// As pop_first(), for the greatest key.
    fn pop_last(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        Ok(self.space.part.with(py, cantle::Keyspace::pop_last)?.map(Pair::from))
    }

    /// Estimated number of pairs. sum(1 for _ in keyspace) is exact and reads every pair.
    fn len_estimate(&self, py: Python<'_>) -> PyResult<u64> {
        self.space.part.with(py, cantle::Keyspace::len_estimate)
    }

    /// The pairs from start to stop in key order, at this moment. stop is excluded unless
    /// include_stop is true.
    ///
    /// With prefix: the pairs whose keys begin with it. A tuple is a prefix of the tuples that
    /// begin with its parts.
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

    /// The pairs whose keys begin with prefix, at this moment.
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

    /// A cursor over the keys from start to stop, at this moment. A new cursor is at no pair until
    /// a seek.
    #[pyo3(signature = (start=None, stop=None, *, include_start=true, include_stop=false))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_start: bool,
        include_stop: bool,
    ) -> PyResult<Cursor> {
        let keys = between(self.space.order.as_ref(), start, stop, include_start, include_stop)?;
        self.space.part.with(py, |keyspace| Ok(Cursor::new(&self.space, keyspace.cursor(keys))))
    }

    /// Removes every key from start to stop, atomically. stop is excluded. None stands for the end
    /// of the keyspace.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let keys = between(self.space.order.as_ref(), start, stop, true, false)?;
        self.space.part.with(py, |keyspace| keyspace.delete_range(keys))
    }

    /// Approximate bytes on disk of the keys from start to stop, garbage included. Reads no pairs.
    #[pyo3(signature = (start=None, stop=None))]
    fn approximate_bytes(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let keys = between(self.space.order.as_ref(), start, stop, true, false)?;
        self.space.part.with(py, |keyspace| keyspace.approximate_bytes(keys))
    }

    /// Rewrites the keys from start to stop now, sorted and without garbage. The store does so by
    /// itself when it is due, so no program needs this call.
    #[pyo3(signature = (start=None, stop=None))]
    fn compact_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let keys = between(self.space.order.as_ref(), start, stop, true, false)?;
        self.space.part.with(py, |keyspace| keyspace.compact_range(keys))
    }

    /// The key ranges that the layout manages, in key order: a dict for each.
    fn regions(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let regions = self.space.part.with(py, |keyspace| keyspace.regions())?;
        let dicts = plain(py, &regions)?;
        for (region, dict) in regions.iter().zip(dicts.bind(py).try_iter()?) {
            dict?.set_item("start", bytes(py, &region.start))?;
        }
        Ok(dicts)
    }

    /// The keyspace's counters and sizes, as a dict.
    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self.space.part.with(py, |keyspace| Ok(keyspace.stats()))?)
    }

    /// A batch of writes that take effect together at the end of its with statement.
    #[pyo3(signature = (*, durability=None))]
    fn write_batch(&self, durability: Option<&str>) -> PyResult<WriteBatch> {
        self.space.store().check()?;
        let durability = durability.map(self::durability).transpose()?;
        Ok(WriteBatch::new(self.space.store().clone(), self.space.clone(), durability))
    }

    /// The store as it is now, until the snapshot is closed.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let store = self.space.store();
        store.with(py, |db| Ok(Snapshot::new(store, self.space.clone(), db.snapshot())))
    }

    /// A transaction. The end of its with statement commits it.
    #[pyo3(signature = (*, durability=None))]
    fn transaction(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<Transaction> {
        let durability = durability.map(self::durability).transpose()?;
        Transaction::begin(py, self.space.store(), self.space.clone(), durability)
    }

    /// Calls run with a transaction and commits it; repeats both until the commit meets no
    /// conflict. Returns the result of the last call. run should have no effects except on the
    /// transaction. An exception of run rolls back and is raised.
    #[pyo3(signature = (run, /, *, durability=None))]
    fn transact(
        &self,
        py: Python<'_>,
        run: &Bound<'_, PyAny>,
        durability: Option<&str>,
    ) -> PyResult<Py<PyAny>> {
        let durability = durability.map(self::durability).transpose()?;
        until_done(py, || {
            let transaction = Transaction::begin(py, self.space.store(), self.space.clone(), durability)?;
            let transaction = Bound::new(py, transaction)?;
            let returned = run.call1((&transaction,));
            let transaction = transaction.get();
            // The transaction's state decides on another run. An exception of another kind is the
            // caller's own.
            let is_own = |error: &PyErr| !errors::is_conflict(py, error);
            if transaction.has_conflicted() && !returned.as_ref().is_err_and(is_own) {
                return Ok(None);
            }
            let Ok(returned) = returned else {
                transaction.rollback(py);
                return returned.map(|object| Some(object.unbind()));
            };
            // `run` may have committed or rolled back.
            let is_done = transaction.is_over() || transaction.try_commit(py)?;
            Ok(is_done.then(|| returned.unbind()))
        })
    }

    /// For cantle.plyvel: a batch that puts a prefix before each key.
    #[pyo3(signature = (prefix, transaction, sync, /))]
    fn _plyvel_batch(&self, prefix: &[u8], transaction: bool, sync: bool) -> PyResult<PlyvelBatch> {
        self.space.store().check()?;
        Ok(PlyvelBatch::new(self.space.clone(), prefix.to_vec(), transaction, sync))
    }

    /// For cantle.plyvel: an iterator over pairs between two ends, in either direction.
    #[pyo3(signature = (start, stop, include_start, include_stop, flags, cut, snapshot, /))]
    #[expect(clippy::too_many_arguments, reason = "called in one place")]
    fn _gap(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        stop: Option<&[u8]>,
        include_start: bool,
        include_stop: bool,
        flags: (bool, bool, bool),
        cut: &[u8],
        snapshot: Option<&Bound<'_, Snapshot>>,
    ) -> PyResult<Gap> {
        for key in [start, stop].into_iter().flatten() {
            self.space.admit(py, key)?;
        }
        let end = |key: Option<&[u8]>, include: bool| match key {
            None => End::Unbounded,
            Some(key) if include => End::Included(key.to_vec()),
            Some(key) => End::Excluded(key.to_vec()),
        };
        let keys = (end(start, include_start), end(stop, include_stop));
        let part = &self.space.part;
        let make = |cursor| Ok(Gap::new(&self.space, cursor, flags, cut.to_vec()));
        match snapshot {
            None => part.with(py, |keyspace| make(keyspace.cursor(keys))),
            Some(snapshot) => {
                let snapshot = &snapshot.get().part;
                snapshot
                    .with_in(py, part, |snapshot, keyspace| make(snapshot.keyspace(keyspace).cursor(keys)))
            }
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let name = repr::quoted(py, OsStr::new(&*self.space.name));
        let store = self.space.store();
        let of = repr::quoted(py, store.path.as_os_str());
        let state = match (store.is_forked(), store.is_closed()) {
            (true, _) => " (forked)",
            (false, true) => " (closed)",
            (false, false) => "",
        };
        format!("<cantle.Keyspace {name} of {of}{state}>")
    }
}
