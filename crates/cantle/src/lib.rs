//! Cantle: an embedded, ordered, persistent key-value store for data that has neighbours.
//!
//! Composite keys (app + time, user + thread + message, node + edge) place data that is written and
//! scanned together side by side. Cantle cuts the key space into *chunks*, ranges of some
//! megabytes, and makes the chunk the unit of logging, sorting and caching, after EvenDB (EuroSys
//! '20). These pages refer to sections of that paper as "EvenDB §3.4".
//!
//! # Model
//!
//! A store is a directory. It holds *keyspaces*: ordered maps from byte strings (0 B to 1 MiB) to
//! byte strings (0 B to 1 GiB), in bytewise order or that of a [`Comparator`]. [`Db`] is the handle
//! to an open store. Its own operations work on the keyspace named `default`; [`Keyspace`] has the
//! same operations for another one.
//!
//! ```
//! use cantle::{Db, WriteBatch, key};
//!
//! # fn main() -> cantle::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("messages");
//! let db = Db::open(path)?; // created if there is none
//!
//! // Keys made of parts sort as their parts do.
//! db.put(key::encode(&("ada", 7i64)), "hello")?;
//! db.put(key::encode(&("ada", 12i64)), "good night")?;
//! assert_eq!(db.get(key::encode(&("ada", 7i64)))?.as_deref(), Some(&b"hello"[..]));
//!
//! // Ranges run in both directions, and each is one moment of the store.
//! let newest = db.range(key::range_of(&("ada",))).next_back().transpose()?;
//! assert!(newest.is_some_and(|(_, value)| value == "good night"));
//!
//! // Batches are seen whole or not at all.
//! let mut batch = WriteBatch::new();
//! batch.delete(key::encode(&("ada", 7i64))).put(key::encode(&("bob", 1i64)), "hi");
//! db.write(batch)?;
//!
//! // Read, modify, write, atomically.
//! db.update("visits", |old| Some(format!("{}|", old.map_or("", |old| std::str::from_utf8(old).unwrap())).into()))?;
//! db.close()
//! # }
//! ```
//!
//! [`Db::typed`] opens a keyspace whose keys and values are Rust's types rather than bytes
//! ([`typed`]).
//!
//! [`Db::snapshot`] returns a consistent view of all keyspaces at one moment. Each [`Range`] or
//! [`Cursor`] reads from a snapshot of its own. For an open snapshot the store keeps only the
//! versions that the snapshot sees, so it may stay open for hours (EvenDB §3.2). [`Db::update`] and
//! [`WriteBatch`] are atomic. A [`Transaction`] reads and writes any keys and ranges as one atomic
//! step. It is optimistic: [`Db::transact`] runs it again until it commits without a conflict.
//!
//! # Threads
//!
//! [`Db`], [`Keyspace`] and [`Snapshot`] are `Clone + Send + Sync` ([`Transaction`] is `Send +
//! Sync`). They are cheap to clone, and every method may be called from any thread at any time.
//! Gets never wait for writers; taking a snapshot waits some microseconds for the writes that are
//! under way. Writers of different chunks do not wait for one another. If maintenance falls behind,
//! each writer is slowed a little, and none is stopped. A store may be open in one process at a
//! time ([`Error::Locked`]), or in any number of processes that only read ([`Options::read_only`]).
//!
//! Calls may block on the disk. Async code should make them on threads that may block: the example
//! `async_tasks` shows how.
//!
//! # Durability
//!
//! [`Options::durability`] sets the events that an acknowledged write survives.
//! [`WriteOptions::durability`] asks for more for a single batch or transaction. [`Db::sync`] makes
//! everything durable that was acknowledged before it.
//!
//! | | the process dies | the power fails |
//! | --- | --- | --- |
//! | [`Durability::Buffered`] | a consistent prefix | a consistent prefix |
//! | [`Durability::Process`] (default) | everything acknowledged | a consistent prefix |
//! | [`Durability::Sync`] | everything acknowledged | everything acknowledged |
//!
//! A *consistent prefix* ends at the last checkpoint, by default at most [five
//! seconds](Options::checkpoint_interval) old. If it contains a write, it also contains every write
//! that had completed before this write began (EvenDB §3.5).
//!
//! # Errors
//!
//! An [`Error`] names the operation that failed, the file, and the remedy. Damage is
//! [`Error::Corruption`] with file and offset; other keys stay readable. A full disk is
//! [`Error::NoSpace`]: reads and deletes continue, and writes continue as soon as there is space
//! again. A failed sync turns the store [read-only](Error::ReadOnly) until it is reopened. No
//! content of a file can make the library panic.
//!
//! # Features
//!
//! * `zstd` (default): [`Compression::Zstd`]. The one dependency that needs a C compiler.
//! * `jiff`: that crate's times and dates are parts of [keys](key).
//! * `monitor`: [`Options::monitor`], a socket by which the command looks at an open store. Brings `serde_json`.
//! * `serde`: [`Stats`], [`RegionInfo`](stats::RegionInfo) and the option enums implement `serde::Serialize` and
//!   `Deserialize`; `typed::Json` keeps values of any type that serde knows.
//! * `uuid`: that crate's UUIDs are parts of keys.
//!
//! The library prints nothing. It emits [`tracing`](https://docs.rs/tracing) events for opening,
//! recovery, checkpoints, splits, stalls and damage. Rebalances, splits, merges and checkpoints are
//! spans, on the thread that executes them.
#![deny(unsafe_code)]
#![warn(missing_docs)]

/// The Rust in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The Rust in the page about keys compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../docs/choosing-keys.md")]
pub struct ChoosingKeys;

/// The Rust in the page about layouts compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../docs/layouts.md")]
pub struct ChoosingLayouts;

// Must be the first module: the modules below plant bugs with its macro.
#[cfg(not(feature = "canaries"))]
#[macro_use]
mod canary;
#[cfg(feature = "canaries")]
#[macro_use]
pub mod canary;

mod block;
mod budget;
mod cache;
mod chunk;
mod db;
mod fetch;
mod files;
mod filter;
mod flsm;
mod forest;
mod format;
mod journal;
pub mod key;
mod layout;
mod layouts;
mod log;
mod lsm;
mod maintenance;
mod manifest;
mod memory;
mod merge;
mod mvcc;
mod read_ahead;
mod records;
pub mod repair;
mod run;
pub mod stats;
mod substrate;
mod sync;
mod table;
#[cfg(feature = "labs")]
mod tiny;
pub mod typed;
mod types;
pub mod vfs;

/// For the labs alone: the promises of layouts.
#[cfg(feature = "labs")]
#[doc(hidden)]
pub mod labs {
    pub use crate::layout::kind::Capabilities;
}

pub use db::{BatchView, SnapshotView, TransactionView};
pub use db::{Cursor, Db, Keyspace, METADATA_BYTES_MAX, Range, Snapshot, Stats, Transaction, WriteBatch};
pub use db::{KeyspaceOptions, Options, Resources, WriteOptions};
pub use format::limits::{BATCH_BYTES_MAX, BATCH_OP_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use layout::kind::LayoutKind;
pub use layout::options::{ChunkOptions, FlsmOptions, ForestOptions, LayoutOptions};
pub use layout::stats::Report;
pub use typed::TypedKeyspace;
pub use types::error::{Attempt, Error, Result};
pub use types::value::{Key, Value};
pub use types::{bounds::KeyRange, compression::Compression, durability::Durability, order::Comparator};
