//! The values of a log's part that a merge needs next, read in the order of the file.
//!
//! In key order the records of a log lie anywhere. A merge that cannot have all of a log in memory,
//! or needs little of it, as one of many chunks that share it since they were split, finds in the
//! index which records come next. Those that are near one another in the file are read by one call,
//! with the gaps between them.

use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::parts::Parts;
use crate::log::read::ahead::{GAP_BYTES, ReadBuffer};
use crate::log::segment::Segment;
use crate::memory::account::Charge;
use crate::memory::charged::ChargedBuffer;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of records that are read together for one part, if the account of merges has room for
/// them.
pub const BATCH_BYTES: u64 = 512 << 10;
/// Bytes of records that are read together if the account has no room.
const BATCH_BYTES_MIN: u64 = 64 << 10;
/// Maximum bytes that are read by one call, or by several calls that are made together.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A record that will be needed.
pub struct WantedRecord {
    pub key: Bytes,
    pub place: RecordPtr,
}

/// Values of records with neighbouring keys.
#[derive(Default)]
pub struct FileOrderReads {
    /// The values by the offset of their record.
    values: HashMap<u64, Bytes>,
    /// The key of the last record that was requested.
    last_key: Option<Bytes>,
}

impl FileOrderReads {
    /// Reads the first ones of `wanted`, which are in key order.
    pub fn read(
        env: &LogEnv,
        segment: &Segment,
        parts: &Parts,
        mut wanted: Vec<WantedRecord>,
    ) -> Result<Self> {
        let bytes =
            |wanted: &[WantedRecord]| wanted.iter().map(|wanted| u64::from(wanted.place.len)).sum::<u64>();
        let mut counted = env.memory.merges.charge(bytes(&wanted));
        if counted.is_none() {
            let mut left = BATCH_BYTES_MIN;
            let fits = |wanted: &&WantedRecord| {
                let fits = left >= u64::from(wanted.place.len);
                left = left.saturating_sub(u64::from(wanted.place.len));
                fits
            };
            // At least one is read in any case.
            let count = wanted.iter().take_while(fits).count().max(1);
            wanted.truncate(count);
            counted = env.memory.merges.charge_anyway(bytes(&wanted));
        }
        let last_key = wanted.last().map(|last| last.key.clone());
        let mut places: Vec<RecordPtr> = wanted.into_iter().map(|wanted| wanted.place).collect();
        places.sort_unstable_by_key(|place| place.offset);
        env.counters.log_batches.add(1);
        let runs: Vec<&[RecordPtr]> = runs(&places).collect();
        // Lengths are not checked yet: this happens when the records are read.
        let len = |place: &RecordPtr| u64::from(place.len).min(READ_BYTES_MAX);
        let mut values = Values::new(runs.iter().flat_map(|run| *run).map(len).sum(), counted);
        let mut rest = &runs[..];
        while !rest.is_empty() {
            let (together, others) = rest.split_at(read_together(rest));
            rest = others;
            let spans: Vec<(u64, u64)> = together.iter().map(|run| span_of(run)).collect();
            // A record that cannot be read is reported when it is requested.
            let pieces = ReadBuffer::read_all(env, segment, &spans).unwrap_or_default();
            for ((piece, run), (_, len)) in pieces.iter().zip(together).zip(&spans) {
                let Some(piece) = piece else { continue };
                env.counters.log_batch_bytes.add(*len);
                for place in *run {
                    if let Ok(value) = piece.value(segment, &parts.header, *place) {
                        values.add(place.offset, &value);
                    }
                }
            }
        }
        Ok(Self { values: values.finish(), last_key })
    }

    /// True if records were requested up to this key.
    pub fn reaches(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.last_key.as_ref().is_some_and(|last| order.compare(key, last) != Ordering::Greater)
    }

    /// Removes and returns the value of the record at this place, if it was read. A merge needs
    /// each value once.
    pub fn take(&mut self, place: RecordPtr) -> Option<Bytes> {
        self.values.remove(&place.offset)
    }
}

/// Groups these places, which are in the order of the file, into runs of near ones. Reading a
/// single record as a batch gains nothing.
fn runs(places: &[RecordPtr]) -> impl Iterator<Item = &[RecordPtr]> {
    let mut rest = places;
    let next = move || {
        let first = rest.first()?;
        let mut end = end_of(first);
        let follows = |place: &&RecordPtr| {
            let follows = place.offset < end.saturating_add(GAP_BYTES)
                && end_of(place).saturating_sub(first.offset) <= READ_BYTES_MAX;
            end = if follows { end_of(place) } else { end };
            follows
        };
        let count = 1 + rest[1..].iter().take_while(follows).count();
        let (run, others) = rest.split_at(count);
        rest = others;
        Some(run)
    };
    std::iter::from_fn(next).filter(|run| run.len() > 1)
}

/// The offset of a run, and its length.
fn span_of(run: &[RecordPtr]) -> (u64, u64) {
    let start = run.first().map_or(0, |first| first.offset);
    (start, run.iter().map(end_of).max().unwrap_or_default().saturating_sub(start))
}

/// Number of leading runs that are read together: as many as fit in the memory of one run of
/// maximum length.
fn read_together(runs: &[&[RecordPtr]]) -> usize {
    let mut bytes = 0_u64;
    let fits = |run: &&&[RecordPtr]| {
        bytes = bytes.saturating_add(span_of(run).1);
        bytes <= READ_BYTES_MAX
    };
    runs.iter().take_while(fits).count().max(1)
}

/// Collects values in one piece of memory, which is freed as a whole: thousands of short-lived
/// values would leave holes in the allocator's heap.
struct Values {
    memory: Option<ChargedBuffer>,
    filled: usize,
    /// Ranges in `memory`, by the offset of the record.
    places: Vec<(u64, Range<usize>)>,
}

impl Values {
    /// With room for `bytes`.
    fn new(bytes: u64, counted: Option<Charge>) -> Self {
        Self { memory: ChargedBuffer::new(bytes as usize, counted), filled: 0, places: Vec::new() }
    }

    fn add(&mut self, offset: u64, value: &[u8]) {
        let place = self.filled..self.filled + value.len();
        if let Some(memory) =
            self.memory.as_mut().and_then(|memory| memory.buffer.as_mut().get_mut(place.clone()))
        {
            memory.copy_from_slice(value);
            self.filled = place.end;
            self.places.push((offset, place));
        }
    }

    fn finish(self) -> HashMap<u64, Bytes> {
        let bytes = self.memory.map_or_else(Bytes::new, Bytes::from_owner);
        self.places.into_iter().map(|(offset, place)| (offset, bytes.slice(place))).collect()
    }
}

fn end_of(place: &RecordPtr) -> u64 {
    place.offset.saturating_add(u64::from(place.len))
}
