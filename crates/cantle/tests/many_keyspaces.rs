//! Many keyspaces of the layout `flsm` in one store, in a process of its own: each has a log and an index
//! in memory while it is written, and all together stay within the budget and 64 MiB.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "looks at the process from outside")]

use cantle::{Db, Keyspace, KeyspaceOptions, LayoutKind, Options};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const BUDGET_BYTES: u64 = 64 << 20;
const BESIDE_BYTES: u64 = 64 << 20;
const KEYSPACES: u64 = 1_000;
const ROUNDS: u64 = 12;
/// Puts of 1,000 bytes into each keyspace in a round.
const PUTS: u64 = 20;

/// The peak resident memory of this process.
fn resident_max_bytes() -> u64 {
    let status = read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn open(dir: &Path) -> (Db, Vec<Keyspace>) {
    let db = Options::new().memory_budget(BUDGET_BYTES).open(dir).expect("a store");
    let name = |number: u64| format!("{number:05}");
    let options = || KeyspaceOptions::new().layout(LayoutKind::Flsm);
    let open = |number| db.keyspace_with(&name(number), options()).expect("a keyspace");
    let keyspaces = (0..KEYSPACES).map(open).collect();
    (db, keyspaces)
}

fn key(round: u64, put: u64) -> [u8; 8] {
    (round * PUTS + put).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Writes to all keyspaces in turn, then dies with the store open.
fn write_and_die(dir: &Path) -> ! {
    let (db, keyspaces) = open(dir);
    for round in 0..ROUNDS {
        for keyspace in &keyspaces {
            for put in 0..PUTS {
                keyspace.put(key(round, put), [round as u8; 1000]).expect("there is room");
            }
        }
    }
    println!("\n{} bytes resident at most, {} accounted for", resident_max_bytes(), db.stats().memory_used);
    std::process::abort()
}

/// The environment variable with the directory in which this program is to write and die.
const DIR: &str = "CANTLE_TEST_DIES_IN";

#[test]
fn a_thousand_keyspaces_that_are_written_in_turn_stay_within_the_budget_and_64_mib() {
    if let Some(dir) = std::env::var_os(DIR) {
        write_and_die(Path::new(&dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("its path");
    let child = Command::new(program).arg("--nocapture").env(DIR, dir.path()).output().expect("its output");
    assert!(!child.status.success(), "it has died");
    let said = String::from_utf8_lossy(&child.stdout);
    let (most, _) = said.split_once(" bytes resident").unwrap_or_else(|| panic!("{said}"));
    let most: u64 =
        most.lines().last().and_then(|most| most.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    println!("{} MB resident at most", most / 1_000_000);
    assert!(most < BUDGET_BYTES + BESIDE_BYTES, "{said}");
    let begun = Instant::now();
    let db = Options::new().memory_budget(BUDGET_BYTES).open(dir.path()).expect("a store");
    println!("{} ms to open after the kill", begun.elapsed().as_millis());
    drop(db);
    let (db, keyspaces) = open(dir.path());
    assert_eq!(db.stats().keyspaces.len() as u64, KEYSPACES + 1);
    for keyspace in keyspaces.iter().step_by(97) {
        assert_eq!(keyspace.range(..).count() as u64, ROUNDS * PUTS);
    }
}
