//! An open store: its default keyspace, and the operations on the whole store.

use crate::comparator;
use crate::errors;
use crate::keyspace::Keyspace;
use crate::options::{Given, Orders};
use crate::path::FilePath;
use crate::repr::Shown;
use crate::store::Store;
use crate::to_python::{plain, repair_report, verify_report};
use crate::typed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;

/// The keyspace of the operations of a store itself.
pub const DEFAULT_KEYSPACE: &str = "default";

/// An open store, made by open(). As a mapping it is its keyspace "default"; as a context manager
/// it closes the store at the end.
#[pyclass(frozen, extends = Keyspace, weakref, module = "cantle")]
pub struct DB {
    orders: Orders,
}

/// Opens a store: cantle.open() has the options.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn open<'py>(
    py: Python<'py>,
    path: FilePath,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, DB>> {
    let given = Given::new(options)?;
    let orders = given.orders()?;
    let (options, _) = given.store(&orders)?;
    given.finish()?;
    let scope = comparator::Scope::enter(!orders.is_empty());
    let opened = py.detach(|| options.open(path.as_ref()));
    drop(scope);
    let store = opened.map(|db| Store::new(db, !orders.is_empty()));
    if let Some(raised) = comparator::take_raised() {
        return Err(raised);
    }
    let store = store.map_err(|error| errors::raise(py, &error))?;
    let keyspace = keyspace(py, &store, |db| db.keyspace(DEFAULT_KEYSPACE), &orders)?;
    Bound::new(py, PyClassInitializer::from(keyspace).add_subclass(DB { orders }))
}

/// A keyspace, with its order if the order is a Python function.
fn keyspace(
    py: Python<'_>,
    store: &std::sync::Arc<Store>,
    open: impl FnOnce(&cantle::Db) -> cantle::Result<cantle::Keyspace> + Send,
    orders: &Orders,
) -> PyResult<Keyspace> {
    store.with(py, |db| {
        let keyspace = open(db)?;
        let order = orders.get(keyspace.comparator_name()).cloned();
        Ok(Keyspace::new(store, keyspace, order))
    })
}

/// Removes a store: see cantle.destroy().
#[pyfunction]
pub fn destroy(py: Python<'_>, path: FilePath) -> PyResult<()> {
    py.detach(|| cantle::Db::destroy(path, cantle::Options::new())).map_err(|error| errors::raise(py, &error))
}

/// Copies the readable pairs of a damaged store into a new one: cantle.repair() has the options.
#[pyfunction]
#[pyo3(signature = (source, target, progress=None, **options))]
pub fn repair<'py>(
    py: Python<'py>,
    source: FilePath,
    target: FilePath,
    progress: Option<Py<PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given::new(options)?;
    let orders = given.orders()?;
    let (options, _) = given.store(&orders)?;
    given.finish()?;
    let mut raised = None;
    let _scope = comparator::Scope::enter(!orders.is_empty());
    let report = py.detach(|| {
        cantle::Db::repair_with(source, target, options, |at| {
            let (Some(progress), None) = (&progress, &raised) else { return };
            let told = Python::try_attach(|py| progress.call1(py, (at.bytes, at.total_bytes, at.pairs)));
            if let Some(Err(error)) = told {
                raised = Some(error);
            }
        })
    });
    match (report, raised.or_else(comparator::take_raised)) {
        (_, Some(raised)) => Err(raised),
        (Ok(report), None) => repair_report(py, &report),
        (Err(error), None) => Err(errors::raise(py, &error)),
    }
}

#[pymethods]
impl DB {
    /// The keyspace of this name with keys and values of these types, which is made if there is none; a TypedKeyspace.
    ///
    /// key: a type, or a tuple of the types of a key's parts: str, bytes, int, float, bool, datetime, date, UUID, Float32, object (any), Optionals
    ///     and nested tuples of these.
    /// value: bytes, str, a type or tuple as for keys, or "json" for whatever json writes and reads.
    ///
    /// The types are kept in the metadata, as Rust's typed keyspaces keep theirs: with others it raises OptionMismatchError.
    fn typed<'py>(
        self_: &Bound<'py, Self>,
        name: &str,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        typed::call(self_.py(), "typed", (self_, name, key, value))
    }

    /// The store's directory.
    #[getter]
    fn path(self_: PyRef<'_, Self>) -> PathBuf {
        self_.as_super().space.store().path.clone()
    }

    /// True once the store was closed.
    #[getter]
    fn closed(self_: PyRef<'_, Self>) -> bool {
        self_.as_super().space.store().is_closed()
    }

    /// Makes everything durable and closes the store. Its snapshots, ranges, cursors and
    /// transactions raise ClosedError from then on. A second call does nothing.
    fn close(self_: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        self_.as_super().space.store().clone().close(py)
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        self_.as_super().space.store().check()?;
        Ok(self_)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(self_: PyRef<'_, Self>, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        Self::close(self_, py)
    }

    /// The keyspace of this name, created if there is none. Options are those of a keyspace, as in
    /// open(): a new keyspace gets them, and an existing one is set to them. Without options an
    /// existing keyspace keeps its own. A fixed option that differs raises OptionMismatchError.
    #[pyo3(signature = (name, **options))]
    fn keyspace(
        self_: PyRef<'_, Self>,
        py: Python<'_>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let is_plain = options.is_none_or(|options| options.is_empty());
        let given = Given::new(options)?;
        let (options, _) = given.keyspace(&self_.orders)?;
        given.finish()?;
        let open =
            |db: &cantle::Db| if is_plain { db.keyspace(name) } else { db.keyspace_with(name, options) };
        keyspace(py, self_.as_super().space.store(), open, &self_.orders)
    }

    /// Creates a keyspace; raises AlreadyExistsError if there is one of this name. Options are
    /// those of a keyspace, as in open().
    #[pyo3(signature = (name, **options))]
    fn create_keyspace(
        self_: PyRef<'_, Self>,
        py: Python<'_>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let given = Given::new(options)?;
        let (options, _) = given.keyspace(&self_.orders)?;
        given.finish()?;
        let create = |db: &cantle::Db| db.create_keyspace(name, options);
        keyspace(py, self_.as_super().space.store(), create, &self_.orders)
    }

    /// The names of all keyspaces, in order.
    fn keyspaces(self_: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Vec<String>> {
        self_.as_super().space.store().with(py, cantle::Db::keyspaces)
    }

    /// Drops a keyspace with everything in it. "default" cannot be dropped.
    #[pyo3(signature = (name, /))]
    fn drop_keyspace(self_: PyRef<'_, Self>, py: Python<'_>, name: &str) -> PyResult<()> {
        self_.as_super().space.store().with(py, |db| db.drop_keyspace(name))
    }

    /// Makes all earlier writes durable.
    fn sync(self_: PyRef<'_, Self>, py: Python<'_>) -> PyResult<()> {
        self_.as_super().space.store().with(py, cantle::Db::sync)
    }

    /// Writes a consistent copy of the store into a new or empty directory. The copy opens as a
    /// store.
    #[pyo3(signature = (directory, /))]
    fn backup(self_: PyRef<'_, Self>, py: Python<'_>, directory: FilePath) -> PyResult<()> {
        self_.as_super().space.store().with(py, |db| db.backup(directory.as_ref()))
    }

    /// Reads and checks every file. The report lists damage; damage raises no exception here.
    fn verify<'py>(self_: PyRef<'_, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verify_report(py, &self_.as_super().space.store().with(py, cantle::Db::verify)?)
    }

    /// Counters and sizes of the store and, under "keyspaces", of each keyspace, as a dict. Times
    /// are in seconds.
    fn stats(self_: PyRef<'_, Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        plain(py, &self_.as_super().space.store().with(py, |db| Ok(db.stats()))?)
    }

    fn __repr__(self_: PyRef<'_, Self>, py: Python<'_>) -> String {
        let store = self_.as_super().space.store();
        Shown { class: "cantle.DB", store, keyspace: None }.text(py, |_| None)
    }
}
