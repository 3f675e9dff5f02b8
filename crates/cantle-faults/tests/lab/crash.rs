//! Tests of the promises of durability: power loss, the death of the process, failing calls, a full
//! disk, torn and damaged logs.
//!
//! Crash images are taken by a rule of `FaultVfs` before calls that change something, so that they
//! fall into the middle of openings, rebalances, splits, checkpoints and all other work.
//! `CANTLE_TEST_FACTOR` multiplies the number of runs; each prints its seed.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

mod chains;
mod faults;
mod full_disk;
mod power_loss;
mod torn_logs;
mod write_buffer;
