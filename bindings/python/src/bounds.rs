//! The keys of a range, from the arguments that describe it.

use crate::bytes_like::Key;
use crate::comparator::PythonOrder;
use crate::composite;
use crate::errors;
use cantle::key;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ops::Bound as End;
use std::sync::Arc;

/// Both ends of a range of keys.
pub type Bounds = (End<Vec<u8>>, End<Vec<u8>>);

/// A range as the library takes it.
pub enum Keys {
    Between(Bounds),
    /// Under an order of Python, in which keys with a common prefix need not be neighbours.
    Prefix(Vec<u8>),
}

/// Arguments that describe a range.
#[derive(Default)]
pub struct Asked<'py> {
    pub start: Option<Bound<'py, PyAny>>,
    pub stop: Option<Bound<'py, PyAny>>,
    pub include_start: bool,
    pub include_stop: bool,
    pub prefix: Option<Bound<'py, PyAny>>,
}

impl Asked<'_> {
    /// The keys from start to stop that have the prefix, in bytewise order or another.
    pub fn keys(&self, order: Option<&Arc<PythonOrder>>) -> PyResult<Keys> {
        let (start, stop) = (self.start.as_ref(), self.stop.as_ref());
        let between = between(order, start, stop, self.include_start, self.include_stop)?;
        let Some(prefix) = &self.prefix else { return Ok(Keys::Between(between)) };
        let (first, end) = with_prefix(prefix)?;
        if order.is_none() {
            return Ok(Keys::Between(narrow(between, first, end)));
        }
        if prefix.is_instance_of::<PyTuple>() || !matches!(between, (End::Unbounded, End::Unbounded)) {
            return Err(errors::invalid(
                "in a keyspace with a comparator, prefix is bytes, not a tuple, and excludes start and stop",
            ));
        }
        Ok(Keys::Prefix(first))
    }
}

/// The keys between two ends, either of which may be open. An order of Python must be able to
/// compare them.
pub fn between(
    order: Option<&Arc<PythonOrder>>,
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    include_start: bool,
    include_stop: bool,
) -> PyResult<Bounds> {
    let end = |key: Option<&Bound<'_, PyAny>>, include: bool| -> PyResult<End<Vec<u8>>> {
        let Some(key) = key else { return Ok(End::Unbounded) };
        let (py, key) = (key.py(), key.extract::<Key<'_>>()?.0.into_vec());
        order.map_or(Ok(()), |order| order.admit(py, &key))?;
        Ok(if include { End::Included(key) } else { End::Excluded(key) })
    };
    Ok((end(start, include_start)?, end(stop, include_stop)?))
}

/// The prefix itself, and the first key after all keys with the prefix. The tuples that begin with
/// a tuple are not exactly the keys that begin with its bytes.
fn with_prefix(prefix: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Option<Vec<u8>>)> {
    if let Ok(tuple) = prefix.cast::<PyTuple>() {
        let keys = key::range_of(&composite::parts(tuple)?);
        return Ok((keys.start, Some(keys.end)));
    }
    let first = prefix.extract::<Key<'_>>()?.0.into_vec();
    let end = successor(&first);
    Ok((first, end))
}

/// The first key after all keys that begin with `prefix`; `None` if there is none.
pub fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The intersection of two ranges in bytewise order.
fn narrow(between: Bounds, first: Vec<u8>, end: Option<Vec<u8>>) -> Bounds {
    let (start, stop) = between;
    let start = match start {
        End::Included(key) if key > first => End::Included(key),
        End::Excluded(key) if key >= first => End::Excluded(key),
        _ => End::Included(first),
    };
    let stop = match (stop, end) {
        (stop, None) => stop,
        (End::Included(key), Some(end)) if key < end => End::Included(key),
        (End::Excluded(key), Some(end)) if key < end => End::Excluded(key),
        (_, Some(end)) => End::Excluded(end),
    };
    (start, stop)
}
