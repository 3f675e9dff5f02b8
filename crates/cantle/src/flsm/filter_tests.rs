//! The filters of all runs that a get asks.

use super::tests::{key, lsm_of, open_with, value};
use crate::KeyspaceOptions;
use crate::layout::options::FlsmOptions;
use crate::sync::random::Rng;
use crate::vfs::MemVfs;

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
