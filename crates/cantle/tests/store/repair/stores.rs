//! Stores to repair, with files of every kind.

use super::{History, options};
use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{ChunkOptions, Compression, Db, Durability, Keyspace, KeyspaceOptions, Options, WriteBatch};
use std::time::Duration;

/// The end of the last process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    Killed,
    PowerLost(CrashPlan),
}

pub const ENDS: [End; 3] = [End::Closed, End::Killed, End::PowerLost(CrashPlan::LOSE_UNSYNCED)];

pub fn key(n: usize) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn value(n: usize, generation: usize) -> Vec<u8> {
    let text = format!("value {n} of generation {generation} ");
    text.repeat(4 + n % 7).into_bytes()
}

struct Writer<'a> {
    db: &'a Db,
    keyspace: Keyspace,
    history: &'a mut History,
}

impl Writer<'_> {
    fn put(&mut self, n: usize, generation: usize) {
        let (key, value) = (key(n), value(n, generation));
        self.history.put(self.keyspace.name(), &key, &value);
        self.keyspace.put(key, value).unwrap();
    }

    /// One write with several operations.
    fn batch(&mut self, numbers: impl Iterator<Item = usize>, generation: usize) {
        let mut batch = WriteBatch::new();
        for n in numbers {
            let (key, value) = (key(n), value(n, generation));
            self.history.put(self.keyspace.name(), &key, &value);
            batch.keyspace(&self.keyspace).put(key, value);
        }
        self.db.write(batch).unwrap();
    }
}

/// A store of `n` keys in each of two keyspaces, written in two openings: tables, logs over them
/// with and without an index, batches that span logs, deletes of both kinds, an empty keyspace, and
/// a dropped one.
pub fn store(n: usize, end: End, durability: Durability, compression: Compression) -> (MemVfs, History) {
    let vfs = MemVfs::new();
    let mut history = History::default();
    let tuned = || {
        let tuning =
            KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10)).compression(compression);
        options(&vfs)
            .durability(durability)
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(tuning)
    };
    let other =
        || KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10)).compression(compression);
    {
        let db = tuned().open("store").unwrap();
        for name in ["default", "other"] {
            let keyspace = db.keyspace_with(name, other()).unwrap();
            keyspace.set_metadata(format!("of {name}").as_bytes()).unwrap();
            let mut writer = Writer { db: &db, keyspace, history: &mut history };
            for n in 0..n {
                writer.put(n, 0);
            }
            writer.keyspace.compact_range(..).unwrap();
            for n in (0..n).step_by(3) {
                writer.put(n, 1);
            }
            writer.keyspace.delete(key(4)).unwrap();
            writer.keyspace.delete_range(key(n / 4)..key(n / 3)).unwrap();
        }
        db.keyspace("empty").unwrap();
        db.keyspace("dropped").unwrap().put("a", "b").unwrap();
        db.drop_keyspace("dropped").unwrap();
        db.close().unwrap();
    }
    history.0.entry("empty".into()).or_default();
    history.put("dropped", b"a", b"b");
    let db = tuned().open("store").unwrap();
    for name in ["other", "default"] {
        let keyspace = db.keyspace_with(name, other()).unwrap();
        let mut writer = Writer { db: &db, keyspace, history: &mut history };
        for n in (0..n).step_by(5) {
            writer.put(n, 2);
        }
        if name == "other" {
            writer.keyspace.compact_range(..key(n / 2)).unwrap();
        }
        writer.keyspace.delete(key(1)).unwrap();
        writer.keyspace.delete_range(key(n / 2)..key(n / 2 + 4)).unwrap();
        writer.batch([3, n / 2 + 1, n - 2].into_iter(), 3);
    }
    db.sync().unwrap();
    for name in ["default", "other"] {
        let keyspace = db.keyspace_with(name, other()).unwrap();
        let mut writer = Writer { db: &db, keyspace, history: &mut history };
        for n in (0..n).step_by(11) {
            writer.put(n, 4);
        }
        writer.batch([5, n / 3 + 1, n - 3].into_iter(), 5);
        writer.keyspace.delete(key(6)).unwrap();
        for n in (0..n).step_by(31) {
            writer.put(n, 6);
        }
    }
    let ended = match end {
        End::Closed => {
            db.close().unwrap();
            vfs.kill()
        }
        End::Killed => vfs.kill(),
        End::PowerLost(plan) => vfs.crash(&plan),
    };
    drop(db);
    (ended, history)
}

/// The store that most tests use.
pub fn plain(n: usize, end: End) -> (MemVfs, History) {
    store(n, end, Durability::Process, Compression::None)
}

/// Options with very little memory.
pub fn tight(options: Options) -> Options {
    options.memory_budget(1 << 20)
}
