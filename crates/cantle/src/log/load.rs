//! Loading a segment of an earlier epoch: its indexed parts through the chain of part ends, its tail by a scan.

use crate::format::bounds::decode_bounds;
use crate::format::codec::{Decoder, Malformed};
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::env::LogEnv;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::memory_part::{MemoryPart, RecordPtr};
use crate::log::index::parts::{Hole, Parts};
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::{Link, LogOp, LogRecord, Revoke, may_begin};
use crate::log::segment::Segment;
use crate::records::RecordFile;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::entry::Kind;
use crate::types::entry::large_part;
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;

impl Segment {
    pub(super) fn load(&self, env: &LogEnv) -> Result<Parts> {
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
        let mut next = RecordPtr { offset, len };
        while next.len != 0 {
            match read_part_end(&records, next, file_bytes, &env.order) {
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
        let load = |revoked| -> Result<(Loader<'_>, u64)> {
            let mut loader = Loader::new(env, self, header, indexed.clone(), revoked);
            loader.lost_end = lost_end;
            let len = loader.scan(&records, tail_start, end)?;
            Ok((loader, len))
        };
        let (mut loader, mut len) = load(Vec::new())?;
        if !loader.revokes.is_empty() {
            // Revokes stand after the writes that they revoke.
            let revoked = std::mem::take(&mut loader.revokes);
            (loader, len) = load(revoked)?;
        }
        // Growth since it was loaded last, if it ever was.
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
        // Shares of a shared file do not change.
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
}

fn read_part_end(
    records: &RecordFile,
    at: RecordPtr,
    file_bytes: u64,
    order: &KeyOrder,
) -> Result<IndexedPart> {
    // Checked before memory is allocated.
    if at.offset.saturating_add(u64::from(at.len)) > file_bytes {
        return Err(Error::corruption(&records.path, at.offset, "the end of a log part lies beyond the log"));
    }
    let payload = records.read(at.offset, at.len as usize)?;
    match LogRecord::decode(&payload, records.header.base_version) {
        Ok(LogRecord::PartEnd(bytes)) => IndexedPart::decode(bytes, at, order).map_err(|what| {
            Error::corruption(&records.path, at.offset, format!("the end of a log part {}", what.0))
        }),
        _ => Err(Error::corruption(
            &records.path,
            at.offset,
            "a record is not the end of a log part, as the manifest says",
        )),
    }
}

/// Reads the tail of an old segment.
struct Loader<'a> {
    env: &'a LogEnv,
    segment: &'a Segment,
    header: FileHeader,
    memory: MemoryPart,
    indexed: Vec<Arc<IndexedPart>>,
    /// Holes after the indexed parts.
    holes: Vec<Hole>,
    /// Number of holes after the last operation: the link of the next one says what is lost there.
    open_holes: usize,
    /// Number of operations in the log up to here.
    operations: u64,
    /// Operations of a write. They count once its last one was read.
    group: Vec<(RecordPtr, Vec<u8>)>,
    /// Place of a part end that is known to be damaged: no operation is lost there.
    lost_end: Option<RecordPtr>,
    /// Revokes whose writes do not count.
    revoked: Vec<Revoke>,
    /// The revokes read so far.
    revokes: Vec<Revoke>,
    found: Found,
}

/// Puts after the length of the segment as it was known before.
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
        revoked: Vec<Revoke>,
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
            revoked,
            revokes: Vec::new(),
            found: Found::default(),
        }
    }

    /// Reads the operations between `from` and `end`; returns their real end.
    fn scan(&mut self, records: &RecordFile, from: u64, end: u64) -> Result<u64> {
        let mut scan = records.scan(from, end);
        let mut whole = from;
        loop {
            let offset = scan.offset();
            let error = match scan.next() {
                Ok(Some(record)) => {
                    let place = RecordPtr { offset, len: record.len as u32 };
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
            // The writer appended one record after the other. If another record follows, this one
            // was damaged since. Otherwise the first bad record after the recorded length is where
            // the writer died.
            if follows.is_none() && offset >= self.segment.recorded.len && self.segment.open_ended {
                return Ok(whole);
            }
            tracing::error!(%error, "a log is damaged");
            // A later record proves that the write had been appended whole.
            self.end_group();
            let next = match head {
                // There may be more damage directly after it.
                Some(head) => {
                    // The record's length is less than the file's.
                    let place = RecordPtr { offset, len: head.total as u32 };
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

    /// Operations may be lost from this offset on.
    fn lose(&mut self, error: Error, offset: u64) {
        self.holes.push(Hole { offset, digest: None, error });
        self.open_holes += 1;
    }

    /// Applies a record. True if its write is complete with it.
    fn take_record(&mut self, place: RecordPtr, payload: &[u8]) -> std::result::Result<bool, Malformed> {
        match LogRecord::decode(payload, self.header.base_version)? {
            LogRecord::Op(op) => {
                if op.kind == Kind::DeleteRange {
                    decode_bounds(&mut Decoder::new(op.value))?;
                }
                // If another write stands at its place, the revoke does not apply.
                self.revoked.retain(|revoke| !revoke.contradicts(place.offset, payload));
                self.take_op(place, &op, payload);
                Ok(!op.more)
            }
            LogRecord::Block(_) => Ok(true),
            LogRecord::Revoke(revoke) => {
                self.take_link(place, revoke.link);
                self.revokes.push(revoke);
                Ok(true)
            }
            LogRecord::PartEnd(bytes) => {
                let part = IndexedPart::decode(bytes, place, &self.env.order)?;
                // If the end of the previous part is lost, there are operations in between that are
                // in no index.
                let last = self.indexed.first().map_or(0, |last| last.at.offset);
                if part.previous.offset == last {
                    // The part's index has the keys of all its operations, damaged or not.
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

    /// Applies an operation with a damaged value: a read of the value fails. False if the head does
    /// not identify the operation.
    fn take_head(&mut self, place: RecordPtr, head: &[u8]) -> bool {
        match LogRecord::decode(head, self.header.base_version) {
            Ok(LogRecord::Op(op)) if op.kind != Kind::DeleteRange => {
                self.take_op(place, &op, head);
                true
            }
            _ => false,
        }
    }

    fn take_op(&mut self, place: RecordPtr, op: &LogOp<'_>, payload: &[u8]) {
        self.take_link(place, op.link);
        self.group.push((place, payload.to_vec()));
        if !op.more {
            self.end_group();
        }
    }

    /// Determines from an operation's link what is lost before it.
    fn take_link(&mut self, place: RecordPtr, link: Link) {
        let lost = link.ordinal.saturating_sub(self.operations);
        if lost > 0 && self.open_holes == 0 {
            let what = format!("{lost} operations before this one are missing");
            self.lose(Error::corruption(&self.segment.file.path, place.offset, what), place.offset);
        }
        if self.open_holes > 0 {
            let only = link.previous_key().filter(|_| lost == 1 && self.env.order.hashable());
            let open = self.holes.split_off(self.holes.len() - self.open_holes);
            // If no operation is missing, the damage is in the index of a part.
            self.holes
                .extend(open.into_iter().filter(|_| lost > 0).map(|hole| Hole { digest: only, ..hole }));
            self.open_holes = 0;
        }
        self.operations = link.ordinal.saturating_add(1);
    }

    fn end_group(&mut self) {
        for (place, payload) in std::mem::take(&mut self.group) {
            if self.revoked.iter().any(|revoke| revoke.covers(place.offset)) {
                continue;
            }
            if let Err(what) = self.take(place, &payload) {
                let what = format!("a log record {}", what.0);
                self.lose(Error::corruption(&self.segment.file.path, place.offset, what), place.offset);
            }
        }
    }

    fn take(&mut self, place: RecordPtr, payload: &[u8]) -> std::result::Result<(), Malformed> {
        let LogRecord::Op(op) = LogRecord::decode(payload, self.header.base_version)? else { return Ok(()) };
        if !self.env.recovery.counts(self.header.epoch, op.version, op.batch) {
            return Ok(());
        }
        if op.kind == Kind::Put && place.offset >= self.segment.len() {
            let user_bytes = (op.key.len() + op.value.len()) as u64;
            self.found.user_bytes += user_bytes;
            self.found.puts += 1;
            self.found.large_bytes += large_part(user_bytes, self.env.large_from);
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
            let inserted = self.memory.try_insert(op.key, op.version, op.kind, place);
            inserted.map_err(|_| Malformed("is one of more than a part of a log may have"))?;
        }
        Ok(())
    }

    fn finish(self) -> Parts {
        let memory = (!self.memory.is_empty()).then(|| Arc::new(self.memory));
        Parts::new(self.header, memory, self.indexed).with_holes(self.holes)
    }
}
