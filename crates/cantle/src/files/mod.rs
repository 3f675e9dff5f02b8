//! The store's files: numbering, open handles, and when a file may go.
//!
//! Life of a file: *created* under a number that is never used again → *referenced* by the structures of a
//! layout (`retain`/`release` count those references) → *obsolete* once nothing current references it → *held*
//! until a checkpoint that no longer needs it is durable → *deletable*, and unlinked when the last reader lets go, or the store is closed.
//! Obsolete files are the recovery image of the last checkpoint, which is why they are held.
//!
//! Invariants, which `tests/loom_files.rs` and `tests/shuttle_store.rs` check:
//!
//! * Who reads or refers to a file holds it (`Arc<StoreFile>`), and a file is unlinked once: by the last who lets go of it, or before
//!   that by the closing of the store.
//! * An obsolete file is deletable only when a checkpoint is durable that covers the edit by which it became obsolete: it is
//!   released after that edit was appended, and a checkpoint takes the held ones while it holds the manifest's lock.
//! * A name is durable before a checkpoint's record that knows it: it is marked as new before the edit that names it is
//!   appended, and a checkpoint looks for the mark while it holds the manifest's lock.
//! * While anybody pins files, none is unlinked; what was to be goes when the last pin ends.
//! * None is unlinked once others may open the store (`end`); by then every deletable one is, whoever holds it (`held_tests`).
//! * What is in nobody's share of a file (`claims`) counts for as long as somebody refers to the file, and no longer.
//! * What the kernel could not write of a log is reported by the next sync, though its handle was closed meanwhile (`unsynced`).
//! * A held file adds as many bytes to the held ones as it takes off when it goes, whatever became of its length (`held_tests`).
//!
//! Thread safety: everything here may be called from any thread.

mod claims;
#[cfg(test)]
mod claims_tests;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the file")]
mod files;
mod handles;
#[cfg(test)]
mod held_tests;
pub mod space;
mod totals;
mod unsynced;

pub use files::{Files, StoreFile, file_name, parse_file_name};
pub use space::{Promise, Space};
pub use totals::Totals;
