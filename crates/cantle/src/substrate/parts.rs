//! The parts of layouts in checkpoints.

use crate::sync::{Arc, Mutex};
use crate::types::error::{Error, Result};
use std::sync::Weak;

/// A keyspace that takes part in checkpoints, because it adds edits to them or needs to know when
/// one is durable.
pub trait CheckpointPart: Send + Sync {
    /// The edits of the keyspace that count with the checkpoint of this version. Called before
    /// dirty logs are synced: a log that the edits name and that is written here is synced with the
    /// checkpoint, if it is among the dirty ones. The edits are applied after every edit that the
    /// keyspace appends in the meantime, so they must not undo any. The version is that of an open
    /// snapshot, for which no write is pending. An error fails the checkpoint, except for
    /// corruption, which omits this part.
    fn edits(&self, version: u64) -> Result<Vec<Vec<u8>>>;
    /// Called when the checkpoint of this version is durable: space that only earlier checkpoints
    /// need may be reused.
    fn durable(&self, version: u64);
}

/// The keyspaces of a store that take part in checkpoints.
#[derive(Default)]
pub struct CheckpointParts(Mutex<Vec<(u32, Weak<dyn CheckpointPart>)>>);

impl CheckpointParts {
    /// Adds a part, from the next checkpoint on, for as long as it lives.
    #[cfg_attr(not(feature = "labs"), expect(dead_code, reason = "layouts to come write so"))]
    pub fn add(&self, keyspace: u32, part: Weak<dyn CheckpointPart>) {
        self.0.lock().push((keyspace, part));
    }

    fn all(&self) -> Vec<(u32, Arc<dyn CheckpointPart>)> {
        let mut parts = self.0.lock();
        parts.retain(|(_, part)| part.strong_count() > 0);
        parts.iter().filter_map(|(keyspace, part)| Some((*keyspace, part.upgrade()?))).collect()
    }

    pub(super) fn edits(&self, version: u64) -> Result<Vec<(u32, Vec<u8>)>> {
        let mut edits = Vec::new();
        for (keyspace, part) in self.all() {
            match part.edits(version) {
                Ok(more) => edits.extend(more.into_iter().map(|edit| (keyspace, edit))),
                // A damaged keyspace must not keep the others from becoming durable.
                Err(error @ Error::Corruption { .. }) => {
                    tracing::error!(%error, keyspace, "a damaged keyspace is left out of a checkpoint");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(edits)
    }

    pub(super) fn durable(&self, version: u64) {
        self.all().into_iter().for_each(|(_, part)| part.durable(version));
    }
}
