//! The in-memory index at a log's end: an ordered list of operations, as a skip list in an arena.
//!
//! Several threads insert, readers never wait, and nothing is removed: the list is freed as a
//! whole, with the part of the log that it indexes.
//!
//! * `arena` has the memory: pieces that grow with their total, 256 bytes at first, mapped from 64
//!   KiB on.
//! * `node` is the layout of an operation in memory: 16 bytes, its links, its key, and optionally
//!   its value.
//! * `list` puts nodes in order. Comparisons begin with the first eight bytes of keys, or the
//!   prefix of the order, if it has one.
//!
//! All `unsafe` of a log's index is in these three files.

mod arena;
#[cfg(test)]
mod arena_tests;
mod list;
mod node;
#[cfg(test)]
mod tests;

pub use arena::Full;
pub use list::{Entry, Mark, SkipList};
pub use node::Item;
