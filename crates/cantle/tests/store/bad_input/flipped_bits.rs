//! A flipped bit in one file. The fault lab's door `damage` checks that reads return the right data
//! or an error.

use super::{files, options, read_file};
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use std::path::Path;

fn value(n: usize) -> Vec<u8> {
    format!("value {n} ").repeat(3 + n % 5).into_bytes()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Tables under two keyspaces, logs over them with deletes of both kinds, closed.
fn store() -> MemVfs {
    let vfs = MemVfs::without_history();
    let db = options(&vfs).open("store").unwrap();
    let other = db.keyspace("other").unwrap();
    for n in 0..60 {
        db.put(key(n), value(n)).unwrap();
    }
    other.put("a", "b").unwrap();
    db.compact_range(..).unwrap();
    for n in (0..60).step_by(3) {
        db.put(key(n), value(n + 1)).unwrap();
    }
    db.delete(key(7)).unwrap();
    db.delete_range(key(20)..key(25)).unwrap();
    db.close().unwrap();
    vfs
}

fn flip(vfs: &MemVfs, path: &Path, at: usize) -> MemVfs {
    let damaged = vfs.kill();
    let file = damaged.open(path, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    byte[0] ^= 1 << (at % 8);
    file.write_at(&byte, at as u64).unwrap();
    damaged
}

#[test]
fn damage_in_one_file_leaves_the_keys_of_others_readable() {
    let vfs = store();
    let mut survived = 0;
    for path in files(&vfs, "store") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("MANIFEST") || read_file(&vfs, &path).len() < 100 {
            continue;
        }
        let Ok(db) = options(&flip(&vfs, &path, 70)).open("store") else { continue };
        let other = db.keyspace("other").unwrap();
        let readable = [other.get("a").is_ok(), db.get(key(1)).is_ok(), db.get(key(3)).is_ok()];
        assert!(readable.contains(&true), "{name}");
        survived += 1;
    }
    assert!(survived >= 3, "{survived} files were flipped");
}
