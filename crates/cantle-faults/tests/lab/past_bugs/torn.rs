//! LevelDB and PebblesDB: writes that reached the disk only partly.

use super::*;
use cantle::WriteBatch;
use cantle::vfs::{Survival, Tail};

/// A length of many pages of the page cache.
const LONG_BYTES: usize = 20_000;

fn old(name: &str) -> Vec<u8> {
    value(name.len(), LONG_BYTES / 2)
}

fn new(name: &str) -> Vec<u8> {
    value(name.len() + 100, LONG_BYTES)
}

const NAMES: [&str; 2] = ["a", "bb"];

/// A batch that replaces two long values, and a put after it: images at every call.
fn images(durability: Durability) -> Vec<Image> {
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), durability).unwrap();
    NAMES.iter().for_each(|name| db.put(name, old(name)).unwrap());
    db.sync().unwrap();
    let mut batch = WriteBatch::new();
    for name in NAMES {
        batch.put(name, new(name));
    }
    let is_sync = durability == Durability::Sync;
    let ((), images) = lab.watch(|| {
        lab.acknowledged(is_sync, || db.write(batch));
        lab.acknowledged(is_sync, || db.put("later", new("later")));
    });
    images
}

/// The generation of each key's value; panics if it is neither.
fn generations(db: &Db, what: &str) -> [bool; 2] {
    NAMES.map(|name| {
        let value = db.get(name).unwrap_or_else(|error| panic!("{what}: {error}"));
        let value = value.unwrap_or_else(|| panic!("{what}: {name} is gone"));
        assert!(value == old(name) || value == new(name), "{what}: {name} has a value that nobody put");
        value == new(name)
    })
}

fn later_is_there(db: &Db, what: &str) -> bool {
    let later = db.get("later").unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(later.as_ref().is_none_or(|later| *later == new("later")), "{what}: a value that nobody put");
    later.is_some()
}

/// [LevelDB #251](https://github.com/google/leveldb/issues/251): a loss of power had turned the
/// bytes of a log record into zeros or garbage, or had left out a write in the middle of it.
/// `RepairDB` recovered such a record, and a read returned a value that was never put.
///
/// Here a batch goes to a chunk's log, and in a `Sync` store to the journal first. After opening it
/// is there completely or not at all, and a repair only saves values that were put.
#[test]
fn leveldb_251_neither_opening_nor_repair_takes_up_what_was_written_in_part() {
    for durability in [Durability::Process, Durability::Sync] {
        let mut repaired = 0;
        let seen = lose_power(&images(durability), |lost, marks, what| {
            if repaired % 3 == 0 {
                let copy = lost.kill();
                cantle::Db::repair(STORE, "/repaired", options(copy.clone(), durability)).unwrap();
                let db = options(copy, durability).open("/repaired").unwrap();
                let what = format!("repaired, {what}");
                generations(&db, &what);
                later_is_there(&db, &what);
            }
            repaired += 1;
            let db = open(lost, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
            let found = generations(&db, what);
            assert_eq!(found[0], found[1], "{what}: half of a batch");
            let later = later_is_there(&db, what);
            assert!(found[0] || !later, "{what}: what came later is there alone");
            assert!(u64::from(found[0]) + u64::from(later) >= marks.durable, "{what}: {found:?}, {marks:?}");
            assert!(db.verify().unwrap().is_ok(), "{what}");
        });
        assert!(seen > 20, "{durability:?}: {seen}");
    }
}

/// [PebblesDB #28](https://github.com/utsaslab/pebblesdb/issues/28): of a record longer than a page
/// some pages reached the disk, in any order, as the page cache may write them. Recovery accepted
/// the value with old bytes in place of the missing pages.
///
/// Here the recovered store continues to write, and loses power again: the torn record neither
/// comes back from under later writes, nor takes them with it.
#[test]
fn pebblesdb_28_pages_in_any_order_make_no_value_and_what_is_written_behind_them_stays() {
    for durability in [Durability::Process, Durability::Sync] {
        let mut seen = HashSet::new();
        for image in images(durability) {
            for seed in 0..40 {
                let tail = [Tail::Zeros, Tail::Garbage, Tail::Cut][seed as usize % 3];
                let plan = CrashPlan { seed, names: Survival::Everything, data: Survival::Scattered, tail };
                let lost = image.vfs.crash(&plan);
                if !seen.insert(lost.fingerprint()) {
                    continue;
                }
                let what = format!("{durability:?}, before {}: {plan:?}", image.at);
                let db = open(lost.clone(), durability).unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = (generations(&db, &what), later_is_there(&db, &what));
                db.put("next", new("next")).unwrap();
                db.sync().unwrap();
                db.put("never synced", new("never synced")).unwrap();
                for again in 0..3 {
                    let what = format!("{what}, and again");
                    let vfs = lost.crash(&CrashPlan { seed: again, ..plan });
                    let db = open(vfs, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!((generations(&db, &what), later_is_there(&db, &what)), found, "{what}");
                    assert!(db.get("next").unwrap().is_some_and(|next| next == new("next")), "{what}");
                    assert!(db.verify().unwrap().is_ok(), "{what}");
                }
            }
        }
        assert!(seen.len() > 20, "{durability:?}: {}", seen.len());
    }
}
