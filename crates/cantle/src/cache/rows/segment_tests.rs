use super::segment::{Header, PAGE_BYTES, Segment};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;

fn header(key: &[u8], value: &[u8]) -> Header {
    Header::new(7, 9, 1, key, value).unwrap()
}

#[test]
fn rows_lie_one_behind_the_other_and_are_found_from_the_first() {
    let total_bytes = Arc::default();
    let mut segment = Segment::new(PAGE_BYTES, &total_bytes);
    assert!(segment.first().is_none());
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        (0..20u8).map(|n| (vec![n; usize::from(n)], vec![!n; 3 * usize::from(n)])).collect();
    let offsets: Vec<usize> =
        rows.iter().map(|(key, value)| segment.push(header(key, value), key, value)).collect();
    let mut at = segment.first();
    for ((key, value), &offset) in rows.iter().zip(&offsets) {
        assert_eq!(at, Some(offset));
        let header = segment.header(offset);
        assert_eq!((segment.key(offset, &header), segment.value(offset, &header)), (&key[..], &value[..]));
        at = segment.next(offset, header.row_bytes());
    }
    assert_eq!(at, None);
    assert_eq!(total_bytes.load(Relaxed), PAGE_BYTES as u64);
    drop(segment);
    assert_eq!(total_bytes.load(Relaxed), 0);
}

#[test]
fn a_value_is_overwritten_where_it_fits_and_nobody_reads() {
    let mut segment = Segment::new(PAGE_BYTES, &Arc::default());
    let first = segment.push(header(b"key", b"a longer value"), b"key", b"a longer value");
    let second = segment.push(header(b"k", b"beside it"), b"k", b"beside it");
    let lent = segment.lend(first);
    assert!(!segment.overwrite(first, 8, b"short"), "somebody reads");
    // Rows may be added after all lent values.
    segment.push(header(b"other", b"row"), b"other", b"row");
    assert_eq!(&*lent, b"a longer value");
    drop(lent);
    assert!(segment.overwrite(first, 8, b"short"));
    assert_eq!((&*segment.lend(first), segment.header(first).stamp), (&b"short"[..], 8));
    assert_eq!(segment.next(first, segment.header(first).row_bytes()), Some(second));
    assert!(segment.overwrite(first, 9, b"a longer value"), "the place is as long as it was");
    assert!(!segment.overwrite(first, 9, &[0; 100]));
    assert!(!segment.overwrite(second, 9, &[0; 100]));
    assert_eq!(&*segment.lend(second), b"beside it");
}

#[test]
fn what_is_lent_outlives_its_segment() {
    let total_bytes = Arc::default();
    let mut segment = Segment::new(PAGE_BYTES, &total_bytes);
    let offset = segment.push(header(b"", b"value"), b"", b"value");
    let lent = segment.lend(offset);
    drop(segment);
    assert_eq!((&*lent, total_bytes.load(Relaxed)), (&b"value"[..], PAGE_BYTES as u64));
    drop(lent);
    assert_eq!(total_bytes.load(Relaxed), 0);
}

#[test]
fn rows_move_to_the_front() {
    let mut segment = Segment::new(PAGE_BYTES, &Arc::default());
    let values: Vec<Vec<u8>> = (0..10u8).map(|n| vec![n; 10 + usize::from(n)]).collect();
    let offsets: Vec<usize> =
        values.iter().map(|value| segment.push(header(b"k", value), b"k", value)).collect();
    let mut to = 0;
    for &offset in offsets.iter().step_by(2) {
        let bytes = segment.header(offset).row_bytes();
        segment.shift(offset, to);
        segment.set_reads(to, 2);
        to += bytes;
    }
    segment.truncate(to);
    let mut at = segment.first();
    for value in values.iter().step_by(2) {
        let offset = at.unwrap();
        let header = segment.header(offset);
        assert_eq!((segment.value(offset, &header), header.reads), (&value[..], 2));
        at = segment.next(offset, header.row_bytes());
    }
    assert_eq!(at, None);
}

#[test]
fn reads_are_counted_up_to_a_few() {
    let mut segment = Segment::new(PAGE_BYTES, &Arc::default());
    let offset = segment.push(header(b"k", b"v"), b"k", b"v");
    let counts: Vec<u8> = (0..5)
        .map(|_| {
            segment.count_read(offset);
            segment.header(offset).reads
        })
        .collect();
    assert_eq!(counts, [1, 2, 3, 3, 3]);
}
