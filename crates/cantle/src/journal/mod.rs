//! The journal: the commit points of batches that span logs and, in a `Sync` store, every write, so
//! that one sync serves all writers that wait (group commit). `wait` also gives the writers of the
//! last group a moment to write again. In a store that is not `Sync`, the journal also holds the
//! writes that ask to be durable, provided that all writes before them are (`mvcc/unjournaled.rs`).
//!
//! A batch that touches several logs is written to each of them under its number and counts once its *commit*
//! record is in the journal. In a `Sync` store the record carries the operations themselves: after a power loss
//! they are applied again, in this order, on top of the last checkpoint.
//!
//! Invariants:
//!
//! * Records stand in the order in which their writes became visible to writers of the same keys: a
//!   record is enqueued under the locks of its chunks.
//! * A group is written only after the group before it was synced.
//! * Space is reserved before a write is announced, so that a full disk is met before anything
//!   happened.
//! * A journal file is removed once a checkpoint covers its greatest version.

mod file;
mod group;
mod record;
mod replay;
mod rotation;
#[cfg(test)]
mod tests;
mod writer;

pub use file::OldJournal;
pub use record::{JournalOp, JournalRecord};
pub use replay::read_journals;
pub use writer::{Journal, Lsn, Reservation, Uncommitted};
