//! Directories with stores, the operations on them, and the pairs that each store must hold.

use crate::layouts;
use crate::rng::Rng;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, Operation, Verdict};
use cantle::{
    Cursor, Db, Error, Keyspace, KeyspaceOptions, LayoutKind, Options, Range, Snapshot, Transaction, Value,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names that a directory may have.
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const KEYS: u64 = 400;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The place of a world.
pub enum Place {
    Memory(MemVfs),
    /// Below a directory, for a process that may change its working directory.
    Disk(PathBuf),
}

/// A directory, independent of its path.
struct Directory {
    name: usize,
    /// The pairs of its store, if it has one.
    pairs: Option<Pairs>,
    db: Option<Db>,
}

/// Handles of a closed store, with a value that was read and its expected bytes.
struct Left {
    db: Db,
    keyspace: Keyspace,
    snapshot: Snapshot,
    range: Range,
    cursor: Cursor,
    transaction: Transaction,
    value: Option<(Value, Vec<u8>)>,
}

pub struct World {
    place: Place,
    layout: LayoutKind,
    rng: Rng,
    directories: Vec<Directory>,
    left: Vec<Left>,
    /// The working directory, below the place: "" or a name.
    working: String,
    history: Vec<String>,
    checked: u64,
}

impl World {
    pub fn new(place: Place, layout: LayoutKind, seed: u64) -> Self {
        let rng = Rng::new(seed);
        if let Place::Disk(root) = &place {
            std::fs::create_dir_all(root.join("w")).unwrap();
            std::env::set_current_dir(root).unwrap();
        }
        Self {
            place,
            layout,
            rng,
            directories: Vec::new(),
            left: Vec::new(),
            working: String::new(),
            history: vec![format!("seed {seed}")],
            checked: 0,
        }
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }

    #[track_caller]
    fn fail(&self, what: impl std::fmt::Display) -> ! {
        panic!("{what}, after {}", self.history.join("; "))
    }

    fn options(&self) -> Options {
        let options = Options::new().memory_budget(4 << 20).checkpoint_interval(Duration::from_secs(3600));
        let options = options.background_threads(1).default_keyspace(layouts::small_regions(self.layout));
        match &self.place {
            Place::Memory(memory) => options.vfs(Arc::new(memory.clone())),
            Place::Disk(_) => options,
        }
    }

    /// A path below the place, in one of the spellings that are possible in the working directory.
    fn spell(&mut self, name: &str) -> PathBuf {
        let plain = self.rng.below(2) == 0;
        match &self.place {
            Place::Memory(_) if plain => PathBuf::from(name),
            Place::Memory(_) => Path::new("./").join(name),
            Place::Disk(root) if plain => root.join(name),
            Place::Disk(_) if self.working == name => PathBuf::from(["", "."][self.rng.below(2) as usize]),
            Place::Disk(_) if self.working.is_empty() => PathBuf::from(name),
            Place::Disk(_) => Path::new("..").join(name),
        }
    }

    fn find(&self, name: usize) -> Option<usize> {
        self.directories.iter().position(|directory| directory.name == name)
    }

    fn any_open(&mut self) -> Option<usize> {
        let open: Vec<_> =
            (0..self.directories.len()).filter(|&at| self.directories[at].db.is_some()).collect();
        (!open.is_empty()).then(|| open[self.rng.below(open.len() as u64) as usize])
    }

    /// Runs one operation.
    pub fn step(&mut self) {
        let name = self.rng.below(NAMES.len() as u64) as usize;
        match self.rng.below(20) {
            0..3 => self.open(name),
            3 => self.rename(name),
            4 => self.destroy(name),
            5 => self.race(name),
            6 => self.close(),
            7 => self.backup(name),
            8 => self.look_at_handles(),
            9 => self.change_directory(),
            10 => {
                if let Some(at) = self.any_open() {
                    self.note(format!("compact {at}"));
                    let db = self.directories[at].db.clone().unwrap();
                    self.must(db.compact_range(..));
                }
            }
            11 => {
                if let Some(at) = self.any_open() {
                    self.note(format!("sync {at}"));
                    let db = self.directories[at].db.clone().unwrap();
                    self.must(db.sync());
                }
            }
            _ => self.write(),
        }
    }

    #[track_caller]
    fn must<T>(&self, done: cantle::Result<T>) -> T {
        done.unwrap_or_else(|error| self.fail(error))
    }

    fn open(&mut self, name: usize) {
        let (create, exclusive) = (self.rng.below(4) > 0, self.rng.below(4) == 0);
        let path = self.spell(NAMES[name]);
        self.note(format!("open {}: {create}, {exclusive}", path.display()));
        let options = self.options().create_if_missing(create).error_if_exists(exclusive);
        let opened = options.open(&path);
        let at = self.find(name);
        let has_store = at.is_some_and(|at| self.directories[at].pairs.is_some());
        let is_open = at.is_some_and(|at| self.directories[at].db.is_some());
        match opened {
            Err(Error::AlreadyExists { .. }) if has_store && exclusive => {}
            Err(Error::NotFound { .. }) if !has_store && !create => {}
            Err(Error::Locked { .. }) if is_open => {}
            Ok(db) if !is_open && if has_store { !exclusive } else { create } => {
                let at = at.unwrap_or_else(|| {
                    self.directories.push(Directory { name, pairs: None, db: None });
                    self.directories.len() - 1
                });
                self.directories[at].db = Some(db.clone());
                let pairs = self.directories[at].pairs.get_or_insert_default().clone();
                self.compare(&db, &pairs);
            }
            opened => self.fail(format!("{opened:?}")),
        }
    }

    fn write(&mut self) {
        let Some(at) = self.any_open() else { return };
        self.note(format!("write {at}"));
        let db = self.directories[at].db.clone().unwrap();
        let mut pairs = self.directories[at].pairs.take().unwrap_or_default();
        if self.rng.below(12) == 0 {
            let from = self.rng.below(KEYS);
            let (from, to) = (key(from), key(from + self.rng.below(100)));
            self.must(db.delete_range(from.clone()..to.clone()));
            pairs.retain(|key, _| *key < from || *key >= to);
        }
        for _ in 0..self.rng.below(80) {
            let key = key(self.rng.below(KEYS));
            if self.rng.below(5) == 0 {
                self.must(db.delete(&key));
                pairs.remove(&key);
            } else {
                let value = vec![self.rng.next() as u8; self.rng.below(1500) as usize];
                self.must(db.put(&key, &value));
                pairs.insert(key, value);
            }
        }
        self.directories[at].pairs = Some(pairs);
    }

    /// Renames a directory, with or without an open store in it.
    fn rename(&mut self, name: usize) {
        let to = self.rng.below(NAMES.len() as u64) as usize;
        let Some(at) = self.find(name).filter(|_| self.find(to).is_none() && to != name) else { return };
        self.note(format!("rename {} to {}", NAMES[name], NAMES[to]));
        match &self.place {
            Place::Memory(memory) => {
                memory.move_directory(Path::new(NAMES[name]), Path::new(NAMES[to])).unwrap()
            }
            Place::Disk(root) => std::fs::rename(root.join(NAMES[name]), root.join(NAMES[to])).unwrap(),
        }
        if self.working == NAMES[name] {
            self.working = NAMES[to].to_owned();
        }
        self.directories[at].name = to;
    }

    fn change_directory(&mut self) {
        let Place::Disk(root) = &self.place else { return };
        let mut names = vec!["".to_owned(), "w".to_owned()];
        names.extend(self.directories.iter().map(|directory| NAMES[directory.name].to_owned()));
        self.working = names[self.rng.below(names.len() as u64) as usize].clone();
        std::env::set_current_dir(root.join(&self.working)).unwrap();
        self.note(format!("cd {:?}", self.working));
    }

    fn destroy(&mut self, name: usize) {
        let path = self.spell(NAMES[name]);
        self.note(format!("destroy {}", path.display()));
        let destroyed = Db::destroy(&path, self.options());
        let Some(at) = self.find(name) else { return self.must(destroyed) };
        match destroyed {
            Err(Error::Locked { .. }) if self.directories[at].db.is_some() => {}
            Ok(()) if self.directories[at].db.is_none() => self.directories[at].pairs = None,
            destroyed => self.fail(format!("{destroyed:?}")),
        }
    }

    /// Another process destroys or creates the store after its lock file was opened, and may keep
    /// it open.
    fn race(&mut self, name: usize) {
        let Place::Memory(memory) = &self.place else { return };
        let at = self.find(name);
        if at.is_some_and(|at| self.directories[at].db.is_some()) {
            return;
        }
        let has_store = at.is_some_and(|at| self.directories[at].pairs.is_some());
        let (fault, done) = (FaultVfs::over_memory(memory.clone()), AtomicBool::new(false));
        let kept: Arc<Mutex<Option<Db>>> = Arc::default();
        let (keeps, exclusive) = (self.rng.below(2) == 0, self.rng.below(2) == 0);
        let (keeper, options) = (kept.clone(), self.options());
        fault.set_rule(move |call| {
            if call.operation == Operation::Lock && !done.swap(true, SeqCst) {
                Db::destroy(NAMES[name], options.clone()).unwrap();
                if keeps || !has_store {
                    let db = options.clone().open(NAMES[name]).unwrap();
                    *keeper.lock().unwrap() = keeps.then_some(db);
                }
            }
            Verdict::Pass
        });
        self.history.push(format!("race for {}: {has_store}, {keeps}, {exclusive}", NAMES[name]));
        // An opening that requires a new store is refused at once if there is one.
        let exclusive = exclusive && !has_store;
        let opened = self.options().vfs(Arc::new(fault)).error_if_exists(exclusive).open(NAMES[name]);
        let kept = kept.lock().unwrap().take();
        let db = match (opened, kept) {
            (Err(Error::Locked { .. }), Some(kept)) => Some(kept),
            (Err(Error::AlreadyExists { .. }), None) if exclusive => None,
            (Ok(db), None) if !exclusive => Some(db),
            (opened, kept) => self.fail(format!("{opened:?}, while another has {kept:?}")),
        };
        if let Some(db) = &db {
            self.must(db.close());
        }
        let at = at.unwrap_or_else(|| {
            self.directories.push(Directory { name, pairs: None, db: None });
            self.directories.len() - 1
        });
        self.directories[at].pairs = Some(Pairs::new());
    }

    /// Closes a store, and may keep handles of every kind.
    fn close(&mut self) {
        let Some(at) = self.any_open() else { return };
        let Some(db) = self.directories[at].db.take() else { return };
        let pairs = self.directories[at].pairs.clone().unwrap_or_default();
        let leaves = self.rng.below(3);
        self.note(format!("close {at}, leaving {leaves}"));
        self.compare(&db, &pairs);
        if leaves == 0 {
            return self.must(db.close());
        }
        let keyspace = self.must(db.keyspace_with("other", KeyspaceOptions::new().layout(self.layout)));
        let (snapshot, mut range, mut cursor) = (db.snapshot(), db.range(..), db.cursor(..));
        range.next();
        self.must(cursor.seek_to_first());
        let value = pairs.iter().next().map(|(key, value)| {
            (self.must(db.get(key)).unwrap_or_else(|| self.fail("a pair is gone")), value.clone())
        });
        let transaction = db.transaction();
        if leaves == 1 {
            self.must(db.close());
        } else {
            // Handles exist: a close that waits for the last of them would never return.
            let done = std::thread::scope(|scope| scope.spawn(|| db.close()).join().unwrap());
            self.must(done);
        }
        self.left.push(Left { db, keyspace, snapshot, range, cursor, transaction, value });
    }

    /// Handles of closed stores report that the store is closed, even if it is open again
    /// elsewhere. Then they are dropped.
    fn look_at_handles(&mut self) {
        self.note("look at the handles that are left".into());
        let keep = self.rng.below(2) == 0;
        for mut left in std::mem::take(&mut self.left) {
            let Left { db, keyspace, snapshot, range, cursor, transaction, value } = &mut left;
            let closed = [
                matches!(db.get("key"), Err(Error::Closed)),
                matches!(db.put("key", "stray"), Err(Error::Closed)),
                matches!(db.sync(), Err(Error::Closed)),
                matches!(db.compact_range(..), Err(Error::Closed)),
                matches!(keyspace.put("key", "stray"), Err(Error::Closed)),
                matches!(keyspace.get("key"), Err(Error::Closed)),
                matches!(snapshot.get("key"), Err(Error::Closed)),
                matches!(range.next(), None | Some(Err(Error::Closed))),
                matches!(cursor.next(), Err(Error::Closed)),
                matches!(transaction.get("key"), Err(Error::Closed)),
            ];
            if let Some(open) = closed.iter().position(|closed| !closed) {
                self.fail(format!("handle {open} works though its store is closed"));
            }
            if value.as_ref().is_some_and(|(value, was)| **value != was[..]) {
                self.fail("a value that was given has changed");
            }
            if keep {
                self.left.push(left);
            }
        }
    }

    /// Backs a store up to a new directory, which is a store from then on.
    fn backup(&mut self, to: usize) {
        let Some(at) = self.any_open().filter(|_| self.find(to).is_none()) else { return };
        let path = self.spell(NAMES[to]);
        self.note(format!("backup {at} to {}", path.display()));
        let db = self.directories[at].db.clone().unwrap();
        self.must(db.backup(&path));
        let pairs = self.directories[at].pairs.clone();
        self.directories.push(Directory { name: to, pairs, db: None });
    }

    fn compare(&mut self, db: &Db, pairs: &Pairs) {
        let mut expected = pairs.iter();
        for pair in db.range(..) {
            let (key, value) = self.must(pair);
            if expected.next().map(|(key, value)| (&key[..], &value[..])) != Some((&*key, &*value)) {
                self.fail(format!("{key:?} is not what was written"));
            }
        }
        if let Some((key, _)) = expected.next() {
            self.fail(format!("{} and what comes after is gone", key.escape_ascii()));
        }
        let report = self.must(db.verify());
        if !report.damage.is_empty() {
            self.fail(format!("{:?}", report.damage));
        }
        self.checked += 1;
    }

    /// Copies as the death of the process and a loss of power leave them hold all pairs, at the
    /// present paths.
    pub fn check_crashes(&mut self) {
        let Place::Memory(memory) = &self.place else { return };
        let memory = memory.clone();
        let killed = memory.kill();
        for db in self.directories.iter().filter_map(|directory| directory.db.clone()) {
            self.must(db.sync());
        }
        for image in [killed, memory.crash(&CrashPlan::LOSE_UNSYNCED)] {
            for at in 0..self.directories.len() {
                let Some(pairs) = self.directories[at].pairs.clone() else { continue };
                let options = self.options().vfs(Arc::new(image.clone())).create_if_missing(false);
                let (path, backup) = (NAMES[self.directories[at].name], format!("backup {at}"));
                // First opened read-only, and backed up; the backup is then opened for writing.
                let reader = self.must(options.clone().read_only(true).open(path));
                self.must(reader.backup(&backup));
                self.compare(&reader, &pairs);
                self.must(reader.close());
                for path in [path, &backup] {
                    let db = self.must(options.clone().open(path));
                    self.compare(&db, &pairs);
                    self.must(db.close());
                }
            }
        }
    }

    /// Closes all stores and opens each again. Returns the number of states compared so far.
    pub fn check(&mut self) -> u64 {
        while self.any_open().is_some() {
            self.close();
        }
        for at in 0..self.directories.len() {
            let Some(pairs) = self.directories[at].pairs.clone() else { continue };
            let path = self.spell(NAMES[self.directories[at].name]);
            let db = self.must(self.options().create_if_missing(false).open(path));
            self.compare(&db, &pairs);
            self.must(db.close());
        }
        self.look_at_handles();
        self.checked
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}
