use super::build::room_for;
use super::search::Located;
use super::*;
use crate::mvcc::CommitCell;
use crate::mvcc::Keep;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::types::entry::{Content, Kind};
use crate::types::order::KeyOrder;
use std::ops::Bound::{Excluded, Included, Unbounded};

fn put<'a>(key: &'a [u8], version: u64, value: &'a [u8]) -> Content<'a> {
    Content { key, version, kind: Kind::Put, value }
}

fn delete(key: &[u8], version: u64) -> Content<'_> {
    Content { key, version, kind: Kind::Delete, value: b"" }
}

fn nobody(_: u64, _: u64) -> bool {
    false
}

/// The `needed` function while these snapshots are open.
fn open(snapshots: &[u64]) -> impl Fn(u64, u64) -> bool + use<> {
    let keep = Keep::new(snapshots.to_vec());
    move |older, newer| keep.needed(Some(newer), older)
}

/// A munk of these keys at version 1, each key being its own value.
fn munk(keys: &[&str], room: usize) -> Arc<Munk> {
    let mut builder = MunkBuilder::new(KeyOrder::Bytewise, 0, Arc::default());
    keys.iter().for_each(|key| builder.push(put(key.as_bytes(), 1, key.as_bytes())));
    Arc::new(builder.finish(room))
}

fn keys(munk: &Arc<Munk>, at: u64) -> Vec<String> {
    let mut cursor = munk.cursor(at);
    let mut keys = Vec::new();
    let mut is_at = cursor.seek_to_first();
    while is_at {
        keys.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
        is_at = cursor.next();
    }
    let mut back = Vec::new();
    let mut is_at = cursor.seek_to_last();
    while is_at {
        back.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
        is_at = cursor.prev();
    }
    back.reverse();
    assert_eq!(keys, back);
    keys
}

#[test]
fn a_munk_without_keys_takes_the_first() {
    let munk = munk(&[], 1);
    assert_eq!(munk.get(b"", u64::MAX), None);
    assert!(keys(&munk, u64::MAX).is_empty());
    munk.insert(put(b"", 1, b"empty"), None, nobody).unwrap();
    assert_eq!(munk.get(b"", u64::MAX), Some(&b"empty"[..]));
    assert_eq!(munk.insert(put(b"a", 1, b""), None, nobody), Err(Full));
    assert_eq!(munk.insert(delete(b"a", 1), None, nobody), Ok((0, 0)), "a delete of nothing needs no room");
    munk.insert(put(b"", 1, b"again"), None, nobody).unwrap();
    assert_eq!(munk.get(b"", u64::MAX), Some(&b"again"[..]));
}

#[test]
fn inserts_between_sorted_keys_are_found_in_order() {
    let munk = munk(&["b", "d", "f", "h"], 8);
    for key in ["e", "a", "ea", "g", "c", "eb"] {
        munk.insert(put(key.as_bytes(), 2, b""), None, nobody).unwrap();
    }
    assert_eq!(keys(&munk, u64::MAX).concat(), "abcdeeaebfgh");
    assert_eq!(keys(&munk, 1).concat(), "bdfh");
}

#[test]
fn keys_in_order_leave_a_munk_sorted_even_after_others_out_of_order() {
    let munk = munk(&["key-05"], 40);
    munk.insert(put(b"key-01", 2, b""), None, nobody).unwrap();
    for number in 10..40 {
        let key = format!("key-{number}");
        munk.insert(put(key.as_bytes(), 2, b""), None, nobody).unwrap();
        assert_eq!(munk.locate(key.as_bytes()), Located::Found { slot: number - 8, steps: 0 });
    }
    assert_eq!(munk.slots.sorted(), 31);
    assert!(!munk.is_tangled());
}

#[test]
#[cfg_attr(miri, ignore = "long, and nothing that the others don't do")]
fn a_munk_whose_inserts_walk_far_asks_to_be_sorted() {
    let munk = munk(&["a", "z"], 1000);
    for number in 0..1000 {
        munk.insert(put(format!("k{number:04}").as_bytes(), 2, b""), None, nobody).unwrap();
        if munk.is_tangled() {
            let sorted = munk.resort(1000, nobody);
            assert!(!sorted.is_tangled());
            assert!(number > 50, "after {number}");
            assert_eq!(sorted.slots.sorted(), number + 3);
            return;
        }
    }
    panic!("never asked");
}

/// Numbers below `count`, in an order of the given kind.
fn numbers(count: u32, kind: &str) -> Vec<u32> {
    match kind {
        "ascending" => (0..count).collect(),
        "descending" => (0..count).rev().collect(),
        "under eight prefixes in turn" => (0..count).map(|nth| nth % 8 * (count / 8) + nth / 8).collect(),
        "shuffled" => (0..count).map(|nth| (u64::from(nth) * 7919 % u64::from(count)) as u32).collect(),
        _ => unreachable!(),
    }
}

/// Like an app's events in a chunk of several apps.
#[test]
fn however_many_keys_are_inserted_in_one_place_a_search_walks_few_steps() {
    let count = if cfg!(miri) { 48 } else { 8_000 };
    let name = |number: u32| format!("app-5/{number:06}");
    for kind in ["ascending", "descending", "under eight prefixes in turn", "shuffled"] {
        let munk = munk(&["app-1/000000", "app-9/000000"], count as usize);
        for number in numbers(count, kind) {
            munk.insert(put(name(number).as_bytes(), 2, b""), None, nobody).unwrap();
        }
        assert_eq!(keys(&munk, u64::MAX).len(), count as usize + 2, "{kind}");
        let (mut sum, mut most) = (0, 0);
        for number in 0..count {
            let Located::Found { steps, .. } = munk.locate(name(number).as_bytes()) else {
                panic!("{number} is lost, {kind}");
            };
            (sum, most) = (sum + steps, most.max(steps));
        }
        let mean = sum / u64::from(count);
        println!("{kind}: {mean} steps, at most {most}");
        assert!(mean < 48 && most < 240, "{kind}: {mean} steps, at most {most}");
        assert_eq!(munk.get(b"app-5/0000000", u64::MAX), None);
        let towers = munk.towers();
        assert!((u64::from(count) / 16..=u64::from(count) / 4).contains(&towers), "{towers} towers, {kind}");
    }
}

#[test]
fn an_overwritten_version_stays_while_a_snapshot_needs_it_and_no_longer() {
    let munk = munk(&["k"], 0);
    let versions = || munk.versions(u64::MAX).map(Record::version).collect::<Vec<_>>();
    munk.insert(put(b"k", 5, b"5"), None, open(&[3])).unwrap();
    munk.insert(put(b"k", 5, b"5b"), None, open(&[3])).unwrap();
    munk.insert(put(b"k", 6, b"6"), None, open(&[3, 5])).unwrap();
    munk.insert(put(b"k", 7, b"7"), None, open(&[3, 5])).unwrap();
    assert_eq!(versions(), [7, 5, 1]);
    assert_eq!(munk.get(b"k", 3), Some(&b"k"[..]));
    assert_eq!(munk.get(b"k", 5), Some(&b"5b"[..]));
    munk.insert(put(b"k", 8, b"8"), None, open(&[5])).unwrap();
    assert_eq!(versions(), [8, 5], "what lies below a version that stays is dropped as well");
    munk.insert(put(b"k", 9, b"9"), None, nobody).unwrap();
    assert_eq!(versions(), [9]);
    let record = munk.find(b"k", u64::MAX).unwrap().size();
    assert_eq!(munk.live_bytes(), record);
    assert_eq!(munk.rebalance(0, nobody).garbage_bytes(), 0);
    assert!(munk.garbage_bytes() >= 5 * record);
}

#[test]
fn deletes_hide_keys_and_are_gone_after_sorting() {
    let munk = munk(&["a", "b", "c", "d", "e"], 4);
    munk.insert(delete(b"b", 5), None, open(&[3])).unwrap();
    munk.delete_range((Excluded(b"c"), Included(b"d")), 6, None, open(&[3]));
    assert_eq!(keys(&munk, u64::MAX).concat(), "ace");
    assert_eq!(keys(&munk, 3).concat(), "abcde");
    assert_eq!(munk.find(b"b", u64::MAX).unwrap().version(), 5);
    let sorted = Arc::new(munk.resort(0, open(&[3])));
    assert_eq!(keys(&sorted, 3).concat(), "abcde");
    let sorted = Arc::new(sorted.resort(0, nobody));
    assert_eq!((keys(&sorted, u64::MAX).concat(), sorted.len()), ("ace".into(), 3));
    sorted.delete_range((Unbounded, Unbounded), 7, None, nobody);
    assert!(sorted.resort(0, nobody).len() == 0);
    assert_eq!(keys(&munk, 3).concat(), "abcde", "the old munk is as before");
}

#[test]
fn a_batch_shows_when_its_cell_says_so() {
    let munk = munk(&["a", "b"], 4);
    let cell = CommitCell::new();
    munk.insert(put(b"a", 5, b"A"), Some(&cell), nobody).unwrap();
    munk.insert(put(b"c", 5, b"C"), Some(&cell), nobody).unwrap();
    munk.insert(delete(b"b", 5), Some(&cell), nobody).unwrap();
    assert_eq!(munk.get(b"a", u64::MAX), Some(&b"a"[..]));
    assert_eq!(keys(&munk, u64::MAX).concat(), "ab");
    cell.commit();
    assert_eq!(munk.get(b"a", u64::MAX), Some(&b"A"[..]));
    assert_eq!(keys(&munk, u64::MAX).concat(), "ac");
    munk.insert(put(b"a", 6, b"6"), None, nobody).unwrap();
    assert_eq!(munk.versions(u64::MAX).count(), 4, "a, b's delete and its value below, c");
}

#[test]
fn a_batch_that_failed_leaves_nothing() {
    let munk = munk(&["a", "b"], 4);
    let cell = CommitCell::new();
    munk.insert(put(b"a", 5, b"A"), Some(&cell), nobody).unwrap();
    munk.insert(put(b"c", 5, b"C"), Some(&cell), nobody).unwrap();
    munk.delete_range((Unbounded, Unbounded), 5, Some(&cell), nobody);
    assert_eq!(keys(&munk, u64::MAX).concat(), "ab");
    munk.insert(delete(b"c", 6), None, nobody).unwrap();
    munk.insert(put(b"b", 6, b"6"), None, nobody).unwrap();
    assert_eq!(munk.get(b"a", u64::MAX), Some(&b"a"[..]));
    let sorted = Arc::new(munk.resort(0, nobody));
    assert_eq!((keys(&sorted, u64::MAX).concat(), sorted.len()), ("ab".into(), 2));
}

#[test]
fn splitting_gives_each_part_its_blocks_and_joining_undoes_it() {
    let total = Arc::<AtomicU64>::default();
    let mut builder = MunkBuilder::new(KeyOrder::Bytewise, 0, total.clone());
    let value = vec![7; 3000];
    let name = |number: u32| format!("user/{number:05}");
    (0..400).for_each(|number| builder.push(put(name(number).as_bytes(), 1, &value)));
    let munk = builder.finish(8);
    assert_eq!(total.load(Relaxed), munk.bytes());
    let boundaries = [100, 200, 300].map(name);
    let parts = munk.split(&boundaries, room_for, nobody);
    let blocks = parts.iter().map(|part| part.counts.block_bytes.load(Relaxed)).sum::<u64>();
    let block_bytes = munk.counts.block_bytes.load(Relaxed);
    // At each boundary one block is shared, and the largest block is half of all.
    assert!(blocks <= block_bytes + 3 * block_bytes / 2, "{blocks} of {block_bytes}");
    assert!(parts.iter().all(|part| part.counts.block_bytes.load(Relaxed) < block_bytes));
    drop(munk);
    for part in &parts {
        assert!((90..=110).contains(&part.len()), "{}", part.len());
    }
    let joined = Munk::join(&parts.iter().collect::<Vec<_>>(), 0, nobody);
    drop(parts);
    assert_eq!(total.load(Relaxed), joined.bytes(), "what is shared counts until the last lets go");
    assert_eq!((joined.len(), joined.garbage_bytes()), (400, 0));
    assert_eq!(joined.get(name(399).as_bytes(), 1), Some(&value[..]));
    drop(joined);
    assert_eq!(total.load(Relaxed), 0);
}

#[test]
fn a_munk_sorted_anew_frees_blocks_of_garbage() {
    let munk = munk(&["a", "b"], 0);
    for version in 2..20 {
        munk.insert(put(b"a", version, &[1; 100_000]), None, nobody).unwrap();
    }
    let sorted = munk.resort(0, nobody);
    assert_eq!(sorted.garbage_bytes(), munk.garbage_bytes() - 17 * 100_040);
    assert_eq!(sorted.live_bytes(), munk.live_bytes());
}

#[test]
fn a_cursor_outlives_its_chunk() {
    let munk = munk(&["a", "b"], 4);
    let mut cursor = munk.cursor(1);
    assert!(cursor.seek(b"aa"));
    drop(munk);
    assert_eq!((cursor.key(), cursor.value()), (Some(&b"b"[..]), Some(&b"b"[..])));
    assert!(cursor.prev());
    assert!(!cursor.prev());
    assert!(!cursor.prev());
    assert!(!cursor.next());
    fn is_send(_: impl Send + Sync) {}
    is_send(cursor);
}

#[test]
fn long_keys_and_long_values() {
    let munk = munk(&["m"], 4);
    let (key, value) = (vec![b'k'; 64 << 10], vec![b'v'; if cfg!(miri) { 300 << 10 } else { 5 << 20 }]);
    munk.insert(put(&key, 2, &value), None, nobody).unwrap();
    munk.insert(put(&key[1..], 2, b""), None, nobody).unwrap();
    assert_eq!(munk.get(&key, 2), Some(&value[..]));
    assert_eq!(munk.get(&key[1..], 2), Some(&b""[..]));
    assert_eq!(munk.get(&key[2..], 2), None);
    assert!(munk.bytes() as usize > key.len() + value.len());
}

#[test]
fn the_lower_bound_is_that_of_the_standard_library() {
    for len in 0..70_u64 {
        let prefixes: Vec<u64> = (0..len).map(|index| index / 3 * 2).collect();
        let atomics: Vec<AtomicU64> = prefixes.iter().map(|&prefix| AtomicU64::new(prefix)).collect();
        for prefix in 0..len + 2 {
            let expected = prefixes.partition_point(|&other| other < prefix);
            assert_eq!(super::search::lower_bound(&atomics, prefix), expected, "{prefix} of {len}");
        }
    }
}
