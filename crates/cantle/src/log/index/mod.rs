//! The parts of a log and their indexes.

pub mod ends;
pub mod indexed_part;
pub mod memory_part;
mod memtable;
pub mod operations;
pub mod parts;
pub mod range_deletes;
mod record_ptr;
pub mod stretch;
pub mod view;
