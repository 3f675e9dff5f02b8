//! What Cantle's interfaces to other languages have in common.
//!
//! ```text
//!   slots  process                     where handles point to, without a lock; who was forked
//!   pauses                             between two runs of a transaction
//!   leveldb_budget  repair_in_place    what LevelDB's options and its repair mean here, in C, C++ and Python
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
