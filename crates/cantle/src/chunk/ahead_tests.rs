//! Read-ahead in logs: the bytes that a read fetches, and when.

use super::test_support::chunks_of;
use crate::Db;
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::parts::Parts;
use crate::log::read::ahead::{ReadAhead, ReadBuffer, Reads};
use crate::log::segment::Segment;
use crate::read_ahead::SCAN_BYTES;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};

/// A log with an indexed part, and the places of its records in the order of writing.
fn log(pairs: usize) -> (Db, Arc<Segment>, Arc<Parts>, Vec<RecordPtr>) {
    log_with(pairs, KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).recent_appends(false)))
}

fn log_with(pairs: usize, keyspace: KeyspaceOptions) -> (Db, Arc<Segment>, Arc<Parts>, Vec<RecordPtr>) {
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

fn walk(segment: &Segment, parts: &Parts, places: impl Iterator<Item = (usize, RecordPtr)>) -> Vec<bool> {
    let mut ahead = ReadAhead::default();
    let step = |(number, place): (usize, RecordPtr)| {
        let was_there = ahead.buffer.contains(place);
        assert_eq!(ahead.value(segment, parts, place).unwrap(), [number as u8; 1000][..]);
        assert!(ahead.buffer.bytes.len() as u64 <= SCAN_BYTES[1]);
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
    let (db, segment, parts, places) = log(1000);
    let context = chunks_of(&db).context.clone();
    let chosen: Vec<RecordPtr> = places.iter().copied().step_by(97).rev().collect();
    let spans: Vec<(u64, u64)> = chosen.iter().map(|place| (place.offset, u64::from(place.len))).collect();
    let pieces = ReadBuffer::read_all(&context, &segment, &spans).unwrap();
    assert_eq!(pieces.len(), chosen.len());
    for (piece, place) in pieces.iter().zip(chosen) {
        let value = piece.as_ref().unwrap().value(&segment, &parts.header, place).unwrap();
        assert_eq!(value, segment.read_value(&parts.header, place).unwrap());
    }
    // A length for which there is no memory, and a place after the end.
    let pieces = ReadBuffer::read_all(&context, &segment, &[(0, u64::MAX), (1 << 40, 8), spans[0]]).unwrap();
    assert_eq!(pieces.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
    assert!(pieces[1].as_ref().unwrap().bytes.is_empty());
}

#[test]
fn what_was_read_ahead_is_no_read() {
    let (_db, segment, parts, places) = log(1000);
    let reads_of = |places: &mut dyn Iterator<Item = &RecordPtr>| {
        let reads = Reads::default();
        let mut ahead = ReadAhead::new(reads.clone());
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
        let mut ahead = ReadAhead::new(reads.clone());
        let places = places.iter().skip(number * 37 % (places.len() - records)).take(records);
        places.for_each(|place| drop(ahead.value(&segment, &parts, *place).unwrap()));
        (reads.load(Relaxed), ahead.buffer.bytes.len())
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
    let mut ahead = ReadAhead::new(reads.clone());
    for (number, place) in places.iter().enumerate().rev() {
        assert_eq!(ahead.value(&segment, &parts, *place).unwrap(), [number as u8; 1000][..]);
    }
    assert_eq!(reads.load(Relaxed), 0);
    let memory = db.stats().memory;
    assert_eq!(memory.recent_reads, places.len() as u64);
    assert!(memory.recent.used > 1000 * places.len() as u64 && memory.recent.used < 2_000_000, "{memory:?}");
}

#[test]
fn what_is_cut_off_is_reported_at_its_place() {
    let (_db, segment, parts, places) = log(1000);
    segment.file.handle().unwrap().set_len(places[20].offset + 5).unwrap();
    let mut ahead = ReadAhead::default();
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
