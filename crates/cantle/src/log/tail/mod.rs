//! The end of a log: what waits to be in the file, and what was appended last.

pub mod memory;
pub mod recent;
pub mod stage;
pub mod staged;
