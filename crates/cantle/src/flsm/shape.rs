//! The levels as a shape of the engine: reading them, and the shape after a job.

use super::levels::{Changing, Guard, Level, Levels, guard_at, guard_before, guards_within};
use crate::lsm::busy::Busy;
use crate::lsm::middle::{Division, Half};
use crate::lsm::shape::{
    Apart, Change, Cuts, Group, Job, Logs, Move, Outcome, Piece, Placed, RUN_COST, Rules, Shape, Space,
    Stretch, rewrite_cost,
};
use crate::lsm::sizes::entries_of;
use crate::lsm::state::GroupRecord;
use crate::run::record::FileRecord;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::HashSet;

/// Lengths of a table of the last level that a merge may write.
const TABLES_MOST: u64 = 3;
/// The part of a run that reaches into the one that is adopted next to it.
const REACHING: f64 = 1.0 / 64.0;

impl Shape for Levels {
    fn open(
        order: &KeyOrder,
        groups: Vec<GroupRecord>,
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str> {
        Self::open(order, &groups, run)
    }

    /// One guard of each level (PebblesDB §3.4).
    fn runs_at<'a>(&'a self, order: &'a KeyOrder, key: &'a [u8]) -> impl Iterator<Item = &'a Run> {
        self.levels.iter().filter_map(move |level| guard_at(order, level, key)).flat_map(|guard| &guard.runs)
    }

    fn stretch_at(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        self.stretch(order, |level| key.map_or(level.first(), |key| guard_at(order, level, key)))
    }

    fn stretch_before(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch {
        self.stretch(order, |level| key.map_or(level.last(), |key| guard_before(order, level, key)))
    }

    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.guards().map(|guard| Group {
            id: guard.id,
            level: guard.level,
            tree: 0,
            grows: false,
            span: &guard.span,
            runs: &guard.runs,
            debt: guard.tally.debt(),
        })
    }

    fn runs_max(&self, rules: &Rules) -> impl Iterator<Item = usize> {
        self.guards().map(|guard| guard.runs_max(rules))
    }

    fn runs_most(&self, order: &KeyOrder) -> usize {
        let deeper = |most: usize, guard: &Arc<Guard>| match guard.runs.len() > most {
            true => most.max(guard.depth(order)),
            false => most,
        };
        self.guards().fold(0, deeper)
    }

    /// The output comes above all that is in its level already.
    fn is_older(&self, group: &Group<'_>, piece: &Piece) -> bool {
        group.level >= piece.place.level
    }

    fn least_merge_bytes(&self, rules: &Rules) -> u64 {
        TABLES_MOST * rules.table_bytes
    }

    fn space(&self, rules: &Rules) -> Space {
        let add = |sum: Space, guard: &Arc<Guard>| Space {
            bytes: sum.bytes + guard.held_bytes(),
            stale_bytes: sum.stale_bytes + guard.freeable_bytes(rules.oldest_snapshot),
        };
        let Space { bytes, stale_bytes } = self.guards().fold(Space::default(), add);
        Space { bytes, stale_bytes: stale_bytes.min(bytes) }
    }

    /// Each run beside the first costs a seek [`RUN_COST`] entries.
    fn owe(&self, order: &KeyOrder, key: Option<&[u8]>, entries: u64) {
        for level in &self.levels {
            let guard = key.map_or(level.first(), |key| guard_at(order, level, key));
            let Some(guard) = guard else { continue };
            guard.tally.seek();
            if guard.runs.is_empty() {
                continue;
            }
            let is_last = guard.level as usize == self.levels.len();
            let spare_runs = (guard.depth(order) as u64).saturating_sub(u64::from(is_last));
            guard.tally.owe(entries + RUN_COST * spare_runs);
        }
    }

    fn sought(&self, order: &KeyOrder, key: Option<&[u8]>) {
        for level in &self.levels {
            let guard = key.map_or(level.first(), |key| guard_at(order, level, key));
            if let Some(guard) = guard.filter(|guard| self.may_sink(guard) || guard.depth(order) > 1) {
                guard.tally.note_sought();
            }
        }
    }

    fn pick(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job> {
        self.pick_job(order, rules, busy)
    }

    fn take_logs(&self, order: &KeyOrder, rules: &Rules, logs: &Logs, busy: &Busy) -> Job {
        self.append_fragments(order, rules, logs, busy)
    }

    fn sort_within(
        &self,
        order: &KeyOrder,
        rules: &Rules,
        bounds: &Bounds,
        upto: u64,
        busy: &Busy,
    ) -> Option<Job> {
        let is_unsorted = |guard: &Arc<Guard>| {
            let is_last = guard.level as usize == self.levels.len();
            let is_deep = guard.depth(order) > usize::from(is_last);
            let has_deleted = |run: &Run| matches!(&run.source, Source::Table(table) if table.has_deleted);
            // The pairs that range deletes of the last level cover are in the same runs.
            let is_left = guard.stale_bytes(rules.oldest_snapshot) > 0 || guard.runs.iter().any(has_deleted);
            let has_log = guard.runs.iter().any(|run| run.log().is_some());
            guard.span.overlaps(order, bounds) && (is_deep || is_left || has_log)
        };
        let is_old = |guard: &Arc<Guard>| guard.runs.iter().any(|run| run.file().id < upto);
        if rules.disk_room.is_some() {
            let mut guards = self.levels.iter().flatten();
            let is_next = |guard: &&Arc<Guard>| is_unsorted(guard) && is_old(guard);
            // One that has room comes first: it leaves more.
            let has_room = |guard: &&Arc<Guard>| is_next(guard) && guard.has_room(rules);
            let guard = guards.clone().find(has_room).or_else(|| guards.find(is_next))?;
            return self.sort_with_room(order, rules, guard, busy);
        }
        let is_unsorted = |top: &&Arc<Guard>| {
            let any = |is: &dyn Fn(&Arc<Guard>) -> bool| {
                self.levels.iter().any(|level| guards_within(order, level, &top.span).iter().any(is))
            };
            any(&is_unsorted) && any(&is_old)
        };
        let mut tops = self.levels.first()?.iter().filter(|top| top.span.overlaps(order, bounds));
        let top = tops.find(is_unsorted)?;
        Some(Job::of_pieces(self.column(order, rules, top, 0)))
    }

    /// It becomes a guard of the last level, or a part of the one that has its first key. A run there
    /// may reach into it: of writers that take turns, one may write to the next log already.
    fn take_apart(&self, order: &KeyOrder, run: &Run, busy: &Busy) -> Option<Apart> {
        let start = run.span.start.as_ref()?;
        let begins_before = |other: &Run| {
            other.span.start.as_ref().is_none_or(|other| order.compare(other, start) == Ordering::Less)
        };
        let overlaps = |other: &Run| other.span.intersect(order, &run.span).is_some();
        let is_in_the_way = |guard: &Arc<Guard>| {
            let is_last = guard.level as usize == self.levels.len();
            guard.runs.iter().any(|other| overlaps(other) && !(is_last && begins_before(other)))
        };
        let is_apart = self.levels.iter().all(|level| {
            let place =
                level.partition_point(|guard| !guard.span.starts_behind(order, start)).saturating_sub(1);
            let reached = |guard: &&Arc<Guard>| run.span.intersect(order, &guard.span).is_some();
            !level[place..].iter().take_while(reached).any(is_in_the_way)
        });
        canary!(ADOPTED_BELOW_OTHERS => let is_apart = true);
        let last = self.last();
        let guard = guard_at(order, last, start).filter(|_| is_apart)?;
        let is_within = run.span.intersect(order, &guard.span).as_ref() == Some(&*run.span);
        let is_first = guard.runs.is_empty() || guard.span.start.as_ref() == Some(start);
        if !is_within || !busy.is_free(guard.id) {
            return None;
        }
        let level = self.levels.len() as u32;
        let insert = (!is_first).then(|| Move::Insert { level, start: start.clone(), share: REACHING });
        let moves = insert.into_iter().chain([Move::Adopt { level, run: run.clone() }]).collect();
        let reaching = guard.runs.iter().filter(|other| overlaps(other));
        let ends = reaching.map(|other| other.span.end.clone()).collect::<Option<Vec<_>>>()?;
        let upto = ends.into_iter().max_by(|a, b| order.compare(a, b));
        Some(Apart { moves, upto })
    }

    fn after(&self, order: &KeyOrder, job: &Job, outcomes: &[Outcome]) -> Change<Self> {
        let mut changing = Changing::new(order, self);
        let taken = Taken {
            groups: job.pieces.iter().flat_map(|piece| &piece.taken).map(|(id, _)| *id).collect(),
            files: job.pieces.iter().flat_map(|piece| &piece.tables).map(|run| run.file().id).collect(),
        };
        for (piece, outcome) in job.pieces.iter().zip(outcomes) {
            changing.apply_piece(piece, outcome, &taken);
        }
        job.moves.iter().for_each(|change| changing.apply_move(change));
        changing.choose(outcomes.iter().flat_map(|outcome| &outcome.chosen));
        changing.finish()
    }

    fn fault(&self, order: &KeyOrder) -> Option<String> {
        self.find_fault(order)
    }
}

/// All that the pieces of a job take.
struct Taken {
    groups: HashSet<u64>,
    files: HashSet<u64>,
}

/// A table of a merge, as a run of a guard that has this part of it.
fn run_of(order: &KeyOrder, placed: &Placed, part: f64, guard: &Span) -> Run {
    let table = placed.output.table.clone();
    let is_shared = placed.parts.iter().flatten().count() > 1;
    let share_bytes = is_shared.then(|| (table.file.bytes() as f64 * part) as u64);
    // Range deletes may reach beyond the keys.
    let keys = if table.has_deleted { None } else { placed.output.keys.intersect(order, guard) };
    let span = Arc::new(keys.unwrap_or_else(|| guard.clone()));
    Run { source: Source::Table(table), span, dropped: None, dropped_ranges: None, share_bytes }
}

/// A table without entries as a run of a guard, with as few keys as possible.
fn empty_run(order: &KeyOrder, placed: &Placed, guard: &Span) -> Run {
    let start = guard.start.clone().unwrap_or_default();
    let span = Span::around(order, &start, &start).intersect(order, guard);
    let (source, span) = (Source::Table(placed.output.table.clone()), span.unwrap_or_else(|| guard.clone()));
    Run { source, span: span.into(), dropped: None, dropped_ranges: None, share_bytes: None }
}

/// The guards with tables without entries in the first one.
fn with_empty(order: &KeyOrder, mut guards: Vec<Guard>, empty: &[(&Placed, f64)]) -> Vec<Guard> {
    if let Some(first) = guards.first_mut() {
        let runs = empty.iter().map(|(placed, _)| empty_run(order, placed, &first.span));
        first.runs = runs.chain(std::mem::take(&mut first.runs)).collect();
    }
    guards
}

impl Changing<'_> {
    fn apply_piece(&mut self, piece: &Piece, outcome: &Outcome, all_taken: &Taken) {
        for (id, taken) in &piece.taken {
            let Some((level, place)) = self.place_of(*id) else {
                self.missed = Some(*id);
                continue;
            };
            let guard = self.levels.levels[level][place].clone();
            let newest_first = guard.runs.iter().zip((0..guard.runs.len()).rev());
            let (gone, left): (Vec<_>, Vec<_>) = newest_first.partition(|(_, age)| taken.contains(age));
            if gone.len() < taken.len()
                || !gone.iter().all(|(run, _)| all_taken.files.contains(&run.file().id))
            {
                self.missed = Some(*id);
                continue;
            }
            let runs = left.into_iter().map(|(run, _)| run.clone()).collect();
            let rest = Guard { tally: guard.tally.merged(), ..guard.with_runs(runs) };
            self.splice(level, place..place + 1, vec![rest]);
        }
        self.drop_covered(piece, outcome);
        let placed = &outcome.placed;
        for (number, &id) in piece.groups.iter().enumerate() {
            let Some((level, place)) = self.place_of(id) else {
                self.missed = Some(id);
                continue;
            };
            let guard = self.levels.levels[level][place].clone();
            let own: Vec<(&Placed, f64)> = match piece.cuts {
                Cuts::Near(_) => placed.iter().map(|placed| (placed, 1.0)).collect(),
                Cuts::At(_) => {
                    placed.iter().filter_map(|placed| Some((placed, placed.part(number)?))).collect()
                }
            };
            if own.is_empty() {
                continue;
            }
            if !all_taken.groups.contains(&id) {
                let cost = |(placed, part): &(&Placed, f64)| {
                    let table = &placed.output.table;
                    (rewrite_cost(table.entries, table.file.bytes()) as f64 * part) as u64
                };
                guard.tally.bring(own.iter().map(cost).sum());
            }
            // A part of the guard, if this job divides it.
            let part = match piece.cuts {
                Cuts::Near(_) => None,
                Cuts::At(_) => guard.span.intersect(self.order, &piece.span_of(number..number + 1)),
            };
            let part = part.as_ref().unwrap_or(&guard.span);
            let (empty, own): (Vec<_>, Vec<_>) =
                own.into_iter().partition(|(placed, _)| placed.output.table.is_empty());
            let starts: Vec<Bytes> =
                own.iter().skip(1).filter_map(|(placed, _)| placed.output.start.clone()).collect();
            let guards = match starts.is_empty() || !guard.runs.is_empty() {
                _ if own.is_empty() => vec![guard.with_runs(guard.runs.clone())],
                true => {
                    let new = own.iter().map(|(placed, share)| run_of(self.order, placed, *share, part));
                    let half = outcome.halves.iter().find(|(group, _)| *group == number);
                    let half = half.map(|(_, half)| half.clone());
                    let joined = guard.with_runs(new.chain(guard.runs.iter().cloned()).collect());
                    let division = match guard.runs.is_empty() {
                        true => Some(half.map_or(Division::Nowhere { bytes: joined.bytes() }, Division::At)),
                        false => Half::better(guard.half().cloned(), half).map(Division::At),
                    };
                    let division = division.map(Arc::new).or_else(|| guard.division.clone());
                    vec![Guard { division, ..joined }]
                }
                false => self.divide(&guard, &starts, &own),
            };
            let guards = with_empty(self.order, guards, &empty);
            self.splice(level, place..place + 1, guards);
        }
    }

    /// The guards that come of one whose only tables begin at these keys, the first one apart.
    fn divide(&mut self, guard: &Guard, starts: &[Bytes], placed: &[(&Placed, f64)]) -> Vec<Guard> {
        let firsts = std::iter::once(guard.span.start.clone()).chain(starts.iter().cloned().map(Some));
        let ends = starts.iter().cloned().map(Some).chain([guard.span.end.clone()]);
        let spans = firsts.zip(ends).map(|(start, end)| Span { start, end });
        let tally = guard.tally.part(1.0 / placed.len().max(1) as f64);
        let new = |(span, (placed, part)): (Span, &(&Placed, f64))| {
            let runs = vec![run_of(self.order, placed, *part, &span)];
            Guard { tally: tally.clone(), ..Guard::new(self.next_id(), guard.level, span, runs) }
        };
        spans.zip(placed).map(new).collect()
    }

    fn apply_move(&mut self, change: &Move) {
        match change {
            Move::Adopt { level, run } => self.adopt(*level, run),
            Move::Sink { group } => self.sink(*group),
            Move::Insert { level, start, share } => self.insert((*level, start), *share),
            Move::Delete { level, start } => self.delete(*level, start),
            Move::AddLevel { starts } => self.add_level(starts),
            Move::RemoveLevel => self.remove_level(),
            Move::Purge { group, run } => self.purge(*group, run),
            Move::Forget { group, settled } => self.forget(*group, *settled),
            // A level has one tree.
            Move::Grow { .. } | Move::Hand { .. } => self.missed = self.missed.or(Some(0)),
        }
    }

    fn adopt(&mut self, level: u32, run: &Run) {
        // The empty key is not the first one in every order.
        let found = match &run.span.start {
            Some(start) => self.place_at(level, start),
            None => (level as usize).checked_sub(1).map(|number| (number, 0)),
        };
        let Some((level, place)) = found else { return };
        let guard = &self.levels.levels[level][place];
        let runs = std::iter::once(run).chain(&guard.runs).cloned().collect();
        let guard = guard.with_runs(runs);
        guard.tally.bring(rewrite_cost(entries_of(run), run.bytes()));
        self.splice(level, place..place + 1, vec![guard]);
    }

    fn sink(&mut self, id: u64) {
        let Some((level, place)) = self.place_of(id) else { return };
        let guard = self.levels.levels[level][place].clone();
        let mut runs = guard.runs.clone();
        canary!(SUNK_NEWEST_FIRST => runs.reverse());
        let Some(oldest) = runs.pop() else { return };
        let is_empty = runs.is_empty();
        let rest = guard.with_runs(runs);
        let tally = if is_empty { guard.tally.merged() } else { rest.tally.clone() };
        self.splice(level, place..place + 1, vec![Guard { tally, ..rest }]);
        self.adopt(guard.level + 1, &oldest);
    }

    /// Divides the guard that has the key. Tables with keys of both halves are shared.
    fn insert(&mut self, (level, start): (u32, &Bytes), share: f64) {
        let Some((level, place)) = self.place_at(level, start) else { return };
        let guard = self.levels.levels[level][place].clone();
        if guard.span.start.as_ref() == Some(start) {
            return;
        }
        let half = |(span, share): (Span, f64), changing: &mut Self| {
            let part = |run: &Run| {
                let within = run.span.intersect(changing.order, &span)?;
                let is_whole = within == *run.span;
                canary!(GUARD_WITHOUT_ITS_TABLES => if !is_whole && span.start.as_ref() == Some(start) { return None });
                let bytes = (run.bytes() as f64 * share) as u64;
                Some(if is_whole {
                    run.clone()
                } else {
                    run.part(within, bytes).clip_dropped_ranges(changing.order).dropped_whole(changing.order)
                })
            };
            let runs = guard.runs.iter().filter_map(part).collect();
            Guard {
                tally: guard.tally.part(share),
                ..Guard::new(changing.next_id(), guard.level, span, runs)
            }
        };
        let (lower, upper) = (
            Span { start: guard.span.start.clone(), end: Some(start.clone()) },
            Span { start: Some(start.clone()), end: guard.span.end.clone() },
        );
        let halves = vec![half((lower, 1.0 - share), self), half((upper, share), self)];
        self.splice(level, place..place + 1, halves);
    }

    /// Joins the guard that begins at the key with the one before it. Their tables have no key in
    /// common.
    fn delete(&mut self, level: u32, start: &Bytes) {
        let Some((level, place)) = self.place_at(level, start) else { return };
        let guards = &self.levels.levels[level];
        let (guard, Some(before)) =
            (guards[place].clone(), place.checked_sub(1).map(|at| guards[at].clone()))
        else {
            return;
        };
        if guard.span.start.as_ref() != Some(start) {
            return;
        }
        let span = Span { start: before.span.start.clone(), end: guard.span.end.clone() };
        let runs = before.runs.iter().chain(&guard.runs).cloned().collect();
        let tally = before.tally.joined(&guard.tally);
        let joined = Guard { tally, ..Guard::new(self.next_id(), guard.level, span, runs) };
        self.splice(level, place - 1..place + 1, vec![joined]);
    }

    fn add_level(&mut self, starts: &[Bytes]) {
        let Some(last) = self.levels.levels.pop() else { return };
        let number = self.levels.levels.len() as u32 + 1;
        let firsts = std::iter::once(None).chain(starts.iter().cloned().map(Some));
        let ends = starts.iter().cloned().map(Some).chain([None]);
        let empty = |(start, end)| {
            let span = Span { start, end };
            Arc::new(Guard::new(self.next_id(), number, span, Vec::new()))
        };
        let above: Level = firsts.zip(ends).map(empty).collect();
        let deeper = |guard: &Arc<Guard>| Arc::new(guard.in_level(number + 1));
        let last = last.iter().map(deeper).collect();
        self.levels.levels.extend([above, last]);
    }

    fn remove_level(&mut self) {
        let levels = &mut self.levels.levels;
        let Some(above) = levels.len().checked_sub(2) else { return };
        if levels[above].iter().any(|guard| !guard.runs.is_empty()) {
            return;
        }
        levels.remove(above);
        let number = levels.len() as u32;
        if let Some(last) = levels.last_mut() {
            *last = last.iter().map(|guard| Arc::new(guard.in_level(number))).collect();
        }
    }
}

impl Guard {
    pub(super) fn with_runs(&self, runs: Vec<Run>) -> Self {
        let (span, tally, division) = (self.span.clone(), self.tally.clone(), self.division.clone());
        Self { id: self.id, level: self.level, span, runs, tally, division }
    }

    fn in_level(&self, level: u32) -> Self {
        Self { level, ..self.with_runs(self.runs.clone()) }
    }
}
