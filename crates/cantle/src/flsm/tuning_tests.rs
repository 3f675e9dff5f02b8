//! Merges that reads ask for: the published rule, and the number of tables of each guard.

use super::levels::Levels;
use super::tests::{all, guards, key, lsm_of, open_with, scattered, value};
use crate::KeyspaceOptions;
use crate::layout::options::FlsmOptions;
use crate::layout::stats::{LayoutStats, RegionInfo};
use crate::lsm::busy::Busy;
use crate::lsm::keyspace::Lsm;
use crate::lsm::shape::Shape;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::vfs::MemVfs;
use std::any::Any;

/// PebblesDB §4.2: more than ten seeks without a write.
#[test]
fn seeks_without_a_write_between_them_merge_if_they_are_counted() {
    let disk = MemVfs::without_history();
    // Logs so long that only this test merges them.
    let layout = FlsmOptions::new().generation_bytes(4 << 20).guard_bytes(16 << 10).max_sstables_per_guard(6);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout.seek_compaction(10)));
    let fill = |round: u64| {
        scattered(300).for_each(|number| db.put(key(number), value(number + round, 200)).unwrap());
        lsm_of(&db).merge_logs_for_test().unwrap();
    };
    let merges = || {
        (0..2).for_each(fill);
        // Long guards are divided, which has nothing to do with seeks.
        lsm_of(&db).settle_for_test().unwrap();
        assert!(lsm_of(&db).view().shape.last()[0].depth(&KeyOrder::Bytewise) > 1);
        let due = || {
            let (lsm, none) = (lsm_of(&db), Busy::default());
            lsm.view().shape.pick(&lsm.env.order, &lsm.limits.load().rules, &none)
        };
        for number in 0..300 {
            assert_eq!(db.range(key(7)..).take(3).count(), 3);
            if number % 10 == 9 {
                db.put(key(number), "a write").unwrap();
            }
        }
        assert!(due().is_none(), "a write comes after ten seeks each time");
        (0..10).for_each(|_| assert_eq!(db.range(key(7)..).take(3).count(), 3));
        assert!(due().is_none());
        assert_eq!(db.range(key(7)..).take(3).count(), 3);
        assert!(due().is_some(), "eleven seeks");
        lsm_of(&db).settle_for_test().unwrap();
        let shape = lsm_of(&db).view().shape.clone();
        assert!(due().is_none() && shape.last()[0].depth(&KeyOrder::Bytewise) == 1, "{:?}", guards(&db));
    };
    lsm_of(&db).without_merges_for_test(merges);
}

/// PebblesDB §3.5: a number for all guards, or one for each from its own reads and writes.
#[test]
fn the_tables_of_a_guard_follow_its_reads_and_writes_unless_a_number_is_given() {
    let disk = MemVfs::without_history();
    // Logs so long that only this test merges them.
    let layout = || FlsmOptions::new().generation_bytes(4 << 20).guard_bytes(64 << 10);
    let db = open_with(&disk, KeyspaceOptions::new());
    let with = |layout| db.keyspace_with("k", KeyspaceOptions::new().layout(layout)).unwrap();
    let keyspace = with(layout());
    let owned: Arc<dyn Any + Send + Sync> = keyspace.inner.layout.clone();
    let lsm: Arc<Lsm<Levels>> = owned.downcast().unwrap();
    let limits = || match keyspace.inner.layout.stats().of_layout {
        LayoutStats::Flsm(stats) => {
            [stats.guard_limit_least, stats.guard_limit_median, stats.guard_limit_most]
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(limits(), [6; 3]);
    let fill = |round: u64| {
        let count = if round == 0 { 4000 } else { 400 };
        let of_round = (0..count).map(|number| number * 7919 % count * (32_000 / count) + round);
        of_round.for_each(|number| keyspace.put(key(number), value(number, 100)).unwrap());
        lsm.merge_logs_for_test().unwrap();
    };
    (0..5).for_each(fill);
    let counts = || lsm.view().shape.groups().map(|group| group.runs.len()).collect::<Vec<_>>();
    assert!(counts().len() > 4 && counts().iter().all(|&runs| runs >= 5), "{:?}", counts());
    (0..2000).for_each(|number| assert_eq!(keyspace.range(key(number % 100)..).take(1).count(), 1));
    assert!(limits()[0] == 1 && limits()[1] > 5 && limits()[2] <= 12, "{:?}", limits());
    // `inspect` shows the limit of each guard, beside its tables.
    let regions = keyspace.regions().unwrap();
    let shown = |region: &RegionInfo| (region.tables as usize, region.tables_max as usize);
    let rules = lsm.limits.load().rules;
    let view = lsm.view();
    let expected = view.shape.guards().map(|guard| (guard.runs.len(), guard.runs_max(&rules)));
    assert_eq!(regions[0].tables_max, 0, "level 0 has no guards");
    assert_eq!(regions[1..].iter().map(shown).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert!(regions.iter().any(|region| region.tables_max == 1));
    lsm.settle_for_test().unwrap();
    assert!(counts()[0] == 1 && counts()[counts().len() - 1] >= 5, "{:?}", counts());
    with(layout().max_sstables_per_guard(5));
    assert_eq!(limits(), [5; 3]);
    (5..8).for_each(fill);
    assert_eq!(counts()[0], 4, "the number holds for the guard that is read, too");
    with(layout().max_sstables_per_guard(1));
    assert_eq!(limits(), [1; 3]);
    lsm.settle_for_test().unwrap();
    let depths =
        || lsm.view().shape.guards().map(|guard| guard.depth(&KeyOrder::Bytewise)).collect::<Vec<_>>();
    assert!(depths().iter().all(|&depth| depth <= 1), "an ordinary tree (§3.5): {:?}", counts());
    with(layout());
    assert!(limits()[0] < limits()[2], "{:?}", limits());
    let model = all(keyspace.range(..));
    assert_eq!(model.len(), 4000 + 7 * 400);
}
