//! A repair that does not complete.

use super::*;
use cantle::vfs::{Failure, FaultVfs, Operation, Verdict};

/// An incomplete repair must not look like everything that could be saved.
#[test]
fn what_an_interrupted_repair_leaves_is_no_store() {
    let vfs = MemVfs::new();
    let db = options(&vfs).open("store").unwrap();
    for n in 0..5000 {
        db.put(format!("{n:05}"), "x".repeat(100)).unwrap();
    }
    db.close().unwrap();
    drop(db);
    for nth in 0.. {
        let left = vfs.kill();
        let fault = FaultVfs::over_memory(left.clone());
        let calls = std::sync::atomic::AtomicU64::new(0);
        fault.set_rule(move |call| {
            let is_change = matches!(
                call.operation,
                Operation::WriteAt | Operation::SyncData | Operation::SyncDir | Operation::Remove
            );
            let is_of_target = call.path.starts_with("new") && is_change;
            let fails = is_of_target && calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == nth;
            if fails { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
        });
        let repaired = cantle::Db::repair("store", "new", options(&left).vfs(Arc::new(fault.clone())));
        if repaired.is_ok() {
            // Some calls may fail without harm; after the last call no call fails.
            assert_eq!(opened_at(&left, "new").unwrap(), opened(&left));
            if nth > 200 {
                return;
            }
            continue;
        }
        match opened_at(&left, "new") {
            // Complete, but perhaps not durable as a store.
            Ok(found) => {
                assert!(found == opened(&left), "call {nth} failed, and what there is looks like all")
            }
            Err(cantle::Error::NotAStore { what, .. }) => assert!(what.contains("repair again"), "{what}"),
            // The failure was before the repair began.
            Err(error) => assert!(matches!(error, cantle::Error::NotFound { .. }), "{error}"),
        }
    }
}

fn opened_at(vfs: &MemVfs, dir: &str) -> cantle::Result<Content> {
    Ok(content(&options(vfs).read_only(true).open(dir)?))
}
