//! Gets that read in several trees at the same time (SifrDB §4.3).

use super::tests::{Model, key, lsm_of, open_with, small, stats, value};
use crate::Db;
use crate::layout::options::ForestOptions;
use crate::layout::stats::KeyspaceStats;
use crate::vfs::MemVfs;

const KEYS: u64 = 400;

/// Reads a store of eight trees, each of which has an eighth of the keys less than the one below it. Nothing of them is
/// in memory.
fn with_trees(layout: ForestOptions, read: impl FnOnce(&Db, &Model)) {
    // A tree comes of one log.
    let db = open_with(&MemVfs::new(), layout.growth_factor(16).generation_bytes(256 << 10));
    let (lsm, mut model) = (lsm_of(&db), Model::new());
    lsm.without_merges_for_test(|| {
        for tree in 0..8 {
            for number in (0..KEYS).filter(|number| number % 8 >= tree) {
                let value = value(number + tree, 100);
                db.put(key(number), &value).unwrap();
                model.insert(key(number), value);
            }
            lsm.merge_logs_for_test().unwrap();
        }
        assert_eq!(stats(&db).trees, 8);
        let view = lsm.view();
        let files: Vec<u64> = view.tables().map(|run| run.file().id).collect();
        lsm.env.cache.forget(&files);
        lsm.env.queue.depth.deepen_for_test();
        read(&db, &model);
    });
}

/// Reads all keys, and some that do not exist.
fn read_all(db: &Db, model: &Model) -> KeyspaceStats {
    for number in 0..KEYS + 8 {
        let key = key(number * 37 % (KEYS + 8));
        assert_eq!(db.get(&key).unwrap().as_deref(), model.get(&key).map(|value| &value[..]));
    }
    db.own().layout.stats()
}

#[test]
fn a_get_reads_in_several_trees_at_the_same_time() {
    with_trees(small().filters(false), |db, model| {
        // All trees have the key, and the newest one decides.
        assert_eq!(db.get(key(7)).unwrap().as_deref(), model.get(&key(7)).map(|value| &value[..]));
        let stats = db.own().layout.stats();
        let counts = [stats.parallel_gets, stats.parallel_get_runs, stats.parallel_get_runs_in_vain];
        assert_eq!(counts, [1, 8, 7], "{stats:?}");
        let stats = read_all(db, model);
        assert!(stats.parallel_gets > 1, "{stats:?}");
        assert_eq!((stats.filter_skips, stats.filter_false_positives), (0, 0), "there are no filters");
    });
}

#[test]
fn trees_are_searched_one_after_the_other_if_the_option_asks_for_it() {
    with_trees(small().filters(false).parallel_search(1), |db, model| {
        let stats = read_all(db, model);
        assert_eq!((stats.parallel_gets, stats.parallel_get_runs), (0, 0), "{stats:?}");
    });
}

#[test]
fn filters_spare_most_trees() {
    with_trees(small(), |db, model| {
        let stats = read_all(db, model);
        assert!(stats.filter_skips > 3 * stats.filter_false_positives, "{stats:?}");
    });
}
