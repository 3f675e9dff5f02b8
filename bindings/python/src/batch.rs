//! Several writes that take effect together.

use crate::bounds::between;
use crate::bytes_like::{Key, Value};
use crate::keyspace::{Keyspace, Space};
use crate::repr::{Shown, counted};
use crate::store::Store;
use crate::typed;
use cantle::{Durability, WriteOptions};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// Writes that take effect together, or not at all, at the end of a with statement or by write().
///
/// An exception within the with statement discards them. Writes go to the keyspace that the batch
/// was made on; keyspace() returns a view of the same batch on another keyspace.
#[pyclass(frozen, module = "cantle")]
pub struct WriteBatch {
    store: Arc<Store>,
    own: Space,
    durability: Option<Durability>,
    batch: Arc<Mutex<cantle::WriteBatch>>,
}

impl WriteBatch {
    pub fn new(store: Arc<Store>, own: Space, durability: Option<Durability>) -> Self {
        Self { store, own, durability, batch: Arc::default() }
    }

    fn add(&self, add: impl FnOnce(&mut cantle::WriteBatch, &cantle::Keyspace)) -> PyResult<()> {
        self.own.part.peek(|keyspace| add(&mut self.batch.lock(), keyspace))
    }

    /// True if operations go to the default keyspace of the batch's own store. They need no
    /// keyspace then.
    #[inline]
    fn is_default(&self, space: &Space) -> bool {
        space.is_default && Arc::ptr_eq(space.store(), &self.store)
    }

    /// Writes the operations. The batch is empty afterwards if that succeeded.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let batch = std::mem::take(&mut *self.batch.lock());
        // The clone shares keys and values.
        let again = batch.clone();
        let options = write_options(self.durability);
        let mut took_place = false;
        let written = self.store.with(py, |db| {
            let written = db.write_with(batch, options);
            took_place = matches!(written, Ok(()) | Err(cantle::Error::NotDurable { .. }));
            written
        });
        written.inspect_err(|_| {
            let mut batch = self.batch.lock();
            if batch.is_empty() && !took_place {
                *batch = again;
            }
        })
    }
}

/// Write options with this durability, or with the store's own.
pub fn write_options(durability: Option<Durability>) -> WriteOptions {
    durability.map_or_else(WriteOptions::new, |durability| WriteOptions::new().durability(durability))
}

#[pymethods]
impl WriteBatch {
    /// A view of the same batch on another keyspace.
    #[pyo3(signature = (keyspace, /))]
    fn keyspace(&self, keyspace: &Bound<'_, Keyspace>) -> Self {
        Self {
            store: self.store.clone(),
            own: keyspace.get().space.clone(),
            durability: self.durability,
            batch: self.batch.clone(),
        }
    }

    /// A view of the same batch on a typed keyspace, with its types; a TypedBatch.
    #[pyo3(signature = (typed, /))]
    fn typed<'py>(self_: &Bound<'py, Self>, typed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        typed::call(self_.py(), "TypedBatch", (self_, typed))
    }

    /// Stores a pair.
    #[pyo3(signature = (key, value))]
    fn put(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<()> {
        let space = &self.own;
        space.admit(py, key.as_ref())?;
        if self.is_default(space) {
            self.store.check()?;
            self.batch.lock().put(key, value);
            return Ok(());
        }
        self.add(|batch, keyspace| {
            batch.keyspace(keyspace).put(key, value);
        })
    }

    /// Removes a key.
    #[pyo3(signature = (key))]
    fn delete(&self, py: Python<'_>, key: Key<'_>) -> PyResult<()> {
        let space = &self.own;
        space.admit(py, key.as_ref())?;
        if self.is_default(space) {
            self.store.check()?;
            self.batch.lock().delete(key);
            return Ok(());
        }
        self.add(|batch, keyspace| {
            batch.keyspace(keyspace).delete(key);
        })
    }

    /// Removes every key from start to stop. stop is excluded. None stands for the end of the
    /// keyspace.
    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let keys = between(self.own.order.as_ref(), start, stop, true, false)?;
        self.add(|batch, keyspace| {
            batch.keyspace(keyspace).delete_range(keys);
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: Key<'_>, value: Value<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: Key<'_>) -> PyResult<()> {
        self.delete(py, key)
    }

    fn __len__(&self) -> usize {
        self.batch.lock().len()
    }

    /// True, also for an empty batch.
    fn __bool__(&self) -> bool {
        true
    }

    /// Discards the writes.
    fn clear(&self) {
        self.batch.lock().clear();
    }

    /// Makes the writes take effect, and empties the batch.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.commit(py)
    }

    fn __enter__(self_: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        self_.store.check()?;
        Ok(self_)
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|raised| !raised.is_none()) {
            self.clear();
            return Ok(());
        }
        self.commit(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = Shown { class: "cantle.WriteBatch", store: &self.store, keyspace: Some(&self.own.name) };
        shown.text(py, |details| {
            details.push(counted(self.batch.lock().len() as u64, "operation"));
            None
        })
    }
}
