//! A full disk: writes fail and say why, reads and deletes go on, and everything heals when there is space.
#![expect(clippy::disallowed_methods, reason = "mounts a small file system")]

use crate::harness::Setup;
use crate::workload::{Rng, key};
use cantle::vfs::MemVfs;
use cantle::{Db, Durability};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn setup(durability: Durability) -> Setup {
    let mut setup = Setup::random(&mut Rng::new(5), durability);
    (setup.checkpoint_interval, setup.log_bytes) = (Duration::from_millis(50), 16 << 10);
    setup
}

/// Puts until the disk is full; returns what was acknowledged.
fn fill(db: &Db, values: &mut BTreeMap<Vec<u8>, Vec<u8>>, rounds: u64) -> bool {
    for n in 0..rounds {
        let value = vec![n as u8; 2000];
        let key = key(n % 5000);
        match db.put(&key, &value) {
            Ok(()) => drop(values.insert(key, value)),
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                return true;
            }
        }
    }
    false
}

fn check(db: &Db, values: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let found: Vec<_> = db.range(..).map(|pair| pair.unwrap()).collect();
    assert_eq!(found.len(), values.len());
    for ((key, value), (expected_key, expected)) in found.iter().zip(values) {
        assert!(*key == expected_key[..] && *value == expected[..], "{key:?}");
    }
}

/// Tries for a while, as maintenance frees space in the background; tells whether it worked.
fn eventually(what: &str, mut run: impl FnMut() -> cantle::Result<()>) -> bool {
    let started = Instant::now();
    loop {
        match run() {
            Ok(()) => return true,
            Err(error) => {
                assert!(error.is_no_space(), "{what}: {error}");
                if started.elapsed() > Duration::from_secs(2) {
                    println!("{what} finds no space: {error}");
                    return false;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn a_disk_that_fills_up(db: &Db, more_space: impl FnOnce()) {
    let mut values = BTreeMap::new();
    assert!(fill(db, &mut values, 100_000), "the disk never got full");
    check(db, &values);
    // What frees space works as long as there is some of what was set aside, and once maintenance freed some.
    let doomed: Vec<_> = values.keys().take(3).cloned().collect();
    for key in doomed {
        if eventually("a delete", || db.delete(&key)) {
            values.remove(&key);
        }
    }
    check(db, &values);
    let half = key(values.len() as u64 / 2);
    if eventually("a range delete", || db.delete_range(&half..)) {
        values.retain(|key, _| *key < half);
    }
    check(db, &values);
    eventually("compaction", || db.compact_range(..));
    check(db, &values);
    if eventually("a put after space was freed", || db.put("healed", "1")) {
        values.insert(b"healed".to_vec(), b"1".to_vec());
    }
    fill(db, &mut values, 100_000);
    check(db, &values);
    more_space();
    assert!(eventually("a put after the disk grew", || db.put("healed", "2")), "it does not heal");
    assert!(eventually("compaction after the disk grew", || db.compact_range(..)), "it does not heal");
    values.insert(b"healed".to_vec(), b"2".to_vec());
    db.sync().unwrap();
    assert!(db.stats().read_only.is_none());
    check(db, &values);
}

#[test]
fn a_full_disk_in_memory_fails_puts_and_heals() {
    for durability in [Durability::Process, Durability::Sync] {
        for capacity_bytes in [8u64 << 20, 12 << 20] {
            println!("{durability:?}, {capacity_bytes} bytes");
            let memory = MemVfs::new();
            memory.set_capacity_bytes(Some(capacity_bytes));
            let db = setup(durability).open(Arc::new(memory.clone())).unwrap();
            a_disk_that_fills_up(&db, || memory.set_capacity_bytes(None));
            drop(db);
            assert!(setup(durability).open(Arc::new(memory.kill())).unwrap().verify().unwrap().is_ok());
        }
    }
}

#[test]
fn a_full_tmpfs_fails_puts_and_heals() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "cantle-test"]).arg(dir.path());
        command.output().is_ok_and(|output| output.status.success())
    };
    if !mount("size=8m") {
        println!("skipped: mounting a file system is not allowed here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let setup = setup(Durability::Process);
        let options = setup.options(Arc::new(cantle::vfs::StdVfs));
        let db = options.open(dir.path().join("store")).unwrap();
        a_disk_that_fills_up(&db, || assert!(mount("remount,size=64m")));
        db.close().unwrap();
    });
    let unmounted = std::process::Command::new("umount").arg(dir.path()).output();
    assert!(unmounted.is_ok_and(|output| output.status.success()));
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}
