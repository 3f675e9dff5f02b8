//! Validation of a transaction: checks if its read set has changed since its snapshot.
//!
//! The chunks concerned are locked, so everything written to them is committed and nothing is
//! written meanwhile. Most of them were not written to since the snapshot, as one number shows
//! (`Chunk::newest_version`); the others are checked by `run::changed`. Newer versions are always
//! in the funk, as every put is logged, whether or not the chunk has a munk.

use crate::chunk::chunk::Chunk;
use crate::chunk::context::Context;
use crate::layout::ReadSet;
use crate::run::changed::{key_changed, span_changed};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::error::Result;
use std::cmp::Ordering;
use std::ops::Bound;

/// The first key or range of `reads` that changed in one of `chunks` after version `since`. The
/// caller holds the locks of the chunks, which include all chunks that were read.
pub fn conflict_since<'a>(
    context: &Arc<Context>,
    chunks: impl Iterator<Item = &'a Chunk>,
    reads: &ReadSet,
    since: u64,
) -> Result<Option<Bounds>> {
    let order = &context.order;
    for chunk in chunks.filter(|chunk| chunk.newest_version() > since) {
        let funk = chunk.funk.load_full();
        let first = reads.keys.partition_point(|key| {
            chunk.span.start.as_ref().is_some_and(|start| order.compare(key, start) == Ordering::Less)
        });
        for key in reads.keys[first..].iter().take_while(|key| !chunk.span.ends_before(order, key)) {
            if key_changed(&context.run, &funk, key, since)? {
                let at = || Bound::Included(key.to_vec());
                return Ok(Some(Bounds { start: at(), end: at() }));
            }
        }
        for span in reads.spans.iter().filter(|span| chunk.span.overlaps(order, span)) {
            if let Some(changed) = span_changed(&context.run, &funk, span, since)? {
                return Ok(Some(changed));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::chunk::test_support::chunks_of;
    use crate::log::index::memory_part::RecordPtr;
    use crate::types::entry::Kind;
    use crate::vfs::MemVfs;

    #[test]
    fn what_a_log_has_only_noted_is_a_conflict() {
        for by_range in [false, true] {
            let db = Options::new().vfs(Arc::new(MemVfs::new())).open("store").unwrap();
            db.put("a", "").unwrap();
            let tx = db.transaction();
            if by_range {
                assert!(tx.range("b".."c").next().is_none());
            } else {
                assert!(!tx.contains_key("b").unwrap());
            }
            tx.put("d", "").unwrap();
            let chunks = chunks_of(&db);
            let (version, chunk) = (chunks.context.substrate.mvcc.current(), chunks.index.find(b"b"));
            let segment = chunk.funk.load().logs().next().unwrap().clone();
            let memory = segment.loaded().unwrap().memory.clone().unwrap();
            memory.note(b"b", version, Kind::Delete, RecordPtr { offset: segment.len(), len: 0 });
            segment.note_version(version);
            chunk.note_version(version);
            assert!(tx.commit().is_err_and(|error| error.is_conflict()), "by range: {by_range}");
        }
    }
}
