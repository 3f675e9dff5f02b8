//! Backups of stores that are opened read-only after an unclean end contain the data that reads of
//! the store see, and write nothing to the store's own directory.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Verdict, Vfs};
use cantle::{Db, Durability, Options, WriteBatch};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Pairs = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn pairs(db: &Db) -> Pairs {
    let mut pairs = Pairs::new();
    for name in db.keyspaces().unwrap() {
        let keyspace = db.keyspace(&name).unwrap();
        for pair in keyspace.range(..) {
            let (key, value) = pair.unwrap();
            pairs.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    pairs
}

fn options(vfs: impl Vfs, durability: Durability) -> Options {
    Options::new().vfs(Arc::new(vfs)).durability(durability).checkpoint_interval(Duration::from_secs(3600))
}

/// The writer's way to fill its store, and the data that a loss of power must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// No write was synced.
    Unsynced,
    /// Synced, then more writes.
    SyncedThenMore,
    /// Rebalanced into tables, then range deletes and batches over several chunks.
    SortedThenMore,
}

fn fill(db: &Db, filling: Filling) {
    let put = |from: u32, to: u32| {
        for number in from..to {
            db.put(format!("key{number:05}"), format!("value {number} ").repeat(10)).unwrap();
        }
    };
    put(0, 300);
    match filling {
        Filling::Unsynced => {}
        Filling::SyncedThenMore => {
            db.sync().unwrap();
            put(200, 500);
        }
        Filling::SortedThenMore => {
            db.compact_range(..).unwrap();
            let events = db.keyspace("events").unwrap();
            events.put("event", "first").unwrap();
            db.sync().unwrap();
            db.delete_range("key00050".."key00100").unwrap();
            let mut batch = WriteBatch::new();
            batch.put("key00060", "again");
            batch.keyspace(&events).put("event", "second");
            batch.delete("key00200");
            db.write(batch).unwrap();
            put(400, 450);
        }
    }
}

/// The file system of a store that cannot be written to, with a place for backups.
fn frozen(image: &MemVfs) -> FaultVfs {
    let fault = FaultVfs::over_memory(image.clone());
    fault.set_rule(|call| {
        let inside = call.path.starts_with("store");
        if inside && call.operation.changes() {
            Verdict::Fail(Failure::Errno(rustix::io::Errno::ROFS.raw_os_error()))
        } else {
            Verdict::Pass
        }
    });
    fault
}

/// Opens an image read-only, and backs it up twice, once with reads in between. Compares every pair
/// with the reads of the image, of the reopened backup, of its repair, and of the store itself when
/// it is opened for writing.
fn check(image: &MemVfs, durability: Durability, expected: Option<&Pairs>, what: &str) {
    let disk = frozen(image);
    let db = options(disk.clone(), durability).read_only(true).open("store").unwrap();
    db.backup("first").unwrap_or_else(|error| panic!("{what}: {error}"));
    let read = pairs(&db);
    if let Some(expected) = expected {
        assert!(read == *expected, "{what}: the store itself lacks pairs");
    }
    assert!(db.verify().unwrap().damage.is_empty(), "{what}");
    db.backup("second").unwrap();
    assert!(pairs(&db) == read, "{what}: a backup has changed the store");
    db.close().unwrap();
    disk.clear_rule();
    for backup in ["first", "second"] {
        // The contents of a backup are durable once it is complete.
        for image in [image.kill(), image.crash(&CrashPlan::LOSE_UNSYNCED)] {
            for read_only in [true, false] {
                let db = options(image.clone(), durability)
                    .read_only(read_only)
                    .create_if_missing(false)
                    .open(backup);
                let db = db.unwrap_or_else(|error| panic!("{what}: {backup}: {error}"));
                let found = pairs(&db);
                assert!(found == read, "{what}: {backup} holds {} of {} pairs", found.len(), read.len());
                let report = db.verify().unwrap();
                assert!(report.damage.is_empty() && report.unknown_files.is_empty(), "{what}: {report:?}");
                db.close().unwrap();
            }
            let report = Db::repair(backup, "repaired", options(image.clone(), durability)).unwrap();
            assert_eq!(report.pairs(), read.len() as u64, "{what}: the repair of {backup}");
            assert!(pairs(&options(image.clone(), durability).open("repaired").unwrap()) == read, "{what}");
        }
    }
    assert!(pairs(&options(image.clone(), durability).open("store").unwrap()) == read, "{what}");
}

#[test]
fn a_backup_of_a_store_opened_for_reading_holds_all_that_reads_see() {
    for durability in [Durability::Process, Durability::Sync, Durability::Buffered] {
        for filling in [Filling::Unsynced, Filling::SyncedThenMore, Filling::SortedThenMore] {
            let memory = MemVfs::new();
            let db = options(memory.clone(), durability).open("store").unwrap();
            fill(&db, filling);
            let written = pairs(&db);
            let what = |end: &str| format!("{durability:?}, {filling:?}, {end}");
            let all = Some(&written);
            // A buffered store may lose unsynced data when its process dies.
            let killed = all.filter(|_| durability != Durability::Buffered);
            check(&memory.kill(), durability, killed, &what("killed"));
            let lost = all.filter(|_| durability == Durability::Sync);
            check(&memory.crash(&CrashPlan::LOSE_UNSYNCED), durability, lost, &what("unsynced lost"));
            for seed in 0..4 {
                let crashed = memory.crash(&CrashPlan::random(seed));
                check(&crashed, durability, lost, &what(&format!("crash {seed}")));
            }
            db.close().unwrap();
            check(&memory.kill(), durability, all, &what("closed"));
        }
    }
}

#[test]
fn a_second_unclean_end_changes_nothing() {
    let memory = MemVfs::new();
    let db = options(memory.clone(), Durability::Process).open("store").unwrap();
    fill(&db, Filling::SyncedThenMore);
    let killed = memory.kill();
    let again = options(killed.clone(), Durability::Process).open("store").unwrap();
    again.put("key99999", "second").unwrap();
    let written = pairs(&again);
    check(&killed.kill(), Durability::Process, Some(&written), "killed twice");
}

/// A store that can only be recovered in memory, as its disk is full, can be backed up to another
/// disk.
#[test]
fn a_store_that_could_be_recovered_in_memory_only_is_backed_up() {
    let memory = MemVfs::new();
    let db = options(memory.clone(), Durability::Sync).open("store").unwrap();
    fill(&db, Filling::SyncedThenMore);
    let written = pairs(&db);
    let image = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    let disk = FaultVfs::over_memory(image.clone());
    disk.set_rule(|call| {
        if call.path.starts_with("store") && call.operation.changes() && !call.path.ends_with("LOCK") {
            Verdict::Fail(Failure::ENOSPC)
        } else {
            Verdict::Pass
        }
    });
    let db = options(disk, Durability::Sync).open("store").unwrap();
    assert!(db.stats().read_only.is_some(), "it was recovered on disk");
    assert!(pairs(&db) == written);
    db.backup("backup").unwrap();
    drop(db);
    assert!(pairs(&options(image, Durability::Sync).open(Path::new("backup")).unwrap()) == written);
}
