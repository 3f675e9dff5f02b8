//! The disk of the model: files, the manifest, the journal, and the parts of them that survive the
//! death of the process or of the machine. It also has the history of all writes, with which the
//! recovered state is compared.
//!
//! Each step is atomic, with a possible switch of threads before it. A recovery is checked in one
//! step, too: unsynced data are all lost, and removed names are gone.

use crate::manifest::{CheckpointEdit, SegmentEdit};
use crate::mvcc::recovery_table::{DeadBatches, EpochBatches, RecoveryTable};
use crate::store::{BATCH, Fault, KEYS};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};

/// All entries are of one epoch.
const EPOCH: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Index in `KEYS`.
    pub key: usize,
    pub version: u64,
    pub value: u64,
    /// The spanning batch; 0 if there is none.
    pub batch: u64,
}

/// The manifest's record of a chunk.
#[derive(Debug, Clone)]
pub struct ChunkRecord {
    pub id: u64,
    pub span: Span,
    /// Newest first.
    pub files: Vec<FileRecord>,
}

#[derive(Debug, Clone)]
pub struct FileRecord {
    pub file: u64,
    pub is_log: bool,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub enum Edit {
    Replace { removed: Vec<u64>, added: Vec<ChunkRecord> },
    Log { chunk: u64, file: u64 },
    Checkpoint(CheckpointEdit),
}

#[derive(Debug, Clone, Default)]
struct Content {
    entries: Vec<Entry>,
    /// Number of entries that are durable. `is_named` is true if the name is durable.
    synced: usize,
    is_named: bool,
}

#[derive(Clone, Default)]
struct State {
    files: BTreeMap<u64, Content>,
    edits: Vec<Edit>,
    /// Number of durable edits: up to a checkpoint.
    durable_edits: usize,
    /// Batches that are committed in the journal, and the number of them that are durable.
    committed: Vec<u64>,
    durable_committed: usize,
    /// All entries ever written, and for each key the last value whose put has returned.
    history: Vec<Entry>,
    completed: [u64; KEYS.len()],
}

/// The state that a recovery finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crash {
    /// The process died: everything is there.
    Process,
    /// The power failed. The last record of the manifest may be in its sync; this number of its
    /// edits is there.
    Power { edits: usize },
}

pub struct Disk {
    state: std::sync::Mutex<State>,
    /// Touched by each step, for a switch of threads.
    steps: AtomicU64,
    fault: Fault,
}

impl Disk {
    pub fn new(fault: Fault, first: Edit) -> Arc<Self> {
        let edits = vec![first, Edit::Checkpoint(CheckpointEdit::default())];
        let state = State { durable_edits: edits.len(), edits, ..State::default() };
        Arc::new(Self { state: std::sync::Mutex::new(state), steps: AtomicU64::new(0), fault })
    }

    /// Access without a step.
    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> MutexGuard<'_, State> {
        self.steps.fetch_add(1, Relaxed);
        self.look()
    }

    /// Appends one record, which is there completely or not at all.
    pub fn append(&self, file: u64, record: &[Entry]) {
        {
            let mut state = self.step();
            state.file(file).entries.extend(record);
            state.history.extend(record);
        }
        self.check([0; KEYS.len()]);
    }

    /// Appends an edit to the manifest.
    fn append_edit(&self, edit: Edit) {
        self.step().edits.push(edit);
        self.check([0; KEYS.len()]);
    }

    /// Writes a complete table, durable except for its name.
    pub fn write_table(&self, file: u64, entries: Vec<Entry>) {
        let mut state = self.step();
        let content = state.file(file);
        content.synced = entries.len();
        content.entries = entries;
    }

    pub fn read(&self, file: u64) -> Vec<Entry> {
        self.step().file(file).entries.clone()
    }

    pub fn sync(&self, file: u64) {
        let mut state = self.step();
        let content = state.file(file);
        content.synced = content.entries.len();
    }

    pub fn commit_batch(&self, batch: u64) {
        self.step().committed.push(batch);
    }

    pub fn sync_journal(&self) {
        let mut state = self.step();
        state.durable_committed = state.committed.len();
    }

    /// A put of the key has returned.
    pub fn complete(&self, key: usize, value: u64) {
        self.look().completed[key] = value;
    }

    pub fn completed(&self) -> [u64; KEYS.len()] {
        self.look().completed
    }

    /// For each key the newest value up to this version.
    pub fn values_at(&self, version: u64) -> [u64; KEYS.len()] {
        self.look().values_at(version)
    }

    pub fn files(&self) -> BTreeSet<u64> {
        self.look().files.keys().copied().collect()
    }

    /// Checks the state that would be found if the process died now, or the power failed. `durable`
    /// are the values that must survive a loss of power.
    pub fn check(&self, durable: [u64; KEYS.len()]) {
        // The fault was found. Files that are dropped now would find it again, which would end the process.
        if std::thread::panicking() {
            return;
        }
        let state = self.look().clone();
        let found = state.recover(Crash::Process);
        for (key, &found) in found.iter().enumerate() {
            assert!(found >= state.completed[key], "broken: a killed process lost a put");
        }
        let is_checkpoint = |&index: &usize| matches!(state.edits[index], Edit::Checkpoint(_));
        let newest = (0..state.edits.len()).rev().find(is_checkpoint).map_or(0, |index| index + 1);
        for edits in BTreeSet::from([state.durable_edits, newest]) {
            let found = state.recover(Crash::Power { edits });
            for (key, &found) in found.iter().enumerate() {
                assert!(found >= durable[key], "broken: a loss of power lost what a checkpoint covered");
            }
        }
    }
}

impl State {
    fn file(&mut self, file: u64) -> &mut Content {
        self.files.get_mut(&file).unwrap_or_else(|| panic!("broken: a file went while it was in use"))
    }

    fn values_at(&self, version: u64) -> [u64; KEYS.len()] {
        let mut values = [0; KEYS.len()];
        for entry in self.history.iter().filter(|entry| entry.version <= version) {
            values[entry.key] = entry.value;
        }
        values
    }

    /// For each key the recovered value. All entries up to one version must be there; after the
    /// death of a process, all entries that were written.
    fn recover(&self, crash: Crash) -> [u64; KEYS.len()] {
        let edits = match crash {
            Crash::Process => &self.edits[..],
            Crash::Power { edits } => &self.edits[..edits],
        };
        let mut chunks: HashMap<u64, ChunkRecord> = HashMap::new();
        let mut segments: HashMap<u64, SegmentEdit> = HashMap::new();
        let mut checkpoint = CheckpointEdit::default();
        for edit in edits {
            match edit {
                Edit::Replace { removed, added } => {
                    for id in removed {
                        assert!(chunks.remove(id).is_some(), "broken: an edit removes an unknown chunk");
                    }
                    chunks.extend(added.iter().map(|record| (record.id, record.clone())));
                }
                Edit::Log { chunk, file } => {
                    let chunk = chunks
                        .get_mut(chunk)
                        .unwrap_or_else(|| panic!("broken: an edit names an unknown chunk"));
                    let record = FileRecord { file: *file, is_log: true, span: chunk.span.clone() };
                    chunk.files.insert(0, record);
                }
                Edit::Checkpoint(edit) => {
                    segments.extend(edit.segments.iter().map(|segment| (segment.file, *segment)));
                    checkpoint = edit.clone();
                }
            }
        }
        let mut chunks: Vec<_> = chunks.into_values().collect();
        chunks.sort_by(|a, b| a.span.start.cmp(&b.span.start));
        let ends = chunks.iter().map(|chunk| chunk.span.end.clone());
        let starts = chunks.iter().map(|chunk| chunk.span.start.clone());
        assert!(
            starts.eq(std::iter::once(None).chain(ends.take(chunks.len() - 1))),
            "broken: chunks lie apart or overlap"
        );

        let mut dead = RecoveryTable::default();
        let mut committed = &self.committed[..];
        if let Crash::Power { .. } = crash {
            let pushed = dead.push(EPOCH, checkpoint.version, u64::MAX);
            assert!(pushed.is_ok(), "the first row");
            committed = &self.committed[..self.durable_committed];
        }
        let committed = EpochBatches::from_committed(EPOCH, checkpoint.next_batch, committed.iter().copied());
        let mut batches = DeadBatches::default();
        assert!(batches.push(committed).is_ok(), "the first row");
        let counts = |entry: &Entry| {
            let is_of_dead_batch = entry.batch != 0 && batches.is_dead(EPOCH, entry.batch);
            !dead.is_dead(entry.version) && !is_of_dead_batch
        };
        let mut found = [0; KEYS.len()];
        for (key, found) in found.iter_mut().enumerate() {
            let holds = |span: &Span| span.contains(&KeyOrder::Bytewise, KEYS[key]);
            let Some(chunk) = chunks.iter().find(|chunk| holds(&chunk.span)) else { continue };
            for file in chunk.files.iter().filter(|file| holds(&file.span)) {
                let content = self
                    .files
                    .get(&file.file)
                    .unwrap_or_else(|| panic!("broken: a file of the image is gone"));
                let recorded = segments.get(&file.file).map_or(0, |segment| segment.len as usize);
                let entries = match (crash, file.is_log) {
                    (Crash::Process, _) => &content.entries[..],
                    (Crash::Power { .. }, true) => {
                        assert!(recorded <= content.synced, "broken: a log is shorter than recorded");
                        &content.entries[..recorded]
                    }
                    (Crash::Power { .. }, false) => &content.entries[..content.synced],
                };
                assert!(
                    content.is_named || entries.is_empty() || crash == Crash::Process,
                    "broken: a name is not durable"
                );
                let is_it = |entry: &&Entry| entry.key == key && counts(entry);
                let newest =
                    if file.is_log { entries.iter().rev().find(is_it) } else { entries.iter().find(is_it) };
                if let Some(entry) = newest {
                    *found = entry.value;
                    break;
                }
            }
        }
        if let Crash::Power { .. } = crash {
            assert_eq!(found, self.values_at(checkpoint.version), "broken: what is recovered is no prefix");
        }
        assert!(BATCH.iter().all(|&key| found[key] == found[BATCH[0]]), "broken: half a batch is recovered");
        found
    }
}

/// The manifest, with the same lock as the original.
pub struct Manifest {
    disk: Arc<Disk>,
    inner: Mutex<()>,
}

pub struct Locked<'a> {
    manifest: &'a Manifest,
    inner: crate::sync::MutexGuard<'a, ()>,
}

impl Manifest {
    pub fn new(disk: Arc<Disk>) -> Self {
        Self { disk, inner: Mutex::new(()) }
    }

    pub fn append(&self, edit: Edit) {
        let _inner = self.inner.lock();
        self.disk.append_edit(edit);
    }

    pub fn lock(&self) -> Locked<'_> {
        Locked { manifest: self, inner: self.inner.lock() }
    }
}

impl Locked<'_> {
    pub fn checkpoint(self, edit: CheckpointEdit) -> Result<()> {
        let disk = &self.manifest.disk;
        disk.append_edit(Edit::Checkpoint(edit));
        let end = disk.look().edits.len();
        drop(self.inner);
        if disk.fault != Fault::DoesNotSyncTheRecord {
            disk.step().durable_edits = end;
            disk.check([0; KEYS.len()]);
        }
        Ok(())
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct DiskFile(());

impl VfsFile for DiskFile {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn id_of(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    crate::files::parse_file_name(name).map_or(0, |(_, id)| id)
}

impl Vfs for DiskVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        assert_eq!(mode, OpenMode::CreateNew, "the model reads past the handles");
        self.0.step().files.insert(id_of(path), Content::default());
        Ok(Arc::new(DiskFile(())))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let was_there = self.0.step().files.remove(&id_of(path)).is_some();
        assert!(was_there, "broken: a file was removed twice");
        self.0.check([0; KEYS.len()]);
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.0.step().files.values_mut().for_each(|content| content.is_named = true);
        Ok(())
    }
}

/// The names of the files.
#[derive(Debug)]
pub struct DiskVfs(pub Arc<Disk>);
