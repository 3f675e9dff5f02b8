//! Writes that depend on what is there, and the ends of a keyspace.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use crate::of_layouts::{in_guards, small};
use cantle::{
    ChunkOptions, Db, Durability, Error, KeyspaceOptions, Options, Result, Transaction, WriteBatch,
};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn open(dir: &tempfile::TempDir) -> Db {
    let options = Options::new().memory_budget(16 << 20).default_keyspace(small());
    options.open(dir.path().join("store")).unwrap()
}

fn pair(key: &str, value: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    Some((key.as_bytes().to_vec(), value.as_bytes().to_vec()))
}

fn owned(pair: Option<(cantle::Key, cantle::Value)>) -> Option<(Vec<u8>, Vec<u8>)> {
    pair.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

#[test]
fn eight_threads_empty_a_queue_and_each_value_comes_out_once() {
    empty_a_queue(100_000);
}

fn empty_a_queue(items: usize) {
    const MIDDLE: usize = 1 << 32;
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let queue = db.keyspace_with("queue", small()).unwrap();
    for item in 0..items / 2 {
        queue.put((MIDDLE + item).to_be_bytes(), format!("value {item}")).unwrap();
    }
    let (added, popped) = (AtomicUsize::new(items / 2), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (queue, added, popped) = (&queue, &added, &popped);
            scope.spawn(move || {
                let mut own = Vec::new();
                loop {
                    // The other half comes in meanwhile, at the end and at the beginning.
                    let item = added.fetch_add(1, Relaxed);
                    if item < items {
                        let key = if item.is_multiple_of(7) { MIDDLE - item } else { MIDDLE + item };
                        queue.put(key.to_be_bytes(), format!("value {item}")).unwrap();
                    }
                    let pair = if thread == 7 { queue.pop_last() } else { queue.pop_first() };
                    match pair.unwrap() {
                        Some((_, value)) => own.push(value.to_vec()),
                        None if added.load(Relaxed) >= items + 8 => break,
                        None => {}
                    }
                }
                popped.lock().unwrap().extend(own);
            });
        }
    });
    let popped = popped.into_inner().unwrap();
    let distinct: HashSet<_> = popped.iter().collect();
    assert_eq!((popped.len(), distinct.len()), (items, items));
    assert_eq!(queue.first().unwrap(), None);
    assert_eq!(queue.pop_first().unwrap(), None);
}

#[test]
fn pairs_come_from_both_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    assert_eq!((db.first().unwrap(), db.last().unwrap(), db.pop_last().unwrap()), (None, None, None));
    for key in ["b", "a", "d", "c"] {
        db.put(key, key.to_uppercase()).unwrap();
    }
    let before = db.snapshot();
    assert_eq!(owned(db.pop_first().unwrap()), pair("a", "A"));
    assert_eq!(owned(db.pop_last().unwrap()), pair("d", "D"));
    assert_eq!(owned(db.first().unwrap()), pair("b", "B"));
    assert_eq!(owned(db.last().unwrap()), pair("c", "C"));
    assert_eq!(
        (owned(before.first().unwrap()), owned(before.last().unwrap())),
        (pair("a", "A"), pair("d", "D"))
    );
    drop((before, db));
    let db = open(&dir);
    assert_eq!(db.range(..).count(), 2, "popped for good");
    drop(db);
    let db = Options::new().read_only(true).open(dir.path().join("store")).unwrap();
    assert!(matches!(db.pop_first(), Err(Error::ReadOnly { .. })));
    assert_eq!(owned(db.first().unwrap()), pair("b", "B"));
}

#[test]
fn one_of_many_inserts_and_swaps_takes_place() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let chunks =
        db.keyspace_with("logs", KeyspaceOptions::new().layout(ChunkOptions::new().munks(false))).unwrap();
    let wins = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (db, chunks, wins) = (&db, &chunks, &wins);
            scope.spawn(move || {
                for key in 0..300u32 {
                    let (key, value) = (key.to_be_bytes(), format!("{thread}"));
                    let won = db.insert_if_absent(key, &value).unwrap();
                    wins.fetch_add(usize::from(won), Relaxed);
                    // A counter by swaps.
                    loop {
                        let old = chunks.get(key).unwrap();
                        let count = old.as_ref().map_or(0, |value| value[0]);
                        if chunks.compare_and_swap(key, old.as_deref(), Some([count + 1])).unwrap() {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(wins.load(Relaxed), 300);
    assert!(chunks.range(..).all(|pair| pair.unwrap().1 == [8]));
    assert!(!db.compare_and_swap("absent", Some("x"), Some("y")).unwrap());
    assert!(!db.compare_and_swap([0; 4], None::<&str>, Some("y")).unwrap());
    assert!(db.compare_and_swap("absent", None::<&str>, None::<&str>).unwrap());
    db.put("empty", "").unwrap();
    assert!(!db.insert_if_absent("empty", "x").unwrap(), "an empty value is a value");
    assert!(db.compare_and_swap("empty", Some(""), None::<&str>).unwrap());
    assert!(!db.contains_key("empty").unwrap());
    let long = vec![0; cantle::KEY_BYTES_MAX + 1];
    assert!(matches!(db.insert_if_absent(&long, ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.compare_and_swap(&long, Some(""), Some("")), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_transaction_pops_and_swaps_by_what_it_sees() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let other = db.keyspace("other").unwrap();
    db.put("a", "1").unwrap();
    let tx = db.transaction();
    let within = tx.keyspace(&other);
    assert!(within.insert_if_absent("k", "own").unwrap());
    assert!(!within.insert_if_absent("k", "again").unwrap());
    assert!(within.compare_and_swap("k", Some("own"), Some("new")).unwrap());
    tx.put("0", "first").unwrap();
    assert_eq!(owned(tx.pop_first().unwrap()), pair("0", "first"));
    assert_eq!(owned(tx.pop_first().unwrap()), pair("a", "1"));
    assert_eq!(tx.first().unwrap(), None);
    assert_eq!(owned(within.last().unwrap()), pair("k", "new"));
    assert!(other.get("k").unwrap().is_none() && db.contains_key("a").unwrap());
    tx.commit().unwrap();
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(db.first().unwrap(), None);

    // A pair before the popped one, and a value that was compared, conflict.
    db.put("b", "1").unwrap();
    let tx = db.transaction();
    assert_eq!(owned(tx.pop_first().unwrap()), pair("b", "1"));
    db.put("a", "nearer").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict());
    let tx = db.transaction();
    assert!(tx.compare_and_swap("b", Some("1"), Some("2")).unwrap());
    db.put("b", "else").unwrap();
    assert!(tx.commit().unwrap_err().is_conflict());
}

/// Both views of a transaction, and what they returned, are in use at once.
#[test]
fn views_share_a_transaction_and_do_not_lend_what_they_return() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let (a, b) = (db.keyspace("a").unwrap(), db.keyspace("b").unwrap());
    a.put("k", "1").unwrap();
    let tx = db.transaction();
    let (in_a, in_b) = (tx.keyspace(&a), tx.keyspace(&b));
    let range = in_a.range(..);
    in_b.put("k", in_a.get("k").unwrap().unwrap()).unwrap();
    in_a.delete("k").unwrap();
    assert_eq!(range.count(), 1, "as it was when the range was asked for");
    assert_eq!((in_a.range(..).count(), in_b.range(..).count()), (0, 1));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tx = &tx;
            scope.spawn(move || (0..100).for_each(|key| tx.put(format!("{thread}/{key}"), "x").unwrap()));
        }
    });
    tx.commit().unwrap();
    let snapshot = db.snapshot();
    let (range, cursor) = {
        let view = snapshot.keyspace(&b);
        (view.range(..), view.cursor(..))
    };
    drop(snapshot);
    assert_eq!((range.count(), db.range(..).count()), (1, 400));
    drop(cursor);
    let mut batch = WriteBatch::new();
    batch.put("k", "0").keyspace(&a).put("k", "a").delete("none").keyspace(&b).delete_range(..);
    assert_eq!(batch.len(), 4);
    db.write(batch).unwrap();
    assert_eq!((a.range(..).count(), b.range(..).count(), db.contains_key("k").unwrap()), (1, 0, true));
}

#[derive(Debug, PartialEq)]
enum Failed {
    Own,
    Store(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(error.to_string())
    }
}

#[test]
fn an_error_of_the_program_rolls_a_transaction_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let failed = db.try_transact(|tx| {
        tx.put("k", "v")?;
        Err::<(), _>(Failed::Own)
    });
    assert_eq!((failed, db.contains_key("k").unwrap()), (Err(Failed::Own), false));
    let long = db.try_transact(|tx| Ok::<_, Failed>(tx.put("k", vec![0; cantle::VALUE_BYTES_MAX + 1])?));
    assert!(matches!(long, Err(Failed::Store(text)) if text.contains("invalid argument")));
    db.try_transact(|tx| Ok::<_, Failed>(tx.put("k", "v")?)).unwrap();
    assert!(db.contains_key("k").unwrap());
}

/// Only a conflict of its own makes a transaction run again: an error of the closure does not, even if it is a conflict.
#[test]
fn the_state_of_a_transaction_decides_on_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let conflict = || -> Error {
        let tx = db.transaction();
        tx.get("x").unwrap();
        tx.put("y", "1").unwrap();
        db.put("x", "1").unwrap();
        tx.commit().unwrap_err()
    };
    let runs = AtomicUsize::new(0);
    let count = |tx: &Transaction| -> Result<()> {
        runs.fetch_add(1, Relaxed);
        tx.put("k", "v")?;
        Err(conflict())
    };
    assert!(db.transact(count).unwrap_err().is_conflict());
    assert_eq!((runs.load(Relaxed), db.contains_key("k").unwrap()), (1, false));
    // A run that met a conflict is repeated, though its closure was content.
    let runs = AtomicUsize::new(0);
    db.transact(|tx| {
        let seen = tx.get("n")?.map_or(0, |value| value[0]);
        if runs.fetch_add(1, Relaxed) == 0 {
            db.put("n", [41])?;
        }
        tx.put("n", [seen + 1])
    })
    .unwrap();
    assert_eq!((runs.load(Relaxed), db.get("n").unwrap().unwrap()[0]), (2, 42));
}

#[test]
fn a_keyspace_is_opened_or_created_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let tight = KeyspaceOptions::new().space_amplification(1.3);
    let made = db.create_keyspace("made", tight.clone()).unwrap();
    made.put("k", "v").unwrap();
    let error = db.create_keyspace("made", tight).unwrap_err();
    assert!(matches!(&error, Error::AlreadyExists { keyspace: Some(name), .. } if name == "made"));
    assert!(error.to_string().contains("keyspace \"made\" exists already in "), "{error}");
    assert!(matches!(
        db.create_keyspace("default", KeyspaceOptions::new()),
        Err(Error::AlreadyExists { .. })
    ));
    assert!(db.keyspace("made").unwrap().contains_key("k").unwrap());
    assert!(db.keyspace("").is_err() && db.keyspace(&"x".repeat(256)).is_err());
    db.drop_keyspace("made").unwrap();
    assert!(db.create_keyspace("made", KeyspaceOptions::new()).unwrap().first().unwrap().is_none());
    db.close().unwrap();
    let db = Options::new().read_only(true).open(dir.path().join("store")).unwrap();
    assert!(matches!(db.keyspace("none"), Err(Error::NoKeyspace(_))));
    assert!(db.keyspace("made").is_ok());
}

#[test]
fn the_number_of_pairs_is_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    assert_eq!(db.len_estimate().unwrap(), 0);
    // Regions are still whole here, and share no log.
    let near = |estimate: u64, exact: u64| estimate.abs_diff(exact) <= exact / 10;
    for key in 0..400u32 {
        db.put(key.to_be_bytes(), [7; 40]).unwrap();
    }
    assert!(near(db.len_estimate().unwrap(), 400), "{}", db.len_estimate().unwrap());
    for key in 400..5_000u32 {
        db.put(key.to_be_bytes(), [7; 40]).unwrap();
    }
    db.compact_range(..).unwrap();
    assert!(near(db.len_estimate().unwrap(), 5_000), "{}", db.len_estimate().unwrap());
    for key in (0..5_000u32).step_by(2) {
        db.delete(key.to_be_bytes()).unwrap();
    }
    db.compact_range(..).unwrap();
    assert!(near(db.len_estimate().unwrap(), 2_500), "{}", db.len_estimate().unwrap());
    db.close().unwrap();
    let db = Options::new().durability(Durability::Process).open(dir.path().join("store")).unwrap();
    assert!(near(db.len_estimate().unwrap(), 2_500), "{}", db.len_estimate().unwrap());
    db.close().unwrap();
    assert!(matches!(db.len_estimate(), Err(Error::Closed)));
}

#[test]
fn metadata_is_swapped_only_if_it_is_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let flights = db.keyspace("flights").unwrap();
    assert!(!flights.compare_and_swap_metadata(b"old", b"new").unwrap());
    assert_eq!(flights.metadata(), b"");
    assert!(flights.compare_and_swap_metadata(b"", b"new").unwrap());
    assert!(!flights.compare_and_swap_metadata(b"", b"newer").unwrap());
    let long = vec![0; cantle::METADATA_BYTES_MAX + 1];
    assert!(matches!(flights.compare_and_swap_metadata(b"new", &long), Err(Error::InvalidArgument(_))));
    assert_eq!(flights.metadata(), b"new");

    // Each thread appends its letters, and none is lost.
    std::thread::scope(|scope| {
        for letter in *b"abcd" {
            let flights = &flights;
            scope.spawn(move || {
                for _ in 0..5 {
                    loop {
                        let old = flights.metadata();
                        if flights.compare_and_swap_metadata(&old, &[&old[..], &[letter]].concat()).unwrap() {
                            break;
                        }
                    }
                }
            });
        }
    });
    let mut letters = flights.metadata();
    letters.sort_unstable();
    assert_eq!(letters, b"aaaaabbbbbcccccdddddenw");
    drop((flights, db));
    assert_eq!(open(&dir).keyspace("flights").unwrap().metadata().len(), letters.len());
}

#[test]
fn writes_on_condition_work_in_guards() {
    in_guards(&[
        // A pop walks over the deletes of earlier ones until a merge has removed them.
        || empty_a_queue(10_000),
        pairs_come_from_both_ends_in_order,
        one_of_many_inserts_and_swaps_takes_place,
        a_transaction_pops_and_swaps_by_what_it_sees,
        views_share_a_transaction_and_do_not_lend_what_they_return,
        an_error_of_the_program_rolls_a_transaction_back,
        the_state_of_a_transaction_decides_on_another_run,
        a_keyspace_is_opened_or_created_as_asked,
        the_number_of_pairs_is_estimated,
        metadata_is_swapped_only_if_it_is_what_was_expected,
    ]);
}
