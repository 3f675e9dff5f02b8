//! Several stores in one process that may open few files. Together they leave half of the limit to
//! the program. When the program opens its half, and then every file that the stores have closed at
//! the moment, the stores report errors and lose nothing. Afterwards they work again.

use super::child::{Part, Role, Running, say};
use crate::layouts;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, LayoutKind, Options};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const STORES: u64 = 3;
/// Number of keys: their tables in one store are as many as three stores may have open together.
const KEYS: u64 = 6_000;
/// Maximum time until stores work again once files can be opened.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn enter(visit: &Visit) {
    let dir = tempfile::tempdir().unwrap();
    for seed in visit.rounds() {
        let limit = 64 + Rng::new(seed).below(33);
        let path = dir.path().join(seed.to_string());
        let (layout, durability) = (visit.layout, Durability::Process);
        let part = Part { role: Role::Stores, path, layout, durability, seed };
        let played = part.command(&visit.program);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
        command.arg(played.get_program()).args(played.get_args());
        let ended = Running::start(&mut command).wait(Duration::from_secs(240));
        let said = ended.lines.last().cloned().unwrap_or_default();
        let failed: Option<u64> = said.strip_prefix("refused ").and_then(|count| count.parse().ok());
        let Some(refused) = failed else {
            panic!("{limit} open files, seed {seed}: {said}; {}", ended.errors.trim());
        };
        visit.count("processes with few files", 1);
        visit.count("stores checked", 2 * STORES);
        visit.count("operations refused", refused);
        std::fs::remove_dir_all(&part.path).unwrap();
    }
}

/// The limit of open files of this process.
fn limit() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// The open files of this process, by their numbers; `None` if no file can be opened to list them.
fn listed() -> Option<BTreeMap<PathBuf, PathBuf>> {
    let descriptors = std::fs::read_dir("/proc/self/fd").ok()?;
    let links = descriptors.filter_map(|descriptor| {
        let descriptor = descriptor.ok()?.path();
        Some((descriptor.clone(), std::fs::read_link(descriptor).ok()?))
    });
    Some(links.collect())
}

/// The open files below a directory; `None` if they are not known. A file that is closed while others are listed, and
/// opened again by another number, is in one list twice: only two equal lists count.
fn open_files(dir: &Path) -> Option<Vec<PathBuf>> {
    let before = listed()?;
    (listed()? == before).then(|| before.into_values().filter(|link| link.starts_with(dir)).collect())
}

/// A store, and the pairs that it must contain.
struct Kept {
    db: Db,
    pairs: BTreeMap<u64, u64>,
    /// Writes that failed: they took effect or not.
    doubtful: BTreeMap<u64, u64>,
}

impl Kept {
    fn open(dir: &Path, layout: LayoutKind, number: u64) -> Db {
        let options = Options::new().memory_budget(16 << 20).default_keyspace(layouts::small_regions(layout));
        options.checkpoint_interval(Duration::from_millis(50)).open(dir.join(number.to_string())).unwrap()
    }

    fn put(&mut self, key: u64, value: u64) -> bool {
        let done = self.db.put(key.to_be_bytes(), value.to_be_bytes().repeat(30));
        match &done {
            Ok(()) => {
                self.doubtful.remove(&key);
                self.pairs.insert(key, value);
            }
            Err(_) => {
                self.doubtful.insert(key, value);
            }
        }
        done.is_ok()
    }

    fn check(&self) {
        let mut found = BTreeMap::new();
        for pair in self.db.range(..) {
            let (key, value) = pair.unwrap();
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().unwrap());
            found.insert(number(&key), number(&value));
        }
        let keys = self.pairs.keys().chain(found.keys()).chain(self.doubtful.keys());
        for key in keys {
            let (is, was, maybe) = (found.get(key), self.pairs.get(key), self.doubtful.get(key));
            assert!(is == was || is.is_some() && is == maybe, "{key}: {is:?}, not {was:?} or {maybe:?}");
        }
    }
}

/// Opens stores until the end, in a process that does nothing else.
pub fn play(part: &Part) {
    let dir = &part.path;
    std::fs::create_dir_all(dir).unwrap();
    let dir = &dir.canonicalize().unwrap();
    let mut rng = Rng::new(part.seed);
    let limit = limit();
    let open = |number| Kept::open(dir, part.layout, number);
    let new = |number| Kept { db: open(number), pairs: BTreeMap::new(), doubtful: BTreeMap::new() };
    let mut stores: Vec<Kept> = (0..STORES).map(new).collect();
    let (done, most) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let refused = std::thread::scope(|scope| {
        // Ends the other thread if this one panics.
        let end = EndOnDrop(&done);
        scope.spawn(|| {
            while !done.load(SeqCst) {
                let open = open_files(dir).unwrap_or_default();
                let mut most = most.lock().unwrap();
                if open.len() > most.len() {
                    *most = open;
                }
                drop(most);
                std::thread::yield_now();
            }
        });
        for round in 0..4 {
            write(&mut stores, &mut rng, round);
        }
        stores.iter().for_each(Kept::check);
        let own: Vec<File> = (0..limit / 3).map(|_| File::open("/dev/null").unwrap()).collect();
        write(&mut stores, &mut rng, 4);
        stores.iter().for_each(Kept::check);
        drop(own);
        let refused = without_files(&mut stores, &mut rng);
        drop(end);
        refused
    });
    let most = most.into_inner().unwrap();
    assert!(most.len() <= limit / 2, "{} of {limit} open files are the stores': {most:?}", most.len());
    stores.iter().for_each(Kept::check);
    for (number, store) in stores.iter_mut().enumerate() {
        store.db.close().unwrap_or_else(|error| panic!("cannot close store {number}: {error}"));
        store.db = open(number as u64);
    }
    for store in &stores {
        store.check();
        let report = store.db.verify().unwrap();
        assert!(report.is_ok(), "{report:?}");
    }
    say(format!("refused {refused}"));
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Writes to all stores in turn and compacts some of the data.
fn write(stores: &mut [Kept], rng: &mut Rng, round: u64) {
    for _ in 0..KEYS {
        for store in stores.iter_mut() {
            assert!(store.put(rng.below(KEYS), rng.next()), "round {round}");
        }
    }
    for store in stores.iter() {
        store.db.compact_range(..).unwrap();
    }
}

/// The program opens all files that it can. Returns the number of failed writes.
fn without_files(stores: &mut [Kept], rng: &mut Rng) -> u64 {
    let mut refused = 0;
    let mut own = Vec::new();
    for _ in 0..KEYS {
        // Includes files that the stores have closed since.
        while let Ok(file) = File::open("/dev/null") {
            own.push(file);
        }
        for store in stores.iter_mut() {
            refused += u64::from(!store.put(rng.below(KEYS), rng.next()));
            refused += u64::from(store.db.get(rng.below(KEYS).to_be_bytes()).is_err());
        }
    }
    for store in stores.iter() {
        refused += store.db.range(..).filter(Result::is_err).take(1).count() as u64;
        refused += u64::from(store.db.compact_range(..).is_err());
    }
    drop(own);
    let until = Instant::now() + PATIENCE;
    for store in stores.iter_mut() {
        loop {
            let works =
                store.put(KEYS, rng.next()) && store.db.sync().is_ok() && store.db.compact_range(..).is_ok();
            if works {
                break;
            }
            let stats = store.db.stats();
            assert!(Instant::now() < until, "does not work again: {:?}", stats.read_only);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    refused
}
