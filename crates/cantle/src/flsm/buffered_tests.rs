//! Writes of a store that acknowledges them before they are in a file.

use super::tests::{lsm_of, scattered};
use crate::db::Options;
use crate::layout::options::LayoutOptions;
use crate::sync::Arc;
use crate::sync::thread;
use crate::vfs::{CrashPlan, MemVfs};
use crate::{Db, Durability, KeyspaceOptions};
use std::time::Duration;

fn open(disk: &MemVfs) -> Db {
    let layout: LayoutOptions = "flsm".parse().unwrap();
    let keyspace = KeyspaceOptions::new().layout(layout);
    let options = Options::new().vfs(Arc::new(disk.clone())).durability(Durability::Buffered);
    options.default_keyspace(keyspace).open("store").unwrap()
}

/// Everything that was acknowledged can be made durable.
#[test]
fn no_more_writes_are_accepted_than_the_disk_has_space_for() {
    let disk = MemVfs::new();
    let db = open(&disk);
    db.put("first", "value").unwrap();
    db.sync().unwrap();
    let used = disk.allocated_bytes();
    disk.set_capacity_bytes(Some(used + (3 << 20)));
    // The store looks at the free space three times a second while there is plenty.
    let lsm = lsm_of(&db);
    while lsm.substrate.reserve.space().has_plenty() {
        thread::sleep(Duration::from_millis(5));
    }
    let mut accepted = Vec::new();
    let refused = scattered(100_000).find_map(|number| match db.put(number.to_be_bytes(), [7; 200]) {
        Ok(()) => {
            accepted.push(number);
            None
        }
        Err(error) => Some(error),
    });
    assert!(refused.is_some_and(|error| error.is_no_space()));
    assert!(accepted.len() > 2000, "{} writes", accepted.len());
    db.sync().unwrap();
    drop((db, lsm));
    let db = open(&disk.crash(&CrashPlan::LOSE_UNSYNCED));
    for number in accepted {
        assert!(db.get(number.to_be_bytes()).unwrap().is_some(), "{number}");
    }
}

#[test]
fn no_more_than_a_mebibyte_waits_in_memory_alone() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    db.put("first", "value").unwrap();
    db.sync().unwrap();
    let [before, on_disk] = [db.stats().keyspaces[0].log_bytes_written, disk.allocated_bytes()];
    for number in scattered(20_000) {
        db.put(number.to_be_bytes(), [7; 200]).unwrap();
    }
    let written = db.stats().keyspaces[0].log_bytes_written - before;
    let waiting = written.saturating_sub(disk.allocated_bytes() - on_disk);
    assert!(written > 4 << 20);
    assert!(waiting <= 1 << 20, "{waiting} bytes");
}
