//! Layouts by the public interface: each keyspace of a store chooses its own, keeps it, and tells
//! what it consists of.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]
#![expect(clippy::disallowed_methods, reason = "waits from outside for what a store does by itself")]

use cantle::stats::{FlsmStats, RegionInfo};
use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Db, Error, FlsmOptions, KeyspaceOptions, LayoutKind, LayoutOptions, Options};
use std::sync::Arc;

/// Little data makes many guards.
fn small() -> KeyspaceOptions {
    let layout =
        FlsmOptions::new().generation_bytes(16 << 10).guard_bytes(16 << 10).max_sstables_per_guard(3);
    KeyspaceOptions::new().layout(layout)
}

fn open_with(disk: &MemVfs, keyspace: KeyspaceOptions) -> cantle::Result<Db> {
    Options::new().vfs(Arc::new(disk.clone())).default_keyspace(keyspace).open("store")
}

fn key(number: u64) -> Vec<u8> {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec()
}

/// A sorted store with some hundred guards, and some logs above them, in which no merge is due.
fn filled(disk: &MemVfs, pairs: u64) -> Db {
    let db = open_with(disk, small()).unwrap();
    for number in 0..pairs {
        db.put(key(number), vec![7; 500]).unwrap();
    }
    db.compact_range(..).unwrap();
    for number in 0..100 {
        db.put(key(number), vec![8; 500]).unwrap();
    }
    loop {
        let merges = flsm(&db).merges;
        // Some ticks of maintenance.
        std::thread::sleep(std::time::Duration::from_millis(100));
        if flsm(&db).merges == merges && db.stats().maintenance_running == 0 {
            return db;
        }
    }
}

fn flsm(db: &Db) -> FlsmStats {
    db.stats().keyspaces[0].flsm().unwrap().clone()
}

#[test]
fn each_keyspace_of_a_store_has_the_layout_that_it_was_created_with() {
    let disk = MemVfs::new();
    {
        let db = open_with(&disk, KeyspaceOptions::new()).unwrap();
        let events = db.keyspace_with("events", KeyspaceOptions::new().layout(LayoutKind::Flsm)).unwrap();
        let text: LayoutOptions = "flsm:guard_bytes=1MiB".parse().unwrap();
        let users = db.keyspace_with("users", KeyspaceOptions::new().layout(text)).unwrap();
        assert_eq!([db.layout(), events.layout()], [LayoutKind::Chunk, LayoutKind::Flsm]);
        let mut batch = cantle::WriteBatch::new();
        batch.put("k", "default");
        batch.keyspace(&events).put("k", "events");
        batch.keyspace(&users).put("k", "users");
        db.write(batch).unwrap();
        db.close().unwrap();
    }
    let db = open_with(&disk, KeyspaceOptions::new()).unwrap();
    for (name, layout) in
        [("default", LayoutKind::Chunk), ("events", LayoutKind::Flsm), ("users", LayoutKind::Flsm)]
    {
        let keyspace = db.keyspace(name).unwrap();
        assert_eq!(
            (keyspace.layout(), keyspace.get("k").unwrap().as_deref()),
            (layout, Some(name.as_bytes()))
        );
    }
}

#[test]
fn a_keyspace_does_not_open_in_another_layout() {
    let disk = MemVfs::new();
    open_with(&disk, small()).unwrap().close().unwrap();
    let refused = open_with(&disk, KeyspaceOptions::new().layout(ChunkOptions::new()));
    let Err(Error::OptionMismatch { keyspace, option, stored, given, .. }) = refused else { panic!() };
    assert_eq!([&keyspace, option, &stored, &given], ["default", "layout", "flsm", "chunk"]);
    let db = open_with(&disk, KeyspaceOptions::new()).unwrap();
    assert_eq!(db.layout(), LayoutKind::Flsm);
    db.keyspace("chunks").unwrap();
    let refused = db.keyspace_with("chunks", small());
    assert!(matches!(refused, Err(Error::OptionMismatch { option: "layout", .. })), "{:?}", refused.err());
}

#[test]
fn options_out_of_range_create_no_keyspace() {
    let disk = MemVfs::new();
    for (options, range) in [
        (FlsmOptions::new().guard_bytes(1), "guard_bytes of 1 is outside 4 KiB to 1 GiB"),
        (FlsmOptions::new().generation_bytes(33 << 20), "outside 4 KiB to 32 MiB"),
        (FlsmOptions::new().max_sstables_per_guard(0), "max_sstables_per_guard of 0 is outside 1 to 64"),
    ] {
        let keyspace = KeyspaceOptions::new().layout(options);
        let refused = open_with(&disk, keyspace.clone()).err().unwrap();
        assert!(refused.to_string().contains(range), "{refused}");
        let db = open_with(&MemVfs::new(), KeyspaceOptions::new()).unwrap();
        let refused = db.keyspace_with("new", keyspace).err().unwrap();
        assert!(refused.to_string().contains(range), "{refused}");
        assert_eq!(db.keyspaces().unwrap(), ["default"]);
    }
}

#[test]
fn the_levels_account_for_all_tables_and_for_all_bytes_of_merges() {
    let db = filled(&MemVfs::new(), 4000);
    let all = db.stats().keyspaces[0].clone();
    let of_levels = all.flsm().unwrap();
    assert_eq!(of_levels.by_level.len() as u64, of_levels.levels);
    let sum = |of: fn(&cantle::stats::LevelStats) -> u64| of_levels.by_level.iter().map(of).sum::<u64>();
    assert_eq!((sum(|level| level.guards), sum(|level| level.table_bytes)), (all.regions, all.table_bytes));
    assert!(sum(|level| level.tables) > 50, "{of_levels:?}");
    assert_eq!(sum(|level| level.table_bytes_written), all.table_bytes_written);
    assert!(all.table_bytes_written >= 4000 * 500, "{all:?}");
}

#[test]
fn the_runs_that_gets_and_seeks_search_are_counted() {
    let db = filled(&MemVfs::new(), 4000);
    let (before, runs) = (flsm(&db), db.stats().keyspaces[0].get_runs);
    // In the logs, which are searched first, and below them.
    for number in [0, 3999] {
        assert!(db.get(key(number)).unwrap().is_some());
    }
    let searched = db.stats().keyspaces[0].get_runs - runs;
    let most = 2 * (before.level0_logs + before.levels);
    assert!((2..=most).contains(&searched), "{searched} of {before:?}");
    assert_eq!(db.range(..).count(), 4000);
    let after = flsm(&db);
    let (seeks, seek_runs) = (after.seeks - before.seeks, after.seek_runs - before.seek_runs);
    // Each guard of the last level is a stretch of its own, at least.
    assert!(seeks >= before.by_level.last().unwrap().guards, "{seeks} of {before:?}");
    assert!(seek_runs >= seeks * before.level0_logs, "{seek_runs} of {seeks}");
}

#[test]
fn the_regions_are_level_0_and_the_guards_with_what_reads_have_cost_them() {
    let db = filled(&MemVfs::new(), 4000);
    let regions = db.regions().unwrap();
    let (level0, guards) = regions.split_first().unwrap();
    // 50 KiB of logs of 16 KiB, and the active one: too few to be merged.
    assert_eq!((level0.level, level0.tables, u64::from(level0.segments)), (0, 0, flsm(&db).level0_logs));
    let order: Vec<_> = guards.iter().map(|guard| (guard.level, guard.start.clone())).collect();
    assert!(order.is_sorted() && order[0] == (1, Vec::new()), "{order:?}");
    assert_eq!(
        guards.iter().map(|guard| guard.table_bytes).sum::<u64>(),
        db.stats().keyspaces[0].table_bytes
    );
    let debt = |regions: &[RegionInfo]| regions.iter().map(|region| region.read_debt).sum::<u64>();
    let before = debt(&regions);
    // The logs hide 100 entries of tables.
    assert_eq!(db.range(..).count(), 4000);
    assert!(debt(&db.regions().unwrap()) >= before + 100, "{before}");
}
