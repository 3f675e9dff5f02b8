//! A store stays small and fast over any number of openings, closed or killed: the files that each
//! opening leaves are merged gradually.
#![expect(clippy::unwrap_used, reason = "a helper of tests may panic")]

use cantle::vfs::{Call, CrashPlan, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// LOCK, PAGECACHE, two reserves, the write buffer, a manifest, a journal, and the journal of a
/// process that was killed.
const OTHER_FILES_MAX: usize = 8;
/// A chunk may have 8 files when it is opened, and gets a log; a killed process leaves 2 more.
const CHUNK_FILES_MAX: usize = 11;

/// Bytes of a chunk, so small that a store of some hundred kilobytes has several.
const SMALL: u64 = 64 << 10;

/// The bytes that an opening read and wrote, and the number of files that it synced.
#[derive(Clone, Default)]
struct Work(Arc<[AtomicU64; 3]>);

impl Work {
    fn counted(&self, disk: &MemVfs) -> FaultVfs {
        let (vfs, work) = (FaultVfs::over_memory(disk.clone()), self.clone());
        vfs.set_rule(move |call: &Call<'_>| {
            let counter = match call.operation {
                Operation::ReadAt => 0,
                Operation::WriteAt => 1,
                Operation::SyncData => 2,
                _ => return Verdict::Pass,
            };
            work.0[counter].fetch_add(if counter == 2 { 1 } else { call.len }, Relaxed);
            Verdict::Pass
        });
        vfs
    }

    fn take(&self) -> [u64; 3] {
        [0, 1, 2].map(|counter| self.0[counter].swap(0, Relaxed))
    }
}

/// The contents of the store's directory.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    files: usize,
    manifest_bytes: u64,
    /// Numbers of logs and tables.
    data_files: usize,
    data_bytes: u64,
}

fn look(disk: &MemVfs) -> Found {
    let mut found = Found::default();
    for name in disk.list(Path::new("store")).unwrap() {
        let bytes = disk.metadata(&Path::new("store").join(&name)).unwrap().unwrap().len;
        found.files += 1;
        if name.starts_with("MANIFEST-") {
            found.manifest_bytes += bytes;
        }
        if name.ends_with(".log") || name.ends_with(".table") {
            found.data_files += 1;
            found.data_bytes += bytes;
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    /// Closed, and then the power fails, which restores the names of removed files.
    Crashed,
    /// One in this many is closed, the others are killed.
    ClosedOneIn(u32),
}

impl End {
    fn is_closed(self, opening: u32) -> bool {
        match self {
            Self::Closed | Self::Crashed => true,
            Self::Killed => false,
            Self::ClosedOneIn(count) => opening.is_multiple_of(count),
        }
    }
}

/// Small chunks, and no background work on which a test would depend: the store is only open for a
/// moment.
fn options(vfs: Arc<dyn Vfs>, chunk_bytes: u64) -> Options {
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(chunk_bytes));
    Options::new().memory_budget(2 << 20).default_keyspace(keyspace).vfs(vfs)
}

/// Opens the store again and again, writes with `write` each time, and checks it after each end.
fn open_again_and_again(
    disk: &mut MemVfs,
    chunk_bytes: u64,
    (openings, end): (u32, End),
    mut write: impl FnMut(&Db, u32),
    mut look_at: impl FnMut(u32, Found, [u64; 3]),
) {
    let work = Work::default();
    for opening in 0..openings {
        let db = options(Arc::new(work.counted(disk)), chunk_bytes).open("store").unwrap();
        write(&db, opening);
        if end.is_closed(opening) {
            db.close().unwrap();
            if end == End::Crashed {
                *disk = disk.crash(&CrashPlan::LOSE_UNSYNCED);
            }
        } else {
            *disk = disk.kill();
            // From here on it only changes a disk that is not used any more.
            drop(db);
        }
        look_at(opening, look(disk), work.take());
    }
}

/// Work and length of one opening in the first hundred and in the last: neither grows.
fn assert_one_put_each(end: End, openings: u32) {
    let mut disk = if end == End::Crashed { MemVfs::new() } else { MemVfs::without_history() };
    let (mut early, mut late) = ([0; 3], [0; 3]);
    let mut most = Found::default();
    let put = |db: &Db, opening: u32| db.put(format!("key {opening:05}"), "value").unwrap();
    open_again_and_again(&mut disk, SMALL, (openings, end), put, |opening, found, work| {
        assert!(found.files <= 20, "{end:?}, opening {opening}: {found:?}");
        // Two hundred bytes per opening until it is rewritten, and the old file while it is being
        // replaced.
        let state_bytes = 100 * (found.data_files as u64 + 1);
        assert!(found.manifest_bytes <= state_bytes + (64 << 10), "{end:?}, opening {opening}: {found:?}");
        most.manifest_bytes = most.manifest_bytes.max(found.manifest_bytes);
        most.files = most.files.max(found.files);
        let sum = if opening < openings / 4 { &mut early } else { &mut late };
        sum.iter_mut().zip(work).for_each(|(sum, work)| *sum += work);
    });
    let late = late.map(|sum| sum / 3);
    // Reads and writes follow the size of the manifest, which is rewritten every hundred openings;
    // syncs do not depend on anything that grows.
    assert!(late[0] <= 2 * early[0] + (1 << 20), "{end:?}: read {early:?}, then {late:?}");
    assert!(late[1] <= 2 * early[1] + (1 << 20), "{end:?}: wrote {early:?}, then {late:?}");
    assert!(10 * late[2] <= 13 * early[2], "{end:?}: synced {early:?}, then {late:?}");
    let db = options(Arc::new(disk), SMALL).open("store").unwrap();
    let pairs = db.range(..).map(|pair| pair.unwrap().0.to_vec());
    assert!(pairs.eq((0..openings).map(|opening| format!("key {opening:05}").into_bytes())));
    assert!(db.verify().unwrap().damage.is_empty());
}

#[test]
fn a_thousand_openings_that_are_closed_leave_few_files() {
    assert_one_put_each(End::Closed, 1_100);
}

#[test]
fn a_thousand_openings_that_are_killed_leave_few_files() {
    assert_one_put_each(End::Killed, 1_100);
}

#[test]
fn openings_after_each_of_which_the_power_fails_leave_few_files() {
    assert_one_put_each(End::Crashed, 300);
}

#[test]
fn a_thousand_openings_most_of_which_are_killed_leave_few_files() {
    assert_one_put_each(End::ClosedOneIn(5), 1_100);
}

/// Several keyspaces of several chunks, overwritten, deleted from and read, compared with a model.
#[test]
fn openings_that_write_to_many_chunks_leave_few_files_in_each() {
    const KEYS: u64 = 3_000;
    const KEYSPACES: [&str; 3] = ["default", "second", "third"];
    let mut random = 1u64;
    let mut below = move |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut disk = MemVfs::without_history();
    let mut model: [BTreeMap<Vec<u8>, Vec<u8>>; 3] = Default::default();
    let small = || KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(SMALL));
    {
        let db = options(Arc::new(disk.clone()), SMALL).open("store").unwrap();
        for (name, pairs) in KEYSPACES.iter().zip(&mut model) {
            let keyspace = db.keyspace_with(name, small()).unwrap();
            for key in 0..KEYS {
                let (key, value) = (format!("{key:06}").into_bytes(), vec![7; 100]);
                keyspace.put(&key, &value).unwrap();
                pairs.insert(key, value);
            }
            keyspace.compact_range(..).unwrap();
        }
        db.close().unwrap();
    }
    let mut chunks = 0;
    let live_bytes = KEYS * 110 * 3;
    let model = std::cell::RefCell::new(model);
    let write = |db: &Db, opening: u32| {
        let mut model = model.borrow_mut();
        for (name, pairs) in KEYSPACES.iter().zip(model.iter_mut()) {
            let keyspace = db.keyspace_with(name, small()).unwrap();
            for _ in 0..10 {
                let key = format!("{:06}", below(KEYS)).into_bytes();
                if below(4) == 0 {
                    keyspace.delete(&key).unwrap();
                    pairs.remove(&key);
                } else {
                    let value = vec![opening as u8; below(200) as usize];
                    keyspace.put(&key, &value).unwrap();
                    pairs.insert(key, value);
                }
            }
            if opening.is_multiple_of(16) {
                let from = below(KEYS);
                let [from, to] = [from, from + 5].map(|key| format!("{key:06}").into_bytes());
                keyspace.delete_range(&from[..]..&to[..]).unwrap();
                pairs.retain(|key, _| *key < from || *key >= to);
            }
        }
    };
    open_again_and_again(&mut disk, SMALL, (150, End::ClosedOneIn(3)), write, |opening, found, work| {
        if opening == 0 {
            chunks = found.data_files;
        }
        let files_max = chunks * (2 * CHUNK_FILES_MAX) + OTHER_FILES_MAX;
        assert!(chunks > 6 && found.files <= files_max, "opening {opening}: {chunks} chunks, {found:?}");
        let state_bytes = 200 * (found.data_files + chunks) as u64;
        assert!(found.manifest_bytes <= state_bytes + (64 << 10), "opening {opening}: {found:?}");
        assert!(found.data_bytes <= 4 * live_bytes, "opening {opening}: {found:?}");
        assert!(work[0] + work[1] <= 8 << 20, "opening {opening} read and wrote {work:?} bytes");
    });
    let db = options(Arc::new(disk), SMALL).open("store").unwrap();
    for (name, pairs) in KEYSPACES.iter().zip(model.into_inner()) {
        let keyspace = db.keyspace_with(name, small()).unwrap();
        let found =
            keyspace.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
        assert!(found.eq(pairs.clone()), "{name} differs");
        for key in (0..KEYS).map(|key| format!("{key:06}").into_bytes()) {
            assert_eq!(keyspace.get(&key).unwrap().as_deref(), pairs.get(&key).map(Vec::as_slice));
        }
    }
    assert!(db.verify().unwrap().damage.is_empty());
}

/// Each load writes all pairs again, and is killed before any rebalance.
#[test]
fn killed_loads_of_the_same_pairs_take_a_bounded_multiple_of_them() {
    let mut disk = MemVfs::without_history();
    const PAIRS: u64 = 1_000;
    let load = |db: &Db, _| {
        (0..PAIRS).for_each(|key| db.put(format!("{key:06}"), [7; 1_000]).unwrap());
    };
    open_again_and_again(&mut disk, 4 << 20, (60, End::Killed), load, |opening, found, _| {
        // If a background thread merged files before the kill, the merged files are held as well.
        assert!(found.files <= 2 * CHUNK_FILES_MAX + OTHER_FILES_MAX, "opening {opening}: {found:?}");
        assert!(found.data_bytes <= 24 << 20, "opening {opening}: {found:?}");
    });
}
