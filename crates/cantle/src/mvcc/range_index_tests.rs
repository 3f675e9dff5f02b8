//! The range index against a plain sorted list, in the bytewise order and in one that sorts the
//! empty key last and has no prefixes; and the cost of a change.

use super::range_index::RangeIndex;
use crate::sync::Arc;
use crate::types::order::{Comparator, KeyOrder};
use bytes::Bytes;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;
use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "reverse"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The ranges' minimal keys and identities; the first is the lowest, whatever its key.
type Model = Vec<(Vec<u8>, u32)>;

fn position(model: &Model, order: &KeyOrder, within: impl Fn(Ordering) -> bool, key: &[u8]) -> usize {
    (1..model.len()).rev().find(|&index| within(order.compare(&model[index].0, key))).unwrap_or(0)
}

fn entries(ranges: &[(Vec<u8>, u32)]) -> Vec<(Bytes, Arc<u32>)> {
    ranges.iter().map(|(key, range)| (Bytes::from(key.clone()), Arc::new(*range))).collect()
}

fn check(
    index: &RangeIndex<u32>,
    model: &Model,
    order: &KeyOrder,
    keys: &[Vec<u8>],
) -> Result<(), TestCaseError> {
    let view = index.view();
    prop_assert_eq!(view.len(), model.len());
    let all: Model = view.iter().map(|(key, range)| (key.to_vec(), **range)).collect();
    prop_assert_eq!(&all, model);
    for key in keys {
        let at = position(model, order, Ordering::is_le, key);
        prop_assert_eq!(*index.find(key), model[at].1);
        prop_assert_eq!(**index.load().find(key), model[at].1);
        let before = position(model, order, Ordering::is_lt, key);
        prop_assert_eq!(**view.find_last_before(Some(key)), model[before].1);
        let from: Vec<u32> = view.iter_from(key).map(|(_, range)| **range).collect();
        prop_assert!(from.iter().eq(model[at..].iter().map(|(_, range)| range)));
    }
    prop_assert_eq!(**view.find_last_before(None), model[model.len() - 1].1);
    Ok(())
}

/// Short keys over few bytes, so that they collide; some share their first eight bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = vec(prop_oneof![Just(0u8), Just(1), Just(7), Just(255)], 0..4);
    (any::<bool>(), tail)
        .prop_map(|(long, tail)| if long { [&b"prefixed"[..], &tail].concat() } else { tail })
}

proptest! {
    #[test]
    fn every_question_has_the_answer_of_a_plain_list(
        reverse in any::<bool>(),
        initial in btree_set(key(), 0..100),
        steps in vec((any::<Index>(), 1usize..30, vec(key(), 0..60)), 0..12),
        probes in vec(key(), 20),
    ) {
        let order = if reverse { KeyOrder::custom(Arc::new(Reverse)) } else { KeyOrder::Bytewise };
        let mut names = 0..;
        let mut initial: Vec<Vec<u8>> = initial.into_iter().filter(|key| !key.is_empty()).collect();
        initial.sort_by(|a, b| order.compare(a, b));
        initial.insert(0, Vec::new());
        let mut model: Model = initial.into_iter().zip(names.by_ref()).collect();
        let index = RangeIndex::new(order.clone(), entries(&model));
        check(&index, &model, &order, &probes)?;
        for (at, remove_count, mut keys) in steps {
            let at = at.index(model.len());
            let end = (at + remove_count).min(model.len());
            let first = model[at].0.clone();
            let fits = |key: &Vec<u8>| {
                !key.is_empty()
                    && (at == 0 || order.compare(&first, key).is_lt())
                    && model.get(end).is_none_or(|(next, _)| order.compare(key, next).is_lt())
            };
            keys.retain(fits);
            keys.sort_by(|a, b| order.compare(a, b));
            keys.dedup();
            keys.insert(0, first.clone());
            let add: Model = keys.into_iter().zip(names.by_ref()).collect();
            let before = index.view();
            let unchanged: Vec<u32> = before.iter().map(|(_, range)| **range).collect();
            let removed: Vec<_> = before.iter().skip(at).take(end - at).map(|(_, range)| range).collect();
            let keys: Vec<Bytes> = add.iter().map(|(key, _)| Bytes::from(key.clone())).collect();
            let limit = model.get(end).map(|(key, _)| Bytes::from(key.clone()));
            prop_assert!(index.check_replace(&removed, &keys, limit.as_ref()).is_ok());
            prop_assert!(index.check_replace(&removed, &keys[1..], limit.as_ref()).is_err());
            let beyond = [&keys[..], &[limit.clone().unwrap_or(keys[0].clone())]].concat();
            prop_assert!(index.check_replace(&removed, &beyond, limit.as_ref()).is_err());
            let elsewhere = Bytes::from_static(b"elsewhere");
            prop_assert!(index.check_replace(&removed, &keys, Some(&elsewhere)).is_err());
            prop_assert!(index.check_replace(&[&Arc::new(0)], &keys, limit.as_ref()).is_err());
            index.replace(&first, end - at, entries(&add));
            prop_assert!(before.iter().map(|(_, range)| **range).eq(unchanged), "an old view changed");
            model.splice(at..end, add);
            check(&index, &model, &order, &probes)?;
        }
    }
}

/// A generator with a fixed seed (an LCG of Knuth's), so that the run can be repeated.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 16
}

fn number(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Maximum of entries that a change may copy: two blocks and a neighbour of up to 2√n each, and a
/// list of up to 2√n blocks.
fn allowed(ranges: usize) -> usize {
    8 * ranges.isqrt().max(16)
}

#[test]
fn a_split_or_a_merge_copies_in_the_order_of_the_square_root() {
    const CHANGES: usize = 8_000;
    for (start, ascending) in [(1, true), (1, false), (92_000, true), (92_000, false)] {
        let stride = u64::MAX / 2 / start as u64;
        let range = Arc::new(());
        let entries = (0..start as u64).map(|at| (number(at * stride), range.clone())).collect();
        let index = RangeIndex::new(KeyOrder::Bytewise, entries);
        let (mut state, mut greatest) = (7, start as u64 * stride);
        while index.load().len() < start + CHANGES {
            greatest += 1;
            let split = number(if ascending { greatest } else { random(&mut state) });
            let view = index.view();
            let Some((first, _)) = view.iter_from(&split).next().filter(|(first, _)| **first != split) else {
                continue;
            };
            let copied =
                index.replace(first, 1, vec![(first.clone(), range.clone()), (split, range.clone())]);
            let ranges = view.len();
            assert!(copied <= allowed(ranges), "a split of one in {ranges} ranges copied {copied} entries");
        }
        let end = start.max(2);
        let mut last_copied = 0;
        while index.load().len() > end {
            let view = index.view();
            let pivot = random(&mut state) as usize % view.len();
            let mut run = view.iter().skip(pivot).take(2);
            let (Some((first, _)), Some(_)) = (run.next(), run.next()) else { continue };
            last_copied = index.replace(first, 2, vec![(first.clone(), range.clone())]);
            assert!(last_copied <= allowed(start + CHANGES), "a merge copied {last_copied} entries");
        }
        assert!(last_copied <= allowed(end), "with {end} ranges left, a merge copied {last_copied} entries");
    }
}

#[test]
fn an_index_built_at_once_costs_no_more_to_change() {
    for ranges in [1, 2, 1_000, 100_000] {
        let key = |at: usize| number(at as u64);
        let entries = (0..ranges).map(|at| (key(at), Arc::new(at))).collect();
        let index = RangeIndex::new(KeyOrder::Bytewise, entries);
        for at in [0, ranges / 2, ranges - 1] {
            let copied = index.replace(&key(at), 1, vec![(key(at), Arc::new(at))]);
            assert!(copied <= allowed(ranges), "{copied} of {ranges}");
        }
    }
}

#[test]
#[should_panic(expected = "no range begins with")]
fn a_caller_that_lost_track_of_its_chunk_changes_nothing() {
    let index = RangeIndex::new(KeyOrder::Bytewise, entries(&[(vec![], 0), (vec![5], 1)]));
    index.replace(&[4], 1, entries(&[(vec![4], 2)]));
}

/// The reverse order for a number of comparisons; then it fails.
struct Failing(AtomicUsize);

impl Comparator for Failing {
    fn name(&self) -> &str {
        "failing"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
    fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
        let before = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        before.map(|_| self.compare(a, b)).map_err(|_| "it had no answer".into())
    }
}

/// The replacement is on disk by then, and a reader goes from a retired range to its successor.
#[test]
fn a_chunk_is_replaced_though_the_comparator_fails_just_then() {
    let before: Model = (0..20).map(|range| (vec![200 - 10 * range as u8], range)).collect();
    for replaced in 0..before.len() {
        let (key, _) = &before[replaced];
        let added = [(key.clone(), 100), (vec![key[0] - 5], 101)];
        let mut after = before.clone();
        after.splice(replaced..=replaced, added.clone());
        let mut failed = 0;
        for comparisons in 0.. {
            let comparator = Arc::new(Failing(usize::MAX.into()));
            let order = KeyOrder::custom(comparator.clone());
            let index = RangeIndex::new(order.clone(), entries(&before));
            comparator.0.store(comparisons, Relaxed);
            index.replace(key, 1, entries(&added));
            let found: Model = index.view().iter().map(|(key, range)| (key.to_vec(), **range)).collect();
            assert_eq!(found, after, "comparison {comparisons}");
            if order.failure().is_none() {
                break;
            }
            failed += 1;
        }
        assert!(failed > 0);
    }
}
