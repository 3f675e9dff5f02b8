//! Tests of the promises of durability: power loss, the death of the process, failing calls, a full
//! disk, torn and damaged logs.
//!
//! Crash images are taken by a rule of `FaultVfs` before calls that change something, so that they
//! fall into the middle of openings, rebalances, splits, checkpoints and all other work.
//! `CANTLE_TEST_FACTOR` multiplies the number of runs; each prints its seed.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

#[path = "crash/chains.rs"]
mod chains;
#[path = "crash/faults.rs"]
mod faults;
#[path = "crash/full_disk.rs"]
mod full_disk;
#[path = "crash/power_loss.rs"]
mod power_loss;
#[path = "crash/torn_logs.rs"]
mod torn_logs;
#[path = "crash/write_buffer.rs"]
mod write_buffer;
