//! Repair: an undamaged store is restored unchanged, and of a damaged one every pair whose bytes
//! are intact.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_input;
mod damaged;
mod interrupted;
mod left_behind;
mod manifests;
mod missing;
mod stores;
mod undamaged;

use cantle::repair::{RepairReport, UncertainKeys};
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{ChunkOptions, Db, KeyspaceOptions, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// By the names of keyspaces.
type Content = BTreeMap<String, Pairs>;

fn options(vfs: &MemVfs) -> Options {
    Options::new()
        .vfs(Arc::new(vfs.clone()))
        .memory_budget(4 << 20)
        .background_threads(1)
        .default_keyspace(KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10)))
}

fn content(db: &Db) -> Content {
    let pairs = |name: &String| {
        let keyspace = db.keyspace(name).unwrap();
        let pairs = keyspace.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())));
        pairs.collect::<Result<Pairs, _>>().unwrap()
    };
    db.keyspaces().unwrap().iter().map(|name| (name.clone(), pairs(name))).collect()
}

/// The contents that a read-only opening finds.
fn opened(vfs: &MemVfs) -> Content {
    content(&options(vfs).read_only(true).open("store").unwrap())
}

/// Repairs into "new", and reads that: it is sound, and the damaged store is unchanged.
fn repaired(vfs: &MemVfs) -> (Content, RepairReport) {
    let before = bytes_of(vfs);
    let report = Db::repair("store", "new", options(vfs)).unwrap();
    assert!(bytes_of(vfs) == before, "the damaged store was changed");
    let db = options(vfs).read_only(true).open("new").unwrap();
    let verified = db.verify().unwrap();
    assert!(verified.is_ok() && verified.unknown_files.is_empty(), "{verified:?}");
    let content = content(&db);
    let counts: BTreeMap<_, _> = report.keyspaces.iter().map(|k| (k.name.clone(), k.pairs)).collect();
    assert_eq!(counts, content.iter().map(|(name, pairs)| (name.clone(), pairs.len() as u64)).collect());
    drop(db);
    for name in vfs.list(Path::new("new")).unwrap() {
        assert!(!name.ends_with(".tmp"), "{name} was left behind");
        vfs.remove(&Path::new("new").join(name)).unwrap();
    }
    (content, report)
}

/// The store's files, except for the lock.
fn files(vfs: &MemVfs) -> Vec<PathBuf> {
    let mut names = vfs.list(Path::new("store")).unwrap();
    names.retain(|name| name != "LOCK");
    names.sort();
    names.into_iter().map(|name| Path::new("store").join(name)).collect()
}

fn read_file(vfs: &MemVfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn write_file(vfs: &MemVfs, path: &Path, bytes: &[u8]) {
    let file = match vfs.open(path, OpenMode::ReadWrite) {
        Ok(file) => file,
        Err(_) => vfs.open(path, OpenMode::CreateNew).unwrap(),
    };
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

fn bytes_of(vfs: &MemVfs) -> BTreeMap<PathBuf, Vec<u8>> {
    files(vfs).into_iter().map(|path| (path.clone(), read_file(vfs, &path))).collect()
}

/// All values that were ever written to a key.
#[derive(Default)]
struct History(BTreeMap<String, BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>>);

impl History {
    fn put(&mut self, keyspace: &str, key: &[u8], value: &[u8]) {
        let keys = self.0.entry(keyspace.into()).or_default();
        keys.entry(key.to_vec()).or_default().insert(value.to_vec());
    }
}

fn covers(range: &UncertainKeys, keyspace: &str, key: &[u8]) -> bool {
    let after = match &range.keys.0 {
        Bound::Unbounded => true,
        Bound::Included(start) => key >= &start[..],
        Bound::Excluded(start) => key > &start[..],
    };
    let before = match &range.keys.1 {
        Bound::Unbounded => true,
        Bound::Included(end) => key <= &end[..],
        Bound::Excluded(end) => key < &end[..],
    };
    range.keyspace == keyspace && after && before
}

/// Checks that no value is invented, and that each changed pair is reported. Returns the number of
/// changed pairs.
fn check(expected: &Content, found: &Content, report: &RepairReport, history: &History, what: &str) -> usize {
    let mut astray = 0;
    for (name, pairs) in expected {
        let found = found.get(name).unwrap_or_else(|| panic!("{what}: keyspace {name} is missing"));
        let keys: BTreeSet<_> = pairs.keys().chain(found.keys()).collect();
        for key in keys {
            let text = String::from_utf8_lossy(key);
            if let Some(value) = found.get(key) {
                let ever = history.0[name].get(key).is_some_and(|values| values.contains(value));
                assert!(ever, "{what}: {text} has a value that it never had");
            }
            if pairs.get(key) == found.get(key) {
                continue;
            }
            astray += 1;
            let told = report.uncertain.iter().any(|range| covers(range, name, key));
            let back =
                !pairs.contains_key(key) && report.notes.iter().any(|note| note.contains("may be back"));
            assert!(told || back, "{what}: {text} is astray, and the report does not say so: {report:?}");
        }
    }
    astray
}
