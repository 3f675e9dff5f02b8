//! A sequence of operations, compared with a map.

use crate::setup::{Setup, has_layout};
use crate::workload::{self, Change, Op, State};
use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{Db, Durability, LayoutKind, Snapshot};
use std::sync::Arc;
use std::time::Duration;

/// Operations of four bytes each.
const OP_BYTES: usize = 4;
const SPACES: [&str; 2] = ["default", "second"];

struct World {
    setup: Setup,
    vfs: MemVfs,
    db: Option<Db>,
    state: State,
    snapshot: Option<(Snapshot, State)>,
}

impl World {
    fn new(layout: LayoutKind, draw: u8) -> Self {
        let setup = Setup {
            layout,
            durability: if draw & 1 == 0 { Durability::Process } else { Durability::Sync },
            checkpoint_interval: Duration::from_secs(3600),
            chunk_bytes: 64 << 10,
            log_bytes: if draw & 2 == 0 { 4096 } else { 32 << 10 },
            as_published: draw & 12 == 4,
            log_is_level_0: draw & 2 == 0,
            threads: 1,
        };
        let state = State::from([("default".into(), Default::default())]);
        let mut world = Self { setup, vfs: MemVfs::new(), db: None, state, snapshot: None };
        world.open();
        world.run(Op::Create("second"));
        world
    }

    fn open(&mut self) {
        let db = self.setup.open(Arc::new(self.vfs.clone())).unwrap();
        assert!(has_layout(&db, self.setup.layout), "the store has another layout");
        self.db = Some(db);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn run(&mut self, op: Op) {
        workload::run(self.db(), &op, &self.setup.keyspace(), 0).unwrap();
        workload::apply(&mut self.state, &op);
    }

    /// Ends the process in one of several ways, and starts another.
    fn reopen(&mut self, way: u8) {
        self.snapshot = None;
        let before = self.vfs.clone();
        self.vfs = match way % 3 {
            0 => {
                self.db().close().unwrap();
                before
            }
            1 => before.kill(),
            _ if self.setup.durability == Durability::Sync => before.crash(&CrashPlan::LOSE_UNSYNCED),
            _ => {
                self.db().sync().unwrap();
                before.crash(&CrashPlan::LOSE_UNSYNCED)
            }
        };
        self.db = None;
        self.open();
    }

    fn check(&self) {
        let found = workload::contents(self.db(), &self.setup.keyspace()).unwrap();
        assert!(found == self.state, "{}", workload::difference(&found, &self.state));
        if let Some((snapshot, state)) = &self.snapshot {
            let pairs: Vec<_> = snapshot.range(..).map(Result::unwrap).collect();
            let expected = &state["default"];
            assert_eq!(pairs.len(), expected.len(), "a snapshot has other pairs than when it was taken");
            for ((key, value), (expected_key, expected_value)) in pairs.iter().zip(expected) {
                assert!(
                    key[..] == expected_key[..] && value[..] == expected_value[..],
                    "a snapshot changed at {key:?}"
                );
            }
        }
    }

    fn step(&mut self, [what, key, a, b]: [u8; OP_BYTES]) {
        let n = |byte: u8| u64::from(byte % 40);
        let space = SPACES[usize::from(what >> 4 & 1)];
        let other = SPACES[usize::from(what >> 5 & 1)];
        let value = || -> Arc<[u8]> {
            let bytes = usize::from(a) * if b > 200 { 40 } else { 1 };
            vec![b; bytes].into()
        };
        match what % 16 {
            0..=4 => self.run(Op::One(space, Change::Put(n(key), value()))),
            5 => self.run(Op::One(space, Change::Delete(n(key)))),
            6 => self.run(Op::One(space, Change::DeleteRange(n(key), n(key) + n(a)))),
            7 | 8 => {
                let changes = vec![
                    (space, Change::Put(n(key), value())),
                    (other, Change::Delete(n(a))),
                    (other, Change::Put(n(b), value())),
                ];
                self.run(if what % 16 == 7 { Op::Batch(changes) } else { Op::Transaction(changes) });
            }
            9 => self.run(Op::Update(n(key), a)),
            10 => self.run(Op::Sync),
            11 => self.run(Op::Compact),
            12 => self.snapshot = Some((self.db().snapshot(), self.state.clone())),
            13 => self.reopen(a),
            _ => self.check(),
        }
    }
}

pub fn run(layout: LayoutKind, input: &[u8]) {
    let Some((&draw, steps)) = input.split_first() else { return };
    let mut world = World::new(layout, draw);
    for step in steps.as_chunks::<OP_BYTES>().0.iter().take(200) {
        world.step(*step);
    }
    world.check();
    world.reopen(draw >> 4);
    world.check();
    assert!(world.db().verify().unwrap().is_ok());
}

pub fn seeds(_: LayoutKind) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for draw in 0..8u8 {
        let mut input = vec![draw];
        for n in 0..48u8 {
            input.extend([
                (n % 16).max(n / 3) ^ draw,
                n.wrapping_mul(7),
                n.wrapping_mul(29),
                n.wrapping_mul(83),
            ]);
        }
        seeds.push(input);
    }
    seeds
}
