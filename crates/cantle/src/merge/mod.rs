//! Merging sorted sources into one order: keys ascending, versions of a key newest first, and where two sources
//! say something of a key at one version, the source that comes first.

mod cursor;
mod spanned;

pub use cursor::MergeCursor;
pub use spanned::SpannedCursor;
