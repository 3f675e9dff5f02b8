//! Memory that stores do not free, in a process that does nothing else.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::MemVfs;
use cantle::{Db, Options};
use cantle_faults::memory::{Watched, live};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static MEMORY: Watched = Watched;

fn open(vfs: &MemVfs, read_only: bool) -> Db {
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(4 << 20).background_threads(1);
    options.checkpoint_interval(Duration::from_secs(3600)).read_only(read_only).open("store").unwrap()
}

#[test]
fn a_store_that_was_only_read_after_a_process_died_leaves_nothing_in_memory() {
    let vfs = MemVfs::new();
    let db = open(&vfs, false);
    for n in 0..200 {
        db.put(format!("key{n}"), [n as u8; 500]).unwrap();
    }
    let killed = vfs.kill();
    let opened = |times: usize| {
        for _ in 0..times {
            assert_eq!(open(&killed, true).range(..).count(), 200);
        }
        live()
    };
    let before = opened(5);
    let after = opened(50);
    assert!(after < before + (1 << 20), "50 openings left {} KiB", (after - before) >> 10);
}
