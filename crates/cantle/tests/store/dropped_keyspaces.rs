//! Calls that run during the drop of a keyspace end, and report it.

use crate::of_layouts::{in_guards, small};
use cantle::vfs::{MemVfs, Vfs};
use cantle::{Comparator, Db, Error, Keyspace, Options};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// An order that fails after this many comparisons, so that an endless loop fails.
struct Counting(AtomicU64);

const COMPARISONS_MAX: u64 = 100_000_000;

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
        if self.0.fetch_add(1, SeqCst) < COMPARISONS_MAX {
            Ok(a.cmp(b))
        } else {
            Err("it was asked too often".into())
        }
    }
}

/// More calls than any thread makes before the keyspace is gone.
const CALLS_MAX: u64 = 10_000_000;

type Call = fn(&Db, &Keyspace) -> Result<(), Error>;

const CALLS: [(&str, Call); 7] = [
    ("compact", |_, keyspace| keyspace.compact_range(..)),
    ("compact a part", |_, keyspace| keyspace.compact_range("001000".."002500")),
    ("verify", |db, keyspace| {
        let report = db.verify()?;
        assert!(report.is_ok(), "{:?}", report.damage);
        keyspace.get("").map(|_| ())
    }),
    ("approximate bytes", |_, keyspace| {
        keyspace.approximate_bytes("0005".."0025").map(|bytes| assert!(bytes < 1 << 30))
    }),
    ("a range", |_, keyspace| keyspace.range("001500"..).take(400).try_for_each(|pair| pair.map(|_| ()))),
    ("a range backwards", |_, keyspace| {
        keyspace.range(..).rev().take(400).try_for_each(|pair| pair.map(|_| ()))
    }),
    ("put", |_, keyspace| keyspace.put("001234", [3; 300])),
];

#[test]
fn whatever_runs_beside_the_end_of_a_keyspace_ends() {
    let disk = MemVfs::new();
    let counting = || Arc::new(Counting(AtomicU64::new(0)));
    // The last keyspace may not be removed yet when the store is closed.
    let open = || Options::new().comparator(counting()).vfs(Arc::new(disk.clone())).open("store").unwrap();
    let db = open();
    for round in 0..8 {
        let options = small().comparator(counting());
        let keyspace = db.keyspace_with("dropped", options).unwrap();
        for number in 0..3000 {
            keyspace.put(format!("{number:06}"), [round; 300]).unwrap();
        }
        let begun = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (what, call) in CALLS {
                let (db, keyspace, begun) = (&db, &keyspace, &begun);
                scope.spawn(move || {
                    for number in 0..CALLS_MAX {
                        begun.fetch_add(u64::from(number == 0), SeqCst);
                        match call(db, keyspace) {
                            Ok(()) => {}
                            Err(Error::NoKeyspace(_)) => return,
                            Err(error) => panic!("{what}: {error}"),
                        }
                    }
                    panic!("{what}: the keyspace is never gone");
                });
            }
            while begun.load(SeqCst) < CALLS.len() as u64 {
                std::thread::yield_now();
            }
            db.drop_keyspace("dropped").unwrap();
        });
        assert_eq!(db.stats().read_only, None);
    }
    db.put("key", "value").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(open().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn nobody_asks_for_the_order_of_a_keyspace_that_is_gone() {
    let disk = MemVfs::new();
    let counting = || Arc::new(Counting(AtomicU64::new(0)));
    let open = |disk: &MemVfs| Options::new().vfs(Arc::new(disk.clone())).open("store");
    let ordered = || Options::new().comparator(counting()).vfs(Arc::new(disk.clone())).open("store").unwrap();
    let db = ordered();
    let options = || small().comparator(counting());
    let keyspace = db.keyspace_with("dropped", options()).unwrap();
    for number in 0..3000 {
        keyspace.put(format!("{number:06}"), [7; 300]).unwrap();
    }
    keyspace.delete_range("000100".."002000").unwrap();
    db.put("key", "value").unwrap();
    db.sync().unwrap();
    drop(keyspace);
    // The keyspace still exists, so its order must be given.
    let refused = open(&disk.kill());
    assert!(matches!(refused, Err(Error::OptionMismatch { .. })), "{:?}", refused.err());
    db.drop_keyspace("dropped").unwrap();
    let killed = disk.kill();
    db.close().unwrap();
    drop(db);
    for disk in [killed, disk] {
        let read_only = Options::new().vfs(Arc::new(disk.clone())).read_only(true).open("store").unwrap();
        assert_eq!(read_only.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        drop(read_only);
        for _ in 0..2 {
            let db = open(&disk).unwrap();
            assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
            assert_eq!(db.keyspaces().unwrap(), ["default"]);
            db.put("key", "value").unwrap();
            db.sync().unwrap();
            let report = db.verify().unwrap();
            assert!(report.is_ok(), "{:?}", report.damage);
            db.close().unwrap();
        }
        // Its files were removed with it.
        let names = disk.list(std::path::Path::new("store")).unwrap();
        let files = names.iter().filter(|name| name.ends_with(".log") || name.ends_with(".table")).count();
        assert!(files <= 4, "{names:?}");
    }
}

#[test]
fn keyspaces_of_guards_end_in_the_same_way() {
    in_guards(&[
        whatever_runs_beside_the_end_of_a_keyspace_ends,
        nobody_asks_for_the_order_of_a_keyspace_that_is_gone,
    ]);
}
