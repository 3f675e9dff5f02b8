//! The store of LevelDB's that is checked in: these run anywhere.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use cantle::{Db, KeyspaceOptions, Options};
use cantle_import::{Error, Import};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{copy_dir, fixture, fixture_pairs, go_on, import, look, pairs};

#[test]
fn what_leveldb_iterated_is_imported() {
    let (report, found) = import(&Import::new(), &fixture()).unwrap();
    assert_eq!(found, fixture_pairs());
    assert_eq!((report.tables, report.logs, report.is_ok()), (2, 1, true));
    assert!(report.read_bytes > 2000);
}

#[test]
fn a_keyspace_may_be_named_and_options_hold() {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("new");
    let import =
        Import::new().options(Options::new().memory_budget(8 << 20)).keyspace("old", KeyspaceOptions::new());
    import.leveldb(fixture(), &store, go_on).unwrap();
    let db = Db::open(&store).unwrap();
    assert_eq!(db.range(..).count(), 0);
    assert_eq!(db.keyspace("old").unwrap().range(..).count(), fixture_pairs().len());
}

#[test]
fn progress_goes_up_to_the_end_and_can_stop_the_import() {
    let place = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let report = Import::new().leveldb(fixture(), place.path().join("new"), |progress| {
        told.push(*progress);
        ControlFlow::Continue(())
    });
    let pairs = report.unwrap().pairs;
    assert!(told.windows(2).all(|pair| pair[0].bytes <= pair[1].bytes && pair[0].pairs <= pair[1].pairs));
    let last = told.last().unwrap();
    assert!(last.total_bytes.is_some_and(|total| last.bytes <= total && total < 2 * last.bytes), "{last:?}");
    assert_eq!(last.pairs, pairs);

    let stopped = Import::new().leveldb(fixture(), place.path().join("other"), |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "the first store alone");
}

#[test]
fn nothing_is_put_where_something_is() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let fails = |target: PathBuf| Import::new().leveldb(fixture(), target, go_on).unwrap_err();
    fs::write(path("file"), "text").unwrap();
    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/photo.jpg"), "jpg").unwrap();
    drop(Db::open(path("store")).unwrap());
    let store = look(&path("store"));
    for taken in ["file", "full", "store"] {
        assert!(matches!(fails(path(taken)), Error::DestinationExists { .. }), "{taken}");
    }
    assert!(matches!(fails(path("file/below")), Error::Io { .. } | Error::DestinationExists { .. }));
    assert_eq!(look(&path("store")), store);
    // Another's directory with the name of ours.
    fs::create_dir(path("new.importing")).unwrap();
    fs::write(path("new.importing/photo.jpg"), "jpg").unwrap();
    assert!(
        matches!(fails(path("new")), Error::DestinationExists { path, .. } if path.ends_with("new.importing"))
    );
    assert!(path("new.importing/photo.jpg").exists());

    let source = path("level");
    copy_dir(&fixture(), &source);
    let before = look(&source);
    for below in ["", "new", "deep/new", "../level/new"] {
        let error = Import::new().leveldb(&source, source.join(below), go_on).unwrap_err();
        assert!(
            matches!(error, Error::InvalidArgument(_) | Error::DestinationExists { .. }),
            "{below}: {error}"
        );
    }
    std::os::unix::fs::symlink(&source, path("link")).unwrap();
    let error = Import::new().leveldb(path("link"), source.join("new"), go_on).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    assert_eq!(look(&source), before);

    fs::create_dir(path("empty")).unwrap();
    Import::new().leveldb(&source, path("empty"), go_on).unwrap();
    assert_eq!(pairs(&path("empty")), fixture_pairs());
}

#[test]
fn what_is_no_leveldb_store_is_refused_by_what_it_is() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let fails = |source: PathBuf| Import::new().leveldb(source, path("new"), go_on).unwrap_err();
    assert!(matches!(fails(path("nowhere")), Error::Io { .. }));
    fs::create_dir(path("empty")).unwrap();
    assert!(matches!(fails(path("empty")), Error::NotLevelDb { .. }));
    drop(Db::open(path("store")).unwrap());
    let error = fails(path("store"));
    assert!(matches!(error, Error::Unreadable(_) | Error::NotLevelDb { .. }), "{error}");
    copy_dir(&fixture(), &path("rocks"));
    fs::write(path("rocks/IDENTITY"), "1").unwrap();
    let error = fails(path("rocks"));
    assert!(matches!(error, Error::NotLevelDb { .. }) && error.to_string().contains("ldb"), "{error}");
    for wrong in ["", "MANIFEST-000004", "../MANIFEST-000004\n", "MANIFEST-\n", "MANIFEST-000099\n"] {
        copy_dir(&fixture(), &path("level"));
        fs::write(path("level/CURRENT"), wrong).unwrap();
        assert!(matches!(fails(path("level")), Error::Unreadable(_)), "{wrong:?}");
    }
    assert!(!path("new").exists() && !path("new.importing").exists());
}

#[test]
fn every_byte_of_the_manifest_counts() {
    let place = tempfile::tempdir().unwrap();
    let manifest = fs::read_dir(fixture()).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.into_iter().find(|path| path.to_string_lossy().contains("MANIFEST")).unwrap();
    let bytes = fs::read(&manifest).unwrap();
    for at in 0..bytes.len() {
        let copy = place.path().join("level");
        copy_dir(&fixture(), &copy);
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        fs::write(copy.join(manifest.file_name().unwrap()), changed).unwrap();
        match Import::new().skip_damaged(true).leveldb(&copy, place.path().join("new"), go_on) {
            Err(Error::Unreadable(damage)) => assert!(damage.offset as usize <= at),
            // A length that leads behind the end cannot be told from an edit that was not written
            // to its end.
            Ok(report) => {
                assert_eq!(report.torn.len(), 1, "byte {at}");
                fs::remove_dir_all(place.path().join("new")).unwrap();
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
}

/// Imports in a process of its own, which is killed at the first word on the progress.
#[test]
fn killed_child() {
    let Some(target) = std::env::var_os("CANTLE_TEST_KILLED_IMPORT") else { return };
    let killed = Import::new().leveldb(fixture(), target, |progress| {
        if progress.pairs > 0 {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        ControlFlow::Continue(())
    });
    panic!("it lives: {killed:?}");
}

#[test]
fn a_killed_import_leaves_no_store_and_the_next_one_starts_over() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("new");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_child"])
        .env("CANTLE_TEST_KILLED_IMPORT", &target)
        .output()
        .unwrap();
    assert!(!child.status.success());
    let staging = place.path().join("new.importing");
    assert!(!target.exists() && staging.join("store").is_dir());
    // The remains say what they are, to people and to programs.
    let text = fs::read_to_string(staging.join("IMPORTING")).unwrap();
    assert!(text.contains("This is no store: import again"), "{text}");
    let error = Db::open(&staging).unwrap_err();
    assert!(
        matches!(&error, cantle::Error::NotAStore { .. }) && error.to_string().contains("import"),
        "{error}"
    );

    Import::new().leveldb(fixture(), &target, go_on).unwrap();
    assert_eq!(pairs(&target), fixture_pairs());
    assert!(!staging.exists());
}

#[test]
fn two_imports_to_the_same_place_do_not_meet() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("new");
    let mut tried = false;
    Import::new()
        .leveldb(fixture(), &target, |_| {
            if !std::mem::replace(&mut tried, true) {
                let error = Import::new().leveldb(fixture(), &target, go_on).unwrap_err();
                assert!(matches!(error, Error::UnderWay { .. }), "{error}");
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(tried);
    assert_eq!(pairs(&target), fixture_pairs());
}

#[test]
fn a_store_that_appears_meanwhile_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("new");
    let error = Import::new()
        .leveldb(fixture(), &target, |_| {
            Db::open(&target).unwrap().put("theirs", "1").unwrap();
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::DestinationExists { .. }), "{error}");
    assert_eq!(pairs(&target), [(b"theirs".to_vec(), b"1".to_vec())]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn opening_it_touches_nothing_and_names_the_command() {
    let place = tempfile::tempdir().unwrap();
    let level = place.path().join("level");
    copy_dir(&fixture(), &level);
    let rocks = place.path().join("rocks");
    copy_dir(&fixture(), &rocks);
    fs::write(rocks.join("IDENTITY"), "1").unwrap();
    fs::write(rocks.join("OPTIONS-000007"), "[Version]").unwrap();
    let with_space = place.path().join("it's here");
    copy_dir(&fixture(), &with_space);
    let check = |dir: &Path, says: &str| {
        let before = look(dir);
        for read_only in [false, true] {
            let error = Options::new().read_only(read_only).open(dir).unwrap_err();
            assert!(matches!(error, cantle::Error::NotAStore { .. }), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        let error = Db::repair(dir, place.path().join("repaired"), Options::new()).unwrap_err();
        assert!(matches!(error, cantle::Error::NotAStore { .. }), "{error}");
        assert_eq!(look(dir), before);
    };
    check(&level, &format!("cantle import --leveldb {} NEW", level.display()));
    check(&rocks, &format!("ldb --db={} --hex dump | cantle import --rocksdb NEW", rocks.display()));
    check(&with_space, "it'\\''s here' NEW");
}

#[test]
fn dumps_are_imported_in_any_order_and_the_last_of_a_key_counts() {
    let place = tempfile::tempdir().unwrap();
    let target = place.path().join("new");
    let dump = "0x62 ==> 0x31\n0x61 ==> 0x\n0x62 ==> 0x32\nKeys in range: 3\n";
    let report = Import::new().rocksdb_dump(dump.as_bytes(), "dump", &target, go_on).unwrap();
    assert_eq!((report.pairs, report.bytes, report.counted), (2, 3, true));
    assert_eq!(pairs(&target), [(b"a".to_vec(), b"".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    for (wrong, says) in [
        ("0x61 ==> 0x62\nx\n", "dump line 2"),
        ("0x61 ==> 0x62\nKeys in range: 3\n", "part of it is missing"),
        (&format!("0x{} ==> 0x\n", "61".repeat((1 << 20) + 1)), "dump line 1: the key has 1048577 bytes"),
    ] {
        let error = Import::new()
            .rocksdb_dump(wrong.as_bytes(), "dump", place.path().join("other"), go_on)
            .unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// As LevelDB has it where it runs in the same process: a lock of the process, which closing any of
/// its files of LOCK would take away.
#[test]
fn a_leveldb_in_this_process_is_noticed_and_keeps_its_lock() {
    use rustix::fs::{FlockOperation, fcntl_lock};
    let place = tempfile::tempdir().unwrap();
    let level = place.path().join("level");
    copy_dir(&fixture(), &level);
    let held = fs::File::options().write(true).open(level.join("LOCK")).unwrap();
    fcntl_lock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let error = Import::new().leveldb(&level, place.path().join("new"), go_on).unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error}");
    // Still held, as another process sees it.
    let inode = std::os::unix::fs::MetadataExt::ino(&held.metadata().unwrap());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let ours = format!(" {} ", std::process::id());
    let ours = locks.lines().find(|line| line.contains(&ours) && line.contains(&format!(":{inode} ")));
    assert!(ours.is_some_and(|line| line.contains("POSIX") && line.contains("WRITE")), "{locks}");
    drop(held);
    Import::new().leveldb(&level, place.path().join("new"), go_on).unwrap();
}

#[test]
fn a_copy_without_a_lock_file_is_imported_and_gets_none() {
    let place = tempfile::tempdir().unwrap();
    let level = place.path().join("level");
    copy_dir(&fixture(), &level);
    fs::remove_file(level.join("LOCK")).unwrap();
    assert_eq!(import(&Import::new(), &level).unwrap().1, fixture_pairs());
}

#[test]
fn options_of_the_default_keyspace_hold() {
    #[derive(Debug)]
    struct Backwards;
    impl cantle::Comparator for Backwards {
        fn name(&self) -> &str {
            "backwards"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            b.cmp(a)
        }
    }
    let place = tempfile::tempdir().unwrap();
    let backwards = || KeyspaceOptions::new().comparator(std::sync::Arc::new(Backwards));
    let options = Options::new().default_keyspace(backwards());
    Import::new().options(options.clone()).leveldb(fixture(), place.path().join("new"), go_on).unwrap();
    let db = options.clone().open(place.path().join("new")).unwrap();
    assert_eq!(db.comparator_name(), "backwards");
    assert_eq!(db.range(..).count(), fixture_pairs().len());
    // Options of the keyspace itself go before those of the store.
    let import = Import::new().options(options).keyspace("default", KeyspaceOptions::new());
    import.leveldb(fixture(), place.path().join("other"), go_on).unwrap();
    assert_eq!(Db::open(place.path().join("other")).unwrap().comparator_name(), "cantle.bytewise");
}

/// Runs what would wait forever if it were wrong.
fn soon<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(run()));
    wait.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for something that never comes")
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused() {
    for name in ["CURRENT", "LOCK", "MANIFEST-000006", "000008.log", "000007.ldb"] {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("leveldb");
        copy_dir(&fixture(), &source);
        fs::remove_file(source.join(name)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(source.join(name)).status().unwrap();
        assert!(made.success());
        let new = place.path().join("new");
        let error = soon(move || Import::new().leveldb(source, new, go_on).unwrap_err());
        assert!(error.to_string().contains("not a file") && error.to_string().contains(name), "{error}");
        assert!(!place.path().join("new").exists());
    }
}

#[test]
fn a_log_of_nothing_can_be_stopped_however_long_it_is() {
    for name in ["000008.log", "MANIFEST-000006"] {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("leveldb");
        copy_dir(&fixture(), &source);
        fs::File::options().append(true).open(source.join(name)).unwrap().set_len(1 << 40).unwrap();
        let new = place.path().join("new");
        let stopped = soon(move || {
            let mut told = 0;
            Import::new().leveldb(source, new, |_| {
                told += 1;
                if told < 4 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        });
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
    }
}
