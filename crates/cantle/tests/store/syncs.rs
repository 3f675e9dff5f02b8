//! Number of writes and syncs of a durable write, counted in the file system.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Db, Durability, Error, Options, WriteBatch, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

const DURABILITIES: [Durability; 3] = [Durability::Buffered, Durability::Process, Durability::Sync];

/// A store in memory that only makes checkpoints on demand.
fn open(vfs: &FaultVfs, durability: Durability) -> Db {
    let options = Options::new().vfs(Arc::new(vfs.clone())).durability(durability).memory_budget(16 << 20);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap()
}

fn put_durably(db: &Db, number: u64) {
    let mut batch = WriteBatch::new();
    batch.put(number.to_be_bytes(), [7; 100]);
    db.write_with(batch, WriteOptions::new().durability(Durability::Sync)).unwrap();
}

/// Number of writes and syncs of files during `act`.
fn cost(vfs: &FaultVfs, act: impl FnOnce()) -> (u64, u64) {
    let counts = || (vfs.count(Operation::WriteAt), vfs.count(Operation::SyncData));
    let before = counts();
    act();
    let after = counts();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn one_durable_put_takes_one_write_and_one_sync() {
    for durability in DURABILITIES {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        let db = open(&vfs, durability);
        // Creates the files that it writes to.
        (0..2).for_each(|number| put_durably(&db, number));
        for number in 2..40 {
            let cost = cost(&vfs, || put_durably(&db, number));
            assert_eq!(cost, (1, 1), "{durability:?}, put {number}");
        }
        assert_eq!(db.stats().checkpoints, 0, "{durability:?}");
        // After a checkpoint, neither the journal nor the next put starts a new file.
        db.sync().unwrap();
        let (_, syncs) = cost(&vfs, || put_durably(&db, 40));
        assert_eq!(syncs, 1, "{durability:?}, after a checkpoint");
        drop(db);
        let db = open(&vfs, durability);
        assert_eq!(db.range(..).count(), 41, "{durability:?}");
    }
}

#[test]
fn a_durable_put_beside_dirty_logs_takes_a_sync_for_each_and_one_more() {
    const LOGS: u64 = 5;
    for durability in [Durability::Buffered, Durability::Process] {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        let db = open(&vfs, durability);
        let keyspaces: Vec<_> = (1..LOGS).map(|n| db.keyspace(&n.to_string()).unwrap()).collect();
        put_durably(&db, 0);
        for round in 1..5u64 {
            keyspaces.iter().for_each(|keyspace| keyspace.put(round.to_be_bytes(), [7; 100]).unwrap());
            // Its log is the fifth.
            let (_, syncs) = cost(&vfs, || put_durably(&db, round));
            assert!(syncs <= LOGS + 1, "{durability:?}: {syncs} syncs for {LOGS} logs");
            assert!(syncs >= LOGS, "{durability:?}: {syncs} syncs cannot make {LOGS} logs durable");
            // No other log is dirty now.
            let (_, syncs) = cost(&vfs, || put_durably(&db, round + 100));
            assert_eq!(syncs, 1, "{durability:?}");
        }
    }
}

/// Any state after a loss of power is a prefix of the writes, with all that were acknowledged as
/// durable.
#[test]
fn durable_puts_among_others_leave_a_prefix() {
    use cantle::vfs::CrashPlan;
    for durability in [Durability::Buffered, Durability::Process] {
        for pattern in 0..64u64 {
            let memory = MemVfs::new();
            let vfs = FaultVfs::over_memory(memory.clone());
            let db = open(&vfs, durability);
            let mut durable = 0;
            for number in 0..6 {
                if pattern >> number & 1 == 1 {
                    put_durably(&db, number);
                    durable = number + 1;
                } else {
                    db.put(number.to_be_bytes(), [7; 100]).unwrap();
                }
            }
            let crashed = FaultVfs::over_memory(memory.crash(&CrashPlan::LOSE_UNSYNCED));
            drop(db);
            let db = open(&crashed, durability);
            let keys: Vec<_> = db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect();
            let prefix: Vec<_> = (0..keys.len() as u64).map(|number| number.to_be_bytes().to_vec()).collect();
            assert_eq!(keys, prefix, "{durability:?}, {pattern:b}: no prefix");
            assert!(keys.len() as u64 >= durable, "{durability:?}, {pattern:b}: {} of {durable}", keys.len());
        }
    }
}

/// A program that takes the error for "nothing was written" would repeat the write.
#[test]
fn a_write_whose_checkpoint_fails_took_place_and_the_error_says_so() {
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let db = open(&vfs, Durability::Process);
    let other = db.keyspace("other").unwrap();
    // Creates the files that it writes to.
    db.put("zero", "0").unwrap();
    other.put("key", "value").unwrap();
    vfs.set_rule(|call| {
        let is_checkpoint =
            call.operation == Operation::WriteAt && call.path.to_string_lossy().contains("MANIFEST-");
        if is_checkpoint { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
    });
    // The other log is dirty, so that a sync of one is not enough.
    let mut batch = WriteBatch::new();
    batch.put("one", "1");
    let error = db.write_with(batch, WriteOptions::new().durability(Durability::Sync)).unwrap_err();
    assert!(
        matches!(&error, Error::NotDurable { source, .. } if matches!(**source, Error::Io { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("took place") && error.to_string().contains("MANIFEST"), "{error}");
    assert_eq!(db.get("one").unwrap().as_deref(), Some(&b"1"[..]));
    other.put("key", "dirty again").unwrap();
    let tx = db.transaction();
    tx.put("two", "2").unwrap();
    let error = tx.commit_with(WriteOptions::new().durability(Durability::Sync)).unwrap_err();
    assert!(matches!(error, Error::NotDurable { .. }), "{error}");
    assert_eq!(db.stats().transactions_committed, 1);
    vfs.clear_rule();
    db.sync().unwrap();
    assert_eq!(db.get("two").unwrap().as_deref(), Some(&b"2"[..]));
}
