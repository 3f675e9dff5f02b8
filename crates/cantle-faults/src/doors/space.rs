//! Disk space of a store, in allocated blocks, against the bounds in the README: values of all
//! lengths, written, overwritten and deleted in all ways, with closing, killing and opening in
//! between.
//!
//! Deletes on a full disk make room for other data, and range deletes too; a snapshot from before sees everything
//! until it goes.
//!
//! If a keyspace compresses, values of one letter use less space than their length once the store
//! is idle.
//!
//! `cargo test` runs it in memory, at an eighth of the size. A longer visit runs it on the real
//! file system (`TMPDIR`) as well, at full size, without killing.
//!
//! No time is measured: a finding is a store that uses more space than allowed and has no work
//! left.

use crate::filling::{check, eventually, fill};
use crate::layouts::{OfChunk, Tuned};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::vfs::MemVfs;
use cantle::{
    ChunkOptions, Compression, Db, Durability, FlsmOptions, ForestOptions, KeyspaceOptions, LayoutKind,
    LayoutOptions, Options,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Divisor of all sizes for stores in memory.
const SCALE: u64 = 8;
const LIVE_BYTES: u64 = 96 << 20;
const PAIRS_MAX: u64 = 160_000;
const PAIR_BYTES: u64 = 16;
const SPARE_BYTES_MAX: u64 = 512 << 20;
/// Allowed bytes of any store, in addition to those in proportion to its data.
const FIXED_BYTES: u64 = 64 << 20;
const REGION_BYTES: u64 = 8 << 20;
const BUDGETS: [u64; 2] = [64 << 20, 1 << 30];
const BOUNDS: [Option<f64>; 3] = [Some(1.25), None, Some(1.5)];
/// Number of polls without work after which a store is considered to be idle.
const IDLE_POLLS: u32 = 150;
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Fifo,
    Overwrite,
    Shrink,
    Grow,
    DeleteAll,
    DeleteHalf,
}

const CHANGES: [Change; 6] =
    [Change::Fifo, Change::Overwrite, Change::Shrink, Change::Grow, Change::DeleteAll, Change::DeleteHalf];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    /// Values of all lengths.
    Mixed,
}

const LENGTHS: [Length; 8] = [
    Length::Bytes(1 << 20),
    Length::Bytes(0),
    Length::Bytes(100),
    Length::Bytes(4 << 10),
    Length::Bytes(4 << 20),
    Length::Mixed,
    Length::Bytes(100_000),
    Length::Bytes(16),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reopening {
    None,
    Closed,
    Killed,
}

const REOPENINGS: [Reopening; 3] = [Reopening::None, Reopening::Closed, Reopening::Killed];

#[derive(Debug, Clone, Copy)]
struct Case {
    change: Change,
    length: Length,
    budget_bytes: u64,
    bound: Option<f64>,
    reopening: Reopening,
}

/// The place of a store.
enum Place {
    Memory(MemVfs),
    Disk(PathBuf),
}

impl Place {
    fn scale(&self) -> u64 {
        if matches!(self, Self::Memory(_)) { SCALE } else { 1 }
    }

    fn allocated_bytes(&self) -> u64 {
        match self {
            Self::Memory(vfs) => vfs.allocated_bytes(),
            Self::Disk(path) => allocated_in(path),
        }
    }
}

fn allocated_in(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let blocks = |entry: std::io::Result<std::fs::DirEntry>| {
        // A file that was removed since takes no space.
        entry.and_then(|entry| entry.metadata()).map_or(0, |metadata| metadata.blocks())
    };
    512 * entries.map(blocks).sum::<u64>()
}

pub fn enter(visit: &Visit) {
    if !visit.is_capable("free space", |layout| layout.frees_space) {
        return;
    }
    let wanted = |name: &str| visit.case.as_ref().is_none_or(|case| case == name);
    for seed in visit.rounds() {
        let mut cases = Vec::new();
        for (number, (change, length)) in
            CHANGES.into_iter().flat_map(|change| LENGTHS.map(|length| (change, length))).enumerate()
        {
            // In turns, which differ for each seed and for each change.
            let turn = number + number / LENGTHS.len() + seed as usize % 18;
            let case = Case {
                change,
                length,
                budget_bytes: BUDGETS[turn % 2],
                bound: BOUNDS[turn / 2 % 3],
                reopening: REOPENINGS[turn % 3],
            };
            cases.push(case);
        }
        visit.each(&cases, |case| {
            let name = format!("{case:?}");
            if wanted(&name) {
                let mut place = Place::Memory(MemVfs::without_history());
                run(visit, case, &mut place, seed);
            }
        });
        // Values of one letter, each of about this length.
        visit.each(&[100, 4 << 10, 100_000, 1 << 20], |&value_bytes: &u64| {
            for reopening in REOPENINGS {
                if wanted(&format!("compressed {value_bytes} {reopening:?}")) {
                    compressed(visit.layout, value_bytes, reopening);
                    visit.count("stores that compress", 1);
                }
            }
        });
        for durability in [Durability::Process, Durability::Buffered] {
            for by_range in [false, true] {
                if wanted(&format!("full {durability:?}, by range {by_range}")) {
                    full(visit.layout, seed, durability, by_range);
                    visit.count("full disks that had room again", 1);
                }
            }
        }
        if !visit.is_long() {
            continue;
        }
        for case in cases.iter().filter(|case| case.reopening != Reopening::Killed) {
            if visit.is_over() {
                return;
            }
            if wanted(&format!("{case:?}")) {
                let dir = tempfile::tempdir().unwrap();
                run(visit, case, &mut Place::Disk(dir.path().join("store")), seed);
                visit.count("stores on the file system", 1);
            }
        }
    }
}

/// Fills a store that compresses with compressible values, and waits until it uses little space.
fn compressed(layout: LayoutKind, value_bytes: u64, reopening: Reopening) {
    const BYTES: u64 = 10_000_000;
    let mut vfs = MemVfs::without_history();
    let open = |vfs: &MemVfs| {
        let keyspace = KeyspaceOptions::new().layout(layout).compression(Compression::Lz4);
        let options =
            Options::new().default_keyspace(keyspace).checkpoint_interval(Duration::from_millis(200));
        options.write_buffer(false).vfs(Arc::new(vfs.clone())).open("store").unwrap()
    };
    let mut db = open(&vfs);
    let value = vec![b'x'; value_bytes as usize];
    for number in 0..BYTES / value_bytes {
        db.put(number.to_be_bytes(), &value).unwrap();
    }
    match reopening {
        Reopening::None => {}
        Reopening::Closed => {
            db.close().unwrap();
            db = open(&vfs);
        }
        Reopening::Killed => {
            let killed = vfs.kill();
            drop(std::mem::replace(&mut db, open(&killed)));
            vfs = killed;
        }
    }
    for _ in 0..10 * IDLE_POLLS {
        if vfs.allocated_bytes() < BYTES / 2 {
            return;
        }
        std::thread::sleep(POLL);
    }
    let (allocated, stats) = (vfs.allocated_bytes(), db.stats());
    let logs = stats.keyspaces[0].log_bytes;
    panic!(
        "{BYTES} bytes of one letter in values of {value_bytes}, {reopening:?}: {allocated} allocated, of logs {logs}"
    );
}

/// Fills the disk, deletes pairs, and waits until there is room again for a third of them, without asking for a
/// compaction: every second key of three quarters, or all keys of three quarters in a range.
fn full(layout: LayoutKind, seed: u64, durability: Durability, by_range: bool) {
    let disk = MemVfs::without_history();
    disk.set_capacity_bytes(Some(32 << 20));
    let layout = match layout {
        LayoutKind::Flsm => FlsmOptions::new().generation_bytes(256 << 10).guard_bytes(1 << 20).into(),
        LayoutKind::Forest => {
            ForestOptions::new().generation_bytes(256 << 10).sub_tree_bytes(256 << 10).into()
        }
        LayoutKind::Chunk => ChunkOptions::new().chunk_bytes(256 << 10).into(),
        layout => LayoutOptions::from(layout),
    };
    let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
    let options = options.durability(durability).checkpoint_interval(Duration::from_millis(200));
    let db = options.vfs(Arc::new(disk)).open("store").unwrap();
    let (mut values, mut rng) = (BTreeMap::new(), Rng::new(seed));
    assert!(fill(&db, &mut values, &mut rng), "the disk never got full");
    let full_pairs = values.len();
    if by_range {
        delete_range_under_snapshot(&db, &mut values, full_pairs / 4 * 3);
    } else {
        let doomed: Vec<_> = values.keys().take(full_pairs / 4 * 3).step_by(2).cloned().collect();
        for key in doomed {
            db.delete(&key).unwrap();
            values.remove(&key);
        }
    }
    let aim = values.len() + full_pairs / 8;
    while values.len() < aim {
        eventually(&db, "a put after deletes", || db.put("healed", "1"));
        values.insert(b"healed".to_vec(), b"1".to_vec());
        fill(&db, &mut values, &mut rng);
    }
    check(&db, &values);
}

/// Deletes the first pairs by one range delete, and gives maintenance time to drop what a snapshot still sees.
fn delete_range_under_snapshot(db: &Db, values: &mut BTreeMap<Vec<u8>, Vec<u8>>, pairs: usize) {
    let snapshot = db.snapshot();
    let end = values.keys().nth(pairs).unwrap().clone();
    db.delete_range(..&end[..]).unwrap();
    std::thread::sleep(IDLE_POLLS / 2 * POLL);
    let seen: Vec<_> = snapshot.range(..).map(|pair| pair.unwrap()).collect();
    assert!(
        seen.iter()
            .map(|(key, value)| (&key[..], &value[..]))
            .eq(values.iter().map(|(k, v)| (&k[..], &v[..]))),
        "a snapshot sees {} pairs of {} after a range delete on a full disk",
        seen.len(),
        values.len()
    );
    values.retain(|key, _| *key >= end);
}

/// A store, and its expected contents.
struct Run<'a> {
    layout: LayoutKind,
    case: &'a Case,
    place: &'a mut Place,
    db: Option<Db>,
    /// Length of the value, by the number of its key.
    values: Vec<Option<u64>>,
    /// Bytes of these keys and values, and of the pairs' overhead.
    live_bytes: u64,
    bytes: Vec<u8>,
    rng: Rng,
}

fn run(visit: &Visit, case: &Case, place: &mut Place, seed: u64) {
    let bytes = vec![7; 4 << 20];
    let (layout, rng) = (visit.layout, Rng::new(seed));
    let mut run = Run { layout, case, place, db: None, values: Vec::new(), live_bytes: 0, bytes, rng };
    run.db = Some(run.open());
    run.fill();
    run.reopen();
    run.change();
    run.reopen();
    run.settle();
    visit.count("stores", 1);
}

fn pair_bytes(value_bytes: Option<u64>) -> u64 {
    value_bytes.map_or(0, |value_bytes| value_bytes + 8 + PAIR_BYTES)
}

impl Run<'_> {
    fn open(&self) -> Db {
        let scale = self.place.scale();
        let layout = LayoutOptions::from(self.layout).with_regions(REGION_BYTES / scale).with_storing(1);
        let mut keyspace = KeyspaceOptions::new().layout(layout);
        if let Some(bound) = self.case.bound {
            keyspace = keyspace.space_amplification(bound);
        }
        let options = Options::new().memory_budget(self.case.budget_bytes / scale);
        match &*self.place {
            // The write buffer has the same size at every scale.
            Place::Memory(vfs) => options
                .default_keyspace(keyspace)
                .write_buffer(false)
                .checkpoint_interval(Duration::from_millis(200))
                .vfs(Arc::new(vfs.clone()))
                .open("store"),
            Place::Disk(path) => options.default_keyspace(keyspace).open(path),
        }
        .unwrap()
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        match self.case.reopening {
            Reopening::None => return,
            Reopening::Closed => drop(self.db.take()),
            Reopening::Killed => {
                let Place::Memory(vfs) = &mut *self.place else { return };
                let killed = vfs.kill();
                *vfs = killed;
                drop(self.db.take());
            }
        }
        self.db = Some(self.open());
    }

    fn length(&mut self) -> u64 {
        let bytes = match self.case.length {
            Length::Bytes(bytes) => bytes,
            Length::Mixed => {
                // About the same number of bytes in values of each length.
                let draw = self.rng.next();
                let longest = 4 << (2 * (draw % 11));
                if draw / 16 % longest < 16 { longest } else { draw % 16 }
            }
        };
        if bytes > 1000 { bytes / self.place.scale() } else { bytes }
    }

    fn put(&mut self, number: u64, value_bytes: u64) {
        let value = &self.bytes[..value_bytes as usize];
        self.db.as_ref().unwrap().put(number.to_be_bytes(), value).unwrap();
        let number = number as usize;
        if self.values.len() <= number {
            self.values.resize(number + 1, None);
        }
        let before = self.values[number].replace(value_bytes);
        self.live_bytes += pair_bytes(Some(value_bytes));
        self.live_bytes -= pair_bytes(before);
    }

    fn delete(&mut self, number: u64) {
        self.db().delete(number.to_be_bytes()).unwrap();
        let before = self.values[number as usize].take();
        self.live_bytes -= pair_bytes(before);
    }

    fn fill(&mut self) {
        let scale = self.place.scale();
        let mut left = LIVE_BYTES / scale;
        for number in 0..PAIRS_MAX / scale {
            let length = self.length();
            left = left.saturating_sub(length + 8 + PAIR_BYTES);
            self.put(number, if self.case.change == Change::Grow { 4.min(length) } else { length });
            if left == 0 {
                return;
            }
        }
    }

    fn change(&mut self) {
        let pairs = self.values.len() as u64;
        match self.case.change {
            Change::Fifo => {
                for number in pairs..4 * pairs {
                    let length = self.length();
                    self.put(number, length);
                    self.delete(number - pairs);
                }
            }
            Change::Overwrite => {
                for _ in 0..3 * pairs {
                    let (number, length) = (self.rng.below(pairs), self.length());
                    self.put(number, length);
                }
            }
            Change::Shrink => {
                for number in self.shuffled(pairs) {
                    let length = self.length() / 1000;
                    self.put(number, length);
                }
            }
            Change::Grow => {
                for number in self.shuffled(pairs) {
                    let length = self.length();
                    self.put(number, length);
                }
            }
            Change::DeleteAll => self.shuffled(pairs).into_iter().for_each(|number| self.delete(number)),
            Change::DeleteHalf => (0..pairs).step_by(2).for_each(|number| self.delete(number)),
        }
    }

    fn shuffled(&mut self, count: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        for last in (1..numbers.len()).rev() {
            let other = self.rng.below(last as u64 + 1) as usize;
            numbers.swap(last, other);
        }
        numbers
    }

    /// Maximum number of bytes that the store may use.
    fn promised_bytes(&self) -> u64 {
        let scale = self.place.scale();
        let live = self.live_bytes;
        let times = |bound: f64| (live as f64 * bound) as u64;
        let spare = (self.case.budget_bytes / 2).min(SPARE_BYTES_MAX) / scale;
        self.case.bound.map_or((live + spare).max(times(1.5)), times) + FIXED_BYTES / scale
    }

    /// Waits until the store uses no more than it may.
    fn settle(&self) {
        let promised = self.promised_bytes();
        let mut idle = 0;
        let mut last = None;
        while idle < IDLE_POLLS {
            let allocated = self.place.allocated_bytes();
            if allocated <= promised {
                return;
            }
            std::thread::sleep(POLL);
            let stats = self.db().stats();
            let keyspace = &stats.keyspaces[0];
            let done = (
                stats.checkpoints,
                keyspace.of_chunk().rebalances,
                keyspace.of_chunk().splits,
                keyspace.of_chunk().merges,
                allocated,
            );
            let is_idle = stats.maintenance_queued + stats.maintenance_running == 0 && last == Some(done);
            idle = if is_idle { idle + 1 } else { 0 };
            last = Some(done);
        }
        panic!("{:?} takes {} for good, {promised} bytes at most were promised", self.case, self.taken());
    }

    /// The space that the store uses, by purpose.
    fn taken(&self) -> String {
        let stats = self.db().stats();
        let keyspace = &stats.keyspaces[0];
        format!(
            "{} bytes (logs {}, tables {}, unclaimed {}, held {}; writes were delayed by {:?}; live {}, in truth {})",
            self.place.allocated_bytes(),
            keyspace.log_bytes,
            keyspace.table_bytes,
            keyspace.unclaimed_bytes,
            keyspace.held_bytes,
            stats.write_delay_total,
            keyspace.live_bytes,
            self.live_bytes,
        )
    }
}
