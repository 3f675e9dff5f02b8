//! Indexed records of a log that are read together, instead of each by a call of its own.
//!
//! Who merges a log reads all of it at once, if there is memory for it ([`batch`](super::batch)): in key order its records lie
//! anywhere. A scan reads ahead where it finds that
//! records lie behind one another, as after a load in key order, and from its first record on where the last ones did.
//!
//! Everything that is indexed is in the file: a part is written out before it is indexed.

use crate::block::Block;
use crate::format::header::FileHeader;
use crate::log::env::LogEnv;
use crate::log::index::memory_part::Place;
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

/// What is left out between two records that are read together is no longer than this.
pub const GAP_BYTES: u64 = 16 << 10;

fn read_into(segment: &Segment, bytes: &mut [u8], at: u64) -> Result<usize> {
    let handle = segment.file.handle()?;
    handle.read_at(bytes, at).map_err(|e| Error::io(Attempt::Read, &segment.file.path, e))
}

/// A part of a log's file in memory. What is missing at its end is reported with the place that should be there.
#[derive(Default)]
pub struct Piece {
    at: u64,
    bytes: Bytes,
}

impl Piece {
    /// All of the log that is indexed; `None` if others that are merged have taken the memory.
    pub fn of_indexed(env: &LogEnv, segment: &Segment, parts: &Parts) -> Result<Option<Self>> {
        let len = indexed_end(parts);
        let Some(counted) = env.memory.merges.charge(len) else { return Ok(None) };
        let Some(mut memory) = ChargedBuffer::new(len as usize, Some(counted)) else { return Ok(None) };
        let read = read_into(segment, memory.buffer.as_mut(), 0)?;
        Ok(Some(Self { at: 0, bytes: Bytes::from_owner(memory).slice(..read) }))
    }

    /// So many bytes from there on.
    pub fn read(segment: &Segment, at: u64, len: u64) -> Result<Self> {
        let Some(mut buffer) = Buffer::new(len as usize) else { return Ok(Self::default()) };
        let read = read_into(segment, buffer.as_mut(), at)?;
        Ok(Self { at, bytes: Bytes::from_owner(buffer).slice(..read) })
    }

    /// All of these places, each an offset and a length, together; `None` for one that cannot be read.
    pub fn read_all(segment: &Segment, places: &[(u64, u64)]) -> Result<Vec<Option<Self>>> {
        let handle = segment.file.handle()?;
        let buffers = places.iter().map(|&(at, len)| Some((at, Buffer::new(usize::try_from(len).ok()?)?)));
        let mut buffers: Vec<Option<(u64, Buffer)>> = buffers.collect();
        let mut wanted: Vec<vfs::Place<'_>> = buffers
            .iter_mut()
            .flatten()
            .map(|(at, buffer)| vfs::Place { file: &*handle, offset: *at, buffer: buffer.as_mut() })
            .collect();
        let mut outcomes = vfs::read_places(&mut wanted).into_iter();
        let piece = |buffer: Option<(u64, Buffer)>| {
            let (at, buffer) = buffer?;
            let read = outcomes.next()?.ok()?;
            Some(Self { at, bytes: Bytes::from_owner(buffer).slice(..read) })
        };
        Ok(buffers.into_iter().map(piece).collect())
    }

    fn contains(&self, place: Place) -> bool {
        self.at <= place.offset
            && place.offset.saturating_add(u64::from(place.len)) <= self.at + self.bytes.len() as u64
    }

    /// As [`Segment::read_value`]; the value shares the piece's memory.
    pub fn value(&self, segment: &Segment, header: &FileHeader, place: Place) -> Result<Bytes> {
        let payload = self.payload(segment, header, place)?;
        let (payload, value_start) = segment.op_of(header, place, payload)?;
        Ok(payload.slice(value_start..))
    }

    /// As [`Segment::index_block`], past the cache.
    pub fn block(&self, segment: &Segment, header: &FileHeader, place: Place) -> Result<Arc<Block>> {
        segment.block_of(header, place, self.payload(segment, header, place)?).map(Arc::new)
    }

    fn payload(&self, segment: &Segment, header: &FileHeader, place: Place) -> Result<Bytes> {
        let (len, end) = (place.len as usize, self.bytes.len());
        let start = place.offset.checked_sub(self.at).map_or(end, |start| start.min(end as u64) as usize);
        let bytes = self.bytes.slice(start..start.saturating_add(len).min(end));
        record_payload(header, &segment.file.path, place.offset, bytes, len)
    }
}

fn indexed_end(parts: &Parts) -> u64 {
    parts.indexed.first().map_or(0, |part| part.at.offset + u64::from(part.at.len))
}

/// How often a log was read by the cursors of a merge.
pub type Reads = Arc<AtomicU64>;

/// What a scan has read ahead.
#[derive(Default)]
pub struct Ahead {
    reads: Reads,
    piece: Piece,
    run: Run,
}

impl Ahead {
    pub fn new(reads: Reads) -> Self {
        Self { reads, piece: Piece::default(), run: Run::default() }
    }

    /// As [`Segment::read_value`], of a record that is indexed. Shares no memory with what is read ahead.
    pub fn value(&mut self, segment: &Segment, parts: &Parts, place: Place) -> Result<Bytes> {
        if let Some(value) = segment.read_recent_value(&parts.header, place)? {
            return Ok(value);
        }
        let at = (place.offset, u64::from(place.len));
        self.run.visit(at, GAP_BYTES, Some(&segment.runs));
        if !self.piece.contains(place) {
            self.reads.fetch_add(1, Relaxed);
            let room = indexed_end(parts).saturating_sub(place.offset);
            let window = self.run.window(at, SCAN_BYTES).min(room);
            if window < u64::from(place.len) {
                return segment.read_value(&parts.header, place);
            }
            match Piece::read(segment, place.offset, window) {
                Ok(piece) => self.piece = piece,
                // What lies ahead may never be asked for.
                Err(_) => return segment.read_value(&parts.header, place),
            }
        }
        self.piece.value(segment, &parts.header, place).map(|value| Bytes::copy_from_slice(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::chunk::test_support::chunks_of;
    use crate::vfs::MemVfs;
    use crate::{ChunkOptions, KeyspaceOptions, Options};

    /// A log of which a part is indexed, and the places of its records in the order of writing.
    fn log(pairs: usize) -> (Db, Arc<Segment>, Arc<Parts>, Vec<Place>) {
        log_with(pairs, KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).recent_appends(false)))
    }

    fn log_with(pairs: usize, keyspace: KeyspaceOptions) -> (Db, Arc<Segment>, Arc<Parts>, Vec<Place>) {
        let options = Options::new().default_keyspace(keyspace);
        let db = options.vfs(Arc::new(MemVfs::new())).open("store").unwrap();
        (0..pairs).for_each(|number| db.put(number.to_be_bytes(), [number as u8; 1000]).unwrap());
        let chunks = chunks_of(&db);
        let segment = chunks.index.find(b"").funk.load().logs().next().unwrap().clone();
        let parts = segment.parts(&chunks.context).unwrap();
        let mut places = Vec::new();
        for part in parts.indexed.iter().rev() {
            segment
                .scan_part(&parts.header, part, |place, _| {
                    places.push(place);
                    Ok(())
                })
                .unwrap();
        }
        assert!(places.len() > pairs / 2, "most of it is indexed");
        (db, segment, parts, places)
    }

    fn walk(segment: &Segment, parts: &Parts, places: impl Iterator<Item = (usize, Place)>) -> Vec<bool> {
        let mut ahead = Ahead::default();
        let step = |(number, place): (usize, Place)| {
            let was_there = ahead.piece.contains(place);
            assert_eq!(ahead.value(segment, parts, place).unwrap(), [number as u8; 1000][..]);
            assert!(ahead.piece.bytes.len() as u64 <= SCAN_BYTES[1]);
            was_there
        };
        places.map(step).collect()
    }

    #[test]
    fn records_behind_one_another_are_read_together() {
        let (_db, segment, parts, places) = log(1000);
        let all = places.into_iter().enumerate();
        let count = |there: &[bool]| there.iter().filter(|there| **there).count() as f64 / there.len() as f64;
        let there = walk(&segment, &parts, all.clone());
        assert!(!there[0] && !there[1], "one alone begins no reading ahead");
        assert!(count(&there) > 0.95);
        assert!(count(&walk(&segment, &parts, all.clone().step_by(3))) > 0.9, "others in between do no harm");
        assert_eq!(count(&walk(&segment, &parts, all.clone().rev())), 0.0);
        assert_eq!(count(&walk(&segment, &parts, all.step_by(100))), 0.0, "what lies far apart");
    }

    #[test]
    fn places_that_are_read_together_are_what_each_alone_is() {
        let (_db, segment, parts, places) = log(1000);
        let chosen: Vec<Place> = places.iter().copied().step_by(97).rev().collect();
        let spans: Vec<(u64, u64)> =
            chosen.iter().map(|place| (place.offset, u64::from(place.len))).collect();
        let pieces = Piece::read_all(&segment, &spans).unwrap();
        assert_eq!(pieces.len(), chosen.len());
        for (piece, place) in pieces.iter().zip(chosen) {
            let value = piece.as_ref().unwrap().value(&segment, &parts.header, place).unwrap();
            assert_eq!(value, segment.read_value(&parts.header, place).unwrap());
        }
        // A length that there is no memory for, and a place behind the end.
        let pieces = Piece::read_all(&segment, &[(0, u64::MAX), (1 << 40, 8), spans[0]]).unwrap();
        assert_eq!(pieces.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        assert!(pieces[1].as_ref().unwrap().bytes.is_empty());
    }

    #[test]
    fn what_was_read_ahead_is_no_read() {
        let (_db, segment, parts, places) = log(1000);
        let reads_of = |places: &mut dyn Iterator<Item = &Place>| {
            let reads = Reads::default();
            let mut ahead = Ahead::new(reads.clone());
            places.for_each(|place| drop(ahead.value(&segment, &parts, *place).unwrap()));
            reads.load(Relaxed) as usize
        };
        assert!(reads_of(&mut places.iter()) < places.len() / 20);
        assert_eq!(reads_of(&mut places.iter().rev()), places.len());
    }

    #[test]
    fn a_scan_begins_with_about_as_much_as_the_last_ones_read() {
        let (_db, segment, parts, places) = log(1000);
        let scan = |records: usize, number: usize| {
            let reads = Reads::default();
            let mut ahead = Ahead::new(reads.clone());
            let places = places.iter().skip(number * 37 % (places.len() - records)).take(records);
            places.for_each(|place| drop(ahead.value(&segment, &parts, *place).unwrap()));
            (reads.load(Relaxed), ahead.piece.bytes.len())
        };
        let [first, later] = [0, 40].map(|from| (from..from + 20).map(|number| scan(40, number).0).max());
        assert!(first >= Some(5) && later <= Some(3), "{first:?}, {later:?}");
        assert!((0..60).all(|number| scan(1, number).0 == 1));
        assert_eq!(scan(1, 7), (1, 0), "where runs are of one record, one is read");
    }

    #[test]
    fn what_was_written_lately_is_no_read() {
        let (db, segment, parts, places) =
            log_with(1000, KeyspaceOptions::new().layout(ChunkOptions::new().munks(false)));
        let reads = Reads::default();
        let mut ahead = Ahead::new(reads.clone());
        for (number, place) in places.iter().enumerate().rev() {
            assert_eq!(ahead.value(&segment, &parts, *place).unwrap(), [number as u8; 1000][..]);
        }
        assert_eq!(reads.load(Relaxed), 0);
        let memory = db.stats().memory;
        assert_eq!(memory.recent_reads, places.len() as u64);
        assert!(memory.recent > 1000 * places.len() as u64 && memory.recent < 2_000_000, "{memory:?}");
    }

    #[test]
    fn what_is_cut_off_is_reported_at_its_place() {
        let (_db, segment, parts, places) = log(1000);
        segment.file.handle().unwrap().set_len(places[20].offset + 5).unwrap();
        let mut ahead = Ahead::default();
        for (number, place) in places.into_iter().enumerate() {
            match ahead.value(&segment, &parts, place) {
                Ok(value) => assert!(number < 20 && value.len() == 1000),
                Err(error) => {
                    assert!(number >= 20 && error.is_corruption(), "{number}: {error}");
                    assert!(error.to_string().contains(&place.offset.to_string()), "{error}");
                }
            }
        }
    }
}
