//! A directory that LevelDB wrote, read without LevelDB.
//!
//! ```text
//!   CURRENT → MANIFEST-000007 → tables that belong to the store, dealt out to lanes ─┐
//!   directory's list → logs that the manifest does not call obsolete → sorted runs ──┴→ merge: the newest of each key
//! ```
//!
//! Invariants: nothing in the directory is written, created or removed; every length is checked
//! before it is believed, and every block and record against its checksum; memory holds a block and
//! an index for each lane, the largest batch of a log, and what logs are sorted in, whatever the
//! files' sizes.

mod batch;
mod block;
mod coding;
mod compression;
mod entry;
mod file;
pub mod fuzzing;
mod lane;
mod lock;
mod log;
mod manifest;
mod merge;
mod reading;
mod run;
mod sorter;
mod source;
mod table;

#[cfg(test)]
pub(crate) use batch::tests::encode_batch;
pub(crate) use entry::Entry;
#[cfg(test)]
pub(crate) use log::tests::write_log;
pub(crate) use merge::Merge;
pub(crate) use reading::Reading;
pub(crate) use source::Source;
