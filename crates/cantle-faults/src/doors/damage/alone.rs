//! Damage to one record of a log that is neither covered by a checkpoint nor indexed: its own key
//! cannot be read, every other key can. Records are tiny, or longer than any window in which a
//! reader searches for the next record.

use crate::files::{Kind, names, path, read};
use crate::layouts::Tuned;
use crate::memory;
use crate::rng::Rng;
use crate::sealed::{Record, operation, whole_records};
use crate::setup::STORE;
use crate::visit::Visit;
use crate::workload::key;
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{Error, KeyspaceOptions, LayoutKind, LayoutOptions, Options, WriteBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longer than a former search window of 4 MiB.
const LONG_BYTES: usize = (4 << 20) + 4321;
/// One record in this many is long.
const LONG_ONE_IN: u64 = 24;
const KEYS: u64 = 40;
const RECORDS: u64 = 64;
/// Number of damages done to a store in the short form.
const DAMAGES: u64 = 120;

/// A store whose process died, and its contents.
struct Store {
    layout: LayoutKind,
    is_long: bool,
    vfs: MemVfs,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn options(layout: LayoutKind, vfs: &MemVfs) -> Options {
    // Buffered data are in no log.
    let keyspace = KeyspaceOptions::new().layout(LayoutOptions::from(layout).with("munks", false));
    Options::new()
        .write_buffer(false)
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(8 << 20)
        .background_threads(1)
        .checkpoint_interval(Duration::from_secs(3600))
        .default_keyspace(keyspace)
}

fn value(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next().to_le_bytes()).take(bytes).collect()
}

fn make(layout: LayoutKind, is_long: bool, rng: &mut Rng) -> Store {
    let vfs = MemVfs::new();
    let db = options(layout, &vfs).open(STORE).unwrap();
    let mut pairs = BTreeMap::new();
    for n in 0..KEYS {
        let value = value(rng, 20);
        db.put(key(n), &value).unwrap();
        pairs.insert(key(n), value);
    }
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    let mut written = 0;
    while written < RECORDS {
        let mut batch = WriteBatch::new();
        for _ in 0..1 + rng.below(5).saturating_sub(2) {
            written += 1;
            let (key, draw) = (key(rng.below(KEYS)), rng.below(20));
            if draw == 0 {
                batch.delete(&key);
                pairs.remove(&key);
                continue;
            }
            let bytes = match rng.below(LONG_ONE_IN) {
                0 if is_long => LONG_BYTES,
                n if n % 4 == 1 => 200 + rng.below(200) as usize,
                _ => rng.below(12) as usize,
            };
            let value = value(rng, bytes);
            batch.put(&key, &value);
            pairs.insert(key, value);
        }
        db.write(batch).unwrap();
    }
    let vfs = vfs.kill();
    drop(db);
    Store { layout, is_long, vfs, pairs }
}

/// A damage: a log, the record, the offsets that are changed.
type Damage = (String, Record, Vec<usize>);

pub fn enter(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed ^ 0xa10e);
    for is_long in [false, true] {
        let store = make(visit.layout, is_long, &mut rng);
        let logs = names(&store.vfs).into_iter().filter(|name| Kind::of(name) == Kind::Log);
        let logs: Vec<(String, Vec<u8>)> = logs.map(|name| (name.clone(), read(&store.vfs, &name))).collect();
        let mut damages: Vec<Damage> = Vec::new();
        for (name, bytes) in &logs {
            let records = whole_records(bytes);
            // Damage at the very end of a log looks like an unfinished write.
            for record in &records[..records.len().saturating_sub(1)] {
                if operation(&bytes[record.payload..record.end]).is_none() {
                    continue;
                }
                let head = record.start..record.head_end;
                damages.extend(head.map(|at| (name.clone(), *record, vec![at])));
                let mut within =
                    || record.head_end + rng.below((record.end - record.head_end) as u64) as usize;
                if record.head_end < record.end {
                    damages.extend((0..4).map(|_| (name.clone(), *record, vec![within()])));
                }
                // The whole record.
                damages.push((
                    name.clone(),
                    *record,
                    (record.start..record.end.min(record.start + 512)).collect(),
                ));
            }
        }
        let wanted = if visit.is_long() { 20 * DAMAGES } else { DAMAGES } / if is_long { 4 } else { 1 };
        let step = damages.len().div_ceil(wanted as usize).max(1);
        let from = rng.below(step as u64) as usize;
        let chosen: Vec<Damage> = damages.into_iter().skip(from).step_by(step).collect();
        visit.each(&chosen, |damage| {
            if let Err(wrong) = one(&store, &logs, damage) {
                let (log, record, places) = damage;
                panic!("{log}, record from {} to {}, byte {}: {wrong}", record.start, record.end, places[0]);
            }
            visit.count(
                if is_long { "records damaged alone, beside long ones" } else { "records damaged alone" },
                1,
            );
        });
    }
    // Other parts of the door have small stores, and check the largest allocation.
    memory::take_largest();
}

fn one(store: &Store, logs: &[(String, Vec<u8>)], (log, record, places): &Damage) -> Result<(), String> {
    let bytes = logs.iter().find(|(name, _)| name == log).map(|(_, bytes)| &bytes[..]).unwrap_or_default();
    let vfs = store.vfs.kill();
    let file = vfs.open(&path(log), OpenMode::ReadWrite).unwrap();
    for &at in places {
        file.write_at(&[bytes[at] ^ 0x44], at as u64).unwrap();
    }
    let hit = operation(&bytes[record.payload..record.end]);
    // True if the log has a newer entry of the key.
    let newer = |hit: &[u8]| {
        let later = whole_records(bytes).into_iter().filter(|later| later.start > record.start);
        later.filter_map(|later| operation(&bytes[later.payload..later.end])).any(|key| key == hit)
    };
    let db = options(store.layout, &vfs).open(STORE).map_err(|error| format!("does not open: {error}"))?;
    let mut failed = false;
    for n in 0..KEYS {
        let key = key(n);
        match db.get(&key) {
            Ok(found) if found.as_deref() == store.pairs.get(&key).map(Vec::as_slice) => {}
            Ok(_) => return Err(format!("key {n} has an older value")),
            Err(Error::Corruption { path, .. }) if path.to_string_lossy().ends_with(&log[..]) => {
                if hit != Some(&key[..]) {
                    return Err(format!("key {n} cannot be read, though the damage is not its"));
                }
                failed = true;
            }
            Err(error) => return Err(format!("key {n}: {error}")),
        }
    }
    let report = db.verify().map_err(|error| error.to_string())?;
    if !failed && store.is_long {
        // Long values split chunks: the key's chunk may have it in a table already, even if others
        // still refer to the log. Everything was read as it was written.
        return Ok(());
    }
    if hit.is_some_and(|hit| !failed && !newer(hit)) {
        return Err("the newest value of a key is damaged, and read".into());
    }
    if report.is_ok() {
        return Err("verify finds nothing".into());
    }
    Ok(())
}
