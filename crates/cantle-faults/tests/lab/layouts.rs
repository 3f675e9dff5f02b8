//! Requirements of every layout: doors that every registered layout must pass, and several layouts
//! in one store.
//!
//! A new layout is in `LayoutKind::ALL`, and so is tested here.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use cantle::vfs::{CrashPlan, MemVfs};
use cantle::{Db, Durability, Error, Keyspace, KeyspaceOptions, LayoutKind, Options, WriteBatch};
use cantle_faults::doors::door;
use cantle_faults::visit::{Effort, Visit, factor};
use std::sync::Arc;
use std::time::Duration;

/// The layouts that `doors.rs` does not test.
fn others() -> impl Iterator<Item = LayoutKind> {
    LayoutKind::ALL.iter().copied().filter(|&layout| layout != LayoutKind::default())
}

/// Runs a door in every other layout.
fn enter(name: &str, effort: Effort) {
    for layout in others() {
        let mut visit = Visit::new(layout, 7, effort);
        visit.program = env!("CARGO_BIN_EXE_cantle-faults").into();
        (door(name).unwrap().enter)(&visit);
        visit.tell(&format!("{name}, {layout}"));
    }
}

#[test]
fn crash_states() {
    enter("crash-states", Effort::States(2_000 * factor()));
}

#[test]
fn without_manifest() {
    enter("without-manifest", Effort::Rounds(factor()));
}

#[test]
fn failing_calls() {
    enter("failing-calls", Effort::States(2_000 * factor()));
}

#[test]
fn kill() {
    enter("kill", Effort::Rounds(factor()));
}

#[test]
fn schedules() {
    enter("schedules", Effort::Rounds(factor()));
}

#[test]
fn histories() {
    enter("histories", Effort::Rounds(factor()));
}

#[test]
fn model() {
    enter("model", Effort::Rounds(factor()));
}

#[test]
fn pressure() {
    enter("pressure", Effort::Rounds(factor()));
}

#[test]
fn stores() {
    enter("stores", Effort::Rounds(factor()));
}

#[test]
fn revoked() {
    for &layout in LayoutKind::ALL {
        let visit = Visit::new(layout, 7, Effort::Rounds(factor()));
        (door("revoked").unwrap().enter)(&visit);
        visit.tell(&format!("revoked, {layout}"));
        let tally = visit.tally();
        if layout != LayoutKind::default() {
            assert!(tally["batches with a write behind them"] >= 8, "{tally:?}");
        }
    }
}

fn options(disk: &MemVfs, durability: Durability) -> Options {
    let options = Options::new().vfs(Arc::new(disk.clone())).durability(durability).memory_budget(8 << 20);
    options.background_threads(1).checkpoint_interval(Duration::from_secs(3600))
}

/// A keyspace in each layout.
fn spaces(db: &Db) -> Vec<Keyspace> {
    let space = |&layout: &LayoutKind| {
        db.keyspace_with(layout.name(), KeyspaceOptions::new().layout(layout)).unwrap()
    };
    LayoutKind::ALL.iter().map(space).collect()
}

fn pairs(space: &Keyspace) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    space.range(..).map(|pair| pair.map(|(key, value)| (text(&key), text(&value))).unwrap()).collect()
}

/// Checks that all keyspaces have these pairs, and are sound.
fn assert_have(db: &Db, expected: &[(&str, &str)], what: &str) {
    for space in spaces(db) {
        let found = pairs(&space);
        let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(found, expected, "{what}: {}", space.name());
        assert_eq!(space.stats().layout, space.layout());
    }
    assert!(db.verify().unwrap().is_ok(), "{what}");
}

#[test]
fn layouts_share_batches_transactions_checkpoints_backups_and_repairs() {
    for durability in [Durability::Buffered, Durability::Process, Durability::Sync] {
        let disk = MemVfs::new();
        let db = options(&disk, durability).open("store").unwrap();
        let all = spaces(&db);
        let write = |value: &str| {
            let mut batch = WriteBatch::new();
            for space in &all {
                batch.keyspace(space).put("a", value);
                batch.keyspace(space).put("b", value);
                batch.keyspace(space).delete_range("c".."d");
            }
            db.write(batch).unwrap();
        };
        all.iter().for_each(|space| space.put("c", "0").unwrap());
        write("1");
        // One snapshot over all keyspaces.
        let snapshot = db.snapshot();
        write("2");
        for space in &all {
            assert_eq!(snapshot.keyspace(space).get("a").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(space.get("a").unwrap().as_deref(), Some(&b"2"[..]));
        }
        drop(snapshot);
        // A transaction that read in one layout and wrote in the others conflicts with a write of a
        // key that it read.
        for (read, conflicts) in all.iter().flat_map(|space| [(space, false), (space, true)]) {
            let transaction = db.transaction();
            let seen = transaction.keyspace(read).get("a").unwrap();
            let ranged = transaction.keyspace(read).range("b".."c").count();
            assert_eq!((seen.as_deref(), ranged), (Some(&b"2"[..]), 1));
            for space in &all {
                transaction.keyspace(space).put("t", "1").unwrap();
            }
            if conflicts {
                read.put("b", "2").unwrap();
                assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
            } else {
                transaction.commit().unwrap();
            }
        }
        let expected = [("a", "2"), ("b", "2"), ("t", "1")];
        assert_have(&db, &expected, "written");
        db.sync().unwrap();
        db.backup("backup").unwrap();
        // Data that a checkpoint covers survive a loss of power in all layouts; later data survive
        // as the store promises.
        write("3");
        let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
        let killed = disk.kill();
        drop((all, db));
        let newest = [("a", "3"), ("b", "3"), ("t", "1")];
        for (disk, survives) in
            [(&lost, durability == Durability::Sync), (&killed, durability != Durability::Buffered)]
        {
            let expected = if survives { newest } else { expected };
            for life in 0..2 {
                let db = options(disk, durability).open("store").unwrap();
                assert_have(&db, &expected, &format!("{durability:?}, life {life}"));
                db.close().unwrap();
            }
            Db::repair("store", "repaired", options(disk, durability)).unwrap();
            let db = options(disk, durability).open("repaired").unwrap();
            assert_have(&db, &expected, "repaired");
            db.close().unwrap();
            let db = options(disk, durability).open("backup").unwrap();
            assert_have(&db, &[("a", "2"), ("b", "2"), ("t", "1")], "backed up");
        }
    }
}

#[test]
fn a_keyspace_keeps_its_layout() {
    let disk = MemVfs::new();
    let db = options(&disk, Durability::Process).open("store").unwrap();
    spaces(&db).iter().for_each(|space| space.put("a", "1").unwrap());
    for space in spaces(&db) {
        for &layout in LayoutKind::ALL.iter().filter(|&&layout| layout != space.layout()) {
            let refused = db.keyspace_with(space.name(), KeyspaceOptions::new().layout(layout));
            assert!(
                matches!(&refused, Err(Error::OptionMismatch { option: "layout", stored, given, .. })
                    if stored == space.layout().name() && given == layout.name()),
                "{:?}",
                refused.err()
            );
        }
        assert_eq!(db.keyspace(space.name()).unwrap().layout(), space.layout());
    }
    db.close().unwrap();
    for layout in others() {
        let options =
            options(&disk, Durability::Process).default_keyspace(KeyspaceOptions::new().layout(layout));
        assert!(matches!(options.open("store"), Err(Error::OptionMismatch { option: "layout", .. })));
    }
}
