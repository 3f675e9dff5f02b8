//! The doors with real processes, file systems and limits, for some seconds each. Those that need
//! root or a missing tool report that and do nothing;
//! `CANTLE_REQUIRE_MACHINERY=strace,ext4,xfs,btrfs,tmpfs,memory-group,io_uring`, or some of these,
//! makes them fail instead. `CANTLE_TEST_FACTOR` and `CANTLE_TEST_CASE` as in `lab/doors.rs`.

use cantle::{ChunkOptions, KeyspaceOptions, Options};
use cantle_faults::doors::door;
use cantle_faults::visit::Visit;
use std::time::Duration;

/// Counters of places that children read together, with a ring of the kernel and without.
const BY_RINGS: &str = "places read by rings";
const BY_HINTS: &str = "places read by hints";

/// Runs a door and prints its counters. Each of `done` must have been counted, unless a test was
/// left out.
fn enter(name: &str, done: &[&str]) {
    let mut visit = Visit::for_test();
    visit.program = env!("CARGO_BIN_EXE_cantle-faults").into();
    let door = door(name).unwrap_or_else(|| panic!("there is no door {name}"));
    (door.enter)(&visit);
    let (tally, skipped) = (visit.tally(), visit.skipped());
    println!("{name}: {tally:?}");
    let is_done = |done: &&str| tally.get(done).is_some_and(|count| *count > 0);
    assert!(done.iter().all(is_done) || !skipped.is_empty() || visit.case.is_some(), "{tally:?}");
}

#[test]
fn stores_stay_what_they_are_whatever_becomes_of_their_paths() {
    enter(
        "paths",
        &["worlds in memory", "worlds on disk", "openings of a store that others open and destroy"],
    );
}

#[test]
fn processes_that_are_killed_keep_what_they_acknowledged() {
    enter("kill", &["stores checked", BY_RINGS, BY_HINTS]);
}

#[test]
fn processes_that_use_hard_what_a_killed_one_left_keep_what_they_acknowledged() {
    enter("life-on-disk", &["lives", "stores checked"]);
}

#[test]
fn file_systems_that_go_down_keep_what_was_synced() {
    enter("shutdown", &["stores checked"]);
}

#[test]
fn volumes_that_are_mounted_anew_or_copied_claim_what_they_can_prove() {
    let cells = [
        "ext4, kill, unmount, mount: the last checkpoint, told",
        "xfs, kill: everything",
        "btrfs, kill: everything",
    ];
    enter("remount", &["stores checked", cells[0], cells[1], cells[2]]);
}

#[test]
fn processes_that_are_killed_at_system_calls_keep_what_they_acknowledged() {
    enter("kill-at-calls", &["processes killed", "calls of rings failed", BY_RINGS, BY_HINTS]);
}

#[test]
fn processes_that_are_killed_in_any_phase_keep_what_they_acknowledged() {
    let phases = ["open", "batch", "rebalance", "split", "merge", "checkpoint", "close"];
    let killed = phases.map(|phase| format!("killed in {phase}"));
    enter("kill-in-phases", &killed.each_ref().map(|killed| &killed[..]));
}

#[test]
fn file_systems_that_are_full_heal() {
    let work = ["rebalances", "splits"].map(|work| format!("{work} while it filled up"));
    let under_way = "rebalances and splits under way when it was full";
    enter("full", &["file systems filled up and healed", &work[0], &work[1], under_way]);
}

#[test]
fn a_sync_that_really_fails_is_believed() {
    enter("bad-sync", &["stores checked"]);
}

#[test]
fn devices_that_lose_sectors_kill_nobody() {
    enter("bad-sectors", &["stores checked", "lost places read by io_uring", "lost places read by hints"]);
}

#[test]
fn processes_at_their_limits_keep_what_they_acknowledged() {
    enter("limits", &["stores checked"]);
}

#[test]
fn several_stores_with_few_files_leave_half_of_them_and_lose_nothing() {
    enter("stores", &["processes with few files", "stores checked", "operations refused"]);
}

#[test]
fn processes_have_no_more_in_memory_than_their_budget_and_64_mib() {
    enter("resident", &["processes measured"]);
}

/// A failed store into a mapped file raises a signal, which kills the process if there is no
/// handler.
#[test]
fn a_write_buffer_that_fails_under_an_open_store_kills_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let keyspace =
        KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10));
    let options = Options::new().memory_budget(64 << 20).default_keyspace(keyspace);
    // The tests that run at the same time start processes, which inherit the lock from fork to
    // exec.
    let open = || loop {
        match options.clone().open(&path) {
            Err(cantle::Error::Locked { .. }) => std::thread::sleep(Duration::from_millis(1)),
            opened => break opened.unwrap(),
        }
    };
    let db = open();
    let key = |n: u64| format!("{:03}", n % 400);
    for n in 0..2000 {
        db.put(key(n), format!("{n:0300}")).unwrap();
    }
    db.sync().unwrap();
    let Ok(write_buffer) = std::fs::File::options().write(true).open(path.join("WRITE-BUFFER")) else {
        println!("skipped: there is no write buffer here, as there is little space");
        return;
    };
    // Synced data are in the logs; some of the later data are lost with the write buffer.
    for n in 2000..2040 {
        db.put(key(n), format!("{n:0300}")).unwrap();
    }
    write_buffer.set_len(0).unwrap();
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for n in 2040..2600 {
        match db.put(key(n), format!("{n:0300}")) {
            Ok(()) => accepted.push(n),
            Err(error) => {
                assert!(error.to_string().contains("the file WRITE-BUFFER"), "{error}");
                refused += 1;
            }
        }
    }
    println!("{} puts accepted, {refused} refused", accepted.len());
    assert!(!accepted.is_empty());
    for n in 0..400 {
        match db.get(key(n)) {
            Ok(value) => {
                let value = String::from_utf8(value.unwrap().to_vec()).unwrap();
                assert_eq!(value.parse::<u64>().unwrap() % 400, n);
            }
            Err(error) => assert!(error.is_corruption(), "{error}"),
        }
    }
    drop(db);
    let db = open();
    // Only data that were lost with the write buffer may be reported.
    for damage in db.verify().unwrap().damage {
        assert!(damage.to_string().contains("WRITE-BUFFER"), "{damage}");
    }
    let last: std::collections::BTreeMap<_, _> = accepted.iter().map(|&n| (key(n), n)).collect();
    for (key, n) in last {
        assert_eq!(db.get(&key).unwrap().as_deref(), Some(format!("{n:0300}").as_bytes()));
    }
}
