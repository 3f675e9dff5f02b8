//! The munk: a chunk in memory (EvenDB §3.1).
//!
//! An array of entries, one for each key, that is also a linked list in key order. A prefix of the
//! array is sorted, so that it can be searched by halving. Entries inserted between two sorted ones
//! are a *bypass* that the search walks, with skips if it is long ([`towers`]).
//!
//! ```text
//!             1      2      3      4                          8
//!   prefixes  b      d      f      h      ·      ·      ·     e
//!          ┌──────┬──────┬──────┬──────┬──────┬──────┬──────┬──────┐
//!   slots  │ b    │ d    │ f    │ h    │  →   │      │   ←  │ e    │      next: 1 → 2 → 8 → 3 → 4
//!          └──┬───┴──┬───┴──┬───┴──┬───┴──────┴──────┴──────┴──┬───┘
//!     newest  │      │      │      │       room                │
//!             ▼      ▼      ▼      ▼                           ▼
//!   records  b@7    d@9 →  f@2    h@2                         e@11         in the blocks of an arena
//!                   d@4
//! ```
//!
//! A key after all others extends the sorted prefix, from the front; any other goes to the
//! bypasses, from the back. Inserts in key order, such as timestamps, thus leave the munk sorted.
//! (The paper appends both at one end, where one insert out of order ends the sorted prefix.)
//!
//! A key's records are linked from the newest to the oldest ([`record`]). Overwriting writes a new
//! record and swings the slot's link; bytes that a reader holds never change. A munk is *complete*:
//! for every key of its chunk it has the newest version and all versions that open snapshots need.
//! A key without a record does not exist.
//!
//! # Invariants
//!
//! * The list is sorted, with one slot for each key. From slot 0, which belongs to no key, it leads
//!   through all of them.
//! * Slots `1..=sorted` are in the list in this order, and the last of them ends it.
//! * A slot's prefix is written before the slot is linked and never changes. Once a slot is linked, it has a
//!   record.
//! * Down a chain of records, versions do not increase. At most one batch is undecided, and its
//!   records are on top.
//! * Everything that can be reached stays as long as the munk: blocks and cells are freed with it,
//!   and nothing before. Readers thus need to hold nothing but the munk.
//! * A munk that was replaced by another one is not written any more.
//!
//! # Threads
//!
//! One writer at a time, which holds the chunk's lock. Any number of readers, which never wait:
//! neither for the writer nor for one another. (A get searches again if a batch that wrote its key
//! is committed at that moment.) A thread that copies the munk is a reader, and catches up with the
//! writer in the end ([`copy`]). Writing also takes the munk's own lock, so that two writers by
//! mistake cause no more than a wrong answer.
//!
//! # What the caller keeps
//!
//! * Versions do not decrease in the order of the writes. Many writes share one (EvenDB §3.3).
//! * `needed(older, newer)` is true if an open snapshot `s` has `older <= s < newer`. It covers the
//!   snapshots that were open when the write was announced or later. A reader at a version other
//!   than `u64::MAX` holds such a snapshot.
//! * A batch's writes to a munk are not mixed with others', and its cell is decided before the next write.

mod arena;
mod array;
mod build;
mod chain;
mod copy;
mod cursor;
mod fetch;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the file")]
mod munk;
mod rebalance;
mod record;
mod search;
mod towers;
mod versions;
mod write;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

pub use build::{MunkBuilder, bytes_of, record_bytes_of, room_for};
pub use cursor::MunkCursor;
pub use munk::Munk;
use munk::{Counts, Writer};
pub use record::Record;

pub use write::Full;
