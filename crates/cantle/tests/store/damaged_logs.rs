//! Damaged records of logs that no checkpoint covers, or that no index has: no other key is
//! affected, no older value is returned, and the damage is reported.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{ChunkOptions, Db, Error, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const STORE: &str = "/store";

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(vfs: &MemVfs, write_buffer: bool) -> Options {
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false));
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .write_buffer(write_buffer)
        .checkpoint_interval(std::time::Duration::from_secs(3600))
        .default_keyspace(keyspace)
}

/// Random bytes that occur nowhere else.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A store with a table, and a log over it.
struct Made {
    vfs: MemVfs,
    now: Pairs,
}

fn put(db: &Db, now: &mut Pairs, key: &str, value: Vec<u8>) {
    db.put(key, &value).unwrap();
    now.insert(key.into(), value);
}

/// Made by a process that is killed. Values in the log have these lengths, their keys are `log-`
/// and their number; each key was in the table before.
fn killed(lens: &[usize], write_buffer: bool) -> Made {
    let vfs = MemVfs::new();
    let db = options(&vfs, write_buffer).open(STORE).unwrap();
    let mut now = Pairs::new();
    for n in 0..lens.len() {
        put(&db, &mut now, &format!("log-{n}"), noise(n as u64 + 1000, 40));
        put(&db, &mut now, &format!("table-{n}"), noise(n as u64 + 2000, 40));
    }
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    for (n, &len) in lens.iter().enumerate() {
        put(&db, &mut now, &format!("log-{n}"), noise(n as u64 + 1, len));
    }
    let vfs = vfs.kill();
    drop(db);
    Made { vfs, now }
}

fn read(vfs: &MemVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The file and the offset of these bytes; the last such place.
fn place_of(vfs: &MemVfs, wanted: &[u8]) -> (PathBuf, u64) {
    let mut names = vfs.list(STORE.as_ref()).unwrap();
    names.retain(|name| name.ends_with(".log") || name == "WRITE-BUFFER");
    let wanted = &wanted[..wanted.len().min(32)];
    let found = names.iter().find_map(|name| {
        let path = PathBuf::from(STORE).join(name);
        let at = read(vfs, &path).windows(wanted.len()).rposition(|window| window == wanted)?;
        Some((path, at as u64))
    });
    found.unwrap()
}

fn flip(vfs: &MemVfs, path: &Path, at: u64) {
    let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 0x20], at).unwrap();
}

/// Opens the store; returns the keys that cannot be read. All others must be right.
fn unreadable(made: &Made, vfs: &MemVfs, context: &str) -> Vec<String> {
    let db = options(vfs, false).open(STORE).unwrap();
    let mut failed = Vec::new();
    for (key, value) in &made.now {
        match db.get(key) {
            Ok(found) => {
                assert!(found.as_deref() == Some(value), "{context}: {:?}", String::from_utf8_lossy(key))
            }
            Err(Error::Corruption { path, .. }) => {
                assert!(path.to_string_lossy().ends_with(".log"), "{context}: {path:?}");
                failed.push(String::from_utf8_lossy(key).into_owned());
            }
            Err(error) => panic!("{context}: {error}"),
        }
    }
    let report = db.verify().unwrap();
    assert_eq!(report.is_ok(), failed.is_empty(), "{context}: {report:?}, {failed:?}");
    // A scan returns right pairs, and does not end before it has reported the missing ones.
    let mut whole = true;
    for pair in db.range(..) {
        match pair {
            Ok((key, value)) => assert!(made.now[&key[..]] == value[..], "{context}: a scan"),
            Err(error) => whole = !error.is_corruption(),
        }
    }
    assert_eq!(whole, failed.is_empty(), "{context}: a scan");
    // A checkpoint, a close and another opening do not change the result.
    db.put("zzz", "after").unwrap();
    db.close().unwrap();
    drop(db);
    let db = options(vfs, false).open(STORE).unwrap();
    assert_eq!(db.get("zzz").unwrap().as_deref(), Some(&b"after"[..]));
    for (key, value) in &made.now {
        let is_lost = failed.contains(&String::from_utf8_lossy(key).into_owned());
        match db.get(key) {
            Ok(found) => assert!(!is_lost && found.as_deref() == Some(value), "{context}: later"),
            Err(error) => assert!(is_lost && error.is_corruption(), "{context}: later {error}"),
        }
    }
    failed
}

/// Offsets in the record with this number: in its value, its key, and the frame before.
fn places(made: &Made, number: usize) -> Vec<(PathBuf, u64)> {
    let value = &made.now[format!("log-{number}").as_bytes()];
    let (path, at) = place_of(&made.vfs, value);
    let middle = at + value.len() as u64 / 2;
    [at, middle, at - 2, at - 7, at - 14].into_iter().map(|at| (path.clone(), at)).collect()
}

#[test]
fn damage_in_a_record_beyond_any_window_harms_its_key_alone_and_is_no_end() {
    let made = killed(&[30, 5 << 20, 30, 200, 300, 30], false);
    for number in [1, 3, 4] {
        for (path, at) in places(&made, number) {
            let vfs = made.vfs.kill();
            flip(&vfs, &path, at);
            let context = format!("record {number}, byte {at}");
            assert_eq!(unreadable(&made, &vfs, &context), [format!("log-{number}")], "{context}");
        }
    }
}

#[test]
fn damage_in_any_byte_of_a_tiny_record_harms_its_key_alone() {
    let made = killed(&[1, 8, 3, 8], false);
    let (path, value) = place_of(&made.vfs, &made.now[&b"log-1"[..]]);
    // Frame, payload and key: 4 + 1, 1 + 1 + 1 + 3 + 1, 5 bytes.
    for at in value - 17..value + 8 {
        let vfs = made.vfs.kill();
        flip(&vfs, &path, at);
        assert_eq!(unreadable(&made, &vfs, &format!("byte {at}")), ["log-1"], "byte {at}");
    }
}

/// The keys of several records that are lost together are unknown: values that may be older than
/// the lost ones are not returned.
#[test]
fn where_whose_is_lost_is_not_known_nothing_older_is_returned() {
    let made = killed(&[8, 8, 8, 8, 8, 8], false);
    let vfs = made.vfs.kill();
    for number in [2, 3] {
        let (path, at) = place_of(&made.vfs, &made.now[format!("log-{number}").as_bytes()]);
        flip(&vfs, &path, at);
    }
    let failed = unreadable(&made, &vfs, "two records");
    for newer in ["log-4", "log-5"] {
        assert!(!failed.contains(&newer.to_owned()), "{newer} was written after what is lost");
    }
    for lost in ["log-2", "log-3"] {
        assert!(failed.contains(&lost.to_owned()));
    }
    // Every key has a value that is newer than the lost ones: nothing is hidden any more.
    let db = options(&vfs, false).open(STORE).unwrap();
    for (key, value) in &made.now {
        db.put(key, value).unwrap();
    }
    for (key, value) in &made.now {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

/// A value is damaged, and the record right after it is completely overwritten.
#[test]
fn damage_right_behind_a_damaged_value_is_noticed() {
    let made = killed(&[8, 3000, 8, 8, 8], false);
    let vfs = made.vfs.kill();
    for (number, within) in [(1, 1500), (2, 0)] {
        let (path, at) = place_of(&made.vfs, &made.now[format!("log-{number}").as_bytes()]);
        flip(&vfs, &path, at + within);
    }
    assert_eq!(unreadable(&made, &vfs, "two records"), ["log-1", "log-2"]);
}

/// The last record of a log may be one whose write was not finished.
#[test]
fn the_end_of_a_log_is_damaged_as_a_crash_would_leave_it() {
    let made = killed(&[30, 30, 30], false);
    let (path, at) = place_of(&made.vfs, &made.now[&b"log-2"[..]]);
    let vfs = made.vfs.kill();
    flip(&vfs, &path, at);
    let db = options(&vfs, false).open(STORE).unwrap();
    assert_eq!(db.get("log-2").unwrap().as_deref(), Some(&noise(1002, 40)[..]));
    assert_eq!(db.get("log-1").unwrap().as_deref(), Some(&made.now[&b"log-1"[..]][..]));
}

/// Data that were buffered after damage are not lost with it.
#[test]
fn damage_in_the_write_buffer_harms_one_key() {
    let made = killed(&[30, 30, 30, 30, 30, 30], true);
    let (path, at) = place_of(&made.vfs, &made.now[&b"log-3"[..]]);
    assert!(path.ends_with("WRITE-BUFFER"), "{path:?}");
    let vfs = made.vfs.kill();
    flip(&vfs, &path, at);
    assert_eq!(unreadable(&made, &vfs, "the write buffer"), ["log-3"]);
}

/// The end of an indexed part is damaged: the log is read without its index.
#[test]
fn a_log_is_read_without_its_index() {
    let vfs = MemVfs::new();
    let db = options(&vfs, false).open(STORE).unwrap();
    let mut now = Pairs::new();
    for n in 0..3000u64 {
        put(&db, &mut now, &format!("key-{:04}", n * 7 % 3000), noise(n, 300));
    }
    db.close().unwrap();
    let made = Made { vfs, now };
    let mut logs = made.vfs.list(STORE.as_ref()).unwrap();
    logs.retain(|name| name.ends_with(".log"));
    for name in logs {
        let path = PathBuf::from(STORE).join(name);
        // The part end is the last record of a log that was closed.
        let len = read(&made.vfs, &path).len() as u64;
        let vfs = made.vfs.kill();
        flip(&vfs, &path, len - 2);
        let db = options(&vfs, false).open(STORE).unwrap();
        for (key, value) in &made.now {
            assert!(db.get(key).unwrap().as_deref() == Some(value), "{}", String::from_utf8_lossy(key));
        }
        assert!(!db.verify().unwrap().is_ok());
    }
}

#[test]
fn a_repair_names_the_key_of_a_damaged_value() {
    let made = killed(&[30, 5000, 30], false);
    let (path, at) = place_of(&made.vfs, &made.now[&b"log-1"[..]]);
    flip(&made.vfs, &path, at + 1000);
    let report = Db::repair(STORE, "/saved", options(&made.vfs, false)).unwrap();
    assert_eq!(report.uncertain.len(), 1, "{report:?}");
    let only = || std::ops::Bound::Included(b"log-1".to_vec());
    assert_eq!(report.uncertain[0].keys, (only(), only()));
}
