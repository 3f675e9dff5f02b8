//! A flipped bit anywhere in a closed store: what is read is right, or an error that names the file.

use super::{files, options, read_file};
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{Db, Error, KeyspaceOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const STEP: usize = 7;

fn value(n: usize) -> Vec<u8> {
    format!("value {n} ").repeat(3 + n % 5).into_bytes()
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Tables under two keyspaces, logs over them with deletes of both kinds, closed.
fn store() -> (MemVfs, BTreeMap<Vec<u8>, Vec<u8>>) {
    let vfs = MemVfs::without_history();
    let db = options(&vfs).open("store").unwrap();
    let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
    let mut model = BTreeMap::new();
    for n in 0..60 {
        db.put(key(n), value(n)).unwrap();
        model.insert(key(n), value(n));
    }
    other.put("a", "b").unwrap();
    db.compact_range(..).unwrap();
    for n in (0..60).step_by(3) {
        db.put(key(n), value(n + 1)).unwrap();
        model.insert(key(n), value(n + 1));
    }
    db.delete(key(7)).unwrap();
    db.delete_range(key(20)..key(25)).unwrap();
    model.retain(|k, _| *k != key(7) && !(key(20)..key(25)).contains(k));
    db.close().unwrap();
    (vfs, model)
}

/// An error of a damaged store names the damaged file, or what no longer fits to it.
fn check_error(error: &Error, damaged: &Path, what: &str) {
    match error {
        Error::Corruption { path, offset, .. } => {
            assert!(path.starts_with("store"), "{what}: {error}");
            assert!(*offset <= 1 << 20, "{what}: {error}");
            assert!(path == damaged, "{what} was laid at another's door: {error}");
        }
        Error::UnsupportedFormat { path, .. } => assert_eq!(path, damaged, "{what}: {error}"),
        other => panic!("{what}: {other}"),
    }
}

/// Reads everything in every way; how many reads failed.
fn read_everything(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>, damaged: &Path, what: &str) -> usize {
    let mut errors = 0;
    let mut fail = |error: Error| {
        check_error(&error, damaged, what);
        errors += 1;
    };
    for n in 0..62 {
        match db.get(key(n)) {
            Ok(found) => assert_eq!(found.as_deref(), model.get(&key(n)).map(Vec::as_slice), "{what}: {n}"),
            Err(error) => fail(error),
        }
    }
    for back in [false, true] {
        let range = db.range(..);
        let pairs: Box<dyn Iterator<Item = _>> = if back { Box::new(range.rev()) } else { Box::new(range) };
        let mut expected: Vec<_> = model.iter().collect();
        if back {
            expected.reverse();
        }
        let mut expected = expected.into_iter();
        let mut failed = false;
        for pair in pairs {
            match pair {
                Ok((key, value)) => {
                    let (expected_key, expected_value) = expected.next().expect("a pair too many");
                    assert!(key == *expected_key && value == *expected_value, "{what}: range gave {key:?}");
                }
                Err(error) => {
                    fail(error);
                    failed = true;
                }
            }
        }
        assert!(failed || expected.next().is_none(), "{what}: a range ended early without an error");
    }
    errors
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

fn sample(path: &Path, vfs: &MemVfs) -> Vec<usize> {
    // `PAGECACHE` and the reserve are mostly padding that nobody reads.
    let bytes = read_file(vfs, path).len();
    let step = if bytes > 64 << 10 { bytes / 64 } else { STEP };
    (0..bytes).step_by(step).collect()
}

#[test]
fn no_flipped_bit_is_returned_as_data_or_goes_unnoticed() {
    let (vfs, model) = store();
    let mut seen: BTreeMap<PathBuf, Seen> = BTreeMap::new();
    for path in files(&vfs, "store") {
        for at in sample(&path, &vfs) {
            let what = format!("{} at {at}", path.display());
            let seen = seen.entry(path.clone()).or_default();
            let noticed = match options(&flip(&vfs, &path, at)).read_only(true).open("store") {
                Err(error) => {
                    check_error(&error, &path, &what);
                    true
                }
                Ok(db) => {
                    let report = db.verify().unwrap();
                    report.damage.iter().for_each(|error| check_error(error, &path, &what));
                    let errors = read_everything(&db, &model, &path, &what);
                    assert!(errors == 0 || !report.is_ok(), "{what}: reads fail and verify finds nothing");
                    let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
                    match other.get("a") {
                        Ok(found) => assert_eq!(found.as_deref(), Some(&b"b"[..]), "{what}"),
                        Err(error) => check_error(&error, &path, &what),
                    }
                    !report.is_ok()
                }
            };
            if noticed { seen.noticed.push(at) } else { seen.unnoticed.push(at) }
        }
    }
    let kind = |path: &Path| read_file(&vfs, path).get(..8).map(<[u8]>::to_vec);
    let mut tables_and_logs = 0;
    for (path, Seen { noticed, unnoticed }) in &seen {
        match kind(path).as_deref() {
            Some(b"CANTLE\0T" | b"CANTLE\0L") => {
                assert!(unnoticed.is_empty(), "{}: nobody noticed flips at {unnoticed:?}", path.display());
                tables_and_logs += 1;
            }
            // The last checkpoint looks like the torn end of what was being written; without it, too, everything
            // was there.
            Some(b"CANTLE\0M") => {
                assert!(
                    unnoticed.iter().all(|at| noticed.iter().all(|noticed| noticed < at)),
                    "{}: nobody noticed flips at {unnoticed:?}",
                    path.display()
                );
                assert!(noticed.len() > unnoticed.len());
            }
            _ => {}
        }
    }
    assert!(tables_and_logs >= 3);
}

/// Where flips were reported, and where not.
#[derive(Default)]
struct Seen {
    noticed: Vec<usize>,
    unnoticed: Vec<usize>,
}

#[test]
fn damage_in_one_file_leaves_the_keys_of_others_readable() {
    let (vfs, _) = store();
    let mut survived = 0;
    for path in files(&vfs, "store") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("MANIFEST") || read_file(&vfs, &path).len() < 100 {
            continue;
        }
        let Ok(db) = options(&flip(&vfs, &path, 70)).open("store") else { continue };
        let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
        let readable = [other.get("a").is_ok(), db.get(key(1)).is_ok(), db.get(key(3)).is_ok()];
        assert!(readable.contains(&true), "{name}");
        survived += 1;
    }
    assert!(survived >= 3, "{survived} files were flipped");
}
