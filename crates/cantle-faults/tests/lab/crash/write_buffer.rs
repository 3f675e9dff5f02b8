//! Appends in the write buffer when the process dies, the power fails, writes fail, or the file is
//! changed.

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use cantle::{ChunkOptions, Db, Durability, Error, KeyspaceOptions, Options, WriteBatch};
use cantle_faults::history::Progress;
use cantle_faults::images::record;
use cantle_faults::rng::Rng;
use cantle_faults::setup::STORE;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn keyspace() -> KeyspaceOptions {
    KeyspaceOptions::new().layout(ChunkOptions::new().munks(false)).row_cache(false)
}

/// Only the test itself drains the write buffer.
fn options(vfs: impl Vfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs))
        .memory_budget(4 << 20)
        .background_threads(1)
        .checkpoint_interval(Duration::from_secs(3600))
        .default_keyspace(keyspace())
}

fn open(vfs: impl Vfs) -> Db {
    options(vfs).open(STORE).unwrap()
}

fn write_buffer_path() -> PathBuf {
    Path::new(STORE).join("WRITE-BUFFER")
}

fn key(n: u64) -> String {
    format!("key{n:05}")
}

/// Values of many lengths: a slot has room for hundreds of some, and for none of others.
fn value(n: u64) -> Vec<u8> {
    let len = match n % 50 {
        7 => 20_000,
        3 | 31 => 5_000,
        _ => n * 37 % 700,
    };
    format!("{n} ").into_bytes().into_iter().cycle().take(8 + len as usize).collect()
}

fn put(db: &Db, numbers: std::ops::Range<u64>) {
    numbers.for_each(|n| db.put(key(n), value(n)).unwrap());
}

/// The number of consecutive pairs from the first on. Each must be as it was written, and there
/// must be no others.
fn count(db: &Db, context: &str) -> u64 {
    let pairs =
        db.range(..).collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| panic!("{context}: {error}"));
    for (n, (found, content)) in (0..).zip(&pairs) {
        assert!(*found == key(n).as_bytes() && *content == value(n)[..], "{context}: pair {n}");
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&value(n)[..]), "{context}: pair {n}");
    }
    pairs.len() as u64
}

#[test]
fn a_process_killed_at_any_store_or_call_keeps_what_it_acknowledged() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(fault.clone());
    let progress = Progress::at(0, 0);
    let images = record(&fault, &memory, &progress, 1, usize::MAX);
    for n in 0..150 {
        progress.begin();
        db.put(key(n), value(n)).unwrap();
        progress.finish(false);
        if n == 90 {
            db.sync().unwrap();
        }
    }
    assert!(db.stats().write_buffer_records > 60, "{:?}", db.stats());
    fault.clear_rule();
    let images = std::mem::take(&mut *images.lock().unwrap());
    assert!(images.iter().filter(|image| image.at.starts_with("Store")).count() > 200);
    for image in images {
        let context = format!("{}, {:?}", image.at, image.marks);
        // The write buffer is created with the first append that is buffered.
        let write_buffer_bytes = || image.vfs.metadata(&write_buffer_path()).unwrap().map(|file| file.len);
        let before = write_buffer_bytes();
        let reader = options(image.vfs.clone()).read_only(true).open(STORE).unwrap();
        let seen = count(&reader, &context);
        drop(reader);
        assert_eq!(write_buffer_bytes(), before, "{context}");
        let db = open(image.vfs.clone());
        assert_eq!(count(&db, &context), seen, "{context}");
        assert!((image.marks.acknowledged..=image.marks.begun).contains(&seen), "{context}: {seen}");
        // Once more at once, and then by a store without a write buffer.
        let again = image.vfs.kill();
        drop(db);
        let db = options(again).durability(Durability::Buffered).open(STORE).unwrap();
        assert_eq!(count(&db, &context), seen, "{context}");
    }
}

#[test]
fn a_loss_of_power_returns_to_the_checkpoint_whatever_is_buffered() {
    let vfs = MemVfs::new();
    let db = open(vfs.clone());
    put(&db, 0..40);
    db.sync().unwrap();
    put(&db, 40..80);
    for plan in [CrashPlan::LOSE_UNSYNCED, CrashPlan::KEEP_ALL, CrashPlan::random(5)] {
        let lost = vfs.crash(&plan);
        // The write buffer with its old contents: the kernel may have written it back.
        let write_buffer = read_all(&vfs, &write_buffer_path());
        let db = {
            if lost.metadata(&write_buffer_path()).unwrap().is_none() {
                lost.open(&write_buffer_path(), OpenMode::CreateNew).unwrap();
            }
            lost.open(&write_buffer_path(), OpenMode::ReadWrite).unwrap().write_at(&write_buffer, 0).unwrap();
            open(lost)
        };
        assert_eq!(count(&db, "after a loss of power"), 40);
    }
    db.close().unwrap();
    assert_eq!(count(&open(vfs.crash(&CrashPlan::LOSE_UNSYNCED)), "after closing"), 80);
}

#[test]
fn a_sync_store_keeps_what_it_buffered() {
    let vfs = MemVfs::new();
    let open = |vfs| options(vfs).durability(Durability::Sync).open(STORE).unwrap();
    let db = open(vfs.clone());
    put(&db, 0..60);
    assert_eq!(count(&open(vfs.kill()), "killed"), 60);
    assert_eq!(count(&open(vfs.crash(&CrashPlan::LOSE_UNSYNCED)), "lost power"), 60);
    assert!(db.stats().memory.write_buffer.used > 0);
}

fn read_all(vfs: &MemVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The number of pairs that can be read, each as it was written; the records of the others are lost
/// or damaged.
fn count_whole(db: &Db, context: &str) -> u64 {
    let is_whole = |n: &u64| match db.get(key(*n)) {
        Ok(Some(found)) => {
            assert_eq!(found, value(*n)[..], "{context}: pair {n}");
            true
        }
        Ok(None) => false,
        Err(error) => {
            assert!(error.is_corruption(), "{context}: {error}");
            false
        }
    };
    (0..50).filter(is_whole).count() as u64
}

/// Opens a copy of `image` with another write buffer. Returns the number of its pairs, which are
/// all right.
fn open_with(image: &MemVfs, write_buffer: &[u8], context: &str) -> u64 {
    let vfs = image.kill();
    vfs.remove(&write_buffer_path()).unwrap();
    vfs.open(&write_buffer_path(), OpenMode::CreateNew).unwrap().write_at(write_buffer, 0).unwrap();
    let db = open(vfs);
    let found = count_whole(&db, context);
    let report = db.verify().unwrap();
    // Data that were buffered after damage are in its log now, and so is the damage.
    let of_write_buffer =
        |error: &Error| matches!(error, Error::Corruption { path, .. } if *path == write_buffer_path());
    assert!(report.is_ok() || report.damage.iter().any(of_write_buffer), "{context}: {:?}", report.damage);
    assert!(!context.starts_with("bit") || !report.is_ok(), "{context} is not told");
    found
}

#[test]
fn a_write_buffer_that_lies_is_found_out() {
    let vfs = MemVfs::new();
    let db = open(vfs.clone());
    put(&db, 0..4);
    db.sync().unwrap();
    let early = read_all(&vfs, &write_buffer_path());
    put(&db, 4..30);
    let image = vfs.kill();
    let write_buffer = read_all(&image, &write_buffer_path());
    let all = open_with(&image, &write_buffer, "as it is");
    assert_eq!(all, 30);
    let at_least = open_with(&image, &[], "empty");
    assert!(at_least < all, "something was buffered");

    let slot = 4096;
    assert_ne!(write_buffer[slot..slot + 8], [0; 8]);
    let buffered = usize::from(u16::from_le_bytes(write_buffer[slot + 8..slot + 10].try_into().unwrap()));
    assert!(buffered > 1000, "{buffered}");
    // Every bit that is not always zero, and some of the buffered bytes.
    let heads = (0..44 * 8).chain(slot * 8..(slot + 16) * 8);
    let body = (0..200).map(|step| (slot + 16) * 8 + step * buffered * 8 / 200);
    for bit in heads.chain(body) {
        let mut damaged = write_buffer.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = open_with(&image, &damaged, &format!("bit {bit}"));
        assert!((at_least..all).contains(&found), "bit {bit}: {found}");
    }
    for len in [1, 43, 4095, 4096, 4100, 4111, 4112, 4200, 4096 + 16 + buffered - 1] {
        let found = open_with(&image, &write_buffer[..len], &format!("{len} bytes"));
        assert!((at_least..all).contains(&found), "{len} bytes: {found}");
    }
    let mut rng = Rng::new(17);
    for round in 0..200 {
        let mut damaged = write_buffer.clone();
        for _ in 0..1 + rng.below(20) {
            let at = slot + rng.below(buffered as u64 + 64) as usize;
            damaged[at] = rng.next() as u8;
        }
        assert!(open_with(&image, &damaged, &format!("round {round}")) <= all);
    }
    // Write buffers of the same store, earlier; of another store; of the same store in another
    // epoch.
    assert_eq!(open_with(&image, &early, "of before"), at_least);
    let other = MemVfs::new();
    let foreign = open(other.clone());
    put(&foreign, 0..30);
    assert_eq!(open_with(&image, &read_all(&other, &write_buffer_path()), "another store's"), at_least);
    drop(db);
    let later = image.kill();
    let db = open(later.clone());
    put(&db, 30..50);
    let killed = later.kill();
    assert_eq!(open_with(&killed, &read_all(&killed, &write_buffer_path()), "of the second epoch"), 50);
    assert!((30..50).contains(&open_with(&killed, &write_buffer, "of the first epoch")));
}

#[test]
fn what_cannot_be_drained_is_not_lost() {
    for verdict in [
        Verdict::Fail(Failure::EIO),
        Verdict::Fail(Failure::ENOSPC),
        Verdict::ShortWrite { bytes: 1000, failure: Failure::ENOSPC },
    ] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(fault.clone());
        put(&db, 0..5);
        fault.set_rule(move |call| {
            let is_log = call.path.extension().is_some_and(|extension| extension == "log");
            if call.operation == Operation::WriteAt && is_log { verdict } else { Verdict::Pass }
        });
        let written = (5..).find(|&n| db.put(key(n), value(n)).is_err()).unwrap();
        assert!(written > 6, "some were buffered");
        assert!(db.put(key(written), value(written)).is_err(), "there is no more room");
        assert!(db.sync().is_err());
        assert_eq!(count(&db, "still open"), written);
        assert_eq!(count(&open(memory.kill()), "killed"), written);
        fault.clear_rule();
        put(&db, written..written + 50);
        let written = written + 50;
        assert_eq!(count(&db, "healed"), written);
        assert_eq!(count(&open(memory.kill()), "killed later"), written);
        db.sync().unwrap();
        assert_eq!(count(&open(memory.crash(&CrashPlan::LOSE_UNSYNCED)), "synced"), written);
        assert!(db.verify().unwrap().is_ok());
    }
}

#[test]
fn closing_that_fails_leaves_the_write_buffer_and_one_that_succeeds_does_not() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(fault.clone());
    put(&db, 0..6);
    fault.fail_always(Operation::WriteAt, Verdict::Fail(Failure::EIO));
    assert!(db.close().is_err());
    drop(db);
    fault.clear_rule();
    assert!(memory.metadata(&write_buffer_path()).unwrap().is_some());
    let db = open(memory.clone());
    assert_eq!(count(&db, "reopened"), 6);
    db.close().unwrap();
    drop(db);
    assert!(memory.metadata(&write_buffer_path()).unwrap().is_none());
    assert_eq!(count(&open(memory), "closed"), 6);
}

#[test]
fn what_is_buffered_is_read_scanned_verified_and_backed_up() {
    let vfs = MemVfs::new();
    let db = open(vfs.clone());
    for n in 0..20 {
        db.put(key(n), value(n)).unwrap();
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(&value(n)[..]));
    }
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    for n in 20..30 {
        batch.put(key(n), value(n));
    }
    db.write(batch).unwrap();
    let drains = db.stats().write_buffer_drains;
    assert_eq!(count(&db, "buffered"), 30);
    assert_eq!(db.stats().write_buffer_drains, drains, "reads drain nothing");
    assert!(
        db.stats().memory.write_buffer.used > 0
            && db.stats().memory_used >= db.stats().memory.write_buffer.used
    );
    db.backup("/backup").unwrap();
    put(&db, 30..36);
    let copy = options(vfs.clone()).open("/backup").unwrap();
    assert_eq!(count(&copy, "the backup"), 30);
    let report = db.verify().unwrap();
    assert!(report.is_ok() && report.entries == 36, "{report:?}");
    db.compact_range(..).unwrap();
    assert_eq!(count(&db, "compacted"), 36);
    assert_eq!(snapshot.range(..).count(), 20);
}

#[test]
fn there_is_no_write_buffer_where_it_is_unwanted_or_space_is_short() {
    let buffered = |options: Options, vfs: &MemVfs| {
        let db = options.open(STORE).unwrap();
        put(&db, 0..60);
        db.sync().unwrap();
        assert_eq!(count(&db, "buffered or not"), 60);
        let there = vfs.metadata(&write_buffer_path()).unwrap().is_some();
        (there, db.stats().write_buffer_records > 0)
    };
    let vfs = MemVfs::new();
    assert_eq!(buffered(options(vfs.clone()), &vfs), (true, true));
    let vfs = MemVfs::new();
    assert_eq!(buffered(options(vfs.clone()).durability(Durability::Buffered), &vfs), (false, false));
    let vfs = MemVfs::new();
    assert_eq!(buffered(options(vfs.clone()).write_buffer(false), &vfs), (false, false));
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(1 << 30));
    assert_eq!(buffered(options(vfs.clone()), &vfs), (false, false));
    // A write buffer that a killed process left is read, and then removed.
    let vfs = MemVfs::new();
    let db = open(vfs.clone());
    put(&db, 0..60);
    let killed = vfs.kill();
    drop(db);
    assert!(killed.metadata(&write_buffer_path()).unwrap().is_some());
    let db = options(killed.clone()).write_buffer(false).open(STORE).unwrap();
    assert_eq!(count(&db, "without a write buffer"), 60);
    assert!(killed.metadata(&write_buffer_path()).unwrap().is_none());
    // Space becomes short while data are buffered: these go to the log before later writes.
    let vfs = MemVfs::new();
    let db = open(vfs.clone());
    put(&db, 0..6);
    vfs.set_capacity_bytes(Some(1 << 30));
    while db.stats().write_buffer_drains == 0 {
        std::thread::sleep(Duration::from_millis(50));
        put(&db, 6..7);
    }
    let drained = db.stats().write_buffer_drains;
    put(&db, 7..60);
    assert_eq!(db.stats().write_buffer_drains, drained);
    assert_eq!(count(&db, "short of space"), 60);
    assert_eq!(count(&open(vfs.kill()), "killed"), 60);
}
