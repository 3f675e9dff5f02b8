//! The parts of layouts in checkpoints.

use crate::sync::{Arc, Mutex};
use crate::types::error::{Error, Result};
use std::sync::Weak;

/// A keyspace that takes part in checkpoints: with edits of its own, or to know what is durable.
pub trait CheckpointPart: Send + Sync {
    /// The edits of the keyspace that count with the checkpoint of this version. Asked before dirty logs are synced: what the edits name
    /// and is written here is synced with the checkpoint if it is among these. They are applied behind every edit that the keyspace appends
    /// meanwhile, so they must not undo any. The version is that of an open snapshot, for which no
    /// write is pending. An error fails the checkpoint, but for corruption, which leaves this part out.
    fn edits(&self, version: u64) -> Result<Vec<Vec<u8>>>;
    /// The checkpoint of this version is durable: what only earlier ones need may be used anew.
    fn durable(&self, version: u64);
}

/// The keyspaces of a store that take part.
#[derive(Default)]
pub struct CheckpointParts(Mutex<Vec<(u32, Weak<dyn CheckpointPart>)>>);

impl CheckpointParts {
    /// From the next checkpoint on, for as long as the part lives.
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
                // One damaged keyspace must not keep the rest from being safe.
                Err(error @ Error::Corruption { .. }) => {
                    tracing::error!(%error, keyspace, "a keyspace takes no part in a checkpoint");
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
