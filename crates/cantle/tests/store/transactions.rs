//! Transactions one step at a time: each anomaly that a weaker isolation allows, as the sequence of
//! steps that shows it. The door `histories` of the fault lab tests many threads.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use crate::of_layouts::{in_guards, small};
use crate::own_writes::{
    a_range_delete_reads_nothing_and_others_reads_conflict_with_it, a_transaction_reads_its_own_writes,
    what_a_transaction_deletes_by_range_is_gone_for_it_and_for_others_once_it_is_committed,
    write_skew_by_range_deletes_is_prevented,
};
use cantle::{
    ChunkOptions, Comparator, Db, Durability, Error, Key, Keyspace, KeyspaceOptions, Options, Result,
    Transaction, Value, WriteBatch, WriteOptions,
    vfs::{CrashPlan, FaultVfs, MemVfs, Operation, Verdict},
};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

fn open_with(keyspace: KeyspaceOptions) -> Db {
    open_on(Arc::new(MemVfs::new()), keyspace)
}

fn open_on(vfs: Arc<dyn cantle::vfs::Vfs>, keyspace: KeyspaceOptions) -> Db {
    let options = Options::new().vfs(vfs).memory_budget(4 << 20);
    options.checkpoint_interval(Duration::from_secs(3600)).default_keyspace(keyspace).open("store").unwrap()
}

fn filler(n: u64) -> String {
    format!("{}{:03}x", (b'a' + (n / 50) as u8) as char, n % 50 * 2)
}

/// Bytes of a value of the store.
const VALUE_BYTES: usize = 950;

/// A store with 300 pairs from `a` to `f` in several chunks.
pub fn store() -> Db {
    store_on(Arc::new(MemVfs::new()))
}

fn store_on(vfs: Arc<dyn cantle::vfs::Vfs>) -> Db {
    let db = open_on(vfs, small());
    for n in 0..300 {
        db.put(filler(n), vec![7; VALUE_BYTES]).unwrap();
        // The bounds of chunks depend on what is there when they are split.
        if n % 20 == 19 {
            settle(&db);
        }
    }
    assert!(db.regions().unwrap().len() > 4, "the keys should lie in several chunks");
    db
}

/// Compacts until no work is left, with any concurrent background work.
pub fn settle(db: &Db) {
    let busy = |db: &Db| db.regions().unwrap().iter().any(|chunk| chunk.log_bytes > 0);
    while busy(db) {
        db.compact_range(..).unwrap();
    }
}

pub fn text(value: Option<Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

pub fn keys(range: impl Iterator<Item = Result<(Key, Value)>>) -> Vec<String> {
    range.map(|pair| String::from_utf8(pair.unwrap().0.to_vec()).unwrap()).collect()
}

/// The keyspace and the key on which a commit failed.
#[track_caller]
fn conflict(result: Result<()>) -> (String, String) {
    match result {
        Err(Error::Conflict { keyspace, keys: (Bound::Included(start), Bound::Included(end)), .. }) => {
            assert_eq!(start, end);
            (keyspace, String::from_utf8(start).unwrap())
        }
        other => panic!("expected a conflict on one key, not {other:?}"),
    }
}

#[track_caller]
pub fn assert_conflict(result: Result<()>) {
    assert!(result.as_ref().is_err_and(Error::is_conflict), "expected a conflict, not {result:?}");
}

type Write = fn(&Db);

/// Splits and merges of chunks so far; in guards, which are divided by merges, the merges.
fn changes(db: &Db) -> (u64, u64) {
    let stats = db.stats().keyspaces[0].clone();
    match (stats.chunk(), stats.flsm()) {
        (Some(chunk), _) => (chunk.splits, chunk.merges),
        (None, flsm) => flsm.map_or((0, 0), |flsm| (flsm.merges, flsm.merges)),
    }
}

/// True if range deletes have dropped chunks whole. Guards are not dropped.
pub fn has_dropped(db: &Db) -> bool {
    db.stats().keyspaces[0].chunk().is_none_or(|chunk| chunk.chunks_dropped > 0)
}

/// Changes of a chunk between a read and the commit that do not change any value.
fn upheavals() -> [(&'static str, Write); 5] {
    [
        ("nothing", |_| {}),
        ("a rebalance", settle),
        ("splits", |db| {
            let (before, _) = changes(db);
            for n in 0..400 {
                db.put(format!("{}{:03}y", ['a', 'b', 'c', 'd'][n % 4], n / 4), vec![1; 3000]).unwrap();
            }
            settle(db);
            assert!(changes(db).0 > before, "nothing was split");
        }),
        ("merges", |db| {
            let (_, before) = changes(db);
            for n in 0..300 {
                db.delete(filler(n)).unwrap();
            }
            for _ in 0..200 {
                db.compact_range(..).unwrap();
                if changes(db).1 > before {
                    return;
                }
            }
            panic!("nothing was merged");
        }),
        ("parts of logs indexed on disk", |db| {
            for n in 0..2000 {
                db.put(format!("b050z{n:04}"), vec![1; 100]).unwrap();
            }
        }),
    ]
}

#[test]
fn a_lost_update_is_prevented() {
    let db = store();
    db.put("b050", "0").unwrap();
    let (one, two) = (db.transaction(), db.transaction());
    assert_eq!(text(one.get("b050").unwrap()), text(two.get("b050").unwrap()));
    one.put("b050", "1").unwrap();
    two.put("b050", "2").unwrap();
    one.commit().unwrap();
    assert_eq!(conflict(two.commit()), ("default".into(), "b050".into()));
    assert_eq!(text(db.get("b050").unwrap()).as_deref(), Some("1"));
    let stats = db.stats();
    assert_eq!((stats.transactions_committed, stats.transaction_conflicts), (1, 1));
}

#[test]
fn write_skew_is_prevented_over_chunks_and_keyspaces() {
    let db = store();
    let other = db.keyspace_with("other", small()).unwrap();
    for in_one in [true, false] {
        let read = |tx: &Transaction| {
            drop(tx.get("a050").unwrap());
            drop(if in_one { tx.get("f050") } else { tx.keyspace(&other).get("f050") }.unwrap());
        };
        let (one, two) = (db.transaction(), db.transaction());
        read(&one);
        read(&two);
        one.put("a050", "off").unwrap();
        if in_one { two.put("f050", "off") } else { two.keyspace(&other).put("f050", "off") }.unwrap();
        two.commit().unwrap();
        let keyspace = if in_one { "default" } else { "other" };
        assert_eq!(conflict(one.commit()), (keyspace.into(), "f050".into()));
    }
}

#[test]
fn an_unfounded_total_is_prevented_though_only_a_reader_would_notice() {
    // Fekete, O'Neil and O'Neil, "A read-only transaction anomaly under snapshot isolation".
    let db = store();
    let (checking, savings) = ("a050", "f050");
    db.put(checking, "0").unwrap();
    db.put(savings, "0").unwrap();
    let withdraw = db.transaction();
    assert_eq!(text(withdraw.get(checking).unwrap()), text(withdraw.get(savings).unwrap()));
    let deposit = db.transaction();
    drop(deposit.get(savings).unwrap());
    deposit.put(savings, "20").unwrap();
    deposit.commit().unwrap();
    let report = db.transaction();
    assert_eq!(text(report.get(savings).unwrap()).as_deref(), Some("20"));
    assert_eq!(text(report.get(checking).unwrap()).as_deref(), Some("0"));
    report.commit().unwrap();
    // With the penalty for an overdraft, which the reader had not seen.
    withdraw.put(checking, "-11").unwrap();
    assert_eq!(conflict(withdraw.commit()).1, savings);
}

#[test]
fn phantoms_are_prevented() {
    let writes: [(&str, Write); 4] = [
        ("put", |db| db.put("c050", "new").unwrap()),
        ("delete", |db| db.delete(filler(125)).unwrap()),
        ("a part of a chunk deleted", |db| db.delete_range("c030".."c033").unwrap()),
        ("whole chunks deleted", |db| {
            db.delete_range("b".."e").unwrap();
            assert!(has_dropped(db));
        }),
    ];
    for (name, write) in writes {
        for backward in [false, true] {
            let db = store();
            let tx = db.transaction();
            let range = tx.range("c".."d");
            let count = if backward { range.rev().count() } else { range.count() };
            assert_eq!(count, 50);
            tx.put("f050", count.to_string()).unwrap();
            write(&db);
            assert!(tx.commit().is_err_and(|error| error.is_conflict()), "{name}");
            assert_eq!(db.get("f050").unwrap(), None);
        }
    }
}

#[test]
fn a_range_that_was_deleted_is_named() {
    // In one chunk: for a range over several, the conflict names the part in one of them.
    let db = Options::new().vfs(Arc::new(MemVfs::new())).open("store").unwrap();
    (0..300).for_each(|n| db.put(filler(n), "").unwrap());
    let tx = db.transaction();
    assert_eq!(tx.range("c".."d").count(), 50);
    tx.put("f050", "").unwrap();
    db.delete_range("c030"..="c040").unwrap();
    match tx.commit() {
        Err(error @ Error::Conflict { .. }) => {
            let shown = error.to_string();
            assert!(shown.contains("the range [\"c030\" to \"c040\"] in keyspace \"default\""), "{shown}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_of_a_chunk_that_was_dropped_conflicts() {
    for compacted in [false, true] {
        let db = store();
        let key = filler(130);
        let tx = db.transaction();
        assert!(tx.contains_key(&key).unwrap());
        tx.put("g", "").unwrap();
        db.delete_range(..).unwrap();
        assert!(has_dropped(&db));
        if compacted {
            settle(&db);
        }
        assert_eq!(conflict(tx.commit()).1, key, "compacted: {compacted}");
    }
}

#[test]
fn a_change_is_found_whatever_becomes_of_its_chunk() {
    let published =
        KeyspaceOptions::new().layout(ChunkOptions::as_published().chunk_bytes(64 << 10).log_bytes(64 << 10));
    for (keyspace, merges) in [(small(), true), (published, false)] {
        for (name, upheaval) in upheavals().into_iter().filter(|(name, _)| merges || *name != "merges") {
            let changes: [(&str, Write); 3] = [
                ("a put", |db| db.put("b050", "new").unwrap()),
                ("a delete", |db| db.delete("b050").unwrap()),
                ("a range delete", |db| db.delete_range("b050".."b051").unwrap()),
            ];
            for (change_name, change) in changes {
                let db = open_with(keyspace.clone());
                for n in 0..300 {
                    db.put(filler(n), vec![7; VALUE_BYTES]).unwrap();
                }
                db.put("b050", "old").unwrap();
                settle(&db);
                let key = db.transaction();
                drop(key.get("b050").unwrap());
                key.put("f051", "").unwrap();
                let range = db.transaction();
                assert_eq!(range.range("b050"..="b050").count(), 1);
                range.put("f052", "").unwrap();
                change(&db);
                upheaval(&db);
                assert_eq!(conflict(key.commit()).1, "b050", "{change_name}, then {name}");
                assert_conflict(range.commit());
            }
        }
    }
}

#[test]
fn upheavals_alone_are_no_conflict() {
    for (name, upheaval) in upheavals() {
        let db = store();
        db.put("e", "there").unwrap();
        let tx = db.transaction();
        drop((tx.get("e").unwrap(), tx.get("e!").unwrap()));
        assert_eq!(tx.range("e".."e0").count(), 1);
        tx.put("f050", "").unwrap();
        upheaval(&db);
        tx.commit().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn the_same_value_again_is_a_change_and_absence_again_may_go_unnoticed() {
    let db = store();
    db.put("b050", "same").unwrap();
    let tx = db.transaction();
    drop(tx.get("b050").unwrap());
    tx.put("f050", "").unwrap();
    db.put("b050", "other").unwrap();
    db.put("b050", "same").unwrap();
    settle(&db);
    assert_eq!(conflict(tx.commit()).1, "b050");

    // Absent, put, deleted: a conflict while the delete is there, which the background has no
    // reason to remove.
    while db.stats().maintenance_queued > 0 {
        std::thread::yield_now();
    }
    settle(&db);
    let begin = || {
        let tx = db.transaction();
        assert_eq!((tx.get("b051").unwrap(), tx.range("b051".."b052").count()), (None, 0));
        tx.put("f051", "").unwrap();
        tx
    };
    let (one, two) = (begin(), begin());
    db.put("b051", "there").unwrap();
    db.delete("b051").unwrap();
    assert_eq!(conflict(one.commit()).1, "b051");
    // The rebalance removes both, and the reads are still valid.
    settle(&db);
    two.commit().unwrap();

    // But existing pairs are never forgotten while the transaction is open.
    let tx = db.transaction();
    assert!(tx.get("b050").unwrap().is_some());
    tx.put("f052", "").unwrap();
    db.delete("b050").unwrap();
    db.compact_range(..).unwrap();
    settle(&db);
    assert_eq!(conflict(tx.commit()).1, "b050");
}

#[test]
fn a_range_is_read_as_far_as_it_was_consumed() {
    let db = store();
    let ten = |n: u64| (n..n + 10).map(filler).collect::<Vec<_>>();
    type Read = fn(&Transaction) -> Vec<String>;
    let forward: Read = |tx| keys(tx.range("b"..).take(10));
    let backward: Read = |tx| keys(tx.prefix("b").rev().take(10));
    let by_cursor: Read = |tx| {
        let mut cursor = tx.cursor("b"..);
        let mut found = cursor.seek("b").unwrap();
        let mut keys = Vec::new();
        while found && keys.len() < 10 {
            keys.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
            found = cursor.next().unwrap();
        }
        cursor.prev().unwrap();
        keys
    };
    let reversed: Vec<_> = ten(90).into_iter().rev().collect();
    // Keys inside and outside of the read range: the cursor took one step more.
    for (read, seen, within, without) in [
        (forward, ten(50), ["b", "b017x", "b018x"], ["ax", "b018y", "b098x"]),
        (backward, reversed, ["b080x", "b0981", "b099"], ["b", "b0791", "c"]),
        (by_cursor, ten(50), ["b", "b018x", "b020x"], ["ax", "b020y", "b098x"]),
    ] {
        for key in without {
            let tx = db.transaction();
            assert_eq!(read(&tx), seen);
            tx.put("f050", "").unwrap();
            let old = db.get(key).unwrap();
            db.put(key, "elsewhere").unwrap();
            tx.commit().unwrap();
            match old {
                Some(old) => db.put(key, old).unwrap(),
                None => db.delete(key).unwrap(),
            }
        }
        for key in within {
            let tx = db.transaction();
            assert_eq!(read(&tx), seen);
            tx.put("f050", "").unwrap();
            let old = db.get(key).unwrap();
            db.put(key, "in between").unwrap();
            assert_eq!(conflict(tx.commit()).1, key);
            match old {
                Some(old) => db.put(key, old).unwrap(),
                None => db.delete(key).unwrap(),
            }
        }
    }
    // A range that was never advanced has read nothing.
    let tx = db.transaction();
    let range = tx.range(..);
    tx.put("f050", "").unwrap();
    db.put("b", "").unwrap();
    drop(range);
    tx.commit().unwrap();
}

#[test]
fn both_ends_of_a_range_count() {
    let db = store();
    for (key, conflicts) in [("b000", true), ("b0031", false), ("b050", false), ("b0971", true)] {
        let tx = db.transaction();
        let mut range = tx.prefix("b");
        for _ in 0..2 {
            range.next().unwrap().unwrap();
            range.next_back().unwrap().unwrap();
        }
        tx.put("f050", "").unwrap();
        db.put(key, "").unwrap();
        db.delete(key).unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{key}");
    }
}

#[test]
fn what_is_rolled_back_or_dropped_leaves_no_trace() {
    let db = store();
    let before = db.stats().keyspaces[0].writes;
    let tx = db.transaction();
    tx.put("b", "1").unwrap();
    let mut range = tx.range("b"..);
    let mut cursor = tx.cursor("b"..);
    assert!(cursor.seek_to_first().unwrap());
    tx.rollback();
    // Reads would not be validated any more.
    assert!(matches!(range.next(), Some(Err(Error::InvalidArgument(_)))));
    assert!(matches!(cursor.next(), Err(Error::InvalidArgument(_))) && cursor.key().is_none());
    let tx = db.transaction();
    tx.put("b", "1").unwrap();
    drop(tx);
    assert_eq!(db.get("b").unwrap(), None);
    assert_eq!(db.stats().keyspaces[0].writes, before);
    drop((range, cursor));
    assert_eq!(db.stats().open_snapshots, 0);
}

#[test]
fn who_only_reads_or_only_writes_never_conflicts() {
    let db = store();
    let reader = db.transaction();
    drop(reader.get("b050").unwrap());
    assert_eq!(reader.range(..).count(), 300);
    let (one, two) = (db.transaction(), db.transaction());
    one.put("b050", "1").unwrap();
    two.put("b050", "2").unwrap();
    assert_eq!(text(two.get("b050").unwrap()).as_deref(), Some("2"));
    one.commit().unwrap();
    two.commit().unwrap();
    reader.commit().unwrap();
    assert_eq!(text(db.get("b050").unwrap()).as_deref(), Some("2"));
}

#[test]
fn every_other_kind_of_write_conflicts_too() {
    let db = store();
    let writes: [(&str, Write); 4] = [
        ("put", |db| db.put("b050", "").unwrap()),
        ("update", |db| drop(db.update("b050", |_| Some(vec![1])).unwrap())),
        ("batch", |db| {
            let mut batch = WriteBatch::new();
            batch.put("a", "").put("b050", "").delete("e");
            db.write(batch).unwrap();
        }),
        ("transact", |db| {
            db.transact(|tx| tx.delete("b050")).unwrap();
        }),
    ];
    for (name, write) in writes {
        let tx = db.transaction();
        drop(tx.get("b050").unwrap());
        tx.put("f050", "").unwrap();
        write(&db);
        assert!(tx.commit().is_err_and(|error| error.is_conflict()), "{name}");
    }
}

#[test]
fn transact_runs_again_after_a_conflict_and_gives_up_on_errors() {
    let db = store();
    db.put("b050", "0").unwrap();
    let mut runs = 0;
    let sum = db.transact(|tx| {
        let old: u32 = text(tx.get("b050")?).unwrap().parse().unwrap();
        runs += 1;
        if runs <= 3 {
            db.put("b050", (10 * runs).to_string())?;
        }
        tx.put("b050", (old + 1).to_string())?;
        Ok(old + 1)
    });
    assert_eq!((sum.unwrap(), runs), (31, 4));
    assert_eq!(text(db.get("b050").unwrap()).as_deref(), Some("31"));
    assert_eq!(db.stats().transaction_conflicts, 3);

    let failed: Result<()> = db.transact(|tx| {
        tx.put("b050", "never")?;
        Err(Error::InvalidArgument("changed my mind".into()))
    });
    assert!(matches!(failed, Err(Error::InvalidArgument(_))));
    assert_eq!(text(db.get("b050").unwrap()).as_deref(), Some("31"));
}

#[test]
fn arguments_and_keyspaces_are_checked() {
    let (db, stranger) = (store(), store());
    let foreign = stranger.keyspace_with("other", small()).unwrap();
    let tx = db.transaction();
    assert!(matches!(tx.put(vec![0; (1 << 20) + 1], ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.keyspace(&foreign).put("a", ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.keyspace(&foreign).get("a"), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.keyspace(&foreign).delete_range(..), Err(Error::InvalidArgument(_))));
    assert!(matches!(tx.keyspace(&foreign).range(..).next(), Some(Err(Error::InvalidArgument(_)))));
    tx.commit().unwrap();

    let other = db.keyspace_with("other", small()).unwrap();
    other.put("a", "").unwrap();
    let tx = db.transaction();
    assert!(tx.keyspace(&other).get("a").unwrap().is_some());
    tx.put("b", "").unwrap();
    db.drop_keyspace("other").unwrap();
    assert!(tx.keyspace(&other).get("a").unwrap().is_some(), "as of the beginning");
    assert!(matches!(tx.commit(), Err(Error::NoKeyspace(_))));
    assert_eq!(db.get("b").unwrap(), None);

    let tx = db.transaction();
    tx.put("b", "").unwrap();
    db.close().unwrap();
    assert!(matches!(tx.get("b0"), Err(Error::Closed)));
    assert!(matches!(tx.commit(), Err(Error::Closed)));
}

/// Capital and small letters are equal, and greater keys come first.
struct CaselessBackward;

impl Comparator for CaselessBackward {
    fn name(&self) -> &str {
        "caseless backward"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.to_ascii_lowercase().cmp(&a.to_ascii_lowercase())
    }
    fn equal_is_identical(&self) -> bool {
        false
    }
}

#[test]
fn a_comparator_decides_what_is_equal_and_what_lies_between() {
    let db = open_with(small());
    let space: Keyspace =
        db.keyspace_with("backward", small().comparator(Arc::new(CaselessBackward))).unwrap();
    for key in ["a", "C", "e"] {
        space.put(key, key).unwrap();
    }
    let begin = || {
        let tx = db.transaction();
        tx.keyspace(&space).put("B", "mine").unwrap();
        tx.keyspace(&space).put("b", "mine").unwrap();
        tx.keyspace(&space).delete("E").unwrap();
        tx
    };
    let tx = begin();
    assert_eq!(keys(tx.keyspace(&space).range(..)), ["C", "b", "a"]);
    assert_eq!(keys(tx.keyspace(&space).range("C".."A").rev()), ["b", "C"]);
    assert_eq!(keys(tx.keyspace(&space).prefix("C")), ["C"]);
    tx.commit().unwrap();
    let tx = begin();
    assert!(tx.keyspace(&space).get("c").unwrap().is_some());
    space.put("C", "").unwrap();
    assert_conflict(tx.commit());
    let tx = begin();
    assert_eq!(keys(tx.keyspace(&space).range("d".."b")), ["C"]);
    space.put("BB", "").unwrap();
    assert_eq!(conflict(tx.commit()).1, "BB");
}

#[test]
fn a_commit_may_ask_for_more_durability() {
    let vfs = MemVfs::new();
    let open = |vfs: MemVfs| {
        let options = Options::new().vfs(Arc::new(vfs)).memory_budget(4 << 20);
        options.durability(Durability::Process).checkpoint_interval(Duration::from_secs(3600)).open("store")
    };
    let db = open(vfs.clone()).unwrap();
    for (key, before) in [("a", None), ("b", Some("c"))] {
        // With writes of the key before it, too.
        before.into_iter().for_each(|before| db.put(before, "1").unwrap());
        let tx = db.transaction();
        tx.put(key, "1").unwrap();
        tx.commit_with(WriteOptions::new().durability(Durability::Sync)).unwrap();
        let lost = open(vfs.crash(&CrashPlan::LOSE_UNSYNCED)).unwrap();
        for key in [Some(key), before].into_iter().flatten() {
            assert_eq!(lost.get(key).unwrap().as_deref(), Some(&b"1"[..]), "{key}");
        }
    }
}

#[test]
fn an_open_transaction_hinders_nobody_and_keeps_what_it_sees() {
    let db = store();
    let tx = db.transaction();
    let before: Vec<_> = keys(tx.range(..));
    db.delete_range(..).unwrap();
    for n in 0..50 {
        db.put(filler(n), "new").unwrap();
    }
    db.compact_range(..).unwrap();
    assert_eq!(keys(tx.range(..)), before);
    assert_eq!(tx.get(filler(0)).unwrap().unwrap().len(), VALUE_BYTES);
    tx.commit().unwrap();
}

/// A write to a key that a transaction has read cannot happen between its validation and its
/// commit. The commit is stopped in its append, after the validation.
#[test]
fn what_was_read_is_held_until_the_commit_is_over() {
    type Read = fn(&Transaction);
    let reads: [(&str, Read); 2] = [
        ("a key", |tx| drop(tx.get("a050").unwrap())),
        ("a range", |tx| assert_eq!(tx.range("a04".."a06").count(), 10)),
    ];
    for (name, read) in reads {
        let fault = FaultVfs::over_memory(MemVfs::new());
        let db = store_on(Arc::new(fault.clone()));
        let (reached, at_append) = mpsc::channel();
        let (go_on, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        fault.set_rule(move |call| {
            // The only record of this length.
            if call.operation == Operation::WriteAt && call.len > 9_000 && call.len < 9_100 {
                reached.send(()).unwrap();
                gate.lock().unwrap().recv().unwrap();
            }
            Verdict::Pass
        });
        let (written, writes) = mpsc::channel();
        std::thread::scope(|scope| {
            let tx = db.transaction();
            read(&tx);
            tx.put("f050", vec![1; 9_000]).unwrap();
            scope.spawn(|| tx.commit().unwrap());
            at_append.recv().unwrap();
            for key in ["a050", "c050"] {
                let (db, written) = (&db, written.clone());
                scope.spawn(move || {
                    db.put(key, "later").unwrap();
                    written.send(key).unwrap();
                });
            }
            let first = writes.recv().unwrap();
            let second = writes.recv_timeout(Duration::from_millis(100));
            // Before anything is asserted, as the commit would wait for ever otherwise.
            go_on.send(()).unwrap();
            assert_eq!(first, "c050", "{name} was written to amid the commit");
            assert!(second.is_err(), "{name} was written to amid the commit");
            assert_eq!(writes.recv(), Ok("a050"));
        });
        fault.clear_rule();
    }
}

// Without the test that holds up the append of one write and goes on with another: the writes of a
// keyspace of guards share one log.
#[test]
fn transactions_over_guards_are_isolated_in_the_same_way() {
    in_guards(&[
        a_lost_update_is_prevented,
        write_skew_is_prevented_over_chunks_and_keyspaces,
        an_unfounded_total_is_prevented_though_only_a_reader_would_notice,
        phantoms_are_prevented,
        a_range_that_was_deleted_is_named,
        a_key_of_a_chunk_that_was_dropped_conflicts,
        a_change_is_found_whatever_becomes_of_its_chunk,
        upheavals_alone_are_no_conflict,
        the_same_value_again_is_a_change_and_absence_again_may_go_unnoticed,
        a_range_is_read_as_far_as_it_was_consumed,
        both_ends_of_a_range_count,
        a_transaction_reads_its_own_writes,
        what_a_transaction_deletes_by_range_is_gone_for_it_and_for_others_once_it_is_committed,
        a_range_delete_reads_nothing_and_others_reads_conflict_with_it,
        write_skew_by_range_deletes_is_prevented,
        what_is_rolled_back_or_dropped_leaves_no_trace,
        who_only_reads_or_only_writes_never_conflicts,
        every_other_kind_of_write_conflicts_too,
        transact_runs_again_after_a_conflict_and_gives_up_on_errors,
        arguments_and_keyspaces_are_checked,
        a_comparator_decides_what_is_equal_and_what_lies_between,
        a_commit_may_ask_for_more_durability,
        an_open_transaction_hinders_nobody_and_keeps_what_it_sees,
    ]);
}
