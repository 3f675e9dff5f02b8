//! The public interface: a store, its keyspaces, snapshots, ranges, cursors, batches and transactions.
//!
//! [`handle`] has `Db` and `Keyspace`, whose operations are the same; `store` is what stands behind every handle;
//! `open` is recovery; `write` takes a write from its arguments to its acknowledgement.

mod activity;
mod backup;
mod batch;
mod check_options;
mod cursor;
mod destroy;
#[cfg(test)]
mod documented;
mod foreign;
mod handle;
mod keyspace;
mod left_behind;
mod open;
mod operations;
mod options;
mod range;
mod repair;
mod runtime;
mod snapshot;
mod stats;
mod store;
mod transaction;
mod verdict;
mod write;

pub use batch::WriteBatch;
pub use cursor::Cursor;
pub use handle::Db;
pub use keyspace::{Keyspace, METADATA_BYTES_MAX};
pub use options::{KeyspaceOptions, Options, Resources, WriteOptions};
pub use range::Range;
pub use repair::{LeftOut, RepairProgress, RepairReport, RepairedKeyspace, UncertainKeys};
pub use snapshot::Snapshot;
pub use stats::Stats;
pub use transaction::Transaction;

use destroy::destroy;
use repair::repair;
use runtime::{Runtime, default_budget_bytes, default_threads};
