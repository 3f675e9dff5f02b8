//! Import of LevelDB stores into new stores.

use crate::comparator;
use crate::errors;
use crate::options::{Given, whole};
use crate::path::FilePath;
use crate::to_python::import_report;
use cantle_import::Import;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;

/// Copies a LevelDB store into a new store: cantle.import_leveldb() has the options.
#[pyfunction]
#[pyo3(signature = (source, destination, progress=None, skip_damaged=false, log_memory=None, **options))]
pub fn import_leveldb<'py>(
    py: Python<'py>,
    source: FilePath,
    destination: FilePath,
    progress: Option<Py<PyAny>>,
    skip_damaged: bool,
    log_memory: Option<&Bound<'py, PyAny>>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = Given::new(options)?;
    let orders = given.orders()?;
    let keyspace = given.text("keyspace")?;
    let mut import = Import::new().skip_damaged(skip_damaged);
    if let Some(name) = keyspace {
        // Options of a keyspace go to this keyspace, not to the default one.
        let (options, keyspace_options) = given.split(&orders)?;
        import = import.options(options).keyspace(&name, keyspace_options);
    } else {
        import = import.options(given.store(&orders)?.0);
    }
    given.finish()?;
    if let Some(bytes) = log_memory {
        import = import.log_memory(whole("log_memory", bytes, 1)? as usize);
    }
    let mut raised = None;
    let _scope = comparator::Scope::enter(!orders.is_empty());
    let report = py.detach(|| {
        import.leveldb(source, destination, |at| {
            let told = Python::try_attach(|py| {
                py.check_signals()?;
                let Some(progress) = &progress else { return Ok(()) };
                progress.call1(py, (at.bytes, at.total_bytes, at.pairs)).map(drop)
            });
            match told {
                Some(Err(error)) => {
                    raised = Some(error);
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        })
    });
    match (report, raised.or_else(comparator::take_raised)) {
        (_, Some(raised)) => Err(raised),
        (Ok(report), None) => import_report(py, &report),
        (Err(error), None) => Err(errors::raise_import(py, &error)),
    }
}
