//! Code that Cantle's interfaces to other languages share.
//!
//! ```text
//!   slots  process                     the slots to which handles point, without a lock; forks of the process
//!   pauses                             pauses between two runs of a transaction
//!   leveldb_budget  repair_in_place    LevelDB's options and its repair as they work here, in C, C++ and Python
//! ```
#![deny(unsafe_op_in_unsafe_fn)]

pub mod leveldb_budget;
mod pauses;
mod process;
mod repair_in_place;
mod slots;

pub use pauses::Pauses;
pub use process::Process;
pub use repair_in_place::{Failure, RepairInPlace};
pub use slots::{SLOTS_MAX, Slots};
