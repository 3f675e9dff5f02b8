//! On demand a repair keeps data that no checkpoint covers, as far as they exist.

use super::{Content, content, opened, options};
use cantle::repair::RepairReport;
use cantle::vfs::{CrashPlan, MemVfs, Vfs};
use cantle::{ChunkOptions, Db, Durability, KeyspaceOptions, Options, WriteBatch};
use std::path::Path;
use std::time::Duration;

fn slow(vfs: &MemVfs) -> Options {
    options(vfs).checkpoint_interval(Duration::from_secs(3600))
}

fn kept(vfs: &MemVfs) -> (Content, RepairReport) {
    let report = Db::repair("store", "kept", options(vfs).keep_left_behind(true)).unwrap();
    let content = content(&options(vfs).read_only(true).open("kept").unwrap());
    vfs.list(Path::new("kept"))
        .unwrap()
        .iter()
        .for_each(|name| vfs.remove(&Path::new("kept").join(name)).unwrap());
    (content, report)
}

/// Writes of all kinds, number `from` and after.
fn write(db: &Db, from: u64, to: u64) {
    let second = db.keyspace("second").unwrap();
    for n in from..to {
        let key = (n % 300).to_be_bytes();
        match n % 9 {
            0 => db.delete(((n + 100) % 300).to_be_bytes()).unwrap(),
            1 => second.put(key, n.to_string()).unwrap(),
            2 => {
                let mut batch = WriteBatch::new();
                batch.put(key, format!("batch {n}")).keyspace(&second).put(key, n.to_string());
                db.write(batch).unwrap();
            }
            3 if n % 27 == 3 => {
                db.delete_range((n % 200).to_be_bytes()..(n % 200 + 20).to_be_bytes()).unwrap()
            }
            _ => db.put(key, format!("{n} {}", "v".repeat(n as usize % 700))).unwrap(),
        }
    }
}

/// The machine stopped and lost nothing, as after a clean unmount.
fn unmounted(vfs: &MemVfs) -> MemVfs {
    vfs.crash(&CrashPlan::KEEP_ALL)
}

#[test]
fn all_that_is_there_is_kept() {
    // In the longer ones, splits and rebalances come after the checkpoint.
    for (synced, writes, buffered) in [(200, 400, true), (1, 250, false), (900, 4000, true)] {
        let vfs = MemVfs::new();
        let keyspace =
            KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10));
        let db = slow(&vfs).write_buffer(buffered).default_keyspace(keyspace).open("store").unwrap();
        write(&db, 0, synced);
        db.sync().unwrap();
        let at_the_checkpoint = content(&db);
        write(&db, synced, writes);
        if writes > 1000 {
            db.compact_range(..).unwrap();
            write(&db, writes, writes + 50);
        }
        let all = content(&db);
        let found = unmounted(&vfs);
        assert!(opened(&found) == at_the_checkpoint || writes > 1000, "an opening returns to the checkpoint");
        let (content, report) = kept(&found);
        assert!(content == all, "{synced} {writes} {report:?}");
        assert!(report.is_ok(), "{report:?}");
        assert!(report.notes.iter().any(|note| note.contains("gaps")), "{report:?}");
        // Without the option, the same data are left out, and reported as existing.
        let plain = Db::repair("store", "plain", options(&found)).unwrap();
        assert!(plain.notes.iter().any(|note| note.contains("keep-left-behind")), "{plain:?}");
        drop(db);
    }
}

#[test]
fn a_process_without_a_checkpoint_of_its_own_is_kept_too() {
    let vfs = MemVfs::new();
    let db = slow(&vfs).open("store").unwrap();
    write(&db, 0, 300);
    db.close().unwrap();
    drop(db);
    let db = slow(&vfs).open("store").unwrap();
    write(&db, 300, 600);
    let all = content(&db);
    let (content, report) = kept(&unmounted(&vfs));
    assert!(content == all && report.is_ok(), "{report:?}");
    drop(db);
}

/// After a real loss of power some data are missing: a subset of the writes is kept, and nothing
/// else.
#[test]
fn of_what_the_power_took_in_part_the_rest_is_kept() {
    for seed in 0..40 {
        let vfs = MemVfs::new();
        let db = slow(&vfs).open("store").unwrap();
        (0_u64..100).for_each(|n| db.put(n.to_be_bytes(), "old").unwrap());
        db.sync().unwrap();
        (0_u64..2000).for_each(|n| db.put(n.to_be_bytes(), format!("new {n}")).unwrap());
        let found = vfs.crash(&CrashPlan::random(seed));
        let (content, _) = kept(&found);
        let pairs = &content["default"];
        for n in 0_u64..2000 {
            match pairs.get(&n.to_be_bytes()[..]) {
                Some(value) if *value == format!("new {n}").into_bytes() => {}
                other if n < 100 => {
                    assert_eq!(other.map(|value| &value[..]), Some(&b"old"[..]), "seed {seed}")
                }
                other => assert_eq!(other, None, "seed {seed}"),
            }
        }
        assert!(pairs.len() <= 2000, "seed {seed}");
        drop(db);
    }
}

#[test]
fn where_nothing_was_left_behind_keeping_changes_nothing() {
    let vfs = MemVfs::new();
    let db = slow(&vfs).open("store").unwrap();
    write(&db, 0, 400);
    let all = content(&db);
    // Only the process died.
    let (killed, report) = kept(&vfs.kill());
    assert!(killed == all && report.is_ok() && report.notes.is_empty(), "{report:?}");
    db.close().unwrap();
    drop(db);
    let (closed, report) = kept(&unmounted(&vfs));
    assert!(closed == all && report.is_ok() && report.notes.is_empty(), "{report:?}");
    // The journal has all acknowledged writes.
    let vfs = MemVfs::new();
    let db = slow(&vfs).durability(Durability::Sync).open("store").unwrap();
    write(&db, 0, 400);
    let all = content(&db);
    let (content, report) = kept(&vfs.crash(&CrashPlan::LOSE_UNSYNCED));
    assert!(content == all && report.is_ok() && report.notes.is_empty(), "{report:?}");
    drop(db);
}
