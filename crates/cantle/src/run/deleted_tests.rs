//! Range deletes in tables: whatever is merged in whatever order, every open snapshot and the newest
//! state stay as they were written.

use super::tests::{KEYS, Op, key_of, merged_tables, range, run_env, run_of, value_of};
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::format::bounds::encode_bounds;
use crate::log::test_support::{log_env, new_log, write};
use crate::mvcc::Keep;
use crate::read_ahead::BytesRead;
use crate::run::changed::{key_changed, span_changed};
use crate::run::dropped_ranges::{DroppedRanges, joined, longest, span_of};
use crate::run::env::RunEnv;
use crate::run::merged::Merged;
use crate::run::referred::Copying;
use crate::run::retain::Bottom;
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::visible::{Passed, next_visible};
use crate::sync::Arc;
use crate::table::DeletedRange;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::MemVfs;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A write; a snapshot is opened after it if `snapshot`, and the next write has a new version.
type Write = (Op, bool);

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let op = prop_oneof![
        5 => (0..KEYS).prop_map(Op::Put),
        1 => (0..KEYS).prop_map(Op::Delete),
        3 => (0..KEYS, 1..6u8).prop_map(|(from, count)| Op::DeleteRange(from, from + count)),
    ];
    prop::collection::vec((op, prop::bool::weighted(0.2)), 2..50)
}

/// The writes with their versions.
fn versioned(writes: &[Write]) -> Vec<(Op, u64)> {
    let mut version = 1;
    let next = |&(op, snapshot): &Write| {
        let own = version;
        version += u64::from(snapshot);
        (op, own)
    };
    writes.iter().map(next).collect()
}

/// The pairs at a version. The number of the write is the value.
fn written(writes: &[(Op, u64)], at: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    for (number, (op, _)) in (0u64..).zip(writes).filter(|(_, (_, version))| *version <= at) {
        match *op {
            Op::Put(key) => drop(pairs.insert(key_of(key).to_vec(), value_of(number))),
            _ => pairs.retain(|key, _| !(0..KEYS).any(|k| op.concerns(k) && key_of(k) == key[..])),
        }
    }
    pairs
}

/// A sealed log of these writes, numbered from `first`.
fn log_of(env: &RunEnv, writes: &[(Op, u64)], first: u64) -> Run {
    let log = new_log(env, false);
    for (number, &(op, version)) in (first..).zip(writes) {
        let (kind, key, value) = match op {
            Op::Put(key) => (Kind::Put, key_of(key).to_vec(), value_of(number)),
            Op::Delete(key) => (Kind::Delete, key_of(key).to_vec(), Vec::new()),
            Op::DeleteRange(from, to) => (Kind::DeleteRange, Vec::new(), encode_bounds(&range(from, to))),
        };
        write(env, &log, version, &[(kind, &key, &value)]);
    }
    log.seal(env).unwrap();
    run_of(Source::Log(log.segment.clone()), Span::default())
}

fn assert_seen(env: &Arc<RunEnv>, stack: &RunStack, writes: &[(Op, u64)], open: &[u64]) {
    let now = written(writes, u64::MAX);
    for &at in open.iter().chain([&u64::MAX]) {
        let pairs = written(writes, at);
        for key in 0..KEYS {
            let (name, value) = (key_of(key), pairs.get(&key_of(key)[..]));
            let found = stack.get(env, &name, bloom::hash(&name), at, &Directly).unwrap().value;
            assert_eq!(found.as_deref(), value.map(|value| &value[..]), "get {key} at {at}");
            if at != u64::MAX && now.get(&name[..]) != value {
                assert!(key_changed(env, stack, &name, at).unwrap(), "{key} has changed since {at}");
                let span = range(key, key + 1);
                assert!(span_changed(env, stack, &span, at).unwrap().is_some(), "{key} since {at}");
            }
        }
        for forward in [true, false] {
            let mut merged = Merged::at(env, stack, at).unwrap();
            if forward { merged.cursor.seek_to_first() } else { merged.cursor.seek_to_last() }.unwrap();
            let (mut walked, mut key, mut passed) = (BTreeMap::new(), Vec::new(), Passed::default());
            while let Some(value) = next_visible(&mut merged, &mut key, at, forward, &mut passed).unwrap() {
                walked.insert(key.clone(), value.to_vec());
            }
            assert_eq!(walked, pairs, "walk at {at}");
        }
    }
}

/// Notes the parts of an older run that these ranges cover, however short they are.
fn drop_parts(order: &KeyOrder, run: &mut Run, deleted: &[DeletedRange], open: &[u64]) {
    let old = run.dropped_ranges.take();
    let new = deleted.iter().filter_map(|range| {
        let span = span_of(order, &range.bounds)?.intersect(order, &run.span)?;
        Some((span, *range.versions.last()?))
    });
    let class = |version: u64| open.partition_point(|at| *at < version);
    let old = old.as_ref().map_or(&[][..], |ranges| ranges.list());
    let ranges = joined(order, old, new, |a, b| class(a) == class(b));
    run.dropped_ranges = DroppedRanges::new(longest(ranges));
}

/// The first of the levels to merge, their number, keys at which the tables begin, and if a snapshot is closed
/// before it.
type Merge = (usize, usize, BTreeSet<u8>, bool);

/// Writes logs that end before these numbers of writes, and merges neighbours of them.
fn check(writes: &[Write], cuts: &[usize], merges: Vec<Merge>, notes_parts: bool) {
    let env = run_env(log_env(&(Arc::new(MemVfs::new()) as _), 1));
    let numbered = versioned(writes);
    let mut open: Vec<u64> =
        numbered.iter().zip(writes).filter(|(_, (_, snapshot))| *snapshot).map(|((_, at), _)| *at).collect();
    let ends: BTreeSet<usize> = cuts.iter().map(|cut| cut % writes.len()).chain([0, writes.len()]).collect();
    let ends: Vec<usize> = ends.into_iter().collect();
    // A level of the stack is a list of runs that have no key in common.
    let mut levels: Vec<Vec<Run>> = ends
        .windows(2)
        .rev()
        .map(|end| vec![log_of(&env, &numbered[end[0]..end[1]], end[0] as u64)])
        .collect();
    let stack = |levels: &[Vec<Run>]| RunStack { files: levels.iter().flatten().cloned().collect() };
    assert_seen(&env, &stack(&levels), &numbered, &open);
    for (from, count, starts, closes) in merges {
        if closes && !open.is_empty() {
            open.remove(open.len() / 2);
        }
        let from = from % levels.len();
        let to = (from + count).min(levels.len());
        let bottom = if to == levels.len() { Bottom::Reached } else { Bottom::Deeper };
        let starts: Vec<Bytes> = starts.into_iter().map(|key| Bytes::copy_from_slice(&key_of(key))).collect();
        let inputs = stack(&levels[from..to]);
        let output = merged_tables(&env, &inputs, &open, bottom, &starts);
        if notes_parts && bottom == Bottom::Deeper {
            let merged = Merged::needed(&env, &inputs, (&BytesRead::default(), Copying::ALL), &open).unwrap();
            let deleted = merged.carried(&Keep::new(open.clone()));
            let older = levels[to..].iter_mut().flatten();
            older.for_each(|run| drop_parts(&env.order, run, &deleted, &open));
        }
        levels.splice(from..to, [output]);
        assert_seen(&env, &stack(&levels), &numbered, &open);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_merges_changes_what_is_seen(
        writes in writes(),
        cuts in prop::collection::vec(0..50usize, 0..6),
        merges in prop::collection::vec((0..8usize, 2..5usize, prop::collection::btree_set(0..KEYS, 0..3), any::<bool>()), 1..6),
        notes_parts in any::<bool>(),
    ) {
        check(&writes, &cuts, merges, notes_parts);
    }
}

/// The oldest run is merged alone, and keeps a delete of the key with the version of the range delete that
/// is noted for it, which is higher than that of the newer write.
#[test]
fn a_noted_range_delete_hides_no_newer_run() {
    let deleted = Op::DeleteRange(8, 12);
    let writes = [(Op::Put(11), false), (deleted, false), (Op::Put(11), true), (deleted, false)];
    let merges = [(3, 1), (0, 2), (2, 1), (0, 3)].map(|(from, count)| (from, count, BTreeSet::new(), false));
    check(&writes, &[1, 2, 3], merges.into(), true);
}

#[test]
fn a_range_without_keys_gets_a_table_of_range_deletes_alone() {
    let env = run_env(log_env(&(Arc::new(MemVfs::new()) as _), 1));
    let log = log_of(&env, &[(Op::Put(1), 1), (Op::DeleteRange(2, 9), 2), (Op::Put(8), 2)], 0);
    let starts = [4, 6, 11].map(|key| Bytes::copy_from_slice(&key_of(key)));
    let stack = RunStack { files: vec![log] };
    let runs = merged_tables(&env, &stack, &[], Bottom::Deeper, &starts);
    let told = |run: &Run| match &run.source {
        Source::Table(table) => (table.entries, table.has_deleted),
        Source::Log(_) => panic!("a log"),
    };
    let told: Vec<_> = runs.iter().map(told).collect();
    assert_eq!(told, [(1, true), (0, true), (1, true)], "and nothing behind the range");
    assert!(runs.iter().all(|run| run.may_be_newer(1) && !run.may_be_newer(2)));
    assert!(merged_tables(&env, &stack, &[], Bottom::Reached, &starts).len() == 2, "nothing to delete");
}
