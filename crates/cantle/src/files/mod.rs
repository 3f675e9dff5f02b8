//! The store's files: their numbers, open handles, and removal.
//!
//! Life of a file: *created* under a number that is never used again → *referenced* by the
//! structures of a layout (`retain`/`release` count those references) → *obsolete* once nothing
//! current references it → *held* until a checkpoint that no longer needs it is durable →
//! *deletable*, and unlinked when the last reader drops it, or the store is closed. Obsolete files
//! are the recovery image of the last checkpoint, which is why they are held.
//!
//! Invariants, which `tests/loom_files.rs` and `tests/shuttle_store.rs` check:
//!
//! * Every reader of a file and every structure that refers to it holds an `Arc<StoreFile>`. A file
//!   is unlinked once: when the last of these is dropped, or before that by the closing of the
//!   store.
//! * An obsolete file is deletable only when a checkpoint is durable that covers the edit by which
//!   it became obsolete: it is released after that edit was appended, and a checkpoint takes the
//!   held ones while it holds the manifest's lock.
//! * A name is durable before a checkpoint's record that knows it: it is marked as new before the
//!   edit that names it is appended, and a checkpoint looks for the mark while it holds the
//!   manifest's lock.
//! * While files are pinned, none is unlinked; those that should have been are unlinked when the
//!   last pin ends.
//! * No file is unlinked once others may open the store (`end`). By then every deletable file is
//!   unlinked, even if it is still referenced (`held_tests`).
//! * Bytes of a file that belong to no share (`claims`) count exactly as long as the file is
//!   referenced.
//! * Bytes of a log that the kernel could not write are reported by the next sync, although the
//!   handle was closed meanwhile (`unsynced`).
//! * A held file subtracts as many held bytes when it goes as it has added, whatever became of its
//!   length (`held_tests`).
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
