//! A segment of a chunk's log.
//!
//! A segment is written in one epoch by whoever holds its chunk's lock, is sealed when its chunk is rebalanced
//! or split, and may then belong to several chunks, under key bounds. It consists of parts: older ones with an
//! index behind them (`indexed_part`), the newest indexed in memory (`memory_part`).
//!
//! Invariants: `len` covers whole operations that are visible or about to be, and grows only under the chunk's
//! lock; what stands behind it may be cut off. The state is replaced as a whole, so a reader sees each operation
//! in exactly one part. A segment of an earlier epoch is loaded when it is first read: its indexed parts through
//! the chain of part ends, its tail by a scan.
//!
//! Thread safety: reads never wait for writes, but the first read of an old segment loads it under a lock.

use crate::block::Block;
use crate::cache::CacheValue;
use crate::files::Promise;
use crate::files::StoreFile;
use crate::filter::bloom;
use crate::format::bounds::decode_bounds;
use crate::format::codec::{Decoder, Malformed};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::format::limits::RECORD_BYTES_MAX;
use crate::log::DirtyLog;
use crate::log::env::LogEnv;
use crate::log::index::indexed_part::{IndexRequest, IndexedPart, build_index};
use crate::log::index::memory_part::{MemoryHit, MemoryPart, Place};
use crate::log::index::parts::{Hole, Parts};
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::{LogOp, LogRecord, may_begin};
use crate::log::tail::file_end::{FileEnd, Places};
use crate::manifest::SegmentEdit;
use crate::read_ahead::Runs;
use crate::records::{RecordFile, record_payload};
use crate::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use crate::sync::on_use::OnUse;
use crate::sync::{Arc, Mutex};
use crate::types::entry::Kind;
use crate::types::entry::large_part;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use crossbeam_skiplist::SkipMap;
use std::ops::Bound;
use std::sync::Weak;

/// What a file takes at least of most file systems.
const PAGE_BYTES: u64 = 4096;

pub struct Segment {
    pub file: Arc<StoreFile>,
    order: KeyOrder,
    /// `None` until an old segment is loaded.
    parts: ArcSwapOption<Parts>,
    loading: Mutex<()>,
    /// What the manifest says of it.
    recorded: SegmentEdit,
    /// Whether there may be operations behind `recorded.len` that count.
    open_ended: bool,
    len: AtomicU64,
    pub garbage_bytes: AtomicU64,
    /// Bytes of keys and values of its puts.
    pub user_bytes: AtomicU64,
    /// How many these are.
    pub puts: AtomicU64,
    /// Of these bytes, those of large puts (`replaced`).
    pub large_bytes: AtomicU64,
    /// From where on it is not counted yet what its operations replaced; 0 if all is.
    uncounted_from: AtomicU64,
    /// Of its garbage, what snapshots below this version saw.
    pub pinned_bytes: AtomicU64,
    pub pinned_below: AtomicU64,
    /// The greatest version in it; 0 in one of an earlier epoch. Written under the lock of the chunk that appends
    /// to it.
    newest_version: AtomicU64,
    dirty: AtomicBool,
    tail: Tail,
    file_end: FileEnd,
    /// How long runs of its records were that scans read.
    pub runs: Arc<Runs>,
}

/// Records that are not in the file yet (`Durability::Buffered`).
#[derive(Default)]
struct Tail {
    records: OnUse<SkipMap<u64, Bytes>>,
    flushed: AtomicU64,
    flushing: Mutex<()>,
    /// Space for these records.
    promise: Option<Promise>,
}

impl Tail {
    fn is_empty(&self) -> bool {
        self.records.peek().is_none_or(SkipMap::is_empty)
    }

    /// What is buffered from `start` to before `end`.
    fn bytes(&self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((end - start) as usize);
        // Not by a range: what that has passed over is never freed when it is removed then (crossbeam issue 1178).
        let mut next = self.records.lower_bound(Bound::Included(&start));
        while let Some(record) = next.filter(|record| *record.key() < end) {
            debug_assert_eq!(*record.key(), start + bytes.len() as u64, "buffered records are contiguous");
            bytes.extend_from_slice(record.value());
            next = record.next();
        }
        bytes
    }

    /// Lets go of what the file has.
    fn forget_before(&self, flushed: u64) {
        while let Some(record) = self.records.front().filter(|record| *record.key() < flushed) {
            record.remove();
        }
    }
}

impl Segment {
    /// A new, empty segment.
    pub fn create(file: Arc<StoreFile>, header: FileHeader, env: &LogEnv) -> Self {
        let order = env.order.clone();
        let parts = Parts::new(header, Some(Arc::new(env.memory_part())), Vec::new());
        let mut segment =
            Self::unloaded(file, order, SegmentEdit { len: HEADER_BYTES, ..SegmentEdit::default() }, false);
        segment.tail.promise = Some(Promise::none(env.space.clone()));
        segment.parts.store(Some(Arc::new(parts)));
        segment
    }

    /// A segment of an earlier epoch. `open_ended`: the page cache outlived its writer, so that what follows
    /// the recorded length counts up to the first bad record.
    pub fn unloaded(file: Arc<StoreFile>, order: KeyOrder, recorded: SegmentEdit, open_ended: bool) -> Self {
        Self {
            file,
            order,
            parts: ArcSwapOption::empty(),
            loading: Mutex::new(()),
            recorded,
            open_ended,
            len: AtomicU64::new(recorded.len),
            garbage_bytes: AtomicU64::new(recorded.garbage_bytes),
            user_bytes: AtomicU64::new(recorded.user_bytes),
            puts: AtomicU64::new(recorded.puts),
            large_bytes: AtomicU64::new(recorded.large_bytes),
            uncounted_from: AtomicU64::new(recorded.uncounted_from),
            pinned_bytes: AtomicU64::new(0),
            pinned_below: AtomicU64::new(0),
            newest_version: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            tail: Tail { flushed: AtomicU64::new(u64::MAX), ..Tail::default() },
            file_end: FileEnd::default(),
            runs: Arc::default(),
        }
    }

    pub fn len(&self) -> u64 {
        self.len.load(Acquire)
    }

    pub fn set_len(&self, len: u64) {
        self.len.store(len, Release);
        self.file.set_bytes(len);
    }

    /// How long the log is; of one that is to be loaded, and may have grown behind what was recorded, how long its file is.
    pub fn file_len(&self) -> Result<u64> {
        if !self.open_ended || self.loaded().is_some() {
            return Ok(self.len());
        }
        self.file.handle()?.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))
    }

    /// The parts, if they are in memory.
    pub fn loaded(&self) -> Option<Arc<Parts>> {
        self.parts.load_full()
    }

    /// The parts, loaded if need be.
    pub fn parts(&self, env: &LogEnv) -> Result<Arc<Parts>> {
        if let Some(parts) = self.loaded() {
            return Ok(parts);
        }
        let _loading = self.loading.lock();
        if let Some(parts) = self.loaded() {
            return Ok(parts);
        }
        let parts = Arc::new(self.load(env)?);
        self.parts.store(Some(parts.clone()));
        Ok(parts)
    }

    /// The parts, if they are in memory and every operation is in an indexed one.
    pub fn all_indexed(&self) -> Option<Arc<Parts>> {
        self.loaded().filter(|parts| parts.memory.as_ref().is_none_or(|memory| memory.is_empty()))
    }

    /// Lets go of what can be loaded again. Only for segments of earlier epochs.
    pub fn unload(&self, env: &LogEnv) -> bool {
        let old = self.loaded().is_some_and(|parts| parts.header.epoch < env.epoch());
        if old {
            self.parts.store(None);
        }
        old
    }

    /// From where on it is not counted yet what its operations replaced; 0 if all is.
    pub fn uncounted_from(&self) -> u64 {
        self.uncounted_from.load(Relaxed)
    }

    /// What its operations replaced is counted.
    pub fn end_count(&self) {
        self.uncounted_from.store(0, Relaxed);
    }

    fn record_file(&self, header: FileHeader) -> Result<RecordFile> {
        Ok(RecordFile { file: self.file.handle()?, path: self.file.path.clone(), header })
    }

    fn load(&self, env: &LogEnv) -> Result<Parts> {
        let path = &self.file.path;
        let handle = self.file.handle()?;
        let file_bytes = handle.len().map_err(|e| Error::io(Attempt::Measure, path, e))?;
        if file_bytes < HEADER_BYTES && self.recorded.len <= HEADER_BYTES {
            // Created, and nothing more, before the power failed.
            let header = env.files.header_of(FileKind::Log, self.file.keyspace, self.file.id);
            return Ok(Parts::new(header, None, Vec::new()));
        }
        let header = FileHeader::read(&*handle, path, FileKind::Log)?;
        if header.store != env.files.store || header.file != self.file.id {
            return Err(Error::corruption(
                path,
                16,
                "the file belongs to another store or has another's name",
            ));
        }
        let records = RecordFile { file: handle, path: path.clone(), header };
        let (mut indexed, mut lost_end) = (Vec::new(), None);
        let (offset, len) = self.recorded.part;
        let mut next = Place { offset, len };
        while next.len != 0 {
            match read_part_end(&records, next, file_bytes) {
                Ok(part) => {
                    next = part.previous;
                    indexed.push(Arc::new(part));
                }
                Err(error) if error.is_corruption() => {
                    tracing::error!(%error, "an index of a log is lost: all of the log is read");
                    indexed.clear();
                    lost_end = Some(next);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        let tail_start = indexed.first().map_or(HEADER_BYTES, |part| part.at.offset + u64::from(part.at.len));
        if self.recorded.len > file_bytes {
            let what = format!("the log ends {} bytes too early", self.recorded.len - file_bytes);
            return Err(Error::corruption(path, file_bytes, what));
        }
        let end = if self.open_ended { file_bytes } else { self.recorded.len };
        let mut loader = Loader::new(env, self, header, indexed);
        loader.lost_end = lost_end;
        let len = loader.scan(&records, tail_start, end)?;
        // Since it was loaded last, if it ever was.
        let grown = len as i64 - self.len() as i64;
        if grown > 0 {
            let Found { user_bytes, puts, large_bytes } = loader.found;
            self.user_bytes.fetch_add(user_bytes, Relaxed);
            self.puts.fetch_add(puts, Relaxed);
            self.large_bytes.fetch_add(large_bytes, Relaxed);
            env.totals.user_bytes.fetch_add(user_bytes as i64, Relaxed);
            env.totals.puts.fetch_add(puts as i64, Relaxed);
            if self.uncounted_from() == 0 {
                self.uncounted_from.store(self.recorded.len.max(HEADER_BYTES), Relaxed);
            }
        }
        // Shares stay what they are.
        let claims = &self.file.claims;
        let (total, grown) = match claims.is_shared() {
            true => (&env.totals.unclaimed_bytes, claims.grow(grown)),
            false => (&env.totals.log_bytes, grown),
        };
        total.fetch_add(grown, Relaxed);
        self.set_len(len);
        tracing::debug!(path = %path.display(), scanned_bytes = len - tail_start, "loaded a log");
        Ok(loader.finish())
    }

    /// The operation at `place`: key and value.
    pub fn read_op(&self, header: &FileHeader, place: Place) -> Result<(Bytes, usize)> {
        self.op_of(header, place, self.read_payload(header, place)?)
    }

    pub fn op_of(&self, header: &FileHeader, place: Place, payload: Bytes) -> Result<(Bytes, usize)> {
        match LogRecord::decode(&payload, header.base_version) {
            Ok(LogRecord::Op(op)) => {
                let value_start = payload.len() - op.value.len();
                Ok((payload, value_start))
            }
            _ => Err(Error::corruption(
                &self.file.path,
                place.offset,
                "an index points to what is no operation",
            )),
        }
    }

    /// The value of the operation at `place`.
    pub fn read_value(&self, header: &FileHeader, place: Place) -> Result<Bytes> {
        let (payload, value_start) = self.read_op(header, place)?;
        Ok(payload.slice(value_start..))
    }

    fn read_payload(&self, header: &FileHeader, place: Place) -> Result<Bytes> {
        let len = place.len as usize;
        if place.offset >= self.tail.flushed.load(Acquire)
            && let Some(record) = self.tail.records.get(&place.offset)
        {
            let bytes = record.value().clone();
            return record_payload(header, &self.file.path, place.offset, bytes, len);
        }
        if let Some(bytes) = self.file_end.read(place.offset, len) {
            return record_payload(header, &self.file.path, place.offset, Bytes::from(bytes), len);
        }
        if let Some(bytes) = self.file_end.read_recent(place.offset, len) {
            return record_payload(header, &self.file.path, place.offset, Bytes::from(bytes), len);
        }
        self.record_file(*header)?.read(place.offset, len)
    }

    /// As [`Self::read_value`], of what was written lately; `None` if it was not.
    pub fn read_recent_value(&self, header: &FileHeader, place: Place) -> Result<Option<Bytes>> {
        let len = place.len as usize;
        let Some(bytes) = self.file_end.read_recent(place.offset, len) else { return Ok(None) };
        let payload = record_payload(header, &self.file.path, place.offset, Bytes::from(bytes), len)?;
        let (payload, value_start) = self.op_of(header, place, payload)?;
        Ok(Some(payload.slice(value_start..)))
    }

    /// A block of the index, through the cache.
    pub fn index_block(&self, env: &LogEnv, header: &FileHeader, place: Place) -> Result<Arc<Block>> {
        if let Some(CacheValue::Block(block)) = env.cache.get(self.file.id, place.offset) {
            return Ok(block);
        }
        let block = Arc::new(self.block_of(header, place, self.read_payload(header, place)?)?);
        env.cache.insert(self.file.id, place.offset, CacheValue::Block(block.clone()));
        Ok(block)
    }

    pub fn block_of(&self, header: &FileHeader, place: Place, payload: Bytes) -> Result<Block> {
        let Ok(LogRecord::Block(_)) = LogRecord::decode(&payload, header.base_version) else {
            return Err(Error::corruption(
                &self.file.path,
                place.offset,
                "an index points to what is no block",
            ));
        };
        Block::parse(payload.slice(1..), header.base_version).map_err(self.malformed_block(place))
    }

    /// The error of an index block that is not what it should be.
    pub fn malformed_block(&self, place: Place) -> impl Fn(Malformed) -> Error {
        move |what| Error::corruption(&self.file.path, place.offset, format!("an index block {}", what.0))
    }

    /// Whether the part's filter lets a key of this hash pass.
    pub fn may_contain(
        &self,
        env: &LogEnv,
        header: &FileHeader,
        part: &IndexedPart,
        hash: u64,
    ) -> Result<bool> {
        if part.filter.len == 0 {
            return Ok(true);
        }
        let (place, pieces) = part.filter_piece(hash);
        if let Some(CacheValue::Bytes(filter)) = env.cache.get(self.file.id, place.offset) {
            return Ok(bloom::may_contain_in_piece(&filter, hash, pieces));
        }
        let payload = self.read_payload(header, place)?;
        let Ok(LogRecord::Block(_)) = LogRecord::decode(&payload, header.base_version) else {
            return Err(Error::corruption(&self.file.path, place.offset, "a filter's place holds no filter"));
        };
        let filter = payload.slice(1..);
        env.cache.insert(self.file.id, place.offset, CacheValue::Bytes(filter.clone()));
        Ok(bloom::may_contain_in_piece(&filter, hash, pieces))
    }

    /// Scans the operations of a part from the file, in the order in which they were written.
    pub fn scan_part(
        &self,
        header: &FileHeader,
        part: &IndexedPart,
        mut visit: impl FnMut(Place, &crate::log::op::record::LogOp<'_>) -> Result<()>,
    ) -> Result<()> {
        let records = self.record_file(*header)?;
        let mut scan = records.scan(part.start, part.end);
        while let Some(record) = scan.next()? {
            let place = Place { offset: record.offset, len: record.len as u32 };
            match LogRecord::decode(record.payload, header.base_version) {
                Ok(LogRecord::Op(op)) => visit(place, &op)?,
                Ok(_) => {}
                Err(what) => {
                    return Err(Error::corruption(
                        &self.file.path,
                        place.offset,
                        format!("an operation {}", what.0),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Visits all operations that stand at `from` or behind it, in no order; range deletes excepted.
    pub fn for_each_since(
        &self,
        env: &LogEnv,
        from: u64,
        mut visit: impl FnMut(&[u8], MemoryHit),
    ) -> Result<()> {
        let parts = self.parts(env)?;
        for part in parts.indexed.iter().filter(|part| part.end > from) {
            self.scan_part(&parts.header, part, |place, op| {
                if place.offset >= from && op.kind != Kind::DeleteRange {
                    visit(op.key, MemoryHit { kind: op.kind, version: op.version, place });
                }
                Ok(())
            })?;
        }
        if let Some(memory) = &parts.memory {
            memory.for_each(|key, hit| {
                if hit.place.offset >= from {
                    visit(key, hit);
                }
            });
        }
        Ok(())
    }

    /// Whether a range delete stands at `from` or behind it.
    pub fn has_range_deletes_since(&self, env: &LogEnv, from: u64) -> Result<bool> {
        let parts = self.parts(env)?;
        let since = |tombstones: &[RangeTombstone]| tombstones.iter().any(|t| t.offset >= from);
        let in_memory = parts.memory.as_ref().is_some_and(|memory| since(&memory.tombstones()));
        Ok(in_memory || parts.indexed.iter().any(|part| since(&part.tombstones)))
    }

    /// Lets readers find what its newest part has only noted.
    pub fn settle_notes(&self) {
        if let Some(memory) = self.loaded().and_then(|parts| parts.memory.clone()) {
            memory.settle();
        }
    }

    /// No record has a greater version; for who holds the lock of a chunk that it belongs to.
    pub fn newest_version(&self) -> u64 {
        self.newest_version.load(Relaxed)
    }

    // What follows is for who holds the chunk's lock of an active segment.

    /// Appends `records` records at `offset`, the present end; does not publish them. `is_read`: by way of this log, as
    /// they are in no munk.
    pub fn append(
        &self,
        env: &LogEnv,
        (bytes, records): (&[u8], usize),
        offset: u64,
        is_read: bool,
    ) -> Result<()> {
        let recent = Some(&env.memory).filter(|_| is_read && env.options().recent_appends);
        let places = Places { write_buffer: env.write_buffer(), recent };
        self.file_end.append(&self.file, places, (bytes, records as u64), offset)
    }

    /// Nobody will append to it any more.
    pub fn end_appends(&self) {
        if let Err(error) = self.file_end.release(&self.file) {
            // The next checkpoint tries again.
            tracing::warn!(%error, "cannot drain a log");
        }
    }

    /// Keeps one record in memory until the next flush.
    pub fn buffer(&self, offset: u64, record: Bytes) {
        self.tail.records.insert(offset, record);
    }

    /// Forgets buffered records behind `len`.
    pub fn unbuffer(&self, len: u64) {
        let Some(records) = self.tail.records.peek() else { return };
        while let Some(record) = records.back().filter(|record| *record.key() >= len) {
            record.remove();
        }
    }

    /// Takes over the promise of space for records that were buffered.
    pub fn take_promise(&self, from: &Promise, bytes: u64) {
        if let Some(promise) = &self.tail.promise {
            from.hand_over(bytes, promise);
        }
    }

    /// The page that the first record to be promised space may begin in vain.
    pub fn unpromised_page(&self) -> u64 {
        if self.len() == HEADER_BYTES { PAGE_BYTES } else { 0 }
    }

    /// In a buffered segment everything from `offset` on is in memory until it is flushed.
    pub fn begin_buffering(&self) {
        self.tail.flushed.store(HEADER_BYTES, Release);
    }

    /// Writes what is buffered, in memory or in the write buffer, to the file.
    pub fn flush(&self) -> Result<()> {
        self.file_end.drain(&self.file)?;
        let _flushing = self.tail.flushing.lock();
        if self.tail.is_empty() {
            return Ok(());
        }
        let start = self.tail.flushed.load(Acquire);
        let end = self.len();
        let bytes = self.tail.bytes(start, end);
        self.file_end.write_from_memory(&self.file, &bytes, start)?;
        if let Some(promise) = &self.tail.promise {
            let page = if start == HEADER_BYTES { PAGE_BYTES } else { 0 };
            promise.redeem(bytes.len() as u64 + page);
        }
        // Readers look at `flushed` first: below it they read the file.
        let flushed = start + bytes.len() as u64;
        self.tail.flushed.store(flushed, Release);
        self.tail.forget_before(flushed);
        Ok(())
    }

    /// Bytes that wait for a flush.
    pub fn buffered_bytes(&self) -> u64 {
        if self.tail.is_empty() { 0 } else { self.len().saturating_sub(self.tail.flushed.load(Relaxed)) }
    }

    /// Takes back what was written behind `len`. When that fails, the segment must not be written any more.
    pub fn cut(&self, len: u64) -> Result<()> {
        self.file_end.cut(&self.file, len)
    }

    /// Makes what stands behind `len` no record, so that nobody who reads the log goes on there. For a segment that is not
    /// written any more.
    pub fn spoil(&self, len: u64) -> Result<()> {
        self.file_end.spoil(&self.file, len)
    }

    /// Indexes the memory part on disk and begins a new one. Up to `end` the log has so many operations. Returns where the log now ends. When that fails, half an index may
    /// stand behind `end`.
    pub fn seal_part(&self, env: &LogEnv, part_start: u64, end: u64, operations: u64) -> Result<u64> {
        let Some(parts) = self.loaded() else { return Ok(end) };
        let Some(memory) = parts.memory.as_ref().filter(|memory| !memory.is_empty()) else { return Ok(end) };
        self.flush()?;
        let request = IndexRequest {
            header: &parts.header,
            order: &self.order,
            memory: &env.memory,
            start: part_start,
            end,
            operations,
            previous: parts.indexed.first().map_or(Place { offset: 0, len: 0 }, |part| part.at),
            search: env.options().search,
            record_bytes_max: RECORD_BYTES_MAX,
        };
        let (bytes, part) = build_index(&request, memory)?;
        // By memory that may have been arranged by an order that failed.
        self.order.check()?;
        self.file_end.write_behind(&self.file, &bytes, end)?;
        let new_end = end + bytes.len() as u64;
        if self.tail.flushed.load(Relaxed) != u64::MAX {
            self.tail.flushed.store(new_end, Release);
        }
        env.counters.log_bytes_written.add(bytes.len() as u64);
        let mut indexed = Vec::with_capacity(parts.indexed.len() + 1);
        indexed.push(Arc::new(part));
        indexed.extend_from_slice(&parts.indexed);
        let memory = Some(Arc::new(env.memory_part()));
        self.parts.store(Some(Arc::new(Parts::new(parts.header, memory, indexed))));
        self.set_len(new_end);
        Ok(new_end)
    }

    /// A record of this version is written.
    pub fn note_version(&self, version: u64) {
        if self.newest_version() < version {
            self.newest_version.store(version, Relaxed);
        }
    }

    /// Marks the segment dirty; true if it was clean.
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.swap(true, AcqRel)
    }

    /// Makes the segment durable as it stands and says how long it is.
    pub fn sync(&self) -> Result<SegmentEdit> {
        // An exchange, so that whoever finds the mark still there has its write seen by what follows.
        self.dirty.swap(false, AcqRel);
        // Before the length: rather too few than what stands behind it, which a later opening counts again.
        let of = |count: &AtomicU64| count.load(Relaxed);
        let counts = SegmentEdit {
            garbage_bytes: of(&self.garbage_bytes),
            user_bytes: of(&self.user_bytes),
            puts: of(&self.puts),
            large_bytes: of(&self.large_bytes),
            uncounted_from: self.uncounted_from(),
            ..SegmentEdit::default()
        };
        let (len, part) = match self.loaded() {
            // The length is read first: a part sealed in between only lies behind it.
            Some(parts) => {
                let part = parts.indexed.first().map_or((0, 0), |part| (part.at.offset, part.at.len));
                (self.len().max(part.0 + u64::from(part.1)), part)
            }
            // Unloaded again: what lies behind the recorded part is scanned at the next loading.
            None => (self.len(), self.recorded.part),
        };
        self.flush()?;
        self.file_end.release(&self.file)?;
        self.file.sync()?;
        Ok(SegmentEdit { file: self.file.id, len, part, ..counts })
    }

    /// Whether a checkpoint must find out how long this segment of an earlier epoch is.
    pub fn is_unaccounted(&self) -> Result<bool> {
        let len = self.file.handle()?.len().map_err(|e| Error::io(Attempt::Measure, &self.file.path, e))?;
        Ok(self.open_ended && len != self.recorded.len)
    }
}

fn read_part_end(records: &RecordFile, at: Place, file_bytes: u64) -> Result<IndexedPart> {
    // Before memory is asked for.
    if at.offset.saturating_add(u64::from(at.len)) > file_bytes {
        return Err(Error::corruption(&records.path, at.offset, "the end of a log part lies beyond the log"));
    }
    let payload = records.read(at.offset, at.len as usize)?;
    match LogRecord::decode(&payload, records.header.base_version) {
        Ok(LogRecord::PartEnd(bytes)) => IndexedPart::decode(bytes, at).map_err(|what| {
            Error::corruption(&records.path, at.offset, format!("the end of a log part {}", what.0))
        }),
        _ => Err(Error::corruption(
            &records.path,
            at.offset,
            "a record is not the end of a log part, as the manifest says",
        )),
    }
}

impl DirtyLog for Segment {
    fn sync(&self) -> Result<SegmentEdit> {
        Segment::sync(self)
    }

    fn is_obsolete(&self) -> bool {
        !self.file.is_referenced()
    }
}

/// A segment of an earlier epoch whose end is not known yet. Accounting for it makes durable what was accepted
/// from a process that died.
pub struct OpenEnded {
    /// Not to keep alive: this waits in a list that the env itself reaches, and where nobody writes, it waits for ever.
    pub env: Weak<LogEnv>,
    pub segment: Arc<Segment>,
}

impl DirtyLog for OpenEnded {
    fn sync(&self) -> Result<SegmentEdit> {
        if !self.segment.is_unaccounted()? {
            return Ok(self.segment.recorded);
        }
        let Some(env) = self.env.upgrade() else { return Ok(self.segment.recorded) };
        match self.segment.parts(&env).and_then(|_| self.segment.sync()) {
            Err(error) if error.is_corruption() => {
                // It must not keep the rest from being safe, nor be forgotten: who reads it is told.
                tracing::error!(%error, "a log is damaged");
                let Ok(handle) = self.segment.file.handle() else { return Ok(self.segment.recorded) };
                let path = &self.segment.file.path;
                self.segment.file.sync()?;
                let file_bytes = handle.len().map_err(|e| Error::io(Attempt::Measure, path, e))?;
                Ok(SegmentEdit { len: file_bytes.max(self.segment.recorded.len), ..self.segment.recorded })
            }
            done => done,
        }
    }

    fn is_obsolete(&self) -> bool {
        !self.segment.file.is_referenced()
    }
}

/// Reads the tail of an old segment.
struct Loader<'a> {
    env: &'a LogEnv,
    segment: &'a Segment,
    header: FileHeader,
    memory: MemoryPart,
    indexed: Vec<Arc<IndexedPart>>,
    /// Those behind the indexed parts.
    holes: Vec<Hole>,
    /// How many of the holes are behind the last operation: the next tells what is lost there.
    open_holes: usize,
    /// How many operations the log has up to here.
    operations: u64,
    /// Operations of a write, which count once its last one is there.
    group: Vec<(Place, Vec<u8>)>,
    /// Where a part end is known to be damaged: no operation is lost there.
    lost_end: Option<Place>,
    found: Found,
}

/// Puts behind the segment's length as it was known before.
#[derive(Default)]
struct Found {
    user_bytes: u64,
    puts: u64,
    large_bytes: u64,
}

impl<'a> Loader<'a> {
    fn new(
        env: &'a LogEnv,
        segment: &'a Segment,
        header: FileHeader,
        indexed: Vec<Arc<IndexedPart>>,
    ) -> Self {
        let operations = indexed.first().map_or(0, |part| part.operations);
        let (memory, holes, group) = (env.memory_part(), Vec::new(), Vec::new());
        Self {
            env,
            segment,
            header,
            memory,
            indexed,
            holes,
            open_holes: 0,
            operations,
            group,
            lost_end: None,
            found: Found::default(),
        }
    }

    /// Takes in the operations between `from` and `end`; returns where they really end.
    fn scan(&mut self, records: &RecordFile, from: u64, end: u64) -> Result<u64> {
        let mut scan = records.scan(from, end);
        let mut whole = from;
        loop {
            let offset = scan.offset();
            let error = match scan.next() {
                Ok(Some(record)) => {
                    let place = Place { offset, len: record.len as u32 };
                    match self.take_record(place, record.payload) {
                        Ok(true) => whole = offset + u64::from(place.len),
                        Ok(false) => {}
                        Err(what) => {
                            let what = format!("a log record {}", what.0);
                            self.lose(Error::corruption(&records.path, offset, what), offset);
                        }
                    }
                    continue;
                }
                Ok(None) => break,
                Err(error) if error.is_corruption() => error,
                Err(error) => return Err(error),
            };
            if let Some(lost) = self.lost_end.filter(|lost| lost.offset == offset) {
                whole = (offset + u64::from(lost.len)).min(end);
                scan = records.scan(whole, end);
                continue;
            }
            let head = records.head_at(offset, end)?.filter(|head| head.total <= end - offset);
            let behind = head.as_ref().map_or(offset + 1, |head| offset + head.total);
            let follows = records.head_after(behind, end, may_begin, |_| true)?;
            // The writer appended one record behind the other: if another follows, this one was damaged since; else the first bad
            // record behind the recorded length is where the writer died.
            if follows.is_none() && offset >= self.segment.recorded.len && self.segment.open_ended {
                return Ok(whole);
            }
            tracing::error!(%error, "a log is damaged");
            // What follows proves that the write had been appended whole.
            self.end_group();
            let next = match head {
                // Right behind it there may be more damage.
                Some(head) => {
                    // Its length is less than the file's.
                    let place = Place { offset, len: head.total as u32 };
                    if !self.take_head(place, &head.payload) {
                        self.lose(error, offset);
                    }
                    behind
                }
                None => {
                    self.lose(error, offset);
                    follows.unwrap_or(end)
                }
            };
            whole = next;
            scan = records.scan(next, end);
        }
        Ok(whole)
    }

    /// Operations may be lost from there on.
    fn lose(&mut self, error: Error, offset: u64) {
        self.holes.push(Hole { offset, digest: None, error });
        self.open_holes += 1;
    }

    /// Takes in a record; says whether all that is needed of its write is there.
    fn take_record(&mut self, place: Place, payload: &[u8]) -> std::result::Result<bool, Malformed> {
        match LogRecord::decode(payload, self.header.base_version)? {
            LogRecord::Op(op) => {
                if op.kind == Kind::DeleteRange {
                    decode_bounds(&mut Decoder::new(op.value))?;
                }
                self.take_op(place, &op, payload);
                Ok(!op.more)
            }
            LogRecord::Block(_) => Ok(true),
            LogRecord::PartEnd(bytes) => {
                let part = IndexedPart::decode(bytes, place)?;
                // If the end of the part before is lost, operations stand in between that no index has.
                let last = self.indexed.first().map_or(0, |last| last.at.offset);
                if part.previous.offset == last {
                    // It knows the keys of all its operations, damaged or not.
                    self.holes.clear();
                    self.open_holes = 0;
                    self.operations = part.operations;
                    self.memory = self.env.memory_part();
                    self.indexed.insert(0, Arc::new(part));
                }
                Ok(true)
            }
        }
    }

    /// Takes in an operation whose value is damaged: who reads it is told. `false` if the head does not say what it was.
    fn take_head(&mut self, place: Place, head: &[u8]) -> bool {
        match LogRecord::decode(head, self.header.base_version) {
            Ok(LogRecord::Op(op)) if op.kind != Kind::DeleteRange => {
                self.take_op(place, &op, head);
                true
            }
            _ => false,
        }
    }

    fn take_op(&mut self, place: Place, op: &LogOp<'_>, payload: &[u8]) {
        let lost = op.link.ordinal.saturating_sub(self.operations);
        if lost > 0 && self.open_holes == 0 {
            let what = format!("{lost} operations before this one are missing");
            self.lose(Error::corruption(&self.segment.file.path, place.offset, what), place.offset);
        }
        if self.open_holes > 0 {
            let only = op.link.previous_key().filter(|_| lost == 1 && self.env.order.hashable());
            let open = self.holes.split_off(self.holes.len() - self.open_holes);
            // Where no operation is missing, the index of a part was damaged.
            self.holes
                .extend(open.into_iter().filter(|_| lost > 0).map(|hole| Hole { digest: only, ..hole }));
            self.open_holes = 0;
        }
        self.operations = op.link.ordinal.saturating_add(1);
        self.group.push((place, payload.to_vec()));
        if !op.more {
            self.end_group();
        }
    }

    fn end_group(&mut self) {
        for (place, payload) in std::mem::take(&mut self.group) {
            // It was decoded before.
            let _ = self.take(place, &payload);
        }
    }

    fn take(&mut self, place: Place, payload: &[u8]) -> std::result::Result<(), Malformed> {
        let LogRecord::Op(op) = LogRecord::decode(payload, self.header.base_version)? else { return Ok(()) };
        if !self.env.recovery.counts(self.header.epoch, op.version, op.batch) {
            return Ok(());
        }
        if op.kind == Kind::Put && place.offset >= self.segment.len() {
            let user_bytes = (op.key.len() + op.value.len()) as u64;
            self.found.user_bytes += user_bytes;
            self.found.puts += 1;
            self.found.large_bytes += large_part(user_bytes);
        }
        if op.kind == Kind::DeleteRange {
            let bounds = decode_bounds(&mut Decoder::new(op.value))?;
            self.memory.insert_tombstone(RangeTombstone {
                bounds,
                version: op.version,
                offset: place.offset,
                cell: None,
            });
        } else {
            self.memory.insert(op.key, op.version, op.kind, place, None);
        }
        Ok(())
    }

    fn finish(self) -> Parts {
        let memory = (!self.memory.is_empty()).then(|| Arc::new(self.memory));
        Parts::new(self.header, memory, self.indexed).with_holes(self.holes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushed_records_of_a_buffered_store_are_freed() {
        struct Record(Arc<AtomicU64>);
        impl AsRef<[u8]> for Record {
            fn as_ref(&self) -> &[u8] {
                b"record"
            }
        }
        impl Drop for Record {
            fn drop(&mut self) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let (tail, freed) = (Tail::default(), Arc::new(AtomicU64::new(0)));
        for number in 0..1_000 {
            tail.records.insert(number * 6, Bytes::from_owner(Record(freed.clone())));
        }
        assert_eq!(tail.bytes(60, 6_000), b"record".repeat(990));
        tail.forget_before(6_000);
        assert!(tail.records.is_empty());
        // What is removed is freed a while after, by whoever uses such a list, once nobody is left who might still read it; fewer
        // than 64 wait for others to go with them.
        for _ in 0..60_000 {
            if freed.load(Relaxed) > 1_000 - 64 {
                return;
            }
            (0..1000).for_each(|_| assert!(tail.records.get(&0).is_none()));
            crate::sync::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("{} of 1,000 records were freed", freed.load(Relaxed));
    }
}
