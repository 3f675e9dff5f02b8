//! Chunks of the model: puts, batches, gets and scans, in the order of the library's steps
//! (`chunk/write.rs`, `db/commit.rs`, `chunk/walk.rs`).

mod maintenance;

use super::disk::{ChunkRecord, Disk, Edit, Entry, FileRecord};
use super::substrate::Substrate;
use super::{Fault, KEYS};
use crate::files::StoreFile;
use crate::format::header::FileKind;
use crate::log::DirtyLog;
use crate::manifest::SegmentEdit;
use crate::mvcc::{CommitCell, KeySpan, Mvcc};
use crate::range_index::RangeIndex;
use crate::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::thread::yield_now;
use crate::sync::{Arc, ArcSwap, Mutex, MutexGuard};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

const ORDER: KeyOrder = KeyOrder::Bytewise;

pub struct Log {
    file: Arc<StoreFile>,
    /// The index in memory, in the order of writing.
    entries: Mutex<Vec<(Entry, Option<CommitCell>)>>,
    dirty: AtomicBool,
    disk: Arc<Disk>,
}

impl DirtyLog for Log {
    fn sync(&self) -> Result<SegmentEdit> {
        self.dirty.swap(false, AcqRel);
        let len = self.entries.lock().len() as u64;
        self.disk.sync(self.file.id);
        Ok(SegmentEdit { file: self.file.id, len })
    }

    fn is_obsolete(&self) -> bool {
        !self.file.is_referenced()
    }
}

#[derive(Clone)]
enum Source {
    Log(Arc<Log>),
    Table(Arc<StoreFile>),
}

#[derive(Clone)]
struct Run {
    source: Source,
    span: Span,
}

impl Run {
    fn file(&self) -> &Arc<StoreFile> {
        match &self.source {
            Source::Log(log) => &log.file,
            Source::Table(file) => file,
        }
    }

    fn record(&self) -> FileRecord {
        let is_log = matches!(self.source, Source::Log(_));
        FileRecord { file: self.file().id, is_log, span: self.span.clone() }
    }

    /// The visible entries, newest first.
    fn entries(&self, disk: &Disk) -> Vec<Entry> {
        let entries = match &self.source {
            Source::Log(log) => {
                let entries = log.entries.lock().clone();
                let shown = |(_, cell): &&(Entry, Option<CommitCell>)| {
                    cell.as_ref().is_none_or(CommitCell::is_committed)
                };
                entries.iter().rev().filter(shown).map(|(entry, _)| *entry).collect()
            }
            Source::Table(file) => disk.read(file.id),
        };
        entries.into_iter().filter(|entry| self.span.contains(&ORDER, KEYS[entry.key])).collect()
    }
}

/// Newest first.
#[derive(Clone, Default)]
struct RunStack {
    files: Vec<Run>,
}

impl RunStack {
    /// For each key the visible entries, newest first.
    fn entries(&self, disk: &Disk) -> [Vec<Entry>; KEYS.len()] {
        let mut of_keys: [Vec<Entry>; KEYS.len()] = Default::default();
        for entry in self.files.iter().flat_map(|file| file.entries(disk)) {
            of_keys[entry.key].push(entry);
        }
        of_keys
    }
}

#[derive(Default)]
struct Writer {
    retired: bool,
    active: Option<Arc<Log>>,
}

pub struct Chunk {
    id: u64,
    span: Span,
    writer: Mutex<Writer>,
    funk: ArcSwap<RunStack>,
    changing: AtomicBool,
}

impl Chunk {
    fn new(id: u64, span: Span, funk: RunStack) -> Self {
        Self {
            id,
            span,
            writer: Mutex::default(),
            funk: ArcSwap::from_pointee(funk),
            changing: AtomicBool::new(false),
        }
    }

    fn begin_change(&self) -> Option<Change<'_>> {
        (!self.changing.swap(true, AcqRel)).then(|| Change(self))
    }

    fn start(&self) -> Bytes {
        self.span.start.clone().unwrap_or_default()
    }

    fn record(&self, files: &[Run]) -> ChunkRecord {
        ChunkRecord { id: self.id, span: self.span.clone(), files: files.iter().map(Run::record).collect() }
    }
}

struct Change<'a>(&'a Chunk);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.changing.store(false, Release);
    }
}

pub struct Chunks {
    pub substrate: Substrate,
    pub mvcc: Arc<Mvcc>,
    pub index: RangeIndex<Chunk>,
    next_chunk: AtomicU64,
    pub fault: Fault,
}

impl Chunks {
    /// Chunks that begin at these keys, and at the lowest key.
    pub fn new(starts: &[&'static [u8]], fault: Fault) -> Self {
        let starts: Vec<_> = starts.iter().map(|key| Bytes::from_static(key)).collect();
        let bounds = || std::iter::once(None).chain(starts.iter().cloned().map(Some)).chain([None]);
        let spans = bounds().zip(bounds().skip(1)).map(|(start, end)| Span { start, end });
        let chunks: Vec<_> = spans
            .enumerate()
            .map(|(id, span)| Arc::new(Chunk::new(id as u64, span, RunStack::default())))
            .collect();
        let added = chunks.iter().map(|chunk| chunk.record(&[])).collect();
        let substrate = Substrate::new(Disk::new(fault, Edit::Replace { removed: Vec::new(), added }), fault);
        let next_chunk = AtomicU64::new(chunks.len() as u64);
        let entries = chunks.into_iter().map(|chunk| (chunk.start(), chunk)).collect();
        let mvcc = substrate.mvcc.mvcc.clone();
        Self { substrate, mvcc, index: RangeIndex::new(ORDER, entries), next_chunk, fault }
    }

    pub fn disk(&self) -> &Disk {
        &self.substrate.disk
    }

    fn next_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Relaxed)
    }

    /// Writes these keys, in order, with one value, and makes all visible at once.
    pub fn write(&self, keys: &[usize], value: u64) {
        let mut chunks: Vec<(Arc<Chunk>, Vec<usize>)> = Vec::new();
        for &key in keys {
            let chunk = self.index.find(KEYS[key]);
            match chunks.last_mut().filter(|(last, _)| Arc::ptr_eq(last, &chunk)) {
                Some((_, keys)) => keys.push(key),
                None => chunks.push((chunk, vec![key])),
            }
        }
        let mut units: Vec<(MutexGuard<'_, Writer>, &[usize])> = Vec::new();
        for (chunk, of_chunk) in &chunks {
            let mut writer = chunk.writer.lock();
            if writer.retired && self.fault != Fault::PutsIntoRetired {
                drop(writer);
                drop(units);
                yield_now();
                return self.write(keys, value);
            }
            self.ensure_active(chunk, &mut writer);
            units.push((writer, of_chunk));
        }
        let early = (self.fault == Fault::NumbersBatchesEarly).then(|| self.next_batch());
        let span = if keys.len() == 1 { prefix_span(keys[0]) } else { KeySpan::ALL };
        let cell = (keys.len() > 1).then(CommitCell::new);
        let announced = self.mvcc.announce(span);
        let batch = if units.len() > 1 { early.unwrap_or_else(|| self.next_batch()) } else { 0 };
        let version = announced.version();
        let entry = |key: usize| Entry { key, version, value, batch };
        for (writer, keys) in &units {
            let Some(log) = &writer.active else { unreachable!("it was made sure of") };
            // One record.
            self.disk().append(log.file.id, &keys.iter().map(|&key| entry(key)).collect::<Vec<_>>());
        }
        if batch != 0 {
            self.disk().commit_batch(batch);
        }
        let mark = |log: &Arc<Log>| {
            if !log.dirty.swap(true, AcqRel) {
                self.substrate.dirty.add(log.clone());
            }
        };
        for (writer, keys) in &units {
            let Some(log) = &writer.active else { unreachable!("it was made sure of") };
            log.entries.lock().extend(keys.iter().map(|&key| (entry(key), cell.clone())));
            if self.fault != Fault::MarksDirtyLate {
                mark(log);
            }
        }
        if let Some(cell) = &cell {
            cell.commit();
        }
        drop(announced);
        if self.fault == Fault::MarksDirtyLate {
            units.iter().filter_map(|(writer, _)| writer.active.as_ref()).for_each(mark);
        }
        drop(units);
        keys.iter().for_each(|&key| self.disk().complete(key, value));
    }

    fn next_batch(&self) -> u64 {
        self.substrate.batches.take()
    }

    fn ensure_active(&self, chunk: &Chunk, writer: &mut Writer) {
        if writer.active.is_some() {
            return;
        }
        let file = self.create(FileKind::Log);
        self.substrate.manifest.append(Edit::Log { chunk: chunk.id, file: file.id });
        file.retain();
        let log = Arc::new(Log {
            file,
            entries: Mutex::default(),
            dirty: AtomicBool::new(false),
            disk: self.substrate.disk.clone(),
        });
        let mut funk = RunStack::clone(&chunk.funk.load_full());
        funk.files.insert(0, Run { source: Source::Log(log.clone()), span: chunk.span.clone() });
        chunk.funk.store(Arc::new(funk));
        writer.active = Some(log);
    }

    fn create(&self, kind: FileKind) -> Arc<StoreFile> {
        let created = self.substrate.files.create(kind, 0, 0);
        created.unwrap_or_else(|error| panic!("{error}")).0
    }

    /// The newest value of a key; 0 if there is none.
    pub fn get(&self, key: usize) -> u64 {
        let funk = self.index.find(KEYS[key]).funk.load_full();
        funk.entries(self.disk())[key].first().map_or(0, |entry| entry.value)
    }

    /// All pairs at a version, chunk after chunk.
    pub fn walk(&self, at: u64) -> Vec<(usize, u64)> {
        let mut pairs = Vec::new();
        let mut from = Bytes::new();
        let mut chunk = self.index.find(b"");
        loop {
            let keys = self.pairs(&chunk, at);
            pairs.extend(keys.into_iter().filter(|&(key, _)| KEYS[key] >= &from[..]));
            let Some(next) = chunk.span.end.clone() else { return pairs };
            // Found by key, as chunks may have been split or merged since.
            chunk = self.index.find(&next);
            from = next;
        }
    }

    /// The same in reverse.
    pub fn walk_back(&self, at: u64) -> Vec<(usize, u64)> {
        let mut pairs = Vec::new();
        let mut upto: Option<Bytes> = None;
        loop {
            let chunk = self.index.view().find_last_before(upto.as_deref()).clone();
            let keys = self.pairs(&chunk, at).into_iter().rev();
            pairs.extend(keys.filter(|&(key, _)| upto.as_ref().is_none_or(|upto| KEYS[key] < &upto[..])));
            let Some(start) = chunk.span.start.clone() else { return pairs };
            upto = Some(start);
        }
    }

    fn pairs(&self, chunk: &Chunk, at: u64) -> Vec<(usize, u64)> {
        let entries = chunk.funk.load_full().entries(self.disk());
        let newest = |entries: &Vec<Entry>| entries.iter().find(|entry| entry.version <= at).copied();
        entries.iter().filter_map(newest).map(|entry| (entry.key, entry.value)).collect()
    }

    /// Files of the current chunks.
    pub fn current_files(&self) -> Vec<u64> {
        let view = self.index.view();
        let of =
            |chunk: &Arc<Chunk>| chunk.funk.load_full().files.iter().map(|file| file.file().id).collect();
        view.iter().flat_map(|(_, chunk)| -> Vec<u64> { of(chunk) }).collect()
    }
}

fn prefix_span(key: usize) -> KeySpan {
    ORDER.prefix(KEYS[key]).map_or(KeySpan::ALL, KeySpan::key)
}
