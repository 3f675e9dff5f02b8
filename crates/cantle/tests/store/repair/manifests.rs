//! Manifests that are damaged, or older than the files.

use super::stores::{End, key, plain};
use super::{check, files, opened, options, read_file, repaired, write_file};
use cantle::vfs::{MemVfs, Vfs};
use std::path::PathBuf;

fn manifest(vfs: &MemVfs) -> PathBuf {
    files(vfs).into_iter().find(|path| path.to_string_lossy().contains("MANIFEST")).unwrap()
}

/// The readable parts of a damaged manifest are used: names, and which versions are dead.
#[test]
fn names_outlive_damage_elsewhere_in_the_manifest() {
    for end in [End::Closed, End::Killed] {
        let (vfs, history) = plain(600, end);
        let expected = opened(&vfs);
        let path = manifest(&vfs);
        let bytes = read_file(&vfs, &path);
        let mut damaged_manifests = 0;
        for at in (64..bytes.len()).step_by(bytes.len() / 60) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            let damaged = vfs.kill();
            write_file(&damaged, &path, &flipped);
            let (mut found, report) = repaired(&damaged);
            // The flip may have hit a keyspace's name.
            for (lost, name) in [("lost-2", "other"), ("lost-3", "empty")] {
                if let Some(pairs) = found.remove(lost) {
                    found.insert(name.into(), pairs);
                }
            }
            found.entry("empty".into()).or_default();
            let what = format!("{end:?}: flip at {at}");
            check(&expected, &found, &report, &history, &what);
            damaged_manifests += usize::from(!report.damage.is_empty());
            // Only pairs that had been deleted are wrong.
            for (name, pairs) in &expected {
                for (key, value) in pairs {
                    assert!(found[name].get(key) == Some(value), "{what}: {}", String::from_utf8_lossy(key));
                }
            }
        }
        assert!(damaged_manifests > 40, "{damaged_manifests}");
    }
}

/// An older manifest replaces the present one: some of its files are gone, and other files exist.
#[test]
fn an_older_manifest_does_not_hide_newer_files() {
    let (vfs, mut history) = plain(600, End::Closed);
    let path = manifest(&vfs);
    let old = read_file(&vfs, &path);
    for round in 0..2 {
        let db = options(&vfs).open("store").unwrap();
        for n in 0..600 {
            let value = format!("later value {n} {round}").repeat(5);
            history.put("default", &key(n), value.as_bytes());
            db.put(key(n), value).unwrap();
        }
        db.compact_range(..).unwrap();
        db.close().unwrap();
        drop(db);
        let expected = opened(&vfs);
        let damaged = vfs.kill();
        let present = manifest(&damaged);
        damaged.remove(&present).unwrap();
        write_file(&damaged, &path, &old);
        let (found, report) = repaired(&damaged);
        assert!(!report.is_ok(), "{report:?}");
        check(&expected, &found, &report, &history, &format!("round {round}"));
        for (key, value) in &expected["default"] {
            assert!(
                found["default"].get(key) == Some(value),
                "round {round}: {}",
                String::from_utf8_lossy(key)
            );
        }
    }
}

/// A killed process leaves every edit that it wrote. An edit that others follow was damaged later,
/// and must not be taken for the end. Repair uses the files then.
#[test]
fn an_edit_that_others_follow_is_no_end() {
    let vfs = MemVfs::new();
    let never = std::time::Duration::from_secs(3600);
    let db = options(&vfs).checkpoint_interval(never).open("store").unwrap();
    db.put("first", "value").unwrap();
    db.sync().unwrap();
    let durable = read_file(&vfs, &manifest(&vfs)).len();
    for n in 0..5 {
        let keyspace = db.keyspace("default").unwrap();
        keyspace.put(key(n), [n as u8; 50]).unwrap();
        db.compact_range(..).unwrap();
    }
    let killed = vfs.kill();
    drop(db);
    let path = manifest(&killed);
    let bytes = read_file(&killed, &path);
    assert!(bytes.len() > durable + 100, "{} bytes of edits", bytes.len() - durable);
    let expected = opened(&killed);
    let mut flipped = bytes.clone();
    flipped[durable + 6] ^= 1;
    write_file(&killed, &path, &flipped);
    let error = options(&killed).read_only(true).open("store").unwrap_err();
    assert!(matches!(&error, cantle::Error::Corruption { path: found, .. } if *found == path), "{error}");
    let (found, report) = repaired(&killed);
    assert!(found == expected && !report.is_ok(), "{report:?}");
}
