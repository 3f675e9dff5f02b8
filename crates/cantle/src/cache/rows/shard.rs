//! A shard of the row cache: segments in two queues, and the index that finds rows in them.
//!
//! New rows go to the *probation* queue, a twentieth of the memory. Those that were read by the
//! time that their segment is the oldest move on to the *main* queue (S3-FIFO, SOSP '23). From the
//! main queue's oldest segment, the rows that were read since come round again, with one read less,
//! and the others are evicted. Rows that are asked for again soon after their eviction from the
//! probation queue enter the main queue at once.
//!
//! ```text
//!             probation                          main
//!   insert ─► filling │ segment │ oldest ─ read? ─► filling │ segment │ segment │ … │ oldest ─ read? ─┐
//!      │                                  └ no: gone,  ▲  ▲                                   └ no: gone │
//!      │                                    a ghost    │  └─────────────────────────────────────────────┘
//!      └ there is a ghost of it ───────────────────────┘
//! ```
//!
//! Rows that stay are copied to the segment that the main queue is filling. Once that is full, the
//! remaining rows move to the front of their own segment, and that is filled next: so no additional
//! memory is needed.
//!
//! Invariants:
//! * Each place in the index is the place of a row. A row without a place in the index is dead, and
//!   goes with its segment.
//! * Mapped memory and the index are within the limit after each call, except for segments that are
//!   read while they are evicted.

use super::ghost::Ghost;
use super::segment::{Header, LentRow, PAGE_BYTES, ROW_ALIGN, Segment, row_bytes};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Percent of the memory for rows that have not been read again.
const PROBATION_PERCENT: u64 = 5;
/// Fraction of a segment above which a row gets a segment of its own.
const OWN_FRACTION: usize = 2;
/// Maximum part of the memory that one row may take.
const ROW_FRACTION: u64 = 8;
/// Number of places in the index for each ghost.
const GHOST_FRACTION: usize = 4;
/// Number of segments that are examined to free one. After that the oldest is evicted even if its
/// rows were read. Therefore no caller waits long if all rows are being read.
const LOOKS_MAX: usize = 16;

/// The place of a row: the slot of its segment, and the offset there in multiples of the alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct RowPtr(u32);

/// A row to look for.
#[derive(Clone, Copy)]
pub(super) struct Probe<'a> {
    pub(super) hash: u32,
    pub(super) owner: u32,
    pub(super) key: &'a [u8],
}

/// Segments by number.
struct Segments {
    slots: Vec<Option<Segment>>,
    free: Vec<u32>,
    /// Number of bits of a place that are the offset.
    offset_bits: u32,
}

impl Segments {
    fn place(&self, slot: u32, offset: usize) -> RowPtr {
        RowPtr(slot << self.offset_bits | (offset / ROW_ALIGN) as u32)
    }

    fn find(&self, place: RowPtr) -> (&Segment, usize) {
        let offset = (place.0 & ((1 << self.offset_bits) - 1)) as usize * ROW_ALIGN;
        (self.get(place.0 >> self.offset_bits), offset)
    }

    fn find_mut(&mut self, place: RowPtr) -> (&mut Segment, usize) {
        let offset = (place.0 & ((1 << self.offset_bits) - 1)) as usize * ROW_ALIGN;
        (self.get_mut(place.0 >> self.offset_bits), offset)
    }

    fn get(&self, slot: u32) -> &Segment {
        self.slots[slot as usize].as_ref().unwrap_or_else(|| unreachable!("a place leads to a segment"))
    }

    fn get_mut(&mut self, slot: u32) -> &mut Segment {
        self.slots[slot as usize].as_mut().unwrap_or_else(|| unreachable!("a place leads to a segment"))
    }

    fn header(&self, place: RowPtr) -> Header {
        let (segment, offset) = self.find(place);
        segment.header(offset)
    }

    /// True if the row there is the one that the probe looks for.
    fn is(&self, place: RowPtr, probe: Probe<'_>) -> bool {
        let (segment, offset) = self.find(place);
        let header = segment.header(offset);
        (header.hash, header.owner) == (probe.hash, probe.owner) && segment.key(offset, &header) == probe.key
    }

    /// `None` if there are as many segments as places can distinguish.
    fn add(&mut self, segment: Segment) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(segment);
            return Some(slot);
        }
        let slot =
            u32::try_from(self.slots.len()).ok().filter(|slot| slot >> (32 - self.offset_bits) == 0)?;
        self.slots.push(Some(segment));
        Some(slot)
    }
}

/// Segments from the oldest to the newest.
#[derive(Default)]
struct Queue {
    slots: VecDeque<u32>,
    /// The segment that rows are appended to.
    filling: Option<u32>,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Probation,
    Main,
}

pub(super) struct Shard {
    index: HashTable<RowPtr>,
    ghost: Ghost,
    segments: Segments,
    probation: Queue,
    main: Queue,
    segment_bytes: usize,
    limit_bytes: u64,
    /// Bytes of the index and the ghosts.
    index_bytes: u64,
    /// Bytes of segments and indexes of all shards.
    total_bytes: Arc<AtomicU64>,
}

/// Spreads a hash for the index, which chooses places by the lower bits and compares the upper
/// ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Shard {
    /// `segment_bytes` is a power of two, at least the length of a page.
    pub(super) fn new(segment_bytes: usize, limit_bytes: u64, total_bytes: Arc<AtomicU64>) -> Self {
        let offset_bits = (segment_bytes / ROW_ALIGN).ilog2();
        Self {
            index: HashTable::new(),
            ghost: Ghost::default(),
            segments: Segments { slots: Vec::new(), free: Vec::new(), offset_bits },
            probation: Queue::default(),
            main: Queue::default(),
            segment_bytes,
            limit_bytes,
            index_bytes: 0,
            total_bytes,
        }
    }

    /// The value of a row and its stamp. Counts as a read.
    pub(super) fn get(&mut self, probe: Probe<'_>) -> Option<(u64, LentRow)> {
        let place = self.find(probe)?;
        let (segment, offset) = self.segments.find_mut(place);
        segment.count_read(offset);
        Some((segment.header(offset).stamp, segment.lend(offset)))
    }

    fn find(&self, probe: Probe<'_>) -> Option<RowPtr> {
        self.index.find(spread(probe.hash), |&place| self.segments.is(place, probe)).copied()
    }

    /// Replaces the value of a row, if it is there.
    pub(super) fn update(&mut self, probe: Probe<'_>, stamp: u64, value: &[u8]) {
        if let Some(place) = self.find(probe) {
            self.replace(place, probe, stamp, value);
        }
    }

    /// Adds a row, or replaces its value unless that is as new.
    pub(super) fn insert(&mut self, probe: Probe<'_>, stamp: u64, value: &[u8]) {
        if let Some(place) = self.find(probe) {
            return self.replace(place, probe, stamp, value);
        }
        let Some(header) = Header::new(stamp, probe.hash, probe.owner, probe.key, value) else { return };
        if !self.accepts(header.row_bytes()) {
            return;
        }
        let which = if self.ghost.take(probe.hash) { Which::Main } else { Which::Probation };
        self.append(which, header, probe.key, value);
    }

    fn replace(&mut self, place: RowPtr, probe: Probe<'_>, stamp: u64, value: &[u8]) {
        let (segment, offset) = self.segments.find_mut(place);
        let old = segment.header(offset);
        // If two reads have made this row at once, the later value stays. Stamps of a row only
        // grow.
        if old.stamp >= stamp || segment.overwrite(offset, stamp, value) {
            return;
        }
        let Some(header) = Header::new(stamp, probe.hash, probe.owner, probe.key, value) else { return };
        if self.accepts(header.row_bytes()) {
            if let Ok(entry) = self.index.find_entry(spread(probe.hash), |&other| other == place) {
                entry.remove();
            }
            // If the row was read, it goes to the main queue, where it need not be read again to
            // stay.
            let which = if old.reads > 0 { Which::Main } else { Which::Probation };
            self.append(which, Header { reads: old.reads, ..header }, probe.key, value);
        }
    }

    /// True if a row of this length may be cached.
    fn accepts(&self, row_bytes: usize) -> bool {
        self.mapped_for(row_bytes) as u64 <= self.limit_bytes / ROW_FRACTION
    }

    fn is_own(&self, row_bytes: usize) -> bool {
        row_bytes > self.segment_bytes / OWN_FRACTION
    }

    /// Maximum of the bytes to map for a row.
    fn mapped_for(&self, row_bytes: usize) -> usize {
        if self.is_own(row_bytes) { row_bytes.next_multiple_of(PAGE_BYTES) } else { row_bytes }
    }

    fn append(&mut self, which: Which, header: Header, key: &[u8], value: &[u8]) {
        let Some(slot) = self.room(which, header.row_bytes()) else { return };
        let offset = self.segments.get_mut(slot).push(header, key, value);
        let place = self.segments.place(slot, offset);
        let segments = &self.segments;
        self.index.insert_unique(spread(header.hash), place, |&place| spread(segments.header(place).hash));
        self.account_index();
        self.trim();
    }

    /// A segment of the queue with room for a row.
    fn room(&mut self, which: Which, row_bytes: usize) -> Option<u32> {
        let is_own = self.is_own(row_bytes);
        let bytes = if is_own { self.mapped_for(row_bytes) } else { self.segment_bytes };
        for look in 0.. {
            if let Some(slot) = self.queue(which).filling.filter(|_| !is_own)
                && self.segments.get(slot).has_room(row_bytes)
            {
                return Some(slot);
            }
            if self.used_bytes() + bytes as u64 <= self.limit_bytes {
                return self.begin(which, bytes, !is_own);
            }
            if !self.evict(look < LOOKS_MAX) {
                return None;
            }
        }
        None
    }

    fn queue(&mut self, which: Which) -> &mut Queue {
        match which {
            Which::Probation => &mut self.probation,
            Which::Main => &mut self.main,
        }
    }

    /// Adds a new segment to the queue. It is filled from now on, unless it belongs to a single
    /// row.
    fn begin(&mut self, which: Which, bytes: usize, is_filled: bool) -> Option<u32> {
        let slot = self.segments.add(Segment::new(bytes, &self.total_bytes))?;
        let queue = self.queue(which);
        queue.slots.push_back(slot);
        queue.bytes += bytes as u64;
        if is_filled {
            queue.filling = Some(slot);
        }
        Some(slot)
    }

    /// Evicts the oldest segment's rows; if it `keeps` any, those that were read stay. `false` if
    /// there is no segment.
    fn evict(&mut self, keeps: bool) -> bool {
        let is_beyond = self.probation.bytes > self.limit_bytes / 100 * PROBATION_PERCENT;
        let which = match (is_beyond, self.probation.slots.is_empty(), self.main.slots.is_empty()) {
            (true, false, _) | (_, false, true) => Which::Probation,
            _ => Which::Main,
        };
        let queue = self.queue(which);
        let Some(slot) = queue.slots.pop_front() else { return false };
        queue.filling = queue.filling.filter(|&filling| filling != slot);
        let Some(mut segment) = self.segments.slots[slot as usize].take() else { return false };
        self.queue(which).bytes -= segment.bytes() as u64;
        let is_own = segment.bytes() != self.segment_bytes;
        let is_unread = segment.is_unread();
        // Once `stays` is set, rows that stay are not copied but left in this segment, which then
        // has `stayed_bytes`.
        let mut stays = is_own;
        let mut stayed_bytes = 0;
        let mut next = segment.first();
        while let Some(offset) = next {
            let header = segment.header(offset);
            next = segment.next(offset, header.row_bytes());
            let place = self.segments.place(slot, offset);
            // Dead rows have no place in the index.
            let Ok(mut entry) = self.index.find_entry(spread(header.hash), |&other| other == place) else {
                continue;
            };
            if !keeps || header.reads == 0 {
                entry.remove();
                if which == Which::Probation {
                    self.ghost.add(header.hash);
                }
                continue;
            }
            let reads = header.reads - 1;
            let bytes = row_bytes(usize::from(header.key_bytes), header.value_bytes as usize);
            if !stays {
                let filling = self.main.filling.filter(|&slot| self.segments.get(slot).has_room(bytes));
                if let Some(slot) = filling {
                    let (key, value) = (segment.key(offset, &header), segment.value(offset, &header));
                    let offset = self.segments.get_mut(slot).push(Header { reads, ..header }, key, value);
                    *entry.get_mut() = self.segments.place(slot, offset);
                    continue;
                }
                stays = true;
            }
            if is_unread {
                segment.shift(offset, stayed_bytes);
                *entry.get_mut() = self.segments.place(slot, stayed_bytes);
            }
            segment.set_reads(if is_unread { stayed_bytes } else { offset }, reads);
            stayed_bytes += header.row_bytes();
        }
        if stayed_bytes == 0 {
            self.segments.free.push(slot);
            return true;
        }
        self.main.bytes += segment.bytes() as u64;
        self.main.slots.push_back(slot);
        // A segment that is being read comes round unchanged.
        if is_unread {
            segment.truncate(stayed_bytes);
            if !is_own {
                self.main.filling = Some(slot);
            }
        }
        self.segments.slots[slot as usize] = Some(segment);
        true
    }

    /// Recounts mapped bytes, bytes of the index and the ghosts, and rows.
    #[cfg(test)]
    pub(super) fn count(&self) -> (usize, usize, usize) {
        let mapped = self.segments.slots.iter().flatten().map(Segment::bytes).sum();
        (mapped, self.index.allocation_size() + self.ghost.bytes(), self.index.len())
    }

    /// Memory that the shard's rows and index take.
    pub(super) fn used_bytes(&self) -> u64 {
        self.probation.bytes + self.main.bytes + self.index_bytes
    }

    /// Called when the index may have grown, and the ghosts with it.
    fn account_index(&mut self) {
        self.ghost.resize(self.index.num_buckets() / GHOST_FRACTION);
        let bytes = (self.index.allocation_size() + self.ghost.bytes()) as u64;
        if bytes != self.index_bytes {
            self.total_bytes.fetch_add(bytes.wrapping_sub(self.index_bytes), Relaxed);
            self.index_bytes = bytes;
        }
    }

    /// Evicts rows until the shard is within its limit.
    fn trim(&mut self) {
        let mut looks = 0;
        let mut used_bytes = self.used_bytes();
        while used_bytes > self.limit_bytes && self.evict(looks < LOOKS_MAX) {
            let before = std::mem::replace(&mut used_bytes, self.used_bytes());
            looks = if used_bytes < before { 0 } else { looks + 1 };
        }
    }

    /// Changes the limit; rows beyond it are evicted at once.
    pub(super) fn set_limit_bytes(&mut self, bytes: u64) {
        self.limit_bytes = bytes;
        self.trim();
        if self.index.len() * 4 < self.index.num_buckets() {
            let segments = &self.segments;
            self.index.shrink_to(self.index.len(), |&place| spread(segments.header(place).hash));
            self.account_index();
        }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.index_bytes, Relaxed);
    }
}
