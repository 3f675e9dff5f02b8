//! `cantle._cantle`: the part of the Python package that is written in Rust.
//!
//! `slot` and `store` ensure that no object outlives its store, and that nothing happens in a
//! forked process. Each other module is one class or one conversion. Every call of the library runs
//! detached from the interpreter: the call may read files, wait for other threads, or call a
//! comparator that needs the interpreter in another thread.

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
mod key_types;
mod keyspace;
mod leveldb;
mod many;
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
mod typed;

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

    /// A forked child has a copy of a store's memory, but none of its threads, and shares its files
    /// with the parent. Objects check for that.
    #[pymodule_init]
    fn watch_forks(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Process::watched()?;
        Ok(())
    }
}
