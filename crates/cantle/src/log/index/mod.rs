//! The parts of a log, and where in them keys are.

pub mod ends;
pub mod indexed_part;
pub mod memory_part;
mod memtable;
pub mod parts;
mod record_ptr;
pub mod view;
