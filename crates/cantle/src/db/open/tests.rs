use crate::db::{KeyspaceOptions, Options};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::sync::thread;
use crate::sync::time::now;
use crate::vfs::{CrashPlan, Failure, FaultVfs, MemVfs, Operation, StdVfs, Verdict};
use crate::{Comparator, Db};
use std::cmp::Ordering;
use std::path::Path;
use std::time::Duration;

/// Rows of the recovery table of a store opened on `vfs`, after some work in it.
fn rows_after(vfs: &MemVfs, compact: bool) -> u64 {
    let options = Options::new().vfs(Arc::new(vfs.clone())).checkpoint_interval(Duration::from_secs(3600));
    let db = options.open("store").unwrap();
    let mut encoded = Vec::new();
    db.handle.store.substrate.recovery.table.encode(&mut encoded);
    db.put("durable", "value").unwrap();
    db.sync().unwrap();
    db.put("lost", "value").unwrap();
    if compact {
        db.compact_range(..).unwrap();
    }
    assert_eq!(db.get("durable").unwrap().as_deref(), Some(&b"value"[..]));
    crate::format::codec::Decoder::new(&encoded).varint().unwrap()
}

#[test]
fn what_died_with_an_epoch_is_forgotten_with_its_last_file() {
    let mut vfs = MemVfs::new();
    for deaths in 0..6 {
        assert_eq!(rows_after(&vfs, false), deaths, "every epoch left a log behind");
        vfs = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    }
    rows_after(&vfs, true);
    vfs = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_eq!(rows_after(&vfs, false), 1, "one table is left, of the epoch that died last");
}

#[derive(Debug)]
struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// An open directory keeps its file system from being unmounted.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the files that the process has open")]
#[test]
fn a_store_on_a_device_that_fails_leaves_no_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("store");
    let open_files = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        paths.filter(|open| open.starts_with(&path)).collect::<Vec<_>>()
    };
    // A job in the background may end a little later.
    let assert_closed = |what: &str| {
        let begun = now();
        while !open_files().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:?}", open_files());
            thread::sleep(Duration::from_millis(1));
        }
    };
    let vfs = FaultVfs::new(Arc::new(StdVfs));
    let options = || Options::new().vfs(Arc::new(vfs.clone())).checkpoint_interval(Duration::from_secs(3600));
    let fill = |db: &Db| {
        (0..100).for_each(|key: u32| db.put(key.to_be_bytes(), "value").unwrap());
        db.compact_range(..)
    };
    let ordered = KeyspaceOptions::new().comparator(Arc::new(Reverse));
    let db = options().comparator(Arc::new(Reverse)).default_keyspace(ordered).open(&path).unwrap();
    fill(&db).unwrap();
    db.sync().unwrap();
    // The files of the last checkpoint are held, and no other follows.
    let is_manifest =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST"));
    vfs.set_rule(move |call| match call.operation {
        Operation::SyncData if is_manifest(call.path) => Verdict::Fail(Failure::EIO),
        _ => Verdict::Pass,
    });
    let _ = fill(&db);
    assert!(db.handle.store.substrate.files.held_bytes() > 0);
    db.close().unwrap_err();
    drop(db);
    assert_closed("a store that was closed");
    vfs.set_rule(|_| Verdict::Pass);
    options().open(&path).unwrap_err();
    assert_closed("an opening without the comparator");
    for calls in 0.. {
        let (seen, is_over) = (AtomicU64::new(0), Arc::new(AtomicBool::new(true)));
        let failed = is_over.clone();
        vfs.set_rule(move |_| match seen.fetch_add(1, Relaxed) < calls {
            true => Verdict::Pass,
            false => {
                failed.store(false, Relaxed);
                Verdict::Fail(Failure::EIO)
            }
        });
        let opened = options().comparator(Arc::new(Reverse)).open(&path);
        let is_whole = opened.is_ok() && is_over.load(Relaxed);
        drop(opened);
        vfs.set_rule(|_| Verdict::Pass);
        assert_closed(&format!("an opening that failed after {calls} calls"));
        if is_whole {
            break;
        }
    }
}
