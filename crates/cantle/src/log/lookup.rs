//! Reading from a place in a segment: operations, values, blocks of its index, filters.

use crate::block::Block;
use crate::cache::CacheValue;
use crate::fetch::{Directly, Fetch, Place};
use crate::filter::bloom;
use crate::format::codec::Malformed;
use crate::format::header::FileHeader;
use crate::log::env::LogEnv;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::memory_part::{MemoryHit, RecordPtr};
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::index::stretch::block_of_stretch;
use crate::log::op::record::LogRecord;
use crate::log::segment::Segment;
use crate::records::{record_head, record_payload};
use crate::sync::Arc;
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};
use bytes::Bytes;

impl Segment {
    pub fn op_of(&self, header: &FileHeader, place: RecordPtr, payload: Bytes) -> Result<(Bytes, usize)> {
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
    pub fn read_value(&self, header: &FileHeader, place: RecordPtr) -> Result<Bytes> {
        self.fetch_value(header, place, &Directly)
    }

    /// The same.
    pub fn fetch_value<F: Fetch>(
        &self,
        header: &FileHeader,
        place: RecordPtr,
        fetch: &F,
    ) -> Result<Bytes, F::Stop> {
        let payload = self.fetch_payload(header, place, fetch)?;
        let (payload, value_start) = self.op_of(header, place, payload)?;
        Ok(payload.slice(value_start..))
    }

    fn fetch_payload<F: Fetch>(
        &self,
        header: &FileHeader,
        place: RecordPtr,
        fetch: &F,
    ) -> Result<Bytes, F::Stop> {
        let bytes = self.fetch_bytes(header, place, fetch)?;
        Ok(record_payload(header, &self.file.path, place.offset, bytes, place.len as usize)?)
    }

    /// The bytes at `place`, from memory or from the file.
    fn fetch_bytes<F: Fetch>(
        &self,
        header: &FileHeader,
        place: RecordPtr,
        fetch: &F,
    ) -> Result<Bytes, F::Stop> {
        let (offset, len) = (place.offset, place.len as usize);
        if let Some(bytes) = self.tail.read(offset, len) {
            return Ok(Bytes::from(bytes));
        }
        let place = Place { file: self.file.id, offset, len: len as u64 };
        fetch.bytes(place, || self.file.handle(), || self.record_file(*header)?.read_bytes(offset, len))
    }

    /// The payload of the record at `place`, if the tail has it in memory.
    fn read_in_memory(&self, header: &FileHeader, place: RecordPtr) -> Option<Result<Bytes>> {
        let len = place.len as usize;
        let bytes = self.tail.read(place.offset, len)?;
        Some(record_payload(header, &self.file.path, place.offset, Bytes::from(bytes), len))
    }

    /// As [`Self::read_value`]; `None` if the tail does not have the record in memory.
    pub fn read_value_in_memory(&self, header: &FileHeader, place: RecordPtr) -> Result<Option<Bytes>> {
        let Some(payload) = self.read_in_memory(header, place) else { return Ok(None) };
        let (payload, value_start) = self.op_of(header, place, payload?)?;
        Ok(Some(payload.slice(value_start..)))
    }

    /// A block of the index, through the cache.
    pub fn index_block(&self, env: &LogEnv, header: &FileHeader, place: RecordPtr) -> Result<Arc<Block>> {
        self.fetch_index_block(env, header, place, &Directly)
    }

    /// The same.
    pub fn fetch_index_block<F: Fetch>(
        &self,
        env: &LogEnv,
        header: &FileHeader,
        place: RecordPtr,
        fetch: &F,
    ) -> Result<Arc<Block>, F::Stop> {
        let load = || {
            let bytes = self.fetch_bytes(header, place, fetch)?;
            Ok(Arc::new(self.block_of(header, place, &bytes)?))
        };
        match fetch.entry(&env.cache, self.file.id, place.offset, || load().map(CacheValue::Block))? {
            CacheValue::Block(block) => Ok(block),
            CacheValue::Bytes(_) => load(),
        }
    }

    /// The block of an index that these bytes of the place hold, or the one of a stretch.
    pub fn block_of(&self, header: &FileHeader, place: RecordPtr, bytes: &Bytes) -> Result<Block> {
        let (head, _) = record_head(header, &self.file.path, place.offset, bytes)?;
        match LogRecord::decode(head, header.base_version) {
            Ok(LogRecord::Op(_)) => {
                return block_of_stretch((header, &self.file.path), &self.order, place.offset, bytes);
            }
            Ok(LogRecord::Block(_)) => {}
            _ => {
                let what = "an index points to what is no block";
                return Err(Error::corruption(&self.file.path, place.offset, what));
            }
        }
        let payload =
            record_payload(header, &self.file.path, place.offset, bytes.clone(), place.len as usize)?;
        Block::parse(payload.slice(1..), header.base_version).map_err(self.malformed_block(place))
    }

    /// The error for an index block that is malformed.
    pub fn malformed_block(&self, place: RecordPtr) -> impl Fn(Malformed) -> Error {
        move |what| Error::corruption(&self.file.path, place.offset, format!("an index block {}", what.0))
    }

    /// True if the part's filter does not exclude a key of this hash.
    pub fn may_contain<F: Fetch>(
        &self,
        env: &LogEnv,
        header: &FileHeader,
        part: &IndexedPart,
        hash: u64,
        fetch: &F,
    ) -> Result<bool, F::Stop> {
        if part.filter.len == 0 {
            return Ok(true);
        }
        let (place, pieces) = part.filter_piece(hash);
        let load = || {
            let payload = self.fetch_payload(header, place, fetch)?;
            let Ok(LogRecord::Block(_)) = LogRecord::decode(&payload, header.base_version) else {
                let what = "a filter's place holds no filter";
                return Err(Error::corruption(&self.file.path, place.offset, what).into());
            };
            Ok(payload.slice(1..))
        };
        let filter =
            match fetch.entry(&env.cache, self.file.id, place.offset, || load().map(CacheValue::Bytes))? {
                CacheValue::Bytes(filter) => filter,
                CacheValue::Block(_) => load()?,
            };
        Ok(bloom::may_contain_in_piece(&filter, hash, pieces))
    }

    /// Scans the operations of a part from the file, in the order in which they were written.
    pub fn scan_part(
        &self,
        header: &FileHeader,
        part: &IndexedPart,
        mut visit: impl FnMut(RecordPtr, &crate::log::op::record::LogOp<'_>) -> Result<()>,
    ) -> Result<()> {
        let records = self.record_file(*header)?;
        let mut scan = records.scan(part.start, part.end);
        while let Some(record) = scan.next()? {
            let place = RecordPtr { offset: record.offset, len: record.len as u32 };
            match LogRecord::decode(record.payload, header.base_version) {
                Ok(LogRecord::Op(op)) => {
                    let covers = |&(offset, bytes): &(u64, u64)| {
                        (offset..offset.saturating_add(bytes)).contains(&place.offset)
                    };
                    if !part.voids.iter().any(covers) {
                        visit(place, &op)?;
                    }
                }
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

    /// Visits all operations at `from` or after it, except range deletes, in no order.
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

    /// True if there is a range delete at `from` or after it.
    pub fn has_range_deletes_since(&self, env: &LogEnv, from: u64) -> Result<bool> {
        let parts = self.parts(env)?;
        let since = |tombstones: &RangeDeletes| tombstones.iter().any(|t| t.offset >= from);
        let in_memory = parts.memory.as_ref().is_some_and(|memory| since(&memory.tombstones()));
        Ok(in_memory || parts.indexed.iter().any(|part| since(&part.tombstones)))
    }
}
