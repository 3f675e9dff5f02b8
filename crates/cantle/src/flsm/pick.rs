//! The choice of merges and of guards: pure functions from guards and sizes to a job.
//!
//! Guards need no parameter. Only the last level makes new ones: a guard that has grown long is
//! divided near its middle, where neighbouring keys share the fewest leading bytes. Merges note this
//! key ([`middle`](crate::lsm::middle)), so nothing is rewritten for it; a guard whose middle nobody
//! knows is rewritten, and its output cut. A higher level takes some of these keys, so that each of its
//! guards has about `FAN_OUT` guards below it. PebblesDB §3.2 chooses guards by the hash of keys, and
//! leaves this to future work.

use super::levels::{Guard, Level, Levels, guard_at, guard_before, guards_within};
use crate::lsm::busy::Busy;
use crate::lsm::marked;
use crate::lsm::shape::{Cuts, Job, Logs, Move, Piece, Place, Rules, Shape, depth, group_bit, rewrite_cost};
use crate::lsm::sizes::{entries_of, written_of};
use crate::run::retain::Bottom;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::ops::Range;

/// Number of guards of a level for each guard of the level above; also the ratio of their data.
pub const FAN_OUT: usize = 8;
/// A run is merged with the newer ones if it is at most this many times as long as all of them
/// together. A merge thus at least doubles the length of what it merges, and an entry takes part in a
/// logarithmic number of merges of its guard.
const ALIKE: u64 = 1;
/// A guard above the last level is rewritten in its place, instead of merged into the last level,
/// if that level has more than this many times its data there (PebblesDB §3.4).
const REWRITE_RATIO: u64 = 25;
/// A guard of the last level is divided from this many target lengths on.
const DIVIDE_FROM: u64 = 2;
/// The output of a merge is cut from this many halves of the target length on. It is estimated, and the last
/// part must not be short.
const CUT_FROM: u64 = 5;
/// The least part of a guard that becomes one of its own without a merge.
const SHARE_MIN: f64 = 1.0 / 3.0;
/// The greatest part of a guard that may have keys on both sides of the beginning of a run.
const UNKNOWN_MAX: f64 = 1.0 / 8.0;
/// The least part of a guard that is freed by a merge for space.
const GAIN_MIN: f64 = 1.0 / 16.0;
/// A guard of the last level is thin below this part of the target length.
const THIN_FRACTION: u64 = 8;
/// A length that no table reaches.
pub(super) const WHOLE: u64 = 1 << 60;

/// Number of the newest runs that are of similar length, given the lengths of runs, newest first;
/// at least 2, if there are 2.
pub fn alike(bytes: &[u64]) -> usize {
    let mut count = bytes.len().min(2);
    let mut sum: u64 = bytes.iter().take(count).sum();
    while let Some(&next) = bytes.get(count).filter(|next| **next <= ALIKE.saturating_mul(sum)) {
        sum += next;
        count += 1;
    }
    count
}

/// Number of runs that hold something: a merge of one with tables that hold nothing may leave as many as before.
fn full_runs(runs: &[Run]) -> usize {
    runs.iter().filter(|run| !run.is_empty_table()).count()
}

/// The target length at which this many bytes are divided, so that no part is much shorter than the
/// others. More than twice the usual target length.
pub fn even(bytes: u64, table_bytes: u64) -> u64 {
    let table_bytes = table_bytes.max(1);
    let parts = bytes.saturating_add(table_bytes / 2) / table_bytes;
    bytes / parts.max(1)
}

/// Number of levels for this much data. The first level holds `FAN_OUT` times the logs that are
/// merged at once, and twice that before a level is added.
pub fn levels_for(data_bytes: u64, level0_bytes: u64) -> usize {
    let mut levels = 1;
    let mut holds = level0_bytes.max(1).saturating_mul(2 * FAN_OUT as u64);
    while data_bytes > holds {
        levels += 1;
        holds = holds.saturating_mul(FAN_OUT as u64);
    }
    levels
}

/// The first of these levels that has at least this part, in percent, of the bytes of the next one
/// (PebblesDB §4.2).
pub fn outgrown(level_bytes: &[u64], percent: u32) -> Option<usize> {
    let mut pairs = level_bytes.iter().zip(level_bytes.iter().skip(1));
    pairs.position(|(&bytes, &next)| {
        bytes > 0 && bytes.saturating_mul(100) >= next.saturating_mul(percent.into())
    })
}

impl Guard {
    /// True if it has a single table and no log, as after a merge.
    fn is_one_table(&self) -> bool {
        self.runs.len() == 1 && self.runs.iter().all(|run| run.log().is_none())
    }

    /// Number of its newest runs whose merge reads have paid for: the most of those that cost no more than
    /// the part of the debt that they have made. The newest ones are short, and soon paid for.
    fn paid(&self, order: &KeyOrder) -> Option<usize> {
        let debt = self.tally.debt();
        let cost = |newest: &[Run]| {
            rewrite_cost(newest.iter().map(entries_of).sum(), newest.iter().map(Run::bytes).sum())
        };
        // Usually not even the least merge is paid for, and the depths need not be known.
        if debt <= cost(self.runs.get(..2)?) {
            return None;
        }
        let spare = |runs: &[Run]| depth(order, runs).saturating_sub(1) as u128;
        let of_all = spare(&self.runs);
        let is_paid = |count: &usize| {
            let newest = &self.runs[..*count];
            let gain = spare(newest);
            gain > 0 && u128::from(debt) * gain > u128::from(cost(newest)) * of_all
        };
        (2..=self.runs.len()).rev().find(is_paid)
    }

    /// Number of its newest runs that hold nothing.
    fn empty_on_top(&self) -> usize {
        self.runs.iter().take_while(|run| run.is_empty_table()).count()
    }

    /// Number of its newest runs that are merged if there are too many. A merge of one run with tables that hold
    /// nothing could leave as many as before.
    fn alike(&self, rules: &Rules) -> usize {
        let empty = self.empty_on_top();
        if empty > self.runs_max(rules) {
            return empty;
        }
        let full: Vec<usize> = (0..self.runs.len()).filter(|&at| !self.runs[at].is_empty_table()).collect();
        let bytes: Vec<u64> = full.iter().map(|&at| self.runs[at].bytes()).collect();
        alike(&bytes).checked_sub(1).and_then(|last| full.get(last)).map_or(0, |last| last + 1)
    }

    /// Number of runs that it may have before some of them are merged.
    pub fn runs_max(&self, rules: &Rules) -> usize {
        if rules.is_tuned { self.tally.runs().min(rules.runs_max) } else { rules.runs_max }
    }

    /// True if a merge of all of its runs has room.
    pub(super) fn has_room(&self, rules: &Rules) -> bool {
        rules.has_room(&self.runs, |run| written_of(run, Bottom::Reached, rules.oldest_snapshot))
    }

    /// The merge of all of its runs within the last level, or, on a full disk, of as many of the newest ones as
    /// have room, if they are of similar length, or range deletes have dropped enough of them.
    fn merge_with_room(&self, rules: &Rules) -> Option<Piece> {
        if self.has_room(rules) {
            return Some(self.merge(self.runs.len(), rules));
        }
        let written = |run: &Run| written_of(run, Bottom::Deeper, rules.oldest_snapshot);
        let gains = |&count: &usize| {
            let (oldest, newer) = (&self.runs[count - 1], &self.runs[..count - 1]);
            // A long run is not rewritten for a short one.
            let is_alike = || oldest.bytes() <= newer.iter().map(Run::bytes).sum();
            let bytes: u64 = self.runs[..count].iter().map(Run::bytes).sum();
            let dropped_bytes = bytes - self.runs[..count].iter().map(written).sum::<u64>();
            (dropped_bytes as f64 >= GAIN_MIN * bytes as f64
                || full_runs(&self.runs[..count]) > 1 && is_alike())
                && rules.has_room(&self.runs[..count], written)
        };
        Some(self.merge((1..self.runs.len()).rev().find(gains)?, rules))
    }

    /// Number of its runs, or, on a full disk, of as many of the oldest ones as have room: they may go down before
    /// the others.
    fn oldest_with_room(&self, rules: &Rules) -> Option<usize> {
        let written = |run: &Run| written_of(run, Bottom::Deeper, rules.oldest_snapshot);
        let from = (0..self.runs.len()).find(|&from| rules.has_room(&self.runs[from..], written))?;
        Some(self.runs.len() - from)
    }

    /// The merge of the newest `count` runs within the last level.
    pub(super) fn merge(&self, count: usize, rules: &Rules) -> Piece {
        let is_whole = count == self.runs.len();
        // Values in logs may be copied. If they are not, the output is shorter, and cut in fewer places.
        let bytes: u64 = self.runs[..count].iter().map(Run::whole_bytes).sum();
        // Garbage takes no part in the output.
        let bytes = bytes.saturating_sub(self.stale_bytes(rules.oldest_snapshot));
        let is_divided = is_whole && rules.hashed.is_none() && bytes > CUT_FROM * rules.table_bytes / 2;
        Piece {
            span: self.span.clone(),
            tables: self.runs[..count].to_vec(),
            taken: vec![(self.id, self.runs.len() - count..self.runs.len())],
            bottom: if is_whole { Bottom::Reached } else { Bottom::Deeper },
            cuts: Cuts::Near(if is_divided { even(bytes, rules.table_bytes) } else { WHOLE }),
            place: Place::level(self.level),
            groups: vec![self.id],
        }
    }
}

/// The division of a guard where a run begins, or in the middle of what came last, whichever is nearer to
/// the middle of its bytes; `None` if a part would be much shorter than the other. It moves no data: the parts
/// share tables, and each merges its own when that is due (PebblesDB §3.3 inserts guards so).
fn divide(order: &KeyOrder, guard: &Guard) -> Option<Move> {
    let bytes = guard.bytes().max(1) as f64;
    // The bytes from the key on, and those of runs with keys on both sides.
    let divided = |start: &Bytes| {
        let (mut from, mut both) = (0, 0);
        for run in &guard.runs {
            match &run.span.start {
                Some(first) if order.compare(first, start).is_ge() => from += run.bytes(),
                _ if run.span.ends_before(order, start) => {}
                _ => both += run.bytes(),
            }
        }
        (from as f64, both as f64)
    };
    let is_within =
        |start: &Bytes| guard.span.contains(order, start) && guard.span.start.as_ref() != Some(start);
    let begins = guard.runs.iter().filter_map(|run| run.span.start.clone()).filter(is_within);
    let begins = begins.filter_map(|start| {
        let (from, both) = divided(&start);
        // Unknown shares must not matter.
        (both <= UNKNOWN_MAX * bytes).then_some(((from + both / 2.0) / bytes, start))
    });
    let half = guard.half().filter(|half| is_within(&half.start)).map(|half| {
        let (from, both) = divided(&half.start);
        ((from + both * half.share) / bytes, half.start.clone())
    });
    let places = begins.chain(half);
    let best = places.min_by(|(a, _), (b, _)| (a - 0.5).abs().total_cmp(&(b - 0.5).abs()))?;
    let (share, start) = Some(best).filter(|(share, _)| (SHARE_MIN..=1.0 - SHARE_MIN).contains(share))?;
    Some(Move::Insert { level: guard.level, start, share })
}

/// True unless the disk is full and has no room for the job, as far as is known: it would fail, and keep the jobs
/// behind it from their turn.
fn fits(rules: &Rules, job: &Job) -> bool {
    let written = |piece: &Piece| {
        let (bottom, oldest_snapshot) = (piece.bottom, rules.oldest_snapshot);
        rules.has_room(&piece.tables, |run| written_of(run, bottom, oldest_snapshot))
    };
    rules.disk_room.is_none()
        || (rules.without_room & job.groups_mask() == 0 && job.pieces.iter().all(written))
}

/// The merge of one piece, if running merges admit it.
fn admitted(busy: &Busy, piece: Piece) -> Option<Job> {
    let job = Job::of_pieces(vec![piece]);
    busy.admits(&job.claim(false)).then_some(job)
}

fn starts(guards: &[Arc<Guard>]) -> Vec<Bytes> {
    guards.iter().filter_map(|guard| guard.span.start.clone()).collect()
}

impl Levels {
    /// The job that is due next, of those that running merges admit: most urgent is the number of
    /// runs, as reads depend on it.
    pub fn pick_job(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let (last, above) = self.levels.split_last()?;
        let down = |guard: &Arc<Guard>| self.empty(order, guard, busy).filter(|job| fits(rules, job));
        let within = |guard: &Arc<Guard>, count| {
            admitted(busy, guard.merge(count, rules)).filter(|job| fits(rules, job))
        };
        let is_crowded = |guard: &&Arc<Guard>| {
            let runs_max = guard.runs_max(rules);
            guard.runs.len() > runs_max && guard.depth(order).max(guard.empty_on_top()) > runs_max
        };
        let crowded = |level: &Level| {
            let mut crowded: Vec<Arc<Guard>> = level.iter().filter(is_crowded).cloned().collect();
            crowded.sort_by_key(|guard| guard.runs.len());
            crowded.reverse();
            crowded
        };
        let newest_alike = |guard: &Arc<Guard>| within(guard, guard.alike(rules));
        let owes = |guard: &Guard| match rules.seek_compaction {
            Some(_) => guard.tally.is_sought(),
            None => guard.tally.debt() > rewrite_cost(guard.entries(), guard.bytes()),
        };
        let is_owing = |guard: &&Arc<Guard>| !guard.runs.is_empty() && owes(guard);
        let paid = |guard: &Guard| match rules.seek_compaction {
            Some(_) => Some(guard.runs.len()).filter(|_| owes(guard) && guard.depth(order) > 1),
            None => guard.paid(order),
        };
        let is_divided = rules.hashed.is_none();
        let is_long = |guard: &Guard| {
            is_divided && guard.bytes() > DIVIDE_FROM * rules.table_bytes + guard.uncut_bytes()
        };
        let sort = |guard: &Arc<Guard>| {
            if !is_long(guard) {
                return within(guard, paid(guard)?);
            }
            match divide(order, guard) {
                Some(insert) => busy.is_free(guard.id).then(|| Job::of_moves(vec![insert])),
                None => within(guard, guard.runs.len()),
            }
        };
        marked::purge(self, order, rules, busy)
            .or_else(|| marked::forget(self, rules, busy))
            .or_else(|| self.pick_bare(rules, busy))
            // Others have no room.
            .or_else(|| rules.disk_room.and_then(|_| self.free_space(order, rules, busy)))
            .or_else(|| above.iter().flat_map(crowded).find_map(|guard| down(&guard)))
            .or_else(|| crowded(last).iter().find_map(newest_alike))
            .or_else(|| above.iter().flatten().filter(is_owing).find_map(down))
            .or_else(|| self.free_space(order, rules, busy))
            .or_else(|| last.iter().find_map(sort))
            .or_else(|| self.outgrown(rules.level_percent?).iter().find_map(down))
            .or_else(|| self.pick_level(order, rules, busy))
            .or_else(|| self.pick_moves(order, rules, busy))
    }

    /// The merge that frees most, if garbage takes more space than it may, or the disk is full. A guard of the last
    /// level has the garbage that it hides itself. Garbage of the levels above is freed on its way down.
    fn free_space(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let space = self.space(rules);
        if rules.disk_room.is_none() && !space.exceeds(rules.space_amplification) {
            return None;
        }
        let gain = |guard: &Guard| guard.gain_bytes(rules) as f64 / guard.held_bytes().max(1) as f64;
        // A strict bound is exceeded by less.
        let gain_min = GAIN_MIN.min(rules.rest_part());
        let best = |level: &Level| {
            let is_gaining = |guard: &&Arc<Guard>| {
                rules.without_room & group_bit(guard.id) == 0 && gain(guard) >= gain_min
            };
            let mut gaining: Vec<_> = level.iter().filter(is_gaining).cloned().collect();
            gaining.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
            gaining.reverse();
            gaining
        };
        let (last, above) = self.levels.split_last()?;
        let within_last = best(last).iter().find_map(|guard| admitted(busy, guard.merge_with_room(rules)?));
        let down = |guard: Arc<Guard>| {
            let job = self.sink(order, &guard, busy);
            job.or_else(|| self.merge_oldest_down(order, &guard, guard.oldest_with_room(rules)?, busy))
        };
        let job = within_last.or_else(|| above.iter().flat_map(best).find_map(down))?;
        Some(Job { frees_space: true, ..job })
    }

    /// The guards of the first level that has this part of the data of the next one, the longest first.
    fn outgrown(&self, percent: u32) -> Vec<Arc<Guard>> {
        let bytes = |level: &Level| level.iter().map(|guard| guard.bytes()).sum();
        let level_bytes: Vec<u64> = self.levels.iter().map(bytes).collect();
        let level = outgrown(&level_bytes, percent).and_then(|level| self.levels.get(level));
        let mut guards: Vec<_> =
            level.into_iter().flatten().filter(|guard| !guard.runs.is_empty()).cloned().collect();
        guards.sort_by_key(|guard| guard.bytes());
        guards.reverse();
        guards
    }

    /// True for a guard with runs that could go to the level below.
    pub(super) fn may_sink(&self, guard: &Guard) -> bool {
        (guard.level as usize) < self.levels.len() && !guard.runs.is_empty()
    }

    /// A level that is to come or to go.
    fn pick_level(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        let wanted = levels_for(self.data_bytes(), rules.level0_bytes);
        let moved = |change| {
            // Guards of running merges change their level.
            (busy.merges() == 0).then(|| Job::of_moves(vec![change]))
        };
        if wanted > self.levels.len() {
            let starts = starts(self.last());
            let chosen: Vec<Bytes> = match rules.hashed {
                Some(hashed) => self.hashed_starts(starts, hashed),
                None => starts.iter().skip(FAN_OUT - 1).step_by(FAN_OUT).cloned().collect(),
            };
            let chosen = match self.levels.len() {
                // Nested in the level above.
                1 => chosen,
                _ => self.nest(order, chosen),
            };
            // No use before the last level has guards to choose from.
            let is_of_use = !chosen.is_empty() || rules.hashed.is_some();
            return if is_of_use { moved(Move::AddLevel { starts: chosen }) } else { None };
        }
        // With half of the data that the present levels need, so that a level does not come and go.
        let spare = levels_for(2 * self.data_bytes(), rules.level0_bytes) < self.levels.len();
        let leaving = self.levels.len().checked_sub(2).filter(|_| spare).map(|at| &self.levels[at])?;
        match leaving.iter().any(|guard| !guard.runs.is_empty()) {
            true => {
                let mut full = leaving.iter().filter(|guard| !guard.runs.is_empty());
                full.find_map(|guard| self.empty(order, guard, busy).filter(|job| fits(rules, job)))
            }
            false => moved(Move::RemoveLevel),
        }
    }

    /// These starts of the last level, and those of the level above it, in order.
    fn nest(&self, order: &KeyOrder, mut chosen: Vec<Bytes>) -> Vec<Bytes> {
        let above = self.levels.len().checked_sub(2).and_then(|at| self.levels.get(at));
        chosen.extend(above.map(|level| starts(level)).unwrap_or_default());
        order.sort_by(&mut chosen, |a, b| order.compare(a, b));
        chosen.dedup();
        chosen
    }

    /// Guards that are to be inserted or deleted, which moves no data (PebblesDB §3.3).
    fn pick_moves(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        if rules.hashed.is_some() {
            return Some(Job::of_moves(self.delete_empty(order, busy))).filter(|job| !job.moves.is_empty());
        }
        let moves = self.insert_one(order, busy).map(|insert| vec![insert]);
        let thin = || Some(self.delete_thin(order, rules, busy)).filter(|moves| !moves.is_empty());
        let moves = moves.or_else(thin);
        Some(Job::of_moves(moves?))
    }

    /// The guard that has too many guards below it is divided in the middle, where the key is
    /// shortest.
    fn insert_one(&self, order: &KeyOrder, busy: &Busy) -> Option<Move> {
        let pairs = self.levels.iter().zip(self.levels.iter().skip(1));
        pairs.flat_map(|(level, below)| level.iter().map(move |guard| (guard, below))).find_map(
            |(guard, below)| {
                let children = guards_within(order, below, &guard.span);
                if children.len() <= 2 * FAN_OUT || !busy.is_free(guard.id) {
                    return None;
                }
                let third = children.len() / 3;
                let middle = children[third..children.len() - third].iter();
                let start = middle.filter_map(|child| child.span.start.clone()).min_by_key(Bytes::len)?;
                Some(Move::Insert { level: guard.level, start, share: 0.5 })
            },
        )
    }

    /// Guards of the last level that are thin with the one before them, or the short rest of a guard that
    /// was divided, and guards above it that
    /// have few guards below them. A key that begins no guard any more begins none above either.
    fn delete_thin(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Vec<Move> {
        let mut deletes: Vec<Move> = Vec::new();
        let mut delete =
            |deepest: u32, start: &Bytes| deletes.extend(self.delete_upto(order, deepest, start, busy));
        let Some((last, above)) = self.levels.split_last() else { return Vec::new() };
        let mut before = last.first().map_or((0, false), |first| (first.bytes(), first.is_one_table()));
        for guard in last.iter().skip(1) {
            let bytes = guard.bytes();
            let Some(start) = &guard.span.start else { continue };
            let joined = before.0 + bytes;
            let is_thin = bytes < rules.table_bytes / THIN_FRACTION && joined < rules.table_bytes;
            let is_rest = before.1
                && guard.is_one_table()
                && bytes < rules.table_bytes / 2
                && joined < rules.table_bytes + rules.table_bytes / 2;
            if is_thin || is_rest {
                delete(guard.level, start);
                before = (joined, false);
            } else {
                before = (bytes, guard.is_one_table());
            }
        }
        for (level, below) in above.iter().zip(self.levels.iter().skip(1)) {
            for guard in level.iter().skip(1) {
                let few = guards_within(order, below, &guard.span).len() < FAN_OUT / 4;
                let before = guard.span.start.as_ref().filter(|_| few);
                if let Some(start) = before {
                    delete(guard.level, start);
                }
            }
        }
        let is_same = |a: &mut Move, b: &mut Move| match (a, b) {
            (Move::Delete { level: a, start: x }, Move::Delete { level: b, start: y }) => a == b && x == y,
            _ => false,
        };
        deletes.dedup_by(is_same);
        deletes
    }

    /// The deletion of the guards that begin at a key, from level 1 down to this one. None if a running
    /// merge claims one of them, or one that would join it.
    pub(super) fn delete_upto(
        &self,
        order: &KeyOrder,
        deepest: u32,
        start: &Bytes,
        busy: &Busy,
    ) -> Vec<Move> {
        let levels = self.levels.iter().take(deepest as usize);
        let with_before = |level: &Level| {
            let guard = guard_at(order, level, start)?;
            let begins = guard.span.start.as_ref() == Some(start);
            Some((guard.clone(), guard_before(order, level, start)?.id)).filter(|_| begins)
        };
        let guards: Vec<(Arc<Guard>, u64)> = levels.filter_map(with_before).collect();
        if !guards.iter().all(|(guard, before)| busy.is_free(guard.id) && busy.is_free(*before)) {
            return Vec::new();
        }
        canary!(GUARD_KEPT_ABOVE => let guards = guards.into_iter().rev().take(1).collect::<Vec<_>>());
        guards.iter().map(|(guard, _)| Move::Delete { level: guard.level, start: start.clone() }).collect()
    }

    /// The next job that brings runs of a guard to the level below, if running merges admit it.
    fn empty(&self, order: &KeyOrder, guard: &Guard, busy: &Busy) -> Option<Job> {
        let job = self.sink(order, guard, busy);
        job.or_else(|| self.merge_oldest_down(order, guard, guard.runs.len(), busy))
    }

    /// The oldest runs of a guard move to the level below as they are if each has keys of one guard only there:
    /// they are newer than all that is below.
    fn sink(&self, order: &KeyOrder, guard: &Guard, busy: &Busy) -> Option<Job> {
        let below = self.below(guard.level)?;
        let child_of = |run: &Run| {
            let child = run.span.start.as_ref().map_or(below.first(), |start| guard_at(order, below, start));
            child.filter(|child| run.span.intersect(order, &child.span).as_ref() == Some(&*run.span))
        };
        // A merge that puts runs into the guard there takes older ones from it.
        let may_sink = |run: &&Run| child_of(run).is_some_and(|child| !busy.is_put_into(child.id));
        let oldest_first = guard.runs.iter().rev();
        let sinking =
            if busy.is_taken_from(guard.id) { 0 } else { oldest_first.take_while(may_sink).count() };
        let moves = std::iter::repeat_n(Move::Sink { group: guard.id }, sinking).collect();
        (sinking > 0).then(|| Job::of_moves(moves))
    }

    /// A step of sorting everything on a full disk: the inputs of each are free before the next one begins. If there
    /// may be no room for it, it tries.
    pub(super) fn sort_with_room(
        &self,
        order: &KeyOrder,
        rules: &Rules,
        guard: &Guard,
        busy: &Busy,
    ) -> Option<Job> {
        if guard.level as usize == self.levels.len() {
            let all = || guard.merge(guard.runs.len(), rules);
            return admitted(busy, guard.merge_with_room(rules).unwrap_or_else(all));
        }
        let down = || self.merge_oldest_down(order, guard, guard.oldest_with_room(rules).unwrap_or(1), busy);
        self.sink(order, guard, busy).or_else(down)
    }

    /// The merge of the oldest `count` runs of a guard into the level below.
    fn merge_oldest_down(&self, order: &KeyOrder, guard: &Guard, count: usize, busy: &Busy) -> Option<Job> {
        let mut job = Job::of_pieces(vec![self.merge_down(order, guard, count)?]);
        self.commit(order, guard.level + 1, &mut job, busy);
        busy.admits(&job.claim(false)).then_some(job)
    }

    /// The merge of the oldest `count` runs of a guard, usually all, into the level below: a fragment for each
    /// guard there. If the last level has very much more data there, the guard is rewritten in its place instead.
    fn merge_down(&self, order: &KeyOrder, guard: &Guard, count: usize) -> Option<Piece> {
        let below = guards_within(order, self.below(guard.level)?, &guard.span);
        let below_bytes: u64 = below.iter().map(|child| child.bytes()).sum();
        let is_last = guard.level as usize + 1 == self.levels.len();
        let newer = guard.runs.len().checked_sub(count)?;
        let in_place = is_last
            && newer == 0
            && full_runs(&guard.runs) > 1
            && below_bytes > REWRITE_RATIO * guard.bytes();
        Some(Piece {
            span: guard.span.clone(),
            tables: guard.runs[newer..].to_vec(),
            taken: vec![(guard.id, 0..count)],
            bottom: Bottom::Deeper,
            cuts: if in_place {
                Cuts::Near(WHOLE)
            } else {
                Cuts::At(starts(below.get(1..).unwrap_or_default()))
            },
            place: Place::level(if in_place { guard.level } else { guard.level + 1 }),
            groups: if in_place { vec![guard.id] } else { below.iter().map(|child| child.id).collect() },
        })
    }

    /// Rewrites everything below a guard of the first level into the last level, a piece for each of
    /// its guards there. `logs_bytes` of logs come on top.
    pub fn column(&self, order: &KeyOrder, rules: &Rules, top: &Guard, logs_bytes: u64) -> Vec<Piece> {
        let within = |level: &'_ Level| guards_within(order, level, &top.span).to_vec();
        let guards: Vec<Arc<Guard>> = self.levels.iter().flat_map(within).collect();
        let last = within(self.last());
        let all = |guard: &Arc<Guard>| (guard.id, 0..guard.runs.len());
        let mut taken: Vec<(u64, Range<usize>)> = guards.iter().map(all).collect();
        let is_divided = |bytes| rules.hashed.is_none() && bytes > CUT_FROM * rules.table_bytes / 2;
        let piece = |guard: &Arc<Guard>| {
            let part = |run: &Run| {
                let span = run.span.intersect(order, &guard.span)?;
                let has_keys = |other: &&Arc<Guard>| run.span.intersect(order, &other.span).is_some();
                let parts = last.iter().filter(has_keys).count() as u64;
                let is_whole = parts <= 1;
                Some(if is_whole {
                    Run { span: span.into(), ..run.clone() }
                } else {
                    run.part(span, run.bytes() / parts)
                })
            };
            let tables: Vec<Run> = guards.iter().flat_map(|above| &above.runs).filter_map(part).collect();
            let logs_bytes = logs_bytes / last.len().max(1) as u64;
            let bytes = tables.iter().map(Run::whole_bytes).sum::<u64>() + logs_bytes;
            Piece {
                span: guard.span.clone(),
                tables,
                // The first piece takes everything: the guards are changed after all are merged.
                taken: std::mem::take(&mut taken),
                bottom: Bottom::Reached,
                cuts: Cuts::Near(if is_divided(bytes) { even(bytes, rules.table_bytes) } else { WHOLE }),
                place: Place::level(guard.level),
                groups: vec![guard.id],
            }
        };
        last.iter().map(piece).collect()
    }

    /// The merge of logs into the guards of level 1: a fragment for each guard that they have keys
    /// of, or range deletes, above its tables. An only level that is empty is rewritten instead: its
    /// guards are to be cut.
    pub fn append_fragments(&self, order: &KeyOrder, rules: &Rules, logs: &Logs, busy: &Busy) -> Job {
        let bottom = Bottom::Deeper;
        canary!(DELETES_DROPPED_ABOVE => let bottom = Bottom::Reached);
        let mut pieces: Vec<Piece> = Vec::new();
        for guard in self.levels.first().into_iter().flatten() {
            let is_only = self.levels.len() == 1 && guard.is_empty() && rules.hashed.is_none();
            if is_only {
                pieces.extend(self.column(order, rules, guard, logs.bytes));
                continue;
            }
            match pieces.last_mut() {
                Some(Piece { span, cuts: Cuts::At(starts), groups, .. }) => {
                    starts.extend(guard.span.start.clone());
                    groups.push(guard.id);
                    *span = Span { start: span.start.clone(), end: guard.span.end.clone() };
                }
                _ => pieces.push(Piece {
                    span: guard.span.clone(),
                    tables: Vec::new(),
                    taken: Vec::new(),
                    bottom,
                    cuts: Cuts::At(Vec::new()),
                    place: Place::level(1),
                    groups: vec![guard.id],
                }),
            }
        }
        let mut job = Job::of_pieces(pieces);
        self.commit(order, 1, &mut job, busy);
        job
    }
}
