//! A key and its value as a tuple of two bytes objects.

use crate::bytes_like::bytes;
use crate::keyspace::Space;
use crate::store::Part;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub struct Pair(cantle::Key, cantle::Value);

impl<'py> IntoPyObject<'py> for Pair {
    type Target = PyTuple;
    type Output = Bound<'py, PyTuple>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (bytes(py, &self.0), bytes(py, &self.1)).into_pyobject(py)
    }
}

impl From<(cantle::Key, cantle::Value)> for Pair {
    fn from((key, value): (cantle::Key, cantle::Value)) -> Self {
        Self(key, value)
    }
}

/// The pair that `find` returns for a keyspace of a snapshot or a transaction.
pub fn end<T: Send + Sync + 'static>(
    py: Python<'_>,
    part: &Part<T>,
    space: &Space,
    find: impl FnOnce(&T, &cantle::Keyspace) -> cantle::Result<Option<(cantle::Key, cantle::Value)>> + Send,
) -> PyResult<Option<Pair>> {
    Ok(part.with_in(py, &space.part, find)?.map(Pair::from))
}
