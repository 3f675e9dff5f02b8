//! Typed keyspaces, which are written in Python.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Calls a function or class of `cantle._typed`.
pub fn call<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, "cantle._typed")?.getattr(name)?.call1(arguments)
}
