//! Bugs of the past, one test each.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, MemVfs, OpenMode, Vfs, VfsFile};
use cantle::{Comparator, Db, Error, KeyspaceOptions, Options, WriteBatch};
use std::cmp::Ordering;
use std::sync::Arc;

fn open(vfs: &MemVfs, keyspace: KeyspaceOptions) -> Db {
    Options::new().vfs(Arc::new(vfs.clone())).default_keyspace(keyspace).open("store").unwrap()
}

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn a_snapshot_goes_on_reading_chunks_that_a_later_range_delete_dropped_whole() {
    let db = open(&MemVfs::new(), KeyspaceOptions::new());
    db.put("a", "1").unwrap();
    let snapshot = db.snapshot();
    db.delete_range(..).unwrap();
    assert_eq!(snapshot.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(snapshot.range(..).count(), 1);
    assert_eq!(db.get("a").unwrap(), None);
    db.compact_range(..).unwrap();
    assert_eq!(snapshot.range(..).count(), 1);
}

#[test]
fn a_prefix_finds_its_keys_in_any_order() {
    let db = open(&MemVfs::new(), KeyspaceOptions::new().comparator(Arc::new(Reverse)));
    for key in ["aa", "ab", "abc", "abd", "ac", "b"] {
        db.put(key, "").unwrap();
    }
    let keys: Vec<_> = db.prefix("ab").map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, [&b"abd"[..], b"abc", b"ab"]);
    let keys: Vec<_> = db.snapshot().prefix("ab").rev().map(|pair| pair.unwrap().0).collect();
    assert_eq!(keys, [&b"ab"[..], b"abc", b"abd"]);
}

#[test]
fn a_snapshot_refuses_the_keyspace_of_another_store() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) =
        (cantle::Db::open(dir.path().join("a")).unwrap(), cantle::Db::open(dir.path().join("b")).unwrap());
    let foreign = b.keyspace("events").unwrap();
    foreign.put("key", "value").unwrap();
    let snapshot = a.snapshot();
    assert!(matches!(snapshot.keyspace(&foreign).get("key"), Err(cantle::Error::InvalidArgument(_))));
    assert!(matches!(
        snapshot.keyspace(&foreign).range(..).next(),
        Some(Err(cantle::Error::InvalidArgument(_)))
    ));
    assert!(matches!(
        snapshot.keyspace(&foreign).cursor(..).seek_to_first(),
        Err(cantle::Error::InvalidArgument(_))
    ));
}

struct CaseInsensitive;

impl Comparator for CaseInsensitive {
    fn name(&self) -> &str {
        "case-insensitive"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }

    fn equal_is_identical(&self) -> bool {
        false
    }
}

#[test]
fn a_scan_gives_each_key_as_the_version_that_it_sees_was_written() {
    let db = open(&MemVfs::new(), KeyspaceOptions::new().comparator(Arc::new(CaseInsensitive)));
    db.put("key", "1").unwrap();
    let snapshot = db.snapshot();
    db.put("KEY", "2").unwrap();
    for _ in 0..2 {
        let first = |range: cantle::Range| range.map(|pair| pair.unwrap().0).next().unwrap();
        let last = |range: cantle::Range| range.rev().map(|pair| pair.unwrap().0).next().unwrap();
        assert_eq!(
            (first(db.range(..)), last(db.range(..))),
            (b"KEY".to_vec().into(), b"KEY".to_vec().into())
        );
        assert_eq!(first(snapshot.range(..)), b"key");
        assert_eq!(last(snapshot.range(..)), b"key");
        db.compact_range(..).unwrap();
    }
}

fn file(vfs: &MemVfs, suffix: &str) -> std::path::PathBuf {
    let names = vfs.list("store".as_ref()).unwrap();
    let name = names.iter().filter(|name| name.contains(suffix)).max().unwrap();
    std::path::Path::new("store").join(name)
}

fn damaged(vfs: &MemVfs, path: &std::path::Path, damage: impl FnOnce(&dyn VfsFile)) -> MemVfs {
    let copy = vfs.kill();
    damage(&*copy.open(path, OpenMode::ReadWrite).unwrap());
    copy
}

fn open_as_it_is(vfs: &MemVfs) -> cantle::Result<Db> {
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(4 << 20);
    options.checkpoint_interval(std::time::Duration::from_secs(3600)).open("store")
}

fn flip(file: &dyn VfsFile, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 1], at).unwrap();
}

/// A killed store, with three pairs that are not in the last checkpoint; in the log itself, or
/// buffered.
fn killed_with_three(buffered: bool) -> MemVfs {
    let vfs = MemVfs::new();
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(4 << 20);
    let options = options.checkpoint_interval(std::time::Duration::from_secs(3600));
    let db = options.write_buffer(buffered).open("store").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "value").unwrap();
    }
    vfs.kill()
}

#[test]
fn a_closed_store_whose_manifest_was_cut_is_not_opened_as_an_older_one() {
    let vfs = MemVfs::new();
    let first = open_as_it_is(&vfs).unwrap();
    let manifest = file(&vfs, "MANIFEST");
    let len = vfs.metadata(&manifest).unwrap().unwrap().len;
    first.put("a", "1").unwrap();
    first.close().unwrap();
    // At once, and after the machine was booted.
    for vfs in [vfs.kill(), vfs.crash(&CrashPlan::KEEP_ALL)] {
        let cut = damaged(&vfs, &manifest, |file| file.set_len(len).unwrap());
        let error = open_as_it_is(&cut).unwrap_err();
        assert!(matches!(&error, Error::Corruption { path, .. } if *path == manifest), "{error}");
        assert!(open_as_it_is(&vfs).unwrap().get("a").unwrap().is_some());
    }
}

#[test]
fn the_manifest_of_another_store_does_not_make_ours_empty() {
    let (ours, theirs) = (MemVfs::new(), MemVfs::new());
    for vfs in [&ours, &theirs] {
        let db = open_as_it_is(vfs).unwrap();
        if std::ptr::eq(vfs, &ours) {
            db.put("a", "1").unwrap();
        }
        db.close().unwrap();
    }
    let path = file(&ours, "MANIFEST");
    let mut bytes = vec![0; theirs.metadata(&path).unwrap().unwrap().len as usize];
    theirs.open(&path, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    let mixed = damaged(&ours, &path, |file| {
        file.set_len(0).unwrap();
        file.write_at(&bytes, 0).unwrap();
    });
    assert!(open_as_it_is(&mixed).unwrap_err().is_corruption());
    assert!(mixed.metadata(&file(&ours, ".log")).unwrap().is_some(), "what is there was not removed");
}

#[test]
fn a_manifest_under_another_number_is_not_the_current_one() {
    let vfs = MemVfs::new();
    open_as_it_is(&vfs).unwrap().close().unwrap();
    vfs.rename(&file(&vfs, "MANIFEST"), "store/MANIFEST-000000000077".as_ref()).unwrap();
    assert!(open_as_it_is(&vfs).unwrap_err().is_corruption());
}

#[test]
fn a_flip_in_the_log_of_a_killed_process_does_not_hide_the_records_behind_it() {
    let vfs = killed_with_three(false);
    let log = file(&vfs, ".log");
    let db = open_as_it_is(&damaged(&vfs, &log, |file| flip(file, 70))).unwrap();
    assert!(db.get("a").unwrap_err().is_corruption());
    assert!(db.get("b").unwrap().is_some() && db.get("c").unwrap().is_some());
    // The last record may be one whose write was not finished.
    let len = vfs.metadata(&log).unwrap().unwrap().len;
    let db = open_as_it_is(&damaged(&vfs, &log, |file| flip(file, len - 1))).unwrap();
    assert!(db.get("b").unwrap().is_some() && db.get("c").unwrap().is_none());
}

#[test]
fn a_log_that_was_cut_before_its_last_checkpoint_is_damaged_after_the_death_of_a_process_too() {
    let vfs = MemVfs::new();
    let db = open_as_it_is(&vfs).unwrap();
    db.put("a", "1").unwrap();
    db.sync().unwrap();
    let cut = damaged(&vfs, &file(&vfs, ".log"), |file| file.set_len(64).unwrap());
    assert!(open_as_it_is(&cut).unwrap().get("a").unwrap_err().is_corruption());
}

#[test]
fn a_write_buffer_that_was_cut_or_is_anothers_is_told_by_verify() {
    let vfs = killed_with_three(true);
    let write_buffer = file(&vfs, "WRITE-BUFFER");
    assert!(open_as_it_is(&vfs.kill()).unwrap().get("c").unwrap().is_some());
    let cut = damaged(&vfs, &write_buffer, |file| file.set_len(4096).unwrap());
    let empty = damaged(&vfs, &write_buffer, |file| file.set_len(0).unwrap());
    let headless = damaged(&vfs, &write_buffer, |file| file.write_at(&[0; 16], 4096).unwrap());
    let anothers = damaged(&vfs, &write_buffer, |file| {
        let theirs = killed_with_three(true).open(&write_buffer, OpenMode::Read).unwrap();
        let mut head = [0; 4096];
        theirs.read_exact_at(&mut head, 0).unwrap();
        file.write_at(&head, 0).unwrap();
    });
    for (what, vfs) in [("cut", cut), ("empty", empty), ("headless", headless), ("another's", anothers)] {
        let report = open_as_it_is(&vfs).unwrap().verify().unwrap();
        let told = report
            .damage
            .iter()
            .any(|e| matches!(e, Error::Corruption { path, .. } if *path == write_buffer));
        assert!(told, "{what}: {:?}", report.damage);
    }
}

#[test]
fn a_flip_in_the_journal_of_a_killed_process_does_not_undo_batches() {
    let vfs = MemVfs::new();
    let db = open_as_it_is(&vfs).unwrap();
    let other = db.keyspace("other").unwrap();
    for key in ["a", "b"] {
        let mut batch = WriteBatch::new();
        batch.put(key, "1").keyspace(&other).put(key, "1");
        db.write(batch).unwrap();
    }
    let journal = file(&vfs, ".journal");
    let error = open_as_it_is(&damaged(&vfs, &journal, |file| flip(file, 66))).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if *path == journal), "{error}");
}
