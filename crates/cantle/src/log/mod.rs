//! Logs: segments that are appended to, their ends in memory, their indexes, and reading them in the order of keys or
//! of places.

pub mod env;
mod memory;
pub mod recent;

pub use memory::LogMemory;
