//! Keyspaces in the layout `flsm`, compared with a list of what was written to them.

use super::levels::Levels;
use crate::layout::options::FlsmOptions;
use crate::layout::stats::{FlsmStats, LayoutStats};
use crate::lsm::busy::Busy;
use crate::lsm::keyspace::Lsm;
use crate::lsm::merge::{Planned, Trigger};
use crate::lsm::shape::Shape;
use crate::lsm::view::View;
use crate::run::record::ReferredRecord;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::sync::random::Rng;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::vfs::{CrashPlan, MemVfs, OpenMode, Vfs};
use crate::{Db, KeyspaceOptions, Options, Snapshot, WriteBatch};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small generations and guards, so that few data make many.
pub fn open(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(16 << 10).max_sstables_per_guard(3);
    open_with(disk, KeyspaceOptions::new().layout(layout))
}

pub fn open_with(disk: &MemVfs, keyspace: KeyspaceOptions) -> Db {
    let options = Options::new().default_keyspace(keyspace);
    let options = options.vfs(Arc::new(disk.clone())).background_threads(1);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap()
}

pub fn lsm_of(db: &Db) -> Arc<Lsm<Levels>> {
    let layout: Arc<dyn Any + Send + Sync> = db.own().layout.clone();
    layout.downcast().unwrap()
}

pub fn stats(db: &Db) -> FlsmStats {
    match db.own().layout.stats().of_layout {
        LayoutStats::Flsm(stats) => stats,
        other => panic!("{other:?}"),
    }
}

fn layout() -> KeyspaceOptions {
    KeyspaceOptions::new().layout(FlsmOptions::new())
}

/// The files of each guard, newest first.
pub fn guards(db: &Db) -> Vec<Vec<u64>> {
    let view = lsm_of(db).view();
    view.shape.groups().map(|group| group.runs.iter().map(|run| run.file().id).collect()).collect()
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
        let key = key(number);
        assert!(
            db.get(&key).unwrap().as_deref() == model.get(&key).map(|value| &value[..]),
            "{what}: get {number}"
        );
    }
    assert!(db.verify().unwrap().is_ok(), "{what}");
}

#[test]
fn a_keyspace_is_what_was_written_to_it_through_rotations_and_merges() {
    write_and_compare(&open, 0..4);
}

/// Random writes, snapshots, kills and merges, beside a list of what was written.
pub fn write_and_compare(open: &dyn Fn(&MemVfs) -> Db, seeds: std::ops::Range<u64>) {
    for seed in seeds {
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
        let order = &lsm_of(&db).env.order;
        assert!(lsm_of(&db).view().shape.guards().all(|guard| guard.depth(order) <= 1), "{:?}", guards(&db));
        assert!(guards(&db).len() > 3, "{:?}", guards(&db));
        (sealed, merges) = (sealed + stats(&db).generations_sealed, merges + stats(&db).merges);
        assert!(sealed > 20 && merges > 5, "{sealed} generations sealed, {merges} merges");
    }
}

/// Numbers in descending order, but none beside its neighbours: logs in key order would be moved as they are.
pub(super) fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let in_block = |at: u64| at / 40 * 40 + at % 40 * 2 % 40 + at % 40 / 20;
    (0..count).rev().map(move |at| if at / 40 < count / 40 { in_block(at) } else { at })
}

/// Three guards, each with one table; 300 keys with values of 150 bytes.
pub(super) fn three_guards(disk: &MemVfs) -> Db {
    let db = open(disk);
    lsm_of(&db).without_merges_for_test(|| {
        scattered(300).for_each(|number| db.put(key(number), value(number, 150)).unwrap());
        db.compact_range(..).unwrap();
    });
    assert!(guards(&db).len() >= 3 && guards(&db).iter().all(|files| files.len() == 1), "{:?}", guards(&db));
    db
}

/// PebblesDB §3.4: nothing of a guard is rewritten when others' keys arrive.
#[test]
fn a_merge_of_logs_appends_a_fragment_to_each_guard_and_rewrites_nothing() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    let before = guards(&db);
    (0..300).step_by(3).for_each(|number| db.put(key(number), value(number + 1, 200)).unwrap());
    let written = db.own().layout.stats().table_bytes_written;
    lsm_of(&db).merge_logs_for_test().unwrap();
    let written = db.own().layout.stats().table_bytes_written - written;
    let after = guards(&db);
    assert_eq!(before.len(), after.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.len(), 2);
        assert_eq!(after[1..], before[..], "the guard's own table is as it was, below the fragment");
    }
    let fragments = after.len() as u64;
    assert!(written < 100 * 220 * 102 / 100 + fragments * 2048, "{written}");
    // Keys of one guard leave the others alone.
    db.put(key(299), "new").unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    let last = guards(&db);
    assert_eq!(last[..last.len() - 1], after[..after.len() - 1]);
    assert_eq!(last.last().map(Vec::len), Some(3));
}

/// PebblesDB §4.3. The published code drops a delete above an older put of the next level.
#[test]
fn a_deleted_key_stays_deleted_whatever_is_merged_first() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    for number in (0..300).step_by(10) {
        db.delete(key(number)).unwrap();
    }
    lsm_of(&db).merge_logs_for_test().unwrap();
    let is_gone = |db: &Db| (0..300).step_by(10).all(|number| db.get(key(number)).unwrap().is_none());
    assert!(is_gone(&db), "the fragment has the deletes");
    (0..300).step_by(50).for_each(|number| db.put(key(number + 1), "new").unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    assert!(is_gone(&db) && db.range(..).count() == 270);
    // A merge with the oldest table drops them.
    db.compact_range(..).unwrap();
    assert!(is_gone(&db) && db.range(..).count() == 270);
    assert_eq!(db.verify().unwrap().entries, 270);
}

#[test]
fn a_range_delete_reaches_keys_that_only_tables_have() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    db.delete_range(key(50)..key(250)).unwrap();
    db.put(key(100), "after").unwrap();
    for what in ["in the log", "merged", "compacted"] {
        assert_eq!(db.range(..).count(), 101, "{what}");
        assert!(db.get(key(150)).unwrap().is_none(), "{what}");
        assert_eq!(db.get(key(100)).unwrap().as_deref(), Some(&b"after"[..]), "{what}");
        match what {
            "in the log" => lsm_of(&db).merge_logs_for_test().unwrap(),
            _ => db.compact_range(..).unwrap(),
        }
    }
    assert_eq!(db.verify().unwrap().entries, 101);
}

/// The inputs of a merge are there until a checkpoint covers its output.
#[test]
fn a_loss_of_power_after_a_merge_returns_to_the_state_of_the_checkpoint() {
    let disk = MemVfs::new();
    let db = three_guards(&disk);
    db.sync().unwrap();
    let before = all(db.range(..));
    (0..300).step_by(2).for_each(|number| db.put(key(number), "new").unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    let (lost, killed) = (disk.crash(&CrashPlan::LOSE_UNSYNCED), disk.kill());
    let now = all(db.range(..));
    drop(db);
    assert!(all(open(&lost).range(..)) == before);
    assert!(all(open(&killed).range(..)) == now);
}

/// Opening reads the manifest only: logs are read when they are needed.
#[test]
fn a_keyspace_that_was_killed_while_it_was_written_opens_without_reading_a_log() {
    let disk = MemVfs::new();
    let db = open(&disk);
    // Neither in key order nor long enough to be merged.
    scattered(200).for_each(|number| db.put(key(number), value(number, 100)).unwrap());
    let killed = disk.kill();
    drop(db);
    let db = open(&killed);
    let view = lsm_of(&db).view();
    assert!(
        view.level0.len() > 1
            && view.level0.iter().filter_map(|run| run.log()).all(|log| log.loaded().is_none())
    );
    assert_eq!(db.range(..).count(), 200);
}

/// An idle keyspace has no log: the first write creates one.
#[test]
fn a_keyspace_without_writes_has_no_file() {
    let disk = MemVfs::new();
    let db = open(&disk);
    assert_eq!((db.get("a").unwrap(), db.range(..).count()), (None, 0));
    assert!(lsm_of(&db).view().level0.is_empty());
    db.put("a", "b").unwrap();
    assert_eq!(lsm_of(&db).view().level0.len(), 1);
}

/// Four threads overwrite keys of their own, and read what they have written. Something else happens meanwhile.
pub(super) fn overwrite_in_threads<K: AsRef<[u8]>>(db: &Db, key: fn(u64) -> K, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for step in 0..1500 {
                    let key = key(thread * 1000 + step % 250);
                    db.put(&key, step.to_be_bytes()).unwrap();
                    assert_eq!(db.get(&key).unwrap().as_deref(), Some(&step.to_be_bytes()[..]));
                }
            });
        }
        meanwhile();
    });
}

#[test]
fn threads_that_write_while_generations_change_lose_nothing() {
    let disk = MemVfs::new();
    let db = open(&disk);
    overwrite_in_threads(&db, key, || {});
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).generations_sealed > 10, "{:?}", stats(&db));
    assert_eq!(db.range(..).count(), 1000);
    for (key, value) in all(db.range(..)) {
        assert!(value[..] >= 1250u64.to_be_bytes()[..], "{key:?}: {value:?}");
    }
}

/// Each wrong manifest is an error of its own, and nothing is changed.
#[test]
fn a_manifest_whose_guards_cannot_be_is_corruption() {
    use crate::lsm::state::{Edit, GroupRecord};
    let guard = |id, level, start: Option<&'static str>| GroupRecord {
        id,
        level,
        start: start.map(|start| start.as_bytes().into()),
        ..GroupRecord::default()
    };
    let outside = {
        let mut outside = guard(3, 1, Some("x"));
        let mut file = crate::run::record::FileRecord::log(99, 1);
        file.kind = crate::format::header::FileKind::Table;
        file.span = Some(crate::types::span::Span { start: Some("a".into()), end: Some("b".into()) });
        outside.files.push(file);
        outside
    };
    // References to values, to a log of level 0, to a table, out of order and beyond their log.
    let referring = |logs: &[(u64, u64)]| {
        let mut file = crate::run::record::FileRecord::log(99, 1);
        file.kind = crate::format::header::FileKind::Table;
        let referred = |&(file, bytes)| ReferredRecord { file, epoch: 1, file_bytes: 100, bytes };
        file.referred = logs.iter().map(referred).collect();
        let mut other = crate::run::record::FileRecord::log(98, 1);
        other.kind = file.kind;
        vec![GroupRecord { files: vec![file, other], ..guard(2, 1, None) }]
    };
    let none_of_their_logs = "refers to values in a file that is none of their logs";
    for (added, why) in [
        (referring(&[(98, 10)]), none_of_their_logs),
        (referring(&[(99, 10)]), "refers to logs out of order, or to itself"),
        (referring(&[(90, 10), (90, 10)]), "refers to logs out of order, or to itself"),
        (referring(&[(90, 101)]), "refers to more bytes than a log has"),
        (vec![guard(2, 1, None)], "does not begin with a group for the smallest keys"),
        (vec![guard(2, 1, Some("x")), guard(3, 1, Some("x"))], "begin at the same key"),
        (vec![guard(2, 3, None)], "a level between others has no guard"),
        (vec![outside], "lies outside of its guard"),
    ] {
        let disk = MemVfs::new();
        let db = open(&disk);
        db.put("a", "b").unwrap();
        let removed =
            if added.iter().any(|group| !group.files.is_empty() && group.id == 2) { vec![1] } else { vec![] };
        let edit = Edit::Merge { logs: Vec::new(), removed, added };
        let (manifest, keyspace) = (&lsm_of(&db).substrate.manifest, lsm_of(&db).env.keyspace);
        manifest.append(&[crate::manifest::Edit::Layout { keyspace, payload: edit.encode() }]).unwrap();
        let path = manifest.path();
        let killed = disk.kill();
        drop(db);
        let read = |disk: &MemVfs| {
            let file = disk.open(&path, OpenMode::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        };
        let before = read(&killed);
        let layout = KeyspaceOptions::new().layout(FlsmOptions::new());
        let error =
            Options::new().default_keyspace(layout).vfs(Arc::new(killed.clone())).open("store").unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains(why), "{error}");
        // The opening appends the beginning of its epoch, and nothing else.
        assert!(read(&killed).starts_with(&before), "{why}");
    }
}

/// PebblesDB §3.1 and §3.3: levels and guards follow the data, in both directions.
#[test]
fn levels_and_guards_come_and_go_with_the_data() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let mut rng = Rng::new(1);
    let mut numbers = std::collections::BTreeSet::new();
    for _ in 0..12_000 {
        let number = rng.below(100_000);
        numbers.insert(number);
        db.put(key(number), value(number, 200)).unwrap();
    }
    lsm_of(&db).settle_for_test().unwrap();
    let shape = lsm_of(&db).view().shape.clone();
    assert!(shape.levels.len() >= 2, "{} levels", shape.levels.len());
    let counts: Vec<usize> = shape.levels.iter().map(Vec::len).collect();
    assert!(counts[0] >= 3 && counts.windows(2).all(|pair| pair[0] * 2 <= pair[1]), "{counts:?}");
    assert_eq!(shape.find_fault(&lsm_of(&db).env.order), None);
    let most = shape.last().iter().map(|guard| guard.bytes()).max().unwrap();
    assert!(most <= 3 * (16 << 10) + 4096, "{most}");
    assert!(stats(&db).guards_inserted > 0, "{:?}", stats(&db));
    let found: Vec<Vec<u8>> = db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect();
    assert!(found.iter().eq(numbers.iter().map(|&number| key(number)).collect::<Vec<_>>().iter()));
    for round in 0..3 {
        for &number in &numbers {
            db.delete(key(number)).unwrap();
        }
        lsm_of(&db).settle_for_test().unwrap();
        db.compact_range(..).unwrap();
        lsm_of(&db).settle_for_test().unwrap();
        let (levels, guards) = (stats(&db).levels, guards(&db).len());
        assert!(levels == 1 && guards == 1, "round {round}: {levels} levels, {guards} guards");
        assert!(stats(&db).guards_deleted > 3 * round, "{:?}", stats(&db));
        assert_eq!(db.range(..).count(), 0);
        numbers = (0..1000).map(|number| 1000 * round + number).collect();
        numbers.iter().for_each(|&number| db.put(key(number), value(number, 200)).unwrap());
    }
    assert!(db.verify().unwrap().is_ok());
}

/// The tables of a guard reach over many guards of the next level. A scan reads each guard of the
/// last level with the keys of the higher levels that belong to it, and no others.
#[test]
fn a_scan_skips_no_guard_below_a_long_table() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    (0..8000).for_each(|number| db.put(key(number), value(number, 200)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).levels >= 2, "{:?}", stats(&db));
    (0..8000).step_by(100).for_each(|number| db.put(key(number), "new").unwrap());
    lsm_of(&db).merge_logs_for_test().unwrap();
    let above = lsm_of(&db).view().shape.levels[0].iter().map(|guard| guard.runs.len()).sum::<usize>();
    assert!(above > 0, "nothing is in level 1");
    for round in ["with tables in level 1", "settled"] {
        let found: Vec<Vec<u8>> = db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect();
        assert!(found.into_iter().eq((0..8000).map(key)), "{round}");
        let found: Vec<Vec<u8>> = db.range(..).rev().map(|pair| pair.unwrap().0.to_vec()).collect();
        assert!(found.into_iter().eq((0..8000).rev().map(key)), "{round}, backward");
        db.compact_range(..).unwrap();
    }
}

/// PebblesDB §4.2. Seeks pay for the merge of what they seek.
#[test]
fn scans_without_writes_merge_the_guards_that_they_read() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    // Runs of a guard without a common key cost a seek nothing.
    let lsm = lsm_of(&db);
    let most = || lsm.view().shape.guards().map(|guard| guard.depth(&lsm.env.order)).max().unwrap();
    lsm_of(&db).without_merges_for_test(|| {
        for round in 0..2u64 {
            scattered(300).for_each(|number| db.put(key(number), value(number + round, 150)).unwrap());
            lsm_of(&db).merge_logs_for_test().unwrap();
        }
        assert_eq!(most(), 2, "two tables are no reason to merge");
    });
    let deadline = crate::sync::time::now() + Duration::from_secs(60);
    while most() > 1 && crate::sync::time::now() < deadline {
        (0..300).step_by(10).for_each(|number| assert_eq!(db.range(key(number)..).take(3).count(), 3));
        db.tick_for_test();
    }
    assert_eq!(most(), 1);
}

/// A batch that is longer than memtables may become leaves its values in the log.
#[test]
fn a_long_batch_does_not_exceed_the_memory_of_memtables() {
    let disk = MemVfs::without_history();
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(FlsmOptions::new()));
    let db = options.vfs(Arc::new(disk)).memory_budget(8 << 20).background_threads(1).open("store").unwrap();
    let mut batch = crate::WriteBatch::new();
    for number in 0..10_000 {
        batch.put(key(number), value(number, 2000));
    }
    let memtables = lsm_of(&db).substrate.budget.logs.memtables.clone();
    db.write(batch).unwrap();
    let used = memtables.used_bytes();
    assert!(used < memtables.limit_bytes() + (3 << 20), "{used} bytes for a batch of 20 MB");
    for number in (0..10_000).step_by(99) {
        assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&value(number, 2000)[..]));
    }
}

/// Memory of logs is bounded for all keyspaces together.
#[test]
fn generations_are_sealed_when_the_indexes_of_logs_need_too_much_memory() {
    let disk = MemVfs::without_history();
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(FlsmOptions::new()));
    let db = options.vfs(Arc::new(disk)).memory_budget(8 << 20).background_threads(1).open("store").unwrap();
    let keyspaces: Vec<_> =
        (0..100).map(|number| db.keyspace_with(&number.to_string(), layout()).unwrap()).collect();
    for keyspace in &keyspaces {
        (0..300).for_each(|number| keyspace.put(key(number), "value").unwrap());
    }
    let memtables = lsm_of(&db).substrate.budget.logs.memtables.clone();
    let deadline = crate::sync::time::now() + Duration::from_secs(60);
    while memtables.used_bytes() > memtables.limit_bytes() * 5 / 4 && crate::sync::time::now() < deadline {
        db.tick_for_test();
    }
    assert!(memtables.used_bytes() <= memtables.limit_bytes() * 5 / 4, "{} bytes", memtables.used_bytes());
    assert!(keyspaces.iter().all(|keyspace| keyspace.range(..).count() == 300));
}

/// Without a manifest, the options of the repair say which layout the store had.
#[test]
fn a_store_without_a_manifest_is_repaired_in_its_layout() {
    let disk = MemVfs::without_history();
    let db = three_guards(&disk);
    (0..300).step_by(3).for_each(|number| db.put(key(number), "new").unwrap());
    let before = all(db.range(..));
    db.close().unwrap();
    let dir = std::path::Path::new("store");
    for name in disk.list(dir).unwrap().iter().filter(|name| name.starts_with("MANIFEST")) {
        disk.remove(&dir.join(name)).unwrap();
    }
    let options = Options::new().default_keyspace(layout()).vfs(Arc::new(disk.clone()));
    let report = Db::repair("store", "repaired", options.clone()).unwrap();
    assert_eq!(report.keyspaces.len(), 1);
    let db = options.open("repaired").unwrap();
    assert_eq!(db.own().layout.stats().layout, crate::LayoutKind::Flsm);
    assert!(all(db.range(..)) == before);
}

/// A range delete reaches every level below it.
#[test]
fn a_range_delete_reaches_the_last_level() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    (0..8000).for_each(|number| db.put(key(number * 37 % 8000), value(number, 200)).unwrap());
    lsm_of(&db).settle_for_test().unwrap();
    assert!(stats(&db).levels >= 2, "{:?}", stats(&db));
    let snapshot = db.snapshot();
    db.delete_range(key(1000)..key(7000)).unwrap();
    db.put(key(5000), "after").unwrap();
    lsm_of(&db).merge_logs_for_test().unwrap();
    assert_eq!((db.range(..).count(), snapshot.range(..).count()), (2001, 8000));
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (2001, 2001));
}

/// While a snapshot needed them, merges carried pairs down beside the range delete that covers them.
#[test]
fn a_compaction_removes_what_a_range_delete_of_the_last_level_covers() {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    lsm_of(&db).without_merges_for_test(|| {
        (0..8000).for_each(|number| db.put(key(number * 37 % 8000), value(number, 200)).unwrap());
        lsm_of(&db).settle_for_test().unwrap();
        (0..8000).step_by(9).for_each(|number| db.put(key(number), "newer").unwrap());
        let snapshot = db.snapshot();
        db.delete_range(key(1000)..key(7000)).unwrap();
        lsm_of(&db).merge_logs_for_test().unwrap();
        lsm_of(&db).view().shape.owe_above_for_test();
        lsm_of(&db).settle_for_test().unwrap();
        assert_eq!((db.range(..).count(), snapshot.range(..).count()), (2000, 8000));
    });
    let runs: Vec<Run> = lsm_of(&db).view().tables().cloned().collect();
    assert!(runs.iter().any(|run| matches!(&run.source, Source::Table(table) if table.has_deleted)));
    db.compact_range(..).unwrap();
    assert_eq!((db.range(..).count(), db.verify().unwrap().entries), (2000, 2000));
}

/// The values that are overwritten stay where they are until they take too much space.
#[test]
fn rounds_of_overwrites_take_no_more_space_than_the_bound() {
    let disk = MemVfs::without_history();
    let layout = FlsmOptions::new().generation_bytes(64 << 10).guard_bytes(256 << 10);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let (keys, mut most) = (4000u64, 0.0f64);
    for round in 0..8 {
        for number in 0..keys {
            db.put(key(number * 7919 % keys), value(number + round, 1000)).unwrap();
        }
        lsm_of(&db).settle_for_test().unwrap();
        let tables: u64 = lsm_of(&db).view().tables().map(Run::bytes).sum();
        most = most.max(tables as f64 / (keys * 1009) as f64);
    }
    // The sample is small.
    assert!(most > 1.1 && most < 2.0, "{most} times");
    let stats = db.own().layout.stats();
    assert!(stats.live_bytes > keys * 900 && stats.live_bytes < keys * 1250, "{}", stats.live_bytes);
}

/// A queue: all keys before the first pair are deleted.
#[test]
fn what_scans_pass_over_in_logs_is_merged() {
    let disk = MemVfs::without_history();
    let layout = FlsmOptions::new().generation_bytes(4 << 20);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let lsm = lsm_of(&db);
    (0..4000).for_each(|number| db.put(key(number), "value").unwrap());
    (0..3990).for_each(|number| db.delete(key(number)).unwrap());
    assert_eq!(lsm.view().level0.len(), 1, "all in one generation");
    let first = || db.first().unwrap().map(|(key, _)| key.to_vec());
    // Each passes over as many; the merge costs as much as a few of them.
    let mut reads = 0;
    while lsm.view().level0.iter().any(|log| log.bytes() > 1000) {
        assert_eq!(first(), Some(key(3990)));
        reads += 1;
        crate::sync::thread::sleep(Duration::from_millis(1));
    }
    assert!(reads > 3);
    assert_eq!(first(), Some(key(3990)));
    let passed = db.own().layout.stats().scan_log_reads;
    assert_eq!(first(), Some(key(3990)));
    assert_eq!(db.own().layout.stats().scan_log_reads, passed, "nothing is left in logs");
}

#[test]
fn sealed_logs_are_merged_once_seeks_have_paid_for_it() {
    let disk = MemVfs::without_history();
    let layout = FlsmOptions::new().generation_bytes(4 << 20);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let lsm = lsm_of(&db);
    for round in 0..3 {
        (0..1000).for_each(|number| db.put(key(3 * number + round), "value").unwrap());
        lsm.seal_for_test().unwrap();
    }
    let logs = || lsm.view().level0.len();
    assert_eq!(logs(), 3, "too few to be merged for their length");
    // Each of them costs a seek fifty entries, and the merge of an entry costs four.
    let mut seeks = 0;
    while logs() > 0 {
        assert_eq!(db.range(key(seeks % 1000)..).take(1).count(), 1);
        seeks += 1;
    }
    assert!(seeks >= 4 * 3000 / (3 * 50), "{seeks} seeks");
}

/// A merge has the logs that it takes in memory, however many there are.
#[test]
fn maintenance_merges_the_oldest_logs_and_as_many_as_it_takes_at_once() {
    let disk = MemVfs::without_history();
    let layout = FlsmOptions::new().generation_bytes(64 << 10);
    let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
    let lsm = lsm_of(&db);
    let sizes = lsm.without_merges_for_test(|| {
        for round in 0..30 {
            (0..55).for_each(|number| db.put(key(number * 31 % 55), value(round, 1000)).unwrap());
            lsm.seal_for_test().unwrap();
        }
        let view = lsm.view();
        let ripe = lsm.ripe_logs(&view);
        let oldest = lsm.oldest_logs(&ripe);
        assert!(
            oldest.iter().zip(&ripe[ripe.len() - oldest.len()..]).all(|(a, b)| a.file().id == b.file().id)
        );
        let sum = |runs: &[crate::run::run::Run]| runs.iter().map(|run| run.bytes()).sum::<u64>();
        (sum(oldest), sum(&ripe), oldest.len())
    });
    let limit = 2 * 4 * (64 << 10);
    assert!(sizes.0 >= limit && sizes.0 < limit + (80 << 10) && sizes.1 > 2 * limit, "{sizes:?}");
    assert!(sizes.2 <= 12);
}

/// Fills a store, and sees that merges come to an end, and that none is due then.
fn assert_settles<T>(fill: impl FnOnce(&Db) -> T) {
    let disk = MemVfs::without_history();
    let db = open(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let _held = fill(&db);
        lsm.settle_for_test().unwrap();
        let merges = stats(&db).merges;
        lsm.settle_for_test().unwrap();
        assert_eq!(stats(&db).merges, merges);
    });
}

/// It cannot be cut, and is not rewritten for ever.
#[test]
fn a_value_longer_than_a_guard_is_left_alone() {
    assert_settles(|db| {
        // In a log with so much else it is copied.
        let mut batch = WriteBatch::new();
        batch.put(key(0), value(0, 1 << 20));
        for number in 1..4000 {
            batch.put(key(number), value(number, 100));
        }
        db.write(batch).unwrap();
    });
}

/// Neither are versions of one key that snapshots see.
#[test]
fn versions_longer_than_a_guard_are_left_alone() {
    assert_settles(|db| {
        let put = |number| {
            db.put(key(1), value(number, 200)).unwrap();
            db.snapshot()
        };
        (0..200).map(put).collect::<Vec<Snapshot>>()
    });
}

/// A writer may be faster.
#[test]
fn a_compaction_leaves_what_is_written_meanwhile() {
    let disk = MemVfs::without_history();
    let db = three_guards(&disk);
    let lsm = lsm_of(&db);
    lsm.without_merges_for_test(|| {
        let write = || {
            (0..300).step_by(7).for_each(|number| db.put(key(number), value(number, 100)).unwrap());
            lsm.merge_logs_for_test().unwrap();
        };
        write();
        let upto = 1 + lsm.view().tables().map(|run| run.file().id).max().unwrap();
        let sort = |view: &View<Levels>, busy: &Busy| {
            let job =
                view.shape.sort_within(&KeyOrder::Bytewise, &lsm.rules(), &Bounds::of(&..), upto, busy)?;
            Some(Planned { logs: Vec::new(), job })
        };
        let guards = guards(&db).len();
        for _ in 0..guards {
            assert!(lsm.run_next(sort, Trigger::Asked).unwrap());
            write();
        }
        assert!(!lsm.run_next(sort, Trigger::Asked).unwrap());
    });
}
