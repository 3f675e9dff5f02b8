//! Cantle: an embedded, ordered, persistent key-value store for data that has neighbours.
#![deny(unsafe_code)]

mod bounds;
mod chunk;
pub mod entry;
mod error;
pub mod format;
pub mod key;
pub mod mvcc;
mod options;
mod order;
mod stats;
pub mod sync;
mod value;
pub mod vfs;

mod db;

pub use bounds::KeyRange;
pub use db::{Cursor, Db, Keyspace, Range, Snapshot, WriteBatch};
pub use error::{Error, Result};
pub use options::{Compression, Durability, KeyspaceOptions, Layout, Options, Resources, WriteOptions};
pub use order::Comparator;
pub use stats::{ChunkInfo, KeyspaceStats, Report, Stats};
pub use value::{Key, Value};
