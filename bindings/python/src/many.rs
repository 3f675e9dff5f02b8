//! Reads of many keys with one call.

use crate::bytes_like::{Key, bytes};
use crate::errors;
use crate::keyspace::Space;
use crate::options::one_of;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The values that `read` finds for `keys`, in their order. All keys are checked before `read` is
/// called. `on_error` is "raise" or "return": the first error of a key is raised, or each one takes
/// the place of its value.
pub fn list<'py>(
    py: Python<'py>,
    space: &Space,
    keys: &Bound<'py, PyAny>,
    on_error: &str,
    read: impl FnOnce(&[Key<'_>]) -> PyResult<Vec<cantle::Result<Option<cantle::Value>>>>,
) -> PyResult<Bound<'py, PyList>> {
    let raises = one_of("errors", on_error, &[("raise", true), ("return", false)])?;
    // Keys are borrowed from these objects, whatever happens to the caller's container.
    let objects: Vec<Bound<'py, PyAny>> = keys.try_iter()?.collect::<PyResult<_>>()?;
    let keys: Vec<Key<'_>> = objects.iter().map(|key| key.extract()).collect::<PyResult<_>>()?;
    keys.iter().try_for_each(|key| space.admit(py, key.as_ref()))?;
    let values = PyList::empty(py);
    for found in read(&keys)? {
        match found {
            Ok(Some(value)) => values.append(bytes(py, &value))?,
            Ok(None) => values.append(py.None())?,
            Err(error) if raises => return Err(errors::raise(py, &error)),
            Err(error) => values.append(errors::exception(py, &error)?)?,
        }
    }
    Ok(values)
}
