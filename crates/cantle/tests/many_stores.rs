//! Many stores in one process: idle stores use little disk space, and stores share threads.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "looks at the process and its files from outside")]
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use cantle::{Db, Options};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Number of threads of this process that stores have started.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("cantle-")).count()
}

fn allocated_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} in 30 s");
}

#[test]
fn stores_that_idle_share_threads_and_take_little_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = |number: usize| dir.path().join(number.to_string());
    let open = |number: usize| Db::open(path(number)).unwrap();
    let stores: Vec<Db> = (0..200).map(open).collect();
    for store in &stores {
        (0..3).for_each(|_| store.put("key", "value").unwrap());
    }
    assert!(threads() <= 8, "{} threads of 200 stores", threads());
    for number in 0..stores.len() {
        let bytes = allocated_bytes(&path(number));
        assert!(bytes <= 256 << 10, "store {number} takes {bytes} bytes of the disk");
    }
    // One budget for all, not one for each.
    let budgets: Vec<u64> = stores.iter().map(|store| store.stats().memory_budget).collect();
    assert!(budgets.iter().all(|budget| *budget == budgets[0]));
    let used = |store: &Db| store.stats().memory_used;
    assert_eq!(used(&stores[0]), used(&stores[199]), "both say what all of them use");

    // Stores with a budget of their own keep it.
    let own = Options::new().memory_budget(8 << 20).open(path(200)).unwrap();
    assert_eq!(own.stats().memory_budget, 8 << 20);
    let before = threads();
    let threaded = Options::new().background_threads(3).open(path(201)).unwrap();
    // Three workers, one each for checkpoints and seals, and one ticker; threads have their names
    // once they run.
    eventually("a store that asks for threads has none of its own", || threads() == before + 6);
    drop(threaded);
    eventually("the threads of a closed store do not end", || threads() == before);

    // The write buffer of a busy store is removed once the store is idle.
    let busy = &stores[0];
    let keyspace = |number| busy.keyspace(&format!("keyspace {number}")).unwrap();
    // Each has a log of its own.
    let keyspaces: Vec<_> = (0..40).map(keyspace).collect();
    for keyspace in &keyspaces {
        (0..10).for_each(|key| keyspace.put(format!("{key}"), "value").unwrap());
    }
    let write_buffer_bytes = || path(0).join("WRITE-BUFFER").metadata().map_or(0, |file| file.len());
    assert!(write_buffer_bytes() > 512 << 10, "{} bytes of 40 logs", write_buffer_bytes());
    busy.sync().unwrap();
    eventually("the write buffer stays as long", || write_buffer_bytes() <= 256 << 10);

    // Each keyspace keeps its store open.
    drop(keyspaces);
    drop(own);
    drop(stores);
    eventually("threads outlive the last store", || threads() == 0);
    let again = open(0);
    assert_eq!(again.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    // A thread has its name once it runs.
    eventually("a pool that ended does not begin again", || threads() > 0);
}
