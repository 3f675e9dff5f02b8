//! Several writers share syncs of the journal, and one of these syncs fails: every write that was
//! acknowledged as durable is found.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Durability, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const THREADS: usize = 4;

fn options(vfs: Arc<dyn cantle::vfs::Vfs>) -> Options {
    Options::new()
        .vfs(vfs)
        .memory_budget(4 << 20)
        .durability(Durability::Sync)
        .checkpoint_interval(Duration::from_millis(15))
}

/// Writers run until the store refuses. Returns for each the number of acknowledged writes, and the
/// number that are there after a loss of power that loses all unsynced data.
fn run(fails_at: u64, verdict: Verdict, any_file: bool) -> ([u64; THREADS], [u64; THREADS]) {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = options(Arc::new(fault.clone())).open("/store").unwrap();
    let syncs = AtomicU64::new(0);
    fault.set_rule(move |call| {
        let is_sync = call.operation == Operation::SyncData
            && (any_file || call.path.to_string_lossy().contains(".journal"));
        if is_sync && syncs.fetch_add(1, SeqCst) == fails_at { verdict } else { Verdict::Pass }
    });
    let acknowledged: [AtomicU64; THREADS] = Default::default();
    std::thread::scope(|scope| {
        for (thread, acknowledged) in acknowledged.iter().enumerate() {
            let db = &db;
            scope.spawn(move || {
                for n in 0..400u64 {
                    if db.put(format!("{thread}-{n:06}"), vec![7; 300]).is_err() {
                        return;
                    }
                    acknowledged.store(n + 1, SeqCst);
                }
            });
        }
    });
    fault.clear_rule();
    let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    let db = options(Arc::new(lost)).open("/store").unwrap();
    let there = std::array::from_fn(|thread| db.prefix(format!("{thread}-")).count() as u64);
    (acknowledged.map(|count| count.load(SeqCst)), there)
}

#[test]
fn what_was_acknowledged_before_beside_and_after_a_failed_sync_is_there() {
    for verdict in
        [Verdict::FailLost(Failure::EIO), Verdict::FailLost(Failure::ENOSPC), Verdict::Fail(Failure::EIO)]
    {
        for any_file in [false, true] {
            for fails_at in (0..120).step_by(3) {
                let (acknowledged, there) = run(fails_at, verdict, any_file);
                assert!(
                    acknowledged.iter().zip(&there).all(|(acknowledged, there)| there >= acknowledged),
                    "sync {fails_at} of {}: {verdict:?}: {there:?} are there, acknowledged were {acknowledged:?}",
                    if any_file { "any file" } else { "a journal" },
                );
            }
        }
    }
}
