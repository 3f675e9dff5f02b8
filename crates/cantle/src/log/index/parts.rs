//! What a log consists of, at one moment: its parts, and what is known of all of them together.

use crate::format::header::FileHeader;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::memory_part::MemoryPart;
use crate::log::index::view::MergedIndex;
use crate::log::op::record::key_digest;
use crate::sync::Arc;
use crate::types::error::{Error, Result};

/// A stretch behind the indexed parts of a log of an earlier epoch in which operations are lost: what they wrote hides
/// whatever is older, whether in this log or in files beneath.
#[derive(Debug, Clone)]
pub struct Hole {
    pub offset: u64,
    /// The digest of the one key that is concerned; else any may be.
    pub digest: Option<u32>,
    pub error: Error,
}

/// The parts of a segment, newest first.
pub struct Parts {
    pub header: FileHeader,
    pub memory: Option<Arc<MemoryPart>>,
    pub indexed: Vec<Arc<IndexedPart>>,
    /// In the order in which they lie.
    holes: Vec<Hole>,
    /// Of the indexed parts; as these never change, neither does it.
    pub view: MergedIndex,
}

impl Parts {
    pub fn new(header: FileHeader, memory: Option<Arc<MemoryPart>>, indexed: Vec<Arc<IndexedPart>>) -> Self {
        let view = MergedIndex::new(indexed.iter().map(|part| part.entries).sum());
        Self { header, memory, indexed, holes: Vec::new(), view }
    }

    pub fn with_holes(mut self, holes: Vec<Hole>) -> Self {
        canary!(HOLES_FORGOTTEN => let holes = Vec::new());
        self.holes = holes;
        self
    }

    /// The last stretch in which an operation on `key` may be lost.
    pub fn hole_of(&self, key: &[u8]) -> Option<&Hole> {
        if self.holes.is_empty() {
            return None;
        }
        let digest = key_digest(key);
        self.holes.iter().rev().find(|hole| hole.digest.is_none_or(|lost| lost == digest))
    }

    /// For who reads many keys: a pair may be missing anywhere, or be an older one.
    pub fn check_whole(&self) -> Result<()> {
        self.holes.first().map_or(Ok(()), |hole| Err(hole.error.clone()))
    }
}
