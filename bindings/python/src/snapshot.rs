//! The store at one moment.

use crate::bounds::{Asked, Keys};
use crate::bytes_like::{Key, bytes};
use crate::cursor::Cursor;
use crate::keyspace::{Keyspace, Space, missing};
use crate::many;
use crate::pair::{Pair, end};
use crate::range::{Listing, Range};
use crate::repr::Shown;
use crate::store::{Part, Store};
use crate::typed;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

/// The store as it was when the snapshot was taken, over all keyspaces. Its methods read the
/// keyspace that it was taken from; keyspace() returns a view of the same snapshot on another
/// keyspace. close(), or the end of a with statement, releases it.
#[pyclass(frozen, module = "cantle")]
pub struct Snapshot {
    pub part: Arc<Part<cantle::Snapshot>>,
    own: Space,
}

impl Snapshot {
    pub fn new(store: &Arc<Store>, own: Space, snapshot: cantle::Snapshot) -> Self {
        Self { part: Arc::new(Part::new(store, "snapshot", snapshot)), own }
    }

    fn read(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<cantle::Value>> {
        let space = &self.own;
        space.admit(py, key)?;
        self.part.with_in(py, &space.part, |snapshot, keyspace| snapshot.keyspace(keyspace).get(key))
    }

    fn list(&self, py: Python<'_>, asked: &Asked<'_>, listing: &Listing) -> PyResult<Range> {
        let space = &self.own;
        let keys = asked.keys(space.order.as_ref())?;
        self.part.with_in(py, &space.part, |snapshot, keyspace| {
            let range = match keys {
                Keys::Between(bounds) => snapshot.keyspace(keyspace).range(bounds),
                Keys::Prefix(prefix) => snapshot.keyspace(keyspace).prefix(prefix),
            };
            Ok(Range::new(&self.part.store, &space.name, range, listing))
        })
    }
}

#[pymethods]
impl Snapshot {
    /// A view of the same snapshot on another keyspace. Closing either closes both.
    #[pyo3(signature = (keyspace, /))]
    fn keyspace(&self, keyspace: &Bound<'_, Keyspace>) -> Self {
        Self { part: self.part.clone(), own: keyspace.get().space.clone() }
    }

    /// A view of the same snapshot on a typed keyspace, with its types; a TypedSnapshot.
    #[pyo3(signature = (typed, /))]
    fn typed<'py>(self_: &Bound<'py, Self>, typed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        typed::call(self_.py(), "TypedSnapshot", (self_, typed))
    }

    /// The pair with the least key, or None.
    fn first(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        end(py, &self.part, &self.own, |snapshot, keyspace| snapshot.keyspace(keyspace).first())
    }

    /// The pair with the greatest key, or None.
    fn last(&self, py: Python<'_>) -> PyResult<Option<Pair>> {
        end(py, &self.part, &self.own, |snapshot, keyspace| snapshot.keyspace(keyspace).last())
    }

    /// The key's value at that moment, or default.
    #[pyo3(signature = (key, default=None))]
    fn get(&self, py: Python<'_>, key: Key<'_>, default: Option<Py<PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.read(py, key.as_ref())?.map(|value| bytes(py, &value)).or(default))
    }

    /// The values of many keys at that moment, as Keyspace.get_many.
    #[pyo3(signature = (keys, errors="raise"))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        errors: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        let space = &self.own;
        many::list(py, space, keys, errors, |keys| {
            self.part
                .with_in(py, &space.part, |snapshot, keyspace| Ok(snapshot.keyspace(keyspace).get_many(keys)))
        })
    }

    fn __getitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let value = self.read(py, key.extract::<Key<'_>>()?.as_ref())?;
        value.map(|value| bytes(py, &value)).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        Ok(self.read(py, key.as_ref())?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let range = self.list(py, &Asked::default(), &Listing::new(false, None)?)?;
        Bound::new(py, range)?.call_method0("only_keys").map(Bound::unbind)
    }

    /// The pairs from start to stop, as Keyspace.range.
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

    /// A cursor over the keys from start to stop.
    #[pyo3(signature = (start=None, stop=None, *, include_start=true, include_stop=false))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_start: bool,
        include_stop: bool,
    ) -> PyResult<Cursor> {
        let space = &self.own;
        let keys = crate::bounds::between(space.order.as_ref(), start, stop, include_start, include_stop)?;
        self.part.with_in(py, &space.part, |snapshot, keyspace| {
            Ok(Cursor::new(space, snapshot.keyspace(keyspace).cursor(keys)))
        })
    }

    /// Releases the snapshot. Later operations raise ClosedError; ranges made from it stay usable.
    fn close(&self, py: Python<'_>) {
        self.part.release(py);
    }

    /// True once the snapshot was released or its store closed.
    #[getter]
    fn closed(&self) -> bool {
        self.part.is_released()
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        self_.part.store.check()?;
        Ok(self_)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown =
            Shown { class: "cantle.Snapshot", store: &self.part.store, keyspace: Some(&self.own.name) };
        shown.text(py, |_| self.part.is_released().then_some("closed"))
    }
}
