//! Range deletes that merges carry down while they note the parts of deeper runs that the deletes cover, as
//! dropped ranges. Three levels: one guard, then two levels of two guards with half of the keys each. Runs
//! have entries and range deletes of many versions; snapshots come and go.
//!
//! The lists of dropped ranges are those of the library's own file `run/dropped_ranges.rs`. The steps of
//! `lsm/dropped_ranges.rs` (`Lsm::narrow`), `lsm/dropped_early.rs`, `flsm/dropped.rs` (`drop_covered`, `purge`) and
//! `run/merged.rs` are small doubles. The runs of the guard of level 1 are also what a full disk reads range deletes
//! from that it drops early.
//!
//! Files that were replaced or removed stay in the directory for a while, and go in any order. Tables say which
//! older files count no more, as `table/lineage.rs`, `lsm/lineage.rs` and `lsm/marked.rs` do: the output of a merge for
//! all keys of its guard, and tables without entries where there is no output. A removal of dropped runs reads what they
//! say, and hands it on at its end; others change the guards between its plan and that.
//!
//! Properties, after each step: at each version that a snapshot holds, and at the newest one, each key has the value
//! that the writes up to that version gave it. By all files of the directory and what they say of each other, as a
//! repair without a manifest reads them, each key has its newest value.

mod removals;
mod state;

use crate::lsm::busy::{Claim, Claims};
use crate::run::dropped_ranges::{DroppedRange, DroppedRanges, joined, longest};
use shuttle::sync::{Arc, Mutex, MutexGuard};
use shuttle::thread::{spawn, yield_now};
use state::{
    Found, GUARDS, KEYS, ORDER, Run, State, Versions, Write, below, find, keys_of, level_of, newest, only,
    span,
};
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

pub use removals::removals;

/// An error of the code around the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The ranges of a run that was replaced meanwhile are noted at the one in its place.
    NotesByPlace,
    /// Neighbouring ranges are joined although a snapshot sees the entries of one of them.
    JoinsWhatASnapshotDistinguishes,
    /// A merge leaves out the entries of dropped ranges that a snapshot needs.
    LeavesOutWhatASnapshotReads,
    /// The last range of a run goes one key further than the delete.
    DropsTooFar,
    /// The range delete ends where the runs below have it noted.
    EndsTheDelete,
    /// Runs that came into the merged guard meanwhile are marked, too.
    MarksAbove,
    /// Runs that range deletes cover are dropped early, though these may have been merged meanwhile.
    DropsLate,
    /// A removal of dropped runs does not hand on what they say.
    PurgesSilently,
    /// It removes all that is dropped at its end, and hands on what was at its beginning.
    PurgesWhatIsDroppedSince,
    /// A table without entries goes while a file that it replaces is there.
    ForgetsEarly,
}

/// Numbers of what the model has tried.
#[derive(Debug, Default)]
pub struct Done {
    /// Dropped ranges of a part of a run that were installed.
    pub noted: AtomicUsize,
    /// Runs that were marked as a whole.
    pub marked: AtomicUsize,
    /// Notes of a run that was replaced or changed meanwhile.
    pub outdated: AtomicUsize,
    /// Runs with dropped ranges that were noted after they had moved down, or that moved down.
    pub sunk: AtomicUsize,
    /// Entries of dropped ranges that merges left out.
    pub left_out: AtomicUsize,
    pub purged: AtomicUsize,
    /// Removals of runs that had something to say, and tables without entries that went.
    pub handed_on: AtomicUsize,
    pub forgotten: AtomicUsize,
    /// Keys that a file in the directory has, and that a table says are replaced.
    pub replaced: AtomicUsize,
    /// Reads of a snapshot that found an entry within a dropped range.
    pub older_reads: AtomicUsize,
    /// Range deletes that were dropped before a merge, and those whose runs were merged meanwhile.
    pub early: AtomicUsize,
    pub late: AtomicUsize,
}

/// Number of versions that are there at the beginning.
const FIRST_WRITES: u64 = 4;
/// Number of writes while merges run.
const WRITES: u64 = 4;

/// The versions of deletes of a key that a merge carries on (`run/carried.rs`).
fn carried(versions: &[u64], keep: &[u64]) -> Versions {
    let mut kept: Versions = versions.first().copied().into_iter().collect();
    kept.extend(keep.iter().rev().filter_map(|&at| newest(versions, at)));
    kept.dedup();
    kept
}

/// The ranges of keys whose deletes are the same, with their versions.
fn deleted(deletes: &[Versions; KEYS], keys: Range<usize>) -> Vec<(Range<usize>, &Versions)> {
    let mut ranges: Vec<(Range<usize>, &Versions)> = Vec::new();
    for key in keys.filter(|key| !deletes[*key].is_empty()) {
        match ranges.last_mut() {
            Some((range, versions)) if range.end == key && **versions == deletes[key] => range.end += 1,
            _ => ranges.push((key..key + 1, &deletes[key])),
        }
    }
    ranges
}

/// A run as a merge found it, with its dropped ranges after the merge.
struct Narrowed {
    file: u64,
    /// Its guard, and the number of older runs there.
    place: (usize, usize),
    before: Option<std::sync::Arc<DroppedRanges>>,
    after: Option<std::sync::Arc<DroppedRanges>>,
}

/// A merge of the runs of some guards into others.
struct Planned {
    /// The guards, and the number of runs of each that are taken, from the oldest on.
    taken: Vec<(usize, usize)>,
    into: Vec<usize>,
    runs: Vec<Run>,
    /// True if nothing older is left below.
    is_bottom: bool,
    /// The guards at the start.
    start: [Vec<Run>; GUARDS],
}

struct Store {
    claims: Claims,
    state: Mutex<State>,
    fault: Fault,
    done: std::sync::Arc<Done>,
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self, write: Write) {
        let claim = Claim { from: Vec::new(), into: vec![0], logs: true };
        let mut busy = self.claims.lock();
        while !busy.admits(&claim) {
            self.claims.wait(busy);
            busy = self.claims.lock();
        }
        let claimed = self.claims.claim(busy, claim);
        let file = self.state().new_file();
        yield_now();
        let busy = self.claims.lock();
        let mut state = self.state();
        let version = state.newest() + 1;
        state.guards[0].insert(0, Run { file, ..Run::of(&write, version, 0..KEYS, file) });
        state.writes.push(write);
        state.check(&self.done);
        drop((state, busy));
        drop(claimed);
    }

    /// The merge of all runs of a guard into those below it, or within the last level.
    fn plan(&self, guard: usize) -> Option<Planned> {
        let start = self.state().guards.clone();
        let (runs, into) = (start[guard].clone(), below(guard));
        let is_bottom = into == [guard];
        let is_due = if is_bottom { runs.len() > 1 } else { !runs.is_empty() };
        is_due.then(|| Planned { taken: vec![(guard, runs.len())], into, runs, is_bottom, start })
    }

    /// The merge of everything in a guard of the second level and the one below it.
    fn plan_sort(&self, guard: usize) -> Option<Planned> {
        let start = self.state().guards.clone();
        let taken = vec![(guard, start[guard].len()), (guard + 2, start[guard + 2].len())];
        let runs: Vec<Run> = start[guard].iter().chain(&start[guard + 2]).cloned().collect();
        (runs.len() > 1).then(|| Planned { taken, into: vec![guard + 2], runs, is_bottom: true, start })
    }

    fn merge(&self, plan: impl Fn() -> Option<Planned>) {
        let busy = self.claims.lock();
        let Some(planned) = plan() else { return };
        let from = planned.taken.iter().map(|(guard, _)| *guard as u64).collect();
        let into = planned.into.iter().map(|&guard| guard as u64).collect();
        let claim = Claim { from, into, logs: false };
        if !busy.admits(&claim) {
            return;
        }
        let claimed = self.claims.claim(busy, claim);
        // As `Lsm::merge` does: a snapshot that is opened later needs only the newest versions.
        let keep = self.state().snapshots.clone();
        let mut output = self.merged(&planned, &keep);
        let narrowed = self.narrow(&planned, &output, &keep);
        if self.fault == Fault::EndsTheDelete {
            for key in 0..KEYS {
                let has = |ranges: &DroppedRanges| ranges.at(&ORDER, &[key as u8]).is_some();
                if narrowed.iter().any(|narrowed| narrowed.after.as_deref().is_some_and(has)) {
                    output.deletes[key].clear();
                }
            }
        }
        let beyond = self.beyond(&planned);
        let files = std::iter::repeat_with(|| self.state().new_file()).take(planned.into.len() + 1).collect();
        yield_now();
        let busy = self.claims.lock();
        self.install(&planned, &output, (beyond, files), &narrowed);
        drop(busy);
        drop(claimed);
    }

    /// `Lsm::covered` and `Lsm::publish_covered`: without a claim.
    fn drop_early(&self) {
        let start = self.state().guards.clone();
        let runs = start[0].clone();
        let keep = self.state().snapshots.clone();
        let mut output = Run { keys: 0..KEYS, ..Run::default() };
        for key in 0..KEYS {
            let mut versions: Versions = runs.iter().flat_map(|run| run.deletes[key].clone()).collect();
            versions.sort_by(|a, b| b.cmp(a));
            output.deletes[key] = carried(&versions, &keep);
        }
        let files: Vec<u64> = runs.iter().map(|run| run.file).collect();
        let planned = Planned { taken: Vec::new(), into: vec![1, 2], runs, is_bottom: false, start };
        let narrowed = self.narrow(&planned, &output, &keep);
        yield_now();
        let busy = self.claims.lock();
        let mut state = self.state();
        let are_there = files.iter().all(|file| state.guards[0].iter().any(|run| run.file == *file));
        if are_there || self.fault == Fault::DropsLate {
            let marks = Run { deletes: output.deletes, ..Run::default() };
            self.publish(&mut state, &planned, &marks, &narrowed);
            state.check(&self.done);
        }
        let count = if are_there { &self.done.early } else { &self.done.late };
        count.fetch_add(usize::from(!files.is_empty()), Relaxed);
        drop((state, busy));
    }

    /// The entries that are kept, and the range deletes that are carried on.
    fn merged(&self, planned: &Planned, keep: &[u64]) -> Run {
        let mut output = Run { keys: 0..KEYS, ..Run::default() };
        let runs = &planned.runs;
        let is_left_out = |run: &Run, key: usize| {
            let needed = keep.iter().any(|at| !run.is_dropped_at(key, *at));
            let leaves_out = !needed || self.fault == Fault::LeavesOutWhatASnapshotReads;
            leaves_out && run.is_dropped_at(key, u64::MAX)
        };
        for key in 0..KEYS {
            output.ages[key] = runs.iter().map(|run| run.ages[key]).max().unwrap_or(0);
            output.replaced[key] = match planned.is_bottom {
                true => output.ages[key],
                false => runs.iter().map(|run| run.replaced[key]).max().unwrap_or(0),
            };
            // Entries that a snapshot needs are merged as if nothing had dropped them.
            let plain = |run: &Run| Run { dropped: None, dropped_ranges: None, ..run.clone() };
            let taken: Vec<Run> = runs.iter().filter(|run| !is_left_out(run, key)).map(plain).collect();
            let left_out = runs.iter().filter(|run| is_left_out(run, key) && !run.puts[key].is_empty());
            self.done.left_out.fetch_add(left_out.count(), Relaxed);
            // An entry of an older snapshot stays deleted for newer ones.
            for at in std::iter::once(u64::MAX).chain(keep.iter().rev().copied()) {
                match find(&taken, key, at) {
                    Some(Found::Put(version)) => output.puts[key].push(version),
                    Some(Found::Deleted(version)) => output.deletes[key].push(version),
                    None => {}
                }
            }
            output.puts[key].dedup();
            output.deletes[key].dedup();
            if planned.is_bottom && output.puts[key].is_empty() {
                output.deletes[key].clear();
            }
            if !planned.is_bottom {
                let mut versions: Versions = runs.iter().flat_map(|run| run.deletes[key].clone()).collect();
                versions.sort_by(|a, b| b.cmp(a));
                output.deletes[key] = carried(&versions, keep);
            }
        }
        output
    }

    /// The statements of the inputs about keys that the merge has none of (`LeftOut::add`).
    fn beyond(&self, planned: &Planned) -> Run {
        let keys = planned.into.iter().map(|&guard| keys_of(guard));
        let within: Vec<usize> = keys.flatten().collect();
        let settled = self.state().settled();
        let of = |run: &Run, key: usize| if within.contains(&key) { 0 } else { run.replaced[key] };
        let speaking = planned.runs.iter().filter(|run| run.file >= settled);
        let mut beyond = Run::default();
        for run in speaking {
            beyond.replaced = std::array::from_fn(|key| beyond.replaced[key].max(of(run, key)));
        }
        beyond
    }

    /// `Lsm::narrow`: from the files of the start, without a claim of theirs.
    fn narrow(&self, planned: &Planned, output: &Run, keep: &[u64]) -> Vec<Narrowed> {
        if planned.is_bottom {
            return Vec::new();
        }
        let level = planned.into.iter().map(|&guard| level_of(guard)).min().unwrap_or(0);
        let class = |version: u64| keep.partition_point(|at| *at < version);
        let is_alike = |a, b| class(a) == class(b) || self.fault == Fault::JoinsWhatASnapshotDistinguishes;
        let mut narrowed = Vec::new();
        for guard in (0..GUARDS).filter(|&guard| level_of(guard) >= level) {
            let runs = &planned.start[guard];
            for (place, run) in runs.iter().enumerate() {
                let is_input = planned.runs.iter().any(|input| input.file == run.file);
                let within = deleted(&output.deletes, run.keys.clone());
                if is_input || run.dropped.is_some() || within.is_empty() {
                    continue;
                }
                let old = run.dropped_ranges.as_ref().map_or(&[][..], |ranges| ranges.list());
                // All of its versions are newer than the run.
                let new = within
                    .iter()
                    .filter_map(|(keys, versions)| Some((span(keys.clone()), *versions.last()?)));
                let mut ranges = joined(&ORDER, old, new, is_alike);
                for range in &mut ranges {
                    range.bytes = 1;
                }
                if let (Fault::DropsTooFar, Some(last)) = (self.fault, ranges.last_mut()) {
                    let end = last.span.end.as_ref().map_or(KEYS, |end| usize::from(end[0]) + 1);
                    last.span.end = span(0..end.min(run.keys.end)).end;
                }
                let ranges: Vec<DroppedRange> = longest(ranges);
                let is_same =
                    ranges.len() == old.len() && ranges.iter().zip(old).all(|(a, b)| a.span == b.span);
                if !is_same {
                    narrowed.push(Narrowed {
                        file: run.file,
                        place: (guard, runs.len() - 1 - place),
                        before: run.dropped_ranges.clone(),
                        after: DroppedRanges::new(ranges),
                    });
                }
            }
        }
        narrowed
    }

    /// `Changing::apply_piece`, with `drop_covered`.
    fn install(
        &self,
        planned: &Planned,
        output: &Run,
        (beyond, files): (Run, Vec<u64>),
        narrowed: &[Narrowed],
    ) {
        let mut state = self.state();
        for &(guard, count) in &planned.taken {
            let left = state.guards[guard].len().checked_sub(count);
            assert!(left.is_some(), "broken: runs of guard {guard} are gone");
            let replaced = state.guards[guard].split_off(left.unwrap_or(0));
            state.left.extend(replaced);
        }
        self.publish(&mut state, planned, output, narrowed);
        let (last, first) = files.split_last().expect("one more than guards");
        for (&guard, &file) in planned.into.iter().zip(first) {
            let run = Run { file, ..output.part(&keys_of(guard)) };
            if !run.is_empty_table() || run.replaces() {
                state.guards[guard].insert(0, run);
            }
        }
        if beyond.replaces() {
            let guard = planned.into[0];
            state.guards[guard].insert(0, Run { file: *last, keys: keys_of(guard), ..beyond });
        }
        state.check(&self.done);
    }

    /// `Changing::drop_covered`: marks what the range deletes cover.
    fn publish(&self, state: &mut State, planned: &Planned, output: &Run, narrowed: &[Narrowed]) {
        let into = planned.into.iter().map(|&guard| level_of(guard)).min();
        let level = if self.fault == Fault::MarksAbove { into.map(|level| level - 1) } else { into };
        let mut installed = 0;
        for guard in (0..GUARDS).filter(|&guard| !planned.is_bottom && Some(level_of(guard)) >= level) {
            let count = state.guards[guard].len();
            for (place, run) in state.guards[guard].iter_mut().enumerate() {
                let is_of = |narrowed: &&Narrowed| match self.fault {
                    Fault::NotesByPlace => narrowed.place == (guard, count - 1 - place),
                    _ => narrowed.file == run.file && narrowed.before == run.dropped_ranges,
                };
                let found = narrowed.iter().find(is_of);
                installed += usize::from(found.is_some());
                self.mark(run, output, found);
                let has_moved = found.is_some_and(|narrowed| narrowed.place.0 != guard);
                self.done.sunk.fetch_add(usize::from(has_moved), Relaxed);
            }
        }
        self.done.outdated.fetch_add(narrowed.len().saturating_sub(installed), Relaxed);
    }

    /// Marks an older run as a whole, or notes its dropped ranges.
    fn mark(&self, run: &mut Run, output: &Run, narrowed: Option<&Narrowed>) {
        if run.dropped.is_some() {
            return;
        }
        let covering = deleted(&output.deletes, 0..KEYS);
        let covering =
            covering.into_iter().find(|(keys, _)| keys.start <= run.keys.start && run.keys.end <= keys.end);
        if let Some(oldest) = covering.and_then(|(_, versions)| versions.last()) {
            (run.dropped, run.dropped_ranges) = (Some(*oldest), None);
            self.done.marked.fetch_add(1, Relaxed);
            return;
        }
        let Some(narrowed) = narrowed else { return };
        let whole = span(run.keys.clone());
        let ranges = narrowed.after.clone();
        let are_within = ranges.as_ref().is_none_or(|ranges| ranges.are_within(&ORDER, &whole));
        assert!(are_within, "broken: {ranges:?} of {run:?}");
        let only = ranges.as_ref().filter(|ranges| ranges.list().len() == 1);
        run.dropped = only.and_then(|ranges| ranges.covers_from(&ORDER, &whole));
        run.dropped_ranges = ranges.filter(|_| run.dropped.is_none());
        let count = if run.dropped.is_some() { &self.done.marked } else { &self.done.noted };
        count.fetch_add(1, Relaxed);
    }

    /// Moves the oldest run of a guard of the second level down.
    fn sink(&self, guard: usize) {
        let busy = self.claims.lock();
        if busy.is_taken_from(guard as u64) || busy.is_put_into(guard as u64 + 2) {
            return;
        }
        let mut state = self.state();
        if let Some(run) = state.guards[guard].pop() {
            self.done.sunk.fetch_add(usize::from(run.dropped_ranges.is_some()), Relaxed);
            state.guards[guard + 2].insert(0, run);
        }
        state.check(&self.done);
    }

    fn open_snapshot(&self) -> u64 {
        let mut state = self.state();
        let at = state.newest();
        state.snapshots.push(at);
        at
    }

    fn read_and_close(&self, at: u64) {
        let mut state = self.state();
        state.check_at(at, &self.done);
        let place = state.snapshots.iter().position(|open| *open == at);
        place.map(|place| state.snapshots.remove(place));
    }
}

/// Snapshots that are open at the same time, beside those of the writer.
fn snapshots(store: &Store) {
    let first = store.open_snapshot();
    yield_now();
    let second = store.open_snapshot();
    yield_now();
    store.read_and_close(first);
    let third = store.open_snapshot();
    store.read_and_close(second);
    yield_now();
    store.read_and_close(third);
}

/// Puts of all keys and the delete of one have been merged into the last level, and their logs are still in the
/// directory. Above it there is one write in each level.
fn store(last: [Write; 2], fault: Fault, done: &std::sync::Arc<Done>) -> Arc<Store> {
    let [third, fourth] = last;
    let first = [Write { keys: 0..KEYS, deletes: false }, Write { keys: 0..1, deletes: true }];
    let writes: Vec<Write> = first.into_iter().chain([third, fourth]).collect();
    // The logs have the numbers of their versions.
    let log = |version: u64, keys| {
        let run = Run::of(&writes[version as usize - 1], version, keys, version);
        Run { file: version, ..run }
    };
    let guards = std::array::from_fn(|guard| {
        let keys = keys_of(guard);
        let run = match FIRST_WRITES + 1 - level_of(guard) as u64 {
            2 => {
                let puts = only(keys.start.max(1)..keys.end, |_| vec![1]);
                let two = only(keys.clone(), |_| 2);
                Run { puts, ages: two, replaced: two, ..Run::default() }.with_keys_of(&keys)
            }
            version => log(version, keys),
        };
        vec![Run { file: FIRST_WRITES + 1 + guard as u64, ..run }]
    });
    let left = vec![log(1, 0..KEYS), log(2, 0..KEYS)];
    let files = FIRST_WRITES + GUARDS as u64;
    let state = State { guards, writes, snapshots: vec![FIRST_WRITES - 1], files, left };
    state.check(done);
    Arc::new(Store { claims: Claims::default(), state: Mutex::new(state), fault, done: done.clone() })
}

/// Runs these at the same time, and checks what they leave.
fn at_once(store: &Arc<Store>, acts: &[fn(&Store)]) {
    let threads: Vec<_> = acts
        .iter()
        .map(|&act| {
            let store = store.clone();
            spawn(move || act(&store))
        })
        .collect();
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    store.claims.wait_for_all();
    store.state().check(&store.done);
}

/// Writes, merges of all levels, moves, removals and snapshots at the same time.
pub fn everything(fault: Fault, done: &std::sync::Arc<Done>) {
    let store = store([Write::any(false), Write::any(true)], fault, done);
    at_once(
        &store,
        &[
            |store| {
                let write = |number: u64| store.write(Write::any(number % 2 == 1));
                write(0);
                let between = store.open_snapshot();
                write(1);
                store.read_and_close(FIRST_WRITES - 1);
                (2..WRITES).for_each(write);
                store.read_and_close(between);
            },
            |store| [0, 1, 0, 2, 0].into_iter().for_each(|guard| store.merge(|| store.plan(guard))),
            |store| {
                [3, 1, 2, 4, 3].into_iter().for_each(|guard| {
                    store.merge(|| store.plan(guard));
                    store.purge(&[guard.max(3)]);
                });
            },
            |store| [1, 2].into_iter().for_each(|guard| store.merge(|| store.plan_sort(guard))),
            |store| [1, 2].into_iter().for_each(|guard| store.sink(guard)),
            |store| [4, 3, 2, 1].into_iter().for_each(|guard| store.purge(&[guard])),
            snapshots,
            |store| (0..3).for_each(|_| store.drop_early()),
        ],
    );
}
