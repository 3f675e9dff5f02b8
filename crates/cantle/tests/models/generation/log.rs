//! Doubles of a shared log (`log/shared.rs`, `log/append.rs`), of a view (`lsm/view.rs`) and of the
//! search of runs (`run/get.rs`). A table is a vector of entries.

use crate::lsm::generation::Generation;
use crate::lsm::rotation::Rotating;
use crate::mvcc::CommitCell;
use crate::sync::{Arc, ArcSwap, Mutex};
use std::cmp::Reverse;

pub const KEYS: usize = 2;

#[derive(Clone)]
pub struct Entry {
    pub key: usize,
    pub version: u64,
    /// The place in its log.
    pub offset: u64,
    /// Number of puts of this key up to this one.
    pub value: u64,
    pub cell: Option<CommitCell>,
}

/// The index in memory, and that on disk.
struct Parts {
    memory: Arc<Mutex<Vec<Entry>>>,
    indexed: Vec<Entry>,
}

pub struct Log {
    /// The place among the logs that the manifest knows.
    place: u64,
    end: Mutex<u64>,
    parts: ArcSwap<Parts>,
}

impl Log {
    pub fn new(place: u64) -> Self {
        let parts = Parts { memory: Arc::default(), indexed: Vec::new() };
        Self { place, end: Mutex::new(0), parts: ArcSwap::from_pointee(parts) }
    }

    pub fn place(&self) -> u64 {
        self.place
    }

    pub fn len(&self) -> u64 {
        *self.end.lock()
    }

    /// Appends this number of entries, which nobody sees yet; returns the place of the first one.
    pub fn append(&self, entries: u64) -> u64 {
        let mut end = self.end.lock();
        *end += entries;
        *end - entries
    }

    pub fn publish(&self, entry: Entry) {
        let memory = self.parts.load_full().memory.clone();
        memory.lock().push(entry);
        let is_kept = Arc::ptr_eq(&memory, &self.parts.load().memory);
        assert!(is_kept, "broken: an entry is missing from an index");
    }

    /// All entries that are published, as a flush reads them.
    pub fn published(&self) -> Vec<Entry> {
        let parts = self.parts.load_full();
        let memory = parts.memory.lock().clone();
        memory.into_iter().chain(parts.indexed.iter().cloned()).collect()
    }

    pub fn index(&self) {
        let parts = self.parts.load_full();
        let memory = parts.memory.lock().clone();
        if memory.is_empty() {
            return;
        }
        let indexed = memory.into_iter().chain(parts.indexed.iter().cloned()).collect();
        self.parts.store(Arc::new(Parts { memory: Arc::default(), indexed }));
    }
}

#[derive(Clone)]
pub enum Run {
    Log(Arc<Generation<Log>>),
    Table(Arc<Vec<Entry>>),
}

impl Run {
    pub fn is_of(&self, log: &Log) -> bool {
        matches!(self, Self::Log(generation) if std::ptr::eq(&generation.log, log))
    }

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Log(a), Self::Log(b)) => Arc::ptr_eq(a, b),
            (Self::Table(a), Self::Table(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The visible entries of a key, newest first.
    pub fn entries(&self, key: usize) -> Vec<Entry> {
        let all = match self {
            Self::Log(generation) => generation.log.published(),
            Self::Table(entries) => Vec::clone(entries),
        };
        let is_visible =
            |entry: &Entry| entry.key == key && entry.cell.as_ref().is_none_or(|cell| cell.is_committed());
        let mut entries: Vec<_> = all.into_iter().filter(is_visible).collect();
        entries.sort_by_key(|entry| Reverse((entry.version, entry.offset)));
        entries
    }
}

#[derive(Clone, Default)]
pub struct View {
    pub active: Option<Arc<Generation<Log>>>,
    /// Logs and flushed tables, newest first.
    pub level0: Vec<Run>,
    /// Newest first.
    pub tables: Vec<Run>,
    /// The next log has at least this place in the manifest.
    next: u64,
}

impl Rotating<Log> for View {
    fn active(&self) -> Option<&Arc<Generation<Log>>> {
        self.active.as_ref()
    }

    fn with_active(&self, next: Option<Arc<Generation<Log>>>) -> Self {
        let mut after = self.clone();
        if let Some(next) = &next {
            assert!(next.log.place >= self.next, "broken: the manifest has two logs in another order");
            after.next = next.log.place + 1;
            after.level0.insert(0, Run::Log(next.clone()));
        }
        after.active = next;
        after
    }
}

/// The value of a key at a version, in runs from the newest to the oldest; 0 if there is none.
pub fn get<'a>(runs: impl Iterator<Item = &'a Run>, key: usize, at: u64) -> u64 {
    let mut newest = runs.filter_map(|run| run.entries(key).into_iter().find(|entry| entry.version <= at));
    newest.next().map_or(0, |entry| entry.value)
}

/// The versions of a key never ascend towards older runs.
pub fn check_recency(view: &View) {
    for key in 0..KEYS {
        let mut newer = (u64::MAX, u64::MAX);
        for entry in view.level0.iter().chain(&view.tables).flat_map(|run| run.entries(key)) {
            let own = (entry.version, entry.value);
            assert!(own < newer, "broken: an older run has a newer entry");
            newer = own;
        }
    }
}
