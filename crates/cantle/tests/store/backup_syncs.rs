//! A backup makes many copies durable at once, and is not a store before that.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{Call, CrashPlan, Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use cantle::{Db, Options};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BACKUP: &str = "backup";

/// A store with a log for each keyspace, and without background work.
fn store(vfs: &FaultVfs, keyspaces: usize) -> Db {
    let db = options(vfs.clone()).open("store").unwrap();
    for number in 0..keyspaces {
        let keyspace = db.keyspace(&format!("{number:04}")).unwrap();
        keyspace.put("key", number.to_string()).unwrap();
    }
    db.sync().unwrap();
    db
}

fn options(vfs: impl Vfs) -> Options {
    Options::new().write_buffer(false).vfs(Arc::new(vfs)).checkpoint_interval(Duration::from_secs(3600))
}

fn syncs(vfs: &FaultVfs) -> u64 {
    [Operation::SyncData, Operation::SyncDir, Operation::SyncFiles].map(|kind| vfs.count(kind)).iter().sum()
}

fn check(vfs: MemVfs, keyspaces: usize) {
    let db = options(vfs).open(BACKUP).unwrap();
    for number in 0..keyspaces {
        let keyspace = db.keyspace(&format!("{number:04}")).unwrap();
        assert_eq!(keyspace.get("key").unwrap().as_deref(), Some(number.to_string().as_bytes()));
    }
    assert!(db.verify().unwrap().is_ok());
}

#[test]
fn a_thousand_copies_take_as_many_syncs_as_a_hundred() {
    let syncs_of = |keyspaces| {
        let disk = MemVfs::new();
        let vfs = FaultVfs::over_memory(disk.clone());
        let db = store(&vfs, keyspaces);
        let before = syncs(&vfs);
        db.backup(BACKUP).unwrap();
        let count = syncs(&vfs) - before;
        // The state when the backup is acknowledged.
        check(disk.crash(&CrashPlan::LOSE_UNSYNCED), keyspaces);
        count
    };
    assert!(syncs_of(3) <= 20, "three copies need no sync of everything");
    let hundred = syncs_of(100);
    assert!(hundred <= 12, "{hundred} syncs");
    assert_eq!(syncs_of(1000), hundred);
}

#[test]
fn where_a_file_system_cannot_do_that_each_copy_is_synced() {
    let disk = MemVfs::new();
    let vfs = FaultVfs::over_memory(disk.clone());
    let db = store(&vfs, 100);
    let unsupported = Verdict::Fail(Failure::Kind(std::io::ErrorKind::Unsupported));
    vfs.fail_always(Operation::SyncFiles, unsupported);
    let before = vfs.count(Operation::SyncData);
    db.backup(BACKUP).unwrap();
    assert!(vfs.count(Operation::SyncData) - before >= 100);
    check(disk.crash(&CrashPlan::LOSE_UNSYNCED), 100);
}

#[test]
fn a_backup_whose_copies_cannot_be_made_durable_is_none() {
    for skipped in [0, 1] {
        let disk = MemVfs::new();
        let vfs = FaultVfs::over_memory(disk.clone());
        let db = store(&vfs, 100);
        vfs.fail_once(Operation::SyncFiles, skipped, Verdict::FailLost(Failure::EIO));
        assert!(db.backup(BACKUP).is_err());
        vfs.clear_rule();
        let names = disk.list(Path::new(BACKUP)).unwrap();
        assert!(!names.iter().any(|name| name == "CURRENT" || name.starts_with("MANIFEST-")), "{names:?}");
        // The store itself is not affected.
        db.put("key", "value").unwrap();
        db.sync().unwrap();
        db.backup("another").unwrap();
    }
}

#[test]
fn no_manifest_comes_before_the_copies_are_durable() {
    let disk = MemVfs::new();
    let vfs = FaultVfs::over_memory(disk.clone());
    let db = store(&vfs, 100);
    let at_manifest = disk.clone();
    let images = Arc::new(std::sync::Mutex::new(Vec::new()));
    let taken = images.clone();
    vfs.set_rule(move |call: &Call<'_>| {
        let is_manifest = call.path.to_string_lossy().contains("MANIFEST") && call.path.starts_with(BACKUP);
        if is_manifest && call.operation == Operation::Rename {
            // The rename alone may have reached the disk when the power fails.
            taken.lock().unwrap().push(at_manifest.crash(&CrashPlan::LOSE_UNSYNCED));
        }
        Verdict::Pass
    });
    db.backup(BACKUP).unwrap();
    vfs.clear_rule();
    let images = images.lock().unwrap();
    for image in &*images {
        let logs = |vfs: &MemVfs| {
            let names = vfs.list(Path::new(BACKUP)).unwrap();
            let logs = names.into_iter().filter(|name| name.ends_with(".log"));
            let bytes =
                |name: String| (vfs.metadata(&Path::new(BACKUP).join(&name)).unwrap().unwrap().len, name);
            let mut logs: Vec<_> = logs.map(bytes).collect();
            logs.sort();
            logs
        };
        assert_eq!(logs(image), logs(&disk));
    }
    assert!(!images.is_empty(), "a manifest gets its name by a rename");
}
