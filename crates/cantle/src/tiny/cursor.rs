//! A cursor that holds all pairs that its snapshot sees.

use super::keyspace::Keyspace;
use crate::layout::PairCursor;
use crate::mvcc::SnapshotGuard;
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use bytes::Bytes;

pub struct Cursor {
    keyspace: Arc<Keyspace>,
    bounds: Bounds,
    snapshot: SnapshotGuard,
    /// Filled by the first movement.
    pairs: Option<Vec<(Bytes, Bytes)>>,
    /// The position of the cursor in `pairs`.
    at: Option<usize>,
}

impl Cursor {
    pub fn new(keyspace: Arc<Keyspace>, bounds: Bounds, snapshot: SnapshotGuard) -> Self {
        Self { keyspace, bounds, snapshot, pairs: None, at: None }
    }

    fn pairs(&mut self) -> Result<&[(Bytes, Bytes)]> {
        if self.pairs.is_none() {
            self.pairs = Some(self.keyspace.map()?.read().pairs(&self.bounds, self.snapshot.version()));
        }
        Ok(self.pairs.as_deref().unwrap_or_default())
    }

    fn go(&mut self, to: impl FnOnce(&[(Bytes, Bytes)]) -> Option<usize>) -> Result<bool> {
        let pairs = self.pairs()?;
        let at = to(pairs).filter(|&at| at < pairs.len());
        self.at = at;
        Ok(at.is_some())
    }
}

impl PairCursor for Cursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let order = self.keyspace.env.order.clone();
        self.go(|pairs| Some(pairs.partition_point(|(pair, _)| order.compare(pair, key).is_lt())))
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.go(|_| Some(0))
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.go(|pairs| pairs.len().checked_sub(1))
    }

    fn next(&mut self) -> Result<bool> {
        let at = self.at;
        self.go(|_| at.map(|at| at + 1))
    }

    fn prev(&mut self) -> Result<bool> {
        let at = self.at;
        self.go(|_| at?.checked_sub(1))
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        let (key, value) = self.pairs.as_ref()?.get(self.at?)?;
        Some((key, value))
    }
}
