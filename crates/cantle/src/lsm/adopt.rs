//! Logs that were written in key order, and become a part of the shape as they are.
//!
//! A load in key order is thus written once: its logs are read as tables are. The published PebblesDB
//! writes six times what it loads so (its §4.6).

use super::busy::Busy;
use super::keyspace::Lsm;
use super::maintain::SHORT_FRACTION;
use super::merge::{Planned, Trigger};
use super::shape::{Apart, Job, Move, Shape};
use super::view::View;
use crate::run::approximate::bytes_upto;
use crate::run::run::Run;
use crate::types::compression::Compression;
use crate::types::error::Result;
use crate::types::span::Span;

/// A log may share this part of its keys with an older run that it is placed beside.
const SHARED_FRACTION: u64 = 8;

impl<S: Shape> Lsm<S> {
    /// The oldest ripe log with the changes that take it into the shape as it is, if it was written
    /// in key order and has no keys in common with any table, or few.
    pub(super) fn log_apart(&self, view: &View<S>, ripe: &[Run], busy: &Busy) -> Option<(Run, Vec<Move>)> {
        let log = ripe.last()?;
        let is_short = log.bytes() < self.limits().generation_bytes / SHORT_FRACTION;
        // A log that is adopted is not merged, so no guard would be chosen among its keys.
        let is_hashed = self.limits().rules.hashed.is_some();
        // A tree of several tables is none of the size-tiered forest.
        let is_size_tiered = self.limits().rules.size_tiered;
        let is_compressed = self.env.options().compression != Compression::None;
        if is_short || is_hashed || is_size_tiered || is_compressed || busy.has_logs() {
            return None;
        }
        let segment = log.log()?;
        // A merge of it writes little, and knows which guard each long value belongs to.
        if self.left_bytes(segment) > 0 {
            return None;
        }
        let parts = segment.loaded()?;
        let [part] = &parts.indexed[..] else { return None };
        let is_whole = parts.memory.as_ref().is_none_or(|memory| memory.is_empty());
        let (first, last) = part.known_keys().filter(|_| is_whole && part.is_in_key_order())?;
        let run = Run { span: Span::around(&self.env.order, first, last).into(), ..log.clone() };
        let Apart { moves, upto } = view.shape.take_apart(&self.env.order, &run, busy)?;
        // Without an index, there is no knowing.
        let shared = upto.map_or(Ok(0), |key| bytes_upto(&self.env, segment, &parts, part, &key)).ok()?;
        (shared <= (part.end - part.start) / SHARED_FRACTION).then(|| (log.clone(), moves))
    }

    /// Takes the oldest ripe logs into the shape as they are, as long as they are apart from
    /// everything there; false if the oldest one is not.
    pub(super) fn adopt_logs(&self, trigger: Trigger) -> Result<bool> {
        let adopt = |view: &View<S>, busy: &Busy| {
            let (log, moves) = self.log_apart(view, &self.ripe_logs(view), busy)?;
            Some(Planned { logs: vec![log], job: Job::of_moves(moves) })
        };
        // Not those that are written meanwhile.
        let ripe = self.ripe_logs(&self.rotation.view.load_full()).len() as u64;
        let mut adopted = 0;
        while adopted < ripe && self.run_next(adopt, trigger)? {
            self.counters.logs_adopted.add(1);
            adopted += 1;
        }
        Ok(adopted > 0)
    }
}
