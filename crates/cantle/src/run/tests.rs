//! Stacks of runs, compared with a list of the writes: a get and a walk at a version return the
//! writes up to it; a merge changes no result; and changes since a version are found.

use crate::fetch::Directly;
use crate::files::space::Room;
use crate::filter::bloom;
use crate::format::bounds::encode_bounds;
use crate::log::env::LogEnv;
use crate::log::test_support::{log_env, new_log, write};
use crate::memory::account::Account;
use crate::mvcc::Keep;
use crate::read_ahead::BytesRead;
use crate::run::carried::clip;
use crate::run::changed::{key_changed, span_changed};
use crate::run::env::{RunCounters, RunEnv, RunOptions};
use crate::run::merged::Merged;
use crate::run::referred::Copying;
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::{Run, Source};
use crate::run::stack::RunStack;
use crate::run::visible::{Passed, next_visible};
use crate::run::writer::{KeptEntry, Output};
use crate::sync::Arc;
use crate::sync::on_use::OnUse;
use crate::table::Tables;
use crate::types::bounds::Bounds;
use crate::types::compression::Compression;
use crate::types::entry::Kind;
use crate::types::error::Result;
use crate::types::span::Span;
use crate::vfs::MemVfs;
use bytes::Bytes;
use crossbeam_utils::atomic::AtomicCell;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

pub(super) const KEYS: u8 = 12;

#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    Put(u8),
    Delete(u8),
    /// From a key up to another, which is left out.
    DeleteRange(u8, u8),
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..KEYS).prop_map(Op::Put),
        2 => (0..KEYS).prop_map(Op::Delete),
        1 => (0..KEYS, 1..5u8).prop_map(|(from, count)| Op::DeleteRange(from, from + count)),
    ];
    proptest::collection::vec(op, 3..60)
}

impl Op {
    pub(super) fn concerns(self, key: u8) -> bool {
        match self {
            Self::Put(at) | Self::Delete(at) => at == key,
            Self::DeleteRange(from, to) => (from..to).contains(&key),
        }
    }
}

pub(super) fn key_of(key: u8) -> [u8; 3] {
    [b'k', b'0' + key / 10, b'0' + key % 10]
}

pub(super) fn value_of(version: u64) -> Vec<u8> {
    format!("value {version}").into_bytes()
}

pub(super) fn range(from: u8, to: u8) -> Bounds {
    Bounds { start: Bound::Included(key_of(from).to_vec()), end: Bound::Excluded(key_of(to).to_vec()) }
}

struct Plenty;

impl Room for Plenty {
    fn left_bytes(&self) -> u64 {
        u64::MAX
    }
    fn has(&self, _: u64) -> bool {
        true
    }
    fn extend(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn redeem(&self, _: u64) {}
}

pub(super) fn run_env(log: Arc<LogEnv>) -> Arc<RunEnv> {
    let options = RunOptions {
        compression: Compression::None,
        at_once_bytes: 1 << 20,
        cut_prefix_bytes: 8,
        longest_inline: 1 << 10,
        filters: true,
        allocates: false,
        direct_io: false,
    };
    Arc::new(RunEnv {
        tables: Arc::new(Tables::new(&log.files, Account::new(u64::MAX))),
        log,
        options: AtomicCell::new(options),
        counters: OnUse::<RunCounters>::default(),
    })
}

pub(super) fn run_of(source: Source, span: Span) -> Run {
    Run { source, span: span.into(), dropped: None, dropped_ranges: None, share_bytes: None }
}

/// A log with these operations, the first `indexed` of which are indexed on disk. The first
/// operation has the version `first`.
pub(super) fn log_of(env: &RunEnv, ops: &[Op], first: u64, indexed: usize) -> Run {
    let log = new_log(env, false);
    for (index, (op, version)) in ops.iter().zip(first..).enumerate() {
        match *op {
            Op::Put(key) => write(env, &log, version, &[(Kind::Put, &key_of(key), &value_of(version))]),
            Op::Delete(key) => write(env, &log, version, &[(Kind::Delete, &key_of(key), b"")]),
            Op::DeleteRange(from, to) => {
                write(env, &log, version, &[(Kind::DeleteRange, b"", &encode_bounds(&range(from, to)))])
            }
        };
        if index + 1 == indexed {
            log.seal(env).unwrap();
        }
    }
    run_of(Source::Log(log.segment.clone()), Span::default())
}

/// A table of what a merge keeps of a stack; `None` if that is nothing.
pub(super) fn merged_table(env: &Arc<RunEnv>, stack: &RunStack, open: &[u64], bottom: Bottom) -> Option<Run> {
    let mut runs = merged_tables(env, stack, open, bottom, &[]);
    assert!(runs.len() <= 1);
    runs.pop()
}

/// The same in several tables, which begin at these keys, the first one apart.
pub(super) fn merged_tables(
    env: &Arc<RunEnv>,
    stack: &RunStack,
    open: &[u64],
    bottom: Bottom,
    starts: &[Bytes],
) -> Vec<Run> {
    let keep = Keep::new(open.to_vec());
    let mut merged = Merged::needed(env, stack, (&BytesRead::default(), Copying::ALL), open).unwrap();
    let deleted = if bottom == Bottom::Deeper { merged.carried(&keep) } else { Vec::new() };
    merged.cursor.seek_to_first().unwrap();
    let mut runs = Vec::new();
    for number in 0..=starts.len() {
        let start = number.checked_sub(1).map(|before| starts[before].clone());
        let span = Span { start, end: starts.get(number).cloned() };
        let mut room = Plenty;
        let output = Output::new(env, (0, 0), 1 << 40, &mut room);
        let mut output = output.with_deleted(clip(&env.order, &deleted, &span));
        while let Some(key) = merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key)) {
            if span.ends_before(&env.order, &key) {
                break;
            }
            let kept = keep_versions(env, &mut merged, &key, &keep, u64::MAX, bottom).unwrap();
            if !kept.is_empty() {
                output.add(kept.iter().map(KeptEntry::content)).unwrap();
            }
        }
        let tables = output.finish().unwrap();
        assert!(tables.len() <= 1);
        runs.extend(tables.iter().map(|table| run_of(Source::Table(table.table.clone()), span.clone())));
    }
    runs
}

/// The pairs visible at a version. Each write is one version later than the one before.
fn written(ops: &[Op], at: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    for (op, version) in ops.iter().zip(1..=at) {
        match *op {
            Op::Put(key) => drop(pairs.insert(key_of(key).to_vec(), value_of(version))),
            _ => pairs.retain(|key, _| !(0..KEYS).any(|k| op.concerns(k) && key_of(k) == key[..])),
        }
    }
    pairs
}

fn assert_seen(env: &Arc<RunEnv>, stack: &RunStack, ops: &[Op], at: u64) {
    let pairs = written(ops, at);
    for key in (0..KEYS).map(key_of) {
        let value = stack.get(env, &key, bloom::hash(&key), at, &Directly).unwrap().value;
        assert_eq!(value.as_deref(), pairs.get(&key[..]).map(|value| &value[..]), "{key:?} at {at}");
    }
    for forward in [true, false] {
        let mut merged = Merged::new(env, stack, false, |_| true).unwrap();
        if forward { merged.cursor.seek_to_first() } else { merged.cursor.seek_to_last() }.unwrap();
        let (mut walked, mut key) = (Vec::new(), Vec::new());
        while let Some(value) =
            next_visible(&mut merged, &mut key, at, forward, &mut Passed::default()).unwrap()
        {
            walked.push((key.clone(), value.to_vec()));
        }
        if !forward {
            walked.reverse();
        }
        assert_eq!(walked, pairs.clone().into_iter().collect::<Vec<_>>(), "at {at}");
    }
}

fn assert_changed(env: &Arc<RunEnv>, stack: &RunStack, ops: &[Op], since: u64) {
    let newer = &ops[(since as usize).min(ops.len())..];
    for key in 0..KEYS {
        let changed = newer.iter().any(|op| op.concerns(key));
        assert_eq!(key_changed(env, stack, &key_of(key), since).unwrap(), changed, "{key} since {since}");
        let span = range(key, key + 3);
        let changed = (key..key + 3).any(|key| newer.iter().any(|op| op.concerns(key)));
        assert_eq!(span_changed(env, stack, &span, since).unwrap().is_some(), changed, "{key} since {since}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_is_what_was_written_to_it(ops in ops(), open in 0.0..1.0f64, indexed in 0.0..1.0f64) {
        let env = run_env(log_env(&(Arc::new(MemVfs::new()) as _), 1));
        let (count, third) = (ops.len() as u64, ops.len() / 3);
        // A table under two logs; the older log is not written to any more.
        let (old, rest) = ops.split_at(third);
        let (middle, new) = rest.split_at(third);
        let oldest = RunStack { files: vec![log_of(&env, old, 1, old.len())] };
        let table = merged_table(&env, &oldest, &[], Bottom::Reached);
        let of = |part: &[Op]| (part.len() as f64 * indexed) as usize;
        let middle = log_of(&env, middle, 1 + third as u64, middle.len());
        let new = log_of(&env, new, 1 + 2 * third as u64, of(new));
        let logs = RunStack { files: vec![new, middle] };
        let stack = RunStack { files: logs.files.iter().cloned().chain(table.clone()).collect() };
        // The table has only the newest version of each key.
        let from = third as u64;
        for at in [from, (from + count) / 2, count, u64::MAX] {
            assert_seen(&env, &stack, &ops, at);
            assert_changed(&env, &stack, &ops, at);
        }
        // A snapshot is open while all is merged, or all but the table.
        let open = from + ((count - from) as f64 * open) as u64;
        let all = merged_table(&env, &stack, &[open], Bottom::Reached);
        let all = RunStack { files: all.into_iter().collect() };
        let upper = merged_table(&env, &logs, &[open], Bottom::Deeper);
        let upper = RunStack { files: upper.into_iter().chain(table).collect() };
        for at in [open, u64::MAX] {
            assert_seen(&env, &all, &ops, at);
            assert_seen(&env, &upper, &ops, at);
        }
        assert_changed(&env, &upper, &ops, open);
        let versions = |stack: &RunStack| stack.sizes().entries;
        prop_assert!(versions(&all) <= 2 * u64::from(KEYS), "two views need no more");
    }
}

#[test]
fn a_run_says_nothing_of_keys_outside_of_its_span() {
    let env = run_env(log_env(&(Arc::new(MemVfs::new()) as _), 1));
    let newer = log_of(&env, &[Op::Put(1), Op::DeleteRange(4, 9), Op::Put(6)], 10, 3);
    let older = log_of(&env, &[Op::Put(1), Op::Put(5), Op::Put(6), Op::Put(8)], 1, 4);
    let span = Span {
        start: Some(Bytes::copy_from_slice(&key_of(3))),
        end: Some(Bytes::copy_from_slice(&key_of(7))),
    };
    let newer = run_of(newer.source, span);
    let stack = RunStack { files: vec![newer, older] };
    let get = |key: u8| {
        stack.get(&env, &key_of(key), bloom::hash(&key_of(key)), u64::MAX, &Directly).unwrap().value
    };
    let values = [(1, Some(1)), (5, None), (6, Some(12)), (8, Some(4))];
    for (key, version) in values {
        assert_eq!(get(key).map(|value| value.to_vec()), version.map(value_of), "{key}");
    }
    let table = merged_table(&env, &stack, &[], Bottom::Reached).unwrap();
    let stack = RunStack { files: vec![table] };
    for (key, version) in values {
        let value =
            stack.get(&env, &key_of(key), bloom::hash(&key_of(key)), u64::MAX, &Directly).unwrap().value;
        assert_eq!(value.map(|value| value.to_vec()), version.map(value_of), "{key} in a table");
    }
    assert!(!key_changed(&env, &stack, &key_of(1), 12).unwrap());
}
