//! One number for memory.

#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
mod budget;
mod residents;
mod stats;

pub(crate) use budget::{Budget, Cost, DataShare};
pub(crate) use residents::{Rank, Resident};
pub use stats::MemoryStats;
