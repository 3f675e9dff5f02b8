//! Guards that are chosen by the hash of keys: they are *uncommitted* first (PebblesDB §3.3).
//!
//! A merge meets keys that begin guards. Nothing reads by these guards, and nothing is cut by them,
//! until the next merge into their level: it cuts its output at them, and its edit adds them to the level
//! and to all deeper ones. Tables that lie on both sides there are shared. Until then the guards are in
//! memory only, and a crash forgets them: a later merge meets the keys again.

use super::levels::{Changing, Guard, Level, Levels, guard_at};
use crate::lsm::busy::Busy;
use crate::lsm::hashed::{Chosen, HashedGuards};
use crate::lsm::shape::{Cuts, Job, Move, Piece};
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Maximum number of uncommitted guards of a keyspace. Their keys have at most 1 KiB.
const UNCOMMITTED_MAX: usize = 1024;
/// The part of a table that is taken to lie in each half of a divided guard.
const HALF: f64 = 0.5;

fn begins(order: &KeyOrder, level: Option<&Level>, key: &Bytes) -> bool {
    let guard = level.and_then(|level| guard_at(order, level, key));
    guard.is_some_and(|guard| guard.span.start.as_ref() == Some(key))
}

impl Levels {
    /// Cuts the pieces of a merge into a level at the uncommitted guards, and makes them guards of
    /// that level and of all deeper ones.
    pub(super) fn commit(&self, order: &KeyOrder, level: u32, job: &mut Job, busy: &Busy) {
        for piece in &mut job.pieces {
            for key in self.commit_piece(order, level, piece, busy) {
                let deeper = level..=self.levels.len() as u32;
                job.moves.extend(deeper.map(|level| Move::Insert { level, start: key.clone(), share: HALF }));
                job.changed.extend(self.guards_with(order, level, &key).map(|guard| guard.id));
            }
        }
    }

    /// The guards from a level on that have a key.
    fn guards_with<'a>(
        &'a self,
        order: &'a KeyOrder,
        level: u32,
        key: &'a Bytes,
    ) -> impl Iterator<Item = &'a Arc<Guard>> {
        self.levels.iter().skip(level as usize - 1).filter_map(move |level| guard_at(order, level, key))
    }

    /// The keys at which the output of a piece is cut in addition.
    fn commit_piece(&self, order: &KeyOrder, level: u32, piece: &mut Piece, busy: &Busy) -> Vec<Bytes> {
        let Cuts::At(starts) = &mut piece.cuts else { return Vec::new() };
        let guards = self.levels.get(level as usize - 1);
        let is_new = |chosen: &&Chosen| {
            let is_within = piece.span.contains(order, &chosen.key);
            // The start of the piece is that of a guard, too.
            let is_guard = || begins(order, guards, &chosen.key);
            let is_free = || self.guards_with(order, level, &chosen.key).all(|guard| busy.is_free(guard.id));
            chosen.level <= level && is_within && !is_guard() && is_free()
        };
        let keys: Vec<Bytes> =
            self.uncommitted.iter().filter(is_new).map(|chosen| chosen.key.clone()).collect();
        for key in &keys {
            let place = starts.partition_point(|start| order.compare(start, key) == Ordering::Less);
            starts.insert(place, key.clone());
            // Both parts belong to the guard that has the key.
            let group = piece.groups.get(place).copied().unwrap_or_default();
            piece.groups.insert(place, group);
        }
        keys
    }

    /// The starts of guards of a new level above the last one, among those of the last one.
    pub(super) fn hashed_starts(&self, starts: Vec<Bytes>, hashed: HashedGuards) -> Vec<Bytes> {
        let number = self.levels.len() as u32;
        let is_guard = |start: &Bytes| hashed.level_of(start).is_some_and(|level| level <= number);
        starts.into_iter().filter(is_guard).collect()
    }

    /// The deletion of guards of the last level without any data, in no level. Thin guards stay: their
    /// keys would be chosen again.
    pub(super) fn delete_empty(&self, order: &KeyOrder, busy: &Busy) -> Vec<Move> {
        let has_no_data = |start: &Bytes, span: &Span| {
            let mut levels = self.levels.iter().filter_map(|level| guard_at(order, level, start));
            let is_elsewhere = |run: &Run| run.is_empty_table() || run.span.intersect(order, span).is_none();
            levels.all(|guard| guard.runs.iter().all(is_elsewhere))
        };
        let empty = self.last().iter().filter_map(|guard| {
            let start = guard.span.start.as_ref()?;
            has_no_data(start, &guard.span).then(|| self.delete_upto(order, guard.level, start, busy))
        });
        empty.flatten().collect()
    }
}

impl Changing<'_> {
    /// Adds keys to the uncommitted guards, and removes those that are guards of their level.
    pub(super) fn choose<'c>(&mut self, chosen: impl Iterator<Item = &'c Chosen>) {
        let order = self.order;
        let mut keys = self.levels.uncommitted.to_vec();
        for new in chosen {
            let place = keys.partition_point(|other| order.compare(&other.key, &new.key) == Ordering::Less);
            if keys.len() < UNCOMMITTED_MAX && keys.get(place).is_none_or(|other| other.key != new.key) {
                keys.insert(place, new.clone());
            }
        }
        keys.retain(|chosen| {
            let level = self.levels.levels.get(chosen.level as usize - 1);
            level.is_some() && !begins(order, level, &chosen.key)
        });
        if *keys != *self.levels.uncommitted {
            self.levels.uncommitted = keys.into();
        }
    }
}
