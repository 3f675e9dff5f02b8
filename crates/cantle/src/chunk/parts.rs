//! What a log consists of, at one moment: its parts, and what is known of all of them together.

use super::indexed_part::IndexedPart;
use super::log_view::LogView;
use super::memory_part::MemoryPart;
use crate::format::header::FileHeader;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The parts of a segment, newest first.
pub struct Parts {
    pub header: FileHeader,
    pub memory: Option<Arc<MemoryPart>>,
    pub indexed: Vec<Arc<IndexedPart>>,
    /// Of the indexed parts; as these never change, neither does it.
    pub view: LogView,
    /// Of how many of the indexed parts the ends are known, or fewer where one was learnt while another part was added.
    ends_known: AtomicUsize,
}

impl Parts {
    pub fn new(header: FileHeader, memory: Option<Arc<MemoryPart>>, indexed: Vec<Arc<IndexedPart>>) -> Self {
        let view = LogView::new(indexed.iter().map(|part| part.entries).sum());
        let ends_known = indexed.iter().filter(|part| part.ends.get().is_some()).count();
        Self { header, memory, indexed, view, ends_known: AtomicUsize::new(ends_known) }
    }

    pub fn ends_known(&self) -> usize {
        self.ends_known.load(Relaxed)
    }

    /// The ends of one more part are known now.
    pub fn note_ends(&self) {
        self.ends_known.fetch_add(1, Relaxed);
    }
}
