//! What the lab found, one test each.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{Db, Durability, Options};
use std::sync::Arc;
use std::time::Duration;

fn open(vfs: Arc<dyn cantle::vfs::Vfs>, durability: Durability) -> cantle::Result<Db> {
    let options = Options::new().vfs(vfs).memory_budget(4 << 20).durability(durability);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store")
}

/// A store with `old`, checkpointed, and `new`, acknowledged since, as the death of its process leaves it.
fn killed(durability: Durability) -> MemVfs {
    let memory = MemVfs::new();
    let db = open(Arc::new(memory.clone()), durability).unwrap();
    db.put("old", "1").unwrap();
    db.sync().unwrap();
    db.put("new", "2").unwrap();
    memory.kill()
}

/// Opening must find out whether the page cache outlived the dead process. Where it could not, it took that for a no, and
/// gave up what had been acknowledged.
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

/// The end of a log that a failed sync had lost was given up by one recovery and taken up by the next, as that found the page
/// cache of the epoch between them in order; the following loss of power then left a log shorter than had been recorded.
#[test]
fn the_end_of_a_log_that_was_given_up_once_is_not_taken_up_again() {
    let memory = killed(Durability::Process);
    // Whether it is the opening that fails, or a checkpoint right behind it.
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

/// A record of the manifest that is damaged behind the last checkpoint was taken for what a loss of power leaves, though
/// there had been none, and what was acknowledged since was given up without a word.
#[test]
fn damage_behind_the_last_checkpoint_is_damage_where_no_power_was_lost() {
    let memory = killed(Durability::Process);
    let mut noticed = 0;
    let name = cantle::vfs::Vfs::list(&memory, "store".as_ref()).unwrap();
    let manifest = name.iter().find(|name| name.starts_with("MANIFEST")).unwrap();
    let path = std::path::Path::new("store").join(manifest);
    let len = cantle::vfs::Vfs::metadata(&memory, &path).unwrap().unwrap().len;
    for at in 0..len {
        let damaged = memory.kill();
        let file = damaged.open_file(&path, cantle::vfs::OpenMode::ReadWrite).unwrap();
        let mut byte = [0];
        cantle::vfs::VfsFile::read_at(&*file, &mut byte, at).unwrap();
        cantle::vfs::VfsFile::write_at(&*file, &[byte[0] ^ 1], at).unwrap();
        match open(Arc::new(damaged), Durability::Process) {
            Ok(db) => assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"2"[..]), "byte {at} of {len}"),
            Err(error) => {
                assert!(
                    error.is_corruption() || matches!(error, cantle::Error::UnsupportedFormat { .. }),
                    "{error}"
                );
                noticed += 1;
            }
        }
    }
    assert!(noticed > 0);
}
