//! The munk: a chunk in memory (EvenDB §3.1).
//!
//! An array of entries, one for each key, that is also a linked list in key order. A prefix of the array is
//! sorted, so that it can be searched by halving; what is inserted between two sorted entries is a *bypass* that
//! the search walks, with leaps where it is long ([`towers`]).
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
//! A key behind all others extends the sorted prefix, from the front; another goes to the bypasses, from the
//! back. So inserts in order, as of times, leave the munk sorted. (The paper appends both at one end, where
//! one insert out of order ends the sorted prefix.)
//!
//! A key's records are linked from the newest to the oldest ([`record`]). Overwriting writes a new record and
//! swings the slot's link; what a reader holds never changes. A munk is *complete*: it has of every key of its
//! chunk the newest version and all that open snapshots need. What it does not have is not there.
//!
//! # Invariants
//!
//! * The list is sorted, one slot for each key. From slot 0, which is no key's, it leads through all of them.
//! * Slots `1..=sorted` are in the list in this order, and the last of them ends it.
//! * A slot's prefix is written before the slot is linked and never changes. Once a slot is linked, it has a
//!   record.
//! * Down a chain of records versions do not increase. At most one batch is undecided, and its records are on
//!   top.
//! * All that can be reached stays as long as the munk: blocks and cells go with it, nothing goes before. So
//!   readers need to hold nothing but the munk.
//! * A munk that another one has taken the place of is not written any more.
//!
//! # Threads
//!
//! One writer at a time, who holds the chunk's lock. Any number of readers, who never wait: neither for the writer
//! nor for one another. (A get looks again when a batch that wrote its key is committed at that moment.) Who copies
//! the munk is a reader, and catches up with the writer in the end ([`copy`]). Writing takes the munk's own lock as
//! well, so that nothing else than a wrong answer comes of two writers.
//!
//! # What the caller keeps
//!
//! * Versions do not decrease in the order of the writes. Many writes share one (EvenDB §3.3).
//! * `needed(older, newer)` says whether an open snapshot `s` has `older <= s < newer`, of those that were open when
//!   the write was announced or later. Who reads at a version other than `u64::MAX` holds such a snapshot.
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
