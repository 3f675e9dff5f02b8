//! `cantle._cantle`: the part of the Python package that is written in Rust.
//!
//! [`slot`] and [`store`] see to it that nothing outlives its store, and that nothing happens in a forked process; each other
//! module is one class or one conversion. Every call of the library runs detached from the interpreter, since it may read files,
//! wait for others, or call a comparator that needs the interpreter in another thread.

mod batch;
mod bounds;
mod bytes_like;
mod comparator;
mod composite;
mod cursor;
mod db;
mod errors;
mod gap;
mod import;
mod keyspace;
mod leveldb;
mod options;
mod pair;
mod path;
mod plyvel_batch;
mod range;
mod repr;
mod retry;
mod slot;
mod snapshot;
mod store;
mod to_python;
mod transaction;

use cantle_bindings::Process;
use pyo3::prelude::*;

/// The native part of the package cantle.
#[pymodule]
mod _cantle {
    use super::*;

    #[pymodule_export]
    use super::batch::WriteBatch;
    #[pymodule_export]
    use super::composite::{decode_key, encode_key};
    #[pymodule_export]
    use super::cursor::Cursor;
    #[pymodule_export]
    use super::db::{DB, destroy, open, repair};
    #[pymodule_export]
    use super::gap::Gap;
    #[pymodule_export]
    use super::import::import_leveldb;
    #[pymodule_export]
    use super::keyspace::Keyspace;
    #[pymodule_export]
    use super::leveldb::{leveldb_memory_budget, repair_in_place};
    #[pymodule_export]
    use super::options::Resources;
    #[pymodule_export]
    use super::plyvel_batch::PlyvelBatch;
    #[pymodule_export]
    use super::range::Range;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::store::close_all;
    #[pymodule_export]
    use super::transaction::Transaction;

    /// A child of a fork has a store's memory, but not its threads, and not its files for itself: objects notice.
    #[pymodule_init]
    fn watch_forks(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Process::watched()?;
        Ok(())
    }
}
