//! The public interface: a store, its keyspaces, snapshots, ranges, cursors, batches and transactions.
//!
//! [`handle`] and `keyspace` define `Db` and `Keyspace`; `operations` has the methods that both
//! share. `store` is the open store, to which all handles refer. `open` opens and recovers a store.
//! `write` takes a write from its arguments to its acknowledgement.

mod activity;
mod backup;
pub(crate) mod batch;
pub(crate) mod check_options;
mod commit;
mod cursor;
mod destroy;
#[cfg(test)]
mod documented;
pub(crate) mod foreign;
mod getters;
pub(crate) mod handle;
pub(crate) mod keyspace;
mod left_behind;
#[cfg(all(feature = "monitor", target_os = "linux"))]
mod monitor;
pub(crate) mod open;
mod operations;
mod options;
pub(crate) mod pop;
mod range;
mod read;
mod reads;
pub(crate) mod recovery_plan;
mod replay;
mod runtime;
mod snapshot;
mod stalls;
#[cfg(test)]
mod stalls_tests;
mod stats;
pub(crate) mod store;
mod transaction;
mod write;

pub use batch::{BatchView, WriteBatch};
pub use cursor::Cursor;
pub use handle::Db;
pub use keyspace::{Keyspace, METADATA_BYTES_MAX};
pub use options::{KeyspaceOptions, Options, Resources, WriteOptions};
pub use range::Range;
pub use snapshot::{Snapshot, SnapshotView};
pub use stalls::{StallStats, WriteStalls};
pub use stats::Stats;
pub use transaction::{Transaction, TransactionView};

use destroy::destroy;
use runtime::{Runtime, default_budget_bytes, default_threads};
