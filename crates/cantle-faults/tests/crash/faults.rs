//! Every call that changes something fails once, in every way; and pairs of failures.

use cantle::vfs::Operation::{Remove, SetLen, SyncData, SyncDir, WriteAt};
use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Durability, Error};
use cantle_faults::history::{Death, History, Marks, try_reopen};
use cantle_faults::rng::Rng;
use cantle_faults::setup::Setup;
use cantle_faults::visit::factor;
use cantle_faults::workload::{self, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const WAYS: [(&str, Verdict); 6] = [
    ("EIO", Verdict::Fail(Failure::EIO)),
    ("ENOSPC", Verdict::Fail(Failure::ENOSPC)),
    ("EMFILE", Verdict::Fail(Failure::EMFILE)),
    ("short write", Verdict::ShortWrite { bytes: 13, failure: Failure::ENOSPC }),
    ("done, yet EIO", Verdict::FailDone(Failure::EIO)),
    ("lost, and EIO", Verdict::FailLost(Failure::EIO)),
];

/// What fails first, what second: the next call of one of these kinds, or any call that changes something.
const PAIRS: [(&str, Verdict, &[Operation], Verdict); 8] = [
    ("ENOSPC, then EIO at a sync", NO_SPACE, &[SyncData, SyncDir], Verdict::Fail(Failure::EIO)),
    ("ENOSPC, then a sync that loses", NO_SPACE, &[SyncData, SyncDir], Verdict::FailLost(Failure::EIO)),
    ("short write, then no truncation", SHORT, &[SetLen], Verdict::Fail(Failure::EIO)),
    ("EIO, then no removal", Verdict::Fail(Failure::EIO), &[Remove], Verdict::Fail(Failure::EIO)),
    ("EIO twice", Verdict::Fail(Failure::EIO), &[], Verdict::Fail(Failure::EIO)),
    ("ENOSPC twice", NO_SPACE, &[], NO_SPACE),
    (
        "a sync that loses, then no writing",
        Verdict::FailLost(Failure::EIO),
        &[WriteAt],
        Verdict::Fail(Failure::EIO),
    ),
    ("done, yet EIO, then a short write", Verdict::FailDone(Failure::EIO), &[WriteAt], SHORT),
];
const NO_SPACE: Verdict = Verdict::Fail(Failure::ENOSPC);
const SHORT: Verdict = Verdict::ShortWrite { bytes: 13, failure: Failure::ENOSPC };

/// How calls fail.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    first: Verdict,
    then: Option<(&'static [Operation], Verdict)>,
}

fn workload(setup: &Setup) -> Vec<Op> {
    let mut rng = Rng::new(77 + setup.durability as u64);
    let state = workload::State::from([
        ("default".into(), Default::default()),
        ("second".into(), Default::default()),
    ]);
    let allowed = |op: &Op| !matches!(op, Op::Create(_) | Op::Drop(_) | Op::Backup);
    std::iter::repeat_with(|| workload::draw(&mut rng, &state, 3000)).filter(allowed).take(70).collect()
}

/// Runs the workload with the `n`th changing call failing; false once it ran through before.
fn run(setup: &Setup, ops: &[Op], n: u64, way: Way, states: &mut u64) -> bool {
    let Way { name, first: verdict, then } = way;
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let failed = Arc::new(std::sync::Mutex::new(String::new()));
    let noted = failed.clone();
    let second_failed = AtomicBool::new(false);
    fault.set_rule(move |call| {
        // The names above the store are lost for good then.
        let loses = |verdict| matches!(verdict, Verdict::FailLost(_));
        if (loses(verdict) || then.is_some_and(|(_, second)| loses(second)))
            && !call.path.starts_with(cantle_faults::setup::STORE)
        {
            return Verdict::Pass;
        }
        if !call.operation.changes() {
            return Verdict::Pass;
        }
        let number = counted.fetch_add(1, SeqCst);
        let verdict = match then {
            _ if number == n => Some(verdict),
            Some((operations, second)) if number > n => {
                let meant = operations.is_empty() || operations.contains(&call.operation);
                (meant && !second_failed.swap(true, SeqCst)).then_some(second)
            }
            _ => None,
        };
        if verdict.is_some() {
            *noted.lock().unwrap() +=
                &format!("{:?} {} at {}; ", call.operation, call.path.display(), call.offset);
        }
        verdict.unwrap_or(Verdict::Pass)
    });
    let context = || format!("call {n}: {}: {name}; {setup:?}", failed.lock().unwrap());
    let mut history = History::default();
    let mut marks = Marks { durable: 0, acknowledged: 0, begun: 0 };
    // Opening may fail; then it works the next time.
    let open = || setup.open(Arc::new(fault.clone()));
    let db = open().or_else(|_| open()).or_else(|_| open());
    let db = db.unwrap_or_else(|error| panic!("{}: {error}", context()));
    let created = workload::run(&db, &Op::Create("second"), &setup.keyspace(), 0);
    let created = created.or_else(|_| workload::run(&db, &Op::Create("second"), &setup.keyspace(), 0));
    let created = created.or_else(|_| workload::run(&db, &Op::Create("second"), &setup.keyspace(), 0));
    let mut read_only = db.stats().read_only.is_some();
    match created {
        Ok(()) => {
            history.push(&Op::Create("second"));
            let durable = if read_only { 0 } else { 1 };
            marks = Marks { durable, acknowledged: 1, begun: 1 };
        }
        Err(error) => {
            assert!(read_only, "{}: {error}", context());
            history.push(&Op::Create("second"));
            marks.begun = 1;
        }
    }
    for (serial, op) in ops.iter().enumerate() {
        if read_only {
            break;
        }
        match workload::run(&db, op, &setup.keyspace(), serial as u64) {
            Ok(()) => {
                history.push(op);
                marks.begun += 1;
                marks.acknowledged += 1;
                if workload::is_sync(op) {
                    marks.durable = marks.acknowledged;
                }
            }
            Err(error) => {
                assert!(!error.is_corruption(), "{}: {error}", context());
                read_only = db.stats().read_only.is_some();
                if read_only {
                    // It may be there after the next opening.
                    history.push(op);
                    marks.begun += 1;
                }
            }
        }
    }
    read_only |= db.stats().read_only.is_some();
    if read_only {
        let reason = db.stats().read_only.unwrap();
        assert!(reason.len() > 20, "{}: {reason}", context());
        let refused = db.put("key", "value").unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{}: {refused}", context());
    }
    // Reads go on; a failed write that left the store healthy is absent.
    if history.states.len() > 1 && (marks.acknowledged > 0 || !read_only) {
        let found =
            workload::contents(&db, &setup.keyspace()).unwrap_or_else(|e| panic!("{}: {e}", context()));
        if let Err(what) = history.check(
            &found,
            Marks { durable: marks.acknowledged, ..marks },
            Death::Process,
            setup.durability,
        ) {
            panic!("{}: while open: {what}", context());
        }
    }
    fault.clear_rule();
    // It may have happened in the background just now.
    let read_only = read_only || db.stats().read_only.is_some();
    // A failed sync leaves nothing to vouch for.
    let killed = if read_only { Death::Power } else { Death::Process };
    let images = [
        (memory.kill(), killed),
        (memory.crash(&CrashPlan::LOSE_UNSYNCED), Death::Power),
        (memory.crash(&CrashPlan::random(n)), Death::Power),
    ];
    drop(db);
    for (vfs, death) in images {
        let (db, _) = try_reopen(setup, Arc::new(vfs.clone()), &history, marks, death)
            .unwrap_or_else(|what| panic!("{}; read-only: {read_only}: {what}", context()));
        // Recovered from a page cache that deceives, it must be durable once it is said to be.
        db.put("after", "fault").and_then(|()| db.sync()).unwrap_or_else(|e| panic!("{}: {e}", context()));
        let lost = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        drop(db);
        let db = setup.open(Arc::new(lost)).unwrap_or_else(|e| panic!("{}: then power lost: {e}", context()));
        assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"fault"[..]), "{}", context());
        assert!(db.verify().unwrap().is_ok(), "{}", context());
        *states += 2;
    }
    count.load(SeqCst) > n
}

fn fail_each(durability: Durability) {
    let mut rng = Rng::new(9);
    let mut setup = Setup::random(&mut rng, durability);
    setup.checkpoint_interval = Duration::from_millis(20);
    setup.log_bytes = 8192;
    let ops = workload(&setup);
    let (mut runs, mut states) = (0, 0);
    for (way_index, (name, first)) in WAYS.into_iter().enumerate() {
        let way = Way { name, first, then: None };
        // Normally each way takes other calls; with a factor each way takes all.
        let step = (12 / factor()).max(1);
        let mut n = way_index as u64 % step;
        while run(&setup, &ops, n, way, &mut states) {
            runs += 1;
            // The calls of opening are few and each is of its own kind.
            n += if n < 24 { 1 } else { step };
        }
    }
    println!("{durability:?}: {runs} failures, {states} states checked");
}

#[test]
fn any_call_of_a_process_store_may_fail() {
    fail_each(Durability::Process);
}

#[test]
fn any_call_of_a_sync_store_may_fail() {
    fail_each(Durability::Sync);
}

#[test]
fn any_call_of_a_buffered_store_may_fail() {
    fail_each(Durability::Buffered);
}

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
            // Not those of tables, which are written in the background.
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

fn fail_pairs(durability: Durability) {
    let mut setup = Setup::random(&mut Rng::new(10), durability);
    (setup.checkpoint_interval, setup.log_bytes) = (Duration::from_millis(20), 8192);
    let ops = &workload(&setup)[..30];
    let (mut runs, mut states) = (0, 0);
    for (index, (name, first, operations, second)) in PAIRS.into_iter().enumerate() {
        let way = Way { name, first, then: Some((operations, second)) };
        let step = (8 / factor()).max(1);
        let mut n = index as u64 % step;
        while run(&setup, ops, n, way, &mut states) {
            runs += 1;
            n += step;
        }
    }
    println!("{durability:?}: {runs} pairs of failures, {states} states checked");
}

#[test]
fn two_calls_of_a_process_store_may_fail() {
    fail_pairs(Durability::Process);
}

#[test]
fn two_calls_of_a_sync_store_may_fail() {
    fail_pairs(Durability::Sync);
}

#[test]
fn two_calls_of_a_buffered_store_may_fail() {
    fail_pairs(Durability::Buffered);
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
