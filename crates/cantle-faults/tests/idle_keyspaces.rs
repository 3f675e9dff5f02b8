//! Memory of idle keyspaces, in a process that does nothing else.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{Db, KeyspaceOptions, LayoutKind, Options};
use cantle_faults::memory::{Watched, live};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static MEMORY: Watched = Watched;

/// Layouts, and the maximum bytes of a keyspace itself, its chunk or guard, its log and the structures
/// that refer to them. Its counters are allocated at the first access.
const BYTES_MAX: [(LayoutKind, u64); 3] =
    [(LayoutKind::Chunk, 2_750), (LayoutKind::Flsm, 2_048), (LayoutKind::Forest, 2_048)];

fn open(vfs: &MemVfs) -> Db {
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(4 << 20).background_threads(1);
    options.checkpoint_interval(Duration::from_secs(3600)).open("store").unwrap()
}

/// The memory of each keyspace of a store, not used since the store was opened.
#[test]
fn an_idle_keyspace_takes_little_and_is_counted() {
    const FEW: u64 = 100;
    const MANY: u64 = 1_100;
    let opened = |layout: LayoutKind, keyspaces: u64| {
        let vfs = MemVfs::without_history();
        let db = open(&vfs);
        for number in 0..keyspaces {
            let options = KeyspaceOptions::new().layout(layout);
            let keyspace = db.keyspace_with(&format!("{number:05}"), options).unwrap();
            keyspace.put("key", "value").unwrap();
        }
        db.close().unwrap();
        drop(db);
        let before = live();
        let db = open(&vfs);
        ((live() - before) as u64, db.stats().memory.keyspaces.used)
    };
    for (layout, bytes_max) in BYTES_MAX {
        let ((few, few_counted), (many, many_counted)) = (opened(layout, FEW), opened(layout, MANY));
        let each = many.saturating_sub(few) / (MANY - FEW);
        let counted = (many_counted - few_counted) / (MANY - FEW);
        println!("{layout}: {each} bytes each, {counted} counted");
        assert!(each <= bytes_max, "{each} bytes for each idle keyspace");
        assert!(counted.abs_diff(each) <= each / 4, "{each} bytes each, {counted} counted");
    }
}
