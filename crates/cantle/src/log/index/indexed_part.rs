//! An older part of a log. Its index stands after it in the log itself.
//!
//! ```text
//!   op op op … │ block │ block │ … │ root │ filter │ part end
//! ```
//!
//! A *block* maps keys to places of operations, in the format of table blocks. The *root* maps the
//! last key of every block to the block's place. The *filter* is a Bloom filter of the keys (EvenDB
//! §3.1). The *part end* has the places of all of these, and of the part end before it. A read thus
//! touches the filter, the root, one block and one operation, however long the log is; all but the
//! operation are cached and evictable.
//!
//! A filter longer than 16 KiB is stored in consecutive pieces of that length, each a record of its
//! own. A filter of megabytes, as a large batch makes, is thus read like a block.
//!
//! Stretches that were written in key order may do without blocks ([`stretch`](super::stretch)).
//!
//! Root and blocks are missing if [`LogSearch`] does without an index, as published. The root is
//! missing if it would exceed the maximum length of a record. In both cases the part is searched
//! linearly.

use crate::block::BlockBuilder;
use crate::filter::bloom::{self, BloomBuilder};
use crate::format::bounds::{decode_bounds, encode_bounds};
use crate::format::codec::{Decoder, Malformed, put_bytes, put_varint};
use crate::format::header::FileHeader;
use crate::format::limits::check_record;
use crate::log::LogMemory;
use crate::log::index::ends::Ends;
use crate::log::index::memory_part::{MemoryHit, MemoryPart, RecordPtr};
use crate::log::index::range_deletes::RangeDeletes;
use crate::log::index::stretch::{Step, Stretches};
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::LogRecord;
use crate::records::{encode_record, record_bytes};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use std::cmp::Ordering;
use std::sync::OnceLock;

/// Approximate length of an index block in bytes.
const BLOCK_BYTES: usize = 4 << 10;

/// Entries that follow each other in key order are near if this number of bytes lies between them at most,
/// and this fraction of their part: a read ahead has both.
pub(super) const NEAR_BYTES: u64 = 64 << 10;
pub(super) const NEAR_FRACTION: u64 = 8;
/// Mean number of entries that stand together in a part that counts as one in key order.
pub(super) const TOGETHER_MIN: u64 = 16;

/// Bytes of a whole piece of a filter in the log: a record of a tag and the piece.
const FILTER_PIECE_BYTES: u32 = record_bytes(0, 1 + bloom::PIECE_BYTES) as u32;

/// Places and sizes of an indexed part and its index.
#[derive(Debug)]
pub struct IndexedPart {
    /// The part's first operation.
    pub start: u64,
    /// The end of its last operation.
    pub end: u64,
    pub entries: u64,
    /// Number of operations in the log up to the part's end.
    pub operations: u64,
    /// Place of the root block; length 0 if there is no index.
    pub root: RecordPtr,
    /// Place of the filter, all its pieces together; length 0 if the order forbids hashing.
    pub filter: RecordPtr,
    pub tombstones: RangeDeletes,
    /// Offsets and lengths in bytes of revoked writes: scans of the part skip them.
    pub voids: Vec<(u64, u64)>,
    /// Place of the part end.
    pub at: RecordPtr,
    /// Place of the previous part end; length 0 if this is the first.
    pub previous: RecordPtr,
    /// The part's first and last key, if there is memory for them. For a part of an earlier epoch
    /// they are unknown until they are read from its index (`read::learn`).
    pub ends: OnceLock<Ends>,
    /// Number of entries that do not stand near the one before them in key order; `None` for a part that was
    /// read from a file.
    pub jumps: Option<u64>,
}

/// A place as the value of an index entry.
pub fn encode_place(place: RecordPtr, out: &mut Vec<u8>) {
    put_varint(out, place.offset);
    put_varint(out, u64::from(place.len));
}

pub fn decode_place(decoder: &mut Decoder<'_>) -> Result<RecordPtr, Malformed> {
    let offset = decoder.size()?;
    let len = u32::try_from(decoder.varint()?).map_err(|_| Malformed("a length exceeds 32 bits"))?;
    Ok(RecordPtr { offset, len })
}

impl IndexedPart {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.start);
        put_varint(out, self.end);
        put_varint(out, self.entries);
        put_varint(out, self.operations);
        encode_place(self.root, out);
        encode_place(self.filter, out);
        encode_place(self.previous, out);
        put_varint(out, self.tombstones.len() as u64);
        for tombstone in self.tombstones.in_log_order() {
            put_varint(out, tombstone.version);
            put_varint(out, tombstone.offset);
            put_bytes(out, &encode_bounds(&tombstone.bounds));
        }
        for &(offset, bytes) in &self.voids {
            put_varint(out, offset);
            put_varint(out, bytes);
        }
    }

    /// Its smallest and its greatest key, if they are known and it has no range deletes.
    pub fn known_keys(&self) -> Option<(&[u8], &[u8])> {
        self.ends.get().filter(|_| self.tombstones.is_empty()).map(|ends| (ends.first_key(), ends.last_key()))
    }

    /// True if it certainly has nothing for a key.
    pub fn lacks(&self, order: &KeyOrder, key: &[u8]) -> bool {
        self.known_keys().is_some_and(|(first, last)| {
            order.compare(key, first) == Ordering::Less || order.compare(last, key) == Ordering::Less
        })
    }

    /// True if it certainly has nothing for a span.
    pub fn is_outside(&self, order: &KeyOrder, span: &Span) -> bool {
        self.known_keys()
            .is_some_and(|(first, last)| span.starts_behind(order, last) || span.ends_before(order, first))
    }

    /// True if its operations stand in the order of their keys, or if those that stand together are many:
    /// writers that take turns, or that are late, write so. A scan reads them about as fast as a table.
    /// Where the jumps are unknown, few operations may have blocks, which take less than two bytes for each
    /// operation of the part then, and would take some twenty.
    pub fn is_in_key_order(&self) -> bool {
        self.root.len > 0
            && match self.jumps {
                Some(jumps) => jumps <= self.entries / TOGETHER_MIN,
                None => self.root.offset - self.end <= 2 * self.entries,
            }
    }

    /// The piece of the filter for keys of this hash, and the number of pieces.
    pub fn filter_piece(&self, hash: u64) -> (RecordPtr, usize) {
        let RecordPtr { offset, len } = self.filter;
        if len <= FILTER_PIECE_BYTES || !len.is_multiple_of(FILTER_PIECE_BYTES) {
            return (self.filter, 1);
        }
        let pieces = (len / FILTER_PIECE_BYTES) as usize;
        let before = bloom::piece_of(hash, pieces) as u64 * u64::from(FILTER_PIECE_BYTES);
        (RecordPtr { offset: offset + before, len: FILTER_PIECE_BYTES }, pieces)
    }

    /// Bytes of its operations and its index.
    pub fn bytes(&self) -> u64 {
        (self.at.offset + u64::from(self.at.len)).saturating_sub(self.start)
    }

    /// Decodes a part end that stands at `at`. All places in it are before `at`. The order is for searches in
    /// its range deletes.
    pub fn decode(payload: &[u8], at: RecordPtr, order: &KeyOrder) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let mut part = Self {
            start: decoder.size()?,
            end: decoder.size()?,
            entries: decoder.size()?,
            operations: decoder.size()?,
            root: decode_place(&mut decoder)?,
            filter: decode_place(&mut decoder)?,
            previous: decode_place(&mut decoder)?,
            tombstones: RangeDeletes::default(),
            voids: Vec::new(),
            at,
            ends: OnceLock::new(),
            jumps: None,
        };
        let mut tombstones = Vec::new();
        for _ in 0..decoder.varint()? {
            let version = decoder.number()?;
            let offset = decoder.size()?;
            let bounds = decode_bounds(&mut Decoder::new(decoder.bytes()?))?;
            tombstones.push(RangeTombstone { bounds, version, offset, cell: None });
        }
        part.tombstones = RangeDeletes::new(order, tombstones);
        while !decoder.rest().is_empty() {
            part.voids.push((decoder.size()?, decoder.size()?));
        }
        let before = |place: RecordPtr| {
            place.offset.checked_add(u64::from(place.len)).is_some_and(|end| end <= at.offset)
        };
        let ordered = part.start <= part.end && part.end <= at.offset && part.previous.offset < at.offset;
        if ordered && before(part.root) && before(part.filter) && before(part.previous) {
            Ok(part)
        } else {
            Err(Malformed("points outside of its log"))
        }
    }
}

/// Inputs for the index of a part.
pub struct IndexRequest<'a> {
    pub header: &'a FileHeader,
    pub order: &'a KeyOrder,
    /// The account for the part's ends.
    pub memory: &'a LogMemory,
    /// The part's first operation, and the end of its last, where the index begins.
    pub start: u64,
    pub end: u64,
    /// Number of operations in the log up to `end`.
    pub operations: u64,
    pub previous: RecordPtr,
    /// Offsets and lengths of the part's revoked writes.
    pub voids: Vec<(u64, u64)>,
    pub search: LogSearch,
    pub filter_bits_per_key: u32,
    /// The longest payload of a record. A root or a filter that would exceed it is left out, and the part is searched
    /// without it.
    pub record_bytes_max: u64,
}

/// Encodes the bytes that follow a part: its index, filter and end.
///
/// # Errors
///
/// `InvalidArgument` if the part has more range deletes than its end can hold.
pub fn build_index(
    request: &IndexRequest<'_>,
    part: &MemoryPart,
) -> crate::types::error::Result<(Vec<u8>, IndexedPart)> {
    let mut builder = IndexBuilder {
        request,
        out: Vec::new(),
        block: BlockBuilder::new(request.header.base_version),
        root: BlockBuilder::new(request.header.base_version),
        last_key: Vec::new(),
        value: Vec::with_capacity(16),
        stretches: Stretches::new(request.start, request.end),
    };
    let mut filter = BloomBuilder::new(request.filter_bits_per_key);
    let (mut last_key, mut newest) = (Vec::new(), None);
    let mut first: Option<(Vec<u8>, MemoryHit)> = None;
    let (mut entries, mut jumps, mut before) = (0, 0, None);
    let near = NEAR_BYTES.min((request.end - request.start) / NEAR_FRACTION);
    part.for_each(|key, hit| {
        // The latest of a key's operations at one version comes first and hides the others.
        let same_key = newest.is_some() && last_key == key;
        if same_key && newest == Some(hit.version) {
            builder.pass_over(hit);
            return;
        }
        if !same_key {
            filter.add(bloom::hash(key));
        }
        first.get_or_insert_with(|| (key.to_vec(), hit));
        if !same_key {
            last_key.clear();
            last_key.extend_from_slice(key);
        }
        newest = Some(hit.version);
        entries += 1;
        let end = before.replace(hit.place.offset + u64::from(hit.place.len));
        jumps += u64::from(end.is_some_and(|end| hit.place.offset.abs_diff(end) > near));
        request.search.index(&mut builder, key, hit);
    });
    let root = builder.finish_root();
    let is_filtered = request.filter_bits_per_key > 0 && request.order.hashable();
    let filter = if is_filtered { builder.filter(filter) } else { RecordPtr { offset: 0, len: 0 } };
    let tombstones = part.tombstones();
    let tombstones = tombstones.iter().map(|t| RangeTombstone { cell: None, ..(**t).clone() });
    let tombstones = RangeDeletes::new(request.order, tombstones);
    let IndexRequest { start, end, operations, previous, .. } = *request;
    let at = RecordPtr { offset: end + builder.out.len() as u64, len: 0 };
    let ends = first.and_then(|(key, hit)| Ends::new(request.memory, &key, hit, &last_key));
    let ends = ends.map_or_else(OnceLock::new, OnceLock::from);
    let voids = request.voids.clone();
    let mut indexed = IndexedPart {
        start,
        end,
        entries,
        operations,
        root,
        filter,
        tombstones,
        voids,
        at,
        previous,
        ends,
        jumps: Some(jumps),
    };
    let mut payload = Vec::new();
    let mut encoded = Vec::new();
    indexed.encode(&mut encoded);
    LogRecord::encode_part_end(&encoded, &mut payload);
    check_record("the end of a log's part", payload.len(), request.record_bytes_max)?;
    let before = builder.out.len();
    encode_record(request.header, at.offset, (0, payload.len()), &mut builder.out, |out| {
        out.extend_from_slice(&payload)
    });
    indexed.at.len = (builder.out.len() - before) as u32;
    Ok((builder.out, indexed))
}

/// Strategy for finding operations in older parts of logs. It decides if an index follows a part
/// besides its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSearch {
    /// By an index, so that a read touches a bounded number of blocks.
    Indexed,
    /// The same, without blocks for stretches that were written in key order.
    Stretches,
    /// From the part's start to its end (EvenDB §3.3).
    Linear,
}

impl LogSearch {
    /// Adds an operation of the part to its index, if it has one.
    fn index(self, builder: &mut IndexBuilder<'_>, key: &[u8], hit: MemoryHit) {
        match self {
            Self::Indexed => builder.add(key, hit),
            Self::Stretches => builder.add_to_stretch(key, hit),
            Self::Linear => {}
        }
    }
}

struct IndexBuilder<'a> {
    request: &'a IndexRequest<'a>,
    out: Vec<u8>,
    block: BlockBuilder,
    root: BlockBuilder,
    last_key: Vec<u8>,
    /// The encoded place of the operation that is being added.
    value: Vec<u8>,
    stretches: Stretches,
}

impl IndexBuilder<'_> {
    fn add(&mut self, key: &[u8], hit: MemoryHit) {
        self.value.clear();
        encode_place(hit.place, &mut self.value);
        self.block.add(key, hit.version, hit.kind, &self.value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        if self.block.size_bytes() >= BLOCK_BYTES {
            self.finish_block();
        }
    }

    fn add_all(&mut self, entries: &[(Vec<u8>, MemoryHit)]) {
        entries.iter().for_each(|(key, hit)| self.add(key, *hit));
    }

    fn finish_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let block = self.block.finish();
        let place = self.record(&block);
        self.add_to_root(place);
    }

    fn add_to_stretch(&mut self, key: &[u8], hit: MemoryHit) {
        if !self.stretches.is_open() {
            self.add(key, hit);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.step(Some(key), hit);
    }

    /// Counts an operation that readers need not find.
    fn pass_over(&mut self, hit: MemoryHit) {
        if self.request.search == LogSearch::Stretches {
            self.step(None, hit);
        }
    }

    fn step(&mut self, key: Option<&[u8]>, hit: MemoryHit) {
        match self.stretches.add(key, hit) {
            Step::None => {}
            Step::Ended(stretch) => self.add_to_root(stretch),
            // The operations held back, and the following ones, are in blocks.
            Step::Broken(entries) => self.add_all(&entries),
            Step::Strayed(entries) => {
                self.add_all(&entries);
                self.finish_block();
            }
            Step::Resumed => self.finish_block(),
        }
    }

    fn finish_stretches(&mut self) {
        match self.stretches.finish() {
            Step::Ended(stretch) => self.add_to_root(stretch),
            Step::Broken(entries) | Step::Strayed(entries) => {
                self.add_all(&entries);
                self.finish_block();
            }
            Step::None | Step::Resumed => {}
        }
    }

    /// Adds the block or stretch that ends with the last key.
    fn add_to_root(&mut self, place: RecordPtr) {
        self.value.clear();
        encode_place(place, &mut self.value);
        self.root.add(&self.last_key, self.request.header.base_version, Kind::Put, &self.value);
    }

    fn finish_root(&mut self) -> RecordPtr {
        self.finish_block();
        self.finish_stretches();
        if self.root.is_empty() {
            return RecordPtr { offset: 0, len: 0 };
        }
        let root = self.root.finish();
        if self.fits(root.len()) { self.record(&root) } else { RecordPtr { offset: 0, len: 0 } }
    }

    /// True if a record can hold a block of this length.
    fn fits(&self, block_bytes: usize) -> bool {
        (block_bytes as u64) < self.request.record_bytes_max
    }

    /// Appends a filter, in pieces if it is long.
    fn filter(&mut self, filter: BloomBuilder) -> RecordPtr {
        let pieces = filter.finish_in_pieces();
        if pieces.iter().any(|piece| !self.fits(piece.len())) {
            return RecordPtr { offset: 0, len: 0 };
        }
        let start = self.request.end + self.out.len() as u64;
        for piece in &pieces {
            let place = self.record(piece);
            debug_assert!(pieces.len() == 1 || place.len == FILTER_PIECE_BYTES);
        }
        let end = self.request.end + self.out.len() as u64;
        // Does not overflow: for a filter of 2^32 bytes, the index itself would be longer.
        RecordPtr { offset: start, len: u32::try_from(end - start).unwrap_or(0) }
    }

    /// Appends a record that holds `block`.
    fn record(&mut self, block: &[u8]) -> RecordPtr {
        let offset = self.request.end + self.out.len() as u64;
        let before = self.out.len();
        encode_record(self.request.header, offset, (0, block.len() + 1), &mut self.out, |out| {
            LogRecord::encode_block(block, out);
        });
        RecordPtr { offset, len: (self.out.len() - before) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::example_header;
    use crate::format::header::FileKind;
    use crate::types::bounds::Bounds;

    /// An index that is too long for a record is left out, and the part is searched without it.
    #[test]
    fn an_index_that_no_reader_takes_is_left_out() {
        let header = example_header(FileKind::Log, 3, 8, 0);
        let part = MemoryPart::new(KeyOrder::Bytewise, Default::default());
        for number in 0..3000u64 {
            let place = RecordPtr { offset: 64 + number * 40, len: 40 };
            part.insert(&number.to_be_bytes().repeat(20), number, Kind::Put, place, None);
        }
        let build = |record_bytes_max| {
            let request = IndexRequest {
                header: &header,
                order: &KeyOrder::Bytewise,
                memory: &LogMemory::new(1 << 20),
                start: 64,
                end: 1 << 20,
                operations: 3000,
                previous: RecordPtr { offset: 0, len: 0 },
                voids: Vec::new(),
                search: LogSearch::Indexed,
                filter_bits_per_key: 10,
                record_bytes_max,
            };
            build_index(&request, &part)
        };
        let (_, whole) = build(1 << 20).unwrap();
        assert!(whole.root.len > 0 && whole.filter.len > 0);
        let (_, without) = build(u64::from(whole.root.len.min(whole.filter.len)) - 100).unwrap();
        assert!(without.root.len == 0 || without.filter.len == 0);
        let bounds =
            Bounds { start: std::ops::Bound::Included(vec![7; 5000]), end: std::ops::Bound::Unbounded };
        part.insert_tombstone(RangeTombstone { bounds, version: 3001, offset: 1 << 19, cell: None });
        assert!(build(4500).is_err(), "its end would be too long");
    }
}
