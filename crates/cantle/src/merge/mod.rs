//! Merging sorted sources into one order: keys ascending, and the entries of a key newest first.
//!
//! The entries of a key in an earlier source are newer than those in later ones, as for a get
//! (`run/get.rs`), whatever their versions. A merge of the oldest runs may turn a range delete that is noted
//! for a run into a delete of a key (`run/retain.rs`): its version is higher than that of entries in newer
//! runs that were written before that range delete.

mod cursor;
mod skipping;
mod spanned;

pub use cursor::MergeCursor;
pub use skipping::SkippingCursor;
pub use spanned::SpannedCursor;
