//! The most basic operations.

use crate::of_layouts::{in_guards, small};
use cantle::{Db, Durability, Options};

fn key(n: u64) -> String {
    format!("key{:08}", n.wrapping_mul(2_654_435_761) % 100_000)
}

#[test]
fn what_is_put_is_read_back_after_reopening() {
    for durability in [Durability::Buffered, Durability::Process, Durability::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let options =
            || Options::new().durability(durability).memory_budget(16 << 20).default_keyspace(small());
        let count = if durability == Durability::Sync { 200 } else { 20_000 };
        {
            let db = options().open(&path).unwrap();
            for n in 0..count {
                db.put(key(n), format!("value{n}").repeat(8)).unwrap();
            }
            for n in 0..count {
                assert_eq!(
                    db.get(key(n)).unwrap().as_deref(),
                    Some(format!("value{n}").repeat(8).as_bytes()),
                    "{n}"
                );
            }
            let forward: Vec<_> = db.range(..).map(|pair| pair.unwrap().0).collect();
            assert_eq!(forward.len() as u64, count);
            assert!(forward.windows(2).all(|pair| pair[0] < pair[1]));
            let mut back: Vec<_> = db.range(..).rev().map(|pair| pair.unwrap().0).collect();
            back.reverse();
            assert_eq!(forward, back);
            db.close().unwrap();
        }
        let db = Db::open(&path).unwrap();
        for n in 0..count {
            assert_eq!(
                db.get(key(n)).unwrap().as_deref(),
                Some(format!("value{n}").repeat(8).as_bytes()),
                "{n}"
            );
        }
        db.delete_range(key(1)..).unwrap();
        assert!(db.range(key(1)..).next().is_none());
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{:?}", report.damage);
        println!("{:#?}", db.stats());
    }
}

#[test]
fn the_most_basic_operations_work_in_guards() {
    in_guards(&[what_is_put_is_read_back_after_reopening]);
}
