//! Single failing syncs; the door `failing-calls` lets every call fail.

use cantle::vfs::Operation::SyncData;
use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Durability, Error};
use cantle_faults::rng::Rng;
use cantle_faults::setup::Setup;
use cantle_faults::workload;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn a_failed_sync_of_a_checkpoint_makes_the_store_read_only_and_is_not_vouched_for() {
    for verdict in [Verdict::FailDone(Failure::EIO), Verdict::FailLost(Failure::ENOSPC)] {
        for skipped in 0..3 {
            let setup = Setup {
                checkpoint_interval: Duration::from_secs(3600),
                ..Setup::random(&mut Rng::new(1), Durability::Process)
            };
            let memory = MemVfs::new();
            let fault = FaultVfs::over_memory(memory.clone());
            let db = setup.open(Arc::new(fault.clone())).unwrap();
            db.put("durable", "1").unwrap();
            db.sync().unwrap();
            db.put("doubtful", "2").unwrap();
            let syncs = fault.count(Operation::SyncData);
            let operation = if skipped == 2 { Operation::SyncDir } else { Operation::SyncData };
            db.put_many_logs();
            // Not the syncs of tables, which are written in the background.
            let left = AtomicU64::new(if skipped == 2 { 0 } else { skipped });
            fault.set_rule(move |call| {
                let counts =
                    call.operation == operation && call.path.extension().is_none_or(|e| e != "table");
                let wrapped = counts.then(|| left.fetch_sub(1, SeqCst));
                if wrapped == Some(0) { verdict } else { Verdict::Pass }
            });
            let Err(error) = db.sync() else {
                // A checkpoint in the background may have left less to sync.
                assert!(skipped > 0, "a checkpoint syncs something");
                continue;
            };
            let after = fault.count(Operation::SyncData);
            let refused = db.put("key", "value").unwrap_err();
            assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
            assert!(matches!(db.sync(), Err(Error::ReadOnly { .. })));
            assert_eq!(db.get("doubtful").unwrap().as_deref(), Some(&b"2"[..]), "reads go on");
            let checkpoints = db.stats().checkpoints;
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(db.stats().checkpoints, checkpoints, "no sync is tried again");
            assert!(after > syncs || operation == Operation::SyncDir, "{error}");
            let db = setup.open(Arc::new(memory.kill())).unwrap();
            assert_eq!(db.get("durable").unwrap().as_deref(), Some(&b"1"[..]));
        }
    }
}

#[test]
fn a_failed_sync_of_a_new_table_makes_the_store_read_only_unless_only_space_was_missing() {
    for (verdict, grave) in [
        (Verdict::Fail(Failure::EIO), true),
        (Verdict::FailLost(Failure::EIO), true),
        (Verdict::FailLost(Failure::ENOSPC), false),
    ] {
        for durability in [Durability::Process, Durability::Sync, Durability::Buffered] {
            let setup = Setup {
                checkpoint_interval: Duration::from_secs(3600),
                log_bytes: 1 << 20,
                ..Setup::random(&mut Rng::new(1), durability)
            };
            let memory = MemVfs::new();
            let fault = FaultVfs::over_memory(memory.clone());
            let db = setup.open(Arc::new(fault.clone())).unwrap();
            for n in 0..40 {
                db.put(workload::key(n), vec![n as u8; 1000]).unwrap();
            }
            db.sync().unwrap();
            let left = AtomicU64::new(1);
            fault.set_rule(move |call| {
                let table = call.path.extension().is_some_and(|e| e == "table");
                let fails = table && call.operation == SyncData;
                let first = fails && left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                if first { verdict } else { Verdict::Pass }
            });
            let compacted = db.compact_range(..);
            let check = |db: &cantle::Db| {
                for n in 0..40 {
                    assert_eq!(db.get(workload::key(n)).unwrap().as_deref(), Some(&[n as u8; 1000][..]));
                }
            };
            check(&db);
            assert_eq!(db.stats().read_only.is_some(), grave, "{verdict:?}: {compacted:?}");
            if grave {
                assert!(compacted.is_err());
                assert!(db.stats().read_only.unwrap().contains(".table"));
                assert!(matches!(db.put("key", "value"), Err(Error::ReadOnly { .. })));
                assert!(
                    matches!(db.compact_range(..), Err(Error::ReadOnly { .. })),
                    "no sync is tried again"
                );
            } else {
                compacted.unwrap();
                db.put("key", "value").unwrap();
            }
            check(&setup.open(Arc::new(memory.kill())).unwrap());
            check(&setup.open(Arc::new(memory.crash(&CrashPlan::LOSE_UNSYNCED))).unwrap());
        }
    }
}

trait ManyLogs {
    fn put_many_logs(&self);
}

impl ManyLogs for cantle::Db {
    /// Makes the next checkpoint sync a name.
    fn put_many_logs(&self) {
        self.delete_range("zzz".."zzzz").unwrap();
        for n in 0..40u64 {
            self.put(workload::key(n), vec![7; 4000]).unwrap();
        }
    }
}
