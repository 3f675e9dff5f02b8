//! Parallel search: it finds what a search run by run finds, and its reads wait for a device together.

use super::run::{Run, Source};
use super::search::search;
use super::stack::RunStack;
use super::tests::{KEYS, Op, key_of, log_of, merged_table, ops, run_env, value_of};
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::log::test_support::log_env;
use crate::run::env::RunEnv;
use crate::run::get::Answer;
use crate::run::retain::Bottom;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::vfs::{Call, Failure, FaultVfs, MemVfs, Operation, Verdict};
use proptest::prelude::*;

struct World {
    vfs: Arc<FaultVfs>,
    env: Arc<RunEnv>,
}

impl World {
    fn new() -> Self {
        let vfs = Arc::new(FaultVfs::new(Arc::new(MemVfs::new())));
        let env = run_env(log_env(&(vfs.clone() as _), 1));
        env.queue.depth.deepen_for_test();
        Self { vfs, env }
    }

    /// A run of these operations, the first of which has this version: a log that is indexed, or a table.
    fn run(&self, ops: &[Op], first: u64, is_table: bool) -> Option<Run> {
        let log = log_of(&self.env, ops, first, ops.len());
        match is_table {
            true => merged_table(&self.env, &RunStack { files: vec![log] }, &[], Bottom::Deeper),
            false => Some(log),
        }
    }

    /// Drops what readers have in memory of these runs.
    fn forget(&self, stack: &RunStack) {
        let files: Vec<u64> = stack.files.iter().map(|run| run.file().id).collect();
        self.env.cache.forget(&files);
        files.iter().for_each(|file| self.env.tables.forget(*file));
    }

    fn directly(&self, stack: &RunStack, key: u8, at: u64) -> Result<Answer> {
        let key = key_of(key);
        stack.get(&self.env, &key, bloom::hash(&key), at, &Directly)
    }

    fn search(&self, stack: &RunStack, key: u8, at: u64, runs_max: u32) -> Result<Answer> {
        let key = key_of(key);
        search(&self.env, stack.files.iter(), (&key, bloom::hash(&key)), at, || runs_max)
    }

    /// Gets that read in parallel, the runs that they searched, and those that were of no use.
    fn counts(&self) -> [u64; 3] {
        let counters = &self.env.counters;
        [&counters.parallel_gets, &counters.parallel_get_runs, &counters.parallel_get_runs_in_vain]
            .map(|counter| counter.get())
    }
}

fn seen(answer: Result<Answer>) -> String {
    match answer {
        Ok(Answer { value, served }) => format!("{value:?} {served:?}"),
        Err(error) => error.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Whatever is cached, deleted, or cannot be read: every key has the same result, and it is counted alike.
    #[test]
    fn a_parallel_search_finds_what_a_search_run_by_run_finds(
        ops in ops(),
        run_ops in 1..8_usize,
        tables in any::<u64>(),
        failing in prop_oneof![2 => Just(0), 1 => any::<u64>()],
        cold in prop::bool::weighted(0.7),
        runs_max in 1..17_u32,
        at in 1..60_u64,
    ) {
        let world = World::new();
        let parts = ops.chunks(run_ops).enumerate();
        let run = |(number, part): (usize, &[Op])| {
            world.run(part, 1 + (number * run_ops) as u64, tables >> (number % 64) & 1 == 1)
        };
        let mut files: Vec<Run> = parts.filter_map(run).collect();
        files.reverse();
        let stack = RunStack { files };
        let paths = stack.files.iter().map(|run| run.file().path.clone()).enumerate();
        let broken: Vec<_> = paths.filter(|(number, _)| failing >> (number % 64) & 3 == 3).collect();
        world.vfs.set_rule(move |call: &Call<'_>| {
            let fails = call.operation == Operation::ReadAt && broken.iter().any(|(_, path)| *path == call.path);
            if fails { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
        });
        let runs_asked = || world.env.counters.get_runs.get();
        for (key, at) in (0..KEYS).flat_map(|key| [(key, at), (key, u64::MAX)]) {
            let before = runs_asked();
            world.forget(&stack);
            let expected = world.directly(&stack, key, at);
            let asked = runs_asked() - before;
            if cold {
                world.forget(&stack);
            }
            let is_found = expected.is_ok();
            prop_assert_eq!(seen(world.search(&stack, key, at, runs_max)), seen(expected), "{} at {}", key, at);
            // Runs behind the first result may be asked besides.
            prop_assert!(!is_found || runs_asked() - before >= 2 * asked);
        }
    }
}

/// Tables of one key each, newest first, below them one with all keys.
fn tables(world: &World, count: u8) -> RunStack {
    let all: Vec<Op> = (0..KEYS).map(Op::Put).collect();
    let oldest = world.run(&all, 1, true);
    let newer = (0..count).map(|key| world.run(&[Op::Put(key)], 100 + u64::from(key), true));
    let mut files: Vec<Run> = [oldest].into_iter().chain(newer).flatten().collect();
    files.reverse();
    assert!(files.iter().all(|run| matches!(run.source, Source::Table(_))));
    RunStack { files }
}

#[test]
fn reads_of_all_runs_wait_for_the_device_together() {
    let world = World::new();
    let stack = tables(&world, 7);
    world.forget(&stack);
    let before = (world.vfs.count(Operation::Prefetch), world.vfs.count(Operation::ReadAt));
    let found = world.search(&stack, KEYS - 1, u64::MAX, 16).unwrap();
    assert_eq!(found.value.unwrap(), value_of(KEYS.into()));
    // The filters of eight tables, of which the first is read at once.
    assert_eq!(world.vfs.count(Operation::Prefetch) - before.0, 7);
    assert_eq!(world.counts(), [1, 8, 0]);
    assert_eq!(world.env.queue.counts(), (0, 8));
    // At most three at a time.
    world.forget(&stack);
    assert!(world.search(&stack, KEYS - 1, u64::MAX, 3).is_ok());
    assert_eq!(world.vfs.count(Operation::Prefetch) - before.0, 7 + 2 + 2 + 1);
    assert_eq!(world.counts(), [2, 16, 0]);
}

#[test]
fn what_memory_answers_makes_no_query_and_one_read_is_made_alone() {
    let world = World::new();
    let stack = tables(&world, 7);
    for key in 0..KEYS {
        world.directly(&stack, key, u64::MAX).unwrap();
    }
    let reads = world.vfs.count(Operation::ReadAt);
    for key in 0..KEYS {
        world.search(&stack, key, u64::MAX, 16).unwrap();
    }
    assert_eq!((world.vfs.count(Operation::ReadAt), world.counts()), (reads, [0; 3]));
    // The blocks of the last table alone are not cached.
    let last = RunStack { files: stack.files[7..].to_vec() };
    world.forget(&last);
    assert!(world.search(&stack, KEYS - 1, u64::MAX, 16).unwrap().value.is_some());
    assert!(world.vfs.count(Operation::ReadAt) > reads);
    assert_eq!((world.vfs.count(Operation::Prefetch), world.counts()), (0, [0; 3]));
}

/// SifrDB §4.3: the result of an older tree may come first.
#[test]
fn a_newer_run_that_answers_late_decides() {
    let world = World::new();
    let newest = world.run(&[Op::Delete(1), Op::Put(2)], 20, true);
    let newer = world.run(&[Op::Put(3)], 10, true);
    let older = world.run(&(0..5).map(Op::Put).collect::<Vec<_>>(), 1, false);
    let stack = RunStack { files: [newest, newer, older].into_iter().flatten().collect() };
    let warm = RunStack { files: stack.files[2..].to_vec() };
    for (key, expected) in [(1, None), (2, Some(21)), (3, Some(10)), (4, Some(5))] {
        world.forget(&stack);
        world.directly(&warm, key, u64::MAX).unwrap();
        let found = world.search(&stack, key, u64::MAX, 16).unwrap().value;
        assert_eq!(found.map(|value| value.to_vec()), expected.map(value_of), "{key}");
    }
    assert_eq!(world.counts()[0], 4);
    assert!(world.counts()[2] >= 3, "{:?}", world.counts());
}

#[test]
fn a_key_behind_very_many_runs_is_found() {
    let world = World::new();
    let all: Vec<Op> = (0..KEYS).map(Op::Put).collect();
    let mut files: Vec<Run> =
        (0..350).map(|version| world.run(&[Op::Put(0)], 1000 + version, true).unwrap()).collect();
    files.push(world.run(&all, 1, true).unwrap());
    let stack = RunStack { files };
    for runs_max in [1, 2, 3, 16] {
        world.forget(&stack);
        let found = world.search(&stack, KEYS - 1, u64::MAX, runs_max).unwrap().value;
        assert_eq!(found.unwrap(), value_of(KEYS.into()), "{runs_max} at once");
    }
}

/// A value in a log that is on the device: its key is known, so no older run is read.
#[test]
fn a_run_that_has_the_key_ends_the_selection_before_its_value_is_read() {
    let world = World::new();
    let newest = world.run(&[Op::Put(1)], 50, false);
    let older = (0..6).map(|version| world.run(&[Op::Put(1)], 1 + version, true));
    let stack = RunStack { files: [newest].into_iter().chain(older).flatten().collect() };
    let index = RunStack { files: stack.files[..1].to_vec() };
    world.forget(&stack);
    // The index of the log is in memory then, and its record is not.
    world.directly(&index, 1, u64::MAX).unwrap();
    let found = world.search(&stack, 1, u64::MAX, 16).unwrap().value;
    assert_eq!(found.unwrap(), value_of(50));
    assert_eq!((world.counts(), world.vfs.count(Operation::Prefetch)), ([0; 3], 0));
}
