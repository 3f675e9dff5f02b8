//! The state that the cursors of one merge share for a log. A log has a cursor for each of its
//! parts: dozens, of which a short scan uses few.

use crate::block::BlockCursor;
use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::index::parts::Parts;
use crate::log::read::ahead::{ReadBuffer, Reads};
use crate::log::segment::Segment;
use crate::read_ahead::BytesRead;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::span::Span;
use std::sync::OnceLock;

/// A log while it is merged.
pub struct LogWalk {
    pub env: Arc<LogEnv>,
    pub segment: Arc<Segment>,
    pub parts: Arc<Parts>,
    /// For a job that passes once over all parts, and needs all values one after the other.
    pub once: Option<OnePass>,
    /// Counts reads of the log, unless it is read at once.
    pub reads: Reads,
}

/// A job that passes once over a log's parts.
pub struct OnePass {
    /// The keys that the job needs.
    pub span: Arc<Span>,
    /// The log in memory, read at first use; `None` if it is too long, or there was no memory for
    /// it.
    pub whole: OnceLock<Option<ReadBuffer>>,
    /// Counts the bytes of the records that the job has read.
    pub read: BytesRead,
    /// Longer records are not read in advance: the job does without most of them.
    pub longest: u32,
}

impl OnePass {
    /// `at_once`: true if reading the whole log into memory is worthwhile.
    pub fn new(span: Arc<Span>, at_once: bool, read: BytesRead) -> Self {
        let whole = OnceLock::new();
        if !at_once {
            whole.get_or_init(|| None);
        }
        Self { span, whole, read, longest: u32::MAX }
    }

    /// Reads no record in advance that is longer, and never the whole log.
    pub fn without_longer(span: Arc<Span>, longest: u32, read: BytesRead) -> Self {
        Self { longest, ..Self::new(span, false, read) }
    }
}

impl LogWalk {
    /// A cursor over the index block at this place, from the log in memory if it is there.
    pub fn index_block(&self, place: RecordPtr) -> Result<BlockCursor> {
        let header = &self.parts.header;
        let block = match self.once.as_ref().and_then(|once| once.whole.get()) {
            Some(Some(whole)) => whole.block(&self.segment, header, place)?,
            _ => self.segment.index_block(&self.env, header, place)?,
        };
        Ok(BlockCursor::new(block, self.env.order.clone()))
    }
}
