//! Operations in order, with each kind of work of a store: opening, puts, batches, splits,
//! rebalances, merges, checkpoints; after it, an opening that reads a batch of keys from files.

use super::child::{Part, say, say_places};
use super::phases::{self, Phase};
use crate::layouts::OfChunk;
use crate::setup::Setup;
use crate::workload::{self, Change, Op};
use cantle::{Db, Durability, LayoutKind};
use std::time::Duration;

pub fn setup(durability: Durability) -> Setup {
    Setup {
        layout: LayoutKind::default(),
        durability,
        // Checkpoints only when the script asks for them; or a held file could be freed at another
        // time.
        checkpoint_interval: Duration::from_secs(3600),
        chunk_bytes: 64 << 10,
        log_bytes: 16 << 10,
        as_published: false,
        log_is_level_0: true,
        threads: 1,
    }
}

fn put(n: u64, bytes: usize) -> Change {
    let stamp = (n << 32 | bytes as u64).to_le_bytes();
    Change::Put(n, stamp.iter().copied().cycle().take(bytes).collect::<Vec<u8>>().into())
}

/// The operations after the opening.
pub fn ops() -> Vec<Op> {
    let mut ops = Vec::new();
    let one = |n, bytes| Op::One("default", put(n, bytes));
    // More than the maximum of a chunk: it splits.
    ops.extend((0..48).map(|n| one(n, 2500)));
    ops.extend([Op::Sync, Op::Create("second")]);
    // Batches within one chunk, across chunks and across keyspaces.
    for n in 0..8 {
        let spanning = [("default", put(n, 700)), ("default", put(40 - n, 700)), ("second", put(n, 300))];
        ops.push(Op::Batch(spanning.into()));
        ops.push(Op::Batch(vec![("default", put(n, 800)), ("default", Change::Delete(n + 8))]));
        ops.push(Op::Transaction(vec![("default", put(n + 16, 90)), ("second", put(n, 500))]));
    }
    // Overwrites fill the logs of sorted chunks, which are then rebalanced.
    ops.extend((0..24).map(|n| one(n * 2, 2000)));
    ops.extend([Op::Compact, Op::Sync]);
    // The rest of these chunks is small: they are merged.
    ops.extend([Op::One("default", Change::DeleteRange(4, 44)), Op::Compact, one(2, 60), Op::Sync]);
    ops.extend([Op::Metadata(5000), Op::Drop("second"), one(1, 70), one(3, 6000)]);
    ops
}

/// The work of the child, up to the first operation that fails.
pub fn play(part: &Part) {
    let setup = part.setup();
    let opening = Phase::Open.enter();
    let db = match part.open_on(phases::vfs()) {
        Ok(db) => db,
        Err(error) => return say(format!("failed to open: {error}")),
    };
    drop(opening);
    say("opened");
    for (serial, op) in ops().iter().enumerate() {
        say(format!("begin {serial}"));
        let _batch = matches!(op, Op::Batch(_) | Op::Transaction(_)).then(|| Phase::Batch.enter());
        if let Err(error) = workload::run(&db, op, &setup.keyspace(), serial as u64) {
            say(format!("failed {serial}: {error}"));
            break;
        }
        say(format!("done {serial}"));
    }
    say_counts(&db);
    let closing = Phase::Close.enter();
    let closed = db.close();
    match &closed {
        Ok(()) => say("closed"),
        Err(error) => say(format!("failed to close: {error}")),
    }
    drop(closing);
    if let Some(counts) = phases::counts() {
        say(format!("calls {counts}"));
    }
    // A failure may only be noticed at closing.
    if !say_if_read_only(&db) && closed.is_ok() {
        drop(db);
        read_again(part);
    }
}

fn say_if_read_only(db: &Db) -> bool {
    let reason = db.stats().read_only;
    if let Some(reason) = &reason {
        say(format!("read-only: {reason}"));
    }
    reason.is_some()
}

/// Opens the store again, when nothing of it is in memory, and reads all keys in one batch.
fn read_again(part: &Part) {
    let db = match part.open() {
        Ok(db) => db,
        Err(error) => return say(format!("failed to open again: {error}")),
    };
    let keys: Vec<Vec<u8>> = (0..workload::KEYS).map(workload::key).collect();
    for (key, together) in keys.iter().zip(db.get_many(&keys)) {
        match (together, db.get(key)) {
            (Ok(together), Ok(alone)) => assert_eq!(together, alone, "{}", key.escape_ascii()),
            (Err(error), _) | (_, Err(error)) => say(format!("failed to read: {error}")),
        }
    }
    say_places(&db);
    if let Err(error) = db.close() {
        say(format!("failed to close again: {error}"));
    }
    say_if_read_only(&db);
}

/// Counters by which the parent checks that the script does each kind of work.
fn say_counts(db: &Db) {
    let stats = db.stats();
    let sum = |of: fn(&cantle::stats::KeyspaceStats) -> u64| stats.keyspaces.iter().map(of).sum::<u64>();
    let (splits, rebalances, merges) =
        (sum(|k| k.of_chunk().splits), sum(|k| k.of_chunk().rebalances), sum(|k| k.of_chunk().merges));
    say(format!("counts {splits} {rebalances} {merges} {}", stats.checkpoints));
}
