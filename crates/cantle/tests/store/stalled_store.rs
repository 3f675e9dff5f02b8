//! Stores that share threads: a store with a hanging disk does not keep others from their
//! checkpoints.
#![expect(clippy::disallowed_methods, reason = "waits for what the background does")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{Held, MemVfs, StallVfs, Vfs};
use cantle::{Db, Options, Resources};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Thousands of times the duration of any step here.
const LIMIT: Duration = Duration::from_secs(60);

fn open(resources: &Resources, vfs: Arc<dyn Vfs>) -> Db {
    let options = Options::new().vfs(vfs).resources(resources.clone());
    options.checkpoint_interval(Duration::from_millis(10)).open("store").unwrap()
}

#[test]
fn a_store_whose_disk_hangs_keeps_no_other_from_its_checkpoints() {
    let resources = Resources::new(64 << 20, 1);
    let vfs = StallVfs::new(Arc::new(MemVfs::new()));
    let stuck = open(&resources, Arc::new(vfs.clone()));
    let other = open(&resources, Arc::new(MemVfs::new()));
    let stall = vfs.stall(Held::Before, |_| true);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| stuck.put("key", [7; 100]));
        // The store has unsynced data, and its checkpoint or its tick waits for the disk.
        assert!(stall.wait(1, LIMIT));
        for round in 0..5u64 {
            let before = other.stats().checkpoints;
            other.put("key", round.to_be_bytes()).unwrap();
            let until = Instant::now() + LIMIT;
            while other.stats().checkpoints == before {
                assert!(Instant::now() < until, "round {round}: no checkpoint beside a disk that hangs");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(stall);
        put.join().unwrap().unwrap();
    });
    stuck.sync().unwrap();
}
