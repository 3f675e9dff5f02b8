//! The stretches of a keyspace as areas of a walk.

use super::keyspace::Lsm;
use super::shape::{RUN_COST, Shape, Stretch};
use crate::mvcc::SnapshotGuard;
use crate::run::merged::Merged;
use crate::run::walk::{Area, Areas, MergedPairs, Walk};
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::sync::Weak;

/// The stretches of a keyspace, as a snapshot sees them.
pub struct Stretches<S> {
    lsm: Arc<Lsm<S>>,
    snapshot: SnapshotGuard,
}

/// The stretch at the cursor's position.
pub struct OpenStretch<S: Shape> {
    lsm: Arc<Lsm<S>>,
    span: Span,
    pairs: Box<MergedPairs>,
    /// Number of sealed logs and flushed tables above the groups.
    sealed_runs: u64,
    /// Weak: a cursor that rests keeps no file but those of its stretch.
    shape: Weak<S>,
}

impl<S: Shape> Drop for OpenStretch<S> {
    fn drop(&mut self) {
        let debt = self.pairs.debt();
        let of_entries = self.pairs.debt_of_level0();
        let of_level0 = of_entries + RUN_COST * self.sealed_runs;
        if of_level0 > 0 {
            self.lsm.jobs.level0_debt.fetch_add(of_level0, Relaxed);
        }
        if let Some(shape) = self.shape.upgrade() {
            shape.owe(&self.lsm.env.order, self.span.start.as_deref(), debt - of_entries);
        }
    }
}

impl<S: Shape> Stretches<S> {
    fn open(&self, stretch_of: impl FnOnce(&S, &KeyOrder) -> Stretch) -> Result<OpenStretch<S>> {
        let at = self.snapshot.version();
        // Everything that the snapshot sees is in the present view: it was written before.
        let view = self.lsm.rotation.view.load_full();
        let stretch = stretch_of(&view.shape, self.order());
        let stack = view.stack_of(self.order(), &stretch);
        self.lsm.substrate.budget.count_scan();
        self.lsm.counters.seeks.add(1);
        self.lsm.counters.seek_runs.add(stack.files.len() as u64);
        if self.lsm.straight_seeks.is_on() && self.lsm.straight_seeks.count(self.lsm.counters.writes.get()) {
            view.shape.sought(self.order(), stretch.span.start.as_deref());
        }
        let merged = Merged::above_groups(&self.lsm.env, &stack, view.level0.len(), at)?;
        Ok(OpenStretch {
            lsm: self.lsm.clone(),
            sealed_runs: (view.level0.len() - usize::from(view.active.is_some())) as u64,
            span: stretch.span,
            pairs: Box::new(MergedPairs::new(merged, at)),
            shape: Arc::downgrade(&view.shape),
        })
    }
}

impl<S: Shape> Areas for Stretches<S> {
    type Area = OpenStretch<S>;

    fn order(&self) -> &KeyOrder {
        &self.lsm.env.order
    }

    fn area_at(&self, key: Option<&[u8]>) -> Result<OpenStretch<S>> {
        self.open(|shape, order| shape.stretch_at(order, key))
    }

    fn area_before(&self, key: Option<&[u8]>) -> Result<OpenStretch<S>> {
        self.open(|shape, order| shape.stretch_before(order, key))
    }
}

impl<S: Shape> Area for OpenStretch<S> {
    fn span(&self) -> &Span {
        &self.span
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.pairs.seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.pairs.seek_before(key)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.pairs.seek_to_first()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.pairs.seek_to_last()
    }

    #[inline]
    fn take(&mut self, forward: bool) -> Result<bool> {
        self.pairs.take(forward)
    }

    fn turn_back(&mut self, key: &[u8]) -> Result<()> {
        self.pairs.seek_before(key)
    }

    #[inline]
    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.pairs.pair()
    }

    fn owned_pair(&self) -> Option<(Bytes, Bytes)> {
        self.pairs.owned_pair()
    }
}

/// A cursor over the pairs of a keyspace within bounds, at one snapshot.
pub fn walk<S: Shape>(lsm: Arc<Lsm<S>>, bounds: Bounds, snapshot: SnapshotGuard) -> Walk<Stretches<S>> {
    Walk::new(Stretches { lsm, snapshot }, bounds)
}
