//! An opening that returns to the last checkpoint reports how much it ignored.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![expect(clippy::disallowed_methods, reason = "an opening waits in a thread of its own")]

use cantle::vfs::{Call, CrashPlan, Held, MemVfs, Operation, StallVfs, Vfs};
use cantle::{Db, Durability, Options, Stats, WriteBatch};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn options(disk: &MemVfs, durability: Durability) -> Options {
    let options = Options::new().vfs(Arc::new(disk.clone())).durability(durability);
    options.checkpoint_interval(Duration::from_secs(3600))
}

/// A store with `pairs` pairs that a checkpoint covers, and as many others that no checkpoint
/// covers.
fn filled(disk: &MemVfs, durability: Durability, pairs: u64, buffered: bool) -> Db {
    let db = options(disk, durability).write_buffer(buffered).open("store").unwrap();
    let names = db.keyspace("names").unwrap();
    (0..pairs).for_each(|number| db.put(number.to_be_bytes(), [1; 100]).unwrap());
    db.sync().unwrap();
    (0..pairs).for_each(|number| match number % 4 {
        0 => names.put(number.to_be_bytes(), [2; 100]).unwrap(),
        1 => db.delete(number.to_be_bytes()).unwrap(),
        _ => db.put(number.to_be_bytes(), [2; 100]).unwrap(),
    });
    db
}

/// The statistics, once the ignored records are counted.
fn counted(db: &Db) -> Stats {
    loop {
        let stats = db.stats();
        if !stats.left_behind_pending {
            return stats;
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_is_there_and_does_not_count_is_counted() {
    for (pairs, buffered) in [(100, true), (100, false), (20_000, true)] {
        let disk = MemVfs::new();
        let db = filled(&disk, Durability::Process, pairs, buffered);
        // The machine stopped, and yet all data are there: as after a volume was unmounted and
        // mounted again.
        let found = disk.crash(&CrashPlan::KEEP_ALL);
        for read_only in [true, false] {
            let db = options(&found, Durability::Process).read_only(read_only).open("store").unwrap();
            assert_eq!(db.get(0_u64.to_be_bytes()).unwrap().as_deref(), Some(&[1; 100][..]));
            let stats = counted(&db);
            assert_eq!(stats.left_behind_records, pairs, "buffered: {buffered}");
            let least = pairs * 3 / 4 * 100;
            assert!((least..least * 2).contains(&stats.left_behind_bytes), "{}", stats.left_behind_bytes);
        }
        // The records are ignored for good, and reported once.
        let db_again = options(&found, Durability::Process).open("store").unwrap();
        assert_eq!(counted(&db_again).left_behind_records, 0);
        drop(db);
    }
}

#[test]
fn where_everything_counts_nothing_is_left_behind() {
    let disk = MemVfs::new();
    let db = filled(&disk, Durability::Process, 100, true);
    let killed = options(&disk.kill(), Durability::Process).open("store").unwrap();
    assert_eq!(killed.get(3_u64.to_be_bytes()).unwrap().as_deref(), Some(&[2; 100][..]));
    assert_eq!(counted(&killed).left_behind_records, 0);
    // Data that were lost with the power cannot be counted.
    let lost = options(&disk.crash(&CrashPlan::LOSE_UNSYNCED), Durability::Process).open("store").unwrap();
    let stats = counted(&lost);
    assert_eq!((stats.left_behind_records, stats.left_behind_bytes), (0, 0));
    db.close().unwrap();
    drop(db);
    let stats = options(&disk, Durability::Process).open("store").unwrap().stats();
    assert_eq!((stats.left_behind_records, stats.left_behind_pending), (0, false));
}

#[test]
fn what_the_journal_has_is_not_left_behind() {
    let disk = MemVfs::new();
    let _db = filled(&disk, Durability::Sync, 100, true);
    let found = options(&disk.crash(&CrashPlan::KEEP_ALL), Durability::Sync).open("store").unwrap();
    assert_eq!(found.get(3_u64.to_be_bytes()).unwrap().as_deref(), Some(&[2; 100][..]));
    assert_eq!(counted(&found).left_behind_records, 0);
}

/// The journal of a store that is not in `Sync` has the commits of batches, and nothing else.
#[test]
fn what_follows_a_batch_over_several_logs_is_counted_too() {
    let disk = MemVfs::new();
    let db = filled(&disk, Durability::Process, 100, true);
    let mut batch = WriteBatch::new();
    batch.keyspace(&db.keyspace("names").unwrap()).put("there", "2");
    batch.put("here", "1");
    db.write(batch).unwrap();
    let found = options(&disk.crash(&CrashPlan::KEEP_ALL), Durability::Process).open("store").unwrap();
    assert_eq!(found.get("here").unwrap(), None);
    assert_eq!(counted(&found).left_behind_records, 102);
}

#[test]
fn what_a_process_wrote_before_its_first_checkpoint_is_counted() {
    for buffered in [true, false] {
        let disk = MemVfs::new();
        filled(&disk, Durability::Process, 100, buffered).close().unwrap();
        let db = options(&disk, Durability::Process).write_buffer(buffered).open("store").unwrap();
        (0_u64..50).for_each(|number| db.put(number.to_be_bytes(), [3; 100]).unwrap());
        let found = options(&disk.crash(&CrashPlan::KEEP_ALL), Durability::Process).open("store").unwrap();
        assert_eq!(found.get(0_u64.to_be_bytes()).unwrap().as_deref(), Some(&[1; 100][..]));
        assert_eq!(counted(&found).left_behind_records, 50, "buffered: {buffered}");
        drop(db);
    }
}

fn logs(disk: &MemVfs) -> BTreeSet<String> {
    disk.list(Path::new("store")).unwrap().into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// Reads of the logs' contents; every opening reads the headers of unknown files.
fn is_of_records(call: &Call<'_>) -> bool {
    let is_log = call.path.extension().is_some_and(|extension| extension == "log");
    call.operation == Operation::ReadAt && is_log && call.offset > 0
}

#[test]
fn no_opening_waits_until_it_is_counted_and_no_log_goes_before() {
    const PATIENCE: Duration = Duration::from_secs(120);
    for is_closed_meanwhile in [false, true] {
        let disk = MemVfs::new();
        let db = filled(&disk, Durability::Process, 100, false);
        let found = disk.crash(&CrashPlan::KEEP_ALL);
        let vfs = StallVfs::new(Arc::new(found.clone()));
        let this = std::thread::current().id();
        let stall =
            vfs.stall(Held::Before, move |call| std::thread::current().id() != this && is_of_records(call));
        let (opened, opening) = std::sync::mpsc::channel();
        let opens = options(&found, Durability::Process).vfs(Arc::new(vfs.clone()));
        let opener = std::thread::spawn(move || opened.send(opens.open("store").unwrap()));
        let held = stall.wait(1, PATIENCE);
        let opened = opening.recv_timeout(PATIENCE);
        // All calls continue before anything is asserted, so that no thread is left.
        let Ok(reopened) = opened else {
            drop(stall);
            drop(opener.join());
            panic!("the opening waits for a log to be read");
        };
        assert!(held, "nobody reads what was left behind");
        let stats = reopened.stats();
        assert_eq!((stats.left_behind_records, stats.left_behind_pending), (0, true));
        reopened.put("new", "pair").unwrap();
        reopened.sync().unwrap();
        // The files of the process before, among them some that no checkpoint knows.
        let before = logs(&disk);
        assert!(before.is_subset(&logs(&found)), "{before:?}");
        if is_closed_meanwhile {
            let closing = std::thread::spawn(move || reopened.close());
            drop(stall);
            closing.join().unwrap().unwrap();
        } else {
            drop(stall);
            assert_eq!(counted(&reopened).left_behind_records, 100);
            reopened.close().unwrap();
        }
        let reopened = options(&found, Durability::Process).open("store").unwrap();
        assert_eq!(reopened.get("new").unwrap().as_deref(), Some(&b"pair"[..]));
        assert_eq!(reopened.stats().left_behind_records, 0);
        assert!(reopened.verify().unwrap().unknown_files.is_empty());
        drop((reopened, db, opener));
    }
}
