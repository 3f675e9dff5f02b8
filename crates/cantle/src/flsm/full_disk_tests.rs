//! A full disk: puts fail, deletes do not, and what they free is used again, without being asked for.

use super::tests::{Model, all, key, scattered, value};
use crate::layout::options::FlsmOptions;
use crate::sync::Arc;
use crate::vfs::MemVfs;
use crate::{Db, KeyspaceOptions, Options};
use std::time::Duration;

fn open(disk: &MemVfs) -> Db {
    let layout = FlsmOptions::new().generation_bytes(256 << 10).guard_bytes(1 << 20);
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    let options = options.vfs(Arc::new(disk.clone())).background_threads(1);
    options.checkpoint_interval(Duration::from_millis(50)).open("store").unwrap()
}

/// Puts new pairs until the disk is full; returns their number.
fn fill(db: &Db, model: &mut Model, from: u64) -> u64 {
    for (count, number) in scattered(50_000).enumerate() {
        let (key, value) = (key(from + number), value(number, 1000));
        if let Err(error) = db.put(&key, &value) {
            assert!(error.is_no_space(), "{error}");
            return count as u64;
        }
        model.insert(key, value);
    }
    panic!("the disk is not full");
}

#[expect(clippy::disallowed_methods, reason = "maintenance of another thread is waited for")]
fn until_a_put_succeeds(db: &Db, model: &mut Model) {
    for _ in 0..3000 {
        match db.put("healed", "1") {
            Ok(()) => return drop(model.insert(b"healed".to_vec(), b"1".to_vec())),
            Err(error) => assert!(error.is_no_space(), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no space: {:?}", db.stats());
}

/// Deletes most pairs, by one range or one by one, when the disk is full. At least an eighth of
/// the pairs that it had find room again.
fn what_is_deleted_makes_room(is_range: bool) {
    let (disk, mut model) = (MemVfs::without_history(), Model::new());
    disk.set_capacity_bytes(Some(32 << 20));
    let db = open(&disk);
    let first = fill(&db, &mut model, 0);
    let upto = model.keys().nth(model.len() * 3 / 4).unwrap().clone();
    let is_doomed =
        |key: &[u8]| key < &upto[..] && (is_range || key.last().is_some_and(|digit| digit % 2 == 0));
    if is_range {
        db.delete_range(..&upto).unwrap();
    } else {
        model.keys().filter(|key| is_doomed(key)).for_each(|key| db.delete(key).unwrap());
    }
    model.retain(|key, _| !is_doomed(key));
    let (mut more, mut round) = (0, 0);
    while more < first / 8 {
        round += 1;
        until_a_put_succeeds(&db, &mut model);
        more += fill(&db, &mut model, 100_000 * round);
    }
    assert!(all(db.range(..)) == model);
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "{:?}", report.damage);
}

#[test]
fn what_a_range_delete_hides_makes_room_without_a_compaction() {
    what_is_deleted_makes_room(true);
}

#[test]
fn what_deletes_hide_makes_room_without_a_compaction() {
    what_is_deleted_makes_room(false);
}
