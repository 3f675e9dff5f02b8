//! The manifest: the edits that lead to the current set of files.
//!
//! A manifest is a file of records (`log`), each an [`Edit`]. Edits between two
//! [`Edit::Checkpoint`] records are *provisional*: they count after the death of a process whose
//! page cache survived, and are truncated after a power loss, which returns the store to the
//! structure, files and versions of its last checkpoint. For this reason an edit needs no sync of
//! its own, and a file that an edit made obsolete is held until a checkpoint covers it (`files`).
//!
//! A manifest that has grown to more than twice the size of its state is rewritten as part of a
//! checkpoint: into a new file under a temporary name, synced, renamed, and the directory synced. A
//! manifest under its own name is therefore always complete up to its first checkpoint. The
//! manifest with the highest number counts.
//!
//! Thread safety: [`Manifest`] serialises its writers.

mod edit;
mod state;
mod writer;

pub use edit::{CheckpointEdit, Edit, KeyspaceEdit, SegmentEdit, StartEdit};
pub use state::{Area, AreaFile, LayoutState, Replayed, State, replay};
pub use writer::{Manifest, Resumed};
