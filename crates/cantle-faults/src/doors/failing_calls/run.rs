//! One workload with one call that fails.

use super::{Case, DURABILITIES, Then, WAYS, operations, setup};
use crate::history::{Death, History, Marks, try_reopen};
use crate::setup::{STORE, Setup};
use crate::visit::Visit;
use crate::workload::{self, Op, State};
use cantle::vfs::{Call, CrashPlan, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Db, Error};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Number of operations after which the process dies and another one continues.
const KILLED_AFTER: usize = 45;

/// The calls that failed.
#[derive(Clone, Default)]
struct Failed {
    /// Readable description.
    text: Arc<Mutex<String>>,
    /// True if a sync was among them: data that were not synced before may then be lost.
    sync: Arc<AtomicBool>,
}

impl Failed {
    fn note(&self, call: &Call<'_>) {
        if matches!(call.operation, Operation::SyncData | Operation::SyncDir) {
            self.sync.store(true, SeqCst);
        }
        let mut text = self.text.lock().unwrap();
        if text.len() < 400 {
            *text += &format!("{:?} {} at {}; ", call.operation, call.path.display(), call.offset);
        }
    }

    /// The kind of death that is as severe as the death of the process after these failures.
    fn death(&self, read_only: bool) -> Death {
        if read_only || self.sync.load(SeqCst) { Death::Power } else { Death::Process }
    }
}

/// The outcome of a run: the call failed, or there was no such call.
pub enum Reached {
    Failed,
    /// The workload completed, with this number of calls.
    Through {
        calls: u64,
    },
}

/// Runs the workload.
pub fn run(visit: &Visit, case: &Case) -> Reached {
    let setup = setup(visit, case);
    let mut memory = MemVfs::new();
    let mut fault = FaultVfs::over_memory(memory.clone());
    let (failed, calls) = (Failed::default(), Arc::new(AtomicU64::new(0)));
    let rule = rule(case, &failed, &calls);
    fault.set_rule(rule.clone());
    let way = WAYS[case.way];
    let context = || {
        let what = failed.text.lock().unwrap().clone();
        format!(
            "CANTLE_TEST_CASE={}: {}; {what}{:?}, {setup:?}",
            case.name(),
            way.name,
            DURABILITIES[case.durability]
        )
    };
    let mut worked = Worked::default();
    let Some(mut db) = open(&setup, &fault, &context) else {
        after_a_crash(&setup, &memory, &worked, Death::Power, &context, visit);
        return Reached::Failed;
    };
    worked.create_second(&db, &setup, &context);
    for (serial, op) in operations(case).iter().enumerate() {
        if worked.read_only {
            break;
        }
        if workload::admits(worked.history.now(), op) {
            worked.run(&db, op, &setup, serial as u64, &context);
        }
        worked.read_only |= db.stats().read_only.is_some();
        if serial + 1 == KILLED_AFTER && !worked.read_only {
            // The process dies here, and the failing call may be one of the next process's
            // recovery.
            memory = memory.kill();
            drop(db);
            fault = FaultVfs::over_memory(memory.clone());
            fault.set_rule(rule.clone());
            let Some(reopened) = open(&setup, &fault, &context) else {
                after_a_crash(&setup, &memory, &worked, failed.death(false), &context, visit);
                return Reached::Failed;
            };
            db = reopened;
            worked.read_only = db.stats().read_only.is_some();
            fault.clear_rule();
            worked.recovered(&db, &setup, failed.death(false), &context);
            fault.set_rule(rule.clone());
        }
    }
    worked.read_only |= db.stats().read_only.is_some();
    if let Some(reason) = db.stats().read_only {
        assert!(reason.len() > 20, "{}: {reason}", context());
        let refused = db.put("key", "value").unwrap_err();
        assert!(matches!(refused, Error::ReadOnly { .. }), "{}: {refused}", context());
    }
    // A store whose calls always fail cannot be read, and so not compared.
    if matches!(way.then, Then::Always) {
        fault.clear_rule();
    }
    worked.compare(&db, &setup, &context);
    fault.clear_rule();
    // The failure may have happened in the background just now. After a failed sync nothing is
    // known to be durable.
    let read_only = worked.read_only || db.stats().read_only.is_some();
    let death = failed.death(read_only);
    after_a_crash(&setup, &memory, &worked, death, &context, visit);
    drop(db);
    let has_failed = !failed.text.lock().unwrap().is_empty();
    visit.count("runs with failed calls", u64::from(has_failed));
    let calls = calls.load(SeqCst);
    if calls > case.call { Reached::Failed } else { Reached::Through { calls } }
}

/// The rule that lets the call of the case fail, and later calls as the case demands.
fn rule(
    case: &Case,
    failed: &Failed,
    calls: &Arc<AtomicU64>,
) -> impl Fn(&Call<'_>) -> Verdict + Clone + Send + Sync + 'static {
    let way = WAYS[case.way];
    let (noted, counted, nth) = (failed.clone(), calls.clone(), case.call);
    let second_failed = Arc::new(AtomicBool::new(false));
    let loses = |verdict| matches!(verdict, Verdict::FailLost(_));
    let may_lose = loses(way.first) || matches!(way.then, Then::Once(_, second) if loses(second));
    move |call| {
        // A store to a mapping cannot fail. Names above the store's directory that are lost, are
        // lost for good.
        if call.operation == Operation::Store || may_lose && !call.path.starts_with(STORE) {
            return Verdict::Pass;
        }
        // A failed sync is recorded in an allocated block, or by removing that block, or by
        // removing files that lost their names. If none of these can ever be done, and the same
        // mounted file system works again for the next process, the failure cannot be detected:
        // this case is not promised.
        let is_nameless =
            call.operation == Operation::Remove && call.path.to_string_lossy().contains("/MANIFEST-");
        let is_note = call.path.ends_with("PAGECACHE") || is_nameless;
        if may_lose && matches!(way.then, Then::Always) && is_note {
            return Verdict::Pass;
        }
        let number = counted.fetch_add(1, SeqCst);
        let verdict = match way.then {
            _ if number == nth => way.first,
            Then::Always if number > nth => way.first,
            Then::Once(operations, second) if number > nth => {
                let is_meant = if operations.is_empty() {
                    call.operation.changes()
                } else {
                    operations.contains(&call.operation)
                };
                if !is_meant || second_failed.swap(true, SeqCst) {
                    return Verdict::Pass;
                }
                second
            }
            _ => return Verdict::Pass,
        };
        // One page, which the page cache takes completely or not at all.
        let verdict = match verdict {
            Verdict::ShortWrite { failure, .. } if call.path.ends_with("PAGECACHE") => Verdict::Fail(failure),
            verdict => verdict,
        };
        noted.note(call);
        verdict
    }
}

/// Opens the store; if that fails, once more, and then without failures, which must succeed.
fn open(setup: &Setup, fault: &FaultVfs, context: &impl Fn() -> String) -> Option<Db> {
    let again = || {
        let error = setup.open(Arc::new(fault.clone())).err()?;
        assert!(!error.is_corruption(), "{}: {error}", context());
        Some(error)
    };
    if let Ok(db) = setup.open(Arc::new(fault.clone())) {
        return Some(db);
    }
    if again().is_some() && again().is_some() {
        fault.clear_rule();
        let opened = setup.open(Arc::new(fault.clone()));
        drop(opened.unwrap_or_else(|error| {
            panic!("{}: cannot be opened, though nothing fails: {error}", context())
        }));
        return None;
    }
    setup.open(Arc::new(fault.clone())).ok()
}

/// The operations that ran, and their possible results.
#[derive(Default)]
struct Worked {
    history: History,
    marks: Marks,
    read_only: bool,
    /// True if there is a keyspace whose creation was never acknowledged: a store that is read-only
    /// lists it, and returns no handle to it.
    is_unsettled: bool,
    /// Backups that were made, with their contents.
    backups: Vec<(PathBuf, State)>,
}

impl Worked {
    fn create_second(&mut self, db: &Db, setup: &Setup, context: &impl Fn() -> String) {
        let create = Op::Create("second");
        let run = || workload::run(db, &create, &setup.keyspace(), 0);
        let created = run().or_else(|_| run()).or_else(|_| run());
        self.read_only = db.stats().read_only.is_some();
        self.history.push(&create);
        self.marks.begun = 1;
        match created {
            Ok(()) => {
                self.marks.acknowledged = 1;
                self.marks.durable = u64::from(!self.read_only);
            }
            Err(error) => {
                assert!(!error.is_corruption(), "{}: {error}", context());
                // Either way the second keyspace may exist or not, so no further operation is run.
                self.read_only = true;
            }
        }
    }

    fn run(&mut self, db: &Db, op: &Op, setup: &Setup, serial: u64, context: &impl Fn() -> String) {
        // A keyspace whose drop had failed is only opened, which makes nothing durable.
        let is_there = matches!(op, Op::Create(name) if self.history.now().contains_key(*name));
        match workload::run(db, op, &setup.keyspace(), serial) {
            Ok(()) => {
                self.history.push(op);
                self.marks.begun += 1;
                self.marks.acknowledged += 1;
                if workload::is_sync(op) && !is_there {
                    self.marks.durable = self.marks.acknowledged;
                }
                if let Op::Backup = op {
                    self.backups.push((workload::backup_path(serial), self.history.now().clone()));
                }
            }
            // The write took effect, and the next checkpoint makes it durable.
            Err(Error::NotDurable { source, .. }) => {
                assert!(matches!(op, Op::Durable(..)), "{}: {op:?}", context());
                assert!(!source.is_corruption(), "{}: {op:?}: {source}", context());
                self.history.push(op);
                self.marks.begun += 1;
                self.marks.acknowledged += 1;
            }
            Err(error) => {
                assert!(!error.is_corruption(), "{}: {op:?}: {error}", context());
                self.read_only = db.stats().read_only.is_some();
                if self.read_only {
                    // The write may be present after the next opening.
                    self.history.push(op);
                    self.marks.begun += 1;
                }
                if let Op::Create(name) | Op::Drop(name) = op {
                    self.settle(db, op, name, setup);
                }
            }
        }
    }

    /// The failed call may have been the checkpoint after the creation or the drop of a keyspace.
    /// Then the operation took effect without an acknowledgement. It is made durable now, or no
    /// further operation is run.
    fn settle(&mut self, db: &Db, op: &Op, name: &str, setup: &Setup) {
        let creates = matches!(op, Op::Create(_));
        let is_there = db.keyspaces().unwrap().iter().any(|there| there == name);
        self.is_unsettled |= is_there;
        if self.read_only || is_there != creates {
            return;
        }
        self.history.push(op);
        self.marks.begun += 1;
        let settle = || if creates { db.keyspace_with(name, setup.keyspace()).map(drop) } else { db.sync() };
        match settle().or_else(|_| settle()).or_else(|_| settle()) {
            Ok(()) => {
                self.marks.acknowledged = self.marks.begun;
                self.marks.durable = self.marks.begun;
                self.is_unsettled = false;
            }
            Err(_) => self.read_only = true,
        }
    }

    /// A buffered store may have lost some of the writes with the process.
    fn recovered(&mut self, db: &Db, setup: &Setup, death: Death, context: &impl Fn() -> String) {
        let found = workload::contents(db, &setup.keyspace())
            .unwrap_or_else(|error| panic!("{}: {error}", context()));
        let k = self.history.check(&found, self.marks, death, setup.durability);
        let k = k.unwrap_or_else(|what| panic!("{}: after the process died: {what}", context()));
        self.history.states.truncate(k as usize + 1);
        self.marks = Marks { durable: self.marks.durable.min(k), acknowledged: k, begun: k };
    }

    /// Reads continue to work; a failed write that left the store healthy is absent.
    fn compare(&self, db: &Db, setup: &Setup, context: &impl Fn() -> String) {
        if self.marks.acknowledged == 0 {
            return;
        }
        // The call that fails may be one of these.
        let read = || workload::contents(db, &setup.keyspace());
        let found = read().or_else(|_| read()).or_else(|_| read());
        if self.is_unsettled && matches!(found, Err(Error::ReadOnly { .. })) {
            return;
        }
        let found = found.unwrap_or_else(|error| panic!("{}: {error}", context()));
        let marks = Marks { durable: self.marks.acknowledged, ..self.marks };
        if let Err(what) = self.history.check(&found, marks, Death::Process, setup.durability) {
            panic!("{}: while open: {what}", context());
        }
    }
}

/// Kills the process and cuts the power, each from the same state, and compares.
fn after_a_crash(
    setup: &Setup,
    memory: &MemVfs,
    worked: &Worked,
    death: Death,
    context: &impl Fn() -> String,
    visit: &Visit,
) {
    let (history, marks) = (&worked.history, worked.marks);
    let images = [
        (memory.kill(), death),
        (memory.crash(&CrashPlan::LOSE_UNSYNCED), Death::Power),
        (memory.crash(&CrashPlan::random(marks.begun)), Death::Power),
    ];
    for (vfs, death) in images {
        let (db, _) = try_reopen(setup, Arc::new(vfs.clone()), history, marks, death)
            .unwrap_or_else(|what| panic!("{}; {death:?}: {what}", context()));
        // After recovery from a page cache that hides a failed sync, data must be durable when they
        // are reported as durable.
        db.put("after", "fault")
            .and_then(|()| db.sync())
            .unwrap_or_else(|error| panic!("{}: {error}", context()));
        let lost = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
        drop(db);
        let db = setup
            .open_image(Arc::new(lost))
            .unwrap_or_else(|error| panic!("{}: then power lost: {error}", context()));
        assert_eq!(db.get("after").unwrap().as_deref(), Some(&b"fault"[..]), "{}", context());
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "{}; {death:?}, then power lost: {:?}", context(), report.damage);
        visit.count("states", 2);
    }
    // A completed backup survives everything.
    let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    for (path, expected) in &worked.backups {
        let fail = |what: String| -> ! { panic!("{}; {}: {what}", context(), path.display()) };
        let options = setup.image_options(Arc::new(lost.clone())).read_only(true);
        let db = options.open(path).unwrap_or_else(|error| fail(error.to_string()));
        let found =
            workload::contents(&db, &setup.keyspace()).unwrap_or_else(|error| fail(error.to_string()));
        if found != *expected {
            fail(workload::difference(&found, expected));
        }
        visit.count("backups", 1);
    }
}
