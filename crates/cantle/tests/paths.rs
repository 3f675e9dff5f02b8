//! An open store and its path: the working directory changes, the store's directory is renamed or
//! replaced, the lock file is removed, two openings race, handles are left after closing.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "moves directories and changes into them as anybody may")]

use cantle::vfs::{CrashPlan, Failure, FaultVfs, LockMode, MemVfs, OpenMode, Operation, Verdict, Vfs};
use cantle::{Db, Error, Keyspace, Options};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

fn fill(db: &Db, prefix: &str, pairs: usize) {
    for number in 0..pairs {
        db.put(format!("{prefix}{number:04}"), prefix.repeat(40)).unwrap();
    }
}

/// The store has the pairs of these fills and no others, and all its files are sound.
fn assert_filled(db: &Db, fills: &[(&str, usize)]) {
    for (prefix, pairs) in fills {
        for number in 0..*pairs {
            let value = db.get(format!("{prefix}{number:04}")).unwrap();
            assert_eq!(value.as_deref(), Some(prefix.repeat(40).as_bytes()), "{prefix}{number:04}");
        }
    }
    assert_eq!(db.range(..).count(), fills.iter().map(|(_, pairs)| pairs).sum::<usize>());
    let report = db.verify().unwrap();
    assert!(report.damage.is_empty() && report.unknown_files.is_empty(), "{report:?}");
}

fn on(vfs: &MemVfs) -> Options {
    Options::new().vfs(Arc::new(vfs.clone()))
}

/// Uses an open store in every way that touches its files.
fn use_all(db: &Db, backup: &Path) {
    db.sync().unwrap();
    db.compact_range(..).unwrap();
    fill(db, "later", 300);
    db.delete_range("later0000".."later0100").unwrap();
    let events = db.keyspace("events").unwrap();
    events.put("key", "value").unwrap();
    db.sync().unwrap();
    db.compact_range(..).unwrap();
    fill(db, "last", 50);
    db.backup(backup).unwrap();
}

const ALL: &[(&str, usize)] = &[("first", 500), ("last", 50)];

fn assert_used(db: &Db) {
    db.delete_range("later0100".."later9").unwrap();
    assert_filled(db, ALL);
    let events = db.keyspace("events").unwrap();
    assert_eq!(events.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The working directory belongs to the process, so a child runs the test.
#[test]
fn a_store_of_a_relative_path_stays_where_it_was_opened_when_the_working_directory_changes() {
    const CHILD: &str = "CANTLE_TEST_CHANGES_DIRECTORY";
    let Some(root) = std::env::var_os(CHILD) else {
        for path in ["store", "./store", ".", ""] {
            let root = tempfile::tempdir().unwrap();
            let (here, there) = (root.path().join("here"), root.path().join("there"));
            [&here, &there].into_iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
            let mut child = Command::new(std::env::current_exe().unwrap());
            let name =
                "a_store_of_a_relative_path_stays_where_it_was_opened_when_the_working_directory_changes";
            child.args(["--exact", name]).env(CHILD, root.path()).env("CANTLE_TEST_PATH", path);
            let output = child.output().unwrap();
            assert!(output.status.success(), "{path:?}: {}", String::from_utf8_lossy(&output.stdout));
            assert_used(&Db::open(here.join(path)).unwrap());
            assert_filled(&Db::open(there.join(path)).unwrap(), &[("others", 100)]);
            assert_used(&Db::open(root.path().join("backup")).unwrap());
        }
        return;
    };
    let (root, path) = (Path::new(&root), std::env::var("CANTLE_TEST_PATH").unwrap());
    std::env::set_current_dir(root.join("here")).unwrap();
    let db = Db::open(&path).unwrap();
    fill(&db, "first", 500);
    std::env::set_current_dir(root.join("there")).unwrap();
    let others = Db::open(&path).unwrap();
    fill(&others, "others", 100);
    use_all(&db, Path::new("../backup"));
    db.close().unwrap();
    others.close().unwrap();
}

#[test]
fn a_store_whose_directory_is_renamed_goes_on_and_what_takes_its_place_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (root.path().join("old"), root.path().join("new"));
    let db = Db::open(&old).unwrap();
    fill(&db, "first", 500);
    std::fs::rename(&old, &new).unwrap();
    let others = Db::open(&old).unwrap();
    fill(&others, "others", 100);
    assert!(matches!(Db::open(&new), Err(Error::Locked { .. })), "the lock has moved with the store");
    use_all(&db, &root.path().join("backup"));
    db.close().unwrap();
    others.close().unwrap();
    assert_used(&Db::open(&new).unwrap());
    assert_filled(&Db::open(&old).unwrap(), &[("others", 100)]);
    assert_used(&Db::open(root.path().join("backup")).unwrap());
}

#[test]
fn a_renamed_store_loses_nothing_to_a_kill_or_a_loss_of_power() {
    let memory = MemVfs::new();
    let db = on(&memory).open("old").unwrap();
    fill(&db, "first", 500);
    memory.move_directory(Path::new("old"), Path::new("elsewhere/new")).unwrap_err();
    memory.create_dir_all(Path::new("elsewhere")).unwrap();
    memory.sync_dir(Path::new("")).unwrap();
    memory.move_directory(Path::new("old"), Path::new("elsewhere/new")).unwrap();
    let others = on(&memory).open("old").unwrap();
    fill(&others, "others", 100);
    others.sync().unwrap();
    use_all(&db, Path::new("backup"));
    let path = "elsewhere/new";
    assert_used(&on(&memory.kill()).open(path).unwrap());
    db.sync().unwrap();
    let crashed = memory.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_used(&on(&crashed).open(path).unwrap());
    assert_filled(&on(&crashed).open("old").unwrap(), &[("others", 100)]);
    drop((db, others));
    assert_used(&on(&memory).open(path).unwrap());
    assert_filled(&on(&memory).open("old").unwrap(), &[("others", 100)]);
}

#[test]
fn a_directory_that_cannot_be_opened_is_no_failed_sync() {
    let refusals = [Failure::EMFILE, Failure::Errno(libc_eacces()), Failure::Errno(libc_enoent())];
    for refusal in refusals {
        let memory = MemVfs::new();
        let fault = FaultVfs::over_memory(memory.clone());
        let options =
            Options::new().vfs(Arc::new(fault.clone())).checkpoint_interval(Duration::from_secs(3600));
        let db = options.open("store").unwrap();
        fill(&db, "first", 100);
        fault.fail_always(Operation::SyncDir, Verdict::Fail(refusal));
        assert!(db.sync().is_err());
        assert_eq!(db.stats().read_only, None, "{refusal:?}");
        fill(&db, "second", 100);
        // The page cache is still trusted.
        assert_filled(&on(&memory.kill()).open("store").unwrap(), &[("first", 100), ("second", 100)]);
        fault.clear_rule();
        db.sync().unwrap();
        let crashed = memory.crash(&CrashPlan::LOSE_UNSYNCED);
        assert_filled(&on(&crashed).open("store").unwrap(), &[("first", 100), ("second", 100)]);
    }
}

fn libc_eacces() -> i32 {
    rustix::io::Errno::ACCESS.raw_os_error()
}

fn libc_enoent() -> i32 {
    rustix::io::Errno::NOENT.raw_os_error()
}

/// Runs `meanwhile` on the file system itself when a store is about to be locked through the
/// returned one.
fn while_locking(memory: &MemVfs, meanwhile: impl Fn(&MemVfs) + Send + Sync + 'static) -> FaultVfs {
    let (fault, memory, done) =
        (FaultVfs::over_memory(memory.clone()), memory.clone(), AtomicBool::new(false));
    fault.set_rule(move |call| {
        if call.operation == Operation::Lock && !done.swap(true, SeqCst) {
            meanwhile(&memory);
        }
        Verdict::Pass
    });
    fault
}

#[test]
fn a_lock_file_that_was_removed_while_it_was_opened_locks_nothing() {
    let memory = MemVfs::new();
    on(&memory).open("store").unwrap().put("old", "value").unwrap();
    let theirs = Arc::new(std::sync::Mutex::new(None));
    let kept = theirs.clone();
    let fault = while_locking(&memory, move |memory| {
        Db::destroy("store", on(memory)).unwrap();
        *kept.lock().unwrap() = Some(on(memory).open("store").unwrap());
    });
    let opened = Options::new().vfs(Arc::new(fault)).open("store");
    assert!(matches!(opened, Err(Error::Locked { .. })), "two have the store: {opened:?}");
    let theirs = theirs.lock().unwrap().take().unwrap();
    theirs.put("new", "value").unwrap();
    theirs.close().unwrap();
    let db = on(&memory).open("store").unwrap();
    assert_eq!(db.get("old").unwrap(), None);
    assert!(db.get("new").unwrap().is_some());
}

#[test]
fn a_store_that_was_destroyed_while_it_was_opened_is_created_anew_or_missed() {
    for create in [true, false] {
        let memory = MemVfs::new();
        on(&memory).open("store").unwrap().put("old", "value").unwrap();
        let fault = while_locking(&memory, |memory| Db::destroy("store", on(memory)).unwrap());
        let opened = Options::new().vfs(Arc::new(fault)).create_if_missing(create).open("store");
        match opened {
            Ok(db) if create => assert_eq!(db.get("old").unwrap(), None),
            Err(Error::NotFound { .. }) if !create => {}
            opened => panic!("create_if_missing = {create}: {opened:?}"),
        }
    }
}

#[test]
fn a_store_that_was_created_while_another_opening_wanted_none_is_refused() {
    let memory = MemVfs::new();
    let fault = while_locking(&memory, |memory| {
        on(memory).open("store").unwrap().put("theirs", "value").unwrap();
    });
    let opened = Options::new().vfs(Arc::new(fault)).error_if_exists(true).open("store");
    assert!(matches!(opened, Err(Error::AlreadyExists { .. })), "{opened:?}");
    assert!(on(&memory).open("store").unwrap().get("theirs").unwrap().is_some());
}

#[test]
fn of_racing_openings_that_want_no_store_one_creates_it() {
    for _ in 0..20 {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        let created = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match Options::new().error_if_exists(true).open(&path) {
                    Ok(db) => {
                        created.fetch_add(1, SeqCst);
                        db.put("key", "value").unwrap();
                        db.close().unwrap();
                    }
                    Err(Error::Locked { .. } | Error::AlreadyExists { .. }) => {}
                    Err(error) => panic!("{error}"),
                });
            }
        });
        assert_eq!(created.load(SeqCst), 1);
    }
}

/// Every kind of handle that a store returns, in use.
struct Handles {
    db: Db,
    keyspace: Keyspace,
    snapshot: cantle::Snapshot,
    range: cantle::Range,
    cursor: cantle::Cursor,
    transaction: cantle::Transaction,
}

impl Handles {
    fn of(db: &Db) -> Self {
        let keyspace = db.keyspace("events").unwrap();
        keyspace.put("key", "value").unwrap();
        let mut range = db.range(..);
        range.next().unwrap().unwrap();
        let mut cursor = db.cursor(..);
        assert!(cursor.seek_to_first().unwrap());
        let transaction = db.transaction();
        transaction.get("first0001").unwrap().unwrap();
        transaction.put("first0001", "changed").unwrap();
        Self { db: db.clone(), keyspace, snapshot: db.snapshot(), range, cursor, transaction }
    }

    /// All handles report that the store is closed, also after it was opened again elsewhere.
    fn assert_closed(self) {
        fn closed<T: std::fmt::Debug>(result: cantle::Result<T>) {
            assert!(matches!(result, Err(Error::Closed)), "{result:?}");
        }
        let Self { db, keyspace, snapshot, mut range, mut cursor, transaction } = self;
        closed(db.get("first0001"));
        closed(db.put("key", "value"));
        closed(db.delete("first0001"));
        closed(db.delete_range(..));
        closed(db.update("first0001", |_| None));
        closed(db.write(cantle::WriteBatch::new()));
        closed(db.transact(|tx| tx.get("first0001")));
        closed(db.sync());
        closed(db.compact_range(..));
        closed(db.backup("backup"));
        closed(db.verify());
        closed(db.keyspace("more"));
        closed(db.drop_keyspace("events"));
        closed(db.close());
        closed(db.range(..).next().unwrap());
        closed(keyspace.get("key"));
        closed(keyspace.put("key", "other"));
        closed(keyspace.set_metadata(b"metadata"));
        closed(keyspace.approximate_bytes(..));
        closed(keyspace.regions());
        closed(snapshot.get("first0001"));
        closed(snapshot.keyspace(&keyspace).get("key"));
        closed(snapshot.range(..).next().unwrap());
        closed(snapshot.clone().cursor(..).seek_to_first());
        closed(transaction.get("first0002"));
        closed(transaction.put("first0002", "changed"));
        closed(range.next().unwrap());
        assert_eq!(cursor.key(), Some(&b"first0000"[..]), "a pair that was lent stays");
        closed(cursor.next());
        closed(cursor.seek("first0100"));
        closed(transaction.commit());
        assert!(db.stats().keyspaces.iter().any(|keyspace| keyspace.name == "events"));
    }
}

#[test]
fn a_closed_store_may_be_opened_again_while_handles_of_every_kind_are_left() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("store");
    let mut left = Vec::new();
    for round in 0..4 {
        let db = Db::open(&path).unwrap();
        if round == 0 {
            fill(&db, "first", 2000);
        }
        let value = db.get("first0002").unwrap().unwrap();
        left.push((Handles::of(&db), value));
        db.compact_range(..).unwrap();
        db.close().unwrap();
    }
    let db = Db::open(&path).unwrap();
    let names = || -> BTreeSet<_> {
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    };
    db.compact_range(..).unwrap();
    db.sync().unwrap();
    for (handles, value) in left {
        assert_eq!(&*value, "first".repeat(40).as_bytes(), "a value that was given stays");
        assert!(matches!(Db::open(&path), Err(Error::Locked { .. })), "the lock is the new opening's");
        handles.assert_closed();
        assert!(names().contains(Path::new("LOCK").as_os_str()));
    }
    assert!(matches!(Db::open(&path), Err(Error::Locked { .. })), "no handle has released it");
    assert_filled(&db, &[("first", 2000)]);
    db.close().unwrap();
    assert_filled(&Db::open(&path).unwrap(), &[("first", 2000)]);
}

/// While a writer of the first opening is running, no other opening succeeds.
#[test]
fn calls_under_way_come_to_their_end_before_the_lock_is_released() {
    for round in 0..6 {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("store");
        let durability =
            [cantle::Durability::Process, cantle::Durability::Sync, cantle::Durability::Buffered][round % 3];
        let options = Options::new().durability(durability);
        let db = options.clone().open(&path).unwrap();
        let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let db = db.clone();
                scope.spawn(move || {
                    for number in 0u64.. {
                        match db.put(format!("{writer}/{number:08}"), number.to_le_bytes()) {
                            Ok(()) => acknowledged.store(number + 1, SeqCst),
                            Err(Error::Closed) => break,
                            Err(error) => panic!("{error}"),
                        }
                        assert!(matches!(
                            db.get(format!("{writer}/{number:08}")),
                            Ok(Some(_)) | Err(Error::Closed)
                        ));
                        if number % 64 == 63 && writer == 0 {
                            let compacted = db.compact_range(..);
                            assert!(matches!(compacted, Ok(()) | Err(Error::Closed)), "{compacted:?}");
                        }
                    }
                });
            }
            while acknowledged.iter().any(|count| count.load(SeqCst) < 20) {
                std::thread::yield_now();
            }
            db.close().unwrap();
            // While the writers may not have noticed yet.
            let again = options.clone().open(&path).unwrap();
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                for number in 0..acknowledged.load(SeqCst) {
                    let value = again.get(format!("{writer}/{number:08}")).unwrap();
                    assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "{writer}/{number}");
                }
            }
            assert!(again.verify().unwrap().damage.is_empty());
            again.close().unwrap();
        });
    }
}

#[test]
fn a_lock_goes_with_its_file() {
    let memory = MemVfs::new();
    memory.create_dir_all(Path::new("a")).unwrap();
    let lock = memory.lock(Path::new("a/LOCK"), LockMode::Exclusive).unwrap();
    assert!(lock.is_current().unwrap());
    memory.rename(Path::new("a/LOCK"), Path::new("a/OTHER")).unwrap();
    assert!(!lock.is_current().unwrap());
    assert!(memory.lock(Path::new("a/OTHER"), LockMode::Exclusive).is_err());
    memory.lock(Path::new("a/LOCK"), LockMode::Exclusive).unwrap();
    drop(lock);
    memory.lock(Path::new("a/OTHER"), LockMode::Exclusive).unwrap();
    drop(memory.open(Path::new("a/OTHER"), OpenMode::Read).unwrap());
}

/// Names that resemble those of a store's files, and are not: a store's names have numbers of 12
/// digits, or of more if needed.
#[test]
fn files_whose_names_a_store_never_gives_are_neither_read_nor_removed() {
    const THEIRS: [&str; 12] = [
        "MANIFEST-foo",
        "MANIFEST-",
        "MANIFEST-9",
        "MANIFEST-0000000000009",
        "MANIFEST-000000000009.bak",
        "foo.journal",
        ".journal",
        "9.journal",
        "+00000000009.journal",
        "foo.log",
        "0000000000009.table",
        "MANIFEST-foo.tmp",
    ];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let options = || Options::new().durability(cantle::Durability::Sync);
    drop(options().open(&path).unwrap());
    for name in THEIRS {
        std::fs::write(path.join(name), name).unwrap();
    }
    for round in 1..=3 {
        let db = options().open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        fill(&db, &format!("round {round} "), 100);
        db.sync().unwrap();
        db.close().unwrap();
    }
    let db = options().read_only(true).open(&path).unwrap();
    for round in 1..=3 {
        let prefix = format!("round {round} ");
        assert_eq!(
            db.range(..).filter(|pair| pair.as_ref().unwrap().0.starts_with(prefix.as_bytes())).count(),
            100
        );
    }
    let report = db.verify().unwrap();
    assert!(report.damage.is_empty() && report.unknown_files.len() == THEIRS.len(), "{report:?}");
    drop(db);
    for name in THEIRS {
        assert_eq!(std::fs::read(path.join(name)).unwrap(), name.as_bytes(), "{name}");
    }
}
