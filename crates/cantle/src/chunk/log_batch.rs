//! The values that a merge wants next of a part of a log, read in the order in which they lie there.
//!
//! In key order the records of a log lie anywhere. Who merges a log and cannot have all of it in memory, or wants little of
//! it, as one of many chunks that share it since they were split, knows from the index which records come next: those
//! that lie near one another are read by one call, with what lies between.

use super::context::Context;
use super::log_piece::{GAP_BYTES, Piece};
use super::memory_part::Place;
use super::segment::{Parts, Segment};
use crate::cache::budget::MergeBytes;
use crate::error::Result;
use crate::order::KeyOrder;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Records of so many bytes are read for one part, if the merges' share of the memory has room for them.
pub const BATCH_BYTES: u64 = 512 << 10;
/// Else of so many, which nobody counts.
const BATCH_BYTES_UNCOUNTED: u64 = 64 << 10;
/// As much is read by one call.
const READ_BYTES_MAX: u64 = 1 << 20;

/// A record that will be wanted.
pub struct Wanted {
    pub key: Bytes,
    pub place: Place,
}

/// Values of records with neighbouring keys.
#[derive(Default)]
pub struct Batch {
    /// By offset.
    values: HashMap<u64, Bytes>,
    /// The key of the last record that was looked for.
    last_key: Option<Bytes>,
    counted: Option<MergeBytes>,
}

impl Batch {
    /// Reads those of `wanted` that come first, which are in the order of their keys.
    pub fn read(
        context: &Context,
        segment: &Segment,
        parts: &Parts,
        mut wanted: Vec<Wanted>,
    ) -> Result<Self> {
        let bytes = |wanted: &[Wanted]| wanted.iter().map(|wanted| u64::from(wanted.place.len)).sum::<u64>();
        let counted = context.budget.take_merge_bytes(bytes(&wanted));
        if counted.is_none() {
            let mut left = BATCH_BYTES_UNCOUNTED;
            let fits = |wanted: &&Wanted| {
                let fits = left >= u64::from(wanted.place.len);
                left = left.saturating_sub(u64::from(wanted.place.len));
                fits
            };
            // One alone is read in any case.
            let count = wanted.iter().take_while(fits).count().max(1);
            wanted.truncate(count);
        }
        let last_key = wanted.last().map(|last| last.key.clone());
        let mut batch = Self { values: HashMap::with_capacity(wanted.len()), last_key, counted };
        let mut places: Vec<Place> = wanted.into_iter().map(|wanted| wanted.place).collect();
        places.sort_unstable_by_key(|place| place.offset);
        context.counters.log_batches.add(1);
        let mut rest = &places[..];
        while let Some(first) = rest.first() {
            let mut end = end_of(first);
            let follows = |place: &&Place| {
                let follows = place.offset < end.saturating_add(GAP_BYTES)
                    && end_of(place).saturating_sub(first.offset) <= READ_BYTES_MAX;
                end = if follows { end_of(place) } else { end };
                follows
            };
            let count = 1 + rest[1..].iter().take_while(follows).count();
            let (run, others) = rest.split_at(count);
            rest = others;
            // Of a record alone nothing is gained, and what cannot be read is reported when it is asked for.
            if count > 1
                && let Ok(piece) = Piece::read(segment, first.offset, end - first.offset)
            {
                context.counters.log_batch_bytes.add(end - first.offset);
                batch.take_from(&piece, segment, parts, run);
            }
        }
        Ok(batch)
    }

    fn take_from(&mut self, piece: &Piece, segment: &Segment, parts: &Parts, run: &[Place]) {
        for place in run {
            if let Ok(value) = piece.value(segment, &parts.header, *place) {
                self.values.insert(place.offset, Bytes::copy_from_slice(&value));
            }
        }
    }

    /// Whether records were looked for up to this key.
    pub fn reaches(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.last_key.as_ref().is_some_and(|last| order.compare(key, last) != Ordering::Greater)
    }

    /// The value of the record at this place, if it was read. What a merge has taken it does not want again.
    pub fn take(&mut self, place: Place) -> Option<Bytes> {
        let value = self.values.remove(&place.offset);
        if self.values.is_empty() {
            self.counted = None;
        }
        value
    }
}

fn end_of(place: &Place) -> u64 {
    place.offset.saturating_add(u64::from(place.len))
}
