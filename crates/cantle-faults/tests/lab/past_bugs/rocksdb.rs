//! RocksDB: manifests that could not be written.

use super::*;
use cantle::vfs::{Call, Failure, Operation, Verdict};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn is_manifest(call: &Call<'_>) -> bool {
    call.path.file_name().is_some_and(|name| Kind::of(&name.to_string_lossy()) == Kind::Manifest)
}

/// [RocksDB #4990](https://github.com/facebook/rocksdb/issues/4990): when a sync of the manifest
/// failed, the tables of the edit that the sync should have made durable were deleted. After a
/// restart the edit was there all the same, the tables were not, and the database could not be
/// opened.
///
/// Here a checkpoint syncs the manifest. If that fails, both the files that the edits before it add
/// and the files that they remove must stay: the next opening may find either state.
#[test]
fn rocksdb_4990_a_failed_sync_of_the_manifest_removes_neither_old_files_nor_new_ones() {
    for verdict in [Failure::EIO, Failure::ENOSPC]
        .into_iter()
        .flat_map(|failure| [Verdict::Fail(failure), Verdict::FailDone(failure), Verdict::FailLost(failure)])
    {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let db = open(fault.clone(), Durability::Process).unwrap();
        (0..20).for_each(|n| put(&db, n).unwrap());
        db.sync().unwrap();
        let logs = names_of(&memory, Kind::Log);
        fault.set_rule(move |call| match call.operation {
            Operation::SyncData if is_manifest(call) => verdict,
            _ => Verdict::Pass,
        });
        // The table is in the manifest, and the log is no longer.
        let _ = db.compact_range(..);
        db.sync().unwrap_err();
        fault.clear_rule();
        assert!(db.stats().read_only.is_some(), "{verdict:?}");
        assert_eq!(names_of(&memory, Kind::Table).len(), 1, "{verdict:?}");
        let before = deaths(&memory);
        drop(db);
        for (vfs, what) in before.into_iter().chain(deaths(&memory)) {
            let what = format!("{verdict:?}, {what}");
            assert!(names_of(&vfs, Kind::Log).contains(&logs[0]), "{what}: the log is gone");
            assert_eq!(check(vfs, Durability::Process, &what), 20, "{what}");
        }
    }
}

/// The same if the append reports a failure, took effect all the same, and cannot be truncated.
#[test]
fn rocksdb_4990_an_edit_that_failed_and_is_there_finds_its_files() {
    for bytes in [usize::MAX, 0, 5] {
        for from_first_put in [false, true] {
            let memory = MemVfs::new();
            let fault = FaultVfs::over_memory(memory.clone());
            let db = open(fault.clone(), Durability::Process).unwrap();
            if !from_first_put {
                (0..20).for_each(|n| put(&db, n).unwrap());
                db.sync().unwrap();
            }
            fault.set_rule(move |call| match call.operation {
                Operation::WriteAt if is_manifest(call) => {
                    Verdict::ShortWrite { bytes: bytes.min(call.len as usize), failure: Failure::EIO }
                }
                Operation::SetLen if is_manifest(call) => Verdict::Fail(Failure::EIO),
                _ => Verdict::Pass,
            });
            // A table that replaces a log; or a new log.
            let failed = if from_first_put { put(&db, 0) } else { db.compact_range(..) };
            let what = format!("{bytes} bytes written, {failed:?}");
            failed.unwrap_err();
            fault.clear_rule();
            assert!(db.stats().read_only.is_some(), "{what}");
            let before = deaths(&memory);
            drop(db);
            for (vfs, death) in before.into_iter().chain(deaths(&memory)) {
                let what = format!("{what}; {death}");
                let expected = if from_first_put { 0 } else { 20 };
                assert_eq!(check(vfs, Durability::Process, &what), expected, "{what}");
            }
        }
    }
}

/// [RocksDB #6316](https://github.com/facebook/rocksdb/issues/6316): a full disk accepted half a
/// record of the manifest. Once there was space again, later records were appended after it, and
/// the next opening stopped reading at the incomplete record.
///
/// Here the incomplete record is truncated before anything is appended after it. If that is not
/// possible, nothing is appended, and the store reports it.
#[test]
fn rocksdb_6316_nothing_goes_behind_half_an_edit() {
    for bytes in [0, 1, 4, 5, 20, 40, usize::MAX] {
        for can_cut in [true, false] {
            let memory = MemVfs::new();
            let fault = FaultVfs::over_memory(memory.clone());
            let db = open(fault.clone(), Durability::Process).unwrap();
            (0..5).for_each(|n| put(&db, n).unwrap());
            db.sync().unwrap();
            let appends = AtomicU64::new(0);
            fault.set_rule(move |call| match call.operation {
                Operation::WriteAt if is_manifest(call) && appends.fetch_add(1, Relaxed) == 0 => {
                    let bytes = bytes.min(call.len as usize - 1);
                    Verdict::ShortWrite { bytes, failure: Failure::ENOSPC }
                }
                Operation::SetLen if is_manifest(call) && !can_cut => Verdict::Fail(Failure::EIO),
                _ => Verdict::Pass,
            });
            let error = db.keyspace_with("lost", keyspace()).unwrap_err();
            assert!(error.is_no_space(), "{error}");
            let what = format!("{bytes} bytes written, can be cut off: {can_cut}");
            let expected = if can_cut {
                // There is space again.
                let kept = db.keyspace_with("kept", keyspace()).unwrap();
                kept.put("key", "1").unwrap();
                db.compact_range(..).unwrap();
                put(&db, 5).unwrap();
                db.sync().unwrap();
                6
            } else {
                assert!(db.stats().read_only.is_some(), "{what}");
                put(&db, 5).unwrap_err();
                db.keyspace_with("kept", keyspace()).unwrap_err();
                5
            };
            fault.clear_rule();
            for (vfs, death) in deaths(&memory) {
                let what = format!("{what}; {death}");
                assert_eq!(check(vfs.clone(), Durability::Process, &what), expected, "{what}");
                let db = open(vfs, Durability::Process).unwrap();
                let names = if can_cut { vec!["default", "kept"] } else { vec!["default"] };
                assert_eq!(db.keyspaces().unwrap(), names, "{what}");
                let kept = db.keyspace_with("kept", keyspace()).unwrap();
                assert_eq!(kept.get("key").unwrap().is_some(), can_cut, "{what}");
            }
        }
    }
}
