//! One keyspace falls behind, as no table can be made, while others are idle. Every writer is
//! slowed by the keyspace that is most behind, independent of names and of the writer, no more than
//! one such keyspace demands, and not at all once it has caught up. The work is counted by
//! statistics; no time is asserted.

use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::vfs::{FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Db, Keyspace, KeyspaceOptions, LayoutKind, LayoutOptions, Options};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Long enough for a busy machine to do any background work.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pauses between checks, at first and at most: checks are so rare that an idle keyspace does not
/// fall behind by their writes.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];
/// Number of puts of 1 KiB whose delays are counted.
const PUTS: u64 = 20;
/// Delays of `PUTS` if a keyspace is as far behind as counts, which is 8 times the time of maintenance:
/// for a KiB, 164 µs in `chunk` with a bound of 1.5, and 82 µs in a layout of merges that has measured none.
/// Sleeps take at least 200 µs, so every second put is delayed, or every third.
fn delays(layout: LayoutKind) -> std::ops::RangeInclusive<u64> {
    if layout == LayoutKind::Chunk { 8..=12 } else { 5..=8 }
}

/// Blocks the creation of tables while it is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.opened.wait(closed).unwrap();
        }
    }

    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

/// Opens the gate when the round ends in any way, so that no thread waits there.
struct OpenOnDrop(Arc<Gate>);

impl Drop for OpenOnDrop {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

pub fn enter(visit: &Visit) {
    if !visit.is_capable("free space", |layout| layout.frees_space) {
        return;
    }
    for seed in visit.rounds() {
        let mut rng = Rng::new(seed);
        for names in [["a", "z"], ["z", "a"]] {
            one(visit, names, &mut rng);
            visit.count("keyspaces that fell behind", 1);
        }
    }
}

fn one(visit: &Visit, [behind, idle]: [&str; 2], rng: &mut Rng) {
    let gate = Arc::new(Gate::default());
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let at = gate.clone();
    vfs.set_rule(move |call| {
        if call.operation == Operation::Create && call.path.extension().is_some_and(|name| name == "table") {
            at.pass();
        }
        Verdict::Pass
    });
    let keyspace = KeyspaceOptions::new()
        .layout(LayoutOptions::from(visit.layout).with("munks", false).with("generation_bytes", 128 << 10))
        .space_amplification(1.5);
    let options = Options::new().vfs(Arc::new(vfs)).background_threads(1 + rng.below(2) as usize);
    let options = options.memory_budget(64 << 20).default_keyspace(keyspace.clone());
    let db = options.open("store").unwrap();
    let [behind, idle] = [behind, idle].map(|name| db.keyspace_with(name, keyspace.clone()).unwrap());
    (0..rng.below(3)).for_each(|more| drop(db.keyspace_with(&format!("m{more}"), keyspace.clone()).unwrap()));
    let mut round = 0;
    let mut until = |writer: &Keyspace, what: &str, is_so: &dyn Fn(u64) -> bool| {
        let (begun, mut pause) = (Instant::now(), PAUSES[0]);
        loop {
            round += 1;
            let delays = delays_of(&db, writer, round);
            if is_so(delays) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {delays} delays of {PUTS} puts, {:?}", sizes(&db));
            std::thread::sleep(pause);
            pause = (2 * pause).min(PAUSES[1]);
        }
    };
    until(&idle, "nobody is behind, and a writer is braked", &|delays| delays == 0);
    // Opened before the store is dropped, which waits for threads at the gate.
    let _open = OpenOnDrop(gate.clone());
    gate.set(true);
    // 1 MiB that is overwritten about ten times: more than twice the 4 MiB that any keyspace may
    // use.
    for overwrite in 0..10 + rng.below(3) {
        // Not in key order, as some layouts take such logs for tables.
        for key in (0..1024u64).map(|number| number * 389 % 1024) {
            behind.put(key.to_be_bytes(), vec![overwrite as u8; 1016]).unwrap();
        }
    }
    let writers: &[&Keyspace] = if rng.below(2) == 0 { &[&behind, &idle] } else { &[&idle, &behind] };
    for writer in writers {
        let what = format!("{} is behind, and who writes to {} is not braked", behind.name(), writer.name());
        until(writer, &what, &|count| delays(visit.layout).contains(&count));
    }
    gate.set(false);
    behind.compact_range(..).unwrap();
    db.sync().unwrap();
    until(&idle, "all have caught up, and a writer is braked", &|delays| delays == 0);
    db.close().unwrap();
}

/// Number of delays of some puts.
fn delays_of(db: &Db, writer: &Keyspace, round: u64) -> u64 {
    let before = db.stats().write_delays;
    for put in 0..PUTS {
        // Few keys, so that the keyspace stays small.
        writer.put((put % 16).to_be_bytes(), vec![round as u8; 1016]).unwrap();
    }
    db.stats().write_delays - before
}

/// Sizes of the keyspaces, for the message of a finding.
fn sizes(db: &Db) -> Vec<(String, u64, u64, u64)> {
    let of = |keyspace: cantle::stats::KeyspaceStats| {
        (keyspace.name, keyspace.log_bytes + keyspace.table_bytes, keyspace.held_bytes, keyspace.live_bytes)
    };
    db.stats().keyspaces.into_iter().map(of).collect()
}
