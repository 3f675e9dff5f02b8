//! A movable position in a range.

use crate::bytes_like::{Key, bytes};
use crate::comparator::PythonOrder;
use crate::errors;
use crate::keyspace::Space;
use crate::repr::{self, Shown};
use crate::store::Part;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// The pair under the cursor.
#[derive(Default)]
struct Under {
    is_valid: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// A movable position among the pairs of a range, as they were when the cursor was made. Every
/// movement returns True if the cursor is at a pair afterwards.
#[pyclass(frozen, module = "cantle")]
pub struct Cursor {
    part: Part<Mutex<cantle::Cursor>>,
    keyspace: Arc<str>,
    order: Option<Arc<PythonOrder>>,
    /// Held for moments; its holder never waits.
    under: Mutex<Under>,
}

impl Cursor {
    pub fn new(space: &Space, cursor: cantle::Cursor) -> Self {
        let part = Part::new(space.store(), "cursor", Mutex::new(cursor));
        Self { part, keyspace: space.name.clone(), order: space.order.clone(), under: Mutex::default() }
    }

    fn go(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut cantle::Cursor) -> cantle::Result<bool> + Send,
    ) -> PyResult<bool> {
        let under = &self.under;
        under.lock().is_valid = false;
        self.part.with(py, |cursor| {
            let mut cursor = cursor.lock();
            let found = step(&mut cursor)?;
            let pair = cursor.key().zip(cursor.value());
            if let Some((key, value)) = pair.filter(|_| found) {
                let mut under = under.lock();
                under.key.clear();
                under.key.extend_from_slice(key);
                under.value.clear();
                under.value.extend_from_slice(value);
                under.is_valid = true;
            }
            Ok(found)
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Under) -> T) -> PyResult<Option<T>> {
        self.part.store.check()?;
        if self.part.is_released() {
            return Err(errors::closed("cursor"));
        }
        let under = self.under.lock();
        Ok(under.is_valid.then(|| read(&under)))
    }
}

#[pymethods]
impl Cursor {
    /// Moves to the first pair at or after key.
    #[pyo3(signature = (key, /))]
    fn seek(&self, py: Python<'_>, key: Key<'_>) -> PyResult<bool> {
        let key = key.as_ref();
        self.order.as_ref().map_or(Ok(()), |order| order.admit(py, key))?;
        self.go(py, |cursor| cursor.seek(key))
    }

    /// Moves to the first pair.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, cantle::Cursor::seek_to_first)
    }

    /// Moves to the last pair.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, cantle::Cursor::seek_to_last)
    }

    /// Moves to the next pair. A cursor at no pair (a new one, or one past an end) stays there.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, cantle::Cursor::next)
    }

    /// Moves to the previous pair.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, cantle::Cursor::prev)
    }

    /// The key under the cursor, or None.
    fn key(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.read(|under| bytes(py, &under.key))
    }

    /// The value under the cursor, or None.
    fn value(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.read(|under| bytes(py, &under.value))
    }

    /// The key and the value under the cursor, or None.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.read(|under| PyTuple::new(py, [bytes(py, &under.key), bytes(py, &under.value)]))?.transpose()
    }

    /// Releases the cursor's snapshot. Later operations raise ClosedError.
    fn close(&self, py: Python<'_>) {
        self.part.release(py);
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        self_
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = Shown { class: "cantle.Cursor", store: &self.part.store, keyspace: Some(&self.keyspace) };
        shown.text(py, |details| {
            if self.part.is_released() {
                return Some("closed");
            }
            let under = self.under.lock();
            details.push(if under.is_valid {
                format!("at {}", repr::key(py, &under.key))
            } else {
                "at no pair".into()
            });
            None
        })
    }
}
