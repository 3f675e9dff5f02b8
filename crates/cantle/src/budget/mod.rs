//! The memory budget.

#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
mod budget;
mod division;
mod reads;
mod residents;
#[cfg(test)]
mod residents_tests;
mod stats;

pub(crate) use budget::{Budget, DataShare};
pub(crate) use residents::{Rank, Resident};
pub use stats::{MemoryAccount, MemoryStats};
