//! Keyspaces in the layout `forest`, compared with a list of what was written to them.

use super::shape::unit_for;
use super::trees::Trees;
use crate::layout::options::ForestOptions;
use crate::layout::stats::{ForestStats, LayoutStats};
use crate::lsm::busy::Busy;
use crate::lsm::keyspace::Lsm;
use crate::lsm::merge::Trigger;
use crate::lsm::shape::Shape;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::types::order::Comparator;
use crate::vfs::{CrashPlan, MemVfs, OpenMode, Vfs};
use crate::{Db, KeyspaceOptions, Options, Snapshot};
use std::any::Any;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Short generations and sub-trees, so that few data make many.
pub fn small() -> ForestOptions {
    ForestOptions::new().generation_bytes(8 << 10).sub_tree_bytes(8 << 10).cleaning_threshold(2)
}

pub fn open(disk: &MemVfs) -> Db {
    open_with(disk, small())
}

pub fn open_with(disk: &MemVfs, layout: ForestOptions) -> Db {
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    let options = options.vfs(Arc::new(disk.clone())).background_threads(1);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap()
}

pub fn lsm_of(db: &Db) -> Arc<Lsm<Trees>> {
    let layout: Arc<dyn Any + Send + Sync> = db.own().layout.clone();
    layout.downcast().unwrap()
}

pub fn stats(db: &Db) -> ForestStats {
    match db.own().layout.stats().of_layout {
        LayoutStats::Forest(stats) => stats,
        other => panic!("{other:?}"),
    }
}

pub fn key(number: u64) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

pub fn value(number: u64, bytes: usize) -> Vec<u8> {
    format!("value {number} ").into_bytes().into_iter().cycle().take(bytes).collect()
}

pub fn all(pairs: impl Iterator<Item = crate::Result<(crate::Key, crate::Value)>>) -> Model {
    pairs.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

pub fn assert_is(db: &Db, model: &Model, what: &str) {
    assert!(all(db.range(..)) == *model, "{what}: a scan");
    assert!(all(db.range(..).rev()) == *model, "{what}: a scan backward");
    for number in (0..2000).step_by(7) {
        let (key, has) = (key(number), model.get(&key(number)).map(|value| &value[..]));
        assert!(db.get(&key).unwrap().as_deref() == has, "{what}: get {number}");
    }
    assert!(db.verify().unwrap().is_ok(), "{what}");
    assert_eq!(db.stats().keyspaces[0].edits_refused, 0, "{what}");
}

#[test]
fn a_keyspace_is_what_was_written_to_it_through_rotations_and_merges() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut below = move |bound: u64| rng.below(bound);
        let mut disk = MemVfs::new();
        let (mut db, mut model) = (open(&disk), Model::new());
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        let (mut sealed, mut merges) = (0, 0);
        for step in 0..6000 {
            let number = below(2000);
            match below(100) {
                0..80 => {
                    let value = value(step, 10 + below(90) as usize);
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
                80..95 => {
                    db.delete(key(number)).unwrap();
                    model.remove(&key(number));
                }
                95 => {
                    let end = number + below(100);
                    db.delete_range(key(number)..key(end)).unwrap();
                    model.retain(|at, _| *at < key(number) || *at >= key(end));
                }
                96 if held.len() < 4 => held.push((db.snapshot(), model.clone())),
                97 if below(4) == 0 => db.sync().unwrap(),
                98 if below(8) == 0 => lsm_of(&db).settle_for_test().unwrap(),
                99 if below(8) == 0 => {
                    (sealed, merges) = (sealed + stats(&db).generations_sealed, merges + stats(&db).merges);
                    held.clear();
                    if below(2) == 0 {
                        db.close().unwrap();
                        db = open(&disk);
                    } else {
                        let killed = disk.kill();
                        drop(db);
                        disk = killed;
                        db = open(&disk);
                    }
                }
                _ => {}
            }
            if step % 500 == 0 {
                for (snapshot, model) in &held {
                    assert!(all(snapshot.range(..)) == *model, "seed {seed}, step {step}: a snapshot");
                }
            }
        }
        assert_is(&db, &model, "as written");
        held.clear();
        lsm_of(&db).settle_for_test().unwrap();
        assert_is(&db, &model, "settled");
        db.compact_range(..).unwrap();
        assert_is(&db, &model, "compacted");
        assert_eq!(stats(&db).trees, 1, "{:?}", stats(&db));
        (sealed, merges) = (sealed + stats(&db).generations_sealed, merges + stats(&db).merges);
        assert!(sealed > 20 && merges > 5, "{sealed} generations sealed, {merges} merges");
    }
}

/// Numbers in an order in which no two neighbours are beside each other.
pub fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| at * 7919 % count)
}

/// Bytes of all tables.
fn table_bytes(disk: &MemVfs) -> u64 {
    let names = disk.list(Path::new("store")).unwrap();
    let tables =
        names.iter().filter(|name| name.ends_with(".table")).map(|name| Path::new("store").join(name));
    tables.map(|path| disk.open(&path, OpenMode::Read).unwrap().len().unwrap()).sum()
}

/// The trees of each stage, as their numbers of sub-trees, newest first.
pub fn drawn(db: &Db) -> Vec<Vec<usize>> {
    let view = lsm_of(db).view();
    let shape = &view.shape;
    let count = |stage| shape.stage(stage).map(|tree| tree.runs().count()).collect();
    (1..=shape.stages()).map(count).collect()
}

/// SifrDB §2, §3.1: a stage that is full becomes one tree of the next one, and the trees there are left as they
/// are.
#[test]
fn each_pair_is_written_once_for_each_stage() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let _ = five_trees(&db, 300);
        let stages = drawn(&db);
        assert_eq!(stages.iter().map(Vec::len).collect::<Vec<_>>(), [5], "{stages:?}");
        let written = db.own().layout.stats().table_bytes_written;
        while lsm.merge_tables(Trigger::Asked).unwrap() {}
        let stages = drawn(&db);
        assert_eq!(stages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{stages:?}");
        let written = db.own().layout.stats().table_bytes_written - written;
        assert!((1200 * 160..1200 * 200).contains(&written), "{written}");
    });
    assert_eq!(db.range(..).count(), 1500);
}

/// Five trees of stage 1, with every fifth key each, which nothing has merged yet.
fn five_trees(db: &Db, pairs: u64) -> Model {
    let mut model = Model::new();
    for tree in 0..5 {
        for number in scattered(pairs) {
            db.put(key(number * 5 + tree), value(number, 150)).unwrap();
            model.insert(key(number * 5 + tree), value(number, 150));
        }
        lsm_of(db).merge_logs_for_test().unwrap();
    }
    model
}

/// SifrDB §4.2: a merge of trees goes on where it stood, and nothing is written a second time.
#[test]
fn a_merge_of_trees_that_was_killed_goes_on_where_it_stood() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let model = five_trees(&db, 400);
        let written = || db.own().layout.stats().table_bytes_written;
        let (before, mut steps, mut images) = (written(), 0, Vec::new());
        while lsm.merge_tables(Trigger::Asked).unwrap() {
            steps += 1;
            images.push((disk.kill(), written(), stats(&db).trees_growing));
        }
        assert!(steps > 3, "{steps}");
        for (image, at, growing) in images {
            let is_last = at == written();
            assert_eq!(growing, u64::from(!is_last));
            let reopened = open(&image);
            lsm_of(&reopened).settle_for_test().unwrap();
            let more = reopened.own().layout.stats().table_bytes_written;
            assert!(
                more <= written() - at + 4096,
                "{more} once {} of {} were",
                at - before,
                written() - before
            );
            assert_eq!(drawn(&reopened).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
            assert_is(&reopened, &model, "after a kill");
            // A second death in the middle of the rest.
            let reopened = open(&image.kill());
            let _ = lsm_of(&reopened).merge_tables(Trigger::Asked).unwrap();
            assert_is(&open(&image.kill()), &model, "after two kills");
        }
    });
}

/// SifrDB §4.2: sub-trees that were merged are free before the merge of their trees is complete.
#[test]
fn inputs_that_are_merged_go_while_the_merge_goes_on() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let _ = five_trees(&db, 400);
        db.sync().unwrap();
        let before = table_bytes(&disk);
        while lsm.merge_tables(Trigger::Asked).unwrap() {
            // Its inputs go with the next checkpoint.
            db.sync().unwrap();
            assert!(table_bytes(&disk) < before + 5 * 9000, "{} of {before}", table_bytes(&disk));
        }
    });
}

/// SifrDB §4.1, figure 4: sub-trees without a key in common with others are handed over as they are.
#[test]
fn only_sub_trees_that_overlap_are_merged() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        for tree in 0..5 {
            // Each begins where most of the one before it has ended.
            scattered(300).for_each(|number| db.put(key(tree * 280 + number), value(number, 150)).unwrap());
            lsm.merge_logs_for_test().unwrap();
        }
        let written = db.own().layout.stats().table_bytes_written;
        while lsm.merge_tables(Trigger::Asked).unwrap() {}
        let written = db.own().layout.stats().table_bytes_written - written;
        assert!(written < 3 * 4 * 9000, "{written} of {}", 1200 * 170);
        assert!(stats(&db).sub_trees_handed > 10, "{:?}", stats(&db));
    });
    assert_eq!(db.range(..).count(), 4 * 280 + 300);
}

/// SifrDB §5.2: a load in key order is not written again.
#[test]
fn a_load_in_key_order_is_written_once() {
    let disk = MemVfs::new();
    let db = open(&disk);
    (0..2000).for_each(|number| db.put(key(number), value(number, 150)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    let all = db.own().layout.stats();
    assert!(all.table_bytes_written < 20_000, "{all:?}");
    assert!(stats(&db).logs_adopted > 10, "{:?}", stats(&db));
    assert_eq!(db.range(..).count(), 2000);
}

#[test]
fn a_loss_of_power_in_the_middle_of_a_merge_returns_to_the_state_of_the_checkpoint() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let _ = five_trees(&db, 300);
        db.sync().unwrap();
        let before = all(db.range(..));
        for _ in 0..3 {
            assert!(lsm.merge_tables(Trigger::Asked).unwrap());
            let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
            assert!(all(open(&lost).range(..)) == before);
        }
    });
}

/// SifrDB §3.4 and §5.2: what splitting and early cleaning are compared with.
#[test]
fn a_size_tiered_forest_has_one_table_for_each_tree_and_rewrites_data_in_key_order() {
    let disk = MemVfs::new();
    let db = open_with(&disk, small().size_tiered(true));
    let mut model = Model::new();
    for number in 0..4000 {
        db.put(key(number), value(number, 100)).unwrap();
        model.insert(key(number), value(number, 100));
        if number % 400 == 399 {
            lsm_of(&db).settle_for_test().unwrap();
        }
    }
    let stats = stats(&db);
    assert!(stats.trees > 1 && stats.sub_trees == stats.trees, "{stats:?}");
    assert_eq!((stats.logs_adopted, stats.sub_trees_handed), (0, 0));
    let all = db.own().layout.stats();
    assert!(2 * all.table_bytes_written > 3 * all.table_bytes, "{all:?}");
    assert_is(&db, &model, "size-tiered");
}

/// SifrDB §6: the split unit grows with the data, so that there are not too many files.
#[test]
fn the_unit_follows_from_the_data() {
    let units = [0, 1 << 30, 128 << 30, 256 << 30, 1 << 40, 10 << 40, 100 << 40].map(unit_for);
    let mib = |mib: u64| mib << 20;
    assert_eq!(units, [2, 2, 2, 4, 16, 160, 256].map(mib));
}

/// Comparators that do not order by bytes: bounds of sub-trees are whole keys.
#[test]
fn trees_keep_the_order_of_a_comparator() {
    struct Backwards;
    impl Comparator for Backwards {
        fn name(&self) -> &str {
            "backwards"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }
    let disk = MemVfs::new();
    let keyspace = || KeyspaceOptions::new().layout(small()).comparator(Arc::new(Backwards));
    let open =
        || Options::new().default_keyspace(keyspace()).vfs(Arc::new(disk.clone())).open("store").unwrap();
    let db = open();
    for round in 0..6 {
        scattered(300).for_each(|number| db.put(key(number), value(number + round, 150)).unwrap());
        lsm_of(&db).merge_logs_for_test().unwrap();
        db.delete_range(key(200)..key(100)).unwrap();
    }
    let keys = |db: &Db| db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect::<Vec<_>>();
    let expected: Vec<Vec<u8>> =
        (0..300).rev().filter(|number| !(101..=200).contains(number)).map(key).collect();
    assert_eq!(keys(&db), expected);
    lsm_of(&db).settle_for_test().unwrap();
    assert_eq!(keys(&db), expected);
    db.close().unwrap();
    let db = open();
    assert_eq!(keys(&db), expected);
    db.compact_range(..).unwrap();
    assert_eq!(keys(&db), expected);
    assert!(db.verify().unwrap().is_ok());
}

/// A snapshot and an open iterator keep versions, not files.
#[test]
fn an_open_iterator_keeps_no_more_files_than_those_it_stands_in() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let model = five_trees(&db, 400);
        let mut iterator = db.range(..);
        let first: Vec<_> = iterator.by_ref().take(100).map(|pair| pair.unwrap().0.to_vec()).collect();
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        let bytes = table_bytes(&disk);
        assert!(bytes < 2000 * 180 + 12 * 9000, "{bytes}");
        let rest = iterator.map(|pair| pair.unwrap().0.to_vec());
        assert!(first.into_iter().chain(rest).eq(model.into_keys()));
    });
}

/// Overwrites leave garbage in older trees, of which merges of ranges free as much as the bound asks for.
#[test]
fn space_keeps_its_bound_without_rewriting_everything() {
    let disk = MemVfs::new();
    let db = open(&disk);
    for round in 0..10 {
        scattered(1500).for_each(|number| db.put(key(number), value(number + round, 150)).unwrap());
        lsm_of(&db).settle_for_test().unwrap();
    }
    let all = db.own().layout.stats();
    let bound = 1.5 * 1500.0 * 170.0 + 4.0 * 9000.0;
    // The background may be within a merge, or hold inputs of its last one.
    let is_kept = || {
        crate::sync::thread::sleep(Duration::from_millis(10));
        lsm_of(&db).settle_for_test().unwrap();
        db.sync().unwrap();
        (table_bytes(&disk) as f64) < bound + 4.0 * 9000.0
    };
    assert!((0..1000).any(|_| is_kept()), "{} of {bound}", table_bytes(&disk));
    assert!(stats(&db).merges_for_space > 3, "{:?}", stats(&db));
    assert!(all.table_bytes_written < 10 * 1500 * 180 * 4, "{}", all.table_bytes_written);
}

/// SifrDB §6: with enough reads a range of keys lies in one tree.
#[test]
fn seeks_that_cost_as_much_as_a_merge_make_one() {
    for layout in [small(), small().seek_compaction(10)] {
        let disk = MemVfs::new();
        let db = open_with(&disk, layout.growth_factor(16));
        let lsm = lsm_of(&db);
        lsm.without_merges_for_test(|| {
            let _ = five_trees(&db, 200);
            assert_eq!(stats(&db).trees, 5);
            assert!(!lsm.merge_tables(Trigger::Asked).unwrap(), "nothing is due");
            for seek in 0..4000 {
                assert!(db.range(key(seek % 900)..).next().is_some());
            }
            while lsm.merge_tables(Trigger::Asked).unwrap() {}
            assert_eq!(stats(&db).trees, 1, "{:?}", stats(&db));
        });
    }
}

#[test]
fn range_deletes_reach_older_trees_and_go() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let mut model = five_trees(&db, 300);
        let snapshot = db.snapshot();
        let before = model.clone();
        db.delete_range(key(100)..key(1200)).unwrap();
        model.retain(|at, _| *at < key(100) || *at >= key(1200));
        lsm.merge_logs_for_test().unwrap();
        assert_is(&db, &model, "merged into the first stage");
        assert!(stats(&db).ranges_dropped > 0 || table_bytes(&disk) > 0);
        while lsm.merge_tables(Trigger::Asked).unwrap() {}
        assert_is(&db, &model, "settled");
        assert!(all(snapshot.range(..)) == before, "a snapshot");
        drop(snapshot);
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        assert_is(&db, &model, "compacted");
        assert!(table_bytes(&disk) < 400 * 180 + 9000, "{}", table_bytes(&disk));
    });
}

/// Between two steps a log in key order becomes a part of the tree that grows: no output may reach beyond it.
#[test]
fn a_step_ends_before_keys_that_the_growing_tree_has_already() {
    let disk = MemVfs::new();
    // Two columns of sub-trees are a step, and the letter has five.
    let db = open_with(&disk, small().cleaning_threshold(5));
    let lsm = lsm_of(&db);
    let mut model = Model::new();
    let named = |prefix: &str, number: u64| format!("{prefix} {number:05}").into_bytes();
    lsm.without_merges_for_test(|| {
        let mut put = |key: Vec<u8>, number: u64| {
            db.put(&key, value(number, 150)).unwrap();
            model.insert(key, value(number, 150));
        };
        for tree in 0..5 {
            for number in scattered(360) {
                // Nothing begins with the letters between, and a sub-tree has forty.
                put(named(if number < 200 { "a" } else { "z" }, number * 5 + tree), number);
            }
            lsm.merge_logs_for_test().unwrap();
        }
        let mut adopted = 0;
        while lsm.merge_tables(Trigger::Asked).unwrap() {
            if adopted < 1000 {
                (adopted..adopted + 100).for_each(|number| put(named("m", number), number));
                adopted += 150;
                lsm.merge_logs_for_test().unwrap();
            }
        }
        assert!(stats(&db).logs_adopted > 2, "{:?}", stats(&db));
    });
    assert_is(&db, &model, "settled");
    assert_is(&open(&disk.kill()), &model, "after a kill");
}

/// While a step runs, nobody else may put keys between those that it takes: it claims the sections of all trees there.
#[test]
fn a_step_claims_what_lies_between_its_keys() {
    let disk = MemVfs::new();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        // The oldest tree has keys in the middle only.
        for tree in 0..5 {
            let numbers = scattered(200).map(|number| match tree {
                0 => 1000 + number,
                _ if number < 30 => number * 5 + tree,
                _ => 1500 + number * 5 + tree,
            });
            numbers.for_each(|number| db.put(key(number), value(number, 150)).unwrap());
            lsm.merge_logs_for_test().unwrap();
        }
        let view = lsm.view();
        let (order, rules) = (&lsm.env.order, lsm.limits.load().rules);
        let job = view.shape.pick(order, &rules, &Busy::default()).unwrap();
        let claim = job.claim(false);
        let oldest = view.shape.trees.last().unwrap();
        for piece in &job.pieces {
            for section in oldest.sections_within(order, &piece.span) {
                assert!(claim.into.contains(&section.id) && claim.from.contains(&section.id));
            }
        }
        assert!(!job.pieces.is_empty());
    });
}

/// Tables may refer to long values in a log of which another tree has a part. All of them are files of level 0
/// once their keyspace is dropped.
#[test]
fn a_store_opens_whose_dropped_keyspace_refers_to_a_log_that_is_a_run() {
    let disk = MemVfs::new();
    let opened = |db: &Db, bound: f64| {
        let options = KeyspaceOptions::new().layout(small()).space_amplification(bound);
        let keyspace = db.keyspace_with("dropped", options).unwrap();
        let layout: Arc<dyn Any + Send + Sync> = keyspace.inner.layout.clone();
        (keyspace, layout.downcast::<Lsm<Trees>>().unwrap())
    };
    let db = open(&disk);
    // An eighth of the log is too much else for its long values to stay there: it becomes a run.
    let (keyspace, lsm) = opened(&db, 1.1);
    lsm.without_merges_for_test(|| {
        let lengths = [2500, 2500, 250, 250, 250, 250, 2500];
        (0..)
            .zip(lengths)
            .for_each(|(number, bytes)| keyspace.put(key(number), value(number, bytes)).unwrap());
        lsm.merge_logs_for_test().unwrap();
    });
    drop((keyspace, lsm));
    db.close().unwrap();
    let db = open(&disk);
    let (keyspace, lsm) = opened(&db, 1.5);
    lsm.without_merges_for_test(|| {
        // A part of the log is merged with this.
        keyspace.put(key(0), value(9, 2500)).unwrap();
        keyspace.put(key(1), value(9, 2500)).unwrap();
        lsm.merge_logs_for_test().unwrap();
        keyspace.compact_range(..key(2)).unwrap();
        let view = lsm.view();
        let logs: Vec<u64> = view.tables().filter_map(Run::log).map(|log| log.file.id).collect();
        let referred = view.tables().flat_map(Run::referred).map(|referred| referred.log.id);
        assert!(!logs.is_empty() && referred.count() > 0, "{logs:?}");
        let snapshot = db.snapshot();
        db.drop_keyspace("dropped").unwrap();
        let reopened = open(&disk.kill());
        assert!(reopened.verify().unwrap().is_ok());
        drop(snapshot);
    });
}
