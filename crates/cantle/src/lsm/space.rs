//! The bound on the disk space of tables ([`Rules::space_amplification`](super::shape::Rules::space_amplification)).
//!
//! Merges free what exceeds it ([`Shape::pick`]), and a checkpoint frees their inputs. If writers make garbage
//! faster, they are slowed down. Older versions that an open snapshot sees are no garbage: nobody waits for them.

use super::keyspace::Lsm;
use super::maintain::GENERATIONS;
use super::shape::{Shape, Space};
use super::view::View;
use crate::log::segment::Segment;
use crate::run::referred::{Copying, exceeds_rest};
use crate::run::run::{Run, Source};
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::compression::Compression;

/// Obsolete files of this many bytes, which only the last checkpoint needs, bring the next one forward.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// Writers are slowed down if the bound is exceeded by this fraction; merges begin at the bound itself.
const BRAKE_FROM: f64 = 1.0 / 16.0;
/// Writers are as slow as merges if it is exceeded by this fraction.
const FULL: f64 = 1.0 / 4.0;
/// Inputs of merges that clean early may take this many bytes, and this part of the live ones, as a divisor, before a
/// checkpoint frees them (SifrDB §4.2: the files of a merge take little space beside the data).
const CLEANED_HELD_BYTES: u64 = 16 << 20;
const CLEANED_HELD_FRACTION: u64 = 40;
/// A checkpoint for the bound has to free at least this part of what the bound allows, and this many bytes.
const HELD_FRACTION: f64 = 1.0 / 16.0;
pub const HELD_BYTES_MIN: u64 = 8 << 20;

/// Merges copy the values of a log of which more than this part is garbage, while the bound is kept.
const SPARSE_PART: f64 = 0.5;

/// Disk space beside its bound.
struct Bounded {
    space: Space,
    allowed_bytes: f64,
}

impl Bounded {
    fn overload(&self) -> f64 {
        let excess = self.space.bytes as f64 / self.allowed_bytes.max(1.0) - 1.0;
        (excess - BRAKE_FROM).max(0.0) / (FULL - BRAKE_FROM)
    }

    /// True if obsolete files are what exceeds the bound, and many, or more than early cleaning may leave.
    fn is_checkpoint_due(&self, held_bytes: u64, cleans_early: bool) -> bool {
        let cleaned = CLEANED_HELD_BYTES + self.space.live_bytes() / CLEANED_HELD_FRACTION;
        if cleans_early && held_bytes >= cleaned {
            return true;
        }
        let held = held_bytes as f64;
        held_bytes >= HELD_BYTES_MIN
            && held >= HELD_FRACTION * self.allowed_bytes
            && self.space.bytes as f64 + held > self.allowed_bytes
    }
}

impl<S: Shape> Lsm<S> {
    fn bounded(&self, view: &View<S>) -> Bounded {
        let rules = self.rules();
        let space = view.shape.space(&rules);
        // Merges need space for their outputs, so the usual length of level 0 comes in addition.
        let spare_bytes = GENERATIONS * self.limits().generation_bytes;
        let allowed_bytes = rules.space_amplification * space.live_bytes() as f64 + spare_bytes as f64;
        Bounded { space, allowed_bytes }
    }

    /// 0 while the tables keep their bound, or nearly; 1 if writers must be as slow as merges.
    pub fn space_overload(&self, view: &View<S>) -> f64 {
        self.bounded(view).overload()
    }

    /// Bytes of this log that a merge leaves there, about: its long values, if they are nearly all of it.
    pub(super) fn left_bytes(&self, log: &Segment) -> u64 {
        let rest = match self.env.options().compression {
            Compression::None => self.limits().rules.rest_part(),
            _ => Copying::ALL.rest,
        };
        let large_bytes = log.large_bytes.load(Relaxed);
        if exceeds_rest(large_bytes, log.len(), rest) { large_bytes } else { 0 }
    }

    /// Bytes that a merge of these runs of level 0 copies, about.
    pub fn merged_bytes(&self, runs: &[Run]) -> u64 {
        let bytes = |run: &Run| match &run.source {
            Source::Log(log) => log.len().saturating_sub(self.left_bytes(log)),
            Source::Table(_) => run.bytes(),
        };
        runs.iter().map(bytes).sum()
    }

    /// The long values that a merge leaves in their logs. If the bound is exceeded it copies earlier.
    pub fn copying(&self, view: &View<S>) -> Copying {
        if self.env.options().compression != Compression::None {
            return Copying::ALL;
        }
        let rules = self.rules();
        let (rest, sparse) = (rules.rest_part(), rules.sparse_part());
        let is_exceeded =
            rules.disk_room.is_some() || view.shape.space(&rules).exceeds(rules.space_amplification);
        Copying { rest, sparse: if is_exceeded { sparse } else { sparse.max(SPARSE_PART) } }
    }

    /// Asks for a checkpoint if it would free much, or what exceeds the bound, or anything of a full disk.
    pub(super) fn want_checkpoint(&self) {
        let held_bytes = self.env.totals.held_bytes.load(Relaxed);
        let held_bytes_max = if self.substrate.reserve.is_full() { 0 } else { HELD_BYTES_MAX };
        if self.substrate.files.held_bytes() > held_bytes_max
            || self
                .bounded(&self.rotation.view.load())
                .is_checkpoint_due(held_bytes, self.rules().cleans_early())
        {
            self.substrate.checkpoints.want();
            self.substrate.pool.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges with early cleaning leave little beside the data, others what the bound allows.
    #[test]
    fn a_checkpoint_is_due_for_inputs_that_early_cleaning_may_not_leave() {
        let space = Space { bytes: 800 << 20, stale_bytes: 0 };
        let bounded = Bounded { space, allowed_bytes: 1200.0 * (1 << 20) as f64 };
        assert!(!bounded.is_checkpoint_due(35 << 20, true));
        assert!(bounded.is_checkpoint_due(36 << 20, true));
        assert!(!bounded.is_checkpoint_due(400 << 20, false));
        assert!(bounded.is_checkpoint_due(401 << 20, false));
    }
}
