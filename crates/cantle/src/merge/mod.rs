//! Merging sorted sources into one order: keys ascending, and the versions of a key newest first.
//! If two sources have an entry for one key and version, the first source wins.

mod cursor;
mod skipping;
mod spanned;

pub use cursor::MergeCursor;
pub use skipping::SkippingCursor;
pub use spanned::SpannedCursor;
