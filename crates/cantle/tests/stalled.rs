//! A disk that stalls: neither a snapshot nor a get of data in memory waits for it.
#![expect(clippy::disallowed_methods, reason = "calls that wait for the disk have threads of their own")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{Call, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A call that has not returned by then is waiting for the gate.
const PATIENCE: Duration = Duration::from_secs(60);

/// Holds calls back while it is closed.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// Calls that came while it was closed, and the number of them that continued.
    arrived: usize,
    let_pass: usize,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        if !state.closed {
            return;
        }
        state.arrived += 1;
        let place = state.arrived;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| state.closed && state.let_pass < place).unwrap());
    }

    fn set(&self, closed: bool) {
        self.state.lock().unwrap().closed = closed;
        self.changed.notify_all();
    }

    /// Waits until this number of calls have come.
    fn await_calls(&self, calls: usize) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.arrived < calls).unwrap();
        assert!(waited.0.arrived >= calls, "no call came to the gate");
    }

    /// Lets the call that has waited longest continue, and no other.
    fn let_one_pass(&self) {
        self.state.lock().unwrap().let_pass += 1;
        self.changed.notify_all();
    }
}

/// Opens the gate when a test ends in any way, so that no thread waits there.
struct OpenOnDrop<'a>(&'a Gate);

impl Drop for OpenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn open(gate: &Arc<Gate>, stalls: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Db {
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let at = gate.clone();
    vfs.set_rule(move |call| {
        if stalls(call) {
            at.pass();
        }
        Verdict::Pass
    });
    let keyspace = KeyspaceOptions::new()
        .layout(ChunkOptions::new().munks(false).recent_appends(false))
        .row_cache(false);
    let options = Options::new().vfs(Arc::new(vfs)).memory_budget(16 << 20).default_keyspace(keyspace);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap()
}

/// Runs `act` on a thread of its own; panics if it does not return.
fn returns<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, waiting) = channel();
    std::thread::spawn(move || done.send(act()));
    waiting.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} waits for the disk"))
}

#[test]
fn a_get_does_not_wait_while_the_end_of_a_log_is_written() {
    let gate = Arc::new(Gate::default());
    let is_log = |call: &Call<'_>| call.path.extension().is_some_and(|name| name == "log");
    let db = open(&gate, move |call| call.operation == Operation::WriteAt && is_log(call));
    // The first append goes to the file, the second is buffered.
    (0..10u64).for_each(|number| db.put(number.to_be_bytes(), [7; 100]).unwrap());
    let _open = OpenOnDrop(&gate);
    gate.set(true);
    let writer = {
        let db = db.clone();
        std::thread::spawn(move || db.sync())
    };
    gate.await_calls(1);
    for number in 1..10u64 {
        let db = db.clone();
        let found = returns("a get", move || db.get(number.to_be_bytes()));
        assert_eq!(found.unwrap().as_deref(), Some(&[7; 100][..]));
    }
    gate.set(false);
    writer.join().unwrap().unwrap();
}

#[test]
fn no_snapshot_waits_while_a_checkpoint_syncs_the_directory() {
    let gate = Arc::new(Gate::default());
    let db = open(&gate, |call| call.operation == Operation::SyncDir);
    let second = db.keyspace("second").unwrap();
    db.put("a", "1").unwrap();
    let _open = OpenOnDrop(&gate);
    gate.set(true);
    let checkpoint = {
        let db = db.clone();
        std::thread::spawn(move || db.sync())
    };
    gate.await_calls(1);
    // A new log: the directory is synced again, before the record.
    second.put("b", "2").unwrap();
    gate.let_one_pass();
    gate.await_calls(2);
    returns("a keyspace's drop", {
        let db = db.clone();
        move || db.drop_keyspace("second")
    })
    .unwrap();
    let found = returns("a snapshot", {
        let db = db.clone();
        move || db.snapshot().get("a")
    });
    assert_eq!(found.unwrap().as_deref(), Some(&b"1"[..]));
    gate.set(false);
    checkpoint.join().unwrap().unwrap();
    db.close().unwrap();
}
