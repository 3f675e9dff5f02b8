//! The reads of a transaction that has written, and its range deletes.

use crate::of_layouts::small;
use crate::transactions::{assert_conflict, has_dropped, keys, settle, store, text};
use cantle::Transaction;

#[test]
pub fn a_transaction_reads_its_own_writes() {
    let db = store();
    let other = db.keyspace_with("other", small()).unwrap();
    let tx = db.transaction();
    tx.put("b0001", "1").unwrap();
    tx.delete("b000x").unwrap();
    tx.put("b002x", "2").unwrap();
    tx.keyspace(&other).put("b", "elsewhere").unwrap();
    let seen = ["b0001", "b002x", "b004x"];
    assert_eq!(keys(tx.range("b".."b006")), seen);
    assert_eq!(keys(tx.range("b".."b006").rev()), ["b004x", "b002x", "b0001"]);
    assert_eq!(text(tx.get("b002x").unwrap()).as_deref(), Some("2"));
    assert_eq!(tx.get("b000x").unwrap(), None);
    assert_eq!(text(tx.keyspace(&other).get("b").unwrap()).as_deref(), Some("elsewhere"));
    assert_eq!(tx.get_with("b0001", <[u8]>::len).unwrap(), Some(1));
    assert!(tx.keyspace(&other).contains_key("b").unwrap() && !tx.contains_key("b000x").unwrap());
    // A range sees the writes before it; the transaction may continue to write.
    for pair in tx.range("b".."b006") {
        tx.delete(pair.unwrap().0).unwrap();
    }
    assert_eq!(tx.range("b".."b006").count(), 0);
    assert_eq!(db.range("b".."b006").count(), 3, "nobody else sees them");
    tx.put("b0001", "1").unwrap();
    tx.commit().unwrap();
    assert_eq!(keys(db.range("b".."b006")), ["b0001"]);
    assert_eq!(text(other.get("b").unwrap()).as_deref(), Some("elsewhere"));
}

#[test]
pub fn what_a_transaction_deletes_by_range_is_gone_for_it_and_for_others_once_it_is_committed() {
    let db = store();
    let other = db.keyspace_with("other", small()).unwrap();
    for key in ["a", "b", "c"] {
        other.put(key, "there").unwrap();
    }
    let begin = || {
        let tx = db.transaction();
        tx.put("c050", "before").unwrap();
        tx.put("e1", "outside").unwrap();
        tx.delete_range("b010".."b020").unwrap();
        tx.delete_range("b02".."e").unwrap();
        tx.delete_range("z".."a").unwrap();
        tx.put("c060", "after").unwrap();
        tx.delete("c070x").unwrap();
        tx.keyspace(&other).delete_range(..="b").unwrap();
        tx
    };
    let tx = begin();
    for key in ["b010x", "b020x", "c050", "d048x", "c070x"] {
        assert_eq!(tx.get(key).unwrap(), None, "{key}");
    }
    assert_eq!(text(tx.get("c060").unwrap()).as_deref(), Some("after"));
    assert!(tx.contains_key("b008x").unwrap() && tx.contains_key("e000x").unwrap());
    let seen = ["b006x", "b008x", "c060", "e000x", "e002x"];
    assert_eq!(keys(tx.range("b005".."e003")), seen);
    let backward: Vec<_> = seen.into_iter().rev().collect();
    assert_eq!(keys(tx.range("b005".."e003").rev()), backward);
    assert_eq!(keys(tx.prefix("c")), ["c060"]);
    assert_eq!(keys(tx.keyspace(&other).range(..)), ["c"]);
    let mut cursor = tx.cursor(..);
    assert!(cursor.seek("b015").unwrap());
    assert_eq!(cursor.key(), Some(&b"c060"[..]));
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(&b"b008x"[..]));
    assert!(cursor.next().unwrap() && cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"e000x"[..]));
    drop(cursor);
    assert_eq!(db.range("b005".."e003").count(), 149, "nobody else sees it");
    tx.rollback();
    let snapshot = db.snapshot();
    let tx = begin();
    assert_eq!(tx.get("c055").unwrap(), None, "which is no look-up of what others wrote");
    // Pairs that others put there in the meantime are deleted as well.
    db.put("c055", "meanwhile").unwrap();
    other.put("aa", "meanwhile").unwrap();
    tx.commit().unwrap();
    assert!(has_dropped(&db), "no chunk was dropped whole");
    for compacted in [false, true] {
        if compacted {
            settle(&db);
        }
        assert_eq!(keys(db.range("b005".."e003")), seen);
        assert_eq!(keys(other.range(..)), ["c"]);
        assert_eq!(text(db.get("e1").unwrap()).as_deref(), Some("outside"));
        assert_eq!(snapshot.range("b005".."e003").count(), 149);
    }
}

#[test]
pub fn a_range_delete_reads_nothing_and_others_reads_conflict_with_it() {
    type Read = fn(&Transaction);
    let reads: [(&str, Read); 4] = [
        ("a key", |tx| assert!(tx.contains_key("c050x").unwrap())),
        ("an absent key", |tx| assert!(!tx.contains_key("c051").unwrap())),
        ("a range", |tx| assert_eq!(tx.range("c05".."c06").count(), 5)),
        ("a range backwards", |tx| assert_eq!(tx.range("c05".."d00").rev().take(3).count(), 3)),
    ];
    // A part of a chunk, whole chunks, and each of these with a put into it.
    for (from, to, put) in
        [("c05", "c09x", false), ("b", "e", false), ("c05", "c09x", true), ("b", "e", true)]
    {
        for (name, read) in reads {
            let db = store();
            let reader = db.transaction();
            read(&reader);
            reader.put("f050", "").unwrap();
            let blind = db.transaction();
            blind.put("c0501", "").unwrap();
            let tx = db.transaction();
            tx.delete_range(from..to).unwrap();
            if put {
                tx.put("c0502", "").unwrap();
            }
            // Serialised before the other, though it began later: neither has read a write of the
            // other.
            blind.commit().unwrap();
            tx.commit().unwrap();
            assert_eq!(keys(db.range("c05".."c052")), if put { vec!["c0502"] } else { vec![] });
            assert_conflict(reader.commit());
            assert_eq!(db.get("f050").unwrap(), None, "{name} from {from}");
        }
    }
}

#[test]
pub fn write_skew_by_range_deletes_is_prevented() {
    let db = store();
    // Each empties a range that the other has found to be full.
    let (one, two) = (db.transaction(), db.transaction());
    assert_eq!((one.prefix("b").count(), two.prefix("d").count()), (50, 50));
    one.delete_range("d".."e").unwrap();
    two.delete_range("b".."c").unwrap();
    one.commit().unwrap();
    assert_conflict(two.commit());
    assert_eq!((db.prefix("b").count(), db.prefix("d").count()), (50, 0));
    // A look-up after the delete is one of the transaction's own write.
    let tx = db.transaction();
    tx.delete_range("b".."c").unwrap();
    assert!(!tx.contains_key("b050x").unwrap());
    db.put("b050x", "meanwhile").unwrap();
    tx.commit().unwrap();
    assert_eq!(db.prefix("b").count(), 0);
    // A range delete of an empty range has no effect.
    let tx = db.transaction();
    assert!(tx.contains_key("a000x").unwrap());
    tx.delete_range("d".."c").unwrap();
    db.put("a000x", "").unwrap();
    tx.commit().unwrap();
}
