//! Aligned storing and direct writes of sub-trees (SifrDB §5.2).

use super::tests::{key, lsm_of, open_with, stats, value};
use crate::layout::options::ForestOptions;
use crate::layout::stats::ForestStats;
use crate::sync::Arc;
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
