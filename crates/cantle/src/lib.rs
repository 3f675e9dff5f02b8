//! Cantle: an embedded, ordered, persistent key-value store for data that has neighbours.
#![deny(unsafe_code)]

mod bounds;
mod cache;
mod chunk;
mod db;
mod entry;
mod error;
mod files;
mod filter;
mod format;
mod journal;
pub mod key;
mod layout;
mod log;
mod maintenance;
mod manifest;
mod merge;
mod mvcc;
mod options;
mod order;
mod span;
mod stats;
mod substrate;
mod sync;
mod table;
mod value;
pub mod vfs;

pub use bounds::KeyRange;
pub use db::{Cursor, Db, Keyspace, Range, Snapshot, WriteBatch};
pub use error::{Error, Result};
pub use options::{Compression, Durability, KeyspaceOptions, Layout, Options, Resources, WriteOptions};
pub use order::Comparator;
pub use stats::{ChunkInfo, GetsServed, KeyspaceStats, Report, Stats};
pub use value::{Key, Value};
