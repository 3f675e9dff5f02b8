//! Repair of an undamaged store gives the same result as opening it.

use super::stores::{ENDS, End, store, tight};
use super::{opened, options, repaired};
use cantle::vfs::{CrashPlan, MemVfs, Vfs};
use cantle::{Comparator, Compression, Durability, KeyspaceOptions};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

#[test]
fn the_new_store_is_as_the_old_one() {
    for end in ENDS {
        for durability in [Durability::Buffered, Durability::Process, Durability::Sync] {
            for compression in [Compression::None, Compression::Lz4] {
                let what = format!("{end:?} {durability:?} {compression:?}");
                let (vfs, _) = store(1500, end, durability, compression);
                let expected = opened(&vfs);
                assert!(expected["default"].len() > 1000, "{what}");
                let (found, report) = repaired(&vfs);
                assert!(found == expected, "{what}: {report:?}");
                assert!(report.is_ok() && report.notes.is_empty(), "{what}: {report:?}");
                assert!(
                    report.pairs() == expected.values().map(|pairs| pairs.len() as u64).sum::<u64>(),
                    "{what}"
                );
                assert!(report.files > 3 && report.bytes > 100_000, "{what}: {report:?}");
            }
        }
    }
}

/// Unsynced files after a loss of power are not damage.
#[test]
fn whatever_a_power_loss_leaves_opens_and_repairs_alike() {
    for durability in [Durability::Process, Durability::Sync] {
        for seed in 0..40 {
            let end = End::PowerLost(CrashPlan::random(seed));
            let (vfs, _) = store(150, end, durability, Compression::None);
            let expected = opened(&vfs);
            let (found, report) = repaired(&vfs);
            assert!(found == expected, "{durability:?} {seed}: {report:?}");
            // Without a journal there may be data that no checkpoint covers, and that is reported.
            let is_told =
                |note: &String| durability == Durability::Process && note.contains("--keep-left-behind");
            assert!(report.is_ok() && report.notes.iter().all(is_told), "{durability:?} {seed}: {report:?}");
        }
    }
}

#[test]
fn metadata_and_empty_keyspaces_come_along() {
    let (vfs, _) = store(100, End::Closed, Durability::Process, Compression::None);
    cantle::Db::repair("store", "new", options(&vfs)).unwrap();
    let db = options(&vfs).open("new").unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["default", "empty", "other"]);
    for name in ["default", "other"] {
        let metadata = db.keyspace(name).unwrap().metadata();
        assert_eq!(metadata, format!("of {name}").as_bytes());
    }
}

#[test]
fn little_memory_is_enough() {
    let (vfs, _) = store(4000, End::Killed, Durability::Process, Compression::None);
    let expected = opened(&vfs);
    vfs.remove(&manifest(&vfs)).unwrap();
    // Without a manifest a keyspace is sorted as a whole.
    let report = cantle::Db::repair("store", "new", tight(options(&vfs))).unwrap();
    assert_eq!(report.keyspaces[0].name, "default");
    let db = options(&vfs).open("new").unwrap();
    let found = super::content(&db);
    for (key, value) in &expected["default"] {
        assert!(found["default"].get(key) == Some(value), "{}", String::from_utf8_lossy(key));
    }
}

fn manifest(vfs: &MemVfs) -> std::path::PathBuf {
    super::files(vfs).into_iter().find(|path| path.to_string_lossy().contains("MANIFEST")).unwrap()
}

#[test]
fn progress_ends_with_everything() {
    let (vfs, _) = store(3000, End::Closed, Durability::Process, Compression::None);
    let mut steps = Vec::new();
    let report = cantle::Db::repair_with("store", "new", options(&vfs), |step| steps.push(step)).unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last.pairs, report.pairs());
    assert!(steps.is_sorted_by_key(|step| step.bytes) && steps.len() > 2, "{steps:?}");
    assert!(last.bytes <= last.total_bytes && last.bytes > last.total_bytes / 2, "{last:?}");
}

struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// A keyspace with a comparator of its own, and a range delete whose meaning depends on it.
fn backwards() -> MemVfs {
    let vfs = MemVfs::new();
    let with = || options(&vfs).comparator(Arc::new(Backwards));
    let db = with().open("store").unwrap();
    let keyspace = db.keyspace_with("back", KeyspaceOptions::new().comparator(Arc::new(Backwards))).unwrap();
    for n in 0..2000 {
        keyspace.put(super::stores::key(n), [7; 90]).unwrap();
    }
    keyspace.compact_range(..).unwrap();
    keyspace.put("a", "1").unwrap();
    keyspace.delete_range(super::stores::key(300)..super::stores::key(100)).unwrap();
    db.close().unwrap();
    drop(db);
    vfs.kill()
}

#[test]
fn comparators_must_be_registered_and_then_count() {
    let vfs = backwards();
    let refused = cantle::Db::repair("store", "new", options(&vfs)).unwrap_err();
    assert!(matches!(refused, cantle::Error::OptionMismatch { .. }), "{refused}");
    assert!(vfs.metadata(Path::new("new")).unwrap().is_none());
    let with = || options(&vfs).comparator(Arc::new(Backwards));
    let report = cantle::Db::repair("store", "new", with()).unwrap();
    assert!(report.is_ok(), "{report:?}");
    let read = |name| super::content(&with().read_only(true).open(name).unwrap());
    assert!(read("new") == read("store"));
    assert_eq!(read("new")["back"].len(), 2001 - 200);
}

#[test]
fn an_order_that_is_lost_loses_no_pair() {
    let vfs = backwards();
    vfs.remove(&manifest(&vfs)).unwrap();
    let (found, report) = repaired(&vfs);
    assert_eq!(found["lost-2"].len(), 2001, "a range delete in an unknown order was applied: {report:?}");
    assert!(report.notes.iter().any(|note| note.contains("order of its own")), "{report:?}");
}
