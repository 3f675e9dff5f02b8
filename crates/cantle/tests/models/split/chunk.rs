//! Chunks in the model of splits, with the fields and calls that the modules under test use; puts
//! and reads in the order of `chunk/write.rs` and `chunk/walk.rs`.

use crate::log::run::{OutputTable, Run, RunStack, Source, StackSizes};
use crate::log::{Entry, Segment, StoreFile};
use crate::model::disk::{Disk, Edit};
use crate::model::{Fault, one_in};
use crate::mvcc::range_index::RangeIndex;
use crate::mvcc::{KeySpan, Mvcc};
use crate::sync::atomic::AtomicBool;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::counter::Counter;
use crate::sync::thread::yield_now;
use crate::sync::{Arc, ArcSwap, Mutex};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

#[derive(Debug, Clone, PartialEq)]
pub enum ChunkEdit {
    Replace { removed: Vec<u64>, added: Vec<ChunkRecord> },
    Log { chunk: u64, file: u64, epoch: u64 },
    Drop { chunks: Vec<u64> },
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChunkRecord {
    pub id: u64,
    pub start: Option<Bytes>,
    /// Newest first, each with the keys that count.
    pub files: Vec<(u64, Span)>,
}

impl ChunkRecord {
    pub fn of(chunk: &Chunk, files: &[Run]) -> Self {
        let files = files.iter().map(|file| (file.file().id, Span::clone(&file.span))).collect();
        Self { id: chunk.id, start: chunk.span.start.clone(), files }
    }
}

pub struct Limits;

/// Each chunk has the size of a full one.
pub fn is_end_split(_: u64, _: &Limits) -> bool {
    true
}

pub fn live(_: &Chunk) -> (u64, u64) {
    (1, 1)
}

/// No split of the model sorts.
pub struct Input {
    pub funk: Arc<RunStack>,
    pub kept: Vec<Run>,
}

pub fn table_ref(_: &OutputTable, _: &Chunk, _: &RunStack, _: usize) -> Run {
    unreachable!("no split of the model sorts")
}

/// A chunk whose end is split has no munk.
pub struct Munk;

impl Munk {
    pub fn split<R, N>(&self, _: &[Bytes], _: R, _: N) -> Vec<Self> {
        unreachable!("a chunk whose end is split has no munk")
    }
}

pub fn room_for() {}

#[derive(Default)]
pub struct MunkSlot(Mutex<Option<Arc<Munk>>>);

impl MunkSlot {
    pub fn load(&self) -> Option<Arc<Munk>> {
        self.0.lock().clone()
    }

    pub fn load_full(&self) -> Option<Arc<Munk>> {
        self.load()
    }

    pub fn store(&self, munk: Option<Arc<Munk>>) {
        *self.0.lock() = munk;
    }
}

#[derive(Default)]
pub struct ChunkWriter {
    pub retired: bool,
    pub active: Option<Arc<Segment>>,
}

pub struct Chunk {
    pub id: u64,
    pub span: Span,
    pub writer: Mutex<ChunkWriter>,
    pub funk: ArcSwap<RunStack>,
    pub munk: MunkSlot,
    changing: AtomicBool,
    split_after: AtomicU64,
}

pub struct Change(Arc<Chunk>);

impl Drop for Change {
    fn drop(&mut self) {
        self.0.changing.store(false, Release);
    }
}

impl Chunk {
    pub fn new(id: u64, span: Span, funk: RunStack) -> Self {
        Self {
            id,
            span,
            writer: Mutex::default(),
            funk: ArcSwap::from_pointee(funk),
            munk: MunkSlot::default(),
            changing: AtomicBool::new(false),
            split_after: AtomicU64::new(0),
        }
    }

    pub fn begin_change(self: &Arc<Self>) -> Option<Change> {
        (!self.changing.swap(true, AcqRel)).then(|| Change(self.clone()))
    }

    pub fn may_be_split(&self, tick: u64) -> bool {
        tick >= self.split_after.load(Relaxed)
    }

    pub fn put_off_split(&self, tick: u64) {
        self.split_after.store(tick, Relaxed);
    }

    pub fn inherit(&self, _: &Self, _: u64) {}

    pub fn forget_writes(&self) {}

    pub fn note_version(&self, _: u64) {}

    pub fn newest_version(&self) -> u64 {
        0
    }
}

pub struct Totals;

#[derive(Default)]
pub struct Counters {
    pub splits: Counter,
    pub end_splits: Counter,
    pub munk_splits: Counter,
    pub edits_refused: Counter,
}

pub struct Settings {
    pub munks: bool,
}

pub struct Context {
    pub order: KeyOrder,
    pub tables: (),
    pub files: (),
    pub cache: (),
    pub totals: Totals,
    pub counters: Counters,
    pub mvcc: Arc<Mvcc>,
    pub disk: Arc<Disk>,
    /// An edit that a fault appends late.
    late: Mutex<Option<ChunkEdit>>,
    fault: Fault,
}

impl Context {
    pub fn options(&self) -> Settings {
        Settings { munks: true }
    }

    pub fn epoch(&self) -> u64 {
        1
    }

    pub fn publish(&self, edit: &ChunkEdit) -> Result<()> {
        if self.fault == Fault::TellsTheManifestLate {
            *self.late.lock() = Some(edit.clone());
        } else {
            if let (Fault::RemovesEarly, ChunkEdit::Replace { added, .. }) = (self.fault, edit) {
                added.iter().flat_map(|chunk| &chunk.files).for_each(|(file, _)| self.disk.hold(*file));
            }
            self.disk.append_edit(Edit::Chunks(edit.clone()));
        }
        Ok(())
    }
}

#[derive(Default)]
pub struct Jobs {
    pub ticks: AtomicU64,
}

pub struct Chunks {
    pub context: Context,
    pub index: RangeIndex<Chunk>,
    pub jobs: Jobs,
    next_chunk: AtomicU64,
    pub fault: Fault,
}

impl Chunks {
    /// One chunk, with a log that was inserted into in order, and a table.
    pub fn new(log: Vec<Entry>, indexed: usize, table: Vec<Entry>, fault: Fault) -> Self {
        let mvcc = Arc::new(Mvcc::with_slots(2, 4));
        let disk = Arc::new(Disk::default());
        let span = Span { start: None, end: None };
        let run = |source| Run { source, span: Arc::new(span.clone()), dropped: None, share_bytes: None };
        let file = disk.create(true, log);
        let forgets_the_newest_part = fault == Fault::ForgetsTheNewestPart;
        let log = Arc::new(Segment { file, indexed: Mutex::new(indexed), forgets_the_newest_part });
        let table = crate::log::TableHandle { file: disk.create(false, table) };
        let files = vec![run(Source::Log(log.clone())), run(Source::Table(Arc::new(table)))];
        files.iter().for_each(|file| file.retain(&Totals));
        let chunk = Arc::new(Chunk::new(0, span.clone(), RunStack { files: files.clone() }));
        chunk.writer.lock().active = Some(log);
        let added = vec![ChunkRecord::of(&chunk, &files)];
        disk.begin(ChunkEdit::Replace { removed: Vec::new(), added });
        let (late, order) = (Mutex::new(None), KeyOrder::Bytewise);
        let context = Context {
            order: order.clone(),
            tables: (),
            files: (),
            cache: (),
            totals: Totals,
            counters: Counters::default(),
            mvcc,
            disk,
            late,
            fault,
        };
        let index = RangeIndex::new(order, vec![(Bytes::new(), chunk)]);
        Self { context, index, jobs: Jobs::default(), next_chunk: AtomicU64::new(1), fault }
    }

    pub fn limits(&self) -> Limits {
        Limits
    }

    pub fn next_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Relaxed)
    }

    pub fn account(&self, _: &StackSizes, _: &StackSizes) {}

    pub fn count_rebalance(&self, _: &Input, _: &[OutputTable]) {}

    pub fn purge_later(&self, _: &[Arc<Chunk>]) {}

    pub fn add_resident(&self, _: &Arc<Chunk>) {}

    pub fn is_needed(&self) -> impl Fn(u64, u64) -> bool {
        |_, _| false
    }

    /// A part that cannot be indexed stays in memory.
    pub fn index_and_end_log(&self, writer: &mut ChunkWriter) {
        if let Some(segment) = writer.active.take()
            && !one_in(2)
        {
            segment.seal();
        }
    }

    /// Splits the end off; `None` if the chunk does not look as if that were worthwhile.
    pub fn try_split(&self, chunk: &Arc<Chunk>) -> Result<Option<bool>> {
        let is_worthwhile = self.is_inserted_in_order(chunk);
        self.split_tail(chunk).map(|is_split| is_worthwhile.then_some(is_split))
    }

    /// Its content is that of the files, in another model (`models/munk_life.rs`).
    pub fn load_munk(&self, _: &Arc<Chunk>) -> Result<bool> {
        Ok(true)
    }

    pub fn release(&self, files: &[Run], _: &[Run]) {
        let late = self.context.late.lock().take();
        late.into_iter().for_each(|edit| self.context.disk.append_edit(Edit::Chunks(edit)));
        for file in files {
            let mut references = file.file().references.lock();
            *references -= 1;
            if *references == 0 {
                self.context.disk.hold(file.file().id);
            }
        }
    }

    pub fn put(&self, key: &Bytes, value: u64) {
        loop {
            let chunk = self.index.find(key);
            let mut writer = chunk.writer.lock();
            if writer.retired && self.fault != Fault::PutsIntoRetired {
                drop(writer);
                yield_now();
                continue;
            }
            let log = self.ensure_active(&chunk, &mut writer);
            let prefix = self.context.order.prefix(key);
            let announced = self.context.mvcc.announce(prefix.map_or(KeySpan::ALL, KeySpan::key));
            let entry = Entry { key: key.clone(), version: announced.version(), value };
            self.context.disk.append(&log.file, entry);
            drop(announced);
            drop(writer);
            self.context.disk.complete(key, value);
            return;
        }
    }

    fn ensure_active(&self, chunk: &Chunk, writer: &mut ChunkWriter) -> Arc<Segment> {
        if let Some(log) = &writer.active {
            return log.clone();
        }
        let file: Arc<StoreFile> = self.context.disk.create(true, Vec::new());
        let edit = ChunkEdit::Log { chunk: chunk.id, file: file.id, epoch: 1 };
        self.context.disk.append_edit(Edit::Chunks(edit));
        let log = Arc::new(Segment { file, indexed: Mutex::new(0), forgets_the_newest_part: false });
        let span = Arc::new(chunk.span.clone());
        let run = Run { source: Source::Log(log.clone()), span, dropped: None, share_bytes: None };
        run.retain(&Totals);
        let mut funk = RunStack::clone(&chunk.funk.load_full());
        funk.files.insert(0, run);
        chunk.funk.store(Arc::new(funk));
        writer.active = Some(log.clone());
        log
    }

    /// The pairs of a chunk at a version, in order.
    fn pairs(&self, chunk: &Chunk, at: u64) -> Vec<(Bytes, u64)> {
        let mut pairs: Vec<(Bytes, u64)> = Vec::new();
        for file in &chunk.funk.load_full().files {
            let entries = file.file().entries.lock().clone();
            for entry in entries.iter().rev().filter(|entry| entry.version <= at) {
                let counts = file.span.contains(&self.context.order, &entry.key);
                if counts && pairs.iter().all(|(key, _)| *key != entry.key) {
                    pairs.push((entry.key.clone(), entry.value));
                }
            }
        }
        pairs.sort();
        pairs
    }

    pub fn get(&self, key: &[u8]) -> u64 {
        let pairs = self.pairs(&self.index.find(key), u64::MAX);
        pairs.into_iter().find(|pair| pair.0 == *key).map_or(0, |(_, value)| value)
    }

    /// All pairs at a version, chunk after chunk.
    pub fn walk(&self, at: u64) -> Vec<(Bytes, u64)> {
        let mut pairs = Vec::new();
        let mut from = Bytes::new();
        let mut chunk = self.index.find(b"");
        loop {
            pairs.extend(self.pairs(&chunk, at).into_iter().filter(|(key, _)| *key >= from));
            let Some(next) = chunk.span.end.clone() else { return pairs };
            // Found by key, as chunks may have been split since.
            chunk = self.index.find(&next);
            from = next;
        }
    }
}
