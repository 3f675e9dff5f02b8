//! A full disk: writes fail with the reason, reads, deletes and operations that free space
//! continue, and everything recovers when there is space again.

use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use cantle::{Durability, Error, LayoutKind};
use cantle_faults::filling::{a_disk_that_fills_up, check, eventually, fill, setup};
use cantle_faults::rng::Rng;
use cantle_faults::setup::STORE;
use cantle_faults::visit::factor;
use cantle_faults::workload::key;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DURABILITIES: [Durability; 3] = [Durability::Process, Durability::Sync, Durability::Buffered];

/// Those that free space.
fn layouts() -> impl Iterator<Item = LayoutKind> {
    LayoutKind::ALL.iter().copied().filter(|layout| *layout != LayoutKind::Tiny)
}

fn seeds() -> std::ops::Range<u64> {
    0..2 * factor()
}

#[test]
fn a_full_disk_in_memory_fails_puts_and_heals() {
    let sizes = [8u64 << 20, 12 << 20];
    for layout in layouts() {
        let (mut stores, mut took_puts, mut compacted) = (0, 0, 0);
        for (seed, durability) in seeds().flat_map(|seed| DURABILITIES.map(|durability| (seed, durability))) {
            for capacity_bytes in sizes {
                println!("{layout}, seed {seed}, {durability:?}, {capacity_bytes} bytes");
                let memory = MemVfs::new();
                memory.set_capacity_bytes(Some(capacity_bytes));
                let setup = setup(layout, seed, durability);
                let db = setup.open(Arc::new(memory.clone())).unwrap();
                let filled = a_disk_that_fills_up(&db, seed, || memory.set_capacity_bytes(None));
                (stores, compacted) = (stores + 1, compacted + filled.compacted);
                took_puts += u64::from(filled.took_puts);
                drop(db);
                assert!(setup.open(Arc::new(memory.kill())).unwrap().verify().unwrap().is_ok());
            }
        }
        println!(
            "{layout}: {took_puts} of {stores} took puts after deletes, {compacted} compactions found room"
        );
    }
}

/// Fills the free space except `left_bytes`, with a file outside of the store.
fn occupy(memory: &MemVfs, left_bytes: u64) {
    let file = memory.open(Path::new("/other"), OpenMode::CreateNew).unwrap();
    let free = memory.available_bytes(Path::new("/")).unwrap();
    file.allocate(free.saturating_sub(left_bytes)).unwrap();
}

/// Waits until the store has set up its reserve.
fn eventually_kept(memory: &MemVfs) {
    let is_kept = || {
        ["RESERVE", "RESERVE-REBALANCE"]
            .iter()
            .all(|name| memory.metadata(&Path::new(STORE).join(name)).unwrap().is_some())
    };
    while !is_kept() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Without deletes: another file filled the disk, and is removed.
#[test]
fn a_disk_that_somebody_else_fills_fails_puts_and_heals() {
    for layout in layouts() {
        println!("{layout}");
        for durability in DURABILITIES {
            let memory = MemVfs::new();
            memory.set_capacity_bytes(Some(8 << 20));
            let setup = setup(layout, 1, durability);
            let db = setup.open(Arc::new(memory.clone())).unwrap();
            db.put("before", "1").unwrap();
            // The store checks the free space three times a second: first it sets up its reserve, then it finds the
            // disk full.
            eventually_kept(&memory);
            occupy(&memory, 0);
            std::thread::sleep(Duration::from_secs(1));
            let mut values = BTreeMap::from([(b"before".to_vec(), b"1".to_vec())]);
            assert!(fill(&db, &mut values, &mut Rng::new(1)), "{durability:?}: the disk is not full");
            check(&db, &values);
            db.delete("before").unwrap();
            values.remove(&b"before"[..]);
            memory.remove(Path::new("/other")).unwrap();
            eventually(&db, "a put after space was freed", || db.put("healed", "1"));
            values.insert(b"healed".to_vec(), b"1".to_vec());
            db.sync().unwrap();
            check(&db, &values);
        }
    }
}

/// A buffered store accepts no more than it can write, though other files may use that space at the
/// same time.
#[test]
fn a_buffered_store_buffers_no_more_than_there_is_room_for() {
    for layout in layouts() {
        println!("{layout}");
        let memory = MemVfs::new();
        memory.set_capacity_bytes(Some(8 << 20));
        let mut setup = setup(layout, 2, Durability::Buffered);
        setup.checkpoint_interval = Duration::from_secs(3600);
        (setup.chunk_bytes, setup.log_bytes) = (8 << 20, 8 << 20);
        let db = setup.open(Arc::new(memory.clone())).unwrap();
        db.put("first", "1").unwrap();
        occupy(&memory, 600 << 10);
        // The store checks the free space three times a second.
        std::thread::sleep(Duration::from_secs(3));
        let mut values = BTreeMap::from([(b"first".to_vec(), b"1".to_vec())]);
        assert!(fill(&db, &mut values, &mut Rng::new(2)));
        let bytes: usize = values.values().map(Vec::len).sum();
        assert!((200 << 10..600 << 10).contains(&bytes), "{bytes} bytes were accepted with 600 KiB free");
        check(&db, &values);
        db.sync().unwrap();
        let db_after = setup.open(Arc::new(memory.crash(&CrashPlan::LOSE_UNSYNCED))).unwrap();
        check(&db_after, &values);
    }
}

#[test]
fn a_flush_that_finds_no_space_loses_nothing() {
    for layout in layouts() {
        println!("{layout}");
        let memory = MemVfs::new();
        memory.set_capacity_bytes(Some(8 << 20));
        let mut setup = setup(layout, 3, Durability::Buffered);
        setup.checkpoint_interval = Duration::from_secs(3600);
        // No rebalance flushes the log earlier.
        (setup.chunk_bytes, setup.log_bytes) = (8 << 20, 8 << 20);
        let db = setup.open(Arc::new(memory.clone())).unwrap();
        let mut values = BTreeMap::new();
        for n in 0..400 {
            let value = vec![n as u8; 4000];
            db.put(key(n), &value).unwrap();
            values.insert(key(n), value);
        }
        // All the promised space is gone at once.
        memory.set_capacity_bytes(Some(0));
        assert!(db.sync().unwrap_err().is_no_space());
        assert!(db.put("more", "1").unwrap_err().is_no_space());
        check(&db, &values);
        memory.set_capacity_bytes(Some(8 << 20));
        eventually(&db, "a put after space was freed", || db.put("healed", "1"));
        values.insert(b"healed".to_vec(), b"1".to_vec());
        db.sync().unwrap();
        let db_after = setup.open(Arc::new(memory.crash(&CrashPlan::LOSE_UNSYNCED))).unwrap();
        check(&db_after, &values);
    }
}

/// Data that only the journal has are there after opening, even on a full disk, and stay in the
/// journal.
#[test]
fn a_sync_store_opens_on_a_full_disk_with_all_that_its_journal_holds() {
    for layout in layouts() {
        println!("{layout}");
        let (mut in_memory, mut on_disk) = (0, 0);
        for left_bytes in [0, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 3 << 20] {
            for reserve in [true, false] {
                let memory = MemVfs::new();
                memory.set_capacity_bytes(Some(8 << 20));
                let mut setup = setup(layout, 4, Durability::Sync);
                setup.checkpoint_interval = Duration::from_secs(3600);
                let db = setup.open(Arc::new(memory.clone())).unwrap();
                db.put("durable", "1").unwrap();
                db.sync().unwrap();
                let mut values = BTreeMap::from([(b"durable".to_vec(), b"1".to_vec())]);
                for n in 0..150 {
                    let value = vec![n as u8; 4000];
                    db.put(key(n), &value).unwrap();
                    values.insert(key(n), value);
                }
                let crashed = memory.crash(&CrashPlan::LOSE_UNSYNCED);
                if !reserve {
                    for name in ["RESERVE", "RESERVE-REBALANCE"] {
                        let _ = crashed.remove(&Path::new(STORE).join(name));
                    }
                }
                occupy(&crashed, left_bytes);
                let context = format!("{left_bytes} bytes left, reserve: {reserve}");
                let db = setup.open(Arc::new(crashed.clone())).unwrap_or_else(|e| panic!("{context}: {e}"));
                check(&db, &values);
                if let Some(reason) = db.stats().read_only {
                    in_memory += 1;
                    assert!(reason.contains("free space, then reopen"), "{reason}");
                    let refused = db.delete("durable").unwrap_err();
                    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
                    assert_eq!(refused.to_string(), format!("the store is read-only: {reason}"));
                } else {
                    on_disk += 1;
                    if let Err(error) = db.put("more", "1") {
                        assert!(error.is_no_space(), "{context}: {error}");
                    } else {
                        values.insert(b"more".to_vec(), b"1".to_vec());
                    }
                }
                // The power fails once more, and then the process is killed: everything is still there.
                let again = crashed.crash(&CrashPlan::LOSE_UNSYNCED);
                check(
                    &setup.open(Arc::new(again)).unwrap_or_else(|e| panic!("{context}: again: {e}")),
                    &values,
                );
                drop(db);
                crashed.remove(Path::new("/other")).unwrap();
                let db = setup.open(Arc::new(crashed)).unwrap();
                check(&db, &values);
                db.put("healed", "1").unwrap();
            }
        }
        println!("{in_memory} opened in memory, {on_disk} on disk");
        assert!(in_memory > 0 && on_disk > 0, "{in_memory} opened in memory, {on_disk} on disk");
    }
}

/// A store of one full disk, read as a whole while its checkpoints find no space.
#[test]
fn a_rebalance_that_has_no_room_writes_nothing() {
    let memory = MemVfs::new();
    memory.set_capacity_bytes(Some(8 << 20));
    let fault = FaultVfs::over_memory(memory.clone());
    let mut setup = setup(LayoutKind::default(), 5, Durability::Process);
    (setup.chunk_bytes, setup.log_bytes) = (8 << 20, 8 << 20);
    let db = setup.open(Arc::new(fault.clone())).unwrap();
    for n in 0..500 {
        db.put(key(n), vec![7; 4000]).unwrap();
    }
    occupy(&memory, 64 << 10);
    let written = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = written.clone();
    fault.set_rule(move |call| {
        if call.operation == Operation::WriteAt && call.path.extension().is_some_and(|e| e == "table") {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        Verdict::Pass
    });
    assert!(db.compact_range(..).unwrap_err().is_no_space());
    assert_eq!(written.load(std::sync::atomic::Ordering::Relaxed), 0);
    db.delete(key(1)).unwrap();
}
