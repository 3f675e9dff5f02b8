//! The ordered list of operations in memory that stands at a log's end: a skip list in an arena.
//!
//! Several threads insert, readers never wait, and nothing is removed: the list goes as a whole, with the part of the log that
//! it indexes.
//!
//! * `arena` has the memory: pieces that grow with what they hold, 256 bytes at first, mapped from 64 KiB on.
//! * `node` is an operation as it lies there: 16 bytes, its links, its key, and the value where that is asked for.
//! * `list` puts nodes in order. Comparisons begin with the first eight bytes of keys, or whatever prefix the order has.
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
