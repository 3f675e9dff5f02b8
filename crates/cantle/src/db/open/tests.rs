use crate::db::Options;
use crate::sync::Arc;
use crate::vfs::{CrashPlan, MemVfs};
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
