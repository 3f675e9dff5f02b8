//! The iterator of `cantle.plyvel`: a position between pairs. A step in either direction passes
//! over one pair and returns it.

use crate::bytes_like::bytes;
use crate::comparator::PythonOrder;
use crate::keyspace::Space;
use crate::repr::{self, Shown};
use crate::store::Part;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use std::sync::Arc;

/// A position between pairs.
#[derive(Clone, Copy)]
enum Place {
    Start,
    Stop,
    /// Directly before the pair under the cursor.
    Before,
    /// Directly after the pair under the cursor.
    After,
}

struct Position {
    cursor: cantle::Cursor,
    place: Place,
}

impl Position {
    /// Steps over the next pair, which is then under the cursor. False if there is none.
    fn forward(&mut self) -> cantle::Result<bool> {
        let found = match self.place {
            Place::Start => self.cursor.seek_to_first()?,
            Place::Before => true,
            Place::After => self.cursor.next()?,
            Place::Stop => false,
        };
        self.place = if found { Place::After } else { Place::Stop };
        Ok(found)
    }

    /// Steps back over the previous pair. False if there is none.
    fn backward(&mut self) -> cantle::Result<bool> {
        let found = match self.place {
            Place::Stop => self.cursor.seek_to_last()?,
            Place::After => true,
            Place::Before => self.cursor.prev()?,
            Place::Start => false,
        };
        self.place = if found { Place::Before } else { Place::Start };
        Ok(found)
    }
}

/// Pairs of a range from either end. Made by `cantle.plyvel`.
#[pyclass(frozen, weakref, module = "cantle.plyvel", name = "Iterator")]
pub struct Gap {
    part: Part<Mutex<Position>>,
    order: Option<Arc<PythonOrder>>,
    reverse: bool,
    include_key: bool,
    include_value: bool,
    /// The prefix of a prefixed_db, which yielded keys do not show.
    prefix: Vec<u8>,
}

impl Gap {
    pub fn new(
        space: &Space,
        cursor: cantle::Cursor,
        (reverse, include_key, include_value): (bool, bool, bool),
        prefix: Vec<u8>,
    ) -> Self {
        let place = if reverse { Place::Stop } else { Place::Start };
        let part = Part::new(space.store(), "iterator", Mutex::new(Position { cursor, place }));
        Self { part, order: space.order.clone(), reverse, include_key, include_value, prefix }
    }

    fn step(&self, py: Python<'_>, forward: bool) -> PyResult<Option<Py<PyAny>>> {
        let (wants_key, wants_value, cut) = (self.include_key, self.include_value, self.prefix.len());
        let found = self.part.with(py, |position| {
            let mut position = position.lock();
            let found = if forward { position.forward()? } else { position.backward()? };
            let copy = |wanted: bool, bytes: Option<&[u8]>, cut: usize| {
                bytes.filter(|_| wanted).and_then(|bytes| bytes.get(cut..)).map(<[u8]>::to_vec)
            };
            Ok(found.then(|| {
                let cursor = &position.cursor;
                (copy(wants_key, cursor.key(), cut), copy(wants_value, cursor.value(), 0))
            }))
        })?;
        let Some((key, value)) = found else { return Ok(None) };
        let object = |copy: Option<Vec<u8>>| copy.map(|copy| bytes(py, &copy));
        Ok(Some(match (object(key), object(value)) {
            (Some(key), Some(value)) => PyTuple::new(py, [key, value])?.into_any().unbind(),
            (key, value) => key.or(value).unwrap_or_else(|| py.None()),
        }))
    }

    fn place(&self, py: Python<'_>, place: Place) -> PyResult<()> {
        self.part.with(py, |position| {
            position.lock().place = place;
            Ok(())
        })
    }
}

#[pymethods]
impl Gap {
    /// For annotations: type checkers alone know what an iterator yields.
    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        class.clone()
    }

    fn __iter__(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        self_
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.step(py, !self.reverse)
    }

    /// Steps back over one entry and returns it. Raises StopIteration at the beginning.
    fn prev(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.step(py, self.reverse)?.ok_or_else(|| pyo3::exceptions::PyStopIteration::new_err(()))
    }

    /// Moves directly before the first entry at or after target, within the iterator's range.
    #[pyo3(signature = (target))]
    fn seek(&self, py: Python<'_>, target: &Bound<'_, PyBytes>) -> PyResult<()> {
        let target = [&self.prefix[..], target.as_bytes()].concat();
        self.order.as_ref().map_or(Ok(()), |order| order.admit(py, &target))?;
        self.part.with(py, |position| {
            let mut position = position.lock();
            let found = position.cursor.seek(&target)?;
            position.place = if found { Place::Before } else { Place::Stop };
            Ok(())
        })
    }

    /// Moves before the first entry of the range.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.place(py, Place::Start)
    }

    /// Moves after the last entry of the range.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.place(py, Place::Stop)
    }

    /// Ends the iterator.
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
        let shown = Shown { class: "plyvel.Iterator", store: &self.part.store, keyspace: None };
        shown.text(py, |details| {
            if !self.prefix.is_empty() {
                details.push(format!("prefix {}", repr::key(py, &self.prefix)));
            }
            if self.reverse {
                details.push("reverse".into());
            }
            // `None` while another thread moves the iterator.
            let place = self.part.peek(|position| {
                let position = position.try_lock()?;
                let key = position.cursor.key().and_then(|key| key.get(self.prefix.len()..));
                Some(match (position.place, key) {
                    (Place::Before, Some(found)) => format!("before {}", repr::key(py, found)),
                    (Place::After, Some(found)) => format!("after {}", repr::key(py, found)),
                    (Place::Start | Place::Before, _) => "at the start".into(),
                    (Place::Stop | Place::After, _) => "at the stop".into(),
                })
            });
            match place {
                Ok(place) => {
                    details.extend(place);
                    None
                }
                Err(_) => self.part.is_released().then_some("closed"),
            }
        })
    }
}
