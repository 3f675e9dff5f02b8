//! The list compared with an ordered map of the standard library, under several orders, and at its
//! limits.

use super::{Entry, Item, SkipList};
use crate::log::index::record_ptr::RecordPtr;
use crate::mvcc::CommitCell;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use crate::types::entry::Kind;
use crate::types::order::{Comparator, KeyOrder};
use proptest::prelude::*;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// Keys backwards. Keys of at most `prefixed_bytes_max` bytes have a prefix.
struct Backwards {
    prefixed_bytes_max: Option<usize>,
}

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn prefix(&self, key: &[u8]) -> Option<u64> {
        self.prefixed_bytes_max.filter(|max| key.len() <= *max)?;
        let mut first = [0; 8];
        key.iter().zip(&mut first).for_each(|(byte, first)| *first = *byte);
        Some(!u64::from_be_bytes(first))
    }
}

fn backwards(prefixed_bytes_max: Option<usize>) -> KeyOrder {
    KeyOrder::custom(Arc::new(Backwards { prefixed_bytes_max }))
}

/// All kinds of orders: bytewise, and backwards with prefixes, without any, and with prefixes of
/// some keys only.
fn orders() -> [KeyOrder; 4] {
    [KeyOrder::Bytewise, backwards(Some(usize::MAX)), backwards(None), backwards(Some(2))]
}

fn list(order: KeyOrder) -> SkipList {
    SkipList::new(order, 7, Arc::default())
}

fn item(key: &[u8], version: u64, offset: u64) -> Item<'_> {
    Item { key, version, kind: Kind::Put, place: RecordPtr { offset, len: 1 }, cell: None, value: None }
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    key: Vec<u8>,
    version: u64,
    kind: Kind,
    place: RecordPtr,
    value: Option<Vec<u8>>,
}

fn said(entry: Entry<'_>) -> Said {
    Said {
        key: entry.key().to_vec(),
        version: entry.version(),
        kind: entry.kind(),
        place: entry.place(),
        value: entry.value().map(<[u8]>::to_vec),
    }
}

fn all(list: &SkipList) -> Vec<Said> {
    std::iter::successors(list.first(), Entry::next).map(said).collect()
}

/// A key of the map, in the order of lists.
struct InOrder {
    order: KeyOrder,
    key: Vec<u8>,
    then: (Reverse<u64>, Reverse<u64>, Reverse<usize>),
}

impl PartialEq for InOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for InOrder {}
impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare(&self.key, &other.key).then_with(|| self.then.cmp(&other.then))
    }
}

fn some_key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(0u8..3, 0..4),
        4 => prop::collection::vec(prop_oneof![Just(0u8), Just(7), Just(255)], 7..11),
        1 => (4_000usize..4_200).prop_map(|len| vec![5; len]),
    ]
}

fn some_said() -> impl Strategy<Value = Said> {
    let value = prop_oneof![
        3 => Just(None),
        2 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
        1 => (4_000usize..4_200).prop_map(|len| Some(vec![9; len])),
    ];
    let number = || prop_oneof![0u64..4, Just(u64::MAX), Just((1 << 40) - 1), Just(1 << 40)];
    let kind = prop_oneof![Just(Kind::Put), Just(Kind::Delete)];
    (some_key(), number(), kind, number(), any::<u32>(), value).prop_map(
        |(key, version, kind, offset, len, value)| Said {
            key,
            version,
            kind,
            place: RecordPtr { offset, len },
            value,
        },
    )
}

/// Inserted and noted operations are in the same order as in the map, from every starting point.
#[expect(clippy::mutable_key_type, reason = "no order of these changes its answers")]
fn behaves_as_a_map(order: KeyOrder, inserted: &[(Said, bool)], sought: &[(Vec<u8>, u64)]) {
    let total: Arc<AtomicU64> = Arc::default();
    let list = SkipList::new(order.clone(), 7, total.clone());
    let mut map: BTreeMap<InOrder, Said> = BTreeMap::new();
    for (number, (said, is_noted)) in inserted.iter().enumerate() {
        let Said { key, version, kind, place, value } = said.clone();
        let item = Item { key: &key, version, kind, place, cell: None, value: value.as_deref() };
        if *is_noted { list.note(item) } else { list.insert(item) }.unwrap();
        let then = (Reverse(version), Reverse(place.offset), Reverse(number));
        map.insert(InOrder { order: order.clone(), key, then }, said.clone());
    }
    assert_eq!(list.len(), inserted.len());
    let mut lengths = Vec::new();
    list.for_each(|entry| lengths.push(entry.key().len()));
    assert_eq!(lengths.len(), inserted.len());
    let noted: Vec<Said> = list.noted().into_iter().map(said).collect();
    assert_eq!(noted.len() + all(&list).len(), inserted.len());
    assert!(map.values().filter(|said| noted.contains(said)).count() >= noted.len());
    list.merge_deferred();
    assert!(list.noted().is_empty());
    assert_eq!(all(&list), map.values().cloned().collect::<Vec<_>>());
    let mut back: Vec<Said> = std::iter::successors(list.last(), Entry::prev).map(said).collect();
    back.reverse();
    assert_eq!(all(&list), back);
    for (key, version) in sought {
        let probe = |version: u64| InOrder {
            order: order.clone(),
            key: key.clone(),
            then: (Reverse(version), Reverse(u64::MAX), Reverse(usize::MAX)),
        };
        assert_eq!(
            list.seek(key, *version).map(said).as_ref(),
            map.range(probe(*version)..).next().map(|(_, said)| said)
        );
        assert_eq!(
            list.seek_before(key).map(said).as_ref(),
            map.range(..probe(u64::MAX)).next_back().map(|(_, said)| said)
        );
    }
    for entry in std::iter::successors(list.first(), Entry::next) {
        assert_eq!(said(list.at(entry.mark())), said(entry));
    }
    drop(list);
    assert_eq!(total.load(Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_behaves_as_a_map_by_every_order(
        inserted in prop::collection::vec((some_said(), prop::bool::weighted(0.3)), 0..if cfg!(miri) { 10 } else { 200 }),
        sought in prop::collection::vec((some_key(), prop_oneof![0u64..5, Just(u64::MAX)]), 1..20),
    ) {
        orders().into_iter().for_each(|order| behaves_as_a_map(order, &inserted, &sought));
    }
}

#[test]
fn the_longest_and_the_shortest_keys() {
    for order in orders() {
        let list = list(order);
        let long = vec![1; if cfg!(miri) { 10_000 } else { 1 << 20 }];
        let keys: [&[u8]; 3] = [b"", &long, &long[1..]];
        for (number, key) in keys.iter().enumerate() {
            for version in [0, 1, u64::MAX] {
                list.insert(item(key, version, number as u64)).unwrap();
            }
        }
        for key in keys {
            let found = list.seek(key, u64::MAX).unwrap();
            assert_eq!((found.key(), found.version()), (key, u64::MAX));
            let found = list.seek(key, u64::MAX - 1).unwrap();
            assert_eq!((found.key(), found.version()), (key, 1));
        }
        assert_eq!(all(&list).len(), 9);
        assert_eq!(std::iter::successors(list.last(), Entry::prev).count(), 9);
    }
}

#[test]
fn many_entries_of_one_key_stand_newest_first_and_latest_first() {
    let list = list(KeyOrder::Bytewise);
    let count = if cfg!(miri) { 50 } else { 2_000 };
    for number in 0..count {
        list.insert(item(b"one key", number % 10, number)).unwrap();
    }
    let places: Vec<_> = std::iter::successors(list.first(), Entry::next)
        .map(|entry| (Reverse(entry.version()), Reverse(entry.place().offset)))
        .collect();
    assert!(places.len() == count as usize && places.is_sorted());
    assert!(list.seek_before(b"one key").is_none());
    assert_eq!(list.seek(b"one key", 3).unwrap().version(), 3);
}

/// With any order, nothing is lost, and no walk is endless.
#[test]
fn an_order_that_contradicts_itself_loses_nothing() {
    struct Random(AtomicU64);
    impl Comparator for Random {
        fn name(&self) -> &str {
            "random"
        }
        fn compare(&self, _: &[u8], _: &[u8]) -> Ordering {
            let number = self.0.fetch_add(1, Relaxed);
            [Ordering::Less, Ordering::Greater, Ordering::Equal]
                [(crate::sync::random::mix(number) % 3) as usize]
        }
    }
    let list = list(KeyOrder::custom(Arc::new(Random(AtomicU64::new(1)))));
    let count = if cfg!(miri) { 40 } else { 3_000 };
    for number in 0..count {
        let key = number.to_string();
        let item = item(key.as_bytes(), number, number);
        if number % 5 == 0 { list.note(item) } else { list.insert(item) }.unwrap();
        list.seek(b"any", u64::MAX);
        list.seek_before(b"any");
    }
    assert_eq!(list.noted().len(), count.div_ceil(5) as usize);
    list.merge_deferred();
    let mut versions: Vec<u64> = all(&list).iter().map(|said| said.version).collect();
    versions.sort_unstable();
    assert!(versions.into_iter().eq(0..count));
}

#[test]
fn a_batch_shows_once_it_is_committed_and_its_cell_goes_with_the_list() {
    let list = list(KeyOrder::Bytewise);
    let cell = CommitCell::new();
    list.insert(Item { cell: Some(cell.clone()), ..item(b"a", 2, 20) }).unwrap();
    list.note(Item { cell: Some(cell.clone()), ..item(b"b", 2, 30) }).unwrap();
    list.insert(item(b"a", 1, 10)).unwrap();
    let seen = || {
        std::iter::successors(list.first(), Entry::next).map(|entry| entry.is_visible()).collect::<Vec<_>>()
    };
    assert_eq!(seen(), [false, true]);
    cell.commit();
    assert_eq!(seen(), [true, true]);
    // Miri finds a cell that leaks, and one that is dropped twice.
    drop(list);
    assert!(cell.is_committed());
}

#[test]
#[should_panic(expected = "a mark of another list")]
fn a_mark_is_good_for_its_list_alone() {
    let (one, other) = (list(KeyOrder::Bytewise), list(KeyOrder::Bytewise));
    one.insert(item(b"a", 1, 1)).unwrap();
    other.insert(item(b"a", 1, 1)).unwrap();
    other.at(one.first().unwrap().mark());
}

/// Two writers and a reader. The reader finds each list in order, with all entries that were there
/// before.
#[test]
fn several_threads_insert_while_others_read() {
    const WRITERS: u64 = 3;
    let count: u64 = if cfg!(miri) { 10 } else { 20_000 };
    let list = list(KeyOrder::Bytewise);
    let done = AtomicBool::new(false);
    let key = |writer: u64, number: u64| {
        let mixed = crate::sync::random::mix(number * WRITERS + writer);
        (mixed % 1_000_000).to_be_bytes()
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let list = &list;
                scope.spawn(move || {
                    for number in 0..count {
                        let (key, version) = (key(writer, number), number * WRITERS + writer);
                        list.insert(item(&key, version, version)).unwrap();
                        let found = list.seek(&key, version).unwrap();
                        assert_eq!((found.key(), found.version()), (&key[..], version));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut least = 0;
            while !done.load(Relaxed) {
                let entries: Vec<_> = std::iter::successors(list.first(), Entry::next)
                    .map(|entry| (entry.key(), Reverse(entry.version())))
                    .collect();
                assert!(entries.is_sorted() && entries.len() >= least);
                least = entries.len();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Relaxed);
    });
    assert_eq!(all(&list).len() as u64, WRITERS * count);
    for (writer, number) in (0..WRITERS).flat_map(|writer| (0..count).map(move |number| (writer, number))) {
        let (key, version) = (key(writer, number), number * WRITERS + writer);
        assert_eq!(list.seek(&key, version).unwrap().version(), version);
    }
}
