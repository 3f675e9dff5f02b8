//! The promise of one number for memory, in a process of its own: a store that grows as fast as
//! possible uses at most its budget and 64 MiB.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "looks at the process from outside")]

use cantle::Options;
use std::fs::read_to_string;

const BUDGET_BYTES: u64 = 128 << 20;
const BESIDE_BYTES: u64 = 64 << 20;
const WRITERS: u64 = 2;
const PUTS: u64 = 400_000;

/// The peak resident memory of this process.
fn resident_max_bytes() -> u64 {
    let status = read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_store_that_grows_quickly_stays_within_its_budget_and_64_mib() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().memory_budget(BUDGET_BYTES).open(dir.path()).expect("a new store");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || {
                for number in 0..PUTS {
                    let key = (number * WRITERS + writer).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                    db.put(key, [number as u8; 800]).expect("there is room");
                }
            });
        }
    });
    let stats = db.stats();
    assert!(
        stats.memory.resident.used > 0 && stats.keyspaces[0].chunk().unwrap().munk_evictions > 0,
        "nothing was short"
    );
    let most = resident_max_bytes();
    assert!(
        most < BUDGET_BYTES + BESIDE_BYTES,
        "{} MB resident at most, {} of {} MB accounted for",
        most / 1_000_000,
        stats.memory_used / 1_000_000,
        BUDGET_BYTES / 1_000_000
    );
}
