//! Estimates of garbage, which the space bound depends on.

use super::Chunks;
use crate::Db;
use crate::chunk::policy;
use crate::chunk::test_support::chunks_of;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::thread;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use std::time::Duration;

/// Nothing is rebalanced and no munk is loaded.
fn at_rest(disk: &MemVfs) -> (Db, Arc<Chunks>) {
    at_rest_in_chunks_of(disk, 64 << 20)
}

fn at_rest_in_chunks_of(disk: &MemVfs, chunk_bytes: u64) -> (Db, Arc<Chunks>) {
    let keyspace = KeyspaceOptions::new()
        .layout(ChunkOptions::new().munks(false).chunk_bytes(chunk_bytes).log_bytes(u64::MAX));
    let options = Options::new().memory_budget(64 << 20).default_keyspace(keyspace).write_buffer(false);
    let options = options.checkpoint_interval(Duration::from_millis(50));
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let chunks = chunks_of(&db);
    (db, chunks)
}

/// Bytes of keys and values in files, and the part that is garbage.
fn user_and_garbage(chunks: &Chunks) -> (u64, u64) {
    let totals = &chunks.context.totals;
    let of = |total: &crate::sync::atomic::AtomicI64| total.load(Relaxed) as u64;
    (of(&totals.user_bytes), of(&totals.garbage_bytes))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("never: {what}");
}

#[test]
fn each_of_few_or_large_pairs_that_is_replaced_counts() {
    for value_bytes in [0, 1000, 100_000] {
        for is_sorted in [false, true] {
            let (db, chunks) = at_rest(&MemVfs::new());
            let put = |number: u64, bytes| db.put(number.to_be_bytes(), vec![1; bytes]).unwrap();
            (0..100).for_each(|number| put(number, value_bytes));
            if is_sorted {
                db.compact_range(..).unwrap();
            }
            let (user, garbage) = user_and_garbage(&chunks);
            assert_eq!((user, garbage), (100 * (8 + value_bytes as u64), 0));
            // Overwritten by shorter values, deleted, deleted again, put again.
            (0..50).for_each(|number| put(number, 3));
            (50..100).for_each(|number: u64| db.delete(number.to_be_bytes()).unwrap());
            (50..100).for_each(|number: u64| db.delete(number.to_be_bytes()).unwrap());
            (50..100).for_each(|number| put(number, 3));
            let (_, garbage) = user_and_garbage(&chunks);
            let off = garbage.abs_diff(user);
            assert!(off <= user / 50 + 100 * 4, "{garbage} of {user}; {value_bytes}, {is_sorted}");
        }
    }
}

/// As most new entries are as long as those that they replace. These are longer, and the correction
/// finds out by how much.
#[test]
fn many_small_pairs_count_as_long_as_they_were() {
    for is_sorted in [false, true] {
        let (db, chunks) = at_rest(&MemVfs::new());
        let put = |number: u64, bytes| db.put(number.to_be_bytes(), vec![1; bytes]).unwrap();
        (0..20_000).for_each(|number| put(number, if number % 2 == 0 { 1000 } else { 10 }));
        if is_sorted {
            db.compact_range(..).unwrap();
        }
        (0..20_000).step_by(2).for_each(|number| put(number, 10));
        let (_, garbage) = user_and_garbage(&chunks);
        assert!((7_500_000..12_500_000).contains(&garbage), "{garbage} of 10,080,000; {is_sorted}");
    }
}

#[test]
fn large_values_among_many_small_ones_count_each() {
    for is_sorted in [false, true] {
        let (db, chunks) = at_rest(&MemVfs::new());
        let put = |number: u64, bytes| db.put(number.to_be_bytes(), vec![1; bytes]).unwrap();
        (0..10_000).for_each(|number| put(number, if number % 1000 == 0 { 500_000 } else { 10 }));
        if is_sorted {
            db.compact_range(..).unwrap();
        }
        (0..10_000).step_by(1000).for_each(|number: u64| db.delete(number.to_be_bytes()).unwrap());
        let (_, garbage) = user_and_garbage(&chunks);
        assert!((4_990_000..5_020_000).contains(&garbage), "{garbage} of 5,000,080; {is_sorted}");
    }
}

#[test]
fn what_is_known_of_logs_outlives_closing_and_killing() {
    for is_killed in [false, true] {
        let disk = MemVfs::new();
        let (db, chunks) = at_rest(&disk);
        (0..5_000u64).for_each(|number| db.put(number.to_be_bytes(), [1; 8]).unwrap());
        (0..20u64).for_each(|number| db.put(number.to_be_bytes(), vec![1; 100_000]).unwrap());
        db.sync().unwrap();
        (0..20u64).for_each(|number| db.delete(number.to_be_bytes()).unwrap());
        let before = user_and_garbage(&chunks);
        assert!(before.1 >= 2_000_000, "{before:?}");
        drop(chunks);
        // Writes since the checkpoint are counted when they are found.
        let disk = if is_killed { disk.kill() } else { disk };
        drop(db);
        let (_db, chunks) = at_rest(&disk);
        wait_until("as it was", || {
            let after = user_and_garbage(&chunks);
            // One of the long values may be missed: the one that was written just after a checkpoint.
            after.0 == before.0 && after.1.abs_diff(before.1) < 110_000
        });
    }
}

/// Such a store has no checkpoint that would find out how long its logs are.
#[test]
fn sizes_are_right_after_a_kill_where_the_store_is_only_read() {
    for checkpointed in [0, 1000] {
        let disk = MemVfs::new();
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).chunk_bytes(64 << 20));
        let options =
            Options::new().default_keyspace(keyspace).checkpoint_interval(Duration::from_secs(3600));
        let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
        let put = |numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| db.put(number.to_be_bytes(), [1; 1000]).unwrap());
        };
        put(0..checkpointed);
        db.sync().unwrap();
        put(checkpointed..5_000);
        let log_bytes = db.stats().keyspaces[0].log_bytes;
        let killed = Options::new().vfs(Arc::new(disk.kill())).read_only(true).open("store").unwrap();
        let near = |one: u64, other: u64| one.abs_diff(other) < other / 20;
        for _ in 0..2 {
            let stats = killed.stats();
            assert!(near(stats.keyspaces[0].log_bytes, log_bytes), "{log_bytes}: {stats:?}");
            assert!(near(stats.keyspaces[0].live_bytes, 5_000 * 1_008), "{stats:?}");
            assert!(stats.disk_bytes >= stats.keyspaces[0].log_bytes, "{stats:?}");
            let regions = killed.regions().unwrap();
            let of_regions: u64 = regions.iter().map(|region| region.log_bytes).sum();
            assert_eq!(of_regions, stats.keyspaces[0].log_bytes);
            // A scan loads the logs, which then count themselves.
            assert_eq!(killed.range(..).count(), 5_000);
        }
    }
}

#[test]
fn who_reads_all_of_a_chunk_finds_out_what_is_garbage() {
    let (db, chunks) = at_rest(&MemVfs::new());
    (0..200u64).for_each(|number| db.put(number.to_be_bytes(), vec![1; 10_000]).unwrap());
    (0..100u64).for_each(|number| db.delete(number.to_be_bytes()).unwrap());
    let chunk = chunks.index.find(b"");
    let segment = chunk.funk.load().logs().next().unwrap().clone();
    for wrong in [0, 1_900_000] {
        let right = segment.garbage_bytes.swap(wrong, Relaxed);
        chunks.context.totals.garbage_bytes.fetch_add(wrong as i64 - right as i64, Relaxed);
        assert!(chunks.load_munk(&chunk).unwrap());
        assert_eq!(user_and_garbage(&chunks), (200 * 10_008, 100 * 10_008));
        chunks.evict_munk(&chunk);
    }
}

/// Otherwise writers would be delayed as long as the snapshot is open, though there is garbage.
#[test]
fn a_chunk_whose_garbage_a_snapshot_keeps_hides_no_other() {
    let (db, chunks) = at_rest_in_chunks_of(&MemVfs::new(), 256 << 10);
    let put = |number: u64| db.put(number.to_be_bytes(), [1; 1000]).unwrap();
    (0..4_000).for_each(put);
    db.compact_range(..).unwrap();
    (0..4_000).step_by(2).for_each(put);
    assert!(chunks.best_candidate().is_some());
    let number_of_chunks = chunks.index.view().len();
    assert!(number_of_chunks > 4, "{number_of_chunks}");
    let snapshot = db.snapshot();
    let oldest = chunks.context.substrate.mvcc.open_versions().first().copied();
    for chosen in 0..number_of_chunks {
        let Some(chunk) = chunks.best_candidate() else { panic!("after {chosen}: none") };
        assert!(!chunk.was_futile(oldest));
        chunk.set_futile(oldest);
    }
    assert!(chunks.best_candidate().is_none());
    drop(snapshot);
    assert!(chunks.best_candidate().is_some());
}

/// Otherwise an open snapshot would slow down writers for bytes that cannot be freed.
#[test]
fn nobody_is_delayed_for_what_a_snapshot_keeps() {
    const PAIRS: u64 = 8_000;
    for munks in [false, true] {
        let keyspace = KeyspaceOptions::new()
            .layout(ChunkOptions::new().munks(munks).chunk_bytes(1 << 20))
            .space_amplification(1.5);
        let options = Options::new().write_buffer(false).memory_budget(64 << 20).default_keyspace(keyspace);
        let options = options.checkpoint_interval(Duration::from_millis(20));
        let db = options.vfs(Arc::new(MemVfs::without_history())).open("store").unwrap();
        let chunks = chunks_of(&db);
        let is_settled = || {
            let sizes = chunks.sizes();
            sizes.held_bytes == 0
                && policy::over_bytes(&chunks.limits(), &sizes) == 0
                && chunks.jobs.active.load(Relaxed) == 0
                && chunks.measure_pressure().overload == 0.0
        };
        let overwrite = |numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| {
                db.put((number * 7 % PAIRS).to_be_bytes(), [number as u8; 1000]).unwrap();
            });
            // If pinned bytes counted as garbage, the bound would be exceeded for good, and each
            // write delayed.
            wait_until("nobody is braked", is_settled);
        };
        let disk_times = || {
            let stats = &db.stats().keyspaces[0];
            let disk = stats.table_bytes + stats.log_bytes + stats.unclaimed_bytes;
            disk as f64 / (stats.live_bytes + stats.pinned_bytes) as f64
        };
        (0..16).for_each(|part| overwrite(PAIRS / 16 * part..PAIRS / 16 * (part + 1)));
        let snapshot = db.snapshot();
        let ticks = chunks.jobs.ticks.load(Relaxed);
        wait_until("it is open at two ticks", || chunks.jobs.ticks.load(Relaxed) > ticks + 2);
        for _ in 0..10 {
            (0..16).for_each(|part| overwrite(PAIRS / 16 * part..PAIRS / 16 * (part + 1)));
            // Bytes that a rebalance finds to be pinned are counted a tick later.
            wait_until("little more than what is live or pinned", || disk_times() < 1.6);
        }
        let pinned = db.stats().keyspaces[0].pinned_bytes;
        assert!((PAIRS * 900..PAIRS * 1200).contains(&pinned), "{pinned}");
        assert!(snapshot.range(..).all(|pair| pair.is_ok()));
        assert_eq!(snapshot.range(..).count() as u64, PAIRS);
        drop(snapshot);
        wait_until("what was kept goes", || db.stats().keyspaces[0].pinned_bytes == 0 && disk_times() < 1.6);
    }
}

/// More than the limit at rest, while it is written to; then no more, without further reads or
/// writes.
#[test]
fn what_is_taken_only_while_writing_is_given_back() {
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).chunk_bytes(256 << 10));
    let options = Options::new().write_buffer(false).memory_budget(8 << 20).default_keyspace(keyspace);
    let db = options.checkpoint_interval(Duration::from_millis(50)).vfs(Arc::new(MemVfs::without_history()));
    let db = db.open("store").unwrap();
    let chunks = chunks_of(&db);
    let at_rest = || policy::KeyspaceSizes { is_written: false, freeing_bytes: 0, ..chunks.sizes() };
    let mut beyond = 0u64;
    for number in 0..120_000u64 {
        // In random order.
        let key = (number % 12_000).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        db.put(key.to_be_bytes(), [1; 1000]).unwrap();
        beyond = beyond.max(policy::over_bytes(&chunks.limits(), &at_rest()));
    }
    assert!(beyond > 0, "the allowance was not used");
    wait_until("given back", || policy::over_bytes(&chunks.limits(), &at_rest()) == 0);
}
