//! All stores of a process together leave half of its descriptors to the program.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "looks at the process's open files from outside")]
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const LIMIT: usize = 96;

/// Descriptors of files below a directory.
fn open_files(dir: &std::path::Path) -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.ok()?.path()).ok());
    links.filter(|link| link.starts_with(dir)).count()
}

#[test]
fn stores_together_stay_within_half_of_what_may_be_open() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT as u64), maximum: limit.maximum }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    let open = |number: u32| -> Db {
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10));
        Options::new().default_keyspace(keyspace).open(path.join(number.to_string())).unwrap()
    };
    let stores: Vec<Db> = (0..3).map(open).collect();
    let (done, most) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(SeqCst) {
                most.fetch_max(open_files(&path), SeqCst);
            }
        });
        for round in 0..6u8 {
            for key in 0..3_000u32 {
                for store in &stores {
                    store.put(key.wrapping_mul(0x9e37_79b9).to_be_bytes(), [round; 200]).unwrap();
                }
            }
            for store in &stores {
                assert_eq!(store.range(..).count(), 3_000);
            }
        }
        for store in &stores {
            store.compact_range(..).unwrap();
            assert!(store.stats().keyspaces[0].regions > 6);
        }
        done.store(true, SeqCst);
    });
    let most = most.load(SeqCst);
    assert!(most <= LIMIT / 2, "{most} of {LIMIT} descriptors are the stores'");
    // The rest belongs to the program.
    let own: Vec<_> = (0..LIMIT / 3).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    for store in &stores {
        assert_eq!(store.range(..).count(), 3_000);
    }
    drop(own);
}
