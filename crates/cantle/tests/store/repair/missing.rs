//! Files that are missing, truncated, exchanged, or from another store.

use super::stores::{ENDS, End, key, plain};
use super::{History, check, files, opened, options, read_file, repaired, write_file};
use cantle::Durability;
use cantle::vfs::{CrashPlan, MemVfs, Vfs};
use std::time::Duration;

#[test]
fn each_file_may_be_missing() {
    for end in ENDS {
        let (vfs, history) = plain(900, end);
        let expected = opened(&vfs);
        for path in files(&vfs) {
            let damaged = vfs.kill();
            damaged.remove(&path).unwrap();
            let what = format!("{end:?} without {}", path.display());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // Without this file it is unknown that the page cache outlived the process, so the last
            // checkpoint counts.
            let expected = if name == "PAGECACHE" || name == "WRITE-BUFFER" {
                opened(&damaged)
            } else {
                expected.clone()
            };
            let (found, report) = repaired(&damaged);
            let found = if name.starts_with("MANIFEST") { renamed(found) } else { found };
            let astray = check(&expected, &found, &report, &history, &what);
            if name.starts_with("MANIFEST") {
                assert!(!report.is_ok(), "{what}");
            } else if name.ends_with(".table") && astray > 0 {
                assert!(!report.is_ok(), "{what}: {report:?}");
            } else if ["PAGECACHE", "WRITE-BUFFER", "RESERVE"].iter().any(|known| name.starts_with(known)) {
                assert!(astray == 0 && report.is_ok(), "{what}: {report:?}");
            }
        }
    }
}

/// If tables are missing, and others exist that the manifest does not know, repair uses the files.
/// The journal's writes since the last checkpoint are applied again all the same, and data that
/// only the missing table had are reported.
#[test]
fn a_journal_counts_though_the_manifest_does_not_fit() {
    const PAIRS: usize = 600;
    let mut misfits = 0;
    for seed in 0..40 {
        let (vfs, mut history) = (MemVfs::new(), History::default());
        let tuned = options(&vfs).durability(Durability::Sync).checkpoint_interval(Duration::from_secs(3600));
        let db = tuned.open("store").unwrap();
        let mut put = |n: usize, generation: usize| {
            let value = format!("value {n} of generation {generation} ").repeat(5);
            history.put("default", &key(n), value.as_bytes());
            db.put(key(n), value).unwrap();
        };
        (0..PAIRS).for_each(|n| put(n, 0));
        db.compact_range(..).unwrap();
        db.sync().unwrap();
        (0..PAIRS).step_by(3).for_each(|n| put(n, 1));
        db.compact_range(..key(PAIRS / 2)).unwrap();
        (0..PAIRS).step_by(7).for_each(|n| put(n, 2));
        let crashed = vfs.crash(&CrashPlan::random(seed));
        drop(db);
        let expected = opened(&crashed);
        for path in
            files(&crashed).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "table"))
        {
            let damaged = crashed.kill();
            damaged.remove(&path).unwrap();
            let what = format!("{seed} without {}", path.display());
            let (found, report) = repaired(&damaged);
            check(&expected, &found, &report, &history, &what);
            if !report.damage.iter().any(|error| error.to_string().contains("the manifest names files")) {
                continue;
            }
            misfits += 1;
            for n in (0..PAIRS).step_by(7) {
                let (found, expected) = (found["default"].get(&key(n)), expected["default"].get(&key(n)));
                assert!(found == expected, "{what}: {n}: {report:?}");
            }
        }
    }
    assert!(misfits > 0, "no manifest did not fit");
}

/// Only the manifest has names.
fn renamed(found: super::Content) -> super::Content {
    let mut named = found;
    for (lost, name) in [("lost-2", "other"), ("lost-3", "empty")] {
        let pairs = named.remove(lost).unwrap_or_default();
        named.insert(name.into(), pairs);
    }
    named.remove("lost-4");
    named
}

#[test]
fn each_file_may_be_cut_off_anywhere() {
    for end in [End::Closed, End::Killed] {
        let (vfs, history) = plain(300, end);
        let expected = opened(&vfs);
        for path in files(&vfs) {
            let bytes = read_file(&vfs, &path);
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !bytes.starts_with(b"CANTLE\0") {
                continue;
            }
            for cut in 0..12 {
                let len = bytes.len() * cut / 12 + cut;
                let damaged = vfs.kill();
                write_file(&damaged, &path, &bytes[..len.min(bytes.len() - 1)]);
                let what = format!("{end:?}: {} cut off at {len}", path.display());
                let (found, report) = repaired(&damaged);
                if name.starts_with("MANIFEST") {
                    // The last checkpoint that remains may be older than the files.
                    continue;
                }
                // The end of a log that was not durable yet may be torn.
                let torn = end == End::Killed && (name.ends_with(".log") || name.ends_with(".journal"));
                if !torn {
                    check(&expected, &found, &report, &history, &what);
                }
            }
        }
    }
}

#[test]
fn files_that_changed_places_are_recognised() {
    let (vfs, history) = plain(900, End::Closed);
    let expected = opened(&vfs);
    let tables: Vec<_> =
        files(&vfs).into_iter().filter(|path| path.extension().is_some_and(|e| e == "table")).collect();
    let (one, two) = (&tables[0], &tables[1]);
    let (a, b) = (read_file(&vfs, one), read_file(&vfs, two));
    write_file(&vfs, one, &b);
    write_file(&vfs, two, &a);
    let (found, report) = repaired(&vfs);
    assert_eq!(check(&expected, &found, &report, &history, "exchanged"), 0, "{report:?}");
    assert!(found == expected && report.damage.len() == 2, "{report:?}");
}

#[test]
fn files_of_another_store_stay_out() {
    let (other, _) = plain(900, End::Closed);
    for place in 0.. {
        let (vfs, history) = plain(900, End::Closed);
        let expected = opened(&vfs);
        let Some(path) = files(&vfs).into_iter().nth(place) else { break };
        if !other.metadata(&path).is_ok_and(|found| found.is_some()) {
            continue;
        }
        write_file(&vfs, &path, &read_file(&other, &path));
        let what = format!("{} of another store", path.display());
        let (found, report) = repaired(&vfs);
        let is_manifest = path.to_string_lossy().contains("MANIFEST");
        let found = if is_manifest { renamed(found) } else { found };
        check(&expected, &found, &report, &history, &what);
        if read_file(&vfs, &path).starts_with(b"CANTLE\0") {
            assert!(report.left_out.iter().any(|left| left.path == path), "{what}: {report:?}");
        }
    }
}
