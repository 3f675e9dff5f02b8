//! An estimate of the garbage that a merge makes: entries of older runs that its output hides.
//!
//! The filters of the older runs tell it for some of the keys: one in about 64 KiB of the output, or of
//! what it may hide. So a long value is always looked up, and so is the delete of one.

use super::keyspace::Lsm;
use super::shape::{Piece, Shape};
use super::view::View;
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::log::read::ahead::Reads;
use crate::log::read::cursor::IndexedCursor;
use crate::log::read::pass::LogWalk;
use crate::log::segment::Segment;
use crate::maintenance::Class;
use crate::run::env::RunEnv;
use crate::run::run::{Run, Source};
use crate::run::stack::StackSizes;
use crate::run::writer::KeptEntry;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::table::TableGet;
use crate::types::entry::EntryCursor;
use crate::types::error::Result;
use crate::types::order::KeyOrder;

/// Bytes and entries of an output for each key that is looked up.
const STEP_BYTES: u64 = 64 << 10;
const STEP_KEYS: u64 = 256;
/// A run hides much if it hides more than this many times its length.
pub(super) const HIDDEN_FACTOR: u64 = 4;
/// Number of keys of a log that are looked up at most.
const LOOKUPS_MAX: u64 = 4096;
/// Ticks between two logs of an earlier opening that are counted: about a third of a second.
const COUNT_TICKS: u64 = 16;

/// The keys of outputs since the last one that was looked up.
pub(super) struct Sample<'a> {
    bytes: u64,
    keys: u64,
    /// The counts with which the next output begins.
    left: &'a [AtomicU64; 2],
    /// The usual length in bytes of a pair of the older runs.
    usual_bytes: u64,
}

impl Drop for Sample<'_> {
    fn drop(&mut self) {
        self.left[0].fetch_add(self.bytes, Relaxed);
        self.left[1].fetch_add(self.keys, Relaxed);
    }
}

impl<'a> Sample<'a> {
    /// For the output of a piece.
    pub fn of<S: Shape>(order: &KeyOrder, view: &View<S>, piece: &Piece, left: &'a [AtomicU64; 2]) -> Self {
        let groups = view.shape.groups().filter(|group| group.span.intersect(order, &piece.span).is_some());
        let sums = groups.flat_map(|group| group.runs).map(pairs);
        let (bytes, pairs) = sums.fold((0u64, 0u64), |(bytes, pairs), (more_bytes, more)| {
            (bytes.saturating_add(more_bytes), pairs.saturating_add(more))
        });
        let [left_bytes, left_keys] = [0, 1].map(|at| left[at].swap(0, Relaxed));
        Self { bytes: left_bytes, keys: left_keys, left, usual_bytes: bytes / pairs.max(1) }
    }

    /// Counts the versions of a key; true if it is to be looked up.
    pub fn takes(&mut self, kept: &[KeptEntry]) -> bool {
        self.keys += 1;
        self.bytes += kept.iter().map(KeptEntry::whole_bytes).sum::<u64>().max(self.usual_bytes);
        self.bytes >= STEP_BYTES || self.keys >= STEP_KEYS
    }

    /// Bytes of older runs that the keys since the last one are estimated to hide.
    pub fn hidden<S: Shape>(&mut self, env: &RunEnv, view: &View<S>, piece: &Piece, key: &[u8]) -> u64 {
        let keys = std::mem::take(&mut self.keys);
        self.bytes = 0;
        let runs: Vec<&Run> = view.shape.runs_at(&env.order, key).collect();
        let is_input = |run: &&Run| piece.tables.iter().any(|input| input.file().id == run.file().id);
        let older = runs.iter().rposition(is_input).map_or(0, |last| last + 1);
        keys.saturating_mul(found_bytes(env, runs[older..].iter().copied(), key))
    }
}

impl<S: Shape> Lsm<S> {
    /// Counts what the entries of a log hide, as its garbage, if that may be much more than their own length.
    /// Other pairs hide about as many bytes as they have, and the length of level 0 is bounded.
    pub(super) fn count_hidden(&self, log: &Arc<Segment>) -> Result<()> {
        canary!(HIDDEN_UNCOUNTED => return Ok(()));
        let (env, view) = (&self.env, self.rotation.view.load_full());
        let sizes = view.sizes();
        let parts = log.parts(env)?;
        // Not before: a log that is loaded for it, and has grown, is to be counted.
        log.end_count();
        let in_memory = parts.memory.as_ref().map_or(0, |memory| memory.len() as u64);
        let entries = in_memory + parts.indexed.iter().map(|part| part.entries).sum::<u64>();
        if !may_hide_more(entries, &sizes, log.len()) {
            return Ok(());
        }
        let step = (STEP_BYTES / sizes.usual_bytes().max(1)).clamp(1, STEP_KEYS).max(entries / LOOKUPS_MAX);
        let above = view.level0.iter().position(|run| run.is_of(log)).map_or(0, |place| place + 1);
        let (mut keys, mut hidden_bytes) = (0u64, 0u64);
        let mut add = |key: &[u8]| {
            keys += 1;
            if keys.is_multiple_of(step) {
                let runs = view.level0[above..].iter().chain(view.shape.runs_at(&env.order, key));
                hidden_bytes = step.saturating_mul(found_bytes(env, runs, key)).saturating_add(hidden_bytes);
            }
        };
        if let Some(memory) = &parts.memory {
            memory.for_each(|key, _| add(key));
        }
        let (env_of_log, segment) = (env.log.clone(), log.clone());
        let walk =
            LogWalk { env: env_of_log, segment, parts: parts.clone(), once: None, reads: Reads::default() };
        let walk = Arc::new(walk);
        for (number, _) in parts.indexed.iter().enumerate().filter(|(_, part)| part.root.len > 0) {
            let mut cursor = IndexedCursor::of_places(walk.clone(), number);
            cursor.seek_to_first()?;
            while let Some(entry) = cursor.entry() {
                add(entry.key);
                cursor.next()?;
            }
        }
        // Not added: two threads may index the same log.
        log.garbage_bytes.store(hidden_bytes, Relaxed);
        Ok(())
    }

    /// Counts it for a log of an earlier opening that was killed before the log had its index. Only if there is much
    /// that it may hide: it is loaded.
    pub(super) fn count_left(&self, view: &View<S>, sizes: &StackSizes) {
        let is_time = self.jobs.ticks.load(Relaxed).is_multiple_of(COUNT_TICKS);
        if !is_time || sizes.live_bytes() < self.level0_limit(0) {
            return;
        }
        let ripe = self.ripe_logs(view);
        let Some(log) = ripe.iter().filter_map(Run::log).find(|log| log.is_uncounted()).cloned() else {
            return;
        };
        let this = self.this.clone();
        // Nobody else begins.
        log.end_count();
        self.substrate.pool.submit(Class::Seal, move || {
            let Some(lsm) = this.upgrade() else { return };
            if let Some(_work) = lsm.substrate.begin_work()
                && let Err(error) = lsm.count_hidden(&log)
            {
                tracing::debug!(%error, "cannot estimate what a log hides");
            }
        });
    }
}

/// True if these entries may hide several times the length of their log.
pub(super) fn may_hide_more(entries: u64, sizes: &StackSizes, log_bytes: u64) -> bool {
    entries.saturating_mul(sizes.usual_bytes()) / HIDDEN_FACTOR > log_bytes
}

/// The usual length of a pair in the first of these runs that has the key; 0 if none has.
fn found_bytes<'a>(env: &RunEnv, mut runs: impl Iterator<Item = &'a Run>, key: &[u8]) -> u64 {
    let hash = bloom::hash(key);
    let has_key = |run: &&Run| {
        // A file that cannot be read is reported by those who need it.
        run.dropped.is_none()
            && !run.is_dropped_at(&env.order, key, u64::MAX)
            && run.span.contains(&env.order, key)
            && may_contain(env, run, key, hash).unwrap_or(false)
    };
    runs.find(has_key).map_or(0, pair_bytes)
}

fn may_contain(env: &RunEnv, run: &Run, key: &[u8], hash: u64) -> Result<bool> {
    match &run.source {
        Source::Table(table) => {
            let table = table.open(&env.tables, &env.files, &env.order, &env.cache)?;
            if table.has_filter() {
                return table.may_contain(hash, &Directly);
            }
            Ok(matches!(table.get(key, hash, u64::MAX, &|_| true, &Directly)?, TableGet::Found { .. }))
        }
        Source::Log(segment) => {
            let parts = segment.parts(env)?;
            for part in &parts.indexed {
                if !part.lacks(&env.order, key)
                    && segment.may_contain(env, &parts.header, part, hash, &Directly)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

/// Bytes and number of the pairs of a run's file.
fn pairs(run: &Run) -> (u64, u64) {
    match &run.source {
        Source::Table(table) => (table.user_bytes, table.entries),
        Source::Log(segment) => (segment.user_bytes.load(Relaxed), segment.puts.load(Relaxed)),
    }
}

/// The usual length of a pair of a run, in bytes.
fn pair_bytes(run: &Run) -> u64 {
    let (bytes, pairs) = pairs(run);
    bytes / pairs.max(1)
}
