//! Keys of about 64 KiB and up to 1 MiB, in all places of keys: in logs, in memory, in tables, at
//! the boundaries of chunks, in range deletes, transactions, snapshots, backups and repairs.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{
    ChunkOptions, Compression, Db, Durability, Error, KEY_BYTES_MAX, KeyspaceOptions, Options, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

const LENGTHS: [usize; 5] = [65_535, 65_536, 65_537, KEY_BYTES_MAX - 1, KEY_BYTES_MAX];
/// Number of keys of each length.
const EACH: u8 = 5;

/// Keys with a long common prefix, which differ at their ends.
fn key(length: usize, number: u8) -> Vec<u8> {
    let mut key = vec![b'k'; length];
    key[length - 1] = number;
    key
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    LENGTHS.into_iter().flat_map(|length| (0..EACH).map(move |number| key(length, number)))
}

fn options(vfs: &MemVfs, munks: bool, durability: Durability) -> Options {
    let keyspace = KeyspaceOptions::new()
        .layout(ChunkOptions::new().munks(munks).chunk_bytes(1 << 20))
        .compression(Compression::Lz4);
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(64 << 20)
        .background_threads(1)
        .durability(durability)
        .default_keyspace(keyspace)
}

fn fill(db: &Db, pairs: &mut Pairs, round: u8) {
    for (number, key) in keys().enumerate() {
        let value = vec![round; 10 + number];
        db.put(&key, &value).unwrap();
        pairs.insert(key, value);
    }
}

fn check(db: &Db, pairs: &Pairs, context: &str) {
    for (key, value) in pairs {
        let found = db.get(key).unwrap();
        assert!(found.as_deref() == Some(value), "{context}: a key of {} bytes", key.len());
    }
    assert_eq!(db.get(key(65_534, 0)).unwrap(), None, "{context}");
    let is_right = |pair: (cantle::Key, cantle::Value), (key, value): (&Vec<u8>, &Vec<u8>)| {
        pair.0[..] == key[..] && pair.1[..] == value[..]
    };
    let forward: Vec<_> = db.range(..).map(Result::unwrap).collect();
    assert_eq!(forward.len(), pairs.len(), "{context}");
    assert!(forward.into_iter().zip(pairs).all(|(pair, known)| is_right(pair, known)), "{context}");
    let back: Vec<_> = db.range(..).rev().map(Result::unwrap).collect();
    assert!(back.into_iter().zip(pairs.iter().rev()).all(|(pair, known)| is_right(pair, known)), "{context}");
    // From the middle, with a bound that is not an existing key.
    let middle = key(65_536, 2);
    let bounds = (Bound::Excluded(middle.clone()), Bound::Included(key(KEY_BYTES_MAX, 9)));
    let expected = pairs.range((Bound::Excluded(middle), Bound::Unbounded)).count();
    assert_eq!(db.range(bounds).map(Result::unwrap).count(), expected, "{context}");
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "{context}: {report:?}");
}

#[test]
fn keys_up_to_1_mib_are_kept_in_every_form() {
    for munks in [false, true] {
        let vfs = MemVfs::new();
        let mut pairs = Pairs::new();
        let db = options(&vfs, munks, Durability::Process).open("/store").unwrap();
        for round in 0..3 {
            fill(&db, &mut pairs, round);
            check(&db, &pairs, "a log");
        }
        db.compact_range(..).unwrap();
        check(&db, &pairs, "tables");
        assert!(db.regions().unwrap().len() > 3, "{:?}", db.regions());
        // Over tables that were split, so that these keys are among the boundaries.
        fill(&db, &mut pairs, 7);
        check(&db, &pairs, "logs over tables");
        let snapshot = db.snapshot();
        let before = pairs.clone();
        let (from, to) = (key(65_536, 1), key(65_537, 3));
        db.delete_range(&from[..]..&to[..]).unwrap();
        pairs.retain(|key, _| *key < from || *key >= to);
        check(&db, &pairs, "a range was deleted");
        for (key, value) in &before {
            assert!(snapshot.get(key).unwrap().as_deref() == Some(value), "a snapshot");
        }
        drop(snapshot);
        db.backup("/backup").unwrap();
        check(&options(&vfs, munks, Durability::Process).open("/backup").unwrap(), &pairs, "a backup");
        let killed = vfs.kill();
        db.close().unwrap();
        drop(db);
        check(
            &options(&vfs, munks, Durability::Process).open("/store").unwrap(),
            &pairs,
            "closed and opened",
        );
        let db = options(&killed, munks, Durability::Process).open("/store").unwrap();
        check(&db, &pairs, "killed and opened");
        db.compact_range(..).unwrap();
        check(&db, &pairs, "sorted after a kill");
        db.close().unwrap();
        drop(db);
        Db::repair("/store", "/saved", options(&killed, munks, Durability::Process)).unwrap();
        check(&options(&killed, munks, Durability::Process).open("/saved").unwrap(), &pairs, "repaired");
    }
}

#[test]
fn batches_and_transactions_of_long_keys_survive_a_loss_of_power() {
    let vfs = MemVfs::new();
    let mut pairs = Pairs::new();
    let db = options(&vfs, true, Durability::Sync).open("/store").unwrap();
    let mut batch = WriteBatch::new();
    for key in keys() {
        batch.put(&key, "batch");
        pairs.insert(key, b"batch".to_vec());
    }
    db.write(batch).unwrap();
    let transaction = db.transaction();
    for key in keys().step_by(2) {
        assert_eq!(transaction.get(&key).unwrap().as_deref(), Some(&b"batch"[..]));
        transaction.put(&key, "transaction").unwrap();
        pairs.insert(key, b"transaction".to_vec());
    }
    transaction.commit().unwrap();
    let late = db.transaction();
    late.get(key(KEY_BYTES_MAX, 1)).unwrap();
    db.put(key(KEY_BYTES_MAX, 1), "newer").unwrap();
    pairs.insert(key(KEY_BYTES_MAX, 1), b"newer".to_vec());
    late.put("x", "y").unwrap();
    let conflict = late.commit().unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    assert!(conflict.to_string().len() < 1000, "messages show the beginning of a key only");
    check(&db, &pairs, "written");
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    check(&options(&crashed, true, Durability::Sync).open("/store").unwrap(), &pairs, "the power failed");
}

#[test]
fn longer_keys_are_refused() {
    let vfs = MemVfs::new();
    let db = options(&vfs, true, Durability::Process).open("/store").unwrap();
    let refused = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains("1048576") && error.to_string().len() < 200, "{error}");
    };
    let long = key(KEY_BYTES_MAX + 1, 0);
    refused(db.put(&long, ""));
    refused(db.delete(&long));
    let mut batch = WriteBatch::new();
    batch.put("small", "").put(&long, "");
    refused(db.write(batch));
    assert_eq!(db.get(&long).unwrap(), None);
    assert_eq!(db.range(..).count(), 0);
}
