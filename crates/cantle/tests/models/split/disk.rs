//! The disk of the model of splits, with the history of all puts. Each step is atomic, with a
//! possible switch of threads before it. After each, the states that the death of the process and a
//! loss of power would leave are recovered and checked.

use crate::chunk::chunk::{ChunkEdit, ChunkRecord};
use crate::log::{Entry, StoreFile};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone)]
pub enum Edit {
    Chunks(ChunkEdit),
    Checkpoint(Checkpoint),
}

#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    pub version: u64,
    /// The durable length of each log.
    pub lens: BTreeMap<u64, usize>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<u64, (bool, Vec<Entry>)>,
    next_file: u64,
    /// Files that no chunk refers to. They go with the next checkpoint.
    held: Vec<u64>,
    edits: Vec<Edit>,
    durable_edits: usize,
    /// All puts, in their order.
    history: Vec<Entry>,
    completed: BTreeMap<Bytes, u64>,
    /// The pairs that a loss of power must leave.
    durable: BTreeMap<Bytes, u64>,
}

pub struct Disk {
    state: Mutex<State>,
    steps: AtomicU64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { state: Mutex::default(), steps: AtomicU64::new(0) }
    }
}

impl Disk {
    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.steps.fetch_add(1, Relaxed);
        let mut state = self.look();
        let changed = change(&mut state);
        state.check();
        changed
    }

    pub fn create(&self, is_log: bool, entries: Vec<Entry>) -> Arc<StoreFile> {
        let mut state = self.look();
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, (is_log, entries.clone()));
        // The first entries of a file were written before.
        state.history.extend(entries.iter().cloned());
        StoreFile::new(id, is_log, entries)
    }

    /// The first edit, which a checkpoint has covered.
    pub fn begin(&self, edit: ChunkEdit) {
        let mut state = self.look();
        let lens = state.files.iter().filter(|(_, (is_log, _))| *is_log);
        let lens = lens.map(|(id, (_, entries))| (*id, entries.len())).collect();
        // Tables are older than logs.
        state.history.sort_by_key(|entry| entry.value);
        let written: BTreeMap<_, _> =
            state.history.iter().map(|entry| (entry.key.clone(), entry.value)).collect();
        (state.completed, state.durable) = (written.clone(), written);
        state.edits = vec![Edit::Chunks(edit), Edit::Checkpoint(Checkpoint { version: 1, lens })];
        state.durable_edits = state.edits.len();
        state.check();
    }

    pub fn append(&self, file: &StoreFile, entry: Entry) {
        self.step(|state| {
            state.history.push(entry.clone());
            state.file(file.id).push(entry.clone());
        });
        file.entries.lock().push(entry);
    }

    pub fn append_edit(&self, edit: Edit) {
        self.step(|state| state.edits.push(edit));
    }

    pub fn hold(&self, file: u64) {
        self.look().held.push(file);
    }

    /// The lengths of all logs, which are synced.
    pub fn sync_logs(&self) -> BTreeMap<u64, usize> {
        self.step(|state| {
            let logs = state.files.iter().filter(|(_, (is_log, _))| *is_log);
            logs.map(|(id, (_, entries))| (*id, entries.len())).collect()
        })
    }

    pub fn checkpoint(&self, checkpoint: Checkpoint, durable: BTreeMap<Bytes, u64>) {
        let held = self.step(|state| {
            state.edits.push(Edit::Checkpoint(checkpoint));
            std::mem::take(&mut state.held)
        });
        self.step(|state| {
            state.durable_edits = state.edits.len();
            state.durable = durable;
        });
        for file in held {
            self.step(|state| state.files.remove(&file));
        }
    }

    pub fn complete(&self, key: &Bytes, value: u64) {
        self.look().completed.insert(key.clone(), value);
    }

    pub fn completed(&self) -> BTreeMap<Bytes, u64> {
        self.look().completed.clone()
    }

    /// For each key the newest value up to this version.
    pub fn values_at(&self, version: u64) -> BTreeMap<Bytes, u64> {
        self.look().values_at(version)
    }
}

impl State {
    fn file(&mut self, id: u64) -> &mut Vec<Entry> {
        let Some((_, entries)) = self.files.get_mut(&id) else { panic!("broken: a file went while in use") };
        entries
    }

    fn values_at(&self, version: u64) -> BTreeMap<Bytes, u64> {
        let written = self.history.iter().filter(|entry| entry.version <= version);
        written.map(|entry| (entry.key.clone(), entry.value)).collect()
    }

    fn check(&self) {
        let found = self.recover(self.edits.len(), false);
        for (key, value) in &self.completed {
            assert!(found.get(key) >= Some(value), "broken: a killed process lost a put");
        }
        let found = self.recover(self.durable_edits, true);
        for (key, value) in &self.durable {
            assert!(found.get(key) >= Some(value), "broken: a loss of power lost what a checkpoint covered");
        }
    }

    /// The pairs that an opening finds.
    fn recover(&self, edits: usize, is_power: bool) -> BTreeMap<Bytes, u64> {
        let mut chunks: Vec<ChunkRecord> = Vec::new();
        let mut checkpoint = Checkpoint::default();
        for edit in &self.edits[..edits] {
            match edit {
                Edit::Chunks(ChunkEdit::Replace { removed, added }) => {
                    let before = chunks.len();
                    chunks.retain(|chunk| !removed.contains(&chunk.id));
                    assert_eq!(before, chunks.len() + removed.len(), "broken: an edit removes no chunk");
                    chunks.extend(added.iter().cloned());
                }
                Edit::Chunks(ChunkEdit::Log { chunk, file, .. }) => {
                    let found = chunks.iter_mut().find(|record| record.id == *chunk);
                    let Some(found) = found else { panic!("broken: an edit names an unknown chunk") };
                    found.files.insert(0, (*file, Span { start: None, end: None }));
                }
                Edit::Chunks(ChunkEdit::Drop { .. }) => {}
                Edit::Checkpoint(recorded) => {
                    checkpoint.version = recorded.version;
                    checkpoint.lens.extend(&recorded.lens);
                }
            }
        }
        chunks.sort_by(|a, b| a.start.cmp(&b.start));
        let order = KeyOrder::Bytewise;
        let starts = chunks.iter().map(|chunk| chunk.start.as_ref());
        let opens = crate::chunk::geometry::check_starts(&order, starts);
        assert!(opens.is_ok(), "broken: the store cannot be opened");
        let mut found = BTreeMap::new();
        for (index, chunk) in chunks.iter().enumerate() {
            let end = chunks.get(index + 1).and_then(|next| next.start.clone());
            let span = Span { start: chunk.start.clone(), end };
            for (file, part) in &chunk.files {
                let Some((is_log, entries)) = self.files.get(file) else {
                    panic!("broken: a file of the image is gone")
                };
                let len = match is_power && *is_log {
                    true => checkpoint.lens.get(file).copied().unwrap_or(0),
                    false => entries.len(),
                };
                let counts = |entry: &&Entry| {
                    let is_alive = !is_power || entry.version <= checkpoint.version;
                    is_alive && span.contains(&order, &entry.key) && part.contains(&order, &entry.key)
                };
                for entry in entries[..len].iter().rev().filter(counts) {
                    found.entry(entry.key.clone()).or_insert(entry.value);
                }
            }
        }
        if is_power {
            assert_eq!(found, self.values_at(checkpoint.version), "broken: what is recovered is no prefix");
        }
        found
    }
}
