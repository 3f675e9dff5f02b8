//! Stores of other makers, copied into Cantle stores: a directory that LevelDB wrote, read without
//! LevelDB, and a dump of pairs as RocksDB's tool `ldb` prints it.
//!
//! ```
//! use cantle_import::Import;
//! use std::ops::ControlFlow;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (source, destination) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/leveldb"), dir.path().join("new"));
//! let report = Import::new().leveldb(source, &destination, |progress| {
//!     println!("{} of {:?} bytes", progress.bytes, progress.total_bytes);
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(cantle::Db::open(&destination)?.range(..).count() as u64, report.pairs);
//! # Ok(()) }
//! ```
//!
//! The source is only read: nothing in its directory is created, written or removed, and while it
//! is read LevelDB cannot open it. The destination is built in a directory beside it,
//! `NAME.importing`, and renamed when everything is in it and durable. There is either a whole
//! store or none, whenever the process or the machine dies; the next import removes the remains.

mod destination;
pub mod dump;
mod error;
mod import;
mod leveldb;

pub use error::{Damage, Error, Result};
pub use import::{Import, Progress, Report};
#[doc(hidden)]
pub use leveldb::fuzzing;
