//! Many real threads on tiny chunks, with rebalances, splits, merges and checkpoints going on all the while.
//!
//! Each test prints its seed (schedules differ all the same). `CANTLE_TEST_FACTOR=10` makes each run ten times as
//! long, `CANTLE_TEST_SEED` fixes the seed.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "real threads, run against the clock")]

mod batches;
mod counters;
mod generations;
mod history;
mod iterators;
mod lifecycle;
mod linearizability;
mod munks;
mod stage;
mod support;
mod transactions;
