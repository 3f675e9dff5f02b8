//! The end of a log: bytes that wait to be written to the file, and bytes written last.

pub mod memory;
#[cfg(test)]
mod model_tests;
mod recent;
#[cfg(test)]
mod recent_tests;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
mod tail;
#[cfg(test)]
mod tests;
mod waiting;
pub mod write_buffer;

pub use tail::{Tail, TailMemory};
