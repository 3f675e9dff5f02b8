//! The choice of the chunks in memory, which must make no difference except to speed.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]
#![expect(clippy::disallowed_methods, reason = "waits for background threads")]

use cantle::stats::KeyspaceStats;
use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Chunks of 64 KiB, about a dozen of which fit into memory.
fn small() -> ChunkOptions {
    ChunkOptions::new().chunk_bytes(64 << 10)
}

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new().layout(small())
}

fn open(disk: &MemVfs, keyspace: KeyspaceOptions) -> Db {
    let options = Options::new().memory_budget(2 << 20).default_keyspace(keyspace);
    options.vfs(Arc::new(disk.clone())).open("store").unwrap()
}

fn key(number: u64) -> String {
    format!("{number:05}")
}

const KEYS: u64 = 8000;

/// About 80 chunks.
fn filled(disk: &MemVfs, keyspace: KeyspaceOptions) -> Db {
    let db = open(disk, keyspace.clone());
    for number in 0..KEYS {
        db.put(key(number), vec![7; 400]).unwrap();
    }
    // A chunk that a background thread is splitting may be left out the first time. The number of
    // chunks depends on the fill of their logs when they were split.
    wait("chunks", || {
        db.compact_range(..).unwrap();
        stats(&db).regions > 40
    });
    // Writes alone must not make chunks popular.
    db.close().unwrap();
    drop(db);
    open(disk, keyspace)
}

fn stats(db: &Db) -> KeyspaceStats {
    db.stats().keyspaces.remove(0)
}

fn get(db: &Db, number: u64, times: usize) {
    for _ in 0..times {
        assert!(db.get(key(number)).unwrap().is_some());
    }
}

/// True if the chunk of a key is in memory.
fn is_in_memory(db: &Db, number: u64) -> bool {
    let chunks = db.regions().unwrap();
    let index = chunks.partition_point(|chunk| chunk.start <= key(number).into_bytes());
    chunks[index - 1].resident_bytes > 0
}

fn wait(what: &str, until: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !until() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for enough rankings that all due loads and evictions are done.
fn let_pass() {
    std::thread::sleep(Duration::from_millis(600));
}

/// Reads the chunk of a key until it is in memory, and no more.
fn load(db: &Db, number: u64) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_in_memory(db, number) {
        assert!(Instant::now() < end, "a popular chunk is not loaded");
        get(db, number, 64);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fills the memory with chunks that are read more than a few times; returns a key of each.
fn fill_memory(db: &Db) -> Vec<u64> {
    let mut loaded = Vec::new();
    for number in (0..KEYS).step_by(150) {
        get(db, number, 400);
        let before = stats(db).chunk().unwrap().munk_loads;
        let begun = Instant::now();
        // If there is room, the chunk will be loaded, at the latest when a deferred load is due
        // again; if not, perhaps not.
        let has_room = || {
            let memory = db.stats().memory;
            memory.resident.used + (300 << 10) < memory.resident.limit
        };
        while stats(db).chunk().unwrap().munk_loads == before
            && (begun.elapsed() < Duration::from_millis(500)
                || has_room() && begun.elapsed() < Duration::from_secs(3))
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        loaded.push(number);
        if !is_in_memory(db, number) || stats(db).chunk().unwrap().munk_evictions > 0 {
            break;
        }
    }
    loaded.retain(|&number| is_in_memory(db, number));
    assert!((4..40).contains(&loaded.len()), "{} chunks in memory", loaded.len());
    loaded
}

#[test]
fn a_cold_get_and_a_long_scan_load_nothing_and_evict_nothing() {
    let db = filled(&MemVfs::new(), keyspace());
    load(&db, 1000);
    let_pass();
    let before = stats(&db);
    get(&db, 3500, 1);
    assert_eq!(db.range(..).count() as u64, KEYS);
    assert_eq!(db.range(..).rev().count() as u64, KEYS);
    let_pass();
    let after = stats(&db);
    assert_eq!(
        (after.chunk().unwrap().munk_loads, after.chunk().unwrap().munk_evictions),
        (before.chunk().unwrap().munk_loads, 0)
    );
    assert!(
        is_in_memory(&db, 1000) && after.chunk().unwrap().scans_munk > before.chunk().unwrap().scans_munk
    );
}

#[test]
fn the_least_popular_makes_way() {
    let db = filled(&MemVfs::new(), keyspace());
    let loaded = fill_memory(&db);
    let limit = db.stats().memory.resident.limit;
    // One or two chunks of the budget may be used for rows at any moment.
    let (less, more) = loaded.split_at(loaded.len() * 3 / 4);
    more.iter().for_each(|&number| get(&db, number, 9000));
    // More than there may be room for by chance; each may have to evict the one before.
    for (number, times) in [(5000, 3000), (6000, 4200), (7000, 5800)] {
        get(&db, number, times);
        wait("a popular chunk", || is_in_memory(&db, number));
    }
    let has_grown = db.stats().memory.resident.limit > limit;
    assert!(has_grown || !less.iter().all(|&number| is_in_memory(&db, number)), "nobody made way");
    assert!(more.iter().all(|&number| is_in_memory(&db, number)), "a more popular chunk made way");
}

#[test]
fn by_frequency_and_as_published_by_recency() {
    let published = KeyspaceOptions::new().layout(ChunkOptions::as_published().chunk_bytes(64 << 10));
    for (keyspace, by_recency) in [(keyspace(), false), (published, true)] {
        let db = filled(&MemVfs::new(), keyspace);
        let loaded = fill_memory(&db);
        let limit = db.stats().memory.resident.limit;
        loaded.iter().for_each(|&number| get(&db, number, 8000));
        let_pass();
        // Later than the others, and fewer times.
        get(&db, 7500, 200);
        if by_recency {
            // The later it is read, the more it counts, even if the rankings of a busy machine are
            // slow.
            wait("what was read last", || {
                get(&db, 7500, 1);
                is_in_memory(&db, 7500)
            });
        } else {
            let_pass();
            // One chunk may also leave when memory is moved to the blocks.
            let all_stayed = loaded.iter().all(|&number| is_in_memory(&db, number))
                || db.stats().memory.resident.limit != limit;
            assert!(all_stayed || !is_in_memory(&db, 7500), "what is read less drove out another chunk");
        }
    }
}

#[test]
fn munks_and_rows_can_be_switched_off() {
    for (munks, row_cache) in [(true, false), (false, true), (false, false)] {
        let db =
            filled(&MemVfs::new(), KeyspaceOptions::new().layout(small().munks(munks)).row_cache(row_cache));
        get(&db, 10, 200);
        if munks {
            wait("a munk", || stats(&db).chunk().unwrap().munks > 0);
        } else {
            let_pass();
        }
        get(&db, 10, 200);
        let stats = stats(&db);
        let used = (
            stats.chunk().unwrap().munk_loads > 0,
            stats.gets_served.resident > 0,
            stats.gets_served.row > 0,
        );
        assert_eq!(used, (munks, munks, row_cache && !munks || stats.gets_served.row > 0), "{stats:?}");
        assert!(row_cache || stats.gets_served.row == 0, "a row was cached");
        assert_eq!(stats.chunk().unwrap().munks > 0, munks);
    }
}

#[test]
fn gets_from_files_are_timed_by_what_serves_them() {
    let db = open(&MemVfs::new(), KeyspaceOptions::new().layout(small().munks(false)).row_cache(false));
    let times = || {
        let times = stats(&db).get_times;
        [times.log_memory_total, times.log_index_total, times.table_total, times.absent_total]
            .map(|total| total > Duration::ZERO)
    };
    db.put(key(1), "value").unwrap();
    assert_eq!(times(), [false; 4]);
    db.get(key(1)).unwrap().unwrap();
    assert_eq!(times(), [true, false, false, false]);
    assert_eq!(db.get(key(2)).unwrap(), None);
    assert_eq!(times(), [true, false, false, true]);
    db.compact_range(..).unwrap();
    db.get(key(1)).unwrap().unwrap();
    assert_eq!(times(), [true, false, true, true]);
}

#[test]
fn a_row_goes_on_with_what_is_put() {
    let db = open(&MemVfs::new(), KeyspaceOptions::new().layout(small().munks(false)));
    let put = |value: &str| db.put(key(1), value).unwrap();
    let value = || db.get(key(1)).unwrap().map(|value| value.to_vec());
    let from_rows = || stats(&db).gets_served.row;
    put("never read");
    assert_eq!((value(), from_rows()), (Some(b"never read".to_vec()), 0), "a put made a row");
    for round in 1..=10 {
        let new = format!("round {round}");
        put(&new);
        assert_eq!((value(), from_rows()), (Some(new.into_bytes()), round));
    }
    // The later of a range delete and a put in one batch counts.
    let mut batch = cantle::WriteBatch::new();
    batch.put(key(1), "deleted");
    batch.delete_range(key(0)..key(2));
    db.write(batch).unwrap();
    assert_eq!(value(), None);
    put("again");
    assert_eq!(value(), Some(b"again".to_vec()));
    db.delete(key(1)).unwrap();
    assert_eq!(value(), None);
    let mut batch = cantle::WriteBatch::new();
    batch.put(key(1), "by a batch");
    db.write(batch).unwrap();
    assert_eq!(value(), Some(b"by a batch".to_vec()));
}

#[test]
fn what_a_snapshot_reads_of_dropped_files_keeps_a_chunk_out_of_memory() {
    let db = open(&MemVfs::new(), keyspace());
    db.put(key(1), "old").unwrap();
    let snapshot = db.snapshot();
    db.delete_range(..).unwrap();
    db.put(key(1), "new").unwrap();
    get(&db, 1, 1000);
    let_pass();
    assert!(!is_in_memory(&db, 1));
    assert_eq!(snapshot.get(key(1)).unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(snapshot.range(..).count(), 1);
    drop(snapshot);
    load(&db, 1);
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_dropped_keyspace_leaves_the_memory_to_others() {
    let db = open(&MemVfs::new(), keyspace());
    let other = db.keyspace_with("other", keyspace()).unwrap();
    other.put("key", vec![7; 10_000]).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while db.stats().memory.resident.used == 0 {
        assert!(Instant::now() < end, "a popular chunk is not loaded");
        (0..64).for_each(|_| drop(other.get("key").unwrap()));
        std::thread::sleep(Duration::from_millis(5));
    }
    db.drop_keyspace("other").unwrap();
    // Its handle is still held.
    wait("the memory of a dropped keyspace", || {
        db.sync().unwrap();
        db.stats().memory.resident.used == 0
    });
    assert!(other.get("key").is_err());
}

#[test]
fn after_eviction_and_reopening_everything_is_in_the_files() {
    let disk = MemVfs::new();
    let db = filled(&disk, keyspace());
    for round in 0..KEYS / 500 {
        // Every chunk in turn becomes popular and is written to.
        for number in (round * 500)..(round * 500 + 500) {
            get(&db, number, 8);
            db.put(key(number), [round as u8; 300]).unwrap();
            if number % 7 == 0 {
                db.delete(key(number)).unwrap();
            }
        }
        // More popular than the chunks before.
        get(&db, round * 500 / 7 * 7 + 50, 500 << (round / 2));
        load(&db, round * 500 / 7 * 7 + 50);
        // Through the munk.
        db.put(key(round * 500 / 7 * 7 + 50), [round as u8; 300]).unwrap();
        get(&db, round * 500 / 7 * 7 + 50, 10);
    }
    let stats = stats(&db);
    assert!(stats.chunk().unwrap().munk_loads > 2 && stats.gets_served.resident > 0, "{stats:?}");
    println!(
        "{} loads, {} evictions, {} flushes",
        stats.chunk().unwrap().munk_loads,
        stats.chunk().unwrap().munk_evictions,
        stats.chunk().unwrap().munk_flushes
    );
    let check = |db: &Db| {
        for number in 0..KEYS {
            let value = db.get(key(number)).unwrap();
            let expected = vec![(number / 500) as u8; 300];
            assert_eq!(value.as_deref(), (number % 7 != 0).then_some(&expected[..]), "{number}");
        }
    };
    check(&db);
    db.close().unwrap();
    drop(db);
    check(&open(&disk, KeyspaceOptions::new().layout(small().munks(false))));
}

/// Stores that share a budget share it: memory that one does not use any more goes to the other.
#[test]
fn the_memory_of_an_idle_store_goes_to_a_busy_one() {
    let resources = cantle::Resources::new(1 << 20, 2);
    let disks = [MemVfs::new(), MemVfs::new()];
    disks.iter().for_each(|disk| filled(disk, keyspace()).close().unwrap());
    let stores = disks.each_ref().map(|disk| {
        let options = Options::new().resources(resources.clone()).default_keyspace(keyspace());
        options.vfs(Arc::new(disk.clone())).open("store").unwrap()
    });
    let [first, second] = &stores;
    let read_all = |db: &Db| (0..KEYS).step_by(20).for_each(|number| get(db, number, 20));
    wait("munks of the first store", || {
        read_all(first);
        // With so small a budget the munks' part may have room for only two, if blocks were found
        // to be more useful.
        first.stats().memory.resident.used > first.stats().memory.resident.limit / 3
            && stats(first).chunk().unwrap().munks > 1
    });
    let before = stats(first).chunk().unwrap().munks;
    wait("munks of the second store", || {
        (0..20).for_each(|_| read_all(second));
        stats(second).chunk().unwrap().munks > 0 && stats(first).chunk().unwrap().munks < before
    });
    let munks = |db: &Db| db.stats().memory.resident.used;
    // A background thread may be loading just now.
    wait("one budget", || {
        let (before, other, after) = (munks(first), munks(second), munks(first));
        assert!(before != after || other == before, "there is one budget");
        before == after
    });
}

/// A store opened for reading only has popular chunks in memory, too.
#[test]
fn a_read_only_store_loads_munks() {
    let disk = MemVfs::new();
    filled(&disk, keyspace()).close().unwrap();
    let options = Options::new().memory_budget(2 << 20).default_keyspace(keyspace()).read_only(true);
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    wait("a munk", || {
        get(&db, 100, 400);
        stats(&db).chunk().unwrap().munks > 0
    });
    let before = stats(&db).gets_served.resident;
    get(&db, 100, 10);
    assert_eq!(stats(&db).gets_served.resident, before + 10);
}

/// A value that is longer than a chunk cannot be split: the chunk is not rewritten for that,
/// however popular it is.
#[test]
fn a_chunk_that_cannot_be_split_is_left_alone() {
    // More than a munk should have, and more than is loaded.
    for value_bytes in [150 << 10, 400 << 10] {
        let db = open(&MemVfs::new(), keyspace());
        db.put("large", vec![7; value_bytes]).unwrap();
        db.compact_range(..).unwrap();
        let read = |millis: u64| {
            let end = Instant::now() + Duration::from_millis(millis);
            while Instant::now() < end {
                assert!(db.contains_key("large").unwrap());
            }
        };
        read(1000);
        let (before, written) = (stats(&db).chunk().unwrap().rebalances, stats(&db).table_bytes_written);
        read(1500);
        let after = stats(&db);
        assert_eq!(
            (after.chunk().unwrap().rebalances, after.table_bytes_written),
            (before, written),
            "{value_bytes}"
        );
        assert_eq!(after.chunk().unwrap().munks, u64::from(value_bytes < 256 << 10), "{value_bytes}");
    }
}
