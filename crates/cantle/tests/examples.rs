//! The examples, run as tests: each checks its own results.

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
#[path = "../examples/typed_keys.rs"]
mod typed_keys;

#[test]
fn the_same_program_as_in_other_languages() {
    let program = std::env::current_exe().unwrap().with_file_name("../examples/ten_lines");
    let dir = tempfile::tempdir().unwrap();
    let Ok(done) = std::process::Command::new(program).arg(dir.path().join("flights")).output() else {
        println!("left out: only `cargo test` without a choice of tests builds the examples");
        return;
    };
    let printed = String::from_utf8(done.stdout).unwrap();
    assert_eq!(printed, "UA/EWR/2013-07-05: on time\nUA/EWR/2013-07-04: delayed\n", "{:?}", done.stderr);
}

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

#[test]
fn a_typed_keyspace() {
    typed_keys::main().unwrap();
}
