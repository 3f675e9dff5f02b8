//! The list of a log's newest operations with threads that insert into it and read it. A test crate
//! that includes this file supplies `crate::sync` and `crate::memtable`, the library's own.

use crate::memtable::{Entry, Item, SkipList};
use crate::mvcc::CommitCell;
use crate::record_ptr::RecordPtr;
use crate::sync::thread::spawn;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use std::sync::Arc;

/// With this seed the first node of a list has one link, the next two have two, and the fourth has
/// one.
const SEED: u64 = 93;

fn list() -> Arc<SkipList> {
    Arc::new(SkipList::new(KeyOrder::Bytewise, SEED, crate::sync::Arc::default()))
}

fn item(key: &[u8], version: u64) -> Item<'_> {
    Item {
        key,
        version,
        kind: Kind::Put,
        place: RecordPtr { offset: version * 100, len: 9 },
        cell: None,
        value: Some(key),
    }
}

fn insert(list: &SkipList, item: Item<'_>) {
    list.insert(item).unwrap_or_else(|full| panic!("{full}"));
}

/// Checks that an entry has all that was inserted with it.
fn check(entry: Entry<'_>) -> (&[u8], u64) {
    assert_eq!(entry.value(), Some(entry.key()), "an entry has another's value");
    assert_eq!(entry.place().offset, entry.version() * 100, "an entry has another's place");
    (entry.key(), entry.version())
}

fn all(list: &SkipList) -> Vec<(&[u8], u64)> {
    std::iter::successors(list.first(), Entry::next).map(check).collect()
}

/// A thread inserts the first keys, another the second ones, and a third searches all of them and
/// iterates.
///
/// Holds: entries found are complete; iterations are in order, and a later one has every entry of
/// an earlier one; a thread finds its own inserts; in the end all entries are there, in both
/// directions.
pub fn inserts_and_reads(first: &'static [&'static [u8]], second: &'static [&'static [u8]]) {
    let list = list();
    insert(&list, item(b"m", 1));
    let writers: Vec<_> = [(first, 10), (second, 20)]
        .map(|(keys, version)| {
            let list = list.clone();
            spawn(move || {
                for (key, version) in keys.iter().zip(version..) {
                    insert(&list, item(key, version));
                    let found = list.seek(key, version).map(check);
                    assert_eq!(found, Some((*key, version)), "an insert is lost");
                }
            })
        })
        .into();
    let found: Vec<_> = first.iter().chain(second).map(|key| list.seek(key, u64::MAX)).collect();
    found.into_iter().flatten().for_each(|entry| {
        check(entry);
    });
    let walked = all(&list);
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap_or_else(|_| panic!("a thread of the model failed")));
    let in_the_end = all(&list);
    assert!(walked.iter().all(|entry| in_the_end.contains(entry)), "an insert is lost");
    assert_eq!(in_the_end.len(), 1 + first.len() + second.len(), "an insert is lost");
    assert!(
        in_the_end.is_sorted_by_key(|(key, version)| (*key, std::cmp::Reverse(*version))),
        "out of order"
    );
    let mut back: Vec<_> = std::iter::successors(list.last(), Entry::prev).map(check).collect();
    back.reverse();
    assert_eq!(back, in_the_end, "a level lacks what another has");
}

/// A batch of two puts with a concurrent reader.
///
/// Holds: a reader that sees one of them sees the other.
pub fn a_batch_and_reads() {
    let list = list();
    let writer = {
        let list = list.clone();
        spawn(move || {
            let cell = CommitCell::new();
            for key in [b"b", b"a"] {
                insert(&list, Item { cell: Some(cell.clone()), ..item(key, 5) });
            }
            cell.commit();
        })
    };
    let is_seen =
        |key| list.seek(key, u64::MAX).filter(|entry| check(*entry).0 == key && entry.is_visible()).is_some();
    if is_seen(b"b") {
        assert!(is_seen(b"a"), "half a batch shows");
    }
    writer.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
    assert!(is_seen(b"a") && is_seen(b"b"));
}

/// One thread moves recorded operations to the list, while another inserts and a third reads.
///
/// Holds: as above.
pub fn settling_beside_an_insert() {
    let list = list();
    for (key, version) in [(b"c", 3), (b"a", 2)] {
        list.note(item(key, version)).unwrap_or_else(|full| panic!("{full}"));
    }
    let settling = {
        let list = list.clone();
        spawn(move || list.merge_deferred())
    };
    let inserting = {
        let list = list.clone();
        spawn(move || insert(&list, item(b"b", 9)))
    };
    let walked = all(&list);
    assert!(walked.is_sorted(), "out of order");
    for thread in [settling, inserting] {
        thread.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
    }
    assert_eq!(all(&list), [(&b"a"[..], 2), (b"b", 9), (b"c", 3)], "an insert is lost");
}
