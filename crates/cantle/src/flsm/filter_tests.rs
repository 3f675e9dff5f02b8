//! The filters of all runs that a get asks.

use super::tests::{key, lsm_of, open_with, value};
use crate::layout::options::FlsmOptions;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::vfs::MemVfs;
use crate::{KeyspaceOptions, Options};

/// With filters of one length, each run would cost one false positive in a hundred gets.
#[test]
fn a_get_has_few_false_positives_in_all_its_runs() {
    let disk = MemVfs::without_history();
    let layout =
        FlsmOptions::new().generation_bytes(16 << 10).guard_bytes(64 << 10).max_sstables_per_guard(12);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let (lsm, mut rng) = (lsm_of(&db), Rng::new(7));
    lsm.without_merges_for_test(|| {
        // Even numbers are there, odd ones are not.
        for _ in 0..11 {
            (0..3000).for_each(|step| db.put(key(2 * rng.below(20_000)), value(step, 40)).unwrap());
            lsm.settle_for_test().unwrap();
        }
        (0..2000).for_each(|step| db.put(key(2 * rng.below(20_000)), value(step, 40)).unwrap());
        lsm.seal_for_test().unwrap();
        let view = lsm.view();
        let gets = 20_000;
        let runs: usize =
            (0..gets).map(|number| view.runs_at(&lsm.env.order, &key(2 * number + 1)).count()).sum();
        assert!(runs as u64 > 8 * gets, "{runs} runs");
        (0..gets).for_each(|number| assert_eq!(db.get(key(2 * number + 1)).unwrap(), None));
        let stats = db.own().layout.stats();
        assert!(stats.filter_skips > 7 * gets, "{}", stats.filter_skips);
        let found = stats.filter_false_positives;
        assert!(found * 50 < gets, "{found} false positives in {gets} gets of {runs} runs");
    });
}

/// A page of a filter answers for some hundred times as many keys as a block has, so gets keep it in memory while
/// blocks come and go.
#[test]
fn filters_stay_in_a_cache_that_is_short_for_data() {
    let layout = FlsmOptions::new().generation_bytes(64 << 10).guard_bytes(1 << 20);
    let options = Options::new().memory_budget(4 << 20).vfs(Arc::new(MemVfs::without_history()));
    let db = options.default_keyspace(KeyspaceOptions::new().layout(layout)).open("store").unwrap();
    let (lsm, mut rng, keys) = (lsm_of(&db), Rng::new(3), 100_000);
    (0..keys).for_each(|number| db.put(key(2 * number), value(number, 200)).unwrap());
    lsm.settle_for_test().unwrap();
    let mut gets_missed = 0;
    for round in 0..20 {
        // Blocks of half of the cache, and in some rounds all of them.
        (0..200).for_each(|_| assert!(db.get(key(2 * rng.below(keys))).unwrap().is_some()));
        if round % 5 == 0 {
            assert_eq!(db.range(..).count() as u64, keys);
        }
        let before = db.stats().cache_misses;
        (0..100).for_each(|_| assert_eq!(db.get(key(2 * rng.below(keys) + 1)).unwrap(), None));
        gets_missed += db.stats().cache_misses - before;
    }
    assert!(
        gets_missed < 20 * 100 / 5,
        "{gets_missed} blocks were read by 2000 gets of keys that are not there"
    );
}
