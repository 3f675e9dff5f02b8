//! The write batch of `cantle.plyvel`.

use crate::batch::write_options;
use crate::bytes_like::Value;
use crate::keyspace::Space;
use crate::repr::{self, Shown, counted};
use cantle::{Durability, WriteOptions};
use parking_lot::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Size of the header of a LevelDB write batch.
const HEADER_BYTES: usize = 12;

/// Writes that take effect together. Made by `cantle.plyvel`.
#[pyclass(frozen, weakref, module = "cantle.plyvel", name = "PlyvelBatch")]
pub struct PlyvelBatch {
    /// The default keyspace.
    space: Space,
    prefix: Vec<u8>,
    transaction: bool,
    options: WriteOptions,
    writes: Mutex<Writes>,
}

#[derive(Clone)]
struct Writes {
    batch: cantle::WriteBatch,
    /// Size of the batch in LevelDB's encoding.
    bytes: usize,
}

impl Default for Writes {
    fn default() -> Self {
        Self { batch: cantle::WriteBatch::new(), bytes: HEADER_BYTES }
    }
}

/// Size of data and of its length, which is encoded with seven bits a byte.
fn prefixed_bytes(data: &[u8]) -> usize {
    let bits = usize::BITS - data.len().leading_zeros();
    data.len() + (bits as usize).div_ceil(7).max(1)
}

impl PlyvelBatch {
    pub fn new(space: Space, prefix: Vec<u8>, transaction: bool, sync: bool) -> Self {
        let options = write_options(sync.then_some(Durability::Sync));
        Self { space, prefix, transaction, options, writes: Mutex::default() }
    }

    /// Runs `run` on the key with the prefix.
    fn with_key<T>(&self, key: &Bound<'_, PyAny>, run: impl FnOnce(&[u8]) -> PyResult<T>) -> PyResult<T> {
        let Ok(key) = key.cast::<PyBytes>() else {
            let given = key.get_type().name()?;
            let message = format!("Argument 'key' has incorrect type (expected bytes, got {given})");
            return Err(PyTypeError::new_err(message));
        };
        let key = key.as_bytes();
        if self.prefix.is_empty() { run(key) } else { run(&[&self.prefix[..], key].concat()) }
    }
}

#[pymethods]
impl PlyvelBatch {
    /// Sets the value of a key.
    fn put(&self, py: Python<'_>, key: &Bound<'_, PyAny>, value: Value<'_>) -> PyResult<()> {
        self.space.store().check()?;
        self.with_key(key, |key| {
            self.space.admit(py, key)?;
            let value = value.as_ref();
            let mut writes = self.writes.lock();
            writes.batch.put(key, value);
            writes.bytes += 1 + prefixed_bytes(key) + prefixed_bytes(value);
            Ok(())
        })
    }

    /// Deletes a key, if there is one.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.space.store().check()?;
        self.with_key(key, |key| {
            self.space.admit(py, key)?;
            let mut writes = self.writes.lock();
            writes.batch.delete(key);
            writes.bytes += 1 + prefixed_bytes(key);
            Ok(())
        })
    }

    /// Adds the writes of another batch, with their prefixes as they are.
    fn append(&self, source: &Bound<'_, Self>) -> PyResult<()> {
        self.space.store().check()?;
        // `source` may be this batch, so its lock is released before the other is taken.
        let added = source.get().writes.lock().clone();
        let mut writes = self.writes.lock();
        writes.batch.append(&added.batch);
        writes.bytes += added.bytes - HEADER_BYTES;
        Ok(())
    }

    /// Discards the writes.
    fn clear(&self) -> PyResult<()> {
        self.space.store().check()?;
        *self.writes.lock() = Writes::default();
        Ok(())
    }

    /// The size in bytes that the batch would have in LevelDB.
    fn approximate_size(&self) -> PyResult<usize> {
        self.space.store().check()?;
        Ok(self.writes.lock().bytes)
    }

    /// Makes the writes take effect. They stay in the batch.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        // The clone shares keys and values.
        let batch = self.writes.lock().batch.clone();
        self.space.store().with(py, |db| db.write_with(batch, self.options.clone()))
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        self_.space.store().check()?;
        Ok(self_)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.space.store().check()?;
        let is_raised = exception.get_item(0).is_ok_and(|raised| !raised.is_none());
        if !(self.transaction && is_raised) {
            // The batch is empty afterwards.
            let writes = std::mem::take(&mut *self.writes.lock());
            self.space.store().with(py, |db| db.write_with(writes.batch, self.options.clone()))?;
        }
        self.clear()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = Shown { class: "plyvel.WriteBatch", store: self.space.store(), keyspace: None };
        shown.text(py, |details| {
            if !self.prefix.is_empty() {
                details.push(format!("prefix {}", repr::key(py, &self.prefix)));
            }
            let writes = self.writes.lock();
            details.push(counted(writes.batch.len() as u64, "operation"));
            None
        })
    }
}
