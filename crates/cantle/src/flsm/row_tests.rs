//! The row cache beside generations, logs and guards.

use super::hashed_tests::CaseInsensitive;
use super::tests::{key, open, open_with, value};
use crate::layout::options::FlsmOptions;
use crate::sync::Arc;
use crate::vfs::MemVfs;
use crate::{Db, KeyspaceOptions, WriteBatch};

/// Gets that rows served, and runs that gets asked.
fn served(db: &Db) -> (u64, u64) {
    let stats = db.own().layout.stats();
    (stats.gets_served.row, stats.get_runs)
}

fn get(db: &Db, number: u64) -> Option<Vec<u8>> {
    db.get(key(number)).unwrap().map(|value| value.to_vec())
}

#[test]
fn a_pair_that_was_read_is_served_without_files_until_it_is_deleted() {
    let db = open(&MemVfs::new());
    (0..2000).for_each(|number| db.put(key(number), value(number, 50)).unwrap());
    db.compact_range(..).unwrap();
    let before = db.snapshot();
    assert_eq!(get(&db, 7), Some(value(7, 50)));
    let (rows, runs) = served(&db);
    assert_eq!(get(&db, 7), Some(value(7, 50)));
    assert_eq!(db.get_with(key(7), |value| value.len()).unwrap(), Some(50));
    assert_eq!(served(&db), (rows + 2, runs));

    // A put replaces the row, longer or shorter.
    for (round, bytes) in [(1, 50), (2, 700), (3, 3)] {
        db.put(key(7), value(round, bytes)).unwrap();
        assert_eq!(get(&db, 7), Some(value(round, bytes)));
    }
    assert_eq!(served(&db), (rows + 5, runs));
    assert_eq!(before.get(key(7)).unwrap().as_deref(), Some(&value(7, 50)[..]), "a snapshot reads files");

    db.delete(key(7)).unwrap();
    assert_eq!(get(&db, 7), None);
    db.put(key(7), value(4, 50)).unwrap();
    assert_eq!([get(&db, 7), get(&db, 7)], [Some(value(4, 50)), Some(value(4, 50))]);
    let mut batch = WriteBatch::new();
    batch.put(key(7), value(5, 50)).delete_range(key(0)..key(9)).put(key(8), value(6, 50));
    db.write(batch).unwrap();
    assert_eq!([get(&db, 7), get(&db, 8)], [None, Some(value(6, 50))]);
    db.compact_range(..).unwrap();
    assert_eq!([get(&db, 7), get(&db, 8)], [None, Some(value(6, 50))]);
}

#[test]
fn rows_can_be_switched_off_and_on_while_they_are_written() {
    let disk = MemVfs::new();
    let options = || KeyspaceOptions::new().layout(FlsmOptions::new());
    let db = open_with(&disk, options());
    let set = |on| drop(db.keyspace_with("k", options().row_cache(on)).unwrap());
    set(false);
    let keyspace = db.keyspace("k").unwrap();
    let rows = || db.stats().keyspaces.iter().find(|stats| stats.name == "k").unwrap().gets_served.row;
    let get = || keyspace.get("key").unwrap().map(|value| value.to_vec());
    keyspace.put("key", "1").unwrap();
    assert_eq!([get(), get()], [Some(b"1".to_vec()), Some(b"1".to_vec())]);
    assert_eq!(rows(), 0);
    set(true);
    assert_eq!([get(), get()], [Some(b"1".to_vec()), Some(b"1".to_vec())]);
    assert_eq!(rows(), 1);
    set(false);
    keyspace.put("key", "2").unwrap();
    assert_eq!(get(), Some(b"2".to_vec()));
    set(true);
    assert_eq!(get(), Some(b"2".to_vec()));
}

/// Under a comparator that takes keys of other bytes for equal, a row would be found by the bytes of one of them
/// only, and kept when another is written.
#[test]
fn keys_that_are_equal_without_the_same_bytes_have_no_rows() {
    let keyspace = KeyspaceOptions::new().layout(FlsmOptions::new());
    let options = keyspace.comparator(Arc::new(CaseInsensitive));
    let db = open_with(&MemVfs::new(), options);
    db.put("key", "1").unwrap();
    assert_eq!(db.get("KEY").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get("KEY").unwrap().as_deref(), Some(&b"1"[..]));
    db.put("Key", "2").unwrap();
    assert_eq!(db.get("KEY").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(served(&db).0, 0);
}
