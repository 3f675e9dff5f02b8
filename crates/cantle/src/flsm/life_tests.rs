//! The life of a keyspace: files that are left behind, failures that repeat, full disks, and comparators
//! that fail late.

use super::tests::lsm_of;
use crate::db::{Db, KeyspaceOptions, Options};
use crate::layout::options::LayoutOptions;
use crate::layout::stats::{FlsmStats, LayoutStats};
use crate::substrate::REBALANCE_RESERVE_FILE;
use crate::sync::Arc;
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::thread;
use crate::sync::time::now;
use crate::types::order::Comparator;
use crate::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;

fn keyspace(layout: &str) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(layout.parse::<LayoutOptions>().unwrap())
}

fn open(vfs: Arc<dyn Vfs>, layout: &str) -> Db {
    Options::new().vfs(vfs).default_keyspace(keyspace(layout)).open("store").unwrap()
}

fn stats(db: &Db) -> FlsmStats {
    match db.stats().keyspaces.remove(0).of_layout {
        LayoutStats::Flsm(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn logs(vfs: &dyn Vfs) -> usize {
    vfs.list(Path::new("store")).unwrap().iter().filter(|name| name.ends_with(".log")).count()
}

const SMALL: &str = "flsm: generation_bytes=64 KiB, guard_bytes=4 KiB";

/// Puts 50 KiB, more than three quarters of a small generation.
fn fill(db: &Db) {
    for number in 0..50 {
        db.put(format!("{number:03}"), vec![7; 1 << 10]).unwrap();
    }
}

#[test]
fn many_short_openings_do_not_leave_a_log_each() {
    let disk = Arc::new(MemVfs::new());
    for opening in 0..40 {
        let db = open(disk.clone(), SMALL);
        db.put(format!("{opening}"), "value").unwrap();
        db.close().unwrap();
    }
    let logs = stats(&open(disk, SMALL)).level0_logs;
    assert!(logs <= 20, "{logs} logs");
}

#[test]
fn an_idle_keyspace_merges_logs_that_are_a_large_part_of_its_data() {
    let db = open(Arc::new(MemVfs::new()), "flsm");
    let put = |number: u64| db.put((number * 389 % 4001).to_be_bytes(), vec![7; 1 << 10]).unwrap();
    (0..4000).for_each(put);
    assert!(stats(&db).level0_logs > 0 || db.stats().keyspaces[0].table_bytes == 0);
    let begun = now();
    while db.stats().keyspaces[0].log_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", stats(&db));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(db.stats().keyspaces[0].table_bytes > 4000 << 10);
    // A log that is a small part of the data stays, and so does a short one of little data.
    (0..300).for_each(put);
    let is_large = |db: &Db| lsm_of(db).is_level0_large(&lsm_of(db).view());
    assert!(!is_large(&db));
    (0..2000).for_each(put);
    assert!(is_large(&db));
    let small = open(Arc::new(MemVfs::new()), "flsm");
    small.put("key", vec![7; 1 << 19]).unwrap();
    assert!(!is_large(&small));
}

#[test]
fn a_log_that_cannot_be_created_is_not_tried_again_without_pause() {
    let disk = Arc::new(FaultVfs::new(Arc::new(MemVfs::new())));
    let db = open(disk.clone(), SMALL);
    db.put("first", "value").unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = tries.clone();
    disk.set_rule(move |call| {
        if call.operation == Operation::Create && call.path.extension().is_some_and(|end| end == "log") {
            counter.fetch_add(1, Relaxed);
            return Verdict::Fail(Failure::EMFILE);
        }
        Verdict::Pass
    });
    fill(&db);
    thread::sleep(Duration::from_millis(300));
    let tries = tries.load(Relaxed);
    assert!(tries > 0, "the rule is of use");
    assert!(tries < 100, "{tries} attempts");
}

#[test]
fn a_log_that_a_power_loss_voids_does_not_stay_for_ever() {
    let mut disk = MemVfs::new();
    for _ in 0..5 {
        let db = open(Arc::new(disk.clone()), SMALL);
        let before = logs(&disk);
        fill(&db);
        while logs(&disk) < before + 2 {
            thread::sleep(Duration::from_millis(1));
        }
        db.sync().unwrap();
        let crashed = disk.crash(&CrashPlan::LOSE_UNSYNCED);
        drop(db);
        disk = crashed;
    }
    let db = open(Arc::new(disk.clone()), SMALL);
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let db = open(Arc::new(disk.clone()), SMALL);
    let known = stats(&db).level0_logs as usize;
    db.close().unwrap();
    assert!(logs(&disk) <= known + 1, "{} files, {known} logs", logs(&disk));
}

#[test]
fn guards_of_keys_that_are_gone_do_not_pile_up() {
    let db = open(Arc::new(MemVfs::new()), SMALL);
    for round in 0..20 {
        for number in 0..50 {
            db.put(format!("{round:03}-{number:03}"), vec![7; 1 << 10]).unwrap();
        }
        db.delete_range(..format!("{round:03}")).unwrap();
        db.compact_range(..).unwrap();
    }
    let empty = stats(&db).guards_empty;
    assert!(empty <= 20, "{empty} empty guards");
}

#[test]
fn a_store_on_a_full_disk_can_be_closed() {
    for layout in ["chunk", SMALL] {
        let disk = Arc::new(MemVfs::new());
        let db = open(disk.clone(), layout);
        (0..40).for_each(|number| db.put(format!("{number:03}"), vec![7; 1 << 10]).unwrap());
        db.sync().unwrap();
        db.put("last", "value").unwrap();
        disk.set_capacity_bytes(Some(disk.allocated_bytes()));
        db.close().unwrap_or_else(|error| panic!("{layout}: {error}"));
    }
}

/// Orders keys backwards, and fails from a number of comparisons on.
#[derive(Default)]
struct Failing {
    made: AtomicUsize,
    fails_from: AtomicUsize,
}

impl Comparator for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
        let made = self.made.fetch_add(1, Relaxed);
        if made >= self.fails_from.load(Relaxed) { Err("enough".into()) } else { Ok(b.cmp(a)) }
    }
}

/// Compacts a store whose comparator fails after this many comparisons of the compaction. Returns
/// the result, and the number of comparisons.
fn compact_with_failure(after: usize) -> (crate::types::error::Result<()>, usize) {
    let order = Arc::new(Failing { fails_from: AtomicUsize::new(usize::MAX), ..Failing::default() });
    let options = keyspace(SMALL).comparator(order.clone());
    let db = Options::new().vfs(Arc::new(MemVfs::new())).default_keyspace(options).open("store").unwrap();
    fill(&db);
    db.compact_range(..).unwrap();
    db.put("025", "again").unwrap();
    let before = order.made.load(Relaxed);
    order.fails_from.store(before.saturating_add(after), Relaxed);
    let done = db.compact_range(..);
    (done, order.made.load(Relaxed) - before)
}

#[test]
fn a_comparator_that_fails_late_in_a_merge_is_an_error() {
    let (done, comparisons) = compact_with_failure(usize::MAX);
    done.unwrap();
    for after in (0..comparisons).rev().take(400).chain((0..comparisons).step_by(97)) {
        let (done, _) = compact_with_failure(after);
        assert!(done.is_err(), "failure after {after} of {comparisons} comparisons");
    }
}

#[test]
fn guards_are_merged_while_level_0_is_always_due() {
    let layout = "flsm: generation_bytes=16 KiB, guard_bytes=256 KiB, max_sstables_per_guard=6";
    let db = open(Arc::new(MemVfs::new()), layout);
    let mut most = 0;
    for number in 0..60_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.put(key.to_be_bytes(), vec![7; 256]).unwrap();
        if number % 1000 == 0 {
            most = stats(&db).guard_tables_most.max(most);
        }
    }
    assert!(most <= 12, "{most} tables in a guard that may have 6");
}

/// PebblesDB §3.5: with one table in each guard the tree is an ordinary one.
#[test]
fn logs_are_merged_if_a_guard_may_have_only_one_table() {
    let layout = "flsm: generation_bytes=16 KiB, guard_bytes=64 KiB, max_sstables_per_guard=1";
    let db = open(Arc::new(MemVfs::new()), layout);
    for round in 0..40 {
        fill(&db);
        let deadline = crate::sync::time::now() + Duration::from_secs(60);
        while stats(&db).level0_logs > 16 && crate::sync::time::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(stats(&db).level0_logs <= 16, "round {round}: {:?}", stats(&db));
    }
}

#[test]
fn a_look_at_all_guards_that_takes_long_is_not_repeated_at_once() {
    let db = open(Arc::new(MemVfs::new()), SMALL);
    fill(&db);
    let (lsm, mut looks) = (lsm_of(&db), 0);
    for _ in 0..3 {
        lsm.look(&lsm.view(), || {
            looks += 1;
            thread::sleep(Duration::from_millis(100));
        });
    }
    assert_eq!(looks, 1);
}

#[test]
fn a_full_disk_is_free_again_after_a_range_delete() {
    for layout in ["chunk", SMALL] {
        let disk = Arc::new(MemVfs::new());
        let db = open(disk.clone(), layout);
        disk.set_capacity_bytes(Some(disk.allocated_bytes() + (64 << 20)));
        // A merge needs room to begin with.
        while disk.metadata(&Path::new("store").join(REBALANCE_RESERVE_FILE)).unwrap().is_none() {
            thread::sleep(Duration::from_millis(5));
        }
        let mut puts = 0;
        while puts < 100_000 && db.put(format!("{puts:05}"), vec![7; 1 << 10]).is_ok() {
            puts += 1;
        }
        assert!(puts < 100_000, "{layout}: the disk is not full");
        db.delete_range(..).unwrap_or_else(|error| panic!("{layout}: delete: {error}"));
        db.compact_range(..).unwrap_or_else(|error| panic!("{layout}: compact: {error}"));
        for number in 0..1000 {
            db.put(format!("{number:05}"), vec![7; 1 << 10])
                .unwrap_or_else(|error| panic!("{layout}: put {number} of {puts}: {error}"));
        }
    }
}
