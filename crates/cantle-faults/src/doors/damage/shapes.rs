//! Small stores that have everything in them that a store can have.

use crate::rng::Rng;
use crate::setup::STORE;
use crate::workload::{self, Change, Op, State};
use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{Compression, Db, Durability, KeyspaceOptions, Options, Resources};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    /// Closed, and the machine booted since.
    Booted,
    /// The process died.
    Killed,
    /// The power failed, and every write was synced.
    PowerLost,
}

/// A store to be damaged.
pub struct Shape {
    pub name: &'static str,
    pub end: End,
    pub vfs: MemVfs,
    /// What it went through since its last checkpoint; the last is what it holds.
    pub since: Vec<State>,
    /// What it held at each checkpoint, and everything since the first.
    pub all: Vec<State>,
    /// The same store some time ago.
    pub older: Vec<MemVfs>,
    /// Another store of the same shape.
    pub foreign: MemVfs,
}

/// What the stores of the door are read with: threads of their own would cost more than all the rest.
fn shared() -> Resources {
    static SHARED: OnceLock<Resources> = OnceLock::new();
    SHARED.get_or_init(|| Resources::new(8 << 20, 1)).clone()
}

fn keyspace(compression: Compression) -> KeyspaceOptions {
    KeyspaceOptions::new()
        .chunk_bytes(64 << 10)
        .log_bytes(256 << 10)
        .filter_partitions(2)
        .compression(compression)
}

impl Shape {
    /// How it is opened once damaged.
    pub fn options(vfs: &MemVfs) -> Options {
        Options::new()
            .vfs(Arc::new(vfs.clone()))
            .resources(shared())
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(keyspace(Compression::None))
    }

    pub fn now(&self) -> &State {
        self.since.last().unwrap()
    }
}

/// A store in the making.
struct Maker {
    vfs: MemVfs,
    durability: Durability,
    compression: Compression,
    db: Option<Db>,
    since: Vec<State>,
    all: Vec<State>,
    rng: Rng,
}

impl Maker {
    fn new(durability: Durability, compression: Compression, seed: u64) -> Self {
        let fresh = State::from([("default".into(), Default::default())]);
        let (since, all) = (vec![fresh.clone()], vec![fresh]);
        let mut maker =
            Self { vfs: MemVfs::new(), durability, compression, db: None, since, all, rng: Rng::new(seed) };
        maker.open();
        maker
    }

    fn open(&mut self) {
        // The least there is: a stage of one slot.
        let options = Options::new()
            .vfs(Arc::new(self.vfs.clone()))
            .memory_budget(1 << 20)
            .background_threads(1)
            .durability(self.durability)
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(keyspace(self.compression));
        self.db = Some(options.open(STORE).unwrap());
    }

    fn close(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.checkpoint();
    }

    fn checkpoint(&mut self) {
        self.since.drain(..self.since.len() - 1);
    }

    fn run(&mut self, op: Op) {
        let db = self.db.as_ref().unwrap();
        workload::run(db, &op, &keyspace(self.compression), 0).unwrap();
        let mut state = self.since.last().unwrap().clone();
        workload::apply(&mut state, &op);
        self.since.push(state.clone());
        self.all.push(state);
        if workload::is_sync(&op) {
            self.checkpoint();
        }
    }

    fn put(&mut self, space: &'static str, n: u64, bytes: u64) {
        let op = Op::One(space, self.change(n, bytes));
        self.run(op);
    }

    fn change(&mut self, n: u64, bytes: u64) -> Change {
        let stamp = self.rng.next().to_le_bytes();
        Change::Put(n, stamp.into_iter().cycle().take(bytes as usize).collect())
    }

    /// Tables of several chunks in one keyspace, and one table in another.
    fn tables(&mut self) {
        for n in 0..36 {
            self.put("default", n, 5000 + n * 13);
        }
        self.run(Op::Create("second"));
        for n in 0..16 {
            self.put("second", n, 20 + n);
        }
        self.run(Op::Compact);
    }

    /// Logs over them, with deletes of both kinds and batches that span logs.
    fn logs(&mut self) {
        for n in [1, 4, 17, 33, 40, 41] {
            self.put("default", n, 30);
        }
        self.run(Op::One("default", Change::Delete(7)));
        self.run(Op::One("default", Change::DeleteRange(20, 23)));
        for n in [2, 30] {
            let changes = vec![
                ("default", self.change(n, 25)),
                ("second", self.change(n, 25)),
                ("default", Change::Delete(n + 3)),
            ];
            self.run(Op::Batch(changes));
        }
        self.put("second", 3, 60);
        self.run(Op::One("second", Change::DeleteRange(8, 11)));
    }

    fn shape(self, name: &'static str, end: End, older: Vec<MemVfs>, foreign: MemVfs) -> Shape {
        let vfs = match end {
            End::Closed | End::Killed => self.vfs.kill(),
            End::Booted => self.vfs.crash(&CrashPlan::KEEP_ALL),
            End::PowerLost => self.vfs.crash(&CrashPlan::LOSE_UNSYNCED),
        };
        drop(self.db);
        Shape { name, end, vfs, since: self.since, all: self.all, older, foreign }
    }
}

/// Closed twice, with tables, and logs of two epochs over them.
fn closed(seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(Durability::Process, Compression::Lz4, seed);
    maker.tables();
    maker.close();
    let mut older = vec![maker.vfs.kill()];
    maker.open();
    maker.logs();
    maker.close();
    older.push(maker.vfs.kill());
    maker.open();
    maker.put("default", 12, 40);
    maker.run(Op::One("second", Change::Delete(1)));
    maker.close();
    (maker, older)
}

/// Killed, with a journal of commits, a stage, and logs that no checkpoint knows.
fn killed(seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(Durability::Process, Compression::Zstd(3), seed);
    maker.tables();
    let mut older = vec![maker.vfs.kill()];
    maker.logs();
    maker.run(Op::Sync);
    older.push(maker.vfs.kill());
    maker.logs();
    maker.put("default", 12, 40);
    (maker, older)
}

/// The power failed: a journal that must be applied again.
fn power_lost(seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(Durability::Sync, Compression::None, seed);
    for n in 0..16 {
        maker.put("default", n, 40);
    }
    maker.run(Op::Create("second"));
    maker.run(Op::Compact);
    let older = vec![maker.vfs.kill()];
    maker.logs();
    (maker, older)
}

/// Every shape.
pub fn all(seed: u64) -> Vec<Shape> {
    type Make = fn(u64) -> (Maker, Vec<MemVfs>);
    let shapes: [(&str, End, Make); 4] = [
        ("closed", End::Closed, closed),
        ("killed", End::Killed, killed),
        ("power-lost", End::PowerLost, power_lost),
        ("booted", End::Booted, closed),
    ];
    let make = |(name, end, make): (&'static str, End, Make)| {
        let (maker, mut older) = make(seed);
        if end == End::Booted {
            older = older.iter().map(|vfs| vfs.crash(&CrashPlan::KEEP_ALL)).collect();
        }
        let (other, _) = make(seed.wrapping_add(0x5eed));
        maker.shape(name, end, older, other.vfs.kill())
    };
    shapes.into_iter().map(make).collect()
}
