//! The space of files that rebalances replace must be freed, on disk and in memory, while the store
//! stays open.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "looks at the process's open files from outside")]
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use cantle::{ChunkOptions, KeyspaceOptions, Options};
use std::path::Path;
use std::time::Duration;

/// Files of `dir` that were unlinked and that this process still has open.
fn unlinked_open_files(dir: &Path) -> Vec<String> {
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    let names = links.map(|link| link.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&*dir.to_string_lossy()) && name.ends_with(" (deleted)")).collect()
}

#[test]
fn tables_that_were_replaced_are_closed_and_leave_the_cache() {
    const VALUE_BYTES: usize = 1000;
    const KEYS: u32 = 1000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(128 << 10));
    let db = Options::new().memory_budget(256 << 20).default_keyspace(keyspace).open(&path).unwrap();
    for round in 0..20u8 {
        for key in 0..KEYS {
            db.put(key.to_be_bytes(), [round; VALUE_BYTES]).unwrap();
        }
        db.compact_range(..).unwrap();
        // Every block of every table is opened and cached.
        assert_eq!(db.range(..).count(), KEYS as usize);
        db.sync().unwrap();
    }
    let live_bytes = u64::from(KEYS) * (VALUE_BYTES as u64 + 4);
    // Maintenance runs every few milliseconds; a slow machine may take a while.
    let mut left = (unlinked_open_files(&path), db.stats().memory.blocks.used);
    for _ in 0..1000 {
        if left.0.is_empty() && left.1 < 2 * live_bytes {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
        left = (unlinked_open_files(&path), db.stats().memory.blocks.used);
    }
    panic!("still open: {:?}; {} bytes of blocks for {live_bytes} live ones", left.0, left.1);
}
