//! Areas: a range of keys with the files that may hold them, and the pairs that can still be read
//! from these files.

use super::merge::{Merge, Newness, RangeDelete, Source};
use super::report::Findings;
use super::sorter::{Entry, Sorter};
use super::standing::{Age, Standing, holes_of};
use super::survey::LogFragment;
use super::swept::Swept;
use super::torn_log::TornLog;
use crate::files::file_name;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::format::limits::KEY_BYTES_MAX;
use crate::log::salvage::{Extent, LogFound, salvage_log};
use crate::mvcc::Recovery;
use crate::records::{RecordFile, Reference};
use crate::run::referred::value_of;
use crate::sync::Arc;
use crate::table::{DeletedRange, TableLoss, TableSalvage};
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::types::span::{Span, intersect_bounds, is_empty_range};
use crate::vfs::{OpenMode, Vfs};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file that is read for an area.
#[derive(Debug, Clone)]
pub(super) struct AreaFile {
    pub header: FileHeader,
    pub path: PathBuf,
    pub bytes: u64,
    /// Only keys in this span count.
    pub span: Span,
    /// The part of a log that counts.
    pub extent: Extent,
    /// Records that were buffered for a log, and whose place lies after a lost stretch of it.
    pub buffered: Option<LogFragment>,
    pub standing: Standing,
}

impl AreaFile {
    /// For a log whose own file has nothing left.
    pub fn of_buffered(path: PathBuf, fragment: &LogFragment) -> Self {
        let (header, buffered) = (fragment.header, Some(fragment.clone()));
        let (span, extent, standing) = (Span::default(), Extent::Unknown, Standing::default());
        Self { header, path, bytes: 0, span, extent, buffered, standing }
    }

    /// True if the file counts for a key.
    fn counts(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.span.contains(order, key) && !self.standing.is_replaced(order, key)
    }
}

/// Files that may hold keys of a span.
#[derive(Debug, Default)]
pub(super) struct Area {
    pub keyspace: u32,
    pub span: Span,
    /// Newest first.
    pub files: Vec<AreaFile>,
    /// True if versions decide which entry is newer. Otherwise the order of the files decides, and
    /// the offset within a log.
    pub by_version: bool,
    /// True if no manifest says which files and versions count.
    pub is_loose: bool,
    /// Writes of the journal to apply again, after everything else.
    pub replayed: Vec<Entry>,
    pub replayed_deletes: Vec<RangeDelete>,
}

/// The rules that decide which entries of the files count.
#[derive(Default)]
pub(super) struct Rules {
    pub recovery: Recovery,
    /// The epoch whose batches count although no commit record of them was found, because its
    /// journal is damaged.
    pub doubtful_epoch: Option<u64>,
    /// Without a manifest: the batches that the journals of an epoch commit, if these journals are
    /// whole.
    pub committed: HashMap<u64, BTreeSet<u64>>,
    /// Set if a batch without a commit record was counted.
    pub trusted_batches: Cell<bool>,
}

impl Rules {
    fn counts(&self, epoch: u64, version: u64, batch: u64) -> bool {
        if !self.recovery.is_alive(version) {
            return false;
        }
        if batch == 0 {
            return true;
        }
        if let Some(committed) = self.committed.get(&epoch) {
            // A checkpoint may have settled the earlier batches, and no journal lists them after
            // that.
            return committed.contains(&batch) || committed.last().is_some_and(|&last| batch < last);
        }
        let counts = self.recovery.counts(epoch, version, batch);
        if !counts && self.doubtful_epoch == Some(epoch) {
            self.trusted_batches.set(true);
            return true;
        }
        counts
    }
}

/// Everything that is needed to read areas.
pub(super) struct Reader<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub rules: &'a Rules,
    pub findings: Rc<RefCell<Findings>>,
    /// Bytes of files read so far.
    pub read_bytes: Rc<Cell<u64>>,
    /// Directory for sorted runs that do not fit in memory.
    pub scratch: (&'a Arc<dyn Vfs>, &'a Path),
    pub memory_bytes: usize,
}

/// The keys of a span.
pub(super) fn bounds_of(span: &Span) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let start = span.start.as_ref().map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
    (start, span.end.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec())))
}

impl Reader<'_> {
    /// The pairs of an area, in order. `sorted`: true if its tables are known to be in this order.
    pub fn read(&self, area: Area, name: &Rc<str>, order: &KeyOrder, sorted: bool) -> Result<Merge> {
        let (scratch, dir) = self.scratch;
        let mut sorter = Sorter::new(order.clone(), self.memory_bytes, scratch, dir);
        let mut deletes = area.replayed_deletes;
        for entry in area.replayed {
            sorter.push(entry)?;
        }
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        let mut deleted = Vec::new();
        let ranked = |(index, file): (usize, AreaFile)| {
            let rank = match file.standing.age {
                Age::Number(number) => number,
                _ => u64::MAX - 1 - index as u64,
            };
            (Ranks { rank, by_version: area.by_version }, file)
        };
        let files = area.files.into_iter().enumerate().map(ranked);
        let (logs, tables): (Vec<_>, Vec<_>) = files.partition(|(_, file)| file.header.kind == FileKind::Log);
        for (ranks, file) in tables {
            let mut table = TableSource {
                reading: TableReading {
                    vfs: self.vfs.clone(),
                    order: order.clone(),
                    ranks,
                    name: name.clone(),
                    findings: self.findings.clone(),
                    recovery: (self.rules.recovery.first_version, self.rules.recovery.table.clone()),
                    read_bytes: self.read_bytes.clone(),
                    file,
                    log: RefCell::default(),
                },
                walk: None,
                parked: None,
                content: None,
            };
            if !sorted {
                table.reading.order = KeyOrder::Bytewise;
                self.sort_table(&table.reading, &mut sorter, &mut deletes)?;
                continue;
            }
            let of_table = table.rewind()?;
            deleted.extend(table.reading.with_ages(&of_table));
            deletes.extend(of_table);
            // Parked until its turn: there may be more tables than files can be open.
            table.park();
            sources.push(Box::new(table));
        }
        let swept = Swept::new(order, &deleted);
        for (ranks, file) in logs {
            self.read_log((&file, ranks), (order, &swept), name, &mut sorter, &mut deletes)?;
        }
        if !sorted && !deletes.is_empty() {
            deletes.clear();
            self.findings.borrow_mut().note(format!(
                "keyspace {name:?} has an order of its own, which is not known: its range deletes were not applied"
            ));
        }
        sources.extend(sorter.finish()?);
        Ok(Merge::new(order.clone(), sources, deletes))
    }

    fn read_log(
        &self,
        (file, ranks): (&AreaFile, Ranks),
        (order, swept): (&KeyOrder, &Swept),
        name: &str,
        sorter: &mut Sorter<'_>,
        deletes: &mut Vec<RangeDelete>,
    ) -> Result<()> {
        let there = match (file.bytes >= HEADER_BYTES).then(|| self.vfs.open(&file.path, OpenMode::Read)) {
            Some(Err(error)) => {
                let error = Error::io(Attempt::Open, &file.path, error);
                self.findings.borrow_mut().lost(error, name, bounds_of(&file.span));
                return Ok(());
            }
            there => there.transpose().ok().flatten(),
        };
        let Some((handle, gap)) = TornLog::join(there, file) else { return Ok(()) };
        let records = RecordFile { file: handle, path: file.path.clone(), header: file.header };
        let epoch = file.header.epoch;
        let whole = bounds_of(&file.span);
        let is_replaced = file.standing.is_replaced_between(order, (&whole.0, &whole.1));
        salvage_log(&records, file.extent, gap, &mut |found| {
            let counts = match &found {
                LogFound::Op { version, batch, .. }
                | LogFound::Lost { version, batch, .. }
                | LogFound::RangeDelete { version, batch, .. } => self.rules.counts(epoch, *version, *batch),
                LogFound::Damage(_) => false,
            };
            match found {
                LogFound::Op { offset, key, .. } if key.len() > KEY_BYTES_MAX => {
                    let error = Error::corruption(&file.path, offset, "a key is longer than any can be");
                    self.findings.borrow_mut().lost(error, name, bounds_of(&file.span));
                }
                LogFound::Op { version, kind, offset, key, value, .. } => {
                    if counts && file.counts(order, key) && !swept.covers(order, file.header.file, key) {
                        let newness = ranks.of(version, offset);
                        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
                        sorter.push(Entry { key, newness, kind, value })?;
                    }
                }
                LogFound::RangeDelete { version, offset, bounds, .. } => {
                    if counts {
                        let newness = ranks.of(version, offset);
                        deletes.push(RangeDelete { newness, bounds, span: file.span.clone() });
                    }
                }
                LogFound::Lost { key, error, .. } => {
                    if !counts {
                        self.findings.borrow_mut().damage(error);
                    } else if file.counts(order, key) {
                        let only = || Bound::Included(key.to_vec());
                        self.findings.borrow_mut().lost(error, name, (only(), only()));
                    }
                }
                LogFound::Damage(error) if is_replaced => self.findings.borrow_mut().damage(error),
                LogFound::Damage(error) => {
                    self.findings.borrow_mut().lost(error, name, bounds_of(&file.span));
                }
            }
            Ok(counts)
        })?;
        self.read_bytes.set(self.read_bytes.get() + file.bytes);
        Ok(())
    }

    /// Reads a table whose order is unknown.
    fn sort_table(
        &self,
        table: &TableReading,
        sorter: &mut Sorter<'_>,
        deletes: &mut Vec<RangeDelete>,
    ) -> Result<()> {
        let Some(mut walk) = table.open()? else { return Ok(()) };
        deletes.extend(table.range_deletes(&mut walk));
        walk.ignore_order();
        while walk.advance() {
            if let Some(entry) = walk.entry()
                && self.rules.recovery.is_alive(entry.version)
            {
                let newness = table.newness(entry.key, entry.version);
                let key = Bytes::copy_from_slice(entry.key);
                if let Some((kind, value)) = table.content(&walk) {
                    sorter.push(Entry { key, newness, kind, value })?;
                }
            }
            table.report(walk.take_losses());
        }
        table.report(walk.take_losses());
        table.done();
        Ok(())
    }
}

/// Compares the entries of one file with those of others.
#[derive(Debug, Clone, Copy)]
struct Ranks {
    /// The newest file has the greatest rank.
    rank: u64,
    by_version: bool,
}

impl Ranks {
    fn of(self, version: u64, place: u64) -> Newness {
        Newness(if self.by_version { [version, self.rank, place] } else { [self.rank, place, version] })
    }

    fn rank_of(self, Newness(numbers): Newness) -> u64 {
        numbers[usize::from(self.by_version)]
    }
}

struct TableReading {
    vfs: Arc<dyn Vfs>,
    order: KeyOrder,
    ranks: Ranks,
    name: Rc<str>,
    findings: Rc<RefCell<Findings>>,
    recovery: (u64, crate::mvcc::RecoveryTable),
    read_bytes: Rc<Cell<u64>>,
    file: AreaFile,
    /// The log that the last value stood in.
    log: RefCell<Option<RecordFile>>,
}

impl TableReading {
    /// The kind and the value of the entry under the walk. `None` if it refers to a value that is lost, which
    /// the findings say then.
    fn content(&self, walk: &TableSalvage) -> Option<(Kind, Bytes)> {
        let entry = walk.entry()?;
        if entry.kind != Kind::PutApart {
            return Some((entry.kind, walk.value()));
        }
        match self.read_referred(entry.key, &walk.value()) {
            Ok(value) => Some((Kind::Put, value)),
            Err(error) => {
                let only = || Bound::Included(entry.key.to_vec());
                self.findings.borrow_mut().lost(error, &self.name, (only(), only()));
                None
            }
        }
    }

    fn read_referred(&self, key: &[u8], value: &[u8]) -> Result<Bytes> {
        let AreaFile { path, header, .. } = &self.file;
        let reference = Reference::decode(value)
            .map_err(|what| Error::corruption(path, 0, format!("an entry {}", what.0)))?;
        let mut log = self.log.borrow_mut();
        if log.as_ref().is_none_or(|records| records.header.file != reference.file) {
            let path = path.with_file_name(file_name(FileKind::Log, reference.file));
            let file =
                self.vfs.open(&path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, &path, e))?;
            let header = FileHeader { kind: FileKind::Log, file: reference.file, base_version: 0, ..*header };
            *log = Some(RecordFile { file, path, header });
        }
        log.as_ref().map_or(Ok(Bytes::new()), |records| value_of(records, &reference, &self.order, key))
    }

    /// `None` if it cannot be read at all; then the findings say so.
    fn open(&self) -> Result<Option<TableSalvage>> {
        let AreaFile { path, header, span, .. } = &self.file;
        let opened = self.vfs.open(path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, path, e));
        let walk = opened.and_then(|file| TableSalvage::new(file, path.clone(), *header, self.order.clone()));
        match walk {
            Ok(walk) => Ok(Some(walk)),
            Err(error) => {
                self.findings.borrow_mut().lost(error, &self.name, bounds_of(span));
                Ok(None)
            }
        }
    }

    fn report(&self, losses: Vec<TableLoss>) {
        for TableLoss { error, entries, after, before } in losses {
            let mut findings = self.findings.borrow_mut();
            if !entries {
                findings.damage(error);
                continue;
            }
            let span = &self.file.span;
            let behind = after.as_ref().is_some_and(|after| span.ends_before(&self.order, after));
            let ahead = before.as_ref().is_some_and(|before| self.precedes(before));
            if behind || ahead {
                findings.damage(error);
                continue;
            }
            let (start, end) = bounds_of(span);
            // The versions of a key may continue in the next block.
            let start = after.filter(|after| !self.precedes(after)).map_or(start, Bound::Included);
            let end =
                before.filter(|before| !span.ends_before(&self.order, before)).map_or(end, Bound::Included);
            if self.file.standing.is_replaced_between(&self.order, (&start, &end)) {
                findings.damage(error);
                continue;
            }
            findings.lost(error, &self.name, (start, end));
        }
    }

    /// The range deletes that count.
    fn range_deletes(&self, walk: &mut TableSalvage) -> Vec<RangeDelete> {
        let alive = |version: &u64| self.is_alive(*version);
        let newest = |range: DeletedRange| {
            // Only the newest state is saved.
            Some((range.versions.into_iter().find(alive)?, range.bounds))
        };
        let newest = walk.take_deleted().into_iter().filter_map(newest);
        let whole = || (self.ranks.rank, self.file.span.clone());
        let parts: Vec<(u64, Span)> = match &self.file.standing.age {
            Age::Lineage(lineage) => lineage.parts().into_iter().map(|part| (part.age, part.span)).collect(),
            _ => vec![whole()],
        };
        let in_parts = |(version, bounds): (u64, Bounds)| {
            let delete = |(rank, span): &(u64, Span)| {
                let newness = Ranks { rank: *rank, ..self.ranks }.of(version, 0);
                span.overlaps(&self.order, &bounds).then(|| RangeDelete {
                    newness,
                    bounds: bounds.clone(),
                    span: span.clone(),
                })
            };
            parts.iter().filter_map(delete).collect::<Vec<_>>()
        };
        newest.flat_map(in_parts).collect()
    }

    /// Its range deletes, each with the age of the table there. None without a lineage, or if entries are lost: one that
    /// is newer than a range delete may be left in a log only.
    fn with_ages(&self, deletes: &[RangeDelete]) -> Vec<(Bounds, u64)> {
        let has_lineage = matches!(self.file.standing.age, Age::Lineage(_));
        if !has_lineage || deletes.is_empty() || !holes_of(&*self.vfs, &self.file, &self.order).is_empty() {
            return Vec::new();
        }
        let within =
            |delete: &RangeDelete| intersect_bounds(&self.order, &delete.bounds, &delete.span.bounds());
        let with_age = |delete: &RangeDelete| (within(delete), self.ranks.rank_of(delete.newness));
        deletes.iter().map(with_age).filter(|(bounds, _)| !is_empty_range(&self.order, bounds)).collect()
    }

    /// The newness of an entry. A table of a certain age has everything of the log of that number, and
    /// its own range deletes of the same version, which are older, do not cover the entry.
    fn newness(&self, key: &[u8], version: u64) -> Newness {
        match &self.file.standing.age {
            Age::Listed => self.ranks.of(version, 0),
            Age::Number(_) => self.ranks.of(version, u64::MAX),
            Age::Lineage(lineage) => {
                let rank = lineage.age_of(&self.order, key);
                Ranks { rank, ..self.ranks }.of(version, u64::MAX)
            }
        }
    }

    fn is_alive(&self, version: u64) -> bool {
        let (first_version, dead) = &self.recovery;
        version >= *first_version || !dead.is_dead(version)
    }

    /// True if the key lies before the file's span.
    fn precedes(&self, key: &[u8]) -> bool {
        self.file.span.start.as_ref().is_some_and(|start| self.order.compare(key, start).is_lt())
    }

    fn counts(&self, key: &[u8], version: u64) -> bool {
        self.is_alive(version) && self.file.counts(&self.order, key)
    }

    fn done(&self) {
        self.read_bytes.set(self.read_bytes.get() + self.file.bytes);
    }
}

/// A table as a source. Until its turn it keeps only its first entry.
struct TableSource {
    reading: TableReading,
    walk: Option<TableSalvage>,
    parked: Option<(Vec<u8>, Newness, Kind)>,
    /// The kind and the value of the entry under the walk.
    content: Option<(Kind, Bytes)>,
}

impl TableSource {
    /// Moves to the first entry that counts. Returns the range deletes.
    fn rewind(&mut self) -> Result<Vec<RangeDelete>> {
        self.walk = self.reading.open()?;
        let deletes = self.walk.as_mut().map(|walk| self.reading.range_deletes(walk));
        self.step();
        Ok(deletes.unwrap_or_default())
    }

    fn park(&mut self) {
        let head = self.head().map(|(key, newness, kind)| (key.to_vec(), newness, kind));
        (self.parked, self.walk, self.content) = (head, None, None);
    }

    fn unpark(&mut self) -> Result<()> {
        if self.parked.take().is_some() { self.rewind().map(drop) } else { Ok(()) }
    }

    fn step(&mut self) {
        let Some(walk) = &mut self.walk else { return };
        let TableReading { order, file, .. } = &self.reading;
        // Entries after the span belong to other areas.
        let within =
            |walk: &TableSalvage| walk.entry().is_some_and(|entry| !file.span.ends_before(order, entry.key));
        self.content = None;
        while self.content.is_none() && walk.advance() && within(walk) {
            if walk.entry().is_some_and(|entry| self.reading.counts(entry.key, entry.version)) {
                self.content = self.reading.content(walk);
            }
        }
        self.reading.report(walk.take_losses());
        if self.content.is_none() {
            self.walk = None;
            self.reading.done();
        }
    }
}

impl Source for TableSource {
    fn head(&self) -> Option<(&[u8], Newness, Kind)> {
        if let Some((key, newness, kind)) = &self.parked {
            return Some((key, *newness, *kind));
        }
        let entry = self.walk.as_ref()?.entry()?;
        let (kind, _) = self.content.as_ref()?;
        Some((entry.key, self.reading.newness(entry.key, entry.version), *kind))
    }

    fn value(&mut self) -> Result<Bytes> {
        self.unpark()?;
        Ok(self.content.as_ref().map(|(_, value)| value.clone()).unwrap_or_default())
    }

    fn advance(&mut self) -> Result<()> {
        self.unpark()?;
        self.step();
        Ok(())
    }
}
