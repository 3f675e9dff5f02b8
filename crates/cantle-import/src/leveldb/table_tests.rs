use super::*;
use crate::error::Error;
use crate::leveldb::block::tests::write_block;
use crate::leveldb::coding::tests::put_varint;
use crate::leveldb::compression::{NONE, SNAPPY};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The settings of a table of the tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub entries_per_block: usize,
    pub interval: usize,
    pub method: u8,
}

fn internal(key: &[u8], sequence: u64, kind: u8) -> Vec<u8> {
    [key, &(sequence << 8 | u64::from(kind)).to_le_bytes()].concat()
}

fn push_block(table: &mut Vec<u8>, block: Vec<u8>, method: u8) -> Vec<u8> {
    let packed = match method {
        SNAPPY => snap::raw::Encoder::new().compress_vec(&block).unwrap(),
        #[cfg(feature = "zstd")]
        super::super::compression::ZSTD => zstd::bulk::compress(&block, 1).unwrap(),
        _ => block,
    };
    let mut handle = Vec::new();
    put_varint(&mut handle, table.len() as u64);
    put_varint(&mut handle, packed.len() as u64);
    let sealed = [&packed[..], &[method]].concat();
    table.extend_from_slice(&sealed);
    table.extend_from_slice(&masked_crc(&sealed).to_le_bytes());
    handle
}

/// A table of these entries, which must be in order.
pub(crate) fn write_table(entries: &[Entry], shape: Shape) -> (Vec<u8>, TableFile) {
    let (mut table, mut index) = (Vec::new(), Vec::new());
    for part in entries.chunks(shape.entries_per_block) {
        let pairs: Vec<_> = part
            .iter()
            .map(|entry| {
                let kind = if entry.value.is_some() { VALUE } else { DELETION };
                (internal(&entry.key, entry.sequence, kind), entry.value.clone().unwrap_or_default())
            })
            .collect();
        let handle = push_block(&mut table, write_block(&pairs, shape.interval), shape.method);
        index.push((pairs.last().unwrap().0.clone(), handle));
    }
    let filters = push_block(&mut table, write_block(&[], 1), NONE);
    let index = push_block(&mut table, write_block(&index, 1), shape.method);
    let mut footer = [filters, index].concat();
    footer.resize(FOOTER_BYTES - 8, 0);
    footer.extend_from_slice(&MAGIC.to_le_bytes());
    table.extend_from_slice(&footer);
    let end = |entry: Option<&Entry>| entry.map(|entry| entry.key.clone()).unwrap_or_default();
    let (smallest, largest) = (end(entries.first()), end(entries.last()));
    let known = TableFile { number: 1, bytes: table.len() as u64, smallest, largest };
    (table, known)
}

fn read_table(bytes: &[u8], known: &TableFile, skip: bool) -> (Result<Vec<Entry>>, Reading) {
    let mut reading = Reading::new(skip);
    let file = SourceFile::in_memory("000001.ldb", bytes.to_vec());
    let read = (|| {
        let mut entries = Vec::new();
        if let Some(mut table) = Table::open(file, known.clone(), Place::default(), true, &mut reading)? {
            while let Some(entry) = table.next(&mut reading)? {
                entries.push(entry);
            }
        }
        Ok(entries)
    })();
    (read, reading)
}

/// Entries in order, several of a key among them.
pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let key = prop::collection::vec(0..3u8, 0..6);
    let value = prop::option::of(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        (any::<u8>(), 0..10_000usize).prop_map(|(byte, length)| vec![byte; length])
    ]);
    prop::collection::btree_map((key, 0..50u64), value, 1..60).prop_map(|entries| {
        let mut entries: Vec<Entry> =
            entries.into_iter().map(|((key, sequence), value)| Entry { key, sequence, value }).collect();
        entries.sort_by(|a, b| in_order((&a.key, a.sequence), (&b.key, b.sequence)));
        entries
    })
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let methods = if cfg!(feature = "zstd") { 0..3u8 } else { 0..2u8 };
    (1..10usize, 1..6usize, methods).prop_map(|(entries_per_block, interval, method)| Shape {
        entries_per_block,
        interval,
        method,
    })
}

proptest! {
    #[test]
    fn entries_come_back(entries in entries(), shape in shape()) {
        let (table, known) = write_table(&entries, shape);
        let (read, reading) = read_table(&table, &known, false);
        prop_assert_eq!(read.unwrap(), entries);
        prop_assert!(reading.lost.is_empty() && reading.bytes <= table.len() as u64);
    }

    #[test]
    fn a_changed_byte_is_damage_and_the_rest_is_read(
        entries in entries(), shape in shape(), at: prop::sample::Index, bits in 1..=255u8
    ) {
        let (mut table, known) = write_table(&entries, shape);
        let at = at.index(table.len());
        table[at] ^= bits;
        match read_table(&table, &known, false) {
            // Filters and the footer's zeros are not read.
            (Ok(read), _) => prop_assert_eq!(&read, &entries),
            (Err(Error::Damaged(damage)), _) => prop_assert!(damage.offset <= at as u64 || damage.offset >= known.bytes - 48),
            (Err(other), _) => prop_assert!(false, "{}", other),
        }
        let (left, reading) = read_table(&table, &known, true);
        let left = left.unwrap();
        prop_assert!(left.len() == entries.len() || reading.lost.len() == 1);
        // Missing entries lie within the keys that were reported.
        for entry in &entries {
            if !left.contains(entry) {
                let (from, to) = reading.lost[0].keys.clone().unwrap();
                prop_assert!(from <= entry.key && entry.key <= to, "{entry:?}");
            }
        }
    }

    #[test]
    fn a_table_that_was_cut_is_damaged(entries in entries(), shape in shape(), cut: prop::sample::Index) {
        let (table, known) = write_table(&entries, shape);
        let (read, _) = read_table(&table[..cut.index(table.len())], &known, false);
        prop_assert!(matches!(read, Err(Error::Damaged(_))));
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes: Vec<u8>, sealed: bool) {
        if sealed && bytes.len() >= FOOTER_BYTES {
            let at = bytes.len() - 8;
            bytes[at..].copy_from_slice(&MAGIC.to_le_bytes());
        }
        super::super::fuzzing::table(&bytes);
    }

    #[test]
    fn whatever_a_block_says_that_is_sealed_is_read_or_refused(
        block in prop::collection::vec(any::<u8>(), 4..200), index: bool, method in 0..4u8
    ) {
        // Behind right checksums.
        let mut table = Vec::new();
        let handle = push_block(&mut table, block.clone(), NONE);
        let at = table.len() - 5;
        table[at] = method;
        let checksum = masked_crc(&table[..=at]);
        table[at + 1..].copy_from_slice(&checksum.to_le_bytes());
        let index = if index { handle } else { push_block(&mut table, write_block(&[(vec![0xff; 9], handle)], 1), NONE) };
        let mut footer = [&[0, 0][..], &index].concat();
        footer.resize(FOOTER_BYTES - 8, 0);
        table.extend_from_slice(&footer);
        table.extend_from_slice(&MAGIC.to_le_bytes());
        super::super::fuzzing::table(&table);
    }
}

fn entry(key: &str, sequence: u64, value: Option<&str>) -> Entry {
    Entry { key: key.into(), sequence, value: value.map(Into::into) }
}

const SHAPE: Shape = Shape { entries_per_block: 1, interval: 16, method: SNAPPY };

#[test]
fn damage_names_file_offset_and_the_keys_it_may_concern() {
    let entries = [entry("a", 1, Some("1")), entry("b", 2, Some("2")), entry("c", 3, None)];
    let (mut table, known) = write_table(&entries, SHAPE);
    let second = table.iter().position(|&byte| byte == b'b').unwrap();
    table[second] ^= 1;
    let (read, _) = read_table(&table, &known, false);
    let message = read.unwrap_err().to_string();
    for part in ["000001.ldb", "offset", "checksum is wrong", "backup", "--skip-damaged"] {
        assert!(message.contains(part), "{message}");
    }
    let (left, reading) = read_table(&table, &known, true);
    assert_eq!(left.unwrap(), [entries[0].clone(), entries[2].clone()]);
    assert_eq!(reading.lost[0].keys, Some((b"a".to_vec(), b"b".to_vec())));
}

#[test]
fn tables_of_others_and_entries_that_are_out_of_place_are_refused() {
    let entries = [entry("a", 1, Some("1")), entry("b", 2, Some("2"))];
    let (mut table, known) = write_table(&entries, SHAPE);
    let says = |table: &[u8], known: &TableFile, what: &str| {
        let message = read_table(table, known, false).0.unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    };
    let elsewhere = TableFile { largest: b"a".to_vec(), ..known.clone() };
    says(&table, &elsewhere, "outside of what the manifest says");
    says(&table, &TableFile { bytes: known.bytes + 1, ..known.clone() }, "ends here");
    says(&table, &TableFile { bytes: 40, ..known.clone() }, "no footer");
    let at = table.len() - 8;
    table[at..].copy_from_slice(&0x88e2_41b7_85f4_cff7_u64.to_le_bytes());
    says(&table, &known, "RocksDB");
    table[at..].copy_from_slice(&[0; 8]);
    says(&table, &known, "magic number");
    let wrong = [entry("b", 1, Some("1")), entry("a", 2, Some("2"))];
    let (table, known) = write_table(&wrong, SHAPE);
    let known = TableFile { smallest: b"a".to_vec(), largest: b"b".to_vec(), ..known };
    says(&table, &known, "not behind the one before");
    let twice = [entry("a", 1, Some("1")), entry("a", 2, Some("2"))];
    let (table, known) = write_table(&twice, SHAPE);
    says(&table, &known, "not behind the one before");
}

#[test]
fn a_lost_block_is_told_by_the_keys_of_its_neighbours_in_the_index() {
    // The index has any key between two blocks, so a lost block's range is what lies between two of
    // them.
    let entries: BTreeMap<String, u64> = (0..20).map(|n| (format!("key{n:02}"), n)).collect();
    let entries: Vec<Entry> = entries.iter().map(|(key, n)| entry(key, *n, Some("v"))).collect();
    let (mut table, known) = write_table(&entries, Shape { entries_per_block: 5, interval: 2, method: NONE });
    table[3] ^= 0x40;
    let (left, reading) = read_table(&table, &known, true);
    assert_eq!(left.unwrap(), entries[5..]);
    assert_eq!(reading.lost[0].keys, Some((b"key00".to_vec(), b"key04".to_vec())));
}

#[test]
fn a_block_as_long_as_a_file_with_holes_takes_no_memory() {
    use std::os::unix::fs::FileExt;
    let place = tempfile::tempdir().unwrap();
    let (path, bytes) = (place.path().join("000001.ldb"), 1u64 << 40);
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(bytes).unwrap();
    let mut footer = Vec::new();
    [0, 0, 0, bytes / 2].iter().for_each(|&number| put_varint(&mut footer, number));
    footer.resize(FOOTER_BYTES - 8, 0);
    footer.extend_from_slice(&MAGIC.to_le_bytes());
    file.write_at(&footer, bytes - FOOTER_BYTES as u64).unwrap();
    let known = TableFile { number: 1, bytes, smallest: Vec::new(), largest: vec![9] };
    let file = SourceFile::open(&path).unwrap().unwrap();
    let error = Table::open(file, known, Place::default(), true, &mut Reading::new(false)).unwrap_err();
    assert!(error.to_string().contains("longer than any"), "{error}");
}
