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

/// Pairs that a range reads ahead at most. Each batch releases and takes the interpreter lock once;
/// more than 256 pairs a batch gain nothing measurable.
const AHEAD_PAIRS_MAX: usize = 256;
/// Bytes that a range reads ahead at most, give or take one pair. They are not charged to the
/// memory budget.
const AHEAD_BYTES_MAX: usize = 256 << 10;

/// Direction and length of a range.
pub struct Listing {
    pub reverse: bool,
    pub limit: Option<u64>,
}

impl Listing {
    pub fn new(reverse: bool, limit: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { reverse, limit: limit.map(|limit| whole("limit", limit, 0)).transpose()? })
    }
}

/// The parts of a pair that a range yields.
#[derive(Clone, Copy)]
struct Shape {
    keys: bool,
    values: bool,
    tuples: bool,
}

/// Pairs that were read and not yielded yet. Locked for moments, in which its holder neither waits
/// nor runs Python.
struct Ahead {
    pairs: VecDeque<Pair>,
    error: Option<cantle::Error>,
    /// Pairs that were yielded.
    yielded: u64,
    /// Pairs that may still be read from the store.
    left: u64,
    batch: usize,
    is_at_end: bool,
    shape: Shape,
}

/// An iterator over pairs (key, value) in key order, as they were when the range was made.
///
/// only_keys(), only_values() and tuples() change the items that it yields, and return the range
/// itself. The range releases its snapshot at its end; close(), or the end of a with statement,
/// releases it before.
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

    /// For a transaction: only pairs that the range has yielded count as read, so it does not read
    /// ahead.
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

    /// Reads ahead, up to `pairs_max` pairs, unless another thread has just done so. `left` and
    /// `pairs` change together under the range's lock, so no thread takes the range for ended while
    /// another one reads.
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

    /// The next pair, or the error in its place.
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
            // Another thread may have reached the end meanwhile and released the range.
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
    /// For annotations: type checkers alone know the items of a range.
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

    /// Makes the range yield keys alone from now on.
    fn only_keys(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| (shape.keys, shape.values) = (true, false))
    }

    /// Makes the range yield values alone from now on.
    fn only_values(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| (shape.keys, shape.values) = (false, true))
    }

    /// Makes the range yield keys as the tuples that they encode. A key that encodes none raises
    /// InvalidArgumentError.
    fn tuples(self_: PyRef<'_, Self>) -> PyRef<'_, Self> {
        Self::reshape(self_, |shape| shape.tuples = true)
    }

    /// Releases the range's snapshot. Later steps raise ClosedError.
    fn close(&self, py: Python<'_>) {
        self.part.release(py);
        let mut ahead = self.ahead.lock();
        ahead.pairs.clear();
        ahead.error = None;
        // The next step then reads, and finds the range closed.
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

    /// The rest of the range as a pyarrow.Table with the binary columns key and value. With
    /// batch_rows, the rest as a pyarrow.RecordBatchReader, which reads batches of at most that
    /// many rows on demand.
    #[pyo3(signature = (*, batch_rows=None))]
    fn to_arrow<'py>(
        self_: &Bound<'py, Self>,
        batch_rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = batch_rows.map(|rows| whole("batch_rows", rows, 1)).transpose()?;
        PyModule::import(self_.py(), "cantle._arrow")?.getattr("to_arrow")?.call1((self_, rows))
    }

    /// The rest of the range as an Arrow stream of batches, which pyarrow, polars, DuckDB and
    /// others read. Needs pyarrow.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        self_: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        PyModule::import(self_.py(), "cantle._arrow")?.getattr("stream")?.call1((self_, requested_schema))
    }

    /// For to_arrow: the next rows, up to rows_max, as the offsets (32 bits) and data of two binary
    /// columns. Ends once both have bytes_max bytes; the last row may exceed that. None at the end
    /// of the range.
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

/// A column of byte strings in Arrow's format: each offset ends one string and starts the next.
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
        // Offsets have 31 bits: `_arrow.py` asks for much less than 1 GiB, and the last row adds 1
        // GiB at most.
        self.offsets.extend_from_slice(&(self.data.len() as i32).to_ne_bytes());
    }

    fn finish<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 2] {
        [PyBytes::new(py, &self.offsets), PyBytes::new(py, &self.data)]
    }
}
