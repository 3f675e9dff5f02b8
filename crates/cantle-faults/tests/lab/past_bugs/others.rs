//! fjall and Pebble.

use super::*;
use cantle::WriteBatch;
use cantle::vfs::{Failure, Operation, Survival, Tail, Verdict};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BACKUP: &str = "/backup";

/// [fjall #308](https://github.com/fjall-rs/fjall/issues/308): a batch whose write to the journal
/// failed in the middle was reported as failed, and its first half stayed in the journal. The next
/// batch was appended after it, acknowledged and synced. The next opening stopped reading at the
/// incomplete batch, and lost the acknowledged one.
///
/// Here batches go to logs; batches over several logs, or of a `Sync` store, go to the journal. If
/// any write fails after any number of bytes, all writes that are acknowledged later are there
/// after the next opening. The failed batch is not there, unless the store has turned read-only and
/// reported that.
#[test]
fn fjall_308_what_is_acknowledged_behind_half_a_batch_is_found() {
    for durability in [Durability::Process, Durability::Sync] {
        let (mut went_on, mut refused) = (0, 0);
        for nth in 0..4 {
            for bytes in [0, 1, 3, 30, 700, 2990, usize::MAX] {
                for can_cut in [true, false] {
                    let goes_on = half_a_batch(durability, nth, bytes, can_cut);
                    *if goes_on { &mut went_on } else { &mut refused } += 1;
                }
            }
        }
        assert!(went_on > 10, "{durability:?}: {went_on} went on, {refused} refused");
    }
}

/// True if the store continued after the failure.
fn half_a_batch(durability: Durability, nth: u64, bytes: usize, can_cut: bool) -> bool {
    let what = format!("{durability:?}, write {nth} after {bytes} bytes, can be cut off: {can_cut}");
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(fault.clone(), durability).unwrap();
    let other = db.keyspace_with("other", keyspace()).unwrap();
    let batch = |content: u8, len: usize| {
        let mut batch = WriteBatch::new();
        for part in 0..3u8 {
            batch
                .put([b'k', part], vec![content; len])
                .keyspace(&other)
                .put([b'k', part], vec![content; len]);
        }
        batch
    };
    db.write(batch(1, 3000)).unwrap();
    let writes = AtomicU64::new(0);
    fault.set_rule(move |call| {
        let name = call.path.file_name().map(|name| Kind::of(&name.to_string_lossy()));
        let is_log = matches!(name, Some(Kind::Log | Kind::Journal));
        match call.operation {
            Operation::WriteAt if is_log && writes.fetch_add(1, Relaxed) == nth => {
                Verdict::ShortWrite { bytes: bytes.min(call.len as usize - 1), failure: Failure::EIO }
            }
            Operation::SetLen if is_log && !can_cut => Verdict::Fail(Failure::EIO),
            _ => Verdict::Pass,
        }
    });
    let failed = db.write(batch(2, 3000)).is_err();
    // Shorter, so that the rest of the other batch would follow it.
    let acknowledged = db.write(batch(3, 100)).is_ok() && db.put("last", "1").is_ok();
    fault.clear_rule();
    let read_only = db.stats().read_only;
    assert!(acknowledged || read_only.is_some(), "{what}: refused without a word");
    let synced = acknowledged && db.sync().is_ok();
    let contents = |db: &Db| -> Vec<Option<u8>> {
        let other = db.keyspace_with("other", keyspace()).unwrap();
        let first = |value: cantle::Result<Option<cantle::Value>>| {
            value.unwrap_or_else(|error| panic!("{what}: {error}")).map(|value| value[0])
        };
        (0..3u8).flat_map(|part| [first(db.get([b'k', part])), first(other.get([b'k', part]))]).collect()
    };
    for (vfs, death) in deaths(&memory) {
        let survives = synced || death.contains("killed") || durability == Durability::Sync;
        let what = format!("{what}; {death}");
        let db = open(vfs, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = contents(&db);
        assert!(found.iter().all(|value| *value == found[0]), "{what}: half of a batch: {found:?}");
        if acknowledged {
            assert!(!survives || found[0] == Some(3), "{what}: {found:?} instead of what was acknowledged");
            assert!(!survives || db.get("last").unwrap().is_some(), "{what}: the last put is gone");
        } else if failed && survives && read_only.is_none() {
            assert_eq!(found[0], Some(1), "{what}: what failed is there");
        }
        assert!(db.verify().unwrap().is_ok(), "{what}");
    }
    acknowledged
}

/// [Pebble #5915](https://github.com/cockroachdb/pebble/pull/5915): a new manifest and the marker
/// that names it were created before one sync of the directory. A disk that wrote the marker first
/// left a store whose manifest did not exist. A checkpoint of the store, written elsewhere, had the
/// same order.
///
/// Here the name of the newest manifest is the marker, and reaches the disk with the bytes that it
/// had before. But the manifest of a backup names files, too: their names must not be durable later
/// than its own.
#[test]
fn pebble_5915_a_backup_has_no_manifest_before_the_files_that_it_names() {
    let lab = Lab::over(MemVfs::new());
    let db = open(lab.fault.clone(), Durability::Process).unwrap();
    (0..10).for_each(|n| put(&db, n).unwrap());
    db.compact_range(..).unwrap();
    (10..20).for_each(|n| put(&db, n).unwrap());
    let ((), images) = lab.watch(|| lab.acknowledged(true, || db.backup(BACKUP)));
    let (mut whole, mut unfinished) = (0, 0);
    let mut check_backup = |lost: MemVfs, marks: Marks, what: &str| {
        let found = lost.list(Path::new(BACKUP)).unwrap_or_default();
        if !found.iter().any(|name| is_of(name, Kind::Manifest)) {
            assert_eq!(marks.durable, 0, "{what}: the backup is gone");
            unfinished += 1;
        } else {
            let options = options(lost.clone(), Durability::Process);
            let db = options.open(BACKUP).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(count(&db, what), 20, "{what}");
            assert!(db.verify().unwrap().is_ok(), "{what}");
            whole += 1;
        }
        check(lost, Durability::Process, what);
    };
    lose_power(&images, &mut check_backup);
    // Names in any order, with the bytes of all files.
    for (image, seed) in images.iter().flat_map(|image| (0..30).map(move |seed| (image, seed))) {
        let plan =
            CrashPlan { seed, names: Survival::Scattered, data: Survival::Everything, tail: Tail::Cut };
        check_backup(image.vfs.crash(&plan), image.marks, &format!("before {}: {plan:?}", image.at));
    }
    assert!(whole > 10 && unfinished > 10, "{whole} whole, {unfinished} unfinished");
}

/// The same for the store's own manifest, which is rewritten at the opening after a failed sync:
/// its name must not reach the disk before its bytes.
#[test]
fn pebble_5915_the_name_of_a_manifest_never_stands_for_nothing() {
    let memory = MemVfs::new();
    let fault = FaultVfs::over_memory(memory.clone());
    let db = open(fault.clone(), Durability::Process).unwrap();
    (0..10).for_each(|n| put(&db, n).unwrap());
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    fault.fail_always(Operation::SyncData, Verdict::FailDone(Failure::EIO));
    put(&db, 10).unwrap();
    db.sync().unwrap_err();
    fault.clear_rule();
    let lab = Lab::over(memory.kill());
    let before = names_of(&lab.memory, Kind::Manifest);
    let (_db, images) = lab.watch(|| {
        let db = open(lab.fault.clone(), Durability::Process).unwrap();
        put(&db, 10).unwrap();
        db.sync().unwrap();
        db
    });
    assert_ne!(names_of(&lab.memory, Kind::Manifest), before, "the manifest is written anew");
    for (image, seed) in images.iter().flat_map(|image| (0..60).map(move |seed| (image, seed))) {
        let data = [Survival::Nothing, Survival::Everything, Survival::Scattered][seed as usize % 3];
        let plan = CrashPlan { seed, names: Survival::Scattered, data, tail: Tail::Any };
        let what = format!("before {}: {plan:?}", image.at);
        assert!(check(image.vfs.crash(&plan), Durability::Process, &what) >= 10, "{what}");
    }
}
