//! LevelDB: states after a loss of power.

use super::*;
use cantle::vfs::{Failure, Operation, Verdict};
use cantle::{WriteBatch, WriteOptions};

/// [LevelDB #74](https://github.com/google/leveldb/issues/74): opening wrote `CURRENT` and never
/// synced it. A loss of power half a minute later left 16 zero bytes in it, and the database could
/// not be opened any more.
///
/// Here the newest manifest is its own `CURRENT`. An opening rewrites it after a failed sync, as
/// the readable contents of the old one may never have reached the disk; a normal opening continues
/// with the old one.
#[test]
fn leveldb_74_an_opening_leaves_no_manifest_that_a_loss_of_power_empties() {
    for after_failed_sync in [false, true] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(fault.clone(), Durability::Process).unwrap();
        (0..3).for_each(|n| put(&db, n).unwrap());
        db.sync().unwrap();
        if after_failed_sync {
            put(&db, 3).unwrap();
            fault.fail_always(Operation::SyncData, Verdict::FailLost(Failure::EIO));
            db.sync().unwrap_err();
            fault.clear_rule();
        }
        let lab = Lab::over(memory.kill());
        let before = names_of(&lab.memory, Kind::Manifest);
        let (_db, images) = lab.watch(|| open(lab.fault.clone(), Durability::Process).unwrap());
        let is_new = names_of(&lab.memory, Kind::Manifest) != before;
        assert_eq!(is_new, after_failed_sync, "when a manifest is written anew");
        let seen = lose_power(&images, |lost, _, what| {
            assert_eq!(check(lost, Durability::Process, what), 3, "{what}");
        });
        assert!(seen > 10, "{seen}");
    }
}

/// [LevelDB #189](https://github.com/google/leveldb/issues/189): a new database's first manifest
/// was not synced before `CURRENT` named it. A loss of power during creation left a `CURRENT` that
/// pointed to nothing, and every opening failed.
///
/// Here a directory is a store as soon as a manifest has its name: any state of an interrupted
/// creation can be opened, as the store or as a new one.
#[test]
fn leveldb_189_a_store_opens_after_a_loss_of_power_during_its_creation() {
    for durability in [Durability::Buffered, Durability::Process, Durability::Sync] {
        let lab = Lab::over(MemVfs::new());
        let (_db, images) = lab.watch(|| {
            let db = open(lab.fault.clone(), durability).unwrap();
            (0..2).for_each(|n| lab.acknowledged(durability == Durability::Sync, || put(&db, n)));
            db
        });
        let seen = lose_power(&images, |lost, marks, what| {
            let count = check(lost, durability, what) as u64;
            assert!((marks.durable..=marks.begun).contains(&count), "{what}: {count}, {marks:?}");
        });
        assert!(seen > 20, "{seen}");
    }
}

/// [LevelDB #193](https://github.com/google/leveldb/issues/193): a full log was replaced by the
/// next without a sync, and a sync of the next one did not sync the full one. After a loss of power
/// a later write was there without the one before it.
///
/// Here each chunk and keyspace has a log. A write that asks for `Sync` in a store without it makes
/// all writes before it durable, in all logs.
#[test]
fn leveldb_193_a_synced_write_brings_those_in_older_logs_with_it() {
    for logs in 1..4 {
        let memory = MemVfs::new();
        let small = KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(4096));
        let db = options(memory.clone(), Durability::Process).default_keyspace(small).open(STORE).unwrap();
        let others: Vec<_> =
            (1..logs).map(|n| db.keyspace_with(&format!("other{n}"), keyspace()).unwrap()).collect();
        for n in 0..30 {
            put(&db, n).unwrap();
            others.iter().for_each(|other| other.put(key(n), "before").unwrap());
        }
        let mut late = WriteBatch::new();
        late.put(key(30), value(30, VALUE_BYTES));
        db.write_with(late, WriteOptions::new().durability(Durability::Sync)).unwrap();
        let db = open(memory.crash(&CrashPlan::LOSE_UNSYNCED), Durability::Process).unwrap();
        assert_eq!(count(&db, "with what was synced last"), 31);
        for n in 1..logs {
            let other = db.keyspace_with(&format!("other{n}"), keyspace()).unwrap();
            assert_eq!(other.range(..).map(Result::unwrap).count(), 30, "other{n}");
        }
    }
}

/// The other half of the same issue: there is no sync, and the disk writes the newer log first. The
/// recovered state must be a prefix.
#[test]
fn leveldb_193_no_log_that_reached_the_disk_alone_shows_a_later_write_without_an_earlier_one() {
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), Durability::Process).unwrap();
    let other = db.keyspace_with("other", keyspace()).unwrap();
    // Even numbers go to one log, odd ones to the other.
    let alternately = |n: usize| match n % 2 {
        0 => put(&db, n),
        _ => other.put(key(n), value(n, VALUE_BYTES)),
    };
    let ((), images) = lab.watch(|| {
        for n in 0..12 {
            lab.acknowledged(false, || alternately(n));
            if n == 3 || n == 8 {
                db.sync().unwrap();
                lab.progress.all_is_durable();
            }
        }
    });
    let check = |vfs: MemVfs, marks: Marks, what: &str| {
        let db = open(vfs, Durability::Process).unwrap_or_else(|error| panic!("{what}: {error}"));
        let other = db.keyspace_with("other", keyspace()).unwrap();
        let mut found: Vec<_> = db.range(..).chain(other.range(..)).map(|pair| pair.unwrap().0).collect();
        found.sort_unstable_by_key(|key| key.to_vec());
        let expected: Vec<_> = (0..found.len()).map(key).collect();
        assert!(found == expected, "{what}: {found:?}");
        assert!(found.len() as u64 >= marks.durable, "{what}: {} of {marks:?}", found.len());
        assert!(db.verify().unwrap().is_ok(), "{what}");
    };
    let seen = lose_power(&images, check);
    assert!(seen > 100, "{seen}");
    let mut alone = 0;
    for image in &images {
        let (bare, full) =
            (image.vfs.crash(&CrashPlan::LOSE_UNSYNCED), image.vfs.crash(&CrashPlan::KEEP_ALL));
        let logs = names_of(&full, Kind::Log);
        for log in logs.iter().filter(|log| names_of(&bare, Kind::Log).contains(log)) {
            // First this log alone reached the disk; then all other files did, and this log did
            // not.
            for (base, from) in [(&bare, &full), (&full, &bare)] {
                let vfs = base.kill();
                files::put(&vfs, log, &files::read(from, log));
                check(vfs, image.marks, &format!("before {}: {log} apart", image.at));
                alone += 1;
            }
        }
    }
    assert!(alone > 40, "{alone}");
}

/// [LevelDB #195](https://github.com/google/leveldb/issues/195): the removal of old manifests and
/// logs could reach the disk before the rename that made them obsolete. The resulting state had no
/// manifest, or lacked a log that was in no table yet.
///
/// Here the manifest is rewritten when it has grown, and the old one is removed.
#[test]
fn leveldb_195_a_manifest_goes_after_the_name_of_its_successor() {
    const METADATA_BYTES: usize = 60_000;
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), Durability::Process).unwrap();
    (0..3).for_each(|n| put(&db, n).unwrap());
    // Each metadata is in the manifest until the next one replaces it. The first also makes the
    // pairs durable.
    let keyspace = db.keyspace_with("default", keyspace()).unwrap();
    keyspace.set_metadata(&value(0, METADATA_BYTES)).unwrap();
    let first = names_of(&lab.memory, Kind::Manifest);
    for n in 1..40 {
        let ((), images) = lab.watch(|| keyspace.set_metadata(&value(n, METADATA_BYTES)).unwrap());
        if names_of(&lab.memory, Kind::Manifest) == first {
            continue;
        }
        let mut removed_first = 0;
        let seen = lose_power(&images, |lost, _, what| {
            removed_first += usize::from(!names_of(&lost, Kind::Manifest).contains(&first[0]));
            let db = open(lost, Durability::Process).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(count(&db, what), 3, "{what}");
            let metadata = db.keyspace_with("default", super::keyspace()).unwrap().metadata();
            assert!([n - 1, n].iter().any(|&n| metadata == value(n, METADATA_BYTES)), "{what}");
        });
        assert!(seen > 10 && removed_first > 0, "{seen}, {removed_first}");
        return;
    }
    panic!("the manifest was never written anew");
}

/// The other half of the same issue: the log that a rebalance has sorted into a table is removed
/// after the checkpoint that knows the table, whether the process that sorted it makes the
/// checkpoint or the one after its death.
#[test]
fn leveldb_195_a_log_goes_after_the_checkpoint_that_does_without_it() {
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), Durability::Process).unwrap();
    (0..20).for_each(|n| put(&db, n).unwrap());
    db.sync().unwrap();
    let first = names_of(&lab.memory, Kind::Log);
    let holds_all = |lost: MemVfs, _, what: &str| {
        let count = check(lost, Durability::Process, what);
        assert!((20..=22).contains(&count), "{what}: {count}");
    };
    let ((), compaction) = lab.watch(|| db.compact_range(..).unwrap());
    let ((), after) = lab.watch(|| {
        (20..22).for_each(|n| put(&db, n).unwrap());
        db.sync().unwrap();
    });
    assert!(!names_of(&lab.memory, Kind::Log).contains(&first[0]), "the log is gone");
    let seen = lose_power(&compaction, holds_all) + lose_power(&after, holds_all);
    assert!(seen > 50, "{seen}");
    let mut seen = 0;
    for image in &compaction {
        let lab = Lab::over(image.vfs.kill());
        let (_db, opening) = lab.watch(|| {
            let db = open(lab.fault.clone(), Durability::Process).unwrap();
            db.sync().unwrap();
            db
        });
        seen += lose_power(&opening, |lost, marks, what| {
            holds_all(lost, marks, &format!("killed before {}, then {what}", image.at));
        });
    }
    assert!(seen > 500, "{seen}");
}

/// [LevelDB #333](https://github.com/google/leveldb/issues/333): after a loss of power the manifest
/// named a table of 0 bytes. Reads continued; every write failed, as the compaction that it waited
/// for did.
///
/// Here a rebalance writes tables, and the manifest names them.
#[test]
fn leveldb_333_every_table_that_the_manifest_names_is_whole() {
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), Durability::Process).unwrap();
    let ((), images) = lab.watch(|| {
        for round in 0..2 {
            (round * 10..round * 10 + 10).for_each(|n| lab.acknowledged(false, || put(&db, n)));
            lab.acknowledged(true, || db.compact_range(..));
            db.sync().unwrap();
        }
    });
    assert!(!names_of(&lab.memory, Kind::Table).is_empty());
    let mut with_tables = 0;
    let seen = lose_power(&images, |lost, _, what| {
        with_tables += usize::from(!names_of(&lost, Kind::Table).is_empty());
        let kept = check(lost.clone(), Durability::Process, what);
        let db = open(lost, Durability::Process).unwrap();
        db.compact_range(..).unwrap_or_else(|error| panic!("{what}: {error}"));
        put(&db, kept + 1).unwrap();
        assert_eq!(count(&db, what), kept + 2, "{what}");
    });
    assert!(seen > 100 && with_tables > 50, "{seen}, {with_tables}");
}
