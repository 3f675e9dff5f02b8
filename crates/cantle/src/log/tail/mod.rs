//! The end of a log: what waits to be in the file, and what was appended last.

pub mod file_end;
pub mod memory;
pub mod recent;
#[cfg(test)]
mod tests;
pub mod write_buffer;
