//! Handles that are used after their object is gone, or with the wrong store.

use super::{open, options};
use cantle::vfs::MemVfs;
use cantle::{Error, WriteBatch};

fn is_closed<T>(result: cantle::Result<T>) -> bool {
    matches!(result, Err(Error::Closed))
}

fn is_gone<T>(result: cantle::Result<T>) -> bool {
    matches!(result, Err(Error::NoKeyspace(_)))
}

#[test]
fn a_store_has_one_writer_or_many_readers() {
    let vfs = MemVfs::new();
    let pid = std::process::id();
    {
        let _writer = open(&vfs);
        for read_only in [false, true] {
            match options(&vfs).read_only(read_only).open("store") {
                Err(Error::Locked { pid: found, .. }) => assert_eq!(found, Some(pid)),
                other => panic!("{other:?}"),
            }
        }
    }
    let readers: Vec<_> = (0..3).map(|_| options(&vfs).read_only(true).open("store").unwrap()).collect();
    assert!(matches!(options(&vfs).open("store"), Err(Error::Locked { .. })));
    assert!(matches!(readers[0].put("a", "b"), Err(Error::ReadOnly { .. })));
    assert!(is_gone(readers[0].keyspace("new")));
    drop(readers);
    open(&vfs);
}

#[test]
fn the_lock_is_seen_on_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let writer = cantle::Db::open(&path).unwrap();
    match cantle::Db::open(&path) {
        Err(Error::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(writer);
    cantle::Db::open(&path).unwrap();
}

#[test]
fn every_handle_says_that_the_store_is_closed() {
    let vfs = MemVfs::new();
    let db = open(&vfs);
    let keyspace = db.keyspace("k").unwrap();
    db.put("a", "1").unwrap();
    let (snapshot, mut range, mut cursor) = (db.snapshot(), db.range(..), db.cursor(..));
    db.clone().close().unwrap();
    assert!(is_closed(db.get("a")) && is_closed(db.put("a", "b")) && is_closed(db.delete("a")));
    assert!(is_closed(db.get_with("a", <[u8]>::len)) && is_closed(db.contains_key("a")));
    assert!(is_closed(db.update("a", |_| None)) && is_closed(db.delete_range(..)));
    assert!(is_closed(db.write(WriteBatch::new())) && is_closed(db.sync()) && is_closed(db.verify()));
    assert!(is_closed(db.backup("backup")) && is_closed(db.compact_range(..)));
    assert!(is_closed(db.approximate_bytes(..)) && is_closed(db.regions()) && is_closed(db.keyspaces()));
    assert!(is_closed(db.keyspace("k")) && is_closed(db.drop_keyspace("k")));
    assert!(is_closed(db.range(..).next().unwrap()) && is_closed(range.next().unwrap()));
    assert!(is_closed(cursor.seek_to_first()) && is_closed(cursor.next()));
    assert!(is_closed(keyspace.get("a")) && is_closed(keyspace.put("a", "b")));
    assert!(is_closed(keyspace.set_metadata(b"m")));
    assert!(is_closed(snapshot.get("a")) && is_closed(snapshot.keyspace(&keyspace).get("a")));
    assert!(is_closed(db.close()));
    drop((db, keyspace, snapshot, range, cursor));
    assert_eq!(open(&vfs).get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_dropped_keyspace_is_gone_but_for_snapshots_from_before() {
    let db = open(&MemVfs::new());
    let keyspace = db.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    let snapshot = db.snapshot();
    db.drop_keyspace("k").unwrap();
    assert!(is_gone(keyspace.get("a")) && is_gone(keyspace.put("a", "b")) && is_gone(keyspace.delete("a")));
    assert!(is_gone(keyspace.delete_range(..)) && is_gone(keyspace.update("a", |_| None)));
    assert!(is_gone(keyspace.compact_range(..)) && is_gone(keyspace.approximate_bytes(..)));
    assert!(is_gone(keyspace.set_metadata(b"m")));
    let mut batch = WriteBatch::new();
    batch.put("b", "2").keyspace(&keyspace).put("a", "2");
    assert!(is_gone(db.write(batch)));
    assert_eq!(db.get("b").unwrap(), None);
    assert_eq!(snapshot.keyspace(&keyspace).get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(snapshot.keyspace(&keyspace).range(..).count(), 1);
    assert!(keyspace.range(..).next().is_some_and(is_gone) && is_gone(keyspace.cursor(..).seek_to_first()));
    assert!(is_gone(db.snapshot().keyspace(&keyspace).get("a")) && is_gone(keyspace.regions()));
    assert!(is_gone(db.drop_keyspace("k")) && is_gone(db.drop_keyspace("never was")));
    assert!(matches!(db.drop_keyspace("default"), Err(Error::InvalidArgument(_))));
    let again = db.keyspace("k").unwrap();
    assert_eq!(again.get("a").unwrap(), None);
    assert!(is_gone(keyspace.get("a")), "the old handle stays gone");
}

#[test]
fn a_batch_with_a_keyspace_of_another_store_is_refused() {
    let (db, other) = (open(&MemVfs::new()), open(&MemVfs::new()));
    let foreign = other.keyspace("k").unwrap();
    let ours = db.keyspace("k").unwrap();
    let mut batch = WriteBatch::new();
    batch.keyspace(&ours).put("a", "1").keyspace(&foreign).put("a", "1");
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))));
    other.drop_keyspace("k").unwrap();
    let mut batch = WriteBatch::new();
    batch.keyspace(&ours).put("a", "1").keyspace(&foreign).put("a", "1");
    assert!(db.write(batch).is_err());
    assert_eq!(ours.get("a").unwrap(), None);
}
