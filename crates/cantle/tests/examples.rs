//! The examples, run as tests: each checks what it shows.

#[path = "../examples/async_tasks.rs"]
mod async_tasks;
#[path = "../examples/batches.rs"]
mod batches;
#[path = "../examples/composite_keys.rs"]
mod composite_keys;
#[path = "../examples/counters.rs"]
mod counters;
#[path = "../examples/snapshots.rs"]
mod snapshots;
#[path = "../examples/transaction.rs"]
mod transaction;

#[test]
fn composite_keys_and_prefix_scans() {
    composite_keys::main().unwrap();
}

#[test]
fn batches_over_keyspaces() {
    batches::main().unwrap();
}

#[test]
fn snapshots_and_long_iterators_beside_writers() {
    snapshots::main().unwrap();
}

#[test]
fn counters_with_update_and_durability_per_write() {
    counters::main().unwrap();
}

#[test]
fn async_code_hands_blocking_calls_over() {
    async_tasks::main().unwrap();
}

#[test]
fn transactions_that_read_ranges_and_meet() {
    transaction::main().unwrap();
}
