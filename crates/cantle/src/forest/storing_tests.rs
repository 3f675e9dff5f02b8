//! Aligned storing and direct writes of sub-trees (SifrDB §5.2).

use super::tests::{key, lsm_of, open_with, stats, value};
use crate::layout::options::ForestOptions;
use crate::layout::stats::ForestStats;
use crate::sync::Arc;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use crate::{KeyspaceOptions, Options};
use std::io;

/// Writes three trees of some sub-trees each. Returns the bytes of their files, too.
fn load(options: ForestOptions) -> (ForestStats, u64) {
    let disk = MemVfs::new();
    let db = open_with(&disk, options.sub_tree_bytes(600 << 10).generation_bytes(4 << 20));
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        for round in 0..3 {
            (0..2_000)
                .for_each(|number| db.put(key(number * 7 % 2_000), value(number + round, 1000)).unwrap());
            lsm.merge_logs_for_test().unwrap();
        }
        for number in 0..2_000 {
            assert_eq!(db.get(key(number * 7 % 2_000)).unwrap().unwrap(), value(number + 2, 1000));
        }
        let mut bytes = 0;
        for file in lsm.view().tables().map(|run| run.file().clone()) {
            let on_disk = disk.metadata(&file.path).unwrap().unwrap();
            assert_eq!(on_disk.len, file.bytes(), "nothing is left of what was allocated");
            bytes += file.bytes();
        }
        (stats(&db), bytes)
    })
}

#[test]
fn the_space_of_sub_trees_is_allocated_before_they_are_written_and_the_rest_given_back() {
    let (stats, _) = load(ForestOptions::new().aligned_storing(true));
    assert!(stats.sub_trees >= 9, "{stats:?}");
    assert_eq!((stats.sub_trees_allocated, stats.direct_bytes), (stats.sub_trees, 0));
    let (stats, _) = load(ForestOptions::new());
    assert_eq!(stats.sub_trees_allocated, 0);
}

#[test]
fn direct_writes_are_aligned_and_reach_all_but_the_end_of_a_sub_tree() {
    for is_aligned in [false, true] {
        let (stats, bytes) = load(ForestOptions::new().direct_io(true).aligned_storing(is_aligned));
        assert!(stats.direct_bytes >= stats.sub_trees * (256 << 10), "{stats:?}");
        assert!(stats.direct_bytes >= bytes / 2 && stats.direct_bytes < bytes, "{stats:?}");
    }
}

/// A file system without direct writes is asked once for all sub-trees.
#[test]
fn refused_direct_writes_are_done_the_other_way() {
    let disk = FaultVfs::new(Arc::new(MemVfs::new()));
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    disk.set_rule(move |call| match call.operation {
        Operation::SetDirect => {
            count.fetch_add(1, Relaxed);
            Verdict::Fail(Failure::Kind(io::ErrorKind::Unsupported))
        }
        _ => Verdict::Pass,
    });
    let keyspace = KeyspaceOptions::new().layout(ForestOptions::new().direct_io(true));
    let options = Options::new().default_keyspace(keyspace).vfs(Arc::new(disk));
    let db = options.background_threads(1).open("store").unwrap();
    let lsm = lsm_of(&db);
    for round in 0..3 {
        (0..100).for_each(|number| db.put(key(number), value(number + round, 1000)).unwrap());
        lsm.merge_logs_for_test().unwrap();
    }
    (0..100).for_each(|number| assert_eq!(db.get(key(number)).unwrap().unwrap(), value(number + 2, 1000)));
    assert_eq!((stats(&db).direct_bytes, asked.load(Relaxed)), (0, 1));
}

/// A store on a disk of which all calls are passed on to `rule`.
fn over(rule: impl Fn(Operation, &str) -> Verdict + Send + Sync + 'static) -> (FaultVfs, Options) {
    let disk = FaultVfs::new(Arc::new(MemVfs::new()));
    disk.set_rule(move |call| rule(call.operation, &call.path.to_string_lossy()));
    let layout = ForestOptions::new().sub_tree_bytes(600 << 10).generation_bytes(4 << 20);
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    (disk.clone(), options.vfs(Arc::new(disk)).background_threads(1))
}

/// Otherwise each of them would wait for a transaction of the file system.
#[test]
fn sub_trees_of_a_merge_are_synced_together_before_an_edit_names_them() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = calls.clone();
    let (_disk, options) = over(move |operation, path| {
        if path.ends_with(".table") || path.contains("MANIFEST") {
            noted.lock().push((operation, path.to_owned()));
        }
        Verdict::Pass
    });
    let db = options.open("store").unwrap();
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        (0..2_000).for_each(|number| db.put(key(number * 7 % 2_000), value(number, 1000)).unwrap());
        lsm.seal_for_test().unwrap();
        calls.lock().clear();
        lsm.merge_logs_for_test().unwrap();
    });
    let calls = calls.lock();
    let place = |wanted: Operation, of: &str, is_last: bool| {
        let fits = |(operation, path): &(Operation, String)| *operation == wanted && path.contains(of);
        let found = if is_last { calls.iter().rposition(fits) } else { calls.iter().position(fits) };
        found.unwrap_or_else(|| panic!("no {wanted:?} of {of}: {calls:?}"))
    };
    let synced = calls
        .iter()
        .filter(|(operation, path)| *operation == Operation::SyncData && path.ends_with(".table"));
    assert_eq!(synced.count() as u64, stats(&db).sub_trees, "{calls:?}");
    assert!(stats(&db).sub_trees >= 3);
    assert!(place(Operation::WriteAt, ".table", true) < place(Operation::SyncData, ".table", false));
    assert!(place(Operation::SyncData, ".table", true) < place(Operation::WriteAt, "MANIFEST", false));
}

#[test]
fn a_merge_of_which_one_sync_fails_names_no_sub_tree_and_leaves_none() {
    let syncs = Arc::new(AtomicU64::new(0));
    let (disk, options) = over(move |operation, path| {
        let fails = operation == Operation::SyncData && path.ends_with(".table");
        match fails && syncs.fetch_add(1, Relaxed) == 1 {
            true => Verdict::Fail(Failure::Kind(io::ErrorKind::Other)),
            false => Verdict::Pass,
        }
    });
    let db = options.open("store").unwrap();
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        (0..2_000).for_each(|number| db.put(key(number * 7 % 2_000), value(number, 1000)).unwrap());
        lsm.seal_for_test().unwrap();
        assert!(lsm.merge_logs_for_test().is_err());
        let names = disk.list(std::path::Path::new("store")).unwrap();
        assert!(!names.iter().any(|name| name.ends_with(".table")), "{names:?}");
        assert_eq!(stats(&db).sub_trees, 0);
    });
    (0..2_000).for_each(|number| {
        assert_eq!(db.get(key(number * 7 % 2_000)).unwrap().unwrap(), value(number, 1000))
    });
}
