//! A random workload, and the states that it goes through.

use crate::layouts::OfChunk;
use crate::rng::Rng;
use cantle::{Db, Durability, Error, Keyspace, KeyspaceOptions, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub type Pairs = BTreeMap<Vec<u8>, Arc<[u8]>>;
/// Every keyspace with its pairs.
pub type State = BTreeMap<String, Pairs>;

/// One change of a pair or a range.
#[derive(Debug, Clone)]
pub enum Change {
    Put(u64, Arc<[u8]>),
    Delete(u64),
    DeleteRange(u64, u64),
}

#[derive(Debug, Clone)]
pub enum Op {
    One(&'static str, Change),
    /// A batch with this change only, durable when it returns, in every durability mode.
    Durable(&'static str, Change),
    Batch(Vec<(&'static str, Change)>),
    /// Reads the keys that it changes. Every other range is deleted key by key, as the keys are
    /// found.
    Transaction(Vec<(&'static str, Change)>),
    Update(u64, u8),
    Create(&'static str),
    Drop(&'static str),
    Metadata(usize),
    Sync,
    Compact,
    /// Compacts the keys from a number to below another.
    CompactRange(u64, u64),
    Backup,
}

pub const KEYS: u64 = 160;
const SPACES: [&str; 3] = ["default", "second", "third"];

pub fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

fn change(rng: &mut Rng, value_bytes: u64) -> Change {
    match rng.below(20) {
        0..=14 => {
            let len = 1 + rng.below(value_bytes) as usize;
            let stamp = rng.next().to_le_bytes();
            let value: Vec<u8> = stamp.iter().copied().cycle().take(len.max(8)).collect();
            Change::Put(rng.below(KEYS), value.into())
        }
        15..=17 => Change::Delete(rng.below(KEYS)),
        18 => {
            let from = rng.below(KEYS);
            Change::DeleteRange(from, from + rng.below(12))
        }
        _ => {
            let from = rng.below(KEYS);
            Change::DeleteRange(from, from + rng.below(KEYS))
        }
    }
}

/// Draws the next operation, one that `state` admits.
pub fn draw(rng: &mut Rng, state: &State, value_bytes: u64) -> Op {
    let names: Vec<&'static str> = SPACES.into_iter().filter(|&name| state.contains_key(name)).collect();
    let space = |rng: &mut Rng| names[rng.below(names.len() as u64) as usize];
    match rng.below(100) {
        0..=69 => Op::One(space(rng), change(rng, value_bytes)),
        // A load in key order, which may fill a log by itself.
        70..=72 => {
            let (name, from) = (space(rng), rng.below(KEYS));
            let put = |rng: &mut Rng, n| match change(rng, 2 * value_bytes) {
                Change::Put(_, value) => Change::Put(n, value),
                _ => Change::Delete(n),
            };
            let upto = (from + 2 + rng.below(40)).min(KEYS);
            Op::Batch((from..upto.max(from + 1)).map(|n| (name, put(rng, n))).collect())
        }
        73..=85 => {
            let count = 2 + rng.below(5);
            let changes = (0..count).map(|_| (space(rng), change(rng, value_bytes / 2 + 1))).collect();
            if rng.below(2) == 0 { Op::Batch(changes) } else { Op::Transaction(changes) }
        }
        86..=89 => Op::Update(rng.below(KEYS), rng.next() as u8),
        90 => match SPACES.into_iter().find(|name| !state.contains_key(*name)) {
            Some(name) => Op::Create(name),
            None => Op::Sync,
        },
        91 if rng.below(2) == 0 => {
            let name = SPACES[1 + rng.below(2) as usize];
            if state.contains_key(name) { Op::Drop(name) } else { Op::Create(name) }
        }
        91 | 92 => Op::Metadata(50_000 + rng.below(10_000) as usize),
        93 | 94 => Op::Sync,
        95 => Op::Durable(space(rng), change(rng, value_bytes)),
        96 | 97 => Op::Compact,
        98 => {
            let from = rng.below(KEYS);
            Op::CompactRange(from, from + 1 + rng.below(KEYS / 4))
        }
        _ => Op::Backup,
    }
}

fn apply_change(pairs: &mut Pairs, change: &Change) {
    match change {
        Change::Put(n, value) => drop(pairs.insert(key(*n), value.clone())),
        Change::Delete(n) => drop(pairs.remove(&key(*n))),
        Change::DeleteRange(from, to) => {
            let doomed: Vec<_> = pairs.range(key(*from)..key(*to)).map(|(key, _)| key.clone()).collect();
            doomed.iter().for_each(|key| drop(pairs.remove(key)));
        }
    }
}

fn updated(old: Option<&[u8]>, with: u8) -> Option<Vec<u8>> {
    match old {
        Some(old) if with.is_multiple_of(4) => (old.len() > 2000).then(|| vec![with; 100]),
        Some(old) => Some(old.iter().map(|byte| byte ^ with).chain([with]).take(3000).collect()),
        None => Some(vec![with; 200]),
    }
}

/// Applies the operation to a state.
pub fn apply(state: &mut State, op: &Op) {
    let mut change_in = |name: &str, change: &Change| {
        if let Some(pairs) = state.get_mut(name) {
            apply_change(pairs, change);
        }
    };
    match op {
        Op::One(name, change) | Op::Durable(name, change) => change_in(name, change),
        Op::Batch(changes) | Op::Transaction(changes) => {
            changes.iter().for_each(|(name, change)| change_in(name, change))
        }
        Op::Update(n, with) => {
            let pairs = state.get_mut("default").unwrap();
            match updated(pairs.get(&key(*n)).map(|value| &value[..]), *with) {
                Some(value) => drop(pairs.insert(key(*n), value.into())),
                None => drop(pairs.remove(&key(*n))),
            }
        }
        Op::Create(name) => drop(state.entry((*name).to_owned()).or_default()),
        Op::Drop(name) => drop(state.remove(*name)),
        Op::Metadata(_) | Op::Sync | Op::Compact | Op::CompactRange(..) | Op::Backup => {}
    }
}

/// True if the keyspaces of an operation exist.
pub fn admits(state: &State, op: &Op) -> bool {
    match op {
        Op::One(name, _) | Op::Durable(name, _) | Op::Drop(name) => state.contains_key(*name),
        Op::Batch(changes) | Op::Transaction(changes) => {
            changes.iter().all(|(name, _)| state.contains_key(*name))
        }
        Op::Update(..) | Op::Create(_) | Op::Metadata(_) | Op::Backup => true,
        Op::Sync | Op::Compact | Op::CompactRange(..) => true,
    }
}

/// The path of the backup of an operation.
pub fn backup_path(serial: u64) -> PathBuf {
    format!("/backup{serial}").into()
}

/// True if all operations up to this one are durable once it has returned.
pub fn is_sync(op: &Op) -> bool {
    matches!(
        op,
        Op::Durable(..) | Op::Create(_) | Op::Metadata(_) | Op::Sync | Op::Compact | Op::CompactRange(..)
    )
}

/// Runs the operation on a store.
pub fn run(db: &Db, op: &Op, options: &KeyspaceOptions, serial: u64) -> Result<(), Error> {
    let space = |name: &str| db.keyspace_with(name, options.clone());
    match op {
        Op::One(name, change) => {
            let space: Keyspace = space(name)?;
            match change {
                Change::Put(n, value) => space.put(key(*n), value),
                Change::Delete(n) => space.delete(key(*n)),
                Change::DeleteRange(from, to) => space.delete_range(key(*from)..key(*to)),
            }
        }
        Op::Durable(name, change) => {
            let mut batch = WriteBatch::new();
            add(&mut batch, &space(name)?, change);
            db.write_with(batch, WriteOptions::new().durability(Durability::Sync))
        }
        Op::Batch(changes) => {
            let mut batch = WriteBatch::new();
            for (name, change) in changes {
                add(&mut batch, &space(name)?, change);
            }
            db.write(batch)
        }
        Op::Transaction(changes) => {
            let tx = db.transaction();
            for (name, change) in changes {
                let space = space(name)?;
                match change {
                    Change::Put(n, value) => {
                        tx.keyspace(&space).contains_key(key(*n))?;
                        tx.keyspace(&space).put(key(*n), value)?;
                    }
                    Change::Delete(n) => tx.keyspace(&space).delete(key(*n))?,
                    Change::DeleteRange(from, to) if from % 2 == 0 => {
                        tx.keyspace(&space).delete_range(key(*from)..key(*to))?;
                    }
                    Change::DeleteRange(from, to) => {
                        for pair in tx.keyspace(&space).range(key(*from)..key(*to)) {
                            tx.keyspace(&space).delete(pair?.0)?;
                        }
                    }
                }
            }
            tx.commit()
        }
        Op::Update(n, with) => db.update(key(*n), |old| updated(old, *with)).map(drop),
        Op::Create(name) => space(name).map(drop),
        Op::Drop(name) => db.drop_keyspace(name),
        Op::Metadata(bytes) => space("default")?.set_metadata(&vec![serial as u8; *bytes]),
        Op::Sync => db.sync(),
        Op::Compact => db.compact_range(..),
        Op::CompactRange(from, to) => db.compact_range(key(*from)..key(*to)),
        Op::Backup => db.backup(backup_path(serial)),
    }
}

fn add(batch: &mut WriteBatch, space: &Keyspace, change: &Change) {
    match change {
        Change::Put(n, value) => batch.keyspace(space).put(key(*n), value),
        Change::Delete(n) => batch.keyspace(space).delete(key(*n)),
        Change::DeleteRange(from, to) => batch.keyspace(space).delete_range(key(*from)..key(*to)),
    };
}

/// Reads until chunks are in memory, if that takes no longer than usual, so that later operations
/// use munks.
pub fn heat(db: &Db) {
    for _ in 0..40 {
        for n in 0..KEYS {
            let _ = db.get(key(n));
        }
        if db.stats().keyspaces.iter().any(|keyspace| keyspace.of_chunk().munks > 0) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The whole contents of the store.
pub fn contents(db: &Db, options: &KeyspaceOptions) -> Result<State, Error> {
    let mut state = State::new();
    for name in db.keyspaces()? {
        let space = db.keyspace_with(&name, options.clone())?;
        let mut pairs = Pairs::new();
        for pair in space.range(..) {
            let (key, value) = pair?;
            pairs.insert(key.to_vec(), value[..].into());
        }
        // Gets take another path than ranges.
        for n in (0..KEYS).step_by(7) {
            let got = space.get(key(n))?;
            assert_eq!(got.as_deref(), pairs.get(&key(n)).map(|value| &value[..]), "get and range disagree");
        }
        state.insert(name, pairs);
    }
    Ok(state)
}

/// Waits until no work in the background is running or about to start.
pub fn settle(db: &Db) {
    let is_busy = || {
        let stats = db.stats();
        stats.maintenance_queued + stats.maintenance_running > 0
    };
    while is_busy() {
        std::thread::yield_now();
    }
}

/// A short description of the differences between two states.
pub fn difference(found: &State, expected: &State) -> String {
    let mut out = String::new();
    let names: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    for name in names {
        match (found.get(name), expected.get(name)) {
            (Some(found), Some(expected)) => {
                let keys: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
                for key in keys {
                    let show = |value: Option<&Arc<[u8]>>| {
                        value.map(|value| {
                            format!("{} bytes {:02x?}", value.len(), &value[..4.min(value.len())])
                        })
                    };
                    if found.get(key) != expected.get(key) {
                        out += &format!(
                            "\n  {name} {}: found {:?}, expected {:?}",
                            key.escape_ascii(),
                            show(found.get(key)),
                            show(expected.get(key))
                        );
                    }
                }
            }
            (found, _) => {
                out +=
                    &format!("\n  keyspace {name} is {}", if found.is_some() { "there" } else { "missing" })
            }
        }
    }
    out
}
