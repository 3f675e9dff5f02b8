use super::model::{self, Entry, check_cursor, probes, put};
use super::*;
use crate::sync::Arc;
use crate::types::entry::{EntryCursor, EntryRef};
use crate::types::error::{Error, Result as StoreResult};
use proptest::prelude::*;

const BASE: u64 = 500;

/// A block cursor as the trait that the model checks.
struct Walk(BlockCursor);

fn store(result: Result<(), Malformed>) -> StoreResult<()> {
    result.map_err(|Malformed(what)| Error::corruption("block", 0, what))
}

impl EntryCursor for Walk {
    fn seek_to_first(&mut self) -> StoreResult<()> {
        store(self.0.seek_to_first())
    }
    fn seek_to_last(&mut self) -> StoreResult<()> {
        store(self.0.seek_to_last())
    }
    fn seek(&mut self, key: &[u8]) -> StoreResult<()> {
        store(self.0.seek(key))
    }
    fn seek_before(&mut self, key: &[u8]) -> StoreResult<()> {
        store(self.0.seek_before(key))
    }
    fn next(&mut self) -> StoreResult<()> {
        store(self.0.next())
    }
    fn prev(&mut self) -> StoreResult<()> {
        store(self.0.prev())
    }
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.0.entry()
    }
    fn value(&mut self) -> StoreResult<Bytes> {
        Ok(self.0.value())
    }
}

fn build(entries: &[Entry], restart_entries: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::with_restarts(BASE, restart_entries);
    // The second round checks that a builder starts over.
    for _ in 0..2 {
        assert!(builder.is_empty());
        for entry in entries {
            builder.add(&entry.key, entry.version, entry.kind, &entry.value);
        }
        let size_bytes = builder.size_bytes();
        let block = builder.finish();
        assert_eq!(block.len(), size_bytes);
        if entries.is_empty() {
            return block;
        }
        for entry in entries {
            builder.add(&entry.key, entry.version, entry.kind, &entry.value);
        }
        assert_eq!(builder.finish(), block);
    }
    for entry in entries {
        builder.add(&entry.key, entry.version, entry.kind, &entry.value);
    }
    builder.finish()
}

fn parse(bytes: &[u8]) -> Result<Arc<Block>, Malformed> {
    Block::parse(Bytes::copy_from_slice(bytes), BASE).map(Arc::new)
}

/// Does every operation of a block: each of them ends and none panics.
fn exercise(block: &Arc<Block>, order: &KeyOrder) {
    let steps_max = block.bytes.len() + 1;
    let mut cursor = BlockCursor::new(block.clone(), order.clone());
    for forward in [true, false] {
        let mut steps = 0;
        let mut step = if forward { cursor.seek_to_first() } else { cursor.seek_to_last() };
        while step.is_ok() && cursor.entry().is_some() {
            assert!(cursor.value().len() <= block.bytes.len());
            step = if forward { cursor.next() } else { cursor.prev() };
            steps += 1;
            assert!(steps <= steps_max, "a walk has no end");
        }
        assert!(cursor.entry().is_none(), "after an error or the end a cursor is not positioned");
    }
    for key in [&b""[..], b"a", b"k/2", b"\xff"] {
        for version in [0, BASE + 1, u64::MAX] {
            let _ = cursor.seek_version(key, version);
            let _ = cursor.prev();
            if let Ok((mut probe, Some(hit))) = Probe::find(block, order, key, version) {
                let mut hit = Some(hit);
                while let Some(found) = hit.take_if(|found| found.is_target) {
                    block.slice(found.value);
                    hit = probe.next().unwrap_or_default();
                }
            }
        }
        let _ = cursor.seek_before(key);
    }
}

proptest! {
    #[test]
    fn a_block_reads_as_its_model(
        (order, entries) in model::entries(BASE, true),
        restart_entries in prop_oneof![1usize..5, Just(RESTART_ENTRIES_MAX)],
    ) {
        let block = parse(&build(&entries, restart_entries)).unwrap();
        prop_assert_eq!(block.restarts == 0, entries.is_empty());
        check_cursor(&mut Walk(BlockCursor::new(block.clone(), order.clone())), &entries, &order);
        let mut cursor = BlockCursor::new(block.clone(), order.clone());
        for target in probes(&entries) {
            for version in [0, BASE, BASE + 150, BASE + 300, u64::MAX] {
                let at = entries.partition_point(|entry| {
                    entry_order(&order, &entry.key, entry.version, &target, version).is_lt()
                });
                cursor.seek_version(&target, version).unwrap();
                let sought = cursor.entry().map(|entry| (entry.key.to_vec(), entry.version));
                prop_assert_eq!(sought, entries.get(at).map(|entry| (entry.key.clone(), entry.version)));

                // The probe finds the same entry and walks through all entries of the target.
                let (mut probe, mut hit) = Probe::find(&block, &order, &target, version).unwrap();
                for entry in &entries[at..] {
                    let found = hit.unwrap();
                    prop_assert_eq!(found.is_target, order.compare(&entry.key, &target).is_eq());
                    prop_assert_eq!((found.version, found.kind), (entry.version, entry.kind));
                    prop_assert_eq!(block.slice(found.value), entry.value.clone());
                    if !found.is_target {
                        break;
                    }
                    hit = probe.next().unwrap();
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_walked_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(block) = parse(&bytes) {
            exercise(&block, &KeyOrder::Bytewise);
        }
    }

    #[test]
    fn any_entries_behind_good_restart_points_are_walked_or_refused(
        entries in proptest::collection::vec(prop_oneof![0u8..12, any::<u8>()], 1..200),
        restarts in proptest::collection::btree_set(1u32..200, 0..5),
        reversed: bool,
    ) {
        let mut bytes = entries.clone();
        let restarts: Vec<u32> = std::iter::once(0).chain(restarts).filter(|&at| (at as usize) < entries.len()).collect();
        restarts.iter().for_each(|at| bytes.extend_from_slice(&at.to_le_bytes()));
        bytes.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        let block = parse(&bytes).unwrap();
        exercise(&block, &if reversed { model::reverse() } else { KeyOrder::Bytewise });
    }
}

#[test]
fn every_flipped_byte_and_every_truncation_is_walked_or_refused() {
    let entries: Vec<Entry> =
        (0..40).map(|i| put(format!("k/{i}"), BASE + i % 3, vec![b'v'; i as usize % 7])).collect();
    let intact = build(&entries, 4);
    for at in 0..intact.len() {
        for flip in 1..=u8::MAX {
            let mut bytes = intact.clone();
            bytes[at] ^= flip;
            if let Ok(block) = parse(&bytes) {
                exercise(&block, &KeyOrder::Bytewise);
            }
        }
        if let Ok(block) = parse(&intact[..at]) {
            exercise(&block, &KeyOrder::Bytewise);
        }
    }
}

#[test]
fn restart_points_are_checked_when_a_block_is_parsed() {
    let block = |restarts: &[u32], count: u32| {
        let mut bytes = vec![0; 16]; // four entries without key or value
        restarts.iter().for_each(|restart| bytes.extend_from_slice(&restart.to_le_bytes()));
        bytes.extend_from_slice(&count.to_le_bytes());
        parse(&bytes).map(|_| ())
    };
    assert_eq!(block(&[0, 4], 2), Ok(()));
    for (restarts, count) in [
        (&[4, 8][..], 2),    // the first is not at 0
        (&[0, 0], 2),        // twice the same
        (&[0, 8, 4], 3),     // descending
        (&[0, 16], 2),       // at the end of the entries
        (&[0, u32::MAX], 2), // beyond
        (&[], 0),            // none
        (&[0], u32::MAX),    // more than there is room for
        (&[0], 7),
    ] {
        assert!(block(restarts, count).is_err(), "{restarts:?}");
    }
    assert!(parse(&[]).is_err() && parse(&[0; 3]).is_err());
    assert!(parse(&[0; 4]).unwrap().restarts == 0);
}

#[test]
fn a_stretch_without_restart_points_is_not_decoded_backwards() {
    // Each entry repeats a key of 60,000 bytes in four: decoded and kept, they would take gigabytes.
    let mut bytes = Vec::new();
    crate::format::codec::put_varint(&mut bytes, 1);
    crate::format::codec::put_varint(&mut bytes, 60_000);
    bytes.extend_from_slice(&[0, 0]);
    bytes.resize(bytes.len() + 60_000, b'k');
    for _ in 0..100_000 {
        crate::format::codec::put_varint(&mut bytes, 60_000 << KIND_BITS | 1);
        bytes.extend_from_slice(&[0, 0, 0]);
    }
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let mut cursor = BlockCursor::new(parse(&bytes).unwrap(), KeyOrder::Bytewise);
    assert_eq!(cursor.seek_to_last(), Err(Malformed("too many entries without a restart point")));
}

#[test]
fn a_key_that_grows_beyond_its_limit_is_refused() {
    let mut bytes = Vec::new();
    for shared in [0u64, 600_000] {
        crate::format::codec::put_varint(&mut bytes, shared << KIND_BITS | 1);
        crate::format::codec::put_varint(&mut bytes, 600_000);
        bytes.extend_from_slice(&[0, 0]);
        bytes.resize(bytes.len() + 600_000, b'k');
    }
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let mut cursor = BlockCursor::new(parse(&bytes).unwrap(), KeyOrder::Bytewise);
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.next(), Err(Malformed("a key exceeds 1 MiB")));
    assert!(cursor.entry().is_none());
}

#[test]
#[should_panic(expected = "version 499 is below 500")]
fn a_version_below_the_base_is_a_broken_invariant() {
    BlockBuilder::new(BASE).add(b"key", BASE - 1, crate::types::entry::Kind::Put, b"");
}

#[test]
fn a_restart_point_inside_an_entry_is_noticed_on_the_way_back() {
    let mut bytes = vec![1, 1, 0, 6, b'a'];
    bytes.extend_from_slice(&[1, 1, 0, 3, b'x', 0]); // the value of `a` looks like an entry that reaches into `b`
    bytes.extend_from_slice(&[1, 1, 0, 0, b'b']);
    bytes.extend_from_slice(&[0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0]);
    let mut cursor = BlockCursor::new(parse(&bytes).unwrap(), KeyOrder::Bytewise);
    cursor.seek_to_first().unwrap();
    cursor.next().unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"b");
    assert_eq!(cursor.prev(), Err(Malformed("a restart point is not the start of an entry")));
    assert!(cursor.entry().is_none());
}
