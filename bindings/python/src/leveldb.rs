//! Functions that `cantle.plyvel` shares with LevelDB's interfaces in C and C++: a repair in place,
//! and the memory budget for LevelDB's options.

use crate::comparator;
use crate::errors;
use crate::options::Given;
use crate::path::FilePath;
use cantle_bindings::leveldb_budget::{Budget, WRITE_BUFFER_BYTES};
use cantle_bindings::{Failure, RepairInPlace};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Repairs a store in place: cantle.plyvel.repair_db() has the options.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn repair_in_place(py: Python<'_>, path: FilePath, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let given = Given::new(options)?;
    let orders = given.orders()?;
    let (options, _) = given.store(&orders)?;
    given.finish()?;
    let _scope = comparator::Scope::enter(!orders.is_empty());
    let repair = RepairInPlace { options: &options, kept_suffix: ".damaged", starts_over: false };
    let done = py.detach(|| repair.repair(path.as_ref()));
    if let Some(raised) = comparator::take_raised() {
        return Err(raised);
    }
    done.map_err(|failure| match failure {
        Failure::Store(error) => errors::raise(py, &error),
        Failure::System(what, path, error) => {
            let what = format!("cannot {what} {}", path.display());
            errors::io(py, &error, &what, &path)
                .unwrap_or_else(|_| PyOSError::new_err(format!("{what}: {error}")))
        }
    })
}

/// The memory budget from the environment, else from write buffer and cache; None for Cantle's
/// default.
#[pyfunction]
#[pyo3(signature = (write_buffer_size, lru_cache_size, /))]
pub fn leveldb_memory_budget(
    write_buffer_size: Option<u64>,
    lru_cache_size: Option<u64>,
) -> PyResult<Option<u64>> {
    Ok(match Budget::from_environment().map_err(PyValueError::new_err)? {
        Some(Budget::Automatic) => None,
        Some(Budget::Bytes(bytes)) => Some(bytes),
        None => Some(Budget::of_buffers(write_buffer_size.unwrap_or(WRITE_BUFFER_BYTES), lru_cache_size)),
    })
}
