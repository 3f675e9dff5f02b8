//! What once went wrong, one test each.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{Comparator, Db, KeyspaceOptions, Options};
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
    let foreign = b.keyspace("events", cantle::KeyspaceOptions::new()).unwrap();
    foreign.put("key", "value").unwrap();
    let snapshot = a.snapshot();
    assert!(matches!(snapshot.get_in(&foreign, "key"), Err(cantle::Error::InvalidArgument(_))));
    assert!(matches!(snapshot.range_in(&foreign, ..).next(), Some(Err(cantle::Error::InvalidArgument(_)))));
    assert!(matches!(
        snapshot.cursor_in(&foreign, ..).seek_to_first(),
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
