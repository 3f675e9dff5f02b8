//! The kernel fails to write back data of a log whose handle is closed, and forgets the failure
//! with the inode. No sync may report the lost data as durable.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs, WriteBackVfs};
use cantle::{Db, Durability, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const STORE: &str = "/store";

fn open(vfs: Arc<dyn Vfs>, durability: Durability) -> Db {
    let options = Options::new().vfs(vfs).durability(durability).memory_budget(16 << 20);
    options.checkpoint_interval(Duration::from_secs(3600)).open(STORE).unwrap()
}

fn logs(vfs: &WriteBackVfs) -> Vec<PathBuf> {
    let names = vfs.list(Path::new(STORE)).unwrap();
    names.into_iter().filter(|name| name.ends_with(".log")).map(|name| Path::new(STORE).join(name)).collect()
}

#[test]
fn what_an_evicted_inode_forgot_is_not_taken_for_durable() {
    for durability in [Durability::Process, Durability::Buffered] {
        for remembers in [true, false] {
            let memory = MemVfs::new();
            let kernel = WriteBackVfs::new(memory.clone());
            let vfs = FaultVfs::new(Arc::new(kernel.clone()));
            let is_out_of_files = Arc::new(AtomicBool::new(false));
            let switch = is_out_of_files.clone();
            vfs.set_rule(move |call| match call.operation {
                Operation::Create if switch.swap(false, SeqCst) => Verdict::Fail(Failure::EMFILE),
                Operation::Remember if !remembers => {
                    Verdict::Fail(Failure::Kind(std::io::ErrorKind::OutOfMemory))
                }
                _ => Verdict::Pass,
            });
            let db = open(Arc::new(vfs), durability);
            let other = db.keyspace("other").unwrap();
            // The first append goes to the log, or to memory if the store is buffered: then the log
            // only has a header.
            db.put("key", [7; 100]).unwrap();
            let written = logs(&kernel);
            assert_eq!(written.len(), 1);
            // Closes every handle.
            is_out_of_files.store(true, SeqCst);
            other.put("key", "value").unwrap();
            assert!(!is_out_of_files.load(SeqCst), "no file was created");
            kernel.fail_write_back(&written[0]).unwrap();
            let _ = kernel.evict(&written[0]).unwrap();
            let synced = db.sync();
            let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
            drop((db, other));
            if synced.is_ok() {
                let found = open(Arc::new(lost), durability).get("key");
                assert!(
                    matches!(&found, Ok(Some(value)) if **value == [7; 100]),
                    "{durability:?}, {remembers}: a sync succeeded, and then the power failed: {found:?}"
                );
            }
            // If the kernel does not remember it, no call failed here.
            assert!(!remembers || synced.is_err(), "{durability:?}: the failure was not reported");
        }
    }
}

/// No inode can be kept. `syncs`: logs can be synced.
fn forget_inodes(vfs: &FaultVfs, syncs: bool) {
    vfs.set_rule(move |call| {
        let is_log = call.path.extension().is_some_and(|extension| extension == "log");
        match call.operation {
            Operation::Remember => Verdict::Fail(Failure::EIO),
            Operation::SyncData if is_log && !syncs => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        }
    });
}

/// Data that no structure remembers are synced by the write itself. If that fails, the state of the
/// log on disk is unknown.
#[test]
fn a_write_whose_own_sync_fails_makes_the_store_read_only() {
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let db = Options::new().write_buffer(false).vfs(Arc::new(vfs.clone())).open("store").unwrap();
    db.put("a", "1").unwrap();
    // From here on the store remembers nothing unsynced of the log.
    db.sync().unwrap();
    forget_inodes(&vfs, false);
    db.put("b", "2").unwrap_err();
    vfs.clear_rule();
    assert!(db.stats().read_only.is_some());
    assert!(db.put("c", "3").is_err() && db.get("b").unwrap().is_none());
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// The same if a log is written out because somebody checks it.
#[test]
fn a_check_whose_write_of_a_log_fails_to_be_synced_makes_the_store_read_only() {
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let db = open(Arc::new(vfs.clone()), Durability::Process);
    forget_inodes(&vfs, true);
    db.put("a", "1").unwrap();
    // Waits in the write buffer.
    db.put("b", "2").unwrap();
    forget_inodes(&vfs, false);
    let report = db.verify().unwrap();
    vfs.clear_rule();
    assert!(!report.is_ok());
    assert!(db.stats().read_only.is_some(), "{report:?}");
}

/// The system gives no reason for a failed sync of an open file with which its data were safe.
#[test]
fn a_sync_that_fails_for_an_odd_reason_makes_the_store_read_only() {
    for failure in [Failure::EMFILE, Failure::Kind(std::io::ErrorKind::PermissionDenied)] {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        let db = open(Arc::new(vfs.clone()), Durability::Process);
        db.put("a", "1").unwrap();
        vfs.set_rule(move |call| match call.operation {
            Operation::SyncData => Verdict::Fail(failure),
            _ => Verdict::Pass,
        });
        db.sync().unwrap_err();
        vfs.clear_rule();
        assert!(db.stats().read_only.is_some(), "{failure:?}");
    }
}
