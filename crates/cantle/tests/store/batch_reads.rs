//! The number of filter bytes that a batch reads grows no faster than the batch.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::{FaultVfs, MemVfs, Operation, Verdict};
use cantle::{ChunkOptions, KeyspaceOptions, Options, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Bytes read from logs for each put of a batch, in a store with this budget.
fn read_bytes_per_put(puts: u64, budget_bytes: u64) -> f64 {
    let vfs = FaultVfs::new(Arc::new(MemVfs::without_history()));
    let read = Arc::new(AtomicU64::new(0));
    let counted = read.clone();
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).log_bytes(u64::MAX));
    let options = Options::new().memory_budget(budget_bytes).background_threads(1);
    let db = options.vfs(Arc::new(vfs.clone())).default_keyspace(keyspace).open("store").unwrap();
    let mut batch = WriteBatch::new();
    for number in 0..puts {
        batch.put(number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [0; 8]);
    }
    vfs.set_rule(move |call| {
        if call.operation == Operation::ReadAt && call.path.extension().is_some_and(|kind| kind == "log") {
            counted.fetch_add(call.len, SeqCst);
        }
        Verdict::Pass
    });
    db.write(batch).unwrap();
    let bytes = read.load(SeqCst);
    vfs.clear_rule();
    assert!(db.get(7_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).unwrap().is_some());
    bytes as f64 / puts as f64
}

#[test]
fn a_large_batch_reads_no_more_of_filters_for_each_put_than_a_small_one() {
    // Hardly any memory for blocks.
    check(4 << 20, &[100_000, 300_000]);
}

#[test]
#[ignore = "takes a minute: for who changes how puts are looked up"]
fn nor_does_a_batch_of_three_million_puts() {
    check(64 << 20, &[300_000, 3_000_000]);
}

fn check(budget_bytes: u64, sizes: &[u64]) {
    let small = read_bytes_per_put(10_000, budget_bytes);
    for &puts in sizes {
        let bytes = read_bytes_per_put(puts, budget_bytes);
        println!("{puts} puts: {bytes:.2} bytes each, of 10,000 {small:.2}");
        // Each byte of a filter with ten bits per key once, and the overhead of rounding to pieces
        // and of their frames.
        assert!(bytes < small.max(1.25) * 1.5, "{bytes} bytes for each of {puts} puts, {small} of 10,000");
    }
}
