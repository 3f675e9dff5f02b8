//! Directed schedules: one thread is held at a moment that random tests hardly ever hit, another
//! one acts, and its results must be right. Each schedule takes milliseconds and finds its bug
//! every time.

use super::Door;
use crate::layouts::OfChunk;
use crate::setup::STORE;
use crate::visit::Visit;
use cantle::stats::KeyspaceStats;
use cantle::vfs::{
    CrashPlan, Failure, FaultVfs, Held, MemVfs, Operation, StallVfs, Verdict, Vfs, WriteBackVfs,
};
use cantle::{Comparator, KeyspaceOptions, Options, Snapshot};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

pub const SCHEDULES: Door =
    Door { name: "schedules", about: "a thread is held at a chosen moment while another one acts", enter };

/// Thousands of times the duration of any step here.
const LIMIT: Duration = Duration::from_secs(60);

fn enter(visit: &Visit) {
    for _ in visit.rounds() {
        if visit.is_capable("free space", |layout| layout.frees_space) {
            a_file_that_comes_during_a_checkpoint_is_named_with_it(visit);
            visit.count("schedules", 1);
        }
        if visit.is_capable("load key ranges into memory", |layout| layout.loads_ranges) {
            no_read_misses_a_chunk_that_leaves_memory(visit);
            visit.count("schedules", 1);
        }
        what_the_kernel_could_not_write_is_reported(visit);
        visit.count("schedules", 1);
    }
}

fn keyspace(visit: &Visit) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(visit.layout)
}

fn options(visit: &Visit) -> Options {
    Options::new()
        .memory_budget(16 << 20)
        .background_threads(1)
        .checkpoint_interval(Duration::from_secs(3600))
        .default_keyspace(keyspace(visit))
}

/// A checkpoint syncs the directory, and then its record makes every edit before it durable: also
/// that of a rebalance or merge which ended in between. The name of its table must be durable, too, as the
/// log that it was made from is gone.
fn a_file_that_comes_during_a_checkpoint_is_named_with_it(visit: &Visit) {
    let memory = MemVfs::new();
    let vfs = StallVfs::new(Arc::new(memory.clone()));
    let open = |vfs| options(visit).vfs(vfs).open(STORE);
    let db = open(Arc::new(vfs.clone())).unwrap();
    let other = db.keyspace_with("other", keyspace(visit)).unwrap();
    other.put("key", "synced").unwrap();
    db.sync().unwrap();
    // Data for the checkpoint.
    db.put("key", "synced").unwrap();
    let is_log_synced = AtomicBool::new(false);
    let stall = vfs.stall(Held::After, move |call| {
        if call.operation == Operation::SyncData && has_name(call.path, ".log") {
            is_log_synced.store(true, SeqCst);
        }
        call.operation == Operation::SyncDir && is_log_synced.swap(false, SeqCst)
    });
    let lost = std::thread::scope(|scope| {
        let synced = scope.spawn(|| db.sync());
        assert!(stall.wait(1, LIMIT), "a checkpoint did not sync the directory after the logs");
        let compacted = scope.spawn(|| other.compact_range(..));
        let merged = |keyspace: &KeyspaceStats| {
            keyspace.of_chunk().rebalances + keyspace.lsm().map_or(0, |lsm| lsm.merges)
        };
        until("a rebalance beside a checkpoint", || {
            db.stats().keyspaces.iter().any(|keyspace| merged(keyspace) > 0)
        });
        // The record is durable, and no other call has been made since.
        let stall = vfs.stall(Held::After, |call| {
            call.operation == Operation::SyncData && has_name(call.path, "MANIFEST-")
        });
        assert!(stall.wait(1, LIMIT), "a checkpoint did not sync the manifest");
        let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
        drop(stall);
        synced.join().unwrap().unwrap();
        compacted.join().unwrap().unwrap();
        lost
    });
    let db = open(Arc::new(lost)).unwrap_or_else(|error| panic!("power lost after a checkpoint: {error}"));
    let other = db.keyspace_with("other", keyspace(visit)).unwrap();
    for found in [db.get("key"), other.get("key")] {
        let found = found.unwrap_or_else(|error| panic!("power lost after a checkpoint: {error}"));
        assert_eq!(found.as_deref(), Some(&b"synced"[..]), "power lost after a checkpoint");
    }
    let report = db.verify().unwrap();
    assert!(report.is_ok(), "power lost after a checkpoint: {report:?}");
}

/// The handle of a log is closed while the log is dirty, as too many are open. Then the kernel
/// fails to write it back, and evicts the inode if possible. If a sync succeeds all the same, it
/// must have made the log durable.
fn what_the_kernel_could_not_write_is_reported(visit: &Visit) {
    let memory = MemVfs::new();
    let kernel = WriteBackVfs::new(memory.clone());
    let vfs = FaultVfs::new(Arc::new(kernel.clone()));
    let closes = Arc::new(AtomicBool::new(false));
    let switch = closes.clone();
    vfs.set_rule(move |call| match call.operation {
        Operation::Create if switch.swap(false, SeqCst) => Verdict::Fail(Failure::EMFILE),
        _ => Verdict::Pass,
    });
    let open = |vfs| options(visit).vfs(vfs).open(STORE);
    let db = open(Arc::new(vfs)).unwrap();
    let other = db.keyspace_with("other", keyspace(visit)).unwrap();
    db.put("key", "synced").unwrap();
    let names = kernel.list(Path::new(STORE)).unwrap();
    let log =
        names.iter().find(|name| name.ends_with(".log")).map(|name| Path::new(STORE).join(name)).unwrap();
    closes.store(true, SeqCst);
    other.put("key", "value").unwrap();
    kernel.fail_write_back(&log).unwrap();
    let _ = kernel.evict(&log).unwrap();
    let synced = db.sync();
    let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    if synced.is_ok() {
        let found = open(Arc::new(lost)).and_then(|db| db.get("key"));
        assert!(
            matches!(&found, Ok(Some(value)) if **value == *b"synced"),
            "power lost after a sync that succeeded: {found:?}"
        );
    }
}

fn has_name(path: &Path, part: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(part))
}

/// Waits for background work.
fn until(what: &str, has_happened: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !has_happened() {
        assert!(Instant::now() < until, "{what}: there was none");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An order that lets another thread read whenever the chosen thread compares two keys.
struct Interrupted {
    armed: Mutex<Option<Armed>>,
}

/// The thread that is interrupted, and the channels of its reader.
struct Armed {
    thread: ThreadId,
    ask: Sender<()>,
    answered: Receiver<()>,
}

impl Comparator for Interrupted {
    fn name(&self) -> &str {
        "faults.interrupted"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // The reader compares, too, and must not wait here.
        if let Ok(armed) = self.armed.try_lock()
            && let Some(Armed { thread, ask, answered }) = &*armed
            && *thread == std::thread::current().id()
        {
            // A reader that waits for this thread answers later, and its answer counts then.
            let asked = ask.send(()).is_ok();
            let _ = asked && answered.recv_timeout(Duration::from_secs(1)).is_ok();
        }
        a.cmp(b)
    }
}

/// Writes to a chunk in memory are only recorded for the search of its log. When the chunk leaves
/// memory, these records become searchable first. A read at any moment of that finds the newest
/// pairs, as an older snapshot must even in a chunk that is dropped.
fn no_read_misses_a_chunk_that_leaves_memory(visit: &Visit) {
    const KEYS: u64 = 20;
    let key = |number: u64| format!("key{number:04}");
    let order = Arc::new(Interrupted { armed: Mutex::new(None) });
    let options = options(visit).default_keyspace(keyspace(visit).comparator(order.clone()));
    let db = options.vfs(Arc::new(MemVfs::new())).open(STORE).unwrap();
    (0..KEYS).for_each(|number| db.put(key(number), "old").unwrap());
    until("a load of a chunk that is read again and again", || {
        (0..10 * KEYS).for_each(|number| drop(db.get(key(number % KEYS)).unwrap()));
        db.stats().keyspaces[0].of_chunk().munks > 0
    });
    (0..KEYS).for_each(|number| db.put(key(number), "new").unwrap());
    let held = db.snapshot();
    let (ask, asked) = channel();
    let (answer, answered) = channel();
    std::thread::scope(|scope| {
        let held = &held;
        let reads = scope.spawn(move || read_when_asked(held, key, KEYS, &asked, &answer));
        *order.armed.lock().unwrap() = Some(Armed { thread: std::thread::current().id(), ask, answered });
        let deleted = db.delete_range(..);
        // The reader ends when its channel is closed.
        *order.armed.lock().unwrap() = None;
        let reads = reads.join().unwrap();
        deleted.unwrap();
        assert!(
            reads.unwrap_or_else(|found| panic!("while a chunk left memory: {found}")) > 0,
            "nobody read"
        );
    });
}

fn read_when_asked(
    held: &Snapshot,
    key: impl Fn(u64) -> String,
    keys: u64,
    asked: &Receiver<()>,
    answer: &Sender<()>,
) -> Result<u64, String> {
    let mut reads = 0;
    let mut found_wrong = None;
    while asked.recv().is_ok() {
        let key = key(reads % keys);
        let found = held.get(&key).map_err(|error| error.to_string())?;
        if found.as_deref() != Some(&b"new"[..]) {
            found_wrong = found_wrong.or(Some(format!("a snapshot found {found:?} at {key}")));
        }
        reads += 1;
        // The other thread may not be waiting any more.
        let _ = answer.send(());
    }
    found_wrong.map_or(Ok(reads), Err)
}
