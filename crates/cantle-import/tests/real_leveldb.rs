//! Stores that LevelDB itself writes while the test runs, compared with what it iterates.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use cantle_import::{Error, Import};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use support::{Random, go_on, hex, import, iterated, tool, write};

fn files(dir: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

/// A script that overwrites and deletes, with values of all sizes.
fn random_script(random: &mut Random, steps: u64, keys: u64) -> String {
    let mut script = String::new();
    for _ in 0..steps {
        let key = hex(format!("key/{:06}", random.below(keys)).as_bytes());
        match random.below(100) {
            0..60 => writeln!(
                script,
                "p {key} {}",
                hex(format!("value {}", random.below(1 << 30)).repeat(5).as_bytes())
            ),
            60..75 => writeln!(script, "d {key}"),
            75..85 => writeln!(script, "r {key} {} {}", random.below(3000), random.below(256)),
            85..95 => writeln!(script, "n {key} {} {}", random.below(3000), random.below(1 << 20)),
            95..97 => writeln!(script, "n {key} {} {}", random.below(200_000), random.below(1 << 20)),
            97..99 => writeln!(script, "[\np {key} 0x01\nd {key}\np {key} 0x02\nd 0x6B65792F303030\n]"),
            _ if random.below(20) == 0 => writeln!(script, "o"),
            _ => Ok(()),
        }
        .unwrap();
    }
    script
}

#[test]
fn what_leveldb_iterates_is_imported_whatever_its_options_and_its_end() {
    let Some(tool) = tool() else { return };
    let rounds = std::env::var("CANTLE_TEST_FACTOR").map_or(1, |factor| factor.parse().unwrap());
    for seed in 0..8 * rounds {
        let mut random = Random(seed);
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("level");
        let draw = |choices: &[&str], random: &mut Random| {
            choices[random.below(choices.len() as u64) as usize].to_owned()
        };
        let options = [
            draw(&["write_buffer=65536", "write_buffer=300000", "write_buffer=4194304"], &mut random),
            draw(&["block_size=1024", "block_size=4096", "block_size=100000"], &mut random),
            draw(&["compression=0", "compression=1", "compression=1"], &mut random),
            draw(&["restarts=1", "restarts=16"], &mut random),
            draw(&["file_size=1048576", "file_size=8388608"], &mut random),
            draw(&["bloom=0", "bloom=10"], &mut random),
        ];
        let options: Vec<&str> =
            options.iter().map(String::as_str).filter(|option| *option != "bloom=0").collect();
        let (steps, keys) = (1000 + random.below(5000), 100 + random.below(4000));
        let end = draw(&["", "k\n", "c\n", "c\np 0x00 0x00\nk\n", "f\nd 0x00\nk\n"], &mut random);
        write(tool, &dir, &options, &(random_script(&mut random, steps, keys) + &end));
        let expected = iterated(tool, &dir);
        for log_memory in [64 << 20, 20_000] {
            let (report, found) = import(&Import::new().log_memory(log_memory), &dir).unwrap();
            assert!(
                found == expected,
                "seed {seed}, {options:?}, {end:?}: {} pairs of {}",
                found.len(),
                expected.len()
            );
            assert!(report.is_ok() && report.torn.is_empty(), "{report:?}");
        }
    }
}

#[test]
fn several_levels_of_tables_and_a_log_make_one_store() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let mut random = Random(1);
    let mut script = String::new();
    for round in 0..6 {
        for _ in 0..3000 {
            let key = hex(format!("{:05}", random.below(20_000)).as_bytes());
            match random.below(4) {
                0 => writeln!(script, "d {key}").unwrap(),
                _ => {
                    writeln!(script, "n {key} {} {}", 100 + random.below(900), random.below(1 << 30)).unwrap()
                }
            }
        }
        script.push_str(if round < 2 { "c\n" } else { "" });
    }
    write(tool, &dir, &["write_buffer=200000", "file_size=1048576"], &(script + "k\n"));
    let (report, found) = import(&Import::new(), &dir).unwrap();
    assert!(report.tables > 5 && report.logs >= 1, "{report:?}");
    assert!(found == iterated(tool, &dir));
}

#[test]
fn values_over_blocks_and_writes_that_are_in_no_table_after_a_kill() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let script = "n 0x01 3000000 1\nr 0x02 3000000 2\nc\nn 0x01 700000 3\nd 0x02\nr 0x03 0 0\np 0x 0x\np 0x04 0x04\nk\n";
    write(tool, &dir, &[], script);
    assert!(std::fs::metadata(&files(&dir, "log")[0]).unwrap().len() > 700_000);
    let (report, found) = import(&Import::new(), &dir).unwrap();
    assert_eq!(
        found.iter().map(|(key, value)| (key.len(), value.len())).collect::<Vec<_>>(),
        [(0, 0), (1, 700_000), (1, 0), (1, 1)]
    );
    assert!(found == iterated(tool, &dir));
    assert_eq!((report.logs, report.pairs), (1, 4));
}

#[test]
fn a_log_that_was_cut_is_read_as_leveldb_reads_it() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let mut script = String::new();
    for key in 0..60 {
        writeln!(script, "n {} {} {key}", hex(&[key]), u32::from(key) * 40).unwrap();
    }
    write(tool, &dir, &[], &(script + "k\n"));
    let log = files(&dir, "log").remove(0);
    let whole = std::fs::metadata(&log).unwrap().len();
    for cut in [0, 1, 7, 100, 32_760, 32_768, 32_770, whole - 1, whole - 5] {
        let copy = place.path().join(format!("cut{cut}"));
        support::copy_dir(&dir, &copy);
        let log = copy.join(log.file_name().unwrap());
        std::fs::File::options().write(true).open(&log).unwrap().set_len(cut).unwrap();
        let (report, found) = import(&Import::new(), &copy).unwrap();
        assert!(found == iterated(tool, &copy), "cut at {cut}");
        assert!(report.is_ok());
        assert!(report.torn.iter().all(|torn| torn.path == log && torn.offset < cut), "{report:?}");
    }
}

#[test]
fn stores_of_older_and_repaired_leveldbs_are_imported() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let script = random_script(&mut Random(3), 4000, 1500);
    write(tool, &dir, &["write_buffer=65536"], &script);
    // As it was named before 1.14.
    for table in files(&dir, "ldb") {
        std::fs::rename(&table, table.with_extension("sst")).unwrap();
    }
    let expected = iterated(tool, &dir);
    assert!(import(&Import::new(), &dir).unwrap().1 == expected);
    // All tables in level 0, and whatever overlaps.
    write(tool, &dir, &["write_buffer=65536"], "k\n");
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let error = import(&Import::new(), &dir).unwrap_err();
    assert!(matches!(&error, Error::Unreadable(damage) if damage.path.ends_with("CURRENT")), "{error}");
    assert!(error.to_string().contains("RepairDB"), "{error}");
    write(tool, &dir, &["write_buffer=65536"], "f\nk\n");
    let repaired = iterated(tool, &dir);
    assert!(import(&Import::new(), &dir).unwrap().1 == repaired);
}

#[test]
fn a_running_leveldb_is_noticed_and_an_import_keeps_it_out() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let mut child = support::start(tool, &dir, &[]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"p 0x01 0x02\nw\n").unwrap();
    input.flush().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    let error = Import::new().leveldb(&dir, place.path().join("new"), go_on).unwrap_err();
    assert!(matches!(error, Error::InUse { pid: Some(pid), .. } if pid == child.id()), "{error}");
    assert!(error.to_string().contains("close it there first"), "{error}");
    drop(input);
    child.wait().unwrap();

    let mut tried = 0;
    let report = Import::new().leveldb(&dir, place.path().join("new"), |_| {
        let output = Command::new(tool).arg(&dir).arg("dump").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("lock"), "{output:?}");
        tried += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(report.unwrap().pairs, 1);
    assert!(tried > 0);
    assert_eq!(iterated(tool, &dir).len(), 1);
}

#[test]
fn an_order_of_its_own_is_refused_by_name() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    write(tool, &dir, &["comparator=1"], "p 0x01 0x02\n");
    let error = import(&Import::new(), &dir).unwrap_err();
    assert!(matches!(&error, Error::Comparator { name, .. } if name == "test.Reverse"), "{error}");
    assert!(error.to_string().contains("leveldb.BytewiseComparator"), "{error}");
}

#[test]
fn any_changed_byte_is_told_or_changes_nothing() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    let mut random = Random(9);
    write(tool, &dir, &["write_buffer=65536"], &(random_script(&mut random, 1500, 400) + "k\n"));
    let expected = iterated(tool, &dir);
    for _ in 0..60 {
        let copy = tempfile::tempdir_in(place.path()).unwrap();
        let copy = copy.path();
        support::copy_dir(&dir, copy);
        let paths: Vec<_> = ["ldb", "log"].iter().flat_map(|kind| files(copy, kind)).collect();
        let path = &paths[random.below(paths.len() as u64) as usize];
        let mut bytes = std::fs::read(path).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        std::fs::write(path, &bytes).unwrap();
        let place = format!("byte {at} of {}", path.display());
        match import(&Import::new(), copy) {
            // A log's last record may look as if it had not been written to its end.
            Ok((report, found)) => assert!(found == expected || !report.torn.is_empty(), "{place}"),
            Err(Error::Damaged(damage)) => {
                assert_eq!(damage.path, *path, "{place}");
                let (report, found) = import(&Import::new().skip_damaged(true), copy).unwrap();
                assert!(!report.is_ok() && report.lost.iter().all(|lost| lost.path == *path), "{place}");
                // Missing and older pairs lie in the places that were reported, where a place tells
                // its keys.
                for (key, value) in &expected {
                    let kept = found.iter().any(|pair| pair.0 == *key && pair.1 == *value);
                    let told = report
                        .lost
                        .iter()
                        .any(|lost| lost.keys.as_ref().is_none_or(|(from, to)| from <= key && key <= to));
                    assert!(kept || told, "{place}: {}", hex(key));
                }
            }
            Err(other) => panic!("{place}: {other}"),
        }
    }
}

#[test]
fn missing_files_are_told() {
    let Some(tool) = tool() else { return };
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("level");
    write(tool, &dir, &["write_buffer=65536"], &(random_script(&mut Random(5), 1000, 300) + "k\n"));
    let all = [files(&dir, "ldb"), files(&dir, "log")].concat();
    assert!(all.len() > 1);
    for path in all {
        let copy = tempfile::tempdir_in(place.path()).unwrap();
        support::copy_dir(&dir, copy.path());
        let path = copy.path().join(path.file_name().unwrap());
        std::fs::remove_file(&path).unwrap();
        match import(&Import::new(), copy.path()) {
            Err(Error::Damaged(damage)) => {
                assert!(damage.path == path && damage.what.contains("missing"), "{damage}")
            }
            // A table that does not belong to the store any more, or a log that no file names:
            // LevelDB does not miss them either.
            Ok((_, found)) => assert!(found == iterated(tool, copy.path()), "{}", path.display()),
            Err(other) => panic!("{other}"),
        }
        assert!(import(&Import::new().skip_damaged(true), copy.path()).is_ok());
    }
}
