//! Logs: segments that are appended to, their ends in memory, their indexes, and reading them in
//! the order of keys or of places.
//!
//! `op/` has the format of records, `tail/` the end that is not in the file yet, `index/` the parts
//! and their indexes; `segment` appends, loads and truncates; `shared` lets several writers append;
//! `read/` reads indexed parts. Each imports only modules before it.

pub mod append;
pub mod dirty;
pub mod env;
pub mod index;
mod load;
mod lookup;
pub mod op;
pub mod read;
pub mod salvage;
pub mod segment;
pub mod shared;
pub mod tail;
#[cfg(test)]
pub mod test_support;
#[cfg(test)]
mod tests;

pub use dirty::DirtyLog;
pub use tail::memory::{LogMemory, MEMTABLE_FRACTION};
