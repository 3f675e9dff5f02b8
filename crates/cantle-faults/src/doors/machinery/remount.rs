//! A process is killed, its volume is changed, and the next opening finds all acknowledged writes,
//! or the last checkpoint: the expected result of each pair of a file system and an act.
//!
//! The process makes one write after another in the default durability, with one sync or one
//! closing in between, and no other checkpoint. Hence a cell is exact. *Everything* means all
//! acknowledged writes, and at most the write that was running. *The last checkpoint* means exactly
//! the writes that the sync covered; if nothing else was lost, the opening counts exactly the
//! writes that it ignores, and a repair keeps them.

use super::child::{Part, Role, Running, say};
use super::disks::{Image, Kind, Mounted, are_possible, run};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, KeyspaceOptions, LayoutKind, Options, WriteBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Enough for a write buffer, which wants 2 GiB of free space.
const IMAGE_BYTES: u64 = 3 << 30;
/// Writes in all, few enough that no log is full and none of them makes a checkpoint.
const OPS_MAX: u64 = 3000;
const KEYS: u64 = 500;

/// An event around the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Nothing more.
    Kill,
    /// The volume is read-only for a moment, and stays mounted.
    Remount,
    Unmount,
    /// The file system loses what it has not written to its journal, then is mounted anew.
    Shutdown,
    /// The device loses what it was not given yet, then is mounted anew.
    Cut,
    /// `cp -a` to the same file system.
    Copy,
    /// `cp -a` to another one.
    CopyAway,
    /// A snapshot of the subvolume while the store is open.
    SnapshotOpen,
    /// A snapshot of the subvolume after the kill.
    SnapshotKilled,
}

/// The result of the next opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Everything,
    /// The writes that the last checkpoint covers; the rest is all there, and is counted.
    CheckpointAllTold,
    /// The same, and of the rest as much is counted as is there.
    Checkpoint,
}

use Expected::{Checkpoint, CheckpointAllTold, Everything};

/// The matrix of docs/reliability.md.
const CELLS: &[(Kind, Act, Expected, &str)] = &[
    (Kind::Ext4, Act::Kill, Everything, "ext4, kill: everything"),
    (Kind::Ext4, Act::Remount, Everything, "ext4, kill, remount: everything"),
    (Kind::Ext4, Act::Unmount, CheckpointAllTold, "ext4, kill, unmount, mount: the last checkpoint, told"),
    (Kind::Ext4, Act::Shutdown, Checkpoint, "ext4, kill, shutdown, mount: the last checkpoint"),
    (Kind::Ext4, Act::Cut, Checkpoint, "ext4, kill, power off, mount: the last checkpoint"),
    (Kind::Ext4, Act::Copy, Everything, "ext4, kill, cp -a: everything"),
    (Kind::Ext4, Act::CopyAway, CheckpointAllTold, "ext4, kill, cp -a elsewhere: the last checkpoint, told"),
    (Kind::Xfs, Act::Kill, Everything, "xfs, kill: everything"),
    (Kind::Xfs, Act::Remount, Everything, "xfs, kill, remount: everything"),
    (Kind::Xfs, Act::Unmount, CheckpointAllTold, "xfs, kill, unmount, mount: the last checkpoint, told"),
    (Kind::Xfs, Act::Shutdown, Checkpoint, "xfs, kill, shutdown, mount: the last checkpoint"),
    (Kind::Xfs, Act::Cut, Checkpoint, "xfs, kill, power off, mount: the last checkpoint"),
    (Kind::Xfs, Act::Copy, Everything, "xfs, kill, cp -a: everything"),
    (Kind::Xfs, Act::CopyAway, CheckpointAllTold, "xfs, kill, cp -a elsewhere: the last checkpoint, told"),
    (Kind::Btrfs, Act::Kill, Everything, "btrfs, kill: everything"),
    (Kind::Btrfs, Act::Remount, Everything, "btrfs, kill, remount: everything"),
    (Kind::Btrfs, Act::Unmount, CheckpointAllTold, "btrfs, kill, unmount, mount: the last checkpoint, told"),
    (Kind::Btrfs, Act::Cut, Checkpoint, "btrfs, kill, power off, mount: the last checkpoint"),
    (Kind::Btrfs, Act::Copy, Everything, "btrfs, kill, cp -a: everything"),
    (
        Kind::Btrfs,
        Act::CopyAway,
        CheckpointAllTold,
        "btrfs, kill, cp -a elsewhere: the last checkpoint, told",
    ),
    (Kind::Btrfs, Act::SnapshotOpen, Checkpoint, "btrfs, snapshot of an open store: the last checkpoint"),
    (Kind::Btrfs, Act::SnapshotKilled, CheckpointAllTold, "btrfs, kill, snapshot: the last checkpoint, told"),
];

pub fn enter(visit: &Visit) {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|&kind| are_possible(visit, kind)).collect();
    for seed in visit.rounds() {
        for &kind in &kinds {
            if visit.is_over() {
                break;
            }
            let image = Image::new(kind, IMAGE_BYTES).unwrap_or_else(|error| panic!("{error}"));
            for &(_, act, expected, name) in CELLS.iter().filter(|cell| cell.0 == kind) {
                let cell = Cell { visit, image: &image, act, expected, seed };
                cell.check().unwrap_or_else(|found| panic!("{name}, seed {seed}: {found}"));
                visit.count(name, 1);
            }
        }
    }
}

/// The number of writes before the sync.
fn synced(seed: u64) -> u64 {
    1 + Rng::new(seed).below(OPS_MAX / 4)
}

/// True if the store is closed and opened again in place of the sync: then the process that dies
/// has made no checkpoint.
fn is_reopened(seed: u64) -> bool {
    seed % 3 == 1
}

/// To which keyspace, which key, and which value; without one it is deleted.
type Change = (&'static str, String, Option<String>);

/// Write `n`: one change, or a batch of several.
fn op(seed: u64, n: u64) -> Vec<Change> {
    let mut rng = Rng::new(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut change = |keyspace| {
        let key = format!("{:04}", rng.below(KEYS));
        let length = [0, 20, 100, 1000][rng.below(4) as usize];
        let value = format!("{n} {}", "v".repeat(length));
        (keyspace, key, (rng.below(8) > 0).then_some(value))
    };
    match n % 7 {
        0 => vec![change("second")],
        1 => vec![change("default"), change("second")],
        _ => vec![change("default")],
    }
}

/// The number of records of a range of writes.
fn records(seed: u64, ops: std::ops::Range<u64>) -> u64 {
    ops.map(|n| op(seed, n).len() as u64).sum()
}

type State = BTreeMap<(&'static str, String), String>;

fn state_after(seed: u64, ops: u64) -> State {
    let mut state = State::new();
    for (keyspace, key, value) in (0..ops).flat_map(|n| op(seed, n)) {
        match value {
            Some(value) => drop(state.insert((keyspace, key), value)),
            None => drop(state.remove(&(keyspace, key))),
        }
    }
    state
}

fn options(layout: LayoutKind) -> Options {
    // Only the checkpoints that the process asks for.
    let options = Options::new().memory_budget(64 << 20).checkpoint_interval(Duration::from_secs(3600));
    options.default_keyspace(KeyspaceOptions::new().layout(layout))
}

/// The part of the child.
pub fn play(part: &Part) {
    if let Err(error) = fill(part) {
        say(format!("failed: {error}"));
    }
}

fn fill(part: &Part) -> cantle::Result<()> {
    let (path, layout, seed) = (&part.path, part.layout, part.seed);
    let mut db = options(layout).open(path)?;
    let synced = synced(seed);
    for n in 0..OPS_MAX {
        if n == synced {
            if is_reopened(seed) {
                db.close()?;
                db = options(layout).open(path)?;
            } else {
                db.sync()?;
            }
            say(format!("synced {n}"));
        }
        write(&db, op(seed, n))?;
        say(format!("done {}", n + 1));
    }
    say("filled");
    loop {
        std::thread::park();
    }
}

fn write(db: &Db, changes: Vec<Change>) -> cantle::Result<()> {
    let second = db.keyspace_with("second", KeyspaceOptions::new().layout(db.layout()))?;
    let mut batch = WriteBatch::new();
    for (keyspace, key, value) in changes {
        match (keyspace, value) {
            ("second", Some(value)) => _ = batch.keyspace(&second).put(key, value),
            ("second", None) => _ = batch.keyspace(&second).delete(key),
            (_, Some(value)) => _ = batch.put(key, value),
            (_, None) => _ = batch.delete(key),
        }
    }
    db.write(batch)
}

struct Cell<'a> {
    visit: &'a Visit,
    image: &'a Image,
    act: Act,
    expected: Expected,
    seed: u64,
}

impl Cell<'_> {
    fn check(&self) -> Result<(), String> {
        let Self { visit, image, act, seed, .. } = *self;
        let mut rng = Rng::new(seed ^ act as u64);
        let mut mounted = image.mount()?;
        let of_subvolume = act == Act::SnapshotOpen || image.kind == Kind::Btrfs && rng.below(2) == 0;
        let volume = mounted.dir().join("volume");
        let snapshot = mounted.dir().join("snapshot");
        match of_subvolume || act == Act::SnapshotKilled {
            true => subvolume(&["create", &volume.to_string_lossy()])?,
            false => std::fs::create_dir(&volume).map_err(text)?,
        }
        let store = volume.join("store");
        let (role, durability) = (Role::Fill, Durability::Process);
        let part = Part { role, path: store.clone(), layout: visit.layout, durability, seed };
        let mut child = Running::start(&mut part.command(&visit.program));
        if !child.wait_for("synced") {
            return Err(format!("{:?}", child.kill().lines.last()));
        }
        match rng.below(4) {
            0 => drop(child.wait_for("filled")),
            _ => std::thread::sleep(Duration::from_micros(rng.below(20_000))),
        }
        let take_snapshot =
            || subvolume(&["snapshot", &volume.to_string_lossy(), &snapshot.to_string_lossy()]);
        if act == Act::SnapshotOpen {
            take_snapshot()?;
        }
        let ended = child.kill();
        if let Some(found) = ended.is_by_itself() {
            return Err(found);
        }
        visit.count("processes killed", 1);
        let number =
            |word: &str| ended.lines.iter().rev().find_map(|line| line.strip_prefix(word)?.parse().ok());
        if let Some(failure) = ended.lines.iter().find(|line| line.starts_with("failed")) {
            return Err(failure.clone());
        }
        let synced = synced(seed);
        let outcome = Outcome {
            layout: visit.layout,
            expected: self.expected,
            seed,
            synced,
            acknowledged: number("done ").unwrap_or(synced),
        };
        let whole = Outcome { expected: Everything, ..outcome };

        let checked = |path: &Path, outcome: &Outcome| -> Result<(), String> {
            let is_read_only_first = rng.clone().below(2) == 0;
            outcome
                .check(path, &image.beside().join("kept"), is_read_only_first)
                .map_err(|found| format!("{}: {found}", path.display()))?;
            visit.count("stores checked", 1);
            Ok(())
        };
        match act {
            Act::Kill => checked(&store, &outcome)?,
            Act::Remount => {
                mounted.remount()?;
                checked(&store, &outcome)?;
            }
            Act::Unmount => {
                mounted.unmount()?;
                mounted = image.mount()?;
                checked(&store, &outcome)?;
            }
            Act::Shutdown => {
                mounted.shut_down().map_err(text)?;
                mounted.unmount()?;
                visit.count("losses of power", 1);
                mounted = image.mount()?;
                checked(&store, &outcome)?;
            }
            Act::Cut => {
                image.cut_off(|| mounted.unmount())?;
                visit.count("losses of power", 1);
                mounted = image.mount()?;
                checked(&store, &outcome)?;
            }
            Act::Copy | Act::CopyAway => {
                let copy = match act {
                    Act::Copy => volume.join("copy"),
                    _ => image.beside().join("copy"),
                };
                run("cp", &["-a", &store.to_string_lossy(), &copy.to_string_lossy()])?;
                checked(&copy, &outcome)?;
                std::fs::remove_dir_all(&copy).map_err(text)?;
                checked(&store, &whole)?;
            }
            Act::SnapshotOpen | Act::SnapshotKilled => {
                if act == Act::SnapshotKilled {
                    take_snapshot()?;
                }
                checked(&snapshot.join("store"), &outcome)?;
                checked(&store, &whole)?;
            }
        }
        self.clear(mounted, &[volume, snapshot])
    }

    /// Frees space for the next cell.
    fn clear(&self, mounted: Mounted, volumes: &[PathBuf]) -> Result<(), String> {
        for volume in volumes.iter().filter(|volume| volume.exists()) {
            if self.image.kind != Kind::Btrfs || subvolume(&["delete", &volume.to_string_lossy()]).is_err() {
                std::fs::remove_dir_all(volume).map_err(text)?;
            }
        }
        mounted.unmount()
    }
}

fn subvolume(arguments: &[&str]) -> Result<(), String> {
    run("btrfs", &[&["subvolume"], arguments].concat()).map(drop)
}

fn text(error: std::io::Error) -> String {
    error.to_string()
}

/// The state that must be found.
struct Outcome {
    layout: LayoutKind,
    expected: Expected,
    seed: u64,
    synced: u64,
    acknowledged: u64,
}

impl Outcome {
    fn check(&self, path: &Path, scratch: &Path, is_read_only_first: bool) -> Result<(), String> {
        if self.expected == CheckpointAllTold {
            self.check_kept(path, scratch)?;
        }
        if is_read_only_first {
            let db = options(self.layout)
                .read_only(true)
                .open(path)
                .map_err(|error| format!("cannot open: {error}"))?;
            self.check_open(&db).map_err(|found| format!("opened for reading: {found}"))?;
        }
        let db = options(self.layout).open(path).map_err(|error| format!("cannot open: {error}"))?;
        let found = self.check_open(&db)?;
        let report = db.verify().map_err(|error| format!("cannot verify: {error}"))?;
        if !report.is_ok() {
            return Err(format!("{report:?}"));
        }
        // The store can be written to, and the ignored writes do not come back.
        db.put("new", "pair").map_err(|error| error.to_string())?;
        db.close().map_err(|error| format!("cannot close: {error}"))?;
        let db = options(self.layout).open(path).map_err(|error| format!("cannot open again: {error}"))?;
        db.delete("new").map_err(|error| error.to_string())?;
        if contents(&db)? != found {
            return Err("opened again, it holds something else".into());
        }
        Ok(())
    }

    /// With `keep_left_behind` a repair keeps the data that an opening would ignore: here that is
    /// everything.
    fn check_kept(&self, path: &Path, kept: &Path) -> Result<(), String> {
        let report = Db::repair(path, kept, options(self.layout).keep_left_behind(true));
        let report = report.map_err(|error| format!("cannot repair: {error}"))?;
        let db = options(self.layout)
            .open(kept)
            .map_err(|error| format!("cannot open what was repaired: {error}"))?;
        let found = contents(&db)?;
        db.close().map_err(|error| format!("cannot close: {error}"))?;
        std::fs::remove_dir_all(kept).map_err(text)?;
        let is_after = |ops: u64| found == state_after(self.seed, ops);
        if !report.is_ok() || !(is_after(self.acknowledged) || is_after(self.acknowledged + 1)) {
            return Err(format!("a repair keeps {} pairs, not everything: {report:?}", found.len()));
        }
        Ok(())
    }

    /// The contents of an open store, if they are as expected.
    fn check_open(&self, db: &Db) -> Result<State, String> {
        let Self { expected, seed, synced, acknowledged, .. } = *self;
        let found = contents(db)?;
        let told = loop {
            let stats = db.stats();
            if !stats.left_behind_pending {
                break stats.left_behind_records;
            }
            std::thread::yield_now();
        };
        let is_after = |ops: u64| found == state_after(seed, ops);
        // The write that was running when the process died may be there, too.
        let rest = records(seed, synced..acknowledged)..=records(seed, synced..acknowledged + 1);
        let (is_right, is_told) = match expected {
            Everything => (is_after(acknowledged) || is_after(acknowledged + 1), told == 0),
            CheckpointAllTold => (is_after(synced), rest.contains(&told)),
            Checkpoint => (is_after(synced), told <= *rest.end()),
        };
        if !is_right {
            let ops = (0..=OPS_MAX).find(|&ops| is_after(ops));
            return Err(format!(
                "expected {expected:?} with {synced} writes synced and {acknowledged} acknowledged, found what is \
                 there after {ops:?}"
            ));
        }
        if !is_told {
            return Err(format!(
                "{told} records are said to be left behind; {synced} writes were synced, {acknowledged} acknowledged"
            ));
        }
        Ok(found)
    }
}

fn contents(db: &Db) -> Result<State, String> {
    let text = |error: cantle::Error| format!("cannot read: {error}");
    let second = db.keyspace_with("second", KeyspaceOptions::new().layout(db.layout())).map_err(text)?;
    let mut state = State::new();
    for (name, pairs) in [("default", db.range(..)), ("second", second.range(..))] {
        for pair in pairs {
            let (key, value) = pair.map_err(text)?;
            let [key, value] =
                [&key[..], &value[..]].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            state.insert((name, key), value);
        }
    }
    Ok(state)
}
