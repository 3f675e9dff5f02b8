//! Several keyspaces in one store, one of them lagging: which writers are delayed, and why.

use super::Chunks;
use crate::Db;
use crate::chunk::test_support::chunks_in;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use std::time::Duration;

/// A store in memory with checkpoints on request only.
fn open(vfs: &MemVfs) -> Db {
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false));
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(16 << 20);
    options.checkpoint_interval(Duration::from_secs(3600)).default_keyspace(keyspace).open("store").unwrap()
}

fn chunks(db: &Db, name: &str) -> Arc<Chunks> {
    chunks_in(
        &db.keyspace_with(name, KeyspaceOptions::new().layout(ChunkOptions::new().munks(false))).unwrap(),
    )
}

/// As if tables of this many bytes were being written: far over any bound of a keyspace without
/// data.
fn overload(chunks: &Chunks, bytes: i64) {
    chunks.context.totals.growing_bytes.store(bytes, Relaxed);
}

/// Delays of 64 puts of a KiB.
fn delays(db: &Db) -> u64 {
    db.tick_for_test();
    let before = db.stats().write_delays;
    (0..64).for_each(|number: u64| db.put(number.to_be_bytes(), [7; 1016]).unwrap());
    db.stats().write_delays - before
}

#[test]
fn the_keyspace_that_is_most_behind_brakes_whatever_its_name() {
    for (behind, idle) in [("a", "z"), ("z", "a")] {
        let db = open(&MemVfs::new());
        let (behind, idle) = (chunks(&db, behind), chunks(&db, idle));
        assert_eq!(delays(&db), 0, "nobody is behind");
        overload(&behind, 1 << 30);
        let alone = delays(&db);
        assert!(alone > 20, "{alone}");
        // No more for two that lag: the sum would be too much, as their rebalances share threads
        // and disk.
        overload(&idle, 1 << 30);
        let both = delays(&db);
        assert!(both.abs_diff(alone) <= 1, "{both} and {alone}");
        overload(&behind, 0);
        overload(&idle, 0);
        assert_eq!(delays(&db), 0, "both have caught up");
    }
}

#[test]
fn one_keyspace_does_not_end_the_pause_of_another() {
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(64 << 20));
    let db = open(&vfs);
    let (a, z) = (chunks(&db, "a"), chunks(&db, "z"));
    let reserve = &a.context.substrate.reserve;
    reserve.maintain();
    let pause = |chunks: &Chunks| {
        let pause = reserve.pause_puts_if_tight(1 << 40);
        assert!(pause.is_some(), "that much is not free");
        chunks.jobs.relief.lock().pause = pause;
    };
    let relief = a.begin_relief();
    pause(&a);
    drop(z.begin_relief());
    assert!(reserve.are_puts_paused(), "the rebalances of `a` are not done");
    let relief_of_z = z.begin_relief();
    pause(&z);
    drop(relief);
    assert!(reserve.are_puts_paused(), "the rebalances of `z` are not done");
    let second = z.begin_relief();
    drop(relief_of_z);
    assert!(reserve.are_puts_paused(), "one is left");
    drop(second);
    assert!(!reserve.are_puts_paused());
}

#[test]
fn a_held_file_counts_for_its_own_keyspace() {
    let db = open(&MemVfs::new());
    let (a, z) = (chunks(&db, "a"), chunks(&db, "z"));
    let keyspace = db.keyspace("a").unwrap();
    (0..100u64).for_each(|number| keyspace.put(number.to_be_bytes(), [7; 1000]).unwrap());
    db.sync().unwrap();
    // `compact_range` ends with a checkpoint, so it is not used here.
    a.compact_chunks(&Bounds::of(&(..))).unwrap();
    let held = || db.stats().keyspaces.iter().map(|keyspace| keyspace.held_bytes).sum::<u64>();
    assert!(held() > 100_000, "{}", held());
    assert_eq!(held(), a.context.files.held_bytes());
    assert_eq!(a.sizes().held_bytes, held());
    assert_eq!(z.sizes().held_bytes, 0);
    db.sync().unwrap();
    assert_eq!((held(), a.context.files.held_bytes()), (0, 0));
}

#[test]
fn the_budget_knows_the_data_of_all_keyspaces() {
    let db = open(&MemVfs::new());
    let all = ["a", "b", "z"].map(|name| chunks(&db, name));
    for (chunks, live_bytes) in all.iter().zip([1 << 20, 3 << 20, 2 << 20]) {
        chunks.context.totals.user_bytes.store(live_bytes, Relaxed);
    }
    db.tick_for_test();
    assert_eq!(all[0].context.substrate.budget.data_bytes(), 6 << 20);
    db.close().unwrap();
    assert_eq!(all[0].context.substrate.budget.data_bytes(), 0);
}

/// A store of few chunks, all of maximum heat, keeps no more of its logs in memory than others.
#[test]
fn parts_of_a_few_hot_chunks_are_indexed_on_disk_as_well() {
    let db = open(&MemVfs::without_history());
    let chunks = chunks(&db, "a");
    let budget = &chunks.context.substrate.budget;
    let a = db.keyspace_with("a", KeyspaceOptions::new().layout(ChunkOptions::new().munks(false))).unwrap();
    let limit = budget.logs.indexes.limit_bytes();
    let mut most = 0;
    for round in 0..8 {
        for number in 0..20_000_u64 {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(round).to_be_bytes();
            a.put(key, key).unwrap();
        }
        // A chunk that maintenance is working on is left out.
        for _ in 0..100 {
            chunks.flush_log_indexes();
        }
        most = most.max(budget.logs.indexes.used_bytes());
    }
    assert!(chunks.index.view().len() < 64, "these are not few");
    assert!(most < limit, "{most} of {limit}");
}
