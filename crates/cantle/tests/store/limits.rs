//! The limits of a store: everything that a write accepts can be read, and a refused write has no
//! effect.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{BATCH_OP_BYTES, Db, Durability, Error, Options, WriteBatch};
use std::sync::Arc;

/// Limit of a batch, in bytes.
const LIMIT: usize = 10_000;

fn options(vfs: &MemVfs, durability: Durability) -> Options {
    Options::new().vfs(Arc::new(vfs.clone())).durability(durability).batch_bytes_max(LIMIT)
}

/// A batch of two operations of this size in bytes, over two keyspaces.
fn batch_of(db: &Db, bytes: usize, value: u8) -> WriteBatch {
    let other = db.keyspace("other").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("a", vec![value; 100]);
    batch.keyspace(&other).put("b", vec![value; bytes - 2 * BATCH_OP_BYTES - 100 - 2]);
    batch
}

fn is_refused(result: Result<(), Error>) -> bool {
    matches!(result, Err(Error::InvalidArgument(text)) if text.contains("10000"))
}

#[test]
fn a_batch_over_the_limit_is_refused_before_anything_happens() {
    for durability in [Durability::Buffered, Durability::Process, Durability::Sync] {
        let vfs = MemVfs::new();
        let db = options(&vfs, durability).open("/store").unwrap();
        db.write(batch_of(&db, LIMIT, 1)).unwrap();
        assert!(is_refused(db.write(batch_of(&db, LIMIT + 1, 2))));
        // The operations of a transaction count together, too.
        let transaction = db.transaction();
        transaction.put("a", vec![3; LIMIT / 2]).unwrap();
        transaction.put("c", vec![3; LIMIT / 2]).unwrap();
        assert!(is_refused(transaction.commit()));
        // Only one of several operations on a key counts.
        let mut batch = WriteBatch::new();
        for _ in 0..10 {
            batch.put("d", vec![4; LIMIT / 2]);
        }
        db.write(batch).unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&[1; 100][..]));
        assert_eq!(db.get("c").unwrap(), None);
        drop(db);
        let db = options(&vfs.kill(), durability).open("/store").unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
}

#[test]
fn a_range_delete_counts_with_its_bounds() {
    let vfs = MemVfs::new();
    let db = options(&vfs, Durability::Sync).open("/store").unwrap();
    let mut batch = WriteBatch::new();
    batch.delete_range(vec![1; LIMIT / 2]..vec![2; LIMIT / 2]);
    assert!(is_refused(db.write(batch)));
    let long = vec![1; cantle::KEY_BYTES_MAX + 2];
    assert!(
        matches!(db.delete_range(long..), Err(Error::InvalidArgument(_))),
        "no key is as long as this bound"
    );
    db.delete_range(vec![1; cantle::KEY_BYTES_MAX]..=vec![2; cantle::KEY_BYTES_MAX]).unwrap();
}

/// In a `Sync` store the journal has a batch in one record.
#[test]
fn a_batch_at_the_limit_survives_a_loss_of_power() {
    let vfs = MemVfs::new();
    let db = options(&vfs, Durability::Sync).open("/store").unwrap();
    let _ = db.keyspace("other").unwrap();
    db.sync().unwrap();
    db.write(batch_of(&db, LIMIT, 7)).unwrap();
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    let db = options(&crashed, Durability::Sync).open("/store").unwrap();
    let other = db.keyspace("other").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&[7; 100][..]));
    assert_eq!(other.get("b").unwrap().unwrap().len(), LIMIT - 2 * BATCH_OP_BYTES - 102);
}
