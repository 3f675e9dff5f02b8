//! An iterator over pairs.

use crate::bytes_like::bytes;
use crate::composite;
use crate::errors;
use crate::options::whole;
use crate::repr::{Shown, counted};
use crate::store::{Part, Store};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use std::collections::VecDeque;
use std::sync::Arc;

type Pair = (cantle::Key, cantle::Value);

/// The interpreter lock is let go and taken again for so many pairs at once, at most: beyond, it does not show any more.
const AHEAD_PAIRS_MAX: usize = 256;
/// And for so many bytes: what is read ahead is outside of the memory budget.
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// In which direction, and how far.
pub struct Listing {
    pub reverse: bool,
    pub limit: Option<u64>,
}

impl Listing {
    pub fn new(reverse: bool, limit: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { reverse, limit: limit.map(|limit| whole("limit", limit, 0)).transpose()? })
    }
}

/// What of a pair is given out.
#[derive(Clone, Copy)]
struct Shape {
    keys: bool,
    values: bool,
    tuples: bool,
}

/// What was read and not given out yet. Locked for moments, in which nothing is waited for and no Python runs.
struct Ahead {
    pairs: VecDeque<Pair>,
    error: Option<cantle::Error>,
    /// Pairs that were given out.
    yielded: u64,
    /// Pairs that may still be read from the store.
    left: u64,
    batch: usize,
    is_at_end: bool,
    shape: Shape,
}

/// Pairs in key order, as of the moment when the range was asked for: an iterator of (key, value).
///
/// only_keys(), only_values() and tuples() change what it yields and return the range itself. It can be closed before its end, also
/// as a context manager, and lets go of its snapshot at its end.
#[pyclass(frozen, module = "cantle")]
pub struct Range {
    part: Part<Mutex<cantle::Range>>,
    keyspace: Arc<str>,
    reverse: bool,
    ahead: Mutex<Ahead>,
    batch_max: usize,
}

impl Range {
    pub fn new(store: &Arc<Store>, keyspace: &Arc<str>, range: cantle::Range, listing: &Listing) -> Self {
        Self::reading_ahead(store, keyspace, range, listing, AHEAD_PAIRS_MAX)
    }

    /// For a transaction, to which only what it was given counts as read.
    pub fn one_by_one(
        store: &Arc<Store>,
        keyspace: &Arc<str>,
        range: cantle::Range,
        listing: &Listing,
    ) -> Self {
        Self::reading_ahead(store, keyspace, range, listing, 1)
    }

    fn reading_ahead(
        store: &Arc<Store>,
        keyspace: &Arc<str>,
        range: cantle::Range,
        listing: &Listing,
        batch_max: usize,
    ) -> Self {
        let ahead = Ahead {
            pairs: VecDeque::new(),
            error: None,
            yielded: 0,
            left: listing.limit.unwrap_or(u64::MAX),
            batch: 1,
            is_at_end: false,
            shape: Shape { keys: true, values: true, tuples: false },
        };
        let part = Part::new(store, "range", Mutex::new(range));
        Self {
            part,
            keyspace: keyspace.clone(),
            reverse: listing.reverse,
            ahead: Mutex::new(ahead),
            batch_max,
        }
    }

    /// Reads ahead, up to `pairs_max` pairs, unless another thread has just done so. What is left to read changes together
    /// with what was read, under the range's lock: so nobody takes the range for ended while pairs are on their way.
    fn fill(&self, py: Python<'_>, pairs_max: usize) -> PyResult<()> {
        let (reverse, ahead) = (self.reverse, &self.ahead);
        self.part.with(py, |range| {
            let mut range = range.lock();
            let wanted = {
                let ahead = ahead.lock();
                if ahead.pairs.is_empty() { ahead.left.min(pairs_max as u64) } else { 0 }
            };
            let (mut pairs, mut bytes, mut ended) = (Vec::new(), 0, None);
            while ended.is_none() && (pairs.len() as u64) < wanted && bytes < AHEAD_BYTES_MAX {
                match if reverse { range.next_back() } else { range.next() } {
                    Some(Ok((key, value))) => {
                        bytes += key.len() + value.len();
                        pairs.push((key, value));
                    }
                    Some(Err(error)) => ended = Some(Some(error)),
                    None => ended = Some(None),
                }
            }
            let mut ahead = ahead.lock();
            ahead.left -= pairs.len() as u64;
            ahead.pairs.extend(pairs);
            if let Some(error) = ended {
                (ahead.error, ahead.left) = (error, 0);
            }
            Ok(())
        })
    }

    /// The next pair, or what was wrong with it.
    fn pull(&self, py: Python<'_>) -> PyResult<Option<(Pair, Shape)>> {
        loop {
            if self.ahead.lock().is_at_end {
                return Ok(None);
            }
            self.part.store.check()?;
            let (error, wanted) = {
                let mut ahead = self.ahead.lock();
                if let Some(pair) = ahead.pairs.pop_front() {
                    ahead.yielded += 1;
                    return Ok(Some((pair, ahead.shape)));
                }
                let error = ahead.error.take();
                ahead.is_at_end = error.is_some() || ahead.left == 0;
                let wanted = (!ahead.is_at_end).then_some(ahead.batch);
                ahead.batch = (ahead.batch * 2).min(self.batch_max);
                (error, wanted)
            };
            let Some(wanted) = wanted else {
                self.part.release(py);
                return error.map_or(Ok(None), |error| Err(errors::raise(py, &error)));
            };
            // Another thread may have come to the end meanwhile, and let go of the range.
            if let Err(error) = self.fill(py, wanted)
                && !self.ahead.lock().is_at_end
            {
                return Err(error);
            }
        }
    }

    fn reshape(self_: PyRef<'_, Self>, change: impl FnOnce(&mut Shape)) -> PyRef<'_, Self> {
        change(&mut self_.ahead.lock().shape);
        self_
    }
}

#[pymethods]
impl Range {
    /// For annotations: what a range yields is known to type checkers alone.
    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        class.clone()
    }

    fn __iter__(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        self_
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(((key, value), shape)) = self.pull(py)? else { return Ok(None) };
        let value = shape.values.then(|| bytes(py, &value));
        let key = match shape {
            Shape { keys: false, .. } => None,
            Shape { tuples: true, .. } => Some(composite::decode(py, &key)?.into_any().unbind()),
            Shape { .. } => Some(bytes(py, &key)),
        };
        Ok(match (key, value) {
            (Some(key), Some(value)) => Some(PyTuple::new(py, [key, value])?.into_any().unbind()),
            (key, value) => key.or(value),
        })
    }

    /// Yield keys alone from here on.
    fn only_keys(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| (shape.keys, shape.values) = (true, false))
    }

    /// Yield values alone from here on.
    fn only_values(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| (shape.keys, shape.values) = (false, true))
    }

    /// Yield keys as the tuples that they were made of. A key that was not made of one raises InvalidArgumentError.
    fn tuples(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| shape.tuples = true)
    }

    /// Lets go of the range's snapshot. What follows gives ClosedError.
    fn close(&self, py: Python<'_>) {
        self.part.release(py);
        let mut ahead = self.ahead.lock();
        ahead.pairs.clear();
        ahead.error = None;
        // So that the next step finds out.
        ahead.left = ahead.left.max(1);
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        self_
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) {
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = Shown { class: "cantle.Range", store: &self.part.store, keyspace: Some(&self.keyspace) };
        shown.text(py, |details| {
            let ahead = self.ahead.lock();
            if self.reverse {
                details.push("reverse".into());
            }
            let kind = match ahead.shape {
                Shape { values: false, .. } => "key",
                Shape { keys: false, .. } => "value",
                Shape { .. } => "pair",
            };
            if ahead.shape.tuples && ahead.shape.keys {
                details.push("keys as tuples".into());
            }
            details.push(format!("{} yielded", counted(ahead.yielded, kind)));
            if ahead.is_at_end { Some("at its end") } else { self.part.is_released().then_some("closed") }
        })
    }

    /// The rest of the range as a pyarrow.Table with the binary columns key and value; with batch_rows, as a
    /// pyarrow.RecordBatchReader of batches of at most so many rows, which reads them when they are asked for.
    #[pyo3(signature = (*, batch_rows=None))]
    fn to_arrow<'py>(
        self_: &Bound<'py, Self>,
        batch_rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = batch_rows.map(|rows| whole("batch_rows", rows, 1)).transpose()?;
        PyModule::import(self_.py(), "cantle._arrow")?.getattr("to_arrow")?.call1((self_, rows))
    }

    /// The rest of the range as an Arrow stream of batches: what pyarrow, polars, DuckDB and others read. Needs pyarrow.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        self_: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        PyModule::import(self_.py(), "cantle._arrow")?.getattr("stream")?.call1((self_, requested_schema))
    }

    /// For to_arrow: up to so many rows, and not many more bytes than asked for, as the offsets (32 bits) and data of two
    /// binary columns. None at the end.
    fn _columns<'py>(
        &self,
        py: Python<'py>,
        rows_max: usize,
        bytes_max: usize,
    ) -> PyResult<Option<(usize, [Bound<'py, PyBytes>; 4])>> {
        let (mut keys, mut values) = (Column::default(), Column::default());
        let mut rows = 0;
        while rows < rows_max && keys.data.len() + values.data.len() < bytes_max {
            let Some(((key, value), _)) = self.pull(py)? else { break };
            keys.push(&key);
            values.push(&value);
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let [key_offsets, key_data] = keys.finish(py);
        let [value_offsets, value_data] = values.finish(py);
        Ok(Some((rows, [key_offsets, key_data, value_offsets, value_data])))
    }
}

/// A column of byte strings as Arrow has it: the end of each is where the next one starts.
struct Column {
    offsets: Vec<u8>,
    data: Vec<u8>,
}

impl Default for Column {
    fn default() -> Self {
        Self { offsets: 0i32.to_ne_bytes().to_vec(), data: Vec::new() }
    }
}

impl Column {
    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        // Of 31 bits: `_arrow.py` asks for much less than 1 GiB, and one value more has at most 1 GiB.
        self.offsets.extend_from_slice(&(self.data.len() as i32).to_ne_bytes());
    }

    fn finish<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 2] {
        [PyBytes::new(py, &self.offsets), PyBytes::new(py, &self.data)]
    }
}
