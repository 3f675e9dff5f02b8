//! Indexed records of a log that are read together, instead of by one call each.
//!
//! A merge reads all of a log at once, if there is memory for it, and otherwise a
//! [`batch`](super::batch) at a time: in key order, records lie anywhere in the log. A scan reads
//! ahead when it finds that records are adjacent, as after a load in key order. It does so from its
//! first record on if the records of previous scans were.
//!
//! All indexed records are in the file: a part is flushed before it is indexed.

use crate::block::Block;
use crate::format::header::FileHeader;
use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::parts::Parts;
use crate::log::segment::Segment;
use crate::memory::charged::ChargedBuffer;
use crate::memory::pages::Buffer;
use crate::read_ahead::{Run, SCAN_BYTES};
use crate::records::record_payload;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs;
use bytes::Bytes;

/// Maximum gap in bytes between two records that are read together.
pub const GAP_BYTES: u64 = 16 << 10;

fn read_into(segment: &Segment, bytes: &mut [u8], at: u64) -> Result<usize> {
    let handle = segment.file.handle()?;
    handle.read_at(bytes, at).map_err(|e| Error::io(Attempt::Read, &segment.file.path, e))
}

/// A part of a log's file in memory. If the file ends too early, the error has the place of the
/// missing bytes.
#[derive(Default)]
pub struct ReadBuffer {
    at: u64,
    pub bytes: Bytes,
}

impl ReadBuffer {
    /// All indexed parts of the log; `None` if other merges use the memory.
    pub fn of_indexed(env: &LogEnv, segment: &Segment, parts: &Parts) -> Result<Option<Self>> {
        let len = indexed_end(parts);
        let Some(counted) = env.charge_merged_log(len) else { return Ok(None) };
        let Some(mut memory) = ChargedBuffer::new(len as usize, Some(counted)) else { return Ok(None) };
        let read = read_into(segment, memory.buffer.as_mut(), 0)?;
        Ok(Some(Self { at: 0, bytes: Bytes::from_owner(memory).slice(..read) }))
    }

    /// `len` bytes from `at` on.
    pub fn read(segment: &Segment, at: u64, len: u64) -> Result<Self> {
        let Some(mut buffer) = Buffer::new(len as usize) else { return Ok(Self::default()) };
        let read = read_into(segment, buffer.as_mut(), at)?;
        Ok(Self { at, bytes: Bytes::from_owner(buffer).slice(..read) })
    }

    /// Reads all of these places, each an offset and a length, together; `None` for each that
    /// cannot be read.
    pub fn read_all(env: &LogEnv, segment: &Segment, places: &[(u64, u64)]) -> Result<Vec<Option<Self>>> {
        let handle = segment.file.handle()?;
        let buffers = places.iter().map(|&(at, len)| Some((at, Buffer::new(usize::try_from(len).ok()?)?)));
        let mut buffers: Vec<Option<(u64, Buffer)>> = buffers.collect();
        let mut wanted: Vec<vfs::ReadRequest<'_>> = buffers
            .iter_mut()
            .flatten()
            .map(|(at, buffer)| vfs::ReadRequest { file: &*handle, offset: *at, buffer: buffer.as_mut() })
            .collect();
        let mut outcomes = env.queue.read_all(&mut wanted).into_iter();
        let buffer = |buffer: Option<(u64, Buffer)>| {
            let (at, buffer) = buffer?;
            let read = outcomes.next()?.ok()?;
            Some(Self { at, bytes: Bytes::from_owner(buffer).slice(..read) })
        };
        Ok(buffers.into_iter().map(buffer).collect())
    }

    pub fn contains(&self, place: RecordPtr) -> bool {
        self.at <= place.offset
            && place.offset.saturating_add(u64::from(place.len)) <= self.at + self.bytes.len() as u64
    }

    /// As [`Segment::read_value`]. The value shares the buffer's memory.
    pub fn value(&self, segment: &Segment, header: &FileHeader, place: RecordPtr) -> Result<Bytes> {
        let payload = self.payload(segment, header, place)?;
        let (payload, value_start) = segment.op_of(header, place, payload)?;
        Ok(payload.slice(value_start..))
    }

    /// As [`Segment::index_block`], bypassing the cache.
    pub fn block(&self, segment: &Segment, header: &FileHeader, place: RecordPtr) -> Result<Arc<Block>> {
        segment.block_of(header, place, &self.bytes_at(place)).map(Arc::new)
    }

    fn payload(&self, segment: &Segment, header: &FileHeader, place: RecordPtr) -> Result<Bytes> {
        record_payload(header, &segment.file.path, place.offset, self.bytes_at(place), place.len as usize)
    }

    /// The bytes at a place, as far as they are here.
    fn bytes_at(&self, place: RecordPtr) -> Bytes {
        let end = self.bytes.len();
        let start = place.offset.checked_sub(self.at).map_or(end, |start| start.min(end as u64) as usize);
        self.bytes.slice(start..start.saturating_add(place.len as usize).min(end))
    }
}

fn indexed_end(parts: &Parts) -> u64 {
    parts.indexed.first().map_or(0, |part| part.at.offset + u64::from(part.at.len))
}

/// Number of reads of a log by the cursors of a merge.
pub type Reads = Arc<AtomicU64>;

/// The state of a scan that reads ahead.
#[derive(Default)]
pub struct ReadAhead {
    reads: Reads,
    pub buffer: ReadBuffer,
    run: Run,
}

impl ReadAhead {
    pub fn new(reads: Reads) -> Self {
        Self { reads, buffer: ReadBuffer::default(), run: Run::default() }
    }

    /// As [`Segment::read_value`], for an indexed record. The value does not share the buffer's
    /// memory.
    pub fn value(&mut self, segment: &Segment, parts: &Parts, place: RecordPtr) -> Result<Bytes> {
        if let Some(value) = segment.read_value_in_memory(&parts.header, place)? {
            return Ok(value);
        }
        let at = (place.offset, u64::from(place.len));
        self.run.visit(at, GAP_BYTES, Some(&segment.runs));
        if !self.buffer.contains(place) {
            self.reads.fetch_add(1, Relaxed);
            let room = indexed_end(parts).saturating_sub(place.offset);
            let window = self.run.window(at, SCAN_BYTES).min(room);
            if window < u64::from(place.len) {
                return segment.read_value(&parts.header, place);
            }
            match ReadBuffer::read(segment, place.offset, window) {
                Ok(buffer) => self.buffer = buffer,
                // The bytes further ahead may never be needed.
                Err(_) => return segment.read_value(&parts.header, place),
            }
        }
        self.buffer.value(segment, &parts.header, place).map(|value| Bytes::copy_from_slice(&value))
    }
}
