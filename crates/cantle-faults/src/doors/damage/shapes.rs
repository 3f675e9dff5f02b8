//! Small stores with every kind of structure that a store can have.

use crate::files::{Kind, names, read};
use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::sealed::{footer_bytes, records, table_blocks};
use crate::setup::STORE;
use crate::workload::{self, Change, Op, State};
use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{Compression, Db, Durability, KeyspaceOptions, LayoutKind, LayoutOptions, Options, Resources};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The way in which a store's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    /// Closed, and the machine was booted since.
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
    pub layout: LayoutKind,
    pub vfs: MemVfs,
    /// Its files, by name.
    pub bytes: BTreeMap<String, Vec<u8>>,
    /// Offsets at which the blocks of each file begin.
    pub blocks: BTreeMap<String, Vec<u64>>,
    /// For each pair of a keyspace the blocks that contain it, if its value can be found in them.
    pub homes: BTreeMap<(String, Vec<u8>), Vec<Home>>,
    /// The states since its last checkpoint; the last is the present one.
    pub since: Vec<State>,
    /// The states at each checkpoint, and all states since the first.
    pub all: Vec<State>,
    /// The same store at earlier times.
    pub older: Vec<MemVfs>,
    /// Another store of the same shape.
    pub foreign: MemVfs,
}

/// Resources that the door's stores share: threads of their own would take most of the time.
fn shared() -> Resources {
    static SHARED: OnceLock<Resources> = OnceLock::new();
    SHARED.get_or_init(|| Resources::new(8 << 20, 1)).clone()
}

fn keyspace(layout: LayoutKind, compression: Compression) -> KeyspaceOptions {
    let layout = LayoutOptions::from(layout).with_regions(64 << 10).with("log_bytes", 256 << 10);
    // One shape has flushed tables in the place of logs.
    let layout = layout.with("log_is_level_0", !matches!(compression, Compression::Zstd(_)));
    KeyspaceOptions::new().layout(layout.with("filter_partitions", 2)).compression(compression)
}

impl Shape {
    /// Options to open the store after the damage.
    pub fn options(&self, vfs: &MemVfs) -> Options {
        Options::new()
            .vfs(Arc::new(vfs.clone()))
            .resources(shared())
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(keyspace(self.layout, Compression::None))
    }

    pub fn now(&self) -> &State {
        self.since.last().unwrap()
    }
}

/// A store while it is made.
struct Maker {
    vfs: MemVfs,
    layout: LayoutKind,
    durability: Durability,
    compression: Compression,
    db: Option<Db>,
    since: Vec<State>,
    all: Vec<State>,
    rng: Rng,
}

impl Maker {
    fn new(layout: LayoutKind, durability: Durability, compression: Compression, seed: u64) -> Self {
        let fresh = State::from([("default".into(), Default::default())]);
        let (since, all) = (vec![fresh.clone()], vec![fresh]);
        let (vfs, rng) = (MemVfs::new(), Rng::new(seed));
        let mut maker = Self { vfs, layout, durability, compression, db: None, since, all, rng };
        maker.open();
        maker
    }

    fn open(&mut self) {
        // The minimum: a write buffer of one slot.
        let options = Options::new()
            .vfs(Arc::new(self.vfs.clone()))
            .memory_budget(1 << 20)
            .background_threads(1)
            .durability(self.durability)
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(keyspace(self.layout, self.compression));
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
        workload::run(db, &op, &keyspace(self.layout, self.compression), 0).unwrap();
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
        let bytes: BTreeMap<_, _> =
            names(&vfs).into_iter().map(|name| (name.clone(), read(&vfs, &name))).collect();
        let blocks = bytes.iter().map(|(name, bytes)| (name.clone(), blocks(name, bytes))).collect();
        let homes = homes(&bytes, &blocks, self.since.last().unwrap());
        Shape {
            name,
            end,
            layout: self.layout,
            vfs,
            bytes,
            blocks,
            homes,
            since: self.since,
            all: self.all,
            older,
            foreign,
        }
    }
}

/// Ranges that are read and checked as a whole.
fn blocks(name: &str, bytes: &[u8]) -> Vec<u64> {
    let starts: Vec<usize> = match Kind::of(name) {
        Kind::Table => {
            let blocks = table_blocks(bytes).into_iter().map(|(start, _)| start);
            blocks.chain([0, bytes.len().saturating_sub(footer_bytes(bytes))]).collect()
        }
        // Checksums of records include the file's identity and the offset, so a moved record is
        // damage.
        Kind::Log | Kind::Manifest | Kind::Journal => records(bytes).into_iter().chain([0]).collect(),
        Kind::WriteBuffer => {
            let slot_bytes = bytes.get(32..36).and_then(|bytes| bytes.try_into().ok());
            let slot_bytes = slot_bytes.map_or(0, u32::from_le_bytes).max(16) as usize;
            (4096..bytes.len()).step_by(slot_bytes).chain([0]).collect()
        }
        Kind::PageCache | Kind::Other => vec![0],
    };
    let mut starts: Vec<u64> = starts.into_iter().map(|start| start as u64).collect();
    starts.sort_unstable();
    starts
}

/// A block of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub file: String,
    pub from: usize,
    pub to: usize,
}

/// Values begin with a unique number that no compression hides.
fn homes(
    bytes: &BTreeMap<String, Vec<u8>>,
    blocks: &BTreeMap<String, Vec<u64>>,
    now: &State,
) -> BTreeMap<(String, Vec<u8>), Vec<Home>> {
    let mut stamps: HashMap<&[u8], (String, Vec<u8>)> = HashMap::new();
    for (name, pairs) in now {
        for (key, value) in pairs {
            stamps.insert(&value[..8], (name.clone(), key.clone()));
        }
    }
    let mut homes: BTreeMap<_, Vec<Home>> = BTreeMap::new();
    for (file, bytes) in bytes {
        for (at, window) in bytes.windows(8).enumerate() {
            let Some(pair) = stamps.get(window) else { continue };
            let starts = &blocks[file];
            let from =
                starts.iter().rev().find(|start| **start <= at as u64).map_or(0, |start| *start as usize);
            // A value may continue in the next block.
            let end = at as u64 + 8;
            let to = starts.iter().find(|start| **start >= end).map_or(bytes.len(), |start| *start as usize);
            let home = Home { file: file.clone(), from, to };
            let homes = homes.entry(pair.clone()).or_default();
            if !homes.contains(&home) {
                homes.push(home);
            }
        }
    }
    homes
}

/// Closed twice, with tables, and logs of two epochs over them.
fn closed(layout: LayoutKind, seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(layout, Durability::Process, Compression::Lz4, seed);
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

/// Killed, with a journal of commits, a write buffer, and logs that are in no checkpoint.
fn killed(layout: LayoutKind, seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(layout, Durability::Process, Compression::Zstd(3), seed);
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
fn power_lost(layout: LayoutKind, seed: u64) -> (Maker, Vec<MemVfs>) {
    let mut maker = Maker::new(layout, Durability::Sync, Compression::None, seed);
    for n in 0..16 {
        maker.put("default", n, 40);
    }
    maker.run(Op::Create("second"));
    maker.run(Op::Compact);
    let older = vec![maker.vfs.kill()];
    maker.logs();
    (maker, older)
}

/// A store of the layout `flsm` that was opened often, and closed soon: its logs were merged into tables
/// with range deletes.
pub fn opened_often(seed: u64) -> Shape {
    let made = |seed| {
        let mut maker = Maker::new(LayoutKind::Flsm, Durability::Process, Compression::None, seed);
        maker.tables();
        maker.close();
        for n in 0..12 {
            maker.open();
            maker.run(Op::One("default", Change::DeleteRange(2 * n, 2 * n + 2 + n % 2)));
            maker.put("default", 2 * n, 50);
            maker.close();
        }
        maker
    };
    let foreign = made(seed.wrapping_add(0x5eed)).vfs.kill();
    made(seed).shape("opened-often", End::Closed, Vec::new(), foreign)
}

/// Every shape.
pub fn all(layout: LayoutKind, seed: u64) -> Vec<Shape> {
    type Make = fn(LayoutKind, u64) -> (Maker, Vec<MemVfs>);
    let shapes: [(&str, End, Make); 4] = [
        ("closed", End::Closed, closed),
        ("killed", End::Killed, killed),
        ("power-lost", End::PowerLost, power_lost),
        ("booted", End::Booted, closed),
    ];
    let make = |(name, end, make): (&'static str, End, Make)| {
        let (maker, mut older) = make(layout, seed);
        if end == End::Booted {
            older = older.iter().map(|vfs| vfs.crash(&CrashPlan::KEEP_ALL)).collect();
        }
        let (other, _) = make(layout, seed.wrapping_add(0x5eed));
        maker.shape(name, end, older, other.vfs.kill())
    };
    shapes.into_iter().map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_was_opened_often_has_range_deletes_in_tables() {
        let shape = opened_often(1);
        let tables = shape.bytes.iter().filter(|(name, _)| Kind::of(name) == Kind::Table);
        assert!(tables.map(|(_, bytes)| footer_bytes(bytes)).any(|bytes| bytes == 48));
    }
}
