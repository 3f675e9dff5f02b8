//! Bugs that the lab found, one test each.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use cantle::{Db, Durability, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn open(vfs: Arc<dyn Vfs>, durability: Durability) -> cantle::Result<Db> {
    let options = Options::new().vfs(vfs).memory_budget(4 << 20).durability(durability);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store")
}

/// A batch over the default keyspace and another one.
fn both(other: &cantle::Keyspace, value: &str) -> cantle::WriteBatch {
    let mut batch = cantle::WriteBatch::new();
    batch.put("both", value).keyspace(other).put("both", value);
    batch
}

/// A store with a checkpointed `old` and a later acknowledged `new`, as the death of its process
/// leaves it.
fn killed(durability: Durability) -> MemVfs {
    let memory = MemVfs::new();
    let db = open(Arc::new(memory.clone()), durability).unwrap();
    db.put("old", "1").unwrap();
    db.sync().unwrap();
    db.put("new", "2").unwrap();
    memory.kill()
}

/// Opening must determine if the page cache outlived the dead process. If it could not, it assumed
/// that the page cache was lost, and dropped acknowledged writes.
#[test]
fn opening_that_cannot_find_out_what_outlived_the_process_fails_instead_of_giving_it_up() {
    for operation in [Operation::PageCacheIdentity, Operation::Open, Operation::ReadAt, Operation::Metadata] {
        for skipped in 0..40 {
            let memory = killed(Durability::Process);
            let fault = FaultVfs::over_memory(memory.clone());
            fault.fail_once(operation, skipped, Verdict::Fail(Failure::EMFILE));
            let opened = open(Arc::new(fault.clone()), Durability::Process);
            fault.clear_rule();
            let db = opened.or_else(|_| open(Arc::new(fault.clone()), Durability::Process)).unwrap();
            assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"2"[..]), "{operation:?} {skipped} failed");
        }
    }
}

/// One recovery dropped the end of a log that a failed sync had lost, and the next one recovered
/// it, as it found the page cache of the epoch between them intact. The following loss of power
/// then left a log shorter than recorded.
#[test]
fn the_end_of_a_log_that_was_given_up_once_is_not_taken_up_again() {
    let memory = killed(Durability::Process);
    // The sync that fails is the opening's, or that of a checkpoint right after it.
    let fault = FaultVfs::over_memory(memory.clone());
    fault.fail_always(Operation::SyncData, Verdict::FailLost(Failure::EIO));
    drop(open(Arc::new(fault.clone()), Durability::Process).map(|db| db.sync()));
    fault.clear_rule();
    // The page cache is not trusted now, but will be the next time.
    let db = open(Arc::new(memory.clone()), Durability::Process).unwrap();
    db.put("newer", "3").unwrap();
    let killed = memory.kill();
    drop(db);
    let db = open(Arc::new(killed.clone()), Durability::Process).unwrap();
    db.put("newest", "4").unwrap();
    db.sync().unwrap();
    let lost = killed.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    let db = open(Arc::new(lost), Durability::Process).unwrap();
    assert_eq!(db.verify().unwrap().damage.len(), 0);
    for (key, value) in [("old", "1"), ("newer", "3"), ("newest", "4")] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
    }
}

/// A damaged record of the manifest after the last checkpoint was taken for the effect of a loss of
/// power, though there had been none. Writes acknowledged since were dropped without a report.
#[test]
fn damage_behind_the_last_checkpoint_is_damage_where_no_power_was_lost() {
    let memory = MemVfs::new();
    let db = open(Arc::new(memory.clone()), Durability::Process).unwrap();
    for name in ["first", "second", "third"] {
        db.keyspace(name).unwrap();
    }
    db.put("new", "2").unwrap();
    let names = memory.list(Path::new("store")).unwrap();
    let manifest = names.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let path = Path::new("store").join(manifest);
    let checkpointed = memory.metadata(&path).unwrap().unwrap().len;
    // These are in the manifest after the checkpoint.
    for name in ["first", "second", "third"] {
        db.drop_keyspace(name).unwrap();
    }
    let killed = memory.kill();
    let len = killed.metadata(&path).unwrap().unwrap().len;
    let (mut noticed, mut torn) = (0, 0);
    for at in checkpointed..len {
        let damaged = killed.kill();
        let file = damaged.open(&path, OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1], at).unwrap();
        match open(Arc::new(damaged), Durability::Process) {
            Ok(db) => {
                // The last record looks as if the process had died during its write.
                assert!(db.get("new").unwrap().is_some_and(|value| value == "2"), "byte {at} of {len}");
                assert!(db.keyspaces().unwrap().len() <= 2, "byte {at} of {len}");
                torn += 1;
            }
            Err(error) => {
                assert!(error.is_corruption(), "{error}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > torn, "{noticed} noticed, {torn} taken for torn");
}

/// A batch over two logs whose append to the second failed, and whose first record could not be
/// truncated, came back partly once a checkpoint had marked all batches before it as complete.
#[test]
fn a_batch_that_failed_and_cannot_be_cut_off_does_not_come_back() {
    for (spoiling_works, durability) in
        [(true, Durability::Process), (false, Durability::Process), (true, Durability::Sync)]
    {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), durability).unwrap();
        let other = db.keyspace("other").unwrap();
        db.put("key", "old").unwrap();
        other.put("key", "old").unwrap();
        // Large enough to go to the logs directly.
        let mut batch = cantle::WriteBatch::new();
        batch.put("key", vec![b'x'; 100_000]).keyspace(&other).put("key", vec![b'x'; 100_000]);
        let seen = std::sync::atomic::AtomicU64::new(0);
        fault.set_rule(move |call| match call.operation {
            Operation::WriteAt if call.len > 100_000 => {
                let is_second = seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
                if is_second { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
            }
            // The zeros that make the appended record invalid.
            Operation::WriteAt if call.len <= 8 && !spoiling_works => Verdict::Fail(Failure::EIO),
            Operation::SetLen => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        });
        let failed = db.write(batch).unwrap_err();
        fault.clear_rule();
        if !spoiling_works {
            // The batch may come back, so the store must report that.
            assert!(db.stats().read_only.is_some_and(|why| why.contains("taken back")), "{failed}");
            continue;
        }
        assert_eq!(db.stats().read_only, None, "{failed}");
        db.put("later", "1").unwrap();
        db.sync().unwrap();
        let reopened = open(Arc::new(memory.kill()), durability).unwrap();
        let other = reopened.keyspace("other").unwrap();
        assert!(reopened.get("key").unwrap().is_some_and(|value| value == "old"), "{durability:?}");
        assert!(other.get("key").unwrap().is_some_and(|value| value == "old"), "{durability:?}");
        assert_eq!(reopened.get("later").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(reopened.verify().unwrap().is_ok());
    }
}

/// One log found no space for its buffered records. The failed sync of another log in the same
/// checkpoint was not noticed, and the next checkpoint took that log for synced.
#[test]
fn a_failed_sync_is_noticed_behind_another_log_that_finds_no_space() {
    for first in ["default", "other"] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
        let other = db.keyspace("other").unwrap();
        let put = |value: &str| {
            db.put("key", value.repeat(100)).unwrap();
            other.put("key", value.repeat(100)).unwrap();
        };
        put("1");
        db.sync().unwrap();
        let logs: Vec<String> = memory
            .list(Path::new("store"))
            .unwrap()
            .into_iter()
            .filter(|name| name.ends_with(".log"))
            .collect();
        assert_eq!(logs.len(), 2);
        put("2");
        let full = logs[usize::from(first == "default")].clone();
        fault.set_rule(move |call| {
            let (is_full, is_log) =
                (call.path.ends_with(&full), call.path.extension().is_some_and(|e| e == "log"));
            match call.operation {
                Operation::WriteAt if is_full => Verdict::Fail(Failure::ENOSPC),
                Operation::SyncData if is_log => Verdict::FailLost(Failure::EIO),
                _ => Verdict::Pass,
            }
        });
        db.sync().unwrap_err();
        fault.clear_rule();
        let why = db.stats().read_only.expect("a sync failed");
        assert!(why.contains(".log"), "{why}");
        assert!(db.sync().is_err());
        let db = open(Arc::new(memory.crash(&CrashPlan::LOSE_UNSYNCED)), Durability::Process).unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
}

/// If the index of a log could neither be written nor truncated, writing continued in the middle of
/// it: the rest of the index was taken for records that prove damage.
#[test]
fn half_an_index_that_cannot_be_cut_off_is_no_damage() {
    const VALUE_BYTES: usize = 20_000;
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
    let failed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = failed.clone();
    fault.set_rule(move |call| match call.operation {
        Operation::WriteAt
            if call.path.extension().is_some_and(|e| e == "log") && call.len < VALUE_BYTES as u64 =>
        {
            if call.offset == 0 || seen.swap(true, std::sync::atomic::Ordering::Relaxed) {
                return Verdict::Pass;
            }
            Verdict::ShortWrite { bytes: call.len as usize - 5, failure: Failure::EIO }
        }
        Operation::SetLen => Verdict::Fail(Failure::EIO),
        _ => Verdict::Pass,
    });
    let mut puts = 0;
    while !failed.load(std::sync::atomic::Ordering::Relaxed) {
        // Long keys, so that the index has several blocks.
        let _ = db.put(format!("{puts:06}").repeat(60), vec![b'x'; VALUE_BYTES]);
        puts += 1;
        assert!(puts < 1000, "a log is indexed at last");
    }
    db.put("last", "1").unwrap();
    let reopened = open(Arc::new(memory.kill()), Durability::Process).unwrap();
    assert_eq!(reopened.range(..).collect::<cantle::Result<Vec<_>>>().unwrap().len(), puts + 1);
    assert!(reopened.verify().unwrap().is_ok());
}

/// A log whose first write failed was named by the manifest, and known to no checkpoint. Once a
/// backup or a loss of power had left it out, the opening after the next one missed it, and with it
/// the chunk.
#[test]
fn a_log_that_no_checkpoint_knows_need_not_be_there() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
    db.put("key", "1").unwrap();
    let other = db.keyspace("other").unwrap();
    // Not the log's header.
    fault.set_rule(|call| match call.operation {
        Operation::WriteAt if call.len > 100_000 => Verdict::Fail(Failure::EIO),
        _ => Verdict::Pass,
    });
    other.put("key", vec![b'x'; 100_000]).unwrap_err();
    fault.clear_rule();
    db.sync().unwrap();
    db.backup("backup").unwrap();
    let lost = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    for (vfs, dir) in [(memory.clone(), "backup"), (lost, "store")] {
        for _ in 0..3 {
            let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(4 << 20);
            let db = options.open(dir).unwrap();
            let other = db.keyspace("other").unwrap();
            assert!(other.get("key").unwrap().is_none());
            assert!(db.verify().unwrap().is_ok(), "{dir}");
            assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"1"[..]));
        }
    }
}

/// A failed append of a commit record counted as a failed sync: the store turned read-only and
/// returned to its last checkpoint, though none of its acknowledged writes was in doubt.
#[test]
fn a_commit_record_that_fails_takes_its_batch_with_it_and_nothing_else() {
    let is_commit = |call: &cantle::vfs::Call<'_>| {
        // Under the name that it had when it was created.
        let is_journal = call.path.to_string_lossy().contains(".journal");
        call.operation == Operation::WriteAt && is_journal && call.len < 100 && call.offset > 0
    };
    let short = Verdict::ShortWrite { bytes: 9, failure: Failure::EIO };
    for verdict in [Verdict::Fail(Failure::EIO), short, Verdict::FailDone(Failure::EIO)] {
        for fails_always in [false, true] {
            let memory = MemVfs::new();
            let fault = FaultVfs::over_memory(memory.clone());
            let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
            let other = db.keyspace("other").unwrap();
            let batch = |value| both(&other, value);
            db.write(batch("1")).unwrap();
            db.sync().unwrap();
            db.put("acknowledged", "1").unwrap();
            let failed = std::sync::atomic::AtomicBool::new(false);
            fault.set_rule(move |call| {
                let fails = is_commit(call)
                    && (fails_always || !failed.swap(true, std::sync::atomic::Ordering::Relaxed));
                if fails { verdict } else { Verdict::Pass }
            });
            db.write(batch("2")).unwrap_err();
            fault.clear_rule();
            let read_only = db.stats().read_only;
            assert_eq!(read_only.is_some(), fails_always, "{read_only:?}");
            let last = if fails_always { "1" } else { "3" };
            if !fails_always {
                db.write(batch("3")).unwrap();
            }
            drop(other);
            let db = open(Arc::new(memory.kill()), Durability::Process).unwrap();
            let other = db.keyspace("other").unwrap();
            assert_eq!(db.get("acknowledged").unwrap().as_deref(), Some(&b"1"[..]), "{verdict:?}");
            for found in [db.get("both"), other.get("both")] {
                assert_eq!(found.unwrap().as_deref(), Some(last.as_bytes()), "{verdict:?} {fails_always}");
            }
            assert!(db.verify().unwrap().is_ok());
        }
    }
}

/// A commit record was written in spite of the reported failure, and could not be undone. It
/// committed a batch of which some appends had been undone in the meantime.
#[test]
fn a_batch_in_doubt_is_there_whole_or_not_at_all() {
    for is_written in [false, true] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
        let other = db.keyspace("other").unwrap();
        let batch = |value| both(&other, value);
        db.write(batch("1")).unwrap();
        db.sync().unwrap();
        let failed = std::sync::atomic::AtomicBool::new(false);
        let first = if is_written { Verdict::FailDone(Failure::EIO) } else { Verdict::Fail(Failure::EIO) };
        let log = std::sync::Mutex::new(None);
        fault.set_rule(move |call| {
            let name = call.path.to_string_lossy();
            match call.operation {
                Operation::WriteAt if name.contains(".journal") && call.len < 100 && call.offset > 0 => {
                    let is_first = !failed.swap(true, std::sync::atomic::Ordering::Relaxed);
                    if is_first { first } else { Verdict::Fail(Failure::EIO) }
                }
                // One log cannot be truncated, the other can.
                Operation::SetLen | Operation::Len if name.ends_with(".log") => {
                    let is_it = *log.lock().unwrap().get_or_insert_with(|| name.to_string()) == *name;
                    if is_it { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
                }
                _ => Verdict::Pass,
            }
        });
        db.write(batch("2")).unwrap_err();
        fault.clear_rule();
        assert!(db.stats().read_only.is_some_and(|why| why.contains("may be found after all")));
        assert_eq!(db.get("both").unwrap().as_deref(), Some(&b"1"[..]), "it failed");
        drop(other);
        let db = open(Arc::new(memory.kill()), Durability::Process).unwrap();
        let other = db.keyspace("other").unwrap();
        let wanted = if is_written { "2" } else { "1" };
        for found in [db.get("both"), other.get("both")] {
            assert_eq!(found.unwrap().as_deref(), Some(wanted.as_bytes()));
        }
        assert!(db.verify().unwrap().is_ok());
    }
}

/// The records of a failed batch that could not be truncated were overwritten page by page. If that
/// failed in the middle of a page, records followed a damaged one, which is reported as damage.
#[test]
fn a_failed_batch_that_is_half_overwritten_is_no_damage() {
    for overwritten in [0, 1, 50, 700] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
        let other = db.keyspace("other").unwrap();
        db.put("acknowledged", "1").unwrap();
        other.put("acknowledged", "1").unwrap();
        // Large enough to go to the logs directly.
        let mut batch = cantle::WriteBatch::new();
        for n in 0..1000 {
            batch.put(format!("{n}"), vec![b'x'; 100]);
        }
        batch.keyspace(&other).put("key", vec![b'x'; 200_000]);
        let calls = std::sync::atomic::AtomicU64::new(0);
        let cutting = std::sync::atomic::AtomicBool::new(false);
        fault.set_rule(move |call| match call.operation {
            Operation::WriteAt if call.len > 200_000 => Verdict::Fail(Failure::EIO),
            Operation::SetLen => {
                cutting.store(true, std::sync::atomic::Ordering::Relaxed);
                Verdict::Fail(Failure::EIO)
            }
            Operation::WriteAt
                if cutting.load(std::sync::atomic::Ordering::Relaxed)
                    && calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= overwritten =>
            {
                Verdict::ShortWrite { bytes: call.len as usize / 2, failure: Failure::ENOSPC }
            }
            _ => Verdict::Pass,
        });
        db.write(batch).unwrap_err();
        fault.clear_rule();
        assert!(db.stats().read_only.is_some_and(|why| why.contains("taken back")));
        drop(other);
        let db = open(Arc::new(memory.kill()), Durability::Process).unwrap();
        let other = db.keyspace("other").unwrap();
        for pairs in [db.range(..), other.range(..)] {
            let pairs = pairs.collect::<cantle::Result<Vec<_>>>();
            assert_eq!(pairs.map(|pairs| pairs.len()).ok(), Some(1), "behind {overwritten} calls");
        }
        assert!(db.verify().unwrap().is_ok());
    }
}

/// With too many open files a directory could not be synced. The failure counted as a failed sync,
/// after which a store returns to its last checkpoint; but a file that cannot be opened has lost
/// nothing.
#[test]
fn too_many_open_files_lose_nothing() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(Arc::new(fault.clone()), Durability::Process).unwrap();
    let other = db.keyspace("other").unwrap();
    let batch = |value| both(&other, value);
    db.write(batch("1")).unwrap();
    db.sync().unwrap();
    db.write(batch("2")).unwrap();
    let third = db.keyspace("third").unwrap();
    third.put("key", "1").unwrap();
    fault.set_rule(|call| match call.operation {
        Operation::SyncDir | Operation::Create => Verdict::Fail(Failure::EMFILE),
        _ => Verdict::Pass,
    });
    db.sync().unwrap_err();
    assert_eq!(db.stats().read_only, None);
    third.put("key", "2").unwrap();
    db.close().unwrap_err();
    fault.clear_rule();
    drop((other, third));
    let db = open(Arc::new(memory.kill()), Durability::Process).unwrap();
    for (name, key) in [("default", "both"), ("other", "both"), ("third", "key")] {
        let keyspace = db.keyspace(name).unwrap();
        assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&b"2"[..]), "{name}");
    }
    db.sync().unwrap();
}

/// A store that had turned read-only in the background was closed without a report, and its
/// acknowledged writes were not durable.
#[test]
fn closing_a_store_that_turned_read_only_says_so() {
    for durability in [Durability::Process, Durability::Buffered, Durability::Sync] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), durability).unwrap();
        db.put("key", "1").unwrap();
        // The sync of a rebalance's table.
        fault.set_rule(|call| match call.operation {
            Operation::SyncData if call.path.extension().is_some_and(|kind| kind == "table") => {
                Verdict::Fail(Failure::EIO)
            }
            _ => Verdict::Pass,
        });
        db.compact_range(..).unwrap_err();
        fault.clear_rule();
        let reason = db.stats().read_only.expect("a sync failed");
        let error = db.close().unwrap_err();
        assert!(error.to_string().contains(&reason), "{durability:?}: {error}");
        assert!(matches!(db.close(), Err(cantle::Error::Closed)));
    }
}

/// Metadata was appended to the manifest during a checkpoint that had begun earlier, and so became
/// durable. Writes before it, but after the checkpoint began, were not durable if the next
/// checkpoint failed.
#[test]
fn metadata_does_not_outlive_what_was_written_before_it() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(Arc::new(fault.clone()), Durability::Buffered).unwrap();
    let other = db.keyspace("other").unwrap();
    other.put("key", "1").unwrap();
    let (begun, begins) = std::sync::mpsc::sync_channel(1);
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let goes_on = std::sync::Mutex::new(goes_on);
    let of_metadata = Arc::new(std::sync::Mutex::new(None));
    let fails = of_metadata.clone();
    fault.set_rule(move |call| {
        if !matches!(call.operation, Operation::SyncData | Operation::SyncDir) {
            return Verdict::Pass;
        }
        if *fails.lock().unwrap() == Some(std::thread::current().id()) {
            return Verdict::Fail(Failure::EIO);
        }
        if call.path.extension().is_some_and(|kind| kind == "log") && begun.try_send(()).is_ok() {
            goes_on.lock().unwrap().recv().unwrap();
        }
        Verdict::Pass
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| db.sync());
        begins.recv().unwrap();
        other.put("key", "2").unwrap();
        let second = scope.spawn(|| {
            *of_metadata.lock().unwrap() = Some(std::thread::current().id());
            other.set_metadata(b"new")
        });
        // Until the other thread waits for the checkpoint.
        std::thread::sleep(Duration::from_millis(100));
        go_on.send(()).unwrap();
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap_err();
    });
    fault.clear_rule();
    drop((db, other));
    let db = open(Arc::new(memory), Durability::Buffered).unwrap();
    let other = db.keyspace("other").unwrap();
    let found = (other.get("key").unwrap().unwrap(), other.metadata());
    assert!(found.1.is_empty() || found.0 == "2", "{found:?}");
}

/// A replay that found no space was repeated, though its first attempt could not be undone. The
/// edit of that attempt hid the edit of the next one, and the next process found pairs that a range
/// delete had deleted.
#[test]
fn a_replay_that_cannot_be_taken_back_is_not_tried_again() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    for undoes in [true, false] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), Durability::Sync).unwrap();
        let other = db.keyspace("other").unwrap();
        other.put("key", "old").unwrap();
        db.sync().unwrap();
        // A record, and a dropped chunk.
        let mut batch = cantle::WriteBatch::new();
        batch.put("key", "new").keyspace(&other).delete_range(..);
        db.write(batch).unwrap();
        // The page cache is not trusted any more, and the manifest will be copied, so that the old
        // one remains to be removed.
        fault.set_rule(|call| {
            let is_it =
                call.operation == Operation::SyncData && call.path.to_string_lossy().contains(".journal");
            if is_it { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
        });
        db.put("last", "1").unwrap_err();
        fault.clear_rule();
        drop((db, other));
        let (records, edits) = (AtomicU64::new(0), AtomicU64::new(0));
        fault.set_rule(move |call| {
            let name = call.path.to_string_lossy();
            let full = Verdict::Fail(Failure::ENOSPC);
            if call.operation != Operation::WriteAt {
                return Verdict::Pass;
            }
            // The commit record; if nothing is undone, also the zeros over it.
            if name.contains(".journal") && call.len < 100 && call.offset > 0 {
                let failing = if undoes { 1 } else { 2 };
                return if records.fetch_add(1, Relaxed) < failing { full } else { Verdict::Pass };
            }
            // The edit that undoes the drop.
            let takes_back = undoes && name.contains("MANIFEST") && records.load(Relaxed) > 0;
            if takes_back && edits.fetch_add(1, Relaxed) == 0 { full } else { Verdict::Pass }
        });
        drop(open(Arc::new(fault.clone()), Durability::Sync));
        fault.clear_rule();
        for read_only in [true, false] {
            let options = Options::new().vfs(Arc::new(memory.clone())).memory_budget(4 << 20);
            let db = options.durability(Durability::Sync).read_only(read_only).open("store").unwrap();
            let other = db.keyspace("other").unwrap();
            assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]));
            assert!(other.get("key").unwrap().is_none(), "undoes: {undoes}, read-only: {read_only}");
        }
    }
}

/// A checkpoint that had begun during the write of a batch waited for the batch, and marked it as
/// complete, though it had failed and its appended part could not be undone: so it came back
/// partly.
#[test]
fn a_checkpoint_does_not_settle_a_batch_that_failed_meanwhile() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    for durability in [Durability::Process, Durability::Sync] {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(Arc::new(fault.clone()), durability).unwrap();
        let other = db.keyspace("other").unwrap();
        db.put("key", "old").unwrap();
        other.put("key", "old").unwrap();
        // Large enough to go to the logs directly.
        let mut batch = cantle::WriteBatch::new();
        batch.put("key", vec![b'x'; 100_000]).keyspace(&other).put("key", vec![b'x'; 100_000]);
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let (go_on, goes_on) = std::sync::mpsc::channel();
        let goes_on = std::sync::Mutex::new(goes_on);
        let seen = AtomicU64::new(0);
        fault.set_rule(move |call| match call.operation {
            Operation::WriteAt if call.len > 100_000 && seen.fetch_add(1, Relaxed) == 1 => {
                begun.send(()).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
                Verdict::Fail(Failure::EIO)
            }
            // Neither truncated nor overwritten.
            Operation::SetLen => Verdict::Fail(Failure::EIO),
            Operation::WriteAt if call.len <= 8 => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        });
        std::thread::scope(|scope| {
            let write = scope.spawn(|| db.write(batch));
            begins.recv().unwrap();
            let checkpoint = scope.spawn(|| db.sync());
            // Until the checkpoint waits for the batch.
            std::thread::sleep(Duration::from_millis(100));
            go_on.send(()).unwrap();
            write.join().unwrap().unwrap_err();
            checkpoint.join().unwrap().unwrap_err();
        });
        fault.clear_rule();
        drop((db, other));
        let db = open(Arc::new(memory.kill()), durability).unwrap();
        let other = db.keyspace("other").unwrap();
        for found in [db.get("key"), other.get("key")] {
            assert!(found.unwrap().is_some_and(|value| value == "old"), "{durability:?}");
        }
        assert!(db.verify().unwrap().is_ok());
    }
}

/// Without a manifest a repair only used tables and logs. In a `Sync` store that lost power, writes
/// acknowledged since the last checkpoint may only be in the journal.
#[test]
fn a_repair_without_a_manifest_saves_what_only_the_journal_has() {
    let memory = MemVfs::new();
    let db = open(Arc::new(memory.clone()), Durability::Sync).unwrap();
    let other = db.keyspace("other").unwrap();
    db.put("old", "1").unwrap();
    db.sync().unwrap();
    for (key, value) in [("new", "2"), ("old", "3"), ("newest", "4"), ("deleted", "5")] {
        db.put(key, value).unwrap();
    }
    db.delete("deleted").unwrap();
    db.write(both(&other, "6")).unwrap();
    let damaged = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    let manifest = damaged.list(Path::new("store")).unwrap();
    let manifest = manifest.iter().find(|name| name.starts_with("MANIFEST-")).unwrap();
    let manifest = damaged.open(&Path::new("store").join(manifest), OpenMode::ReadWrite).unwrap();
    manifest.write_at(&[0xff; 24], 70).unwrap();
    let options = || Options::new().vfs(Arc::new(damaged.clone())).memory_budget(4 << 20);
    assert!(options().open("store").unwrap_err().is_corruption());
    let report = Db::repair("store", "saved", options()).unwrap();
    let db = options().open("saved").unwrap();
    let found: Vec<_> =
        db.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect();
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    let expected = [("both", "6"), ("new", "2"), ("newest", "4"), ("old", "3")];
    let expected = expected.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(found, expected, "{report:?}");
    let other = report.keyspaces.iter().find(|keyspace| keyspace.name != "default").unwrap();
    assert_eq!(other.pairs, 1, "{report:?}");
}
